"""Releases of weighted rows: COUNT(*) and all else are weighted, COUNT_ROWS() is not, and intervals hold.

Tables are released with so much epsilon that answers are nearly exact; coverage is tested with little of it. Noise is
that of the testing generator, the same every time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.answers.results import Estimate
from sfumato.errors import MechanismError, QueryError, UnsupportedSQL
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.queries import Total

RANDOM = np.random.default_rng(7)
ROWS = 600
REGION, AGE = RANDOM.choice(list("abc"), ROWS, p=[0.5, 0.3, 0.2]), RANDOM.integers(0, 8, ROWS)
INCOME, WEIGHT = RANDOM.uniform(0, 100, ROWS), RANDOM.integers(1, 17, ROWS) / 8
WEIGHT[REGION == "c"] = 0.125  # as where a small region was asked often: many rows for few people
TABLE = pa.table({"id": np.arange(ROWS), "region": REGION, "age": AGE, "income": INCOME, "w": WEIGHT})
KEYS = {
    "dataset": "survey",
    "privacy_unit": {"column": "id", "contributions": 1},
    "budget": {"epsilon": 10**6},
    "attributes": {
        "region": {"type": "category", "values": ["a", "b", "c"]},
        "age": {"type": "integer", "lower": 0, "upper": 7},
    },
    "measures": {"income": {"lower": 0, "upper": 100}},
    "weight": {"column": "w", "upper": 2, "step": 0.125},
}


def made_by(ledger: Path, mechanism: str, epsilon: float, seed: int = 1, **more: object) -> sf.Release:
    schema = sf.Schema.from_dict({key: part for key, part in (KEYS | more).items() if part is not None})
    return sf.release(TABLE, schema, epsilon, mechanism=mechanism, ledger=ledger, entropy=TestingEntropy(seed))


def released(folder: Path, mechanism: str = "cells", **more: object) -> sf.Release:
    """Nearly exact, and read from its file."""
    made = made_by(folder / f"{len([*folder.iterdir()])}.sqlite", mechanism, 10**4, **more)
    return sf.open(made.save(folder / "r.sfumato"), allow_not_private=True)


def numbers(release: sf.Release, sql: str, **how: object) -> list[float]:
    return [cell.value for row in release.query(sql, **how).rows for cell in row if isinstance(cell, Estimate)]


@pytest.mark.parametrize("name", ["cells", "hierarchical", "sfumato", "margins", "residual"])
def test_counts_sums_and_averages_are_weighted(name, tmp_path):
    made = released(tmp_path, name)
    sql = "SELECT COUNT(*), SUM(income), AVG(income), COUNT_ROWS(), COUNT(*) / COUNT_ROWS() FROM survey WHERE region = "
    for region in "abc":
        here = region == REGION
        w, total = WEIGHT[here], (WEIGHT * INCOME)[here].sum()
        wanted = [w.sum(), total, total / w.sum(), here.sum(), w.mean()]
        assert numbers(made, f"{sql}'{region}'") == pytest.approx(wanted, rel=2e-3)


def test_other_statistics_are_weighted_too(tmp_path):
    made = released(tmp_path)
    mean = np.average(AGE, weights=WEIGHT)
    spread = np.average((AGE - mean) ** 2, weights=WEIGHT) ** 0.5
    assert numbers(made, "SELECT AVG(age), STDDEV_POP(age) FROM survey") == pytest.approx([mean, spread], rel=1e-3)
    slope = np.cov(INCOME, AGE, aweights=WEIGHT)[0, 1] / np.cov(AGE, aweights=WEIGHT)
    assert numbers(made, "SELECT REGR_SLOPE(income, age), REGR_COUNT(income, age) FROM survey") == pytest.approx(
        [slope, WEIGHT.sum()], rel=1e-2
    )
    assert made.regress("income ~ age").rows.value == pytest.approx(WEIGHT.sum(), rel=1e-3)
    assert made.answer(Total(24))[0].value == pytest.approx(WEIGHT.sum(), rel=1e-3)
    assert made.sample(seed=1).num_rows == round(WEIGHT.sum())
    assert made.sample(by="region", seed=1).num_rows == pytest.approx(WEIGHT.sum(), abs=2)
    with pytest.raises(QueryError, match="without population"):
        made.regress("age ~ region", population=True)


def test_both_counts_go_through_subqueries_windows_and_filters(tmp_path):
    made = released(tmp_path)
    c = "WITH c AS (SELECT region, COUNT(*) AS n, COUNT_ROWS() AS k FROM survey GROUP BY region)"
    by_region = [(WEIGHT[region == REGION].sum(), (region == REGION).sum()) for region in "abc"]
    found = numbers(made, f"{c} SELECT region, n / k AS q, SUM(k) OVER (ORDER BY region) AS so_far FROM c")
    wanted = [x for at, (n, k) in enumerate(by_region) for x in (n / k, sum(k for _, k in by_region[: at + 1]))]
    assert found == pytest.approx(wanted, rel=1e-3)
    young = AGE < 3
    found = numbers(made, "SELECT COUNT_ROWS() FILTER (WHERE age < 3), COUNT(*) FILTER (WHERE age < 3) FROM survey")
    assert found == pytest.approx([young.sum(), WEIGHT[young].sum()], rel=1e-3)
    assert made.query("SELECT COUNT(*), COUNT_ROWS() FROM survey").headers[:1] == ("count",)
    assert "count_rows" in made.query("SELECT COUNT(*), COUNT_ROWS() FROM survey").headers


def test_people_are_counted_as_they_are(tmp_path):
    made = released(tmp_path)
    assert numbers(made, "SELECT COUNT(DISTINCT id) FROM survey") == pytest.approx([ROWS], rel=1e-3)


def test_rows_as_they_are_need_a_share_of_the_budget(tmp_path):
    made = released(tmp_path, weight=KEYS["weight"] | {"unweighted_share": 0})
    with pytest.raises(UnsupportedSQL, match="unweighted_share above 0"):
        made.query("SELECT COUNT_ROWS() FROM survey")
    with pytest.raises(UnsupportedSQL, match="write COUNT"):
        made.query("SELECT COUNT(DISTINCT id) FROM survey")


def test_without_weights_both_are_one(tmp_path):
    made = released(tmp_path, weight=None)
    assert numbers(made, "SELECT COUNT(*) - COUNT_ROWS() + COUNT_ROWS() FROM survey") == pytest.approx([ROWS], rel=1e-3)


def test_the_effective_sample_size_is_told_where_squares_are_known(tmp_path):
    assert "is not known" in str(released(tmp_path).describe())
    wanted = WEIGHT.sum() ** 2 / (WEIGHT**2).sum()
    made = released(tmp_path, measures={"w": {"lower": 0, "upper": 2}})
    assert numbers(made, "SELECT COUNT(*) / AVG(w) FROM survey") == pytest.approx([wanted], rel=1e-3)
    assert f"the effective sample size is {wanted:.0f}" in str(made.describe())
    moved = KEYS["weight"] | {"shrink": 0.5, "mean": 1, "step": 0.0625}
    lighter = 0.5 + WEIGHT / 2
    wanted = lighter.sum() ** 2 / (lighter**2).sum()
    described = str(released(tmp_path, measures={"w": {"lower": 0, "upper": 2}}, weight=moved).describe())
    assert f"the effective sample size is {wanted:.0f}" in described


@pytest.mark.parametrize("name", ["sparse-cells", "quantiles", "conjunctions"])
def test_mechanisms_that_count_row_by_row_are_refused_by_name(name, tmp_path):
    with pytest.raises(MechanismError, match=f"{name} counts rows one by one"):
        released(tmp_path, name)


@pytest.mark.full
@pytest.mark.parametrize("name", ["cells", "sfumato", "margins"])
def test_intervals_hold(name, tmp_path):
    """40 releases, 6 answers each, at 95 %: 240 that were independent would be below 0.86 once in ten million times."""
    truth = [x for region in "abc" for x in (WEIGHT[region == REGION].sum(), (region == REGION).sum())]
    held: dict[str, list[bool]] = {"typical": [], "guaranteed": []}
    for seed in range(40):
        made = made_by(tmp_path / f"{seed}.sqlite", name, 1, seed)
        for interval, kept in held.items():
            sql = "SELECT region, COUNT(*), COUNT_ROWS() FROM survey GROUP BY region"
            cells = [cell for row in made.query(sql, interval=interval).rows for cell in row[1:]]
            kept += [cell.low <= true <= cell.high for cell, true in zip(cells, truth, strict=True)]
    assert min(np.mean(kept) for kept in held.values()) >= 0.86
