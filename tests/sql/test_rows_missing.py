"""Missing values of measures mean what they mean in SQL: answers beside those of DuckDB, and what is refused."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.schema import Schema

ROWS = 4000
SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "budget": {"epsilon": 10**6},
        "attributes": {
            "sex": {"type": "category", "values": ["F", "M"]},
            "age": {"type": "integer", "lower": 0, "upper": 7},
        },
        "measures": {
            "income": {"lower": 0, "upper": 100, "step": 1},
            "debt": {"lower": -20, "upper": 20, "step": 1},
            "hours": {"lower": 0, "upper": 60, "step": 1, "missing": "middle"},
        },
    }
)
QUERIES = [
    "SELECT AVG(income) FROM t",
    "SELECT COUNT(income) FROM t",
    "SELECT SUM(income) FROM t",
    "SELECT COUNT(*) - COUNT(income) AS lacking FROM t",
    "SELECT COUNT(income) / COUNT(*) AS there FROM t",
    "SELECT sex, AVG(income), COUNT(income), SUM(debt) FROM t GROUP BY sex ORDER BY sex",
    "SELECT AVG(2 * income + 7) FROM t WHERE age < 5",
    "SELECT SUM(income - 50) FROM t WHERE sex = 'F'",
    "SELECT AVG(CASE WHEN sex = 'M' THEN income END) FROM t",
    "SELECT AVG(CASE WHEN sex = 'M' THEN income ELSE debt END) FROM t",
    "SELECT COUNT(CASE WHEN age > 3 THEN income ELSE 1 END) FROM t",
    "SELECT SUM(CASE WHEN age > 3 THEN income + 1 ELSE 0 END) FROM t",
    "SELECT AVG(income + income) FROM t",
    "SELECT AVG(debt) FILTER (WHERE age = 2) FROM t",
    "SELECT SUM(income) + SUM(debt) AS both_of_them FROM t",
]


def table() -> pa.Table:
    rng = np.random.default_rng(7)
    sex, age = rng.choice(["F", "M"], ROWS), rng.integers(0, 8, ROWS)
    income, debt = rng.integers(0, 101, ROWS).astype(float), rng.integers(-20, 21, ROWS).astype(float)
    return pa.table(
        {
            "sex": sex,
            "age": age,
            "income": pa.array(income, mask=rng.random(ROWS) < np.where(sex == "F", 0.5, 0.1)),
            "debt": pa.array(debt, mask=rng.random(ROWS) < 0.3),
            "hours": pa.array(rng.integers(0, 61, ROWS).astype(float), mask=rng.random(ROWS) < 0.2),
        }
    )


@pytest.fixture(scope="module", params=["cells", "hierarchical", "sfumato", "margins"])
def release(request, tmp_path_factory):
    """Released with so much budget that answers are those of the table, and opened from its file."""
    folder = tmp_path_factory.mktemp("missing")
    made = sf.release(table(), SCHEMA, epsilon=10**6, mechanism=request.param, ledger=folder / "ledger.db")
    made.save(folder / "t.sfumato")
    return sf.open(folder / "t.sfumato")


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_sql(release, query):
    t = table()  # noqa: F841 (DuckDB finds it by name)
    wanted = duckdb.sql(query).fetchall()
    found = release.query(query).rows
    assert len(found) == len(wanted)
    for mine, theirs in zip(found, wanted, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            assert one == other if isinstance(other, str) else one.value == pytest.approx(float(other), rel=2e-3)


@pytest.mark.parametrize(
    "expression", ["income + debt", "income - 2 * debt", "CASE WHEN age > 3 THEN income END + debt"]
)
def test_two_measures_in_one_row_are_refused_by_name(release, expression):
    """Which rows lack both is not published."""
    with pytest.raises(QueryError, match=r"income and debt|debt and income"):
        release.query(f"SELECT AVG({expression}) FROM t")


def test_the_middle_of_the_bounds_where_the_schema_says_so(release):
    """As files of earlier versions did: 20 % of hours are missing and count as 30."""
    hours = table()["hours"].to_pylist()
    middle = np.mean([30.0 if hour is None else hour for hour in hours])
    ((average, count),) = release.query("SELECT AVG(hours), COUNT(hours) FROM t").rows
    assert average.value == pytest.approx(middle, rel=2e-3) and count.value == pytest.approx(ROWS, rel=1e-3)


def test_a_file_that_does_not_say_has_the_middle(release):
    """The schema of a file from before measures said what becomes of missing values."""
    from sfumato.releases.file.consistency import _saying_what_is_missing

    said = _saying_what_is_missing({"measures": {"a": {"lower": 0}, "b": {"lower": 0, "missing": "keep"}}})
    assert [part["missing"] for part in said["measures"].values()] == ["middle", "keep"]


def test_rows_that_are_drawn_lack_values_as_often(release):
    drawn = release.sample(ROWS, seed=3)
    frame = drawn.to_pandas() if hasattr(drawn, "to_pandas") else drawn
    truth = table().to_pandas()
    for sex in ("F", "M"):
        mine, theirs = (one[one.sex == sex].income for one in (frame, truth))
        # 2,000 rows each: six standard deviations are a false alarm of 2e-9.
        assert abs(mine.isna().mean() - theirs.isna().mean()) < 6 * (0.25 / 2000) ** 0.5
        assert abs(mine.mean() - theirs.mean()) < 6 * 29 / 1000**0.5
