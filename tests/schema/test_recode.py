"""Expressions of `recode`: row by row and total, or refused by name."""

from __future__ import annotations

import re

import pytest

from sfumato.errors import SchemaError
from sfumato.schema.recode import MOST_BITS, parse_expression

REFUSED = {
    "SUM(a)": "SUM looks at several rows",
    "COUNT(*)": "COUNT looks at several rows",
    "LAG(a)": "LAG looks at several rows",
    "ROW_NUMBER() OVER ()": "a window looks at several rows",
    "(SELECT 1)": "a subquery looks at several rows",
    "EXISTS(SELECT 1)": "several rows",
    "a IN (SELECT 1)": "IN is not known",
    "*": "several rows",
    "random()": "another value each time",
    "uuid()": "another value each time",
    "CURRENT_DATE": "changes from day to day",
    "now()": "not known",
    "a // 7": "FLOOR(a / b)",
    "sqrt(a)": "SQRT is not known",
    "a ^ 2": "not known",
    "CAST(LOWER(a) AS DOUBLE)": "can fail on a value",
    "CAST(a AS INTEGER)": "FLOOR",
    "a ILIKE 'x'": "LOWER(x) LIKE",
    "a LIKE b": "a pattern in quotes",
    r"a LIKE '\x'": "understand differently",
    "a LIKE 'x' ESCAPE '!'": "not known",
    f"a LIKE '{'%' * 9}'": "8 %",
    "a COLLATE nocase = 'x'": "not known",
    "a = b": "nothing says of what kind a and b are",
    "a + 'x'": "where a number is needed",
    "a > 1 AND 'x'": "where true or false is needed",
    "CASE WHEN a THEN 1 ELSE 'x' END": "side by side",
    "GREATEST(b, 'x')": "for numbers and dates",
    "EXTRACT(EPOCH FROM t)": "one of HOUR, MINUTE",
    "DATE_TRUNC('hour', t)": "day, week, month",
    "DATE_DIFF('second', a, b)": "day, month",
    "AGE_ON(born)": "AGE_ON(born, DATE",
    "DATE '2026-02-30'": "no day",
    "SUBSTR(a, b, 1)": "the same for every row",
    "ROUND(a, -1)": "0 to 6 digits",
    "a, b": "one expression",
    "a FROM t": "one expression",
    "a; b": "no expression of SQL",
    "a +": "no expression of SQL",
    "a[1]": "has [",
    "t.a": "not known",
    "1e40": "another unit",
    " * ".join("a" * 7): "multiplies or divides so often",
    "a / b / c / d / e / f / g / h": "multiplies or divides so often",
    "(" * 101 + "a" + ")" * 101: "100 parentheses",
    "NOT " * 300 + "a": "an expression",
    "a" + " + 1" * 3000: "levels",
    "NULLIF(" * 30 + "a" + ", 'x')" * 30: "too long",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_of_one_row_or_can_fail_is_refused_by_name(text):
    with pytest.raises(SchemaError, match=re.escape(REFUSED[text])) as refused:
        parse_expression(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("EXTRACT(HOUR FROM arrived)", "number"),
        ("AGE_ON(born, DATE '2026-01-01')", "number"),
        ("DATE_TRUNC('month', t)", "date"),
        ("t - DATE '2026-01-01'", "number"),
        ("COALESCE(a, b)", "text"),
        ("CASE WHEN a > 1 THEN b ELSE 2 END", "number"),
        ("a IS NULL", "boolean"),
        ("CAST(a AS DATE) = b", "boolean"),
        ("LEFT(a, 2) || '-' || CAST(FLOOR(x / 10) AS TEXT)", "text"),
    ],
)
def test_a_kind_follows_from_what_is_written(text, kind):
    assert parse_expression(text).kind == kind


def test_what_the_context_leaves_open_is_settled_by_its_use():
    found = parse_expression("COALESCE(a, NULLIF(b, c))", "number")
    assert found.kind == "number" and {leaf.kind for leaf in found.leaves} == {"number"}
    assert list(found.columns) == ["a", "b", "c"]


def test_numbers_of_every_accepted_expression_stay_within_doubles():
    for text in ("a * b * c * d * e * f", "a / b", "(a + b) * (c - 1e-9)", "ROUND(a / 3, 6) * b"):
        found = parse_expression(text)
        assert max(found.high, found.grain) <= MOST_BITS < 1022
