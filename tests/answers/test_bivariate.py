"""Covariance, correlation and least squares of two columns, from noisy counts."""

from __future__ import annotations

from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from curators import curator_of

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SQL = (
    "CORR(y, x), COVAR_POP(y, x), COVAR_SAMP(y, x), REGR_SLOPE(y, x), REGR_INTERCEPT(y, x), REGR_R2(y, x), "
    "REGR_SXX(y, x), REGR_SYY(y, x), REGR_SXY(y, x), REGR_COUNT(y, x), REGR_AVGX(y, x), REGR_AVGY(y, x)"
)


def made(
    schema: Schema, counts: np.ndarray, epsilon: Fraction | int, seed: int = 4, mechanism: str = "cells"
) -> Release:
    budget = Budget.pure(epsilon)
    curator = curator_of(schema, counts, epsilon=epsilon, entropy=TestingEntropy(seed))
    content = MECHANISMS[mechanism].run(curator, schema, budget, None)
    return Release(content, mechanism, describe_guarantee(budget, schema), False)


def schema_of(x: dict, y: dict) -> Schema:
    attributes = {"x": x, "y": y, "sex": {"type": "category", "values": ["F", "M"]}}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def rows_of(counts: np.ndarray) -> pa.Table:
    x, y, sex = (np.repeat(part.reshape(-1), counts.reshape(-1)) for part in np.indices(counts.shape))
    return pa.table({"x": x + 1_000_000, "y": y, "sex": np.array(["F", "M"])[sex]})


SMALL = schema_of(
    {"type": "integer", "lower": 1_000_000, "upper": 1_000_011}, {"type": "integer", "lower": 0, "upper": 7}
)
COUNTS = np.random.default_rng(3).poisson(
    np.exp(-((np.subtract.outer(np.arange(12) / 1.5, np.arange(8)) / 2.0) ** 2))[:, :, None] * [40, 90]
)


def test_statistics_of_two_columns_are_those_of_duckdb_where_there_is_no_noise():
    query = f"SELECT sex, {SQL} FROM t GROUP BY sex ORDER BY sex"
    truth = duckdb.sql(query.replace("FROM t", "FROM rows"), connection=_with(rows_of(COUNTS))).fetchall()
    answer = made(SMALL, COUNTS, 10**6).query(query).rows
    for right, told in zip(truth, answer, strict=True):
        assert [one.value for one in told[1:]] == pytest.approx(right[1:], rel=1e-9)


@pytest.mark.full
def test_intervals_hold_as_often_as_they_say():
    """120 releases at 95 %: 97 or fewer hits of any of twelve statistics have a chance under 1e-6 (binomial)."""
    truth = duckdb.sql(f"SELECT {SQL} FROM rows", connection=_with(rows_of(COUNTS))).fetchall()[0]
    answers = [made(SMALL, COUNTS, Fraction(1, 5), seed).query(f"SELECT {SQL} FROM t").rows[0] for seed in range(120)]
    columns = list(zip(*answers, strict=True))
    held = [sum(one.low <= right <= one.high for one in told) for told, right in zip(columns, truth, strict=True)]
    assert min(held) > 97 and np.mean(held) < 119
    slopes = [row[3] for row in answers]
    spread = np.std([one.value for one in slopes])
    assert spread / 1.5 < np.mean([one.stderr for one in slopes]) < 1.5 * spread


def test_bins_widen_an_interval_and_have_no_guaranteed_one():
    rng = np.random.default_rng(5)
    x = rng.normal(50, 15, 40_000).clip(0, 99.9)
    rows = pa.table({"x": x, "y": (0.6 * x + rng.normal(0, 8, len(x))).clip(0, 99.9)})
    ten = {"type": "number", "lower": 0, "upper": 100, "bins": 10}
    schema = Schema(dataset="t", privacy_unit="row", budget={"epsilon": 10**6}, attributes={"x": ten, "y": ten})
    release = sf.release(rows, schema, epsilon=10**5, mechanism="cells", entropy=TestingEntropy(1))
    query = "SELECT CORR(y, x), REGR_SLOPE(y, x), REGR_INTERCEPT(y, x) FROM t"
    truth = duckdb.sql(query.replace("FROM t", "FROM rows"), connection=_with(rows)).fetchall()[0]
    answer = release.query(query)
    assert all(one.low <= right <= one.high for one, right in zip(answer.rows[0], truth, strict=True))
    assert all(one.high - one.low < 0.3 * abs(right) for one, right in zip(answer.rows[0][:2], truth[:2], strict=True))
    assert "known by bins" in " ".join(answer.notes)
    with pytest.raises(QueryError, match="no guaranteed interval"):
        release.query(query, interval="guaranteed")


def test_a_measure_is_regressed_on_an_attribute_over_the_rows_that_have_one():
    rng = np.random.default_rng(6)
    x = rng.integers(0, 20, 5_000)
    y = np.where(rng.random(len(x)) < 0.1, np.nan, (3.0 * x + rng.normal(20, 5, len(x))).clip(0, 100))
    rows = pa.table({"x": x, "y": pa.array(y, from_pandas=True)})
    schema = Schema(
        dataset="t",
        privacy_unit="row",
        budget={"epsilon": 10**6},
        attributes={"x": {"type": "integer", "lower": 0, "upper": 19}},
        measures={"y": {"lower": 0, "upper": 100}},
    )
    release = sf.release(rows, schema, epsilon=10**5, mechanism="cells", entropy=TestingEntropy(2))
    query = "SELECT REGR_SLOPE(y, x), REGR_INTERCEPT(y, x), COVAR_POP(x, y), REGR_COUNT(y, x), REGR_AVGX(y, x) FROM t"
    truth = duckdb.sql(query.replace("FROM t", "FROM rows"), connection=_with(rows)).fetchall()[0]
    assert [one.value for one in release.query(query).rows[0]] == pytest.approx(truth, rel=1e-3)
    with pytest.raises(QueryError, match="declare it as an attribute"):
        release.query("SELECT CORR(y, x) FROM t")


def test_columns_that_do_not_vary_have_no_slope():
    counts = np.zeros((12, 8, 2), dtype=int)
    counts[4, 3, 0] = 1_000
    slope, correlation = made(SMALL, counts, 10).query("SELECT REGR_SLOPE(y, x), CORR(y, x) FROM t").rows[0]
    assert np.isnan(slope.value) and (correlation.low, correlation.high) == (-1.0, 1.0)


def test_other_arguments_are_refused_by_name():
    release = made(SMALL, COUNTS, 1)
    for text, said in {"CORR(sex, x)": "sex is of type category", "CORR(x + 1, y)": "names of two columns"}.items():
        with pytest.raises(QueryError, match=said):
            release.query(f"SELECT {text} FROM t")


def _with(rows: pa.Table) -> duckdb.DuckDBPyConnection:
    return duckdb.connect().register("rows", rows)


def test_many_statistics_of_pairs_are_worked_out_pair_by_pair():
    """Fifteen statistics of five attributes: no table of more than two is laid out, and each is as if asked alone."""
    schema = Schema(
        dataset="t",
        privacy_unit="row",
        attributes={f"c{at}": {"type": "integer", "lower": 0, "upper": 9} for at in range(5)},
    )
    rng = np.random.default_rng(1)
    columns = [np.clip(rng.normal(4.5, 2, 3_000).astype(int), 0, 9) for _ in range(5)]
    counts = np.bincount(np.ravel_multi_index(columns, (10,) * 5), minlength=10**5).reshape((10,) * 5)
    release = made(schema, counts, 1, mechanism="margins")
    asked = [f"CORR(c{a}, c{b})" for a in range(5) for b in range(a)] + [f"STDDEV(c{a})" for a in range(5)]
    sizes, view = [], type(release.content).view

    def counting(content, kinds):
        sizes.append(len(kinds))
        return view(content, kinds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(release.content), "view", counting)
        together = release.query(f"SELECT {', '.join(asked)} FROM t").rows[0]
    assert max(sizes) == 2
    assert together == tuple(release.query(f"SELECT {one} FROM t").rows[0][0] for one in asked)
