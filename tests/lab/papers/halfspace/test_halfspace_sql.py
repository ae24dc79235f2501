"""Linear comparisons read as weights, and everything else refused with how to write it."""

from __future__ import annotations

import pytest

from sfumato.errors import QueryError
from sfumato.lab.papers.halfspace.net import read_halfspace
from sfumato.schema import Schema

NUMBER = {"type": "integer", "lower": 0, "upper": 9}
SCHEMA = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {"age": NUMBER, "pay": NUMBER, "sex": {"type": "boolean"}}}
)


@pytest.mark.parametrize(
    ("where", "weights", "threshold", "closed"),
    [
        ("3 * age - 2 * pay > 10", {"age": 3, "pay": -2}, 10, False),
        ("10 < 3 * age - pay * 2", {"age": 3, "pay": -2}, 10, False),
        ("age <= pay", {"age": -1, "pay": 1}, 0, True),
        ("-(age + 4) / 2 >= pay - 1", {"age": -0.5, "pay": -1}, 1, True),
        ("(AGE) > 3", {"age": 1}, 3, False),
        ("age + age - 2 > age", {"age": 1}, 2, False),
    ],
)
def test_linear_comparisons(where, weights, threshold, closed):
    found = read_halfspace(f"SELECT COUNT(*) AS n FROM t WHERE {where}", SCHEMA)
    assert found.weights == weights and found.threshold == threshold
    assert found.closed is closed and found.name == "n"


def test_all_rows():
    assert read_halfspace("SELECT COUNT(*) FROM release", SCHEMA).weights == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT COUNT(*) FROM t WHERE age * pay > 3", "is no sum of attributes times numbers"),
        ("SELECT COUNT(*) FROM t WHERE age / 0 > 3", "divides by zero|is no sum"),
        ("SELECT COUNT(*) FROM t WHERE age - age > 3", "compares no attribute"),
        ("SELECT COUNT(*) FROM t WHERE age = 3", "one side of a line"),
        ("SELECT COUNT(*) FROM t WHERE age > 3 AND pay > 3", "one side of a line"),
        ("SELECT SUM(age) FROM t", "one side of a line"),
        ("SELECT sex, COUNT(*) FROM t GROUP BY sex", "one side of a line"),
        ("SELECT COUNT(*) FROM t GROUP BY sex", "GROUP BY is not supported"),
        ("SELECT COUNT(*) FROM t WHERE height > 3", "no column 'height'"),
        ("SELECT COUNT(*) FROM elsewhere", "no table 'elsewhere'"),
        ("DROP TABLE t", "one side of a line"),
    ],
)
def test_everything_else_is_refused(text, why):
    with pytest.raises(QueryError, match=why):
        read_halfspace(text, SCHEMA)
