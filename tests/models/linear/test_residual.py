"""Residual: unbiased, as exact as it says, within its budget, and quick for a hundred attributes."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import sqrt
from time import process_time

import numpy as np
import pytest
from curators import curator_of
from placed_rows import rows_of

from sfumato.errors import MechanismError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.models.linear.residual import MECHANISM, residual
from sfumato.models.linear.strategies.residual_basis import residual_basis, wanted_margins
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SIZES = {"a": 5, "b": 2, "c": 3, "d": 20}
GENERATOR = np.random.default_rng(8)
COUNTS = GENERATOR.poisson(4.0, tuple(SIZES.values()))


def schema_of(sizes, measures=None, contributions=1):
    unit = {"column": "id", "contributions": contributions} if contributions > 1 else "row"
    attributes = {
        name: {"type": "integer", "lower": 0, "upper": size - 1} if size > 1 else {"type": "category", "values": ["v"]}
        for name, size in sizes.items()
    }
    made = {"dataset": "t", "privacy_unit": unit, "attributes": attributes}
    return Schema.from_dict(made | ({"measures": measures} if measures else {}))


SCHEMA = schema_of(SIZES)


def budgets():
    return [Budget.pure(1), Budget.zcdp(Fraction(1, 3))]


def run(schema, counts, budget, sums=None, entropy=None):
    kind = {"epsilon": budget.epsilon} if budget.is_pure else {"rho": budget.rho}
    curator = curator_of(schema, counts, sums=sums, entropy=entropy or SystemEntropy(), **kind)
    content = residual(curator, schema, budget)
    assert curator.charge.fullest == curator.charge.limit  # to the last bit
    return content


@pytest.mark.full
@pytest.mark.parametrize("budget", budgets(), ids=str)
def test_measured_errors_are_the_expected_ones(budget):
    """Mean squared errors of all cells of four margins over 150 releases, against the closed form.

    A release's mean over a margin of many cells is close to normal; 6 standard errors of the 150 means have a chance
    below 1e-8 for each of the 8 comparisons, 1e-7 in all (t distribution with 149 degrees of freedom).
    """
    basis = residual_basis(SCHEMA.domain.shape, wanted_margins(SCHEMA.domain), pure=budget.is_pure)
    asked = [(), (3,), (0, 3), (0, 1, 3)]
    found = {places: [] for places in asked}
    for _ in range(150):
        content = run(SCHEMA, COUNTS, budget)
        for places in asked:
            kinds = {place: np.arange(SCHEMA.domain.shape[place]) for place in places}
            others = tuple(axis for axis in range(4) if axis not in places)
            found[places].append(float(((content.joined(kinds)["count"] - COUNTS.sum(axis=others)) ** 2).mean()))
    for places, squares in found.items():
        expected = basis.variance(places, float(budget.amount))
        # Whole noise and multiples rounded to whole numbers: two per cent at most.
        assert abs(np.mean(squares) - expected) < 6 * np.std(squares) / sqrt(len(squares)) + 0.02 * expected


@pytest.mark.parametrize("budget", budgets(), ids=str)
def test_errors_that_a_release_states_are_those_that_were_expected(budget):
    basis = residual_basis(SCHEMA.domain.shape, wanted_margins(SCHEMA.domain), pure=budget.is_pure)
    release = Release(run(SCHEMA, COUNTS, budget), MECHANISM.name, describe_guarantee(budget, SCHEMA), True)
    for names in ((), ("d",), ("a", "b"), ("a", "b", "d")):
        by = f" GROUP BY {', '.join(names)}" if names else ""
        found = release.query(f"SELECT {', '.join((*names, 'COUNT(*) AS n'))} FROM t{by}")
        places = tuple(SCHEMA.domain.place(name) for name in names)
        stated = [row[-1].stderr for row in found.rows]
        assert np.array(stated) == pytest.approx(sqrt(basis.variance(places, float(budget.amount))), rel=0.02)


@pytest.mark.full
@pytest.mark.parametrize("budget", budgets(), ids=str)
def test_intervals_of_all_kinds_hold_the_truth(budget):
    """60 releases, 45 answers each, taken as 60 shares of intervals that hold.

    The mean share is above 0.90 unless a share's mean of 0.94 was missed by 0.04: Hoeffding's bound for 60 independent
    shares is loose, so the observed spread is used, with 6 standard errors (a chance below 1e-6 by the t distribution
    with 59 degrees of freedom: 1.3e-7).
    """
    shares = []
    for _ in range(60):
        release = Release(run(SCHEMA, COUNTS, budget), MECHANISM.name, describe_guarantee(budget, SCHEMA), True)
        held = []
        for sql, truth in (
            ("SELECT a, c, COUNT(*) AS n FROM t GROUP BY a, c", COUNTS.sum(axis=(1, 3)).reshape(-1)),
            ("SELECT d, COUNT(*) AS n FROM t GROUP BY d", COUNTS.sum(axis=(0, 1, 2))),
            ("SELECT a, COUNT(*) AS n FROM t WHERE d < 7 AND b = 1 GROUP BY a", COUNTS[:, 1, :, :7].sum(axis=(1, 2))),
            ("SELECT COUNT(*) AS n FROM t", COUNTS.sum(keepdims=True).reshape(-1)),
        ):
            answers = [row[-1] for row in release.query(sql).rows]
            held += [one.low <= value <= one.high for one, value in zip(answers, truth, strict=True)]
        shares.append(np.mean(held))
    mean, error = np.mean(shares), np.std(shares) / sqrt(len(shares))
    assert mean + 6 * error > 0.93 and mean - 6 * error < 0.97


@pytest.mark.parametrize("budget", [Budget.pure(10**5), Budget.zcdp(10**5)], ids=str)
def test_a_huge_budget_gives_the_truth(budget):
    content = run(SCHEMA, COUNTS, budget)
    for places in [part for order in range(4) for part in combinations(range(4), order)]:
        kinds = {place: np.arange(SCHEMA.domain.shape[place]) for place in places}
        others = tuple(axis for axis in range(4) if axis not in places)
        assert content.joined(kinds)["count"] == pytest.approx(COUNTS.sum(axis=others), abs=0.1)


def test_what_was_not_measured_is_unknown():
    release = Release(
        run(SCHEMA, COUNTS, Budget.pure(1)), MECHANISM.name, describe_guarantee(Budget.pure(1), SCHEMA), True
    )
    ((answer,),) = release.query("SELECT COUNT(*) FROM t WHERE a = 1 AND b = 1 AND c = 1 AND d = 1").rows
    assert not np.isfinite(answer.stderr)


@pytest.mark.parametrize("budget", budgets(), ids=str)
def test_measures_contributions_and_files(budget, tmp_path):
    schema = schema_of(SIZES | {"one": 1}, {"m": {"lower": 0, "upper": 1000, "step": 1}}, contributions=3)
    counts = COUNTS[..., None]
    content = run(schema, counts, budget, sums={"m": counts * 7})
    release = Release(content, MECHANISM.name, describe_guarantee(budget, schema), True)
    release.save(tmp_path / "r.sfumato")
    opened = Release.load(tmp_path / "r.sfumato")
    for sql in (
        "SELECT a, b, SUM(m) AS s, AVG(m) AS v, COUNT(*) AS n FROM t GROUP BY a, b",
        "SELECT SUM(m) AS s FROM t",
    ):
        assert opened.query(sql).records() == release.query(sql).records()
    for (places, one), (again, other) in zip(content.measured, opened.content.measured, strict=True):
        assert places == again and one.noise == other.noise and np.array_equal(one.answers, other.answers)
        assert np.array_equal(one.queries.dense(), other.queries.dense())


def test_a_measure_of_many_steps_goes_without_fine_contrasts_but_within_the_budget():
    schema = schema_of(SIZES, {"m": {"lower": 0, "upper": 40_000, "step": 1}})
    content = run(schema, COUNTS, Budget.zcdp(Fraction(1, 100)), sums={"m": COUNTS * 7})
    assert {few for few, _ in content.asked} == {16, 2}


def test_a_table_that_is_too_large_is_refused_before_anything_is_spent():
    schema = schema_of({"a": 2**23, "b": 2})
    with pytest.raises(MechanismError, match="residual does not fit: the table of a has 8,388,608 cells"):
        MECHANISM.check(schema)


@pytest.mark.full
def test_all_pairs_of_a_hundred_attributes():
    """4,950 tables of 100 cells from 2,000 rows: in seconds of work, and exactly within the budget."""
    schema = schema_of({f"a{place}": 10 for place in range(100)})
    rows = np.random.default_rng(1).integers(0, 10, (2_000, 100))
    charge = Charge(Budget.zcdp(Fraction(1, 50)), 1, schema.domain.size)
    curator = Curator(schema.domain, rows_of(schema.domain, rows), {"count": 1}, charge, TestingEntropy(5))
    start = process_time()
    content = residual(curator, schema, Budget.zcdp(Fraction(1, 50)))
    assert process_time() - start < 60
    assert charge.fullest == charge.limit and len(content.tables["count"]) == 1 + 100 + 4_950
    pair = content.joined({0: np.arange(10), 1: np.arange(10)})["count"]
    assert pair.shape == (10, 10)
