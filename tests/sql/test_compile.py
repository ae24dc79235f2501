"""Whole statements: groups, order, names, remarks, and everything that must be refused in one line."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError, SfumatoError, UnsupportedSQL
from sfumato.schema import Schema
from sfumato.sql import (
    Amount,
    Column,
    Key,
    Order,
    Select,
    compile_select,
    compile_statement,
    read_workload,
    strict_check,
)
from sfumato.sql.reading import period_asked

SCHEMA = Schema.from_dict(
    {
        "dataset": "census",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 99},
            "income": {"type": "number", "lower": 0, "upper": 10000, "bins": 5},
            "sex": {"type": "category", "values": ["F", "M"]},
            "month": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31", "by": "month"},
        },
        "measures": {"charge": {"lower": 0, "upper": 50000, "missing": "drop"}},
    }
)


def plan(sql: str) -> Select:
    return compile_select(sql, SCHEMA)


def names(sql: str) -> list[str]:
    return [column.name for column in plan(sql).columns]


def test_the_example_of_the_design():
    got = plan("SELECT sex, COUNT(*) AS n FROM census WHERE age BETWEEN 20 AND 40 GROUP BY sex")
    assert got.columns == (Key("sex", "sex"), Column("n", (Amount(got.where, None),)))
    assert got.group_by == ("sex",)
    assert got.where.volume(SCHEMA.domain) == 21 * 5 * 2 * 12
    assert (got.order_by, got.limit, got.offset, got.notes, got.exact) == ((), None, 0, (), True)


@pytest.mark.parametrize(
    "table", ["census", "CENSUS", "release", '"census"', "census c", "census AS c", "release AS census"]
)
def test_the_table_goes_by_its_name_or_release(table):
    assert plan(f"SELECT COUNT(*) FROM {table}").where == Predicate.everything()


def test_qualified_columns():
    assert plan("SELECT c.sex, COUNT(*) FROM census c WHERE c.age < 3 GROUP BY c.sex").group_by == ("sex",)
    assert plan("SELECT census.sex, COUNT(*) FROM census GROUP BY census.sex").group_by == ("sex",)


@pytest.mark.parametrize(
    ("sql", "groups"),
    [
        ("SELECT COUNT(*) FROM census", ()),
        ("SELECT sex, COUNT(*) FROM census GROUP BY 1", ("sex",)),
        ("SELECT COUNT(*), sex AS s FROM census GROUP BY s", ("sex",)),
        ("SELECT sex AS s, COUNT(*) FROM census GROUP BY 1, age", ("sex", "age")),
        ("SELECT sex, income, COUNT(*) FROM census GROUP BY income, sex, income", ("income", "sex")),
        ("SELECT COUNT(*) FROM census GROUP BY sex", ("sex",)),
        ("SELECT sex, month AS m, COUNT(*) FROM census GROUP BY ALL", ("sex", "month")),
        # A column goes before an alias of the same name, as in SQL.
        ("SELECT age AS sex, COUNT(*) FROM census GROUP BY age, sex", ("age", "sex")),
    ],
)
def test_group_by_names_places_and_aliases(sql, groups):
    assert plan(sql).group_by == groups


def test_order_by_places_aliases_keys_and_aggregates():
    got = plan(
        "SELECT sex AS s, COUNT(*) AS n, AVG(charge) FROM census GROUP BY sex, age "
        "ORDER BY 2 DESC, N, s, sex DESC, AVG(charge), avg_charge, age, SUM(charge) DESC LIMIT 5 OFFSET 2"
    )
    total = Column("sum_charge", (Amount(Predicate.everything(), "charge"),), kind="sum")
    expected = [(1, True), (1, False), (0, False), (0, True), (2, False), (2, False), (Key("age", "age"), False)]
    assert got.order_by == tuple(Order(*rule) for rule in [*expected, (total, True)])
    assert (got.limit, got.offset) == (5, 2)
    assert got.aggregates == (*got.columns[1:], total)
    assert list(got.amounts) == [amount for column in got.aggregates for amount in column.amounts]


def test_names_never_collide():
    assert names("SELECT COUNT(*), COUNT(*), SUM(charge), SUM(charge) FROM census") == [
        "count",
        "count_2",
        "sum_charge",
        "sum_charge_2",
    ]
    assert names("SELECT COUNT(*) AS n, SUM(charge) AS n_low FROM census") == ["n", "n_low_2"]
    assert names("SELECT COUNT(*) AS n, sex AS n_stderr FROM census GROUP BY sex") == ["n_2", "n_stderr"]
    assert names("SELECT sex, sex, COUNT(*) AS sex FROM census GROUP BY sex") == ["sex", "sex_2", "sex_3"]


def test_a_cut_bin_is_said_and_strict_refuses_it():
    got = plan("SELECT COUNT(*) FROM census WHERE income <= 2500 AND sex = 'F'")
    assert got.notes == (
        "income <= 2500 cuts the bin [2000, 4000): rows are taken as spread evenly inside a bin, "
        "and the interval allows for any spread",
    )
    assert not got.exact
    with pytest.raises(QueryError, match=r"income <= 2500 cuts the bin \[2000, 4000\).*limits of bins.*\(0, 2000"):
        strict_check(got, SCHEMA.domain)


def test_a_cut_month_is_said_in_months():
    got = plan("SELECT COUNT(*) FROM census WHERE month < DATE '2024-03-10'")
    assert got.notes[0].startswith("month < DATE '2024-03-10' cuts the bin 2024-03: ")
    with pytest.raises(QueryError, match="2024-01, 2024-02"):
        strict_check(got, SCHEMA.domain)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM census WHERE income < 4000 AND month <= '2024-05-31'",
        "SELECT COUNT(*) FROM census WHERE income < 2500 OR income >= 2500",
        "SELECT COUNT(*) FROM census WHERE (income < 2500 OR age > 3) AND age > 3",
        "SELECT COUNT(*) FROM census WHERE income <= 1e6",
    ],
)
def test_conditions_that_cut_nothing_pass_strict(sql):
    got = plan(sql)
    assert got.notes == ()
    strict_check(got, SCHEMA.domain)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FILTER (WHERE income < 2500) FROM census",
        "SELECT AVG(CASE WHEN income IN (1, 3000, 5000, 7000) THEN 1 ELSE 0 END) FROM census",
        "SELECT COUNT(*) / (SELECT COUNT(*) FROM census c WHERE c.income < 2500) FROM census",
        "SELECT COUNT(*) FROM census ORDER BY SUM(charge) FILTER (WHERE income < 2500)",
    ],
)
def test_cuts_are_found_wherever_conditions_stand(sql):
    with pytest.raises(QueryError, match="cuts the bin"):
        strict_check(plan(sql), SCHEMA.domain)


@pytest.mark.parametrize(
    ("sql", "construct"),
    [
        ("SELECT * FROM census", r"SELECT \*"),
        ("SELECT c.* FROM census c", r"SELECT \*"),
        ("FROM census", r"SELECT \*"),
        ("SELECT COUNT(*)", "a SELECT without FROM"),
        ("SELECT sex FROM census GROUP BY sex", "a SELECT without an aggregate"),
        ("SELECT COUNT(*) FROM census JOIN other USING (age)", "JOIN"),
        ("SELECT COUNT(*) FROM census, other", "a list of tables in FROM"),
        ("SELECT COUNT(*) FROM (SELECT * FROM census)", "a subquery in FROM"),
        ("SELECT COUNT(*) FROM read_csv('x.csv')", "the function READ_CSV in FROM"),
        ("SELECT COUNT(*) FROM census TABLESAMPLE 10", "TABLESAMPLE"),
        ("SELECT COUNT(*) FROM census AS c(a, b)", "renaming columns in FROM"),
        ("SELECT sex, COUNT(*) FROM census GROUP BY sex HAVING COUNT(*) > 3", "HAVING"),
        ("SELECT DISTINCT COUNT(*) FROM census", "SELECT DISTINCT"),
        ("WITH c AS (SELECT 1) SELECT COUNT(*) FROM census", "WITH"),
        ("SELECT COUNT(*) FROM census UNION SELECT COUNT(*) FROM census", "UNION"),
        ("SELECT COUNT(*) FROM census QUALIFY 1 = 1", "QUALIFY"),
        ("SELECT COUNT(*) FROM census; SELECT COUNT(*) FROM census", "a text of 2 statements"),
        ("SELECT COUNT(*) FROM census GROUP BY ROLLUP (sex)", "GROUP BY ROLLUP"),
        ("SELECT COUNT(*) FROM census GROUP BY age / 10", "GROUP BY arithmetic"),
        ("SELECT FLOOR(age / 10), COUNT(*) FROM census GROUP BY 1", "GROUP BY the function FLOOR"),
        ("SELECT COUNT(*) FROM census LIMIT 10 PERCENT", "LIMIT of this form"),
        ("INSERT INTO census VALUES (1)", "INSERT"),
        ("DELETE FROM census", "DELETE"),
        ("UPDATE census SET age = 1", "UPDATE"),
        ("DROP TABLE census", "DROP"),
        ("CREATE TABLE t AS SELECT 1", "CREATE"),
        ("EXPLAIN SELECT COUNT(*) FROM census", "EXPLAIN"),
        ("COPY census TO 'x.csv'", "COPY"),
        ("hello", "not a SELECT statement"),
    ],
)
def test_what_is_not_supported_is_named(sql, construct):
    with pytest.raises(UnsupportedSQL, match=f"{construct}.* is not supported; ") as caught:
        plan(sql)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT COUNT(*) FROM other", "no table 'other' in this release; write FROM census or FROM release"),
        ("SELECT COUNT(*) FROM 'census.parquet'", "no table 'census.parquet'"),
        ("SELECT COUNT(*) FROM other.census", "no table 'other.census'"),
        ("SELECT age, COUNT(*) FROM census", "age is named but not in GROUP BY; add GROUP BY age"),
        ("SELECT COUNT(*) FROM census ORDER BY age", "age is named but not in GROUP BY"),
        ("SELECT charge FROM census", "charge is a measure and has no value by itself"),
        ("SELECT COUNT(*) FROM census GROUP BY charge", "charge is a measure.*cannot be used in GROUP BY"),
        ("SELECT COUNT(*) FROM census GROUP BY agee", r"no column 'agee' \(did you mean age\?\)"),
        (
            "SELECT COUNT(*) FROM census GROUP BY 2",
            "GROUP BY 2 is not a place in the select list; its places are 1 to 1",
        ),
        ("SELECT COUNT(*) FROM census ORDER BY 0", "ORDER BY 0 is not a place"),
        ("SELECT COUNT(*) FROM census ORDER BY m", "no column 'm'"),
        ("SELECT COUNT(*) FROM census LIMIT -1", "LIMIT needs a whole number"),
        ("SELECT COUNT(*) FROM census LIMIT 1.5", "LIMIT needs a whole number"),
        ("SELECT COUNT(*) FROM census LIMIT age", "LIMIT needs a whole number"),
        ("SELECT COUNT(*) FROM census OFFSET 'a'", "OFFSET needs a whole number"),
        ("", "the query is empty"),
        (" ; ; ", "the query is empty"),
        ("-- only a comment", "the query is empty"),
        (
            "SELECT COUNT(*) FROM census WHERE",
            "cannot be read: something is missing at line 1, column 33, near 'WHERE'",
        ),
        ("SELECT COUNT( FROM census", r"cannot be read: expecting \) at line 1, column \d+, near 'census'"),
        ("SELEC COUNT(*)\nFROM census", r"cannot be read: unexpected text at line 1, column \d+"),
        ("SELECT COUNT(*) FROM census WHERE sex = 'F", "a quotation mark or a comment is opened and not closed"),
        ("SELECT COUNT(*) FROM census /* oh", "a quotation mark or a comment is opened and not closed"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(sql, message):
    with pytest.raises(QueryError, match=message) as caught:
        plan(sql)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


CALLED_AS_WORDS = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {name: {"type": "boolean"} for name in ("Alter", "Case", "Order", "ill")},
    }
)


@pytest.mark.parametrize("sql", ["SELECT Case, COUNT(*) FROM t GROUP BY 1", "SELECT COUNT(*) FROM t WHERE case"])
def test_a_column_that_is_a_word_of_sql_is_to_be_quoted(sql):
    with pytest.raises(QueryError, match=r'; if the column is meant, write "Case" in double quotes'):
        compile_select(sql, CALLED_AS_WORDS)
    assert compile_select(sql.replace("Case", '"Case"').replace("case", '"Case"'), CALLED_AS_WORDS).aggregates


@pytest.mark.parametrize(
    "sql", ['SELECT "Alter", COUNT( FROM t', "SELECT COUNT( FROM t -- Alter", "SELECT ill + FROM t"]
)
def test_no_other_text_that_cannot_be_read_is_told_to_quote(sql):
    with pytest.raises(QueryError, match="cannot be read") as caught:
        compile_select(sql, CALLED_AS_WORDS)
    assert "quotes" not in str(caught.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 10_000 + "COUNT(*)" + ")" * 10_000 + " FROM census",
        "SELECT " + "(" * 5_000 + "COUNT(*)" + ")" * 5_000 + " FROM census",
        "SELECT COUNT(*) FROM census WHERE " + "(" * 101 + "age = 1" + ")" * 101,
        "SELECT COUNT(*) FROM census WHERE " + "NOT " * 4_000 + "age = 1",
        "SELECT " + "- " * 9_000 + "COUNT(*) FROM census",
        "SELECT COUNT(*)" + " + COUNT(*)" * 1_500 + " FROM census",
        "SELECT SUM(" + "CASE WHEN age = 1 THEN 1 ELSE " * 600 + "0" + " END" * 600 + ") FROM census",
        "SELECT COUNT(*) FROM census WHERE age = " + "1" * 1_000_000,
        "(" * 1_000_000,
        "[" * 15_000,
    ],
)
def test_huge_and_deep_texts_are_refused(sql):
    with pytest.raises(QueryError, match=r"nested too deeply|at most 20,000 characters are read"):
        plan(sql)


def test_parentheses_in_strings_are_not_nesting():
    with pytest.raises(QueryError, match="sex has no value"):
        plan(f"SELECT COUNT(*) FROM census WHERE sex = '{'(' * 500}'")


def test_a_query_is_text():
    with pytest.raises(QueryError, match="a query is text, not NoneType"):
        compile_select(None, SCHEMA)


def test_nothing_is_printed_or_logged(capfd, caplog):
    for sql in ("EXPLAIN SELECT 1", "CALL something()", "SELECT COUNT(*) FROM census WHERE a = = 2"):
        with pytest.raises(QueryError):
            plan(sql)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


WORDS = (
    "SELECT FROM WHERE GROUP BY ORDER LIMIT COUNT(*) SUM( AVG( ( ) , . ; ' + - * / % < = <> AND OR NOT IN BETWEEN CASE "
    "WHEN THEN ELSE END NULL TRUE age income sex charge census 1 2.5 'F' OVER () FILTER IS LIKE AS n :: INT [ ] $1 ? "
    "EXISTS INTERVAL UNION IF( CAST( 1e999 \x00 é"
)
texts = st.lists(st.sampled_from(WORDS.split(" ")), max_size=12).map(" ".join)


@settings(deadline=None)
@given(texts, st.sampled_from(["{}", "SELECT COUNT(*) FROM census WHERE {}", "SELECT {} FROM census"]))
def test_any_text_gives_a_plan_or_one_line(text, frame):
    try:
        assert plan(frame.format(text)).columns
    except SfumatoError as error:
        assert "\n" not in str(error)


def test_a_workload_is_split_at_semicolons_that_end_statements():
    text = """
    -- people; by sex
    SELECT sex, COUNT(*) FROM census GROUP BY sex;

    SELECT COUNT(*) AS "a;b" FROM census WHERE sex = 'it''s; F'; /* done; */ ;
    -- the end;
    """
    assert read_workload(text) == [
        "-- people; by sex\n    SELECT sex, COUNT(*) FROM census GROUP BY sex",
        "SELECT COUNT(*) AS \"a;b\" FROM census WHERE sex = 'it''s; F'",
    ]
    assert read_workload("SELECT 1 - 2 / 3") == ["SELECT 1 - 2 / 3"]
    assert read_workload("SELECT 'open; SELECT 2") == ["SELECT 'open; SELECT 2"]
    assert read_workload(" ;;\n-- nothing") == []
    assert compile_select(read_workload(text)[0], SCHEMA).group_by == ("sex",)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["SELECT 1", "'a;b'", '"x"";"', "-- c\nx", "/* ; */ y", "a-b/c"]), max_size=6))
def test_statements_come_back_as_they_were(statements):
    assert read_workload(" ;\n".join(statements)) == statements


def test_splitting_a_large_workload_is_quick():
    assert len(read_workload("SELECT COUNT(*) FROM census;\n" * 20_000)) == 20_000
    assert len(read_workload("'" * 300_001)) == 1


@pytest.mark.parametrize(
    ("sql", "period"),
    [
        ("SELECT COUNT(*) FROM census", None),
        ("SELECT COUNT(*) FROM census AS OF '2026-11' WHERE age < 3", "2026-11"),
        ("SELECT COUNT(*) FROM census as\nof '2026-11' AS c", "2026-11"),
        ("SELECT COUNT(*) FROM \"census\"AS OF SYSTEM TIME '2026-11'", "2026-11"),
        ("SELECT COUNT(*) FROM census FOR SYSTEM_TIME AS OF DATE '2026-11-01'", "2026-11-01"),
        ("SELECT COUNT(*) FROM census FOR TIMESTAMP AS OF '2026-11' AS c", "2026-11"),
        ("SELECT n FROM (SELECT COUNT(*) AS n FROM census AS OF 'w1') UNION ALL SELECT 1 FROM census AS OF 'w1'", "w1"),
        ("WITH c AS (SELECT COUNT(*) AS n FROM census AS OF 'w1') SELECT n FROM c", "w1"),
        ("SELECT COUNT(*) AS of FROM census WHERE sex LIKE ' AS OF ''F' -- AS OF '2'", None),
    ],
)
def test_as_of_is_found_behind_tables_and_nowhere_else(sql, period):
    assert period_asked(sql, SCHEMA) == period
    compile_statement(sql, SCHEMA)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT (SELECT COUNT(*) FROM census AS OF 'a'), (SELECT COUNT(*) FROM census AS OF 'b')",
            "AS OF 'a' and 'b'",
        ),
        ("SELECT (SELECT COUNT(*) FROM census AS OF 'a'), (SELECT COUNT(*) FROM census)", "behind some tables only"),
        ("SELECT COUNT(*) FROM census FOR SYSTEM_TIME BETWEEN 'a' AND 'b'", "write FROM the table AS OF"),
        ("SELECT COUNT(*) FROM census AT (TIMESTAMP => 'a')", "write FROM the table AS OF"),
        ("SELECT COUNT(*) FROM census FOR SYSTEM_TIME AS OF ?", "a period as text"),
        ("SELECT COUNT(*) FROM census c AS OF 'a'", "before its alias"),
    ],
)
def test_other_times_of_a_table_are_refused_by_name(sql, message):
    for read in (period_asked, compile_statement):
        with pytest.raises(QueryError, match=message):
            read(sql, SCHEMA)
