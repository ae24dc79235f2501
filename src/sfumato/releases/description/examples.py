"""Queries that a release can answer, to begin with: made from its schema, and kept only if they compile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import product

from sfumato.domain import EPOCH, Axis
from sfumato.errors import SfumatoError
from sfumato.plain_text import printable
from sfumato.schema import Schema
from sfumato.sql import compile_select

MOST_GROUPS = 20  # of an example, so that its answer fits on a screen
MOST_VALUE = 40  # characters of a value that is written out

Name = Callable[[str], str]


def example_queries(schema: Schema) -> tuple[str, ...]:
    """The total, a table, a range, an average and a share, as far as the schema has columns for them.

    >>> schema = Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> example_queries(schema)[1]
    'SELECT ill, COUNT(*) AS n FROM t GROUP BY ill'
    """
    ways = [(table, name) for name, table in product((_as_it_is, _in_quotes), (schema.dataset, "release"))]
    spelled = [list(_written(schema, table, name)) for table, name in ways]
    found = (next(filter(lambda text: _compiles(text, schema), texts), None) for texts in zip(*spelled, strict=True))
    return tuple(text for text in found if text is not None)


def _written(schema: Schema, table: str, name: Name) -> Iterator[str]:
    shown = [axis for axis in schema.domain if printable(axis.name) == axis.name]
    keys = sorted((axis for axis in shown if 1 < axis.size <= MOST_GROUPS), key=lambda axis: axis.ordered)
    spans = [axis for axis in shown if axis.kind in ("integer", "number", "date") and axis.places > 2]
    measures = [measure for measure in schema.measures if printable(measure) == measure]
    within = f" WHERE {_middle(spans[0], name)}" if spans else ""
    yield f"SELECT COUNT(*) AS n FROM {table}"
    if keys:
        key = name(keys[0].name)
        yield f"SELECT {key}, COUNT(*) AS n FROM {table} GROUP BY {key}"
    if within:
        yield f"SELECT COUNT(*) AS n FROM {table}{within}"
    if measures:
        average = f"AVG({name(measures[0])}) AS average FROM {table}"
        yield f"SELECT {key}, {average} GROUP BY {key}" if keys else f"SELECT {average}"
    if keys and (value := _value(keys[0])) is not None:
        yield f"SELECT COUNT(*) FILTER (WHERE {key} = {value}) / COUNT(*) AS share FROM {table}{within}"


def _middle(axis: Axis, name: Name) -> str:
    """A condition that holds for the middle of an axis and cuts no cell."""
    low, high = (_edge(axis, place) for place in (axis.places // 3, axis.places - axis.places // 3))
    return f"{name(axis.name)} >= {low} AND {name(axis.name)} < {high}"


def _edge(axis: Axis, place: int) -> str:
    edge = float(axis.edges[place])
    if axis.kind == "date":
        return f"DATE '{EPOCH + timedelta(days=int(edge))}'"
    return str(int(edge)) if edge == int(edge) else repr(edge)


def _value(axis: Axis) -> str | None:
    """A value to compare with; None where none can be printed as it is."""
    for label in axis.values if axis.values else ():
        text = str(label)
        if isinstance(label, bool):
            return "true"
        if printable(text) == text and len(text) <= MOST_VALUE:
            return "'" + text.replace("'", "''") + "'"
    return None


def _as_it_is(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else _in_quotes(name)


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _compiles(text: str, schema: Schema) -> bool:
    try:
        return compile_select(text, schema).exact
    except SfumatoError:
        return False
