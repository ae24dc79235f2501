"""Which values a question tells apart."""

from __future__ import annotations

import pytest

from sfumato.answers.question import kinds_asked
from sfumato.schema import Schema
from sfumato.sql import compile_select

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 9},
            "sex": {"type": "category", "values": ["F", "M", "X"]},
            "pay": {"type": "number", "lower": 0, "upper": 100, "bins": 5},
        },
        "measures": {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
    }
)


def kinds(sql: str) -> dict[str, list[int]]:
    return {name: kind.tolist() for name, kind in kinds_asked(compile_select(sql, SCHEMA), SCHEMA).items()}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT COUNT(*) FROM t", {}),
        ("SELECT COUNT(*) FROM t WHERE age > 6", {"age": [0] * 7 + [1] * 3}),
        ("SELECT COUNT(*) FROM t WHERE sex IN ('F', 'X')", {"sex": [0, 1, 0]}),
        ("SELECT COUNT(*) FROM t WHERE age BETWEEN 0 AND 9", {}),
        ("SELECT sex, COUNT(*) FROM t GROUP BY sex", {"sex": [0, 1, 2]}),
        ("SELECT sex, COUNT(*) FROM t WHERE sex <> 'M' GROUP BY sex", {"sex": [0, 1, 2]}),
        ("SELECT COUNT(*) FROM t WHERE pay < 30", {"pay": [0, 1, 2, 2, 2]}),  # a cut cell is a kind of its own
        ("SELECT AVG(m) FROM t WHERE age = 3 OR age = 5", {"age": [0, 0, 0, 1, 0, 1, 0, 0, 0, 0]}),
        ("SELECT AVG(age) FROM t WHERE age >= 8", {"age": [0] * 8 + [1, 2]}),
        (
            "SELECT COUNT(*) FILTER (WHERE age < 2) / COUNT(*) FROM t WHERE age < 5",
            {"age": [0, 0, 1, 1, 1, 2, 2, 2, 2, 2]},
        ),
    ],
)
def test_values_with_the_same_weights_are_of_one_kind(sql, expected):
    assert kinds(sql) == expected
