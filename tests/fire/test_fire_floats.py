"""Attacks on noise by floating point: Mironov's (2012) and the precision attack (Haney et al. 2022) gain nothing.

Both tell neighbouring tables apart by looking not at how large a noisy number is but at which numbers can occur at all.
They fail on a release because each published number is a whole number of steps, on a lattice that the schema alone
fixes, because all of the lattice can occur whatever is in the table, and because all else is computed from these
numbers. Attacks that do work on floating-point noise are kept beside, to show that they are real attacks.

Statistical tests raise a false alarm with a chance of at most 1e-6.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from conftest import curator_of
from sfumato.kernel.budget import Budget
from sfumato.kernel.entropy import SystemEntropy, TestingEntropy
from sfumato.mechanisms import MECHANISMS
from sfumato.publish import open_release, release
from sfumato.queries import Identity
from sfumato.releases.artifact import read_artifact
from sfumato.schema import Schema

FALSE_ALARM = 1e-6
FIELDS = {
    "dataset": "t",
    "privacy_unit": "row",
    "budget": {"epsilon": 1000},
    "attributes": {
        "g": {"type": "category", "values": ["a", "b"]},
        "v": {"type": "number", "lower": -1, "upper": 1, "bins": 4},
    },
    "measures": {"m": {"lower": "-0.3", "upper": "0.7"}, "tiny": {"lower": 0, "upper": "1e-9"}},
}
# Values whose sums in floating point depend on their order, or on each other's size.
AWKWARD = [0.1, 0.2, 0.3, 1e-17, 1e-300, 5e-324, -0.0, 0.7 - 2**-53, 2.0**-30, 1 / 3, 1e300, -1e300, math.inf, math.nan]


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.from_dict(FIELDS)


def table(rows: int, order: np.ndarray | slice = slice(None)) -> pa.Table:
    values = np.resize(np.array(AWKWARD), rows)[order]
    groups = np.resize(np.array(["a", "b", "a"]), rows)[order]
    return pa.table({"g": groups, "v": values, "m": values, "tiny": values * 1e-9})


def numbers(made) -> list[np.ndarray]:
    """Every number that a release publishes."""
    return [m.answers for m in (*made.cube.measurements, *made.cube.totals)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_published_lies_on_a_lattice_of_the_schema(mechanism, schema, tmp_path):
    """In memory and in the file; steps and centres are the same for an empty table and for awkward ones."""
    lattices = []
    for rows in (0, 1, 2, 500):
        book, file = tmp_path / f"{rows}.ledger", tmp_path / f"{rows}.sfumato"
        made = release(table(rows), schema, 3, mechanism=mechanism, ledger=book)
        assert all(answers.dtype == np.int64 for answers in numbers(made))
        made.save(file)
        found = read_artifact(file)
        assert all(column.dtype == np.int64 for column in found.read("cells").values())
        assert all(type(total.value) is int for total in found.manifest.totals)
        listed = {s.of: (s.step, s.centre, s.noise.scale) for s in found.manifest.statistics}
        assert all(type(part) in (int, Fraction) for lattice in listed.values() for part in lattice)
        lattices.append((listed, found.manifest.threshold, [(t.of, t.noise.scale) for t in found.manifest.totals]))
        for name, measure in schema.measures.items():
            if name in listed:
                assert listed[name][:2] == (measure.step, measure.centre)
    full_lists = [lattice for lattice in lattices if len(lattice[0]) == 3]
    assert full_lists and all(lattice == full_lists[0] for lattice in full_lists)
    assert len({lattice[1] for lattice in lattices}) == 1 and all(lattice[2] == lattices[0][2] for lattice in lattices)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_sums_do_not_depend_on_the_order_of_rows(mechanism, schema, tmp_path):
    """The same rows as they come and sorted, with the noise frozen: sums of floats differ in their last bits."""
    values = np.resize(np.array(AWKWARD[:10]), 3001)
    assert sum(values) != sum(np.sort(values))
    by_size = np.argsort(np.resize(np.array(AWKWARD), 3001), kind="stable")
    made = []
    for number, order in enumerate((slice(None), by_size)):
        book, frozen = tmp_path / f"{number}.ledger", TestingEntropy(6)
        made.append(release(table(3001, order), schema, 5, mechanism=mechanism, ledger=book, entropy=frozen))
    for one, other in zip(*map(numbers, made), strict=True):
        assert (one == other).all()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_row_moves_sums_by_whole_steps_however_small_or_large_it_is(mechanism, schema, tmp_path):
    """Neighbours with the noise frozen, at an epsilon at which every cell is published in both forms."""
    for number, value in enumerate(AWKWARD[4::3]):
        made = []
        for rows in (40, 41):
            base = np.append(np.full(40, 0.25), value)[:rows]
            frame = pa.table({"g": ["a"] * rows, "v": np.full(rows, 0.1), "m": base, "tiny": base})
            book = tmp_path / f"{number}-{rows}.ledger"
            made.append(release(frame, schema, 900, mechanism=mechanism, ledger=book, entropy=TestingEntropy(8)))
        bounds = {"count": 1} | {name: measure.half_units for name, measure in schema.measures.items()}
        for one, other in zip(*[(*m.cube.measurements, *m.cube.totals) for m in made], strict=True):
            moved = np.abs(one.answers - other.answers)
            assert moved.sum() <= bounds[one.of], (value, one.of)


def float_laplace(true: float, scale: float, words: np.ndarray) -> np.ndarray:
    """What a textbook does: a uniform float, a logarithm, a sum. Kept as something for the attacks to break."""
    uniform = (words >> np.uint64(11)) * 2.0**-53 + 2.0**-54
    sign = np.where(words & np.uint64(1), 1.0, -1.0)
    return true + sign * scale * np.log(uniform)


def answers_of(true: int, epsilon: Fraction | int, runs: int, entropy, *, huge: int = 0) -> np.ndarray:
    """Noisy counts of a one-cell table, each with noise of its own: `runs` cells that hold the same."""
    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "attributes": {"x": {"type": "integer", "lower": 0, "upper": runs - 1}},
        }
    )
    curator = curator_of(schema, np.full(runs, true + huge, dtype=np.int64), epsilon=epsilon, entropy=entropy)
    return curator.measure(Identity(runs), Budget.pure(epsilon)).answers


def same_law(one: np.ndarray, other: np.ndarray, *, at_least: int = 20) -> float:
    """The p-value of a chi-square test on the values themselves, rare ones pooled."""
    values = np.unique(np.concatenate([one, other]))
    tables = np.array([[(s == v).sum() for v in values] for s in (one, other)])
    common = tables.sum(axis=0) >= at_least
    pooled = np.column_stack([tables[:, common], tables[:, ~common].sum(axis=1)])
    return float(stats.chi2_contingency(pooled[:, pooled.sum(axis=0) > 0]).pvalue)


def test_mironovs_attack_works_on_floats_and_not_on_a_release(full):
    """Which outputs can come from a true answer of 0 and not from 1? Almost all floats; no whole number.

    For 0, 1 and 2 the attacker asks of each output whether it is a true answer plus a possible noise, and guesses.
    20,000 outputs each; 2,000,000 in full.
    """
    runs = 2 * 10**6 if full else 20_000
    entropy = SystemEntropy() if full else TestingEntropy(61)
    zeros = float_laplace(0.0, 1.0, entropy.words(runs))
    ones = float_laplace(1.0, 1.0, entropy.words(runs))
    window = 0.5  # where floats are finer than the sum 1 + noise could leave them
    coarse = [np.mean(np.mod(s[np.abs(s) < window] * 2.0**53, 1) == 0) for s in (zeros, ones)]
    assert coarse[1] == 1.0 and coarse[0] < 0.9  # the attack is real: a finer output proves that nobody was there
    ours = [answers_of(true, 1, runs, entropy) for true in (0, 1)]
    inside = range(-7, 9)  # a value 8 away has a chance of 1.5e-4: 20,000 runs miss it with a chance of 0.05 ...
    near = range(-4, 6)  # ... and one 5 away (0.31 %) with a chance below 1e-26
    for value in inside if full else near:
        assert all((sample == value).any() for sample in ours), value
    moved = same_law(ours[0] + 1, ours[1])
    if full:
        print(f"\nfloats: Mironov on floats tells {1 - coarse[0]:.1%} of outputs near 0; on ours none, p = {moved:.4f}")
    assert moved > FALSE_ALARM


@pytest.mark.parametrize("huge", [0, 2**31, 2**53 - 1, 2**53, 2**60])
def test_the_precision_attack_finds_no_coarser_numbers(huge, full):
    """Large floats are coarser, so that low bits tell how large the answer was before noise. Ours are whole to 2^62.

    Low bits of 40,000 answers (1,000,000 in full) to two neighbours, beside each other and beside an even spread.
    """
    runs = 10**6 if full else 40_000
    entropy = SystemEntropy() if full else TestingEntropy(62)
    # Noise of scale 50 spreads the lowest three bits evenly up to a part in 10^9.
    samples = [answers_of(true, Fraction(1, 50), runs, entropy, huge=huge) for true in (0, 1)]
    bits = np.array([np.bincount(sample & 7, minlength=8) for sample in samples])
    p = [stats.chisquare(row).pvalue for row in bits] + [stats.chi2_contingency(bits).pvalue]
    if full:
        print(f"\nfloats: low bits at {huge}: p = {', '.join(f'{value:.4f}' for value in p)}")
    assert min(p) > FALSE_ALARM / 15
    if huge >= 2**53:
        as_floats = [(huge + true + float_laplace(0.0, 50.0, entropy.words(runs))).astype(np.int64) for true in (0, 1)]
        assert min(stats.chisquare(np.bincount(s & 7, minlength=8)).pvalue for s in as_floats) < FALSE_ALARM


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_whole_releases_of_neighbours_have_one_support(mechanism, schema, tmp_path):
    """300 releases of each of two neighbours at epsilon 3: every count from 19 to 22 occurs for both.

    The share of a cell's count is at most 1, so a value two away has a chance of at least 6 %, and 300 releases miss
    it with a chance below 1e-8.
    """
    size = schema.domain.size
    seen = []
    for extra in (0, 1):
        entropy, values, low = TestingEntropy(63 + extra), set(), set()
        for _ in range(300):
            counts = np.zeros(size, dtype=np.int64)
            counts[3] = 20 + extra
            curator = curator_of(schema, counts, epsilon=3, entropy=entropy)
            cube = MECHANISMS[mechanism].run(curator, schema, Budget.pure(3))
            first = cube.measurements[0]
            place = 3 if first.cells is None else int(np.flatnonzero(first.cells == 3)[0])
            values.add(int(first.answers[place]))
            low.add(int(cube.measurements[1].answers[place]) & 15)
        seen.append((values, low))
    for values, low in seen:
        assert {19, 20, 21, 22} <= values
        assert low == set(range(16))  # the low bits of a sum whose noise is wide: all of them, for both


SQL = (
    "SELECT g, COUNT(*) AS n, SUM(m) AS s, AVG(m) AS a, AVG(v) AS w FROM t GROUP BY g",
    "SELECT COUNT(*) AS n FROM t WHERE v < 0.123",
    "SELECT SUM(tiny) AS s, COUNT(*) FILTER (WHERE g = 'a') / COUNT(*) AS r FROM t",
)
ASK = """
import json, sys
from sfumato.publish import open_release
made = open_release(sys.argv[1])
print(json.dumps([[[[k, v.hex() if isinstance(v, float) else v] for k, v in r.items()]
                   for r in made.query(sql).records()] for sql in sys.argv[2:]]))
"""


def asked(made) -> list:
    return [
        [[[k, v.hex() if isinstance(v, float) else v] for k, v in r.items()] for r in made.query(sql).records()]
        for sql in SQL
    ]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_answers_are_functions_of_what_is_published(mechanism, schema, tmp_path):
    """To the last bit: asked twice, from the file, in another process, with another table behind the same numbers."""
    file = tmp_path / "r.sfumato"
    made = release(table(500), schema, 3, mechanism=mechanism)
    made.save(file)
    answers = asked(made)
    assert asked(made) == asked(open_release(file)) == answers
    run = subprocess.run([sys.executable, "-c", ASK, file, *SQL], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == json.loads(json.dumps(answers))


def test_a_sum_is_exactly_steps_and_centres_of_published_numbers(schema):
    """Worked out in fractions from the published numbers, then rounded once: what the answer says, up to rounding."""
    made = release(table(500), schema, 3)
    values = {m.of: [int(n) for n in m.answers] for m in made.cube.measurements}
    for name, measure in schema.measures.items():
        exact = measure.step * sum(values[name]) + measure.centre * sum(values["count"])
        ((found,),) = made.query(f"SELECT SUM({name}) FROM t").rows
        assert found.value == pytest.approx(float(exact), rel=1e-12)
    ((found,),) = made.query("SELECT COUNT(*) FROM t").rows
    assert found.value == sum(values["count"])
