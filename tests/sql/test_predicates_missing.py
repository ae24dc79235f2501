"""Conditions on attributes that keep rows without a value, against DuckDB's three outcomes."""

from functools import cache
from itertools import product

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql import compile_select

ROWS = list(product([0, 1, 2, 3, None], ["F", "M", None], [False, True, None]))
SCHEMA = Schema.from_dict(
    {
        "dataset": "census",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 3, "missing": "keep"},
            "sex": {"type": "category", "values": ["F", "M"], "missing": "keep"},
            "smoker": {"type": "boolean", "missing": "keep"},
        },
    }
)


@cache
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE census (id INTEGER, age INTEGER, sex VARCHAR, smoker BOOLEAN)")
    connection.executemany("INSERT INTO census VALUES (?, ?, ?, ?)", [(i, *row) for i, row in enumerate(ROWS)])
    return connection


def rows_in(where: str) -> list[int]:
    """Which rows of the full table a condition keeps, by us; one row is one cell, in the order of cells."""
    cells = np.arange(len(ROWS))
    codes = {name: SCHEMA.domain.codes_along(name, cells) for name in SCHEMA.domain.names}
    found = compile_select(f"SELECT COUNT(*) FROM census WHERE {where}", SCHEMA).where
    share, sure, possible = found.weights(SCHEMA.domain, codes)
    assert (share == sure).all() and (share == possible).all()
    return np.flatnonzero(np.broadcast_to(share, len(ROWS))).tolist()


def rows_by_duckdb(where: str) -> list[int]:
    return [row[0] for row in engine().execute(f"SELECT id FROM census WHERE {where} ORDER BY id").fetchall()]


ATOMS = [
    *("age IS NULL", "age IS NOT NULL", "sex IS NULL", "NOT smoker IS NULL", "smoker", "NOT smoker", "smoker = false"),
    *("age >= 1", "age < 0", "age <> 2", "age > -5", "2 > age", "age BETWEEN 1 AND 2", "age NOT BETWEEN 1 AND 2"),
    *("age IN (1, 3)", "age NOT IN (0, 1, 2, 3)", "sex = 'F'", "sex <> 'F'", "sex IN ('F', 'M')", "1 = 1", "1 = 2"),
    *("smoker IS TRUE", "smoker IS NOT TRUE", "smoker IS FALSE", "(age > 1) IS NOT FALSE", "age = 99", "NOT age = 99"),
]
CONDITIONS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} AND {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
        inner.map(lambda one: f"({one}) IS NOT TRUE"),
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("where", ATOMS)
def test_a_condition_keeps_the_rows_that_sql_keeps(where):
    assert rows_in(where) == rows_by_duckdb(where)


@given(CONDITIONS)
def test_so_do_conditions_of_conditions(where):
    assert rows_in(where) == rows_by_duckdb(where)


@pytest.mark.parametrize(
    "of",
    [
        *("COUNT(age)", "COUNT(sex)", "SUM(age)", "SUM(smoker)", "SUM(age > 1)", "AVG(age)", "AVG(smoker)"),
        *("AVG(age > 1)", "AVG(age > 1 OR smoker)", "AVG(NOT smoker)", "AVG(CASE WHEN smoker THEN age ELSE 1 END)"),
        *("COUNT(CASE WHEN NOT smoker THEN 1 END)", "SUM(2 * age + 1)", "AVG(age) FILTER (WHERE sex IS NULL)"),
    ],
)
def test_aggregates_leave_missing_values_out(of):
    select = compile_select(f"SELECT {of} AS a FROM census", SCHEMA)
    cells = np.arange(len(ROWS))
    codes = {name: SCHEMA.domain.codes_along(name, cells) for name in SCHEMA.domain.names}
    (column,) = select.columns

    def total(amounts):
        worth = {None: np.ones(len(ROWS))} | {name: SCHEMA.domain[name].amounts[0][codes[name]] for name in ("age",)}
        worth["smoker"] = SCHEMA.domain["smoker"].amounts[0][codes["smoker"]]
        return sum(
            float(amount.factor * (amount.predicate.weights(SCHEMA.domain, codes)[0] * worth[amount.of]).sum())
            for amount in amounts
        )

    found = total(column.numerator) / (1.0 if column.denominator is None else total(column.denominator))
    of = of.replace("AVG(smoker)", "AVG(smoker::INT)").replace("AVG(NOT smoker)", "AVG((NOT smoker)::INT)")
    of = of.replace("AVG(age > 1 OR smoker)", "AVG((age > 1 OR smoker)::INT)").replace("(age > 1)", "((age > 1)::INT)")
    assert found == pytest.approx(engine().execute(f"SELECT {of} FROM census").fetchone()[0])


def test_the_bounds_of_an_average_are_those_of_values():
    schema = Schema.from_dict(
        SCHEMA.to_dict() | {"attributes": {"age": {"type": "integer", "lower": 18, "upper": 99, "missing": "keep"}}}
    )
    assert compile_select("SELECT AVG(age) FROM census", schema).columns[0].bounds == (18, 99)


def test_no_text_stands_for_a_missing_value():
    for literal in ("'None'", "'NULL'", "''"):
        with pytest.raises(QueryError, match="has no value"):
            rows_in(f"sex = {literal}")
    assert rows_in("age >= 'inf'") == rows_in("age = 'inf'") == []
