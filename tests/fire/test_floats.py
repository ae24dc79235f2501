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
from curators import curator_of
from scipy import stats

from sfumato.answers.fit import PARTS
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.measurement import Measurement
from sfumato.models import MECHANISMS
from sfumato.models.linear.fit import FINENESS, SolvedFit
from sfumato.models.margins.content import Margins
from sfumato.publishing.publish import release
from sfumato.queries import Identity, Total, Workload
from sfumato.releases.contents.content import Content
from sfumato.releases.file.artifact import read_artifact
from sfumato.releases.release import open_release
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
# What these ask of the count, or with which noise, may depend on what they have published before.
FOUND_ON_THE_WAY = ("dawa", "pmw")
# These draw choices too, and how many random bits a choice takes follows the table.
CHOOSING = [name for name, one in MECHANISMS.items() if one.forecast.checks_itself]
# These publish cells; of margins the exact audit knows every distribution (lab/audit/attacks/exact_verbs.py).
OF_CELLS = [name for name, one in MECHANISMS.items() if not one.holds.by_margins]
# Values whose sums in floating point depend on their order, or on each other's size.
AWKWARD = [0.1, 0.2, 0.3, 1e-17, 1e-300, 5e-324, -0.0, 0.7 - 2**-53, 2.0**-30, 1 / 3, 1e300, -1e300, math.inf, math.nan]


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.from_dict(FIELDS)


def table(rows: int, order: np.ndarray | slice = slice(None)) -> pa.Table:
    values = np.resize(np.array(AWKWARD), rows)[order]
    groups = np.resize(np.array(["a", "b", "a"]), rows)[order]
    return pa.table({"g": groups, "v": values, "m": values, "tiny": values * 1e-9})


def measured(content: Content) -> tuple[Measurement, ...]:
    """Everything that was measured for a content, whether it publishes the answers as they are or fits them."""
    found = content.about.measured
    assert {each.of for each in found} >= set(content.schema.units)
    return found


def is_fitted(content: Content) -> bool:
    return content.write().kind == "fitted-cube"


def numbers(made) -> list[np.ndarray]:
    """Every number that a release publishes: answers in steps, and estimates in parts of a step."""
    estimates = [fit.estimate * _parts(fit) for fit in made.content.fits] if is_fitted(made.content) else []
    if isinstance(made.content, Margins):
        estimates = [one.estimate * PARTS for tables in made.content.tables.values() for one in tables.values()]
    assert all((estimate == np.rint(estimate)).all() for estimate in estimates)
    return [each.answers for each in measured(made.content)] + [estimate.astype(np.int64) for estimate in estimates]


def _parts(fit) -> int:
    """What estimates are counted in: those that are solved when asked are rounded more finely than a file keeps."""
    return FINENESS if isinstance(fit, SolvedFit) else PARTS


def noises_in(manifest) -> list[tuple[str, list[tuple[str, int, list[Fraction]]]]]:
    """For each fit in a file, what was measured for it and with which noise."""
    return [
        (fit.of, [(each.of, each.columns, [noise.scale for noise in each.noises]) for each in fit.measurements])
        for fit in manifest.fits
    ]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_what_is_published_lies_on_a_lattice_of_the_schema(mechanism, schema, tmp_path):
    """In memory and in the file; steps, centres and noise are the same for an empty table and for awkward ones.

    A mechanism that finds regions in noisy numbers asks for as many totals as it found, each with the same noise. One
    that finds more on its way still has the same noise on all measures, and exact fractions everywhere.
    """
    lattices, fitted = [], []
    for rows in (0, 1, 2, 500):
        book, file = tmp_path / f"{rows}.ledger", tmp_path / f"{rows}.sfumato"
        made = release(table(rows), schema, 3, mechanism=mechanism, ledger=book)
        assert all(answers.dtype == np.int64 for answers in numbers(made))
        made.save(file)
        found = read_artifact(file)
        for member in found.manifest.members:
            assert all(column.dtype == np.int64 for column in found.read(member).values())
        assert all(type(total.value) is int for total in found.manifest.totals)
        listed = {s.of: (s.step, s.centre, s.noise and s.noise.scale) for s in found.manifest.statistics}
        exact = [part for lattice in listed.values() for part in lattice if part is not None]
        assert all(type(part) in (int, Fraction) for part in exact)
        estimated = is_fitted(made.content) or isinstance(made.content, Margins)
        assert len(exact) == (2 if estimated else 3) * len(listed)
        lattices.append((listed, found.manifest.threshold, [(t.of, t.noise.scale) for t in found.manifest.totals]))
        for name, measure in schema.measures.items():
            if name in listed:
                assert listed[name][:2] == (measure.step, measure.centre)
        fitted.append(noises_in(found.manifest))
    full_lists = [lattice for lattice in lattices if len(lattice[0]) == len(schema.units)]
    assert full_lists and all(lattice == full_lists[0] for lattice in full_lists)
    assert len({lattice[1] for lattice in lattices}) == 1 and all(lattice[2] == lattices[0][2] for lattice in lattices)
    assert len(fitted[0]) == (len(listed) if is_fitted(made.content) else 0)
    for fits in fitted:
        scales = [scale for _, measurements in fits for *_, scales in measurements for scale in scales]
        assert all(type(scale) in (int, Fraction) for scale in scales)
        assert fits[1:] == fitted[0][1:]  # the measures
        if fits and mechanism not in FOUND_ON_THE_WAY:
            (_, mine), (_, first) = fits[0], fitted[0][0]
            assert [(of, scales) for of, _, scales in mine] == [(of, scales) for of, _, scales in first]
        if MECHANISMS[mechanism].forecast.strategy is not None:
            assert fits == fitted[0]


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
        bounds = schema.units
        compared = set()
        pairs = list(zip(*[measured(m.content) for m in made], strict=True))
        for one, other in pairs[:1] if mechanism in CHOOSING else pairs:  # after a choice, noise is no longer frozen
            if one.queries.columns != other.queries.columns:  # other regions were found
                continue
            if one.of not in bounds:  # a misfit: what it is the distance to hangs on what was found before
                continue
            moved = np.abs(one.answers - other.answers)
            assert moved.sum() <= bounds[one.of] * one.queries.l1, (value, one.of)
            compared.add(one.of)
        assert compared == ({"count"} if mechanism in CHOOSING else set(schema.units))


def float_laplace(true: float, scale: float, words: np.ndarray) -> np.ndarray:
    """What a textbook does: a uniform float, a logarithm, a sum. Kept as something for the attacks to break."""
    uniform = (words >> np.uint64(11)) * 2.0**-53 + 2.0**-54
    sign = np.where(words & np.uint64(1), 1.0, -1.0)
    return true + sign * scale * np.log(uniform)


def answers_of(true: int, epsilon: Fraction | int, runs: int, entropy, *, huge: int = 0) -> np.ndarray:
    """Noisy counts of a one-cell table, each with noise of its own: `runs` cells that hold the same."""
    schema = Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": runs - 1}}}
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


def possible(noise, runs: int) -> int:
    """How far from the truth a value may be and still be missed by so many runs with a chance below 1e-9."""
    ratio = math.exp(-1 / noise.scale)
    distance = 0
    while (1 - (1 - ratio) / (1 + ratio) * ratio ** (distance + 1)) ** runs < 1e-9:
        distance += 1
    return distance


@pytest.mark.parametrize("mechanism", OF_CELLS)
def test_whole_releases_of_neighbours_have_one_support(mechanism, schema):
    """300 releases of each of two neighbours, 150 where they are slow, at epsilon 3: both have the same numbers.

    In what is measured first: every number near both truths, as far as so many releases must meet it, and every residue
    of 4. The noise is of scale 1 or wider, so the rarest residue has a chance of 12 %. Of the measures' noise, which is
    very wide, every residue of 8 occurs. Each is missed with a chance below 3e-9, and there are fewer than 100.
    """
    size, runs = schema.domain.size, 150 if mechanism in CHOOSING else 300
    asked = Workload(("cells", "everyone"), (Identity(size), Total(size)))
    seen = []
    for extra in (0, 1):
        entropy, values, low, noises = TestingEntropy(63 + extra), set(), set(), set()
        counts = np.zeros(size, dtype=np.int64)
        counts[3] = 20 + extra
        for _ in range(runs):
            curator = curator_of(schema, counts, epsilon=3, entropy=entropy)
            cube = MECHANISMS[mechanism].run(curator, schema, Budget.pure(3), asked)
            first = measured(cube)[0]
            sums = next(each for each in measured(cube) if each.of == "m")
            if first.cells is not None:
                place = int(np.flatnonzero(first.cells == 3)[0])
            elif first.queries.columns == size:  # the first row that counts the cell, and no other has any rows
                place = int(np.argmax(np.abs(first.queries @ np.eye(size, dtype=np.int64)[3]) == 1))
            else:  # of regions: that of the cell
                labels = getattr(cube.fits[0], "parts", None)
                place = 0 if labels is None else int(labels[3])
            values.add(int(first.answers[place]))
            noises.add(first.noises[0 if first.which is None else first.which[place]])
            low.add(int(sums.answers[0]) & 7)
        seen.append((values, low, noises))
    for values, low, noises in seen:
        assert {value % 4 for value in values} == {0, 1, 2, 3}
        assert low == set(range(8))
        assert min(noise.scale for noise in noises) >= 1
        if len(noises) == 1:
            near = possible(*noises, runs) - 1  # from either truth, which are one apart
            assert set(range(20 - near, 22 + near)) <= values, near
    assert len(seen[0][2] & seen[1][2]) >= 1


SQL = (
    "SELECT g, COUNT(*) AS n, SUM(m) AS s, AVG(m) AS a, AVG(v) AS w FROM t GROUP BY g",
    "SELECT COUNT(*) AS n FROM t WHERE v < 0.123",
    "SELECT SUM(tiny) AS s, COUNT(*) FILTER (WHERE g = 'a') / COUNT(*) AS r FROM t",
)
ASK = """
import json, sys
from sfumato.releases.release import open_release
queries = json.load(sys.stdin)
print(json.dumps({file: [[[[k, v.hex() if isinstance(v, float) else v] for k, v in r.items()]
                          for r in open_release(file).query(sql).records()] for sql in queries]
                  for file in sys.argv[1:]}))
"""


def asked(made) -> list:
    return [
        [[[k, v.hex() if isinstance(v, float) else v] for k, v in r.items()] for r in made.query(sql).records()]
        for sql in SQL
    ]


@pytest.mark.full
def test_answers_are_functions_of_what_is_published(schema, tmp_path):
    """To the last bit: asked twice, from the file, in another process, with another table behind the same numbers."""
    answers = {}
    for mechanism in MECHANISMS:
        file = tmp_path / f"{mechanism}.sfumato"
        made = release(table(500), schema, 3, mechanism=mechanism, ledger=tmp_path / f"{mechanism}.ledger")
        made.save(file)
        answers[str(file)] = asked(made)
        assert asked(made) == asked(open_release(file)) == answers[str(file)], mechanism
    command = [sys.executable, "-c", ASK, *answers]
    run = subprocess.run(command, input=json.dumps(SQL), capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == json.loads(json.dumps(answers))


@pytest.mark.parametrize("mechanism", [name for name in OF_CELLS if not MECHANISMS[name].holds.sparse])
def test_a_sum_is_exactly_steps_and_centres_of_published_numbers(mechanism, schema):
    """Worked out in fractions from the published numbers, then rounded once: what the answer says, up to rounding."""
    made = release(table(500), schema, 3, mechanism=mechanism)
    values = {of: sum(map(Fraction, cells.tolist())) for of, cells in made.content.values.items()}
    assert all((FINENESS if is_fitted(made.content) else 1) % value.denominator == 0 for value in values.values())
    for name, measure in schema.measures.items():
        exact = measure.step * values[name] + measure.centre * (values["count"] - values[f"missing {name}"])
        ((found,),) = made.query(f"SELECT SUM({name}) FROM t").rows
        assert found.value == pytest.approx(float(exact), rel=1e-12)
    ((found,),) = made.query("SELECT COUNT(*) FROM t").rows
    assert found.value == values["count"]
