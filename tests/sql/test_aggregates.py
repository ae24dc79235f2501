"""The select list, against DuckDB: plans are worked out on the true table here, which no release can do."""

import math
from functools import cache

import duckdb
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError, UnsupportedSQL
from sfumato.schema import Schema
from sfumato.sql import Amount, Column, Key, Select, compile_select

SCHEMA = Schema.from_dict(
    {
        "dataset": "census",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 4},
            "sex": {"type": "category", "values": ["F", "M"]},
            "smoker": {"type": "boolean"},
        },
        "measures": {
            "charge": {"lower": -2, "upper": 10, "missing": "drop"},
            "copay": {"lower": 1, "upper": 3, "missing": "drop"},
        },
    }
)
BINNED = Schema.from_dict(
    {
        "dataset": "census",
        "privacy_unit": "row",
        "attributes": {
            "income": {"type": "number", "lower": 0, "upper": 10000, "bins": 5},
            "age": {"type": "integer", "lower": 10, "upper": 29, "width": 10},
            "sex": {"type": "category", "values": ["F", "M"]},
            "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-03", "by": "day"},
        },
        "measures": {
            "charge": {"lower": -2, "upper": 10, "missing": "drop"},
            "income": {"lower": 0, "upper": 20000, "missing": "drop"},
        },
    }
)
TABLE = [(i % 5, "FM"[i * i % 3 % 2], i % 7 < 3, i * 37 % 13 - 2, i % 3 + 1) for i in range(210)]


@cache
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE census (age INTEGER, sex VARCHAR, smoker BOOLEAN, charge INTEGER, copay INTEGER)")
    connection.executemany("INSERT INTO census VALUES (?, ?, ?, ?, ?)", TABLE)
    return connection


@cache
def columns() -> dict[str, np.ndarray]:
    """The table by columns, attributes as cell numbers."""
    age, sex, smoker, charge, copay = (np.array(column) for column in zip(*TABLE, strict=True))
    return {"age": age, "sex": (sex == "M").astype(int), "smoker": smoker.astype(int), "charge": charge, "copay": copay}


def total(amounts: tuple[Amount, ...], group: np.ndarray) -> float:
    codes = {name: columns()[name] for name in SCHEMA.domain.names}
    everyone = np.ones(len(TABLE), dtype=bool)
    return math.fsum(
        amount.factor
        * np.sum(
            amount.predicate.weights(SCHEMA.domain, codes)[0]
            * (group if amount.grouped else everyone)
            * (1 if amount.of is None else columns()[amount.of])
        )
        for amount in amounts
    )


def value(column: Column, group: np.ndarray) -> float:
    bottom = 1.0 if column.denominator is None else total(column.denominator, group)
    ratio = total(column.numerator, group) / bottom
    if column.bounds is not None:
        assert column.bounds[0] - 1e-9 <= ratio <= column.bounds[1] + 1e-9
    return column.scale * ratio


def answers(sql: str) -> list[tuple[float, ...]]:
    """The rows of the answer with keys as labels, sorted."""
    plan = compile_select(sql, SCHEMA)
    keys = np.array([columns()[name] for name in plan.group_by]).reshape(len(plan.group_by), len(TABLE)).T
    inside = plan.where.weights(SCHEMA.domain, {name: columns()[name] for name in SCHEMA.domain.names})[0] > 0
    found = []
    for key in np.unique(keys[inside], axis=0) if plan.group_by else [()]:
        group = (keys == key).all(axis=1) if plan.group_by else np.ones(len(TABLE), dtype=bool)
        label = {name: SCHEMA.domain[name].label(int(code)) for name, code in zip(plan.group_by, key, strict=True)}
        row = [label[c.attribute] if isinstance(c, Key) else value(c, group) for c in plan.columns]
        found.append(tuple(row))
    return sorted(found)


def duckdb_answers(sql: str) -> list[tuple[float, ...]]:
    return sorted(engine().execute(sql).fetchall())


def defined(rows: list[tuple[float | str | None, ...]]) -> bool:
    """Whether no cell of an answer is NULL (a sum of no rows), nor the result of a division by zero, rounded or not."""
    return all(isinstance(cell, str) or (cell is not None and abs(cell) < 1e9) for row in rows for cell in row)


def assert_same(sql: str) -> None:
    ours, theirs = answers(sql), duckdb_answers(sql)
    assert len(ours) == len(theirs)
    for our_row, their_row in zip(ours, theirs, strict=True):
        for our_cell, their_cell in zip(our_row, their_row, strict=True):
            expected = their_cell if isinstance(their_cell, str | bool) else pytest.approx(float(their_cell), rel=1e-9)
            assert our_cell == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*), COUNT(1), COUNT(age), COUNT(sex), COUNT('x'), COUNT() FROM census",
        "SELECT sex, COUNT(*) AS n FROM census WHERE age BETWEEN 1 AND 3 GROUP BY sex",
        "SELECT smoker, sex, SUM(charge), AVG(charge), AVG(age) FROM census GROUP BY sex, smoker",
        "SELECT SUM(charge) FILTER (WHERE sex = 'F'), COUNT(*) FILTER (WHERE age > 2) FROM census WHERE smoker",
        "SELECT SUM(CASE WHEN sex = 'F' THEN 1 ELSE 0 END), AVG(CASE WHEN age > 2 THEN 1 ELSE 0 END) FROM census",
        "SELECT SUM(CASE WHEN sex = 'F' THEN charge ELSE 0 END), AVG(CASE WHEN age > 2 THEN charge END) FROM census",
        "SELECT SUM(CASE sex WHEN 'F' THEN 2 WHEN 'M' THEN -1 END), SUM(IF(age < 2, 1, 5)) FROM census",
        "SELECT COUNT(CASE WHEN age > 2 THEN 'yes' END), COUNT(CASE WHEN smoker THEN sex ELSE NULL END) FROM census",
        "SELECT COUNT_IF(age > 2), SUM(CAST(smoker AS INTEGER)), SUM((age > 2)::INT) FROM census",
        "SELECT age, COUNT(*) / SUM(COUNT(*)) OVER () FROM census WHERE smoker GROUP BY age",
        "SELECT age, 100.0 * COUNT(*) / (SELECT COUNT(*) FROM census) FROM census WHERE smoker GROUP BY age",
        "SELECT age, SUM(charge) / (SELECT SUM(charge) FROM census c WHERE c.sex = 'F') FROM census GROUP BY age",
        "SELECT sex, AVG(charge) - (SELECT 0 * COUNT(*) + COUNT(*) FROM census) / COUNT(*) FROM census GROUP BY sex",
        "SELECT sex, SUM(charge) / SUM(SUM(charge)) OVER () FROM census GROUP BY sex",
        "SELECT 1 - AVG(age), 100 * (1 - AVG((sex = 'F')::INT)), AVG(charge) / AVG(copay) FROM census",
        "SELECT AVG(charge) + AVG(age), 3 - AVG(charge) + 2 * AVG(age) FROM census",
        "SELECT -(COUNT(*) - 2 * COUNT(*) FILTER (WHERE smoker)) / 4, SUM(charge) * 2 + COUNT(*) FROM census",
        "SELECT (SUM(charge) - SUM(copay)) / (COUNT(*) + SUM(copay)), COUNT(*)::DOUBLE / SUM(charge) FROM census",
        "SELECT SUM(charge + 2 * copay - age / 4 + 1), AVG(-charge), AVG((charge - copay) * 3), SUM(2) FROM census",
        "SELECT SUM(CASE WHEN age > 2 THEN charge END + CASE WHEN sex = 'F' THEN 1 END) FROM census",
        "SELECT AVG(CASE WHEN age > 2 THEN charge END + CASE WHEN sex = 'F' THEN 1 END) FROM census",
        "SELECT AVG(CASE WHEN age > 2 THEN 1 WHEN age > 1 THEN NULL WHEN smoker THEN charge ELSE 7 END) FROM census",
        "SELECT 3 * COUNT(*) / (2 * SUM(copay)), COUNT(*) / (COUNT(*) / 4 + COUNT(*)) FROM census",
        "SELECT CAST(COUNT(*) AS DOUBLE) / 2, (SELECT AVG(charge) FROM census WHERE smoker) FROM census",
        "SELECT COUNT(*) / 3, SUM(age::INT), AVG(CAST(charge AS DOUBLE)), +COUNT(*) FROM census",
    ],
)
def test_the_select_list_means_what_it_means_in_duckdb(sql):
    assert_same(sql)


conditions = st.sampled_from(["age > 2", "sex = 'F'", "smoker", "NOT smoker AND age < 3", "sex = 'M' OR age IN (0, 4)"])
constants = st.sampled_from(["2", "-1", "0.5", "3.0", "(1 + 1)"])
per_row = st.recursive(
    st.one_of(st.sampled_from(["charge", "copay", "age", "1", "0", "smoker::INT"]), conditions.map("({})::INT".format)),
    lambda inner: st.one_of(
        st.builds("CASE WHEN {} THEN {} END".format, conditions, inner),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, conditions, inner, inner),
        st.builds("CASE WHEN {} THEN {} WHEN {} THEN {} END".format, conditions, inner, conditions, inner),
        st.builds("({} {} {})".format, inner, st.sampled_from("+-"), inner),
        st.builds("({} * {})".format, constants, inner),
        st.builds("(-({}) / {})".format, inner, constants),
    ),
    max_leaves=3,
)
filters = st.one_of(st.just(""), conditions.map(" FILTER (WHERE {})".format))
simple = st.one_of(
    st.builds("COUNT(*){}".format, filters),
    st.builds("COUNT({}){}".format, per_row, filters),
    st.builds("SUM({}){}".format, per_row, filters),
)
linear = st.recursive(
    st.one_of(simple, st.builds("SUM({}) OVER ()".format, simple.filter(lambda text: "FILTER" not in text))),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-"), inner),
        st.builds("{} * {}".format, constants, inner),
        st.builds("-({}) / {}".format, inner, constants),
    ),
    max_leaves=3,
)
averages = st.builds("AVG({}){}".format, per_row, filters)
aggregates = st.one_of(
    linear,
    averages,
    st.builds("{} / ({})".format, linear, linear),
    st.builds("{} * {}".format, constants, averages),
    st.builds("1 - {}".format, averages),
)


@pytest.mark.full
@settings(deadline=None, max_examples=150)
@given(aggregates, conditions, st.booleans())
def test_random_aggregates_mean_what_they_mean_in_duckdb(aggregate, where, grouped):
    sql = f"SELECT {aggregate} FROM census WHERE {where}"
    if grouped:
        sql = f"SELECT sex, {aggregate} FROM census WHERE {where} GROUP BY sex"
    assume(defined(duckdb_answers(sql)))
    try:
        compile_select(sql, SCHEMA)
    except QueryError as error:
        assert "always zero" in str(error)
        assert all(row[-1] == 0 for row in duckdb_answers(sql))
    else:
        assert_same(sql)


def column(aggregate: str, schema: Schema = BINNED, rest: str = "") -> Column:
    plan = compile_select(f"SELECT {aggregate} FROM census {rest}", schema)
    (found,) = plan.columns
    assert isinstance(found, Column)
    return found


def test_a_count_is_one_amount():
    assert column("COUNT(*)") == Column("count", (Amount(Predicate.everything(), None),), kind="count")


def test_a_percentage_keeps_its_factor_apart():
    share = column("100.0 * COUNT(*) / SUM(COUNT(*)) OVER ()", rest="GROUP BY sex")
    everyone = Amount(Predicate.everything(), None)
    assert share.numerator == (everyone,)
    assert share.denominator == (Amount(Predicate.everything(), None, grouped=False),)
    assert (share.scale, share.bounds, share.kind) == (100.0, (0.0, 1.0), "share")


def test_without_groups_a_total_is_the_group():
    assert all(amount.grouped for amount in column("COUNT(*) FILTER (WHERE sex = 'F') / SUM(COUNT(*)) OVER ()").amounts)


@pytest.mark.parametrize(
    ("aggregate", "bounds", "kind"),
    [
        ("COUNT(*)", None, "count"),
        ("2 * COUNT(*)", None, "count"),
        ("COUNT(*) / 2", None, "sum"),
        ("SUM(charge)", None, "sum"),
        ("AVG(charge)", (-2, 10), "average"),
        ("AVG(age)", (10, 29), "average"),
        ("AVG(income)", (0, 20000), "average"),  # the measure goes before the attribute of the same name
        ("AVG(charge) FILTER (WHERE sex = 'F')", (-2, 10), "average"),
        ("SUM(charge) / COUNT(*)", (-2, 10), "average"),
        ("AVG(2 * age)", (10, 29), "average"),
        ("-AVG(charge)", (-2, 10), "average"),
        ("AVG(CASE WHEN sex = 'F' THEN charge END)", (-2, 10), "average"),
        ("AVG(CASE WHEN sex = 'F' THEN age ELSE 0 END)", (0, 29), "average"),
        ("AVG(CASE WHEN sex = 'F' THEN 1 ELSE 0 END)", (0, 1), "share"),
        ("AVG(sex = 'F')", (0, 1), "share"),
        ("COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*)", (0, 1), "share"),
        ("COUNT(*) FILTER (WHERE age < 20 AND sex = 'F') / COUNT(*) FILTER (WHERE age < 20)", (0, 1), "share"),
        ("COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*) FILTER (WHERE sex = 'M')", None, "ratio"),
        ("1 - COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*)", (0, 1), "share"),
        ("SUM(charge) / SUM(age)", None, "ratio"),
        ("COUNT(*) / (SELECT COUNT(*) FROM census)", (1, 1), "share"),
        ("COUNT(*) / (SELECT COUNT(*) FROM census WHERE sex = 'F')", None, "ratio"),
    ],
)
def test_bounds_are_those_that_the_schema_implies(aggregate, bounds, kind):
    got = column(aggregate)
    assert (got.bounds, got.kind) == (bounds, kind)


def test_a_share_of_a_total_is_bounded_in_one_direction_only():
    assert column("COUNT(*) / (SELECT COUNT(*) FROM census)", rest="GROUP BY sex").bounds == (0, 1)
    assert column("(SELECT COUNT(*) FROM census) / COUNT(*)", rest="GROUP BY sex").bounds is None


@pytest.mark.parametrize(
    ("aggregate", "name"),
    [
        ("COUNT(*)", "count"),
        ("SUM(charge)", "sum_charge"),
        ("SUM((CHARGE)) FILTER (WHERE sex = 'F')", "sum_charge"),
        ("CAST(AVG(age) AS DOUBLE)", "avg_age"),
        ("COUNT(*) / SUM(COUNT(*)) OVER ()", "share"),
        ("SUM(charge) / SUM(age)", "ratio"),
        ("SUM(charge) AS total", "total"),
        ('SUM(charge) AS "Total charge"', "Total charge"),
        ("SUM(charge) - COUNT(*)", "sum"),
    ],
)
def test_default_names(aggregate, name):
    assert column(aggregate).name == name


def notes(sql: str) -> tuple[str, ...]:
    plan: Select = compile_select(sql, BINNED)
    return plan.notes


def test_sums_by_the_middle_of_bins_are_said():
    (note,) = notes("SELECT AVG(age), SUM(age) FROM census")
    assert "age is known by its bins only" in note
    assert notes("SELECT AVG(income) FROM census") == ()  # a measure is summed itself


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        ("SUM(sex)", "sex is a category: it cannot be summed"),
        ("AVG(day)", "day is a date: it cannot be summed"),
        ("SUM(height)", "no column 'height'"),
        ("COUNT(height)", "no column 'height'"),
        ("SUM('x')", "'x' is text"),
        ("COUNT(*) / 0", "divides by zero"),
        ("SUM(charge / 0)", "divides by zero"),
        ("COUNT(*) / (COUNT(*) - COUNT(*))", "always zero"),
        ("COUNT(*) - COUNT(*)", "always zero"),
        ("1e999 * COUNT(*)", "too large"),
        ("SUM(1e308 * 10 * charge)", "too large"),
    ],
)
def test_what_is_wrong_is_named(aggregate, message):
    with pytest.raises(QueryError, match=message):
        column(aggregate)


@pytest.mark.parametrize(
    ("aggregate", "construct"),
    [
        ("ROUND(AVG(age), 1)", "the function ROUND"),
        ("COUNT(DISTINCT age)", "DISTINCT age"),
        ("SUM(DISTINCT age)", "DISTINCT inside an aggregate"),
        ("SUM(age * charge)", "the product of two columns"),
        ("SUM(1 / age)", "division by a column"),
        ("SUM(age % 2)", "the % operator inside an aggregate"),
        ("SUM(ABS(age))", "the function ABS inside an aggregate"),
        ("SUM(COUNT(*))", "the function COUNT inside an aggregate"),
        ("COUNT(*) + 1", "a constant added to a COUNT or SUM"),
        ("COUNT(*) // 2", "whole-number division"),
        ("COUNT(*) OVER ()", "a window function"),
        ("SUM(COUNT(*)) OVER (PARTITION BY sex)", "a window function"),
        ("SUM(COUNT(*)) OVER (ORDER BY sex)", "a window function"),
        ("SUM(AVG(charge)) OVER ()", "a window over something that is not a COUNT or SUM"),
        ("RANK() OVER (ORDER BY COUNT(*))", "a window function"),
        ("COUNT(*) / (SELECT COUNT(*) FROM census GROUP BY sex)", "GROUP BY in a subquery"),
        ("COUNT(*) / (SELECT COUNT(*), 1 FROM census)", "a subquery of several columns"),
        ("COUNT(*) / (SELECT 5 FROM census)", "a subquery of a constant"),
        ("COUNT(*) / (SELECT 1 UNION SELECT 2)", "UNION"),
        ("COUNT(*) / (SELECT COUNT(*) FROM census LIMIT 1)", "LIMIT in a subquery"),
        ("CAST(COUNT(*) AS VARCHAR)", "a CAST of an aggregate that rounds it or turns it into text"),
        ("CAST(AVG(charge) AS INTEGER)", "a CAST of an aggregate that rounds it"),
        ("SUM(CAST(age AS VARCHAR))", "a CAST inside an aggregate that changes numbers"),
        ("SUM(CAST(charge AS INTEGER))", "a CAST inside an aggregate that changes numbers"),
        ("5", "a column that is a constant"),
        ("'a'", "a constant in the select list"),
        ("age + COUNT(*)", "a column outside an aggregate"),
        ("COUNT(age, sex)", "COUNT of several columns"),
    ],
)
def test_what_is_not_supported_is_named(aggregate, construct):
    with pytest.raises(UnsupportedSQL, match=construct):
        column(aggregate)
