"""Small tables on which the audit tries single-purpose mechanisms."""

from __future__ import annotations

from typing import Any

from sfumato.schema import Schema


def small_table(dataset: str, contributions: int, **attributes: dict[str, Any]) -> Schema:
    """A table of persons with at most so many rows each."""
    unit = {"column": "person", "contributions": contributions}
    return Schema.from_dict({"dataset": dataset, "privacy_unit": unit, "attributes": attributes})


def whole_up_to(upper: int) -> dict[str, Any]:
    """An attribute of the whole numbers from 0."""
    return {"type": "integer", "lower": 0, "upper": upper}
