"""Rules that make one row of a person's many: what is read, and what is refused with what to write instead."""

import pytest

from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.per_person import person_rule
from sfumato.schema.schema import counted_in_short, what_is_counted

WHOLE = {"type": "integer", "lower": 0, "upper": 9}


def schema(select, **changes):
    parts = {"dataset": "people", "privacy_unit": {"column": "who"}, "attributes": {"n": WHOLE}, "per_person": select}
    return Schema.from_dict(parts | changes)


def of(column):
    return f"SELECT who, {column} AS n FROM visits GROUP BY who"


@pytest.mark.parametrize(
    "column, function, reads",
    [
        ("COUNT(*)", "rows", set()),
        ("COUNT(x)", "values", {"x"}),
        ("COUNT(DISTINCT x)", "different", {"x"}),
        ("SUM(LEAST(GREATEST(x, 0), 9))", "sum", {"x"}),
        ("AVG(visits.x)", "mean", {"x"}),
        ('MIN("Tag der Ankunft")', "least", {"Tag der Ankunft"}),
        ("MAX(x + y)", "greatest", {"x", "y"}),
        ("FIRST(x ORDER BY day)", "first", {"x", "day"}),
        ("LAST(x ORDER BY day)", "last", {"x", "day"}),
        ("FIRST(x ORDER BY day DESC)", "last", {"x", "day"}),
        ("COUNT(*) FILTER (WHERE ward = 'a' AND age > 3)", "rows", {"ward", "age"}),
        ("COUNT_IF(age > 3)", "rows", {"age"}),
    ],
)
def test_a_rule_says_what_it_reads(column, function, reads):
    found = schema(of(column)).people
    assert [each.function for each in found.aggregates.values()] == [function]
    assert {name for _, _, name in found.reads} == {"who"} | reads


@pytest.mark.parametrize(
    "column, function", [("BOOL_OR(x)", "any"), ("ANY(x)", "any"), ("BOOL_AND(x > 3)", "all"), ("EVERY(x)", "all")]
)
def test_conditions_on_any_and_on_all_rows(column, function):
    found = schema(of(column), attributes={"n": {"type": "boolean"}}).people
    assert [each.function for each in found.aggregates.values()] == [function]


def test_expressions_of_aggregates_and_columns_that_nothing_uses():
    text = "SELECT COUNT(*) AS rows, MAX(x) - MIN(x) AS n, MEDIAN_NOT(1) AS m FROM visits GROUP BY who"
    with pytest.raises(SchemaError, match="MEDIAN_NOT"):
        schema(text)
    found = schema(text.replace("MEDIAN_NOT(1)", "SUM(z)")).people
    assert [each.function for each in found.aggregates.values()] == ["greatest", "least"]
    assert {name for _, _, name in found.reads} == {"who", "x"}


@pytest.mark.parametrize(
    "text, said",
    [
        ("SELECT", "has no FROM"),
        ("DELETE FROM visits", "must be one SELECT"),
        (
            "SELECT who, COUNT(*) AS n FROM a GROUP BY who UNION ALL SELECT who, COUNT(*) AS n FROM a GROUP BY who",
            "one",
        ),
        ("SELECT who, COUNT(*) AS n FROM visits", "must be grouped by the column of the privacy unit"),
        ("SELECT who, COUNT(*) AS n FROM visits GROUP BY ALL", "must be grouped"),
        ("SELECT who, COUNT(*) AS n FROM visits GROUP BY 1", "must be grouped"),
        ("SELECT who, COUNT(*) AS n FROM visits GROUP BY who, ward", "must be grouped"),
        ("SELECT who, COUNT(*) AS n FROM visits GROUP BY lower(who)", "must be grouped"),
        ("SELECT who, COUNT(*) AS n FROM visits GROUP BY ROLLUP (who)", "must be grouped"),
        (of("COUNT(*)") + " HAVING COUNT(*) > 3", "HAVING, which leaves people out; make a column"),
        (of("COUNT(*)") + " LIMIT 3", "LIMIT, which rows of others would decide; leave it out"),
        (of("COUNT(*)") + " ORDER BY who", "ORDER BY"),
        (of("COUNT(*)").replace("SELECT", "SELECT DISTINCT"), "DISTINCT"),
        (of("COUNT(*)").replace("visits", "visits JOIN b USING (who)"), "a JOIN"),
        (of("COUNT(*)").replace("visits", "visits, b"), "a JOIN"),
        (of("COUNT(*)").replace("visits", "(SELECT * FROM visits) AS v"), "without a subquery"),
        ("WITH a AS (SELECT 1) " + of("COUNT(*)"), "WITH, but one plain SELECT"),
        (of("COUNT(*) OVER ()"), "a window in n, in which rows of others count"),
        (of("MIN(x) OVER (PARTITION BY who)"), "a window"),
        (of("MEDIAN(x)"), "not among what can be read: COUNT"),
        (of("FIRST(x)"), r"without one order; write FIRST\(x ORDER BY day\)"),
        (of("ANY_VALUE(x)"), "not among what can be read"),
        (of("SUM(DISTINCT x)"), "DISTINCT is read in COUNT alone"),
        (of("COUNT(DISTINCT x, y)"), "of several"),
        (of("x"), "x alone, of which a person has many"),
        (of("x + COUNT(*)"), "x in n outside of an aggregate"),
        (of('"0" + COUNT(*)'), "0 in n outside of an aggregate"),
        (of("1"), "has no aggregate in n"),
        (of("SUM(COUNT(*))"), "COUNT looks at several rows"),
        (of("SUM((SELECT MAX(x) FROM visits))"), "looks at several rows"),
        (of("MAX(RANDOM())"), "another value each time"),
        (of("MAX(x)").replace(" AS n", ""), "a column without a name"),
        ("SELECT who AS n FROM visits GROUP BY who", "gives who another name"),
        ("SELECT who FROM visits GROUP BY who", "makes no column besides who"),
        ("SELECT who, COUNT(*) AS n, COUNT(x) AS N FROM visits GROUP BY who", "two columns called 'N'"),
        ("SELECT who, COUNT(*) AS other FROM visits GROUP BY who", "makes no column 'n', which attributes.n asks for"),
        (of("SUM(" + "(" * 101 + "x" + ")" * 101 + ")"), "parentheses in each other"),
        (of("SUM(" + "+".join(["x"] * 10_000) + ")"), "characters"),
        (of("SUM(" + "+".join(["x"] * 5_000) + ")"), "levels|not SQL"),
        (of("BOOL_OR(x)"), "where a number is needed"),
    ],
)
def test_what_is_refused_says_what_to_write(text, said):
    with pytest.raises(SchemaError, match=said) as refused:
        schema(text)
    assert str(refused.value).startswith("per_person ") and "\n" not in str(refused.value)


def test_the_unit_is_the_person_and_has_one_row():
    assert schema(of("COUNT(*)")).privacy_unit.contributions == 1
    with pytest.raises(SchemaError, match=r"write privacy_unit: \{column: who\}"):
        schema(of("COUNT(*)"), privacy_unit="row")
    with pytest.raises(SchemaError, match="group by other"):
        schema(of("COUNT(*)"), privacy_unit={"column": "other", "contributions": 1})
    with pytest.raises(SchemaError, match="contributions is 3, and per_person leaves one row of each who"):
        schema(of("COUNT(*)"), privacy_unit={"column": "who", "contributions": 3})


def test_periods_in_a_column_are_refused():
    series = {"period": "month", "unit": "person in a month", "column": "day"}
    with pytest.raises(SchemaError, match=r"leave series.column out"):
        schema(of("COUNT(*)"), series=series)
    del series["column"]
    assert schema(of("COUNT(*)"), series=series).people is not None


def test_a_column_of_two_kinds_is_refused():
    kinds = {"n": WHOLE, "m": {"type": "category", "values": ["a"], "column": "n"}}
    with pytest.raises(SchemaError, match=r"a number to attributes.n and a text to attributes.m; make two columns"):
        schema(of("MIN(x)"), attributes=kinds)


def test_a_schema_with_a_rule_survives_its_file_and_says_that_rows_are_people():
    found = schema(of("COUNT(*)"))
    assert Schema.from_dict(found.to_dict()) == found
    assert what_is_counted(found)[0] == f"each who is one row, of all its rows: {of('COUNT(*)')}"
    assert counted_in_short(found).startswith("each who once, by all its rows")
    assert person_rule(of("COUNT(*)")).table == "visits"


def test_words_for_missing_values_may_name_columns_that_the_rule_reads():
    assert schema(of("MAX(x)"), file={"missing": {"x": ["NA"]}}).published().file.missing == {"x": ("NA",)}
    with pytest.raises(SchemaError, match=r"file.missing names the column 'n', which nothing here reads"):
        schema(of("MAX(x)"), file={"missing": {"n": ["NA"]}})


def test_the_guarantee_is_about_all_rows_of_a_person():
    assert schema(of("COUNT(*)")).whom == "the rows of any one who (all of them, as one row)"
