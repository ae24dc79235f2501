"""Describe the columns that a schema declares, for readers: name, role, type and values in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol

import numpy as np

from sfumato.domain import Axis, Domain, Label
from sfumato.frozen import dataclass
from sfumato.plain_text import html_table, printable
from sfumato.schema.attributes import Attribute
from sfumato.schema.parts import Column, Measure, bounds_of

MOST_SHOWN = 6  # values or bins that are named in words
MOST_LISTED = 1000  # in a record
HEADERS = ("column", "role", "type", "cells", "values")


class Declares(Protocol):
    """Protocol: the fields of a schema that are described."""

    attributes: dict[str, Attribute]
    measures: dict[str, Measure]

    @property
    def domain(self) -> Domain: ...

    @property
    def group_columns(self) -> Mapping[str, tuple[str, tuple[str | None, ...]]]: ...


@dataclass(frozen=True)
class ColumnAbout:
    """Description of one column. cells: number of values or bins; 0 for a measure, which is only summed.

    label, unit, description: what the schema says for readers.
    """

    name: str
    role: Literal["attribute", "measure"]
    type: str
    cells: int
    values: str
    label: str | None = None
    unit: str | None = None
    description: str | None = None

    @property
    def row(self) -> tuple[str, str, str, int, str]:
        said = [printable(part) for part in (self.label, self.unit and f"in {self.unit}", self.description) if part]
        return self.name, self.role, self.type, self.cells, "; ".join([self.values, *said])


def columns_of(schema: Declares) -> tuple[ColumnAbout, ...]:
    """All columns, attributes first.

    >>> from sfumato.schema import Schema
    >>> age = {"type": "integer", "lower": 0, "upper": 99, "bins": 4}
    >>> print(*columns_of(Schema(dataset="t", privacy_unit="row", attributes={"age": age}))[0].row)
    age attribute integer 4 0 to 99 in 4 bins: 0 to 24, 25 to 49, 50 to 74, 75 to 99
    """
    found = [
        ColumnAbout(name, "attribute", part.type, part.size, _in_words(part, schema.domain[name]), *_for_readers(part))
        for name, part in schema.attributes.items()
    ]
    for column, (name, groups) in schema.group_columns.items():
        labels = _groups(groups)
        words = f"{_some([_shown(label) for label in labels], len(labels), 'values')}; groups of {printable(name)}"
        found.append(ColumnAbout(column, "attribute", "group", len(labels), words))
    for name, measure in schema.measures.items():
        lower, upper = bounds_of(measure) or ("", "")
        words = f"{lower} to {upper}, for SUM and AVG"
        found.append(ColumnAbout(name, "measure", "number", 0, words, *_for_readers(measure)))
    return tuple(found)


def _for_readers(part: Column) -> tuple[str | None, str | None, str | None]:
    return part.label, part.unit, part.description


def column_records(schema: Declares) -> list[dict[str, Any]]:
    """The columns as JSON has them, with the names of their cells where these are not too many."""
    records = []
    for column in columns_of(schema):
        record: dict[str, Any] = dict(zip(HEADERS, column.row, strict=True)) | {"values": column.values}
        record |= {key: said for key in ("label", "unit", "description") if (said := getattr(column, key)) is not None}
        if column.role == "attribute" and column.name in schema.group_columns:
            record["labels"] = _groups(schema.group_columns[column.name][1])
        elif column.role == "attribute":
            record["labels"] = schema.domain[column.name].labels() if column.cells <= MOST_LISTED else None
        records.append(record)
    return records


def _groups(groups: Iterable[str | None]) -> list[str]:
    """The groups of values that there are, each once."""
    return list(dict.fromkeys(group for group in groups if group is not None))


def columns_as_html(schema: Declares) -> str:
    """The columns as a table of HTML; names and values are whatever the schema's author wrote."""
    rows = (
        [f"{cell:,}" if isinstance(cell, int) else str(cell or "") for cell in one.row] for one in columns_of(schema)
    )
    return html_table(HEADERS, rows, left=[place for place, header in enumerate(HEADERS) if header != "cells"])


def _in_words(attribute: Attribute, axis: Axis) -> str:
    null = "; NULL where there is no value" if attribute.keeps_missing else ""
    return _values(attribute, axis) + null


def _values(attribute: Attribute, axis: Axis) -> str:
    cells = axis.places
    if axis.values:
        return _some([_shown(label) for label in axis.values], cells, "values")
    lower, upper = bounds_of(attribute) or (str(axis.label(0)), str(axis.label(cells - 1)))
    span = f"{lower} to {upper}"
    if axis.kind == "date":
        return f"{span} by {axis.by}"
    if axis.kind == "integer" and bool(np.all(np.diff(axis.edges) == 1.0)):
        return span
    bins = [_shown(axis.label(cell)) for cell in range(min(cells, MOST_SHOWN))]
    return f"{span} in {cells:,} bins: {_some(bins, cells)}"


def _some(shown: list[str], number: int, what: str = "") -> str:
    few = shown[:MOST_SHOWN]
    if number <= len(few):
        return ", ".join(few)
    return ", ".join([*few, "..."]) + (f" ({number:,} {what})" if what else "")


def _shown(label: Label | None) -> str:
    if label is None:
        return "NULL"
    return str(label).lower() if isinstance(label, bool) else printable(str(label))
