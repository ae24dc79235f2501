"""WHERE to predicates, against DuckDB on a table with one row for every combination of values."""

from functools import cache
from itertools import product

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError, UnsupportedSQL
from sfumato.schema import Schema
from sfumato.sql import compile_select

ROWS = list(product(range(5), ["F", "M", "X"], [False, True], ["2024-01-01", "2024-01-02", "2024-01-03"]))
SCHEMA = Schema.from_dict(
    {
        "dataset": "census",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 4},
            "sex": {"type": "category", "values": ["F", "M", "X"]},
            "smoker": {"type": "boolean"},
            "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-03", "by": "day"},
        },
        "measures": {"charge": {"lower": 0, "upper": 10}},
    }
)
BINNED = Schema.from_dict(
    {
        "dataset": "census",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 99, "width": 10},
            "income": {"type": "number", "lower": 0, "upper": 10000, "bins": 5},
            "sex": {"type": "category", "values": ["F", "M"]},
            "month": {"type": "date", "lower": "2023-01-01", "upper": "2024-12-31", "by": "month"},
            "year": {"type": "date", "lower": "2020-01-01", "upper": "2024-12-31", "by": "year"},
        },
    }
)


@cache
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE census (id INTEGER, age INTEGER, sex VARCHAR, smoker BOOLEAN, day DATE)")
    connection.executemany("INSERT INTO census VALUES (?, ?, ?, ?, ?)", [(i, *row) for i, row in enumerate(ROWS)])
    return connection


def predicate(where: str, schema: Schema = SCHEMA) -> Predicate:
    return compile_select(f"SELECT COUNT(*) FROM census AS c WHERE {where}", schema).where


def rows_in(where: str) -> list[int]:
    """Which rows of the full table a condition keeps, by us."""
    columns = zip(*ROWS, strict=True)
    codes = {
        axis.name: np.array([int(axis.read(value)) - int(axis.edges[0]) for value in column])
        for axis, column in zip(SCHEMA.domain, columns, strict=True)
    }
    share, sure, possible = predicate(where).weights(SCHEMA.domain, codes)
    assert share.tolist() == sure.tolist() == possible.tolist()
    inside = np.broadcast_to(share, len(ROWS))
    return np.flatnonzero(inside).tolist()


def rows_in_duckdb(where: str) -> list[int]:
    return [row for (row,) in engine().execute(f"SELECT id FROM census AS c WHERE {where} ORDER BY id").fetchall()]


ages = st.integers(-1, 6).map(str)
sexes = st.sampled_from(["'F'", "'M'", "'X'"])
days = st.builds("{}'2024-01-0{}'".format, st.sampled_from(["", "DATE "]), st.integers(1, 4))
orders = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
equalities = st.sampled_from(["=", "<>", "!="])
negation = st.sampled_from(["", "NOT "])


def in_list(name: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    listed = st.lists(values, min_size=1, max_size=3).map(", ".join)
    return st.builds(f"{name} {{}}IN ({{}})".format, negation, listed)


leaves = st.one_of(
    st.builds("age {} {}".format, orders, ages),
    st.builds("{} {} age".format, ages, orders),
    st.builds("day {} {}".format, orders, days),
    st.builds("sex {} {}".format, equalities, sexes),
    st.builds("{} {} c.sex".format, sexes, equalities),
    st.builds("age {}BETWEEN {} AND {}".format, negation, ages, ages),
    st.builds("day {}BETWEEN {} AND {}".format, negation, days, days),
    in_list("age", ages),
    in_list("sex", sexes),
    in_list("day", days),
    st.sampled_from(
        ["smoker", "c.smoker", "smoker = TRUE", "smoker <> TRUE", "smoker IS NOT TRUE", "smoker IS FALSE", "smoker = 1"]
    ),
    st.builds("FLOOR((age + {}) / {}) {} {}".format, ages, st.integers(1, 3), orders, ages),
    st.builds("ABS(age - {}) {} {}".format, ages, orders, ages),
    st.builds("age % {} = {}".format, st.integers(1, 3), st.integers(0, 2)),
    st.builds("LOWER(sex) {}LIKE '{}%'".format, negation, st.sampled_from("fmq")),
    st.builds("EXTRACT(DAY FROM day) + age {} {}".format, orders, ages),
    st.builds("CASE WHEN smoker THEN age {} {} ELSE sex = {} END".format, orders, ages, sexes),
    st.sampled_from(["TRUE", "FALSE", "1 = 1", "2 < 1", "1 + 1 >= 2", "'a' <> 'b'", "age < 1.5 * 2", "age > -(-1)"]),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("{} AND {} OR {}".format, inner, inner, inner),
    ),
    max_leaves=8,
)


@settings(deadline=None, max_examples=150)
@given(conditions)
def test_conditions_mean_what_they_mean_in_duckdb(where):
    assert rows_in(where) == rows_in_duckdb(where)


@pytest.mark.parametrize(
    "where",
    [
        *(f"2 {order} age" for order in ("=", "<>", "<", "<=", ">", ">=")),
        *(f"age {order} 2" for order in ("=", "<>", "<", "<=", ">", ">=")),
        "age BETWEEN 3 AND 1",
        "age = 2.5",
        "age < 2.5",
        "age = '3'",
        "AGE > 1 AND Sex = 'F'",
        "\"age\" IN (1, 2) AND sex NOT IN ('F')",
        "((age)) = ((1))",
        "NOT NOT smoker",
        "day < CAST('2024-01-02' AS DATE)",
        "age < 1e3",
        "age > 1e300",
        "age < CAST(2 AS DOUBLE)",
        "sex LIKE 'F%' OR sex NOT ILIKE '%m%'",
        "LOWER(sex) = 'f' OR UPPER(sex) IN ('X')",
        "age < age",
        "age * 2 = 4 OR age % 2 = 1 AND age // 2 = 0",
        "(age > 1) = TRUE",
        "FLOOR(age / 2) = 1 OR ROUND(age / 2) = 0 OR CEIL(age / 3) > 1",
        "CASE WHEN smoker THEN age > 2 ELSE sex = 'F' END",
        "EXTRACT(DAY FROM day) = 2 OR DAYOFWEEK(day) = 1",
        "DATE_TRUNC('month', day) = DATE '2024-01-01' AND YEAR(day) = 2024",
        "ABS(age - 2) <= 1 AND COALESCE(sex, 'none') <> 'F'",
        "age BETWEEN LENGTH(sex) AND 3",
        "CAST(age AS VARCHAR) || sex = '3F'",
        " OR ".join(f"age = {i}" for i in range(-500, 3)),
        " AND ".join(f"age <> {i}" for i in range(3, 500)),
    ],
)
def test_particular_conditions_mean_what_they_mean_in_duckdb(where):
    assert rows_in(where) == rows_in_duckdb(where)


def test_conditions_with_the_same_rows_are_the_same_region():
    assert predicate("age <= 2") == predicate("age < 3") == predicate("age < 2.5") == predicate("age IN (0, 1, 2)")
    assert predicate("age >= 0") == predicate("sex IN ('M', 'F', 'X')") == Predicate.everything()
    assert predicate("age > 4") == predicate("age < 0") == Predicate.nothing()
    assert predicate("income <= 10000", BINNED) == Predicate.everything()
    assert predicate("income < 10000", BINNED) != Predicate.everything()


@pytest.mark.parametrize("where", ["age > 1e999", "age < -1e999", "age BETWEEN 0 AND 1e309"])
def test_numbers_beyond_floating_point_are_refused_by_name(where):
    with pytest.raises(QueryError, match="too large; write one up to 1e308"):
        predicate(where)


@pytest.mark.parametrize(
    ("where", "share"),
    [
        ("income < 2000", [1, 0, 0, 0, 0]),
        ("income < 3000", [1, 0.5, 0, 0, 0]),
        ("income <= 2000", [1, 0, 0, 0, 0]),
        ("income BETWEEN 1000 AND 9000", [0.5, 1, 1, 1, 0.5]),
        ("income = '[2000, 4000)'", [0, 1, 0, 0, 0]),
        ("income >= '[8000, 10000]'", [0, 0, 0, 0, 1]),
        ("income IN ('[0, 2000)', '[2000, 4000)', 5000)", [1, 1, 0, 0, 0]),
    ],
)
def test_bins_are_covered_by_their_share(where, share):
    got = predicate(where, BINNED).weights(BINNED.domain, {"income": np.arange(5)})
    assert got[0].tolist() == pytest.approx(share)


@pytest.mark.parametrize("label", BINNED.domain["income"].labels())
def test_a_bin_named_by_its_label_is_not_cut(label):
    assert predicate(f"income = '{label}'", BINNED).exact(BINNED.domain)
    assert predicate(f"income = '{label}'", BINNED).volume(BINNED.domain) == BINNED.domain.size / 5


def test_labels_of_dates_stand_for_all_their_days():
    assert predicate("month = '2023-05'", BINNED) == predicate("month BETWEEN '2023-05-01' AND '2023-05-31'", BINNED)
    assert predicate("month < '2023-05'", BINNED) == predicate("month < '2023-05-01'", BINNED)
    assert predicate("month <= '2023-05'", BINNED) == predicate("month < '2023-06-01'", BINNED)
    assert predicate("year = 2022", BINNED) == predicate("year >= '2022-01-01' AND year < DATE '2023-01-01'", BINNED)
    assert predicate("age = '20 to 29'", BINNED) == predicate("age >= 20 AND age < 30", BINNED)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("sex > 'F'", "sex > 'F': sex is of type category, whose values have no order; use =, <> or IN"),
        ("sex BETWEEN 'F' AND 'M'", "no order"),
        ("smoker < TRUE", "no order"),
        ("sex = 'Q'", "sex has no value 'Q'; it has 'F', 'M', 'X'"),
        ("sex IN ('F', 'Q')", "no value 'Q'"),
        ("ag = 3", r"no column 'ag' \(did you mean age\?\); there are age, sex, smoker, day, charge"),
        ("height = 3", "no column 'height'; there are age"),
        ("x.age = 3", "no table 'x' in FROM"),
        ("charge > 3", "charge is a measure, which a release only sums, so it cannot be used in a condition"),
        ("age", "age alone is not a condition"),
        ("5", "5 alone is not a condition"),
        ("age = 'abc'", "age is a number; 'abc' is not"),
        ("age = TRUE", "age is a number"),
        ("age = 'NaN'", "age is a number"),
        ("day = 'soon'", "day is a date; write it as '2024-12-31'"),
        ("smoker = 'perhaps'", "smoker has no value 'perhaps'"),
        ("1 = 'a'", "compares text with a number"),
        ("age < 1 / 0", "divides by zero"),
        ("age < 1e308 * 10", "too large"),
    ],
)
def test_what_is_wrong_is_named(where, message):
    with pytest.raises(QueryError, match=message):
        predicate(where)


@pytest.mark.parametrize(
    ("where", "construct"),
    [
        ("my_function(sex) = 'f'", "the function MY_FUNCTION"),
        ("charge IS NULL", r"charge IS NULL or IS NOT NULL, of a measure, is not supported; write COUNT\(charge\)"),
        ("age = NULL", "NULL in a condition"),
        ("age IN (1, NULL)", "NULL in a condition"),
        ("age IN (SELECT 1)", "a SELECT without FROM"),
        ("age = (SELECT 1)", "a subquery in a condition"),
        ("EXISTS (SELECT 1)", "EXISTS"),
        ("age = ?", "a parameter"),
        ("day + INTERVAL '1 day 2 hours' < DATE '2024-01-01'", "INTERVAL of this form is not supported"),
        ("day + INTERVAL 5 MINUTE < DATE '2024-01-01'", "an interval of a minute is not supported"),
        ("COUNT(*) > 3", "the function COUNT"),
        ("age BETWEEN SYMMETRIC 3 AND 1", "BETWEEN SYMMETRIC"),
    ],
)
def test_what_is_not_supported_is_named(where, construct):
    with pytest.raises(UnsupportedSQL, match=construct):
        predicate(where)


def test_every_row_has_a_value_where_rows_without_one_were_left_out():
    assert predicate("age IS NOT NULL AND NOT sex IS NULL") == Predicate.everything()
    select = compile_select("SELECT COUNT(*) FROM census WHERE age IS NULL", SCHEMA)
    assert not select.where and "age IS NULL holds for no row: rows without a value were left out" in select.notes[0]


def test_conditions_that_fall_into_too_many_boxes_are_refused():
    first = " OR ".join(f"(age = {i} AND income = {i * 100})" for i in range(40))
    second = " OR ".join(
        f"(month = '2024-{i // 4 + 1:02d}-{i % 4 + 1:02d}' AND year < '2021-01-{i % 28 + 2:02d}')" for i in range(40)
    )
    assert len(predicate(first, BINNED).boxes) == 40
    with pytest.raises(QueryError, match="too complicated"):
        predicate(f"({first}) AND ({second})", BINNED)


@pytest.mark.parametrize(
    ("where", "share", "sure", "possible"),
    [
        ("day >= '2024-01-02 12:00'", [0, 0.5, 1], [0, 0, 1], [0, 1, 1]),
        ("day < TIMESTAMP '2024-01-02 06:00:00'", [1, 0.25, 0], [1, 0, 0], [1, 1, 0]),
        ("day = '2024-01-02 12:00'", [0, 0, 0], [0, 0, 0], [0, 1, 0]),
        ("day <> '2024-01-02 12:00'", [1, 1, 1], [1, 0, 1], [1, 1, 1]),
        ("day >= '2024-01-02 00:00'", [0, 1, 1], [0, 1, 1], [0, 1, 1]),
        ("day < DATE '2024-01-02 06:00:00'", [1, 0, 0], [1, 0, 0], [1, 0, 0]),
    ],
)
def test_a_time_of_day_cuts_its_day(where, share, sure, possible):
    got = predicate(where).weights(SCHEMA.domain, {"day": np.arange(3)})
    assert [part.tolist() for part in got[1:]] == [sure, possible]
    assert got[0].tolist() == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize(
    ("where", "share"),
    [
        ("FLOOR(income / 2000) = 1", [0, 1, 0, 0, 0]),
        ("FLOOR(income / 1000) = 1", [0.5, 0, 0, 0, 0]),
        ("ROUND(income, -3) = 2000", [0.25, 0.25, 0, 0, 0]),
        ("CAST(income / 1000 AS INTEGER) < 3", [1, 0.25, 0, 0, 0]),
        ("2 * income + 1000 > 15000", [0, 0, 0, 0.5, 1]),
        ("CASE WHEN income < 4000 THEN 'low' ELSE 'high' END = 'high'", [0, 0, 1, 1, 1]),
    ],
)
def test_steps_of_a_real_number_are_found_where_they_are(where, share):
    got = predicate(where, BINNED).weights(BINNED.domain, {"income": np.arange(5)})
    assert got[0].tolist() == pytest.approx(share)


def test_what_is_not_constant_inside_a_bin_is_refused():
    with pytest.raises(UnsupportedSQL, match="income is known by its bins only"):
        predicate("income % 2 = 1", BINNED)
    with pytest.raises(QueryError, match="more than 10,000 pieces"):
        predicate("FLOOR(income * 1000) = 1", BINNED)


LABELLED = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "icd10": {
                "type": "category",
                "values": ["A00", "A01", "B10"],
                "labels": {"A00": "Cholera", "A01": "Typhoid", "B10": "Aphthae"},
            },
            "sex": {"type": "category", "values": ["F", "M"]},
        },
    }
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("icd10 LIKE 'A0%'", "A00 A01"),
        ("icd10 LIKE 'A%'", "A00 A01 B10"),  # a code, or the label
        ("icd10 LIKE 'Typh%'", "A01"),
        ("icd10 ILIKE 'a0_'", "A00 A01"),
        ("icd10 NOT LIKE 'A0%'", "B10"),
        ("icd10 NOT LIKE 'A%'", ""),
        ("NOT (icd10 LIKE 'A0%' OR icd10 LIKE 'Aph%')", ""),
        ("SUBSTR(icd10, 1, 2) = 'A0'", "A00 A01"),
        ("LEFT(icd10, 1) IN ('B', 'T')", "A01 B10"),
        ("LEFT(icd10, 1) <> 'A'", ""),
        ("LEFT(icd10, 2) <> 'A0'", "B10"),
        ("STARTS_WITH(icd10, 'B1')", "B10"),
        ("UPPER(icd10) BETWEEN 'A01' AND 'A99'", "A01"),
        ("icd10 || 'x' = 'A01x'", "A01"),
        ("icd10 = 'A01' OR icd10 = 'Cholera'", "A00 A01"),
    ],
)
def test_a_condition_holds_of_a_value_where_it_holds_of_its_label_or_its_code(condition, expected):
    predicate = compile_select(f"SELECT COUNT(*) FROM t WHERE {condition}", LABELLED).where
    share, _, _ = predicate.weights(LABELLED.domain, {"icd10": np.arange(3), "sex": np.zeros(3, np.int64)})
    assert " ".join(np.array(["A00", "A01", "B10"])[share > 0]) == expected


def test_groups_of_an_expression_are_called_by_the_label():
    from sfumato.sql import compile_statement

    (table,) = compile_statement("SELECT LEFT(icd10, 1) AS i, COUNT(*) FROM t GROUP BY i", LABELLED).tables
    assert [block.keys for block in table.parts[0].blocks] == [("C",), ("T",), ("A",)]


@pytest.mark.parametrize(
    ("condition", "note"),
    [
        ("icd10 LIKE 'Z%'", "no listed value of icd10 matches 'Z%'"),
        ("sex ILIKE 'x%' OR sex = 'F'", "no listed value of sex matches 'x%'"),
        ("SUBSTR(icd10, 1, 2) = 'Z9'", "no listed value of icd10 fulfils SUBSTR(icd10, 1, 2) = 'Z9'"),
        ("icd10 LIKE 'A%'", None),
        ("'a' LIKE 'b'", None),
    ],
)
def test_a_condition_that_no_listed_value_fulfils_is_said_to_be_one(condition, note):
    found = compile_select(f"SELECT COUNT(*) FROM t WHERE {condition}", LABELLED).notes
    assert found == (() if note is None else (note,))
