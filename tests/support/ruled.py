"""A small table with structural zeros: its attributes, its rules, and schemas of it."""

from __future__ import annotations

from typing import Any

from sfumato.schema import Schema

SIZES = {"age": 12, "marital": 3, "work": 4, "town": 6, "region": 2, "sex": 2}
RULES: dict[str, Any] = {
    "impossible": [
        {"age": "0..3", "marital": {"not": 0}},
        {"age": "0..3", "work": {"not": 0}},
        {"marital": 2, "work": 3, "sex": 1},
    ],
    "follows": {"region": {"from": "town", "groups": {"0": "0..3", "1": [4, 5]}}},
}


def schema_of(rules: dict[str, Any], measures: dict[str, Any] | None = None) -> Schema:
    """Schema of the table with some rules and measures."""
    attributes = {name: {"type": "integer", "lower": 0, "upper": size - 1} for name, size in SIZES.items()}
    unit = {"dataset": "t", "privacy_unit": "row", "attributes": attributes, "measures": measures or {}}
    return Schema.from_dict(unit | rules)
