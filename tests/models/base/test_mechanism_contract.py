"""What every mechanism must do, run on each of them by name."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.lab.audit.calibration.calibrate import calibrate, complaints, pooled
from sfumato.lab.audit.calibration.tables import KINDS, Case, small_cases, wide_cases
from sfumato.models import MECHANISMS
from sfumato.models.calibration.fit import innermost
from sfumato.models.weights.fit import ScaledShape
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import default_workload
from sfumato.releases.contents.cube import Cube
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 19},
            "g": {"type": "category", "values": ["a", "b"]},
            "v": {"type": "number", "lower": 0, "upper": 10, "bins": 5},
        },
        "measures": {"m": {"lower": 0, "upper": 100, "step": 1}},
    }
)
QUERIES = (
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE x BETWEEN 3 AND 12",
    "SELECT COUNT(*) FROM t WHERE g = 'a' OR x > 15",
    "SELECT SUM(m) FROM t WHERE g = 'a'",
    "SELECT SUM(x) FROM t WHERE g = 'b'",
    "SELECT AVG(m) FROM t WHERE x < 10",
    "SELECT COUNT(*) FILTER (WHERE x < 5) / COUNT(*) FROM t",
    "SELECT COUNT(*) FROM t WHERE v < 5",
    "SELECT AVG(v) FROM t",
)
SMALL_RUNS, WIDE_RUNS, LINEAR_RUNS = (22, 8), (9, 1), (1, 1)  # releases of one table: most, fewest
MOST_WORK = 2**28  # in numbers changed, by releases of one table


def tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Counts and centred sums of several shapes: smooth, sparse, one huge cell, nothing at all."""
    x, g, v = np.meshgrid(np.arange(20), np.arange(2), np.arange(5), indexing="ij")
    smooth = (60 + 20 * np.sin(x / 4) + 10 * g + v).astype(np.int64)
    sparse = np.where((x * 7 + g * 3 + v) % 11 == 0, 40 + x, 0)
    spike = np.where((x == 4) & (g == 0) & (v == 2), 10**5, 0)
    shapes = {"smooth": smooth, "sparse": sparse, "spike": spike, "nothing": np.zeros_like(smooth)}
    return {name: (counts, counts * (10 * g - v)) for name, counts in shapes.items()}


def released(name: str, counts: np.ndarray, sums: np.ndarray, epsilon: Fraction | int, entropy=None) -> Release:
    curator = curator_of(SCHEMA, counts, sums={"m": sums}, epsilon=epsilon, entropy=entropy or SystemEntropy())
    budget = Budget.pure(epsilon)
    cube = MECHANISMS[name].run(curator, SCHEMA, budget, None)
    # To the last bit, unless no cell was published that a sum could be measured in.
    assert curator.charge.fullest == curator.charge.limit or not len(cube.listed)
    return Release(cube, name, describe_guarantee(budget, SCHEMA), curator.private)


def value(release: Release, sql: str):
    ((found,),) = release.query(sql).rows
    return found


@pytest.mark.parametrize("name", MECHANISMS)
def test_spends_exactly_its_budget_and_is_deterministic_under_the_testing_generator(name):
    counts, sums = tables()["smooth"]
    one, other = (released(name, counts, sums, Fraction(1, 3), TestingEntropy(9)) for _ in range(2))
    assert [value(one, sql) for sql in QUERIES] == [value(other, sql) for sql in QUERIES]
    assert not one.private


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("shape", tables())
def test_is_the_truth_at_a_huge_epsilon(name, shape):
    """Least squares and files keep an estimate to a thousandth of a row per cell; whole counts come out whole."""
    counts, sums = tables()[shape]
    found = released(name, counts, sums, 10**5)
    if isinstance(found.content, Cube) and isinstance(innermost(found.content.fits[0]), ScaledShape):
        # Fitted by a fixed number of steps towards the queries: near, not exact.
        assert value(found, QUERIES[0]).value == pytest.approx(counts.sum(), abs=0.5)
        return
    whole = 0 if MECHANISMS[name].as_measured else 0.25  # an estimate, or the measured numbers themselves
    assert value(found, QUERIES[0]).value == pytest.approx(counts.sum(), abs=whole)
    assert value(found, QUERIES[1]).value == pytest.approx(counts[3:13].sum(), abs=whole)
    assert value(found, QUERIES[3]).value == pytest.approx((sums + 50 * counts)[:, 0].sum(), abs=50 * whole)
    by_x = (counts[:, 1] * np.arange(20)[:, None]).sum()
    assert value(found, QUERIES[4]).value == pytest.approx(by_x, abs=20 * whole)


@pytest.mark.parametrize("name", MECHANISMS)
def test_survives_being_saved_and_opened(name, tmp_path):
    counts, sums = tables()["sparse"]
    made = released(name, counts, sums, 1)
    made.save(tmp_path / "r.sfumato")
    opened = Release.load(tmp_path / "r.sfumato")
    for sql in QUERIES:
        assert opened.query(sql).records() == made.query(sql).records()


@pytest.mark.parametrize("name", MECHANISMS)
def test_intervals_hold_the_truth_as_often_as_they_say(name):
    """105 to 137 releases of eight tables, each asked several questions and pooled (`pytest -s` shows them by kind).

    A mechanism fails whose 95 % intervals hold less than 93 %, if at 95 % that would have a chance of at most 1.3e-8:
    on all tables, on those of few, on those of many attributes; so does one table, and one kind of question on one
    table, at 4e-10. Over all mechanisms a false alarm has a chance of at most 1e-6, whatever the questions on one
    release have in common. How surely a true coverage of 85 % is found, tests/lab/audit/test_calibration.py computes.
    What docs/known-limits.md lists is left out, and must be as listed.
    """
    mechanism = MECHANISMS[name]
    linear = mechanism.forecast.strategy is not None  # the same noise on every table, and slow answers on many cells

    def runs(case: Case) -> int:
        """By work that is counted, not timed."""
        most, fewest = SMALL_RUNS if case in small_cases() else LINEAR_RUNS if linear else WIDE_RUNS
        work = mechanism.forecast.work(
            case.schema, default_workload(case.schema.domain), Budget.pure(case.epsilon), case.rows
        )
        return max(fewest, min(most, MOST_WORK // work))

    answers = calibrate(name, small_cases(), runs, SystemEntropy(), asked=7)
    answers += calibrate(name, wide_cases(), runs, SystemEntropy(), asked=4 if linear else 12)
    assert len(pooled(answers).shares) >= 100 and {one.kind for one in answers} == set(KINDS)
    assert complaints(name, answers, mechanism.lab.known_limits) == []


def test_cells_has_the_error_of_its_closed_form():
    """Squared errors of 300 releases of 200 cells against 2 r / (1 - r)^2: 6 standard errors is a chance below 1e-8."""
    counts, sums = tables()["smooth"]
    errors = []
    for _ in range(300):
        release = released("cells", counts, sums, 1)
        errors.append(release.content.values["count"].reshape(counts.shape) - counts)
    squares = np.square(errors)
    expected = release.content.noises["count"].variance
    assert abs(squares.mean() - expected) < 6 * squares.std() / np.sqrt(squares.size)


def test_sparse_cells_publishes_little_of_an_empty_table():
    counts, sums = tables()["nothing"]
    published = [len(released("sparse-cells", counts, sums, 1).content.listed) for _ in range(50)]
    assert np.mean(published) < 3  # at most one on average: 50 runs exceed 3 with a chance below 1e-20
