"""A trial before anything is reserved: the release's own statement, on constants instead of the table.

The server is asked what the statement makes of awkward values of the types that the columns have, and of the bounds and
lists of the schema, which are public; DuckDB is asked the same. If a cast fails on the server, if two texts are one to
it, if a time is of another day or a window keeps other rows, the answers differ and the table is refused. No row of it
is read. What passes is no proof, which is why dialects are let through one by one (docs/engines.md).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlglot import exp

from sfumato.errors import TableError
from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.reading.answer import checked
from sfumato.kernel.reading.engines import Column, Engine
from sfumato.kernel.reading.engines.duckdb import over_origin
from sfumato.kernel.reading.engines.other.finding import Kind, kind_of, pool
from sfumato.kernel.reading.expressions import SQL, day, double, moment, named, whole
from sfumato.kernel.reading.formats.frames import Frame
from sfumato.kernel.reading.statement import aggregate_statement, comes_by_rows
from sfumato.schema import Schema
from sfumato.schema.attributes import Category

if TYPE_CHECKING:
    from sfumato.kernel.reading.engines.other.engine import Other

KEY = 7  # no person is secret here
Rows = Mapping[Column, Sequence[Any]]


def tried(schema: Schema, engine: Other, columns: Mapping[str, Column]) -> None:
    """Refuse an engine that does not give what DuckDB gives."""
    kinds = {each: kind_of(each, engine.dialect) for each in columns.values()}
    _refuse_unsure(schema, engine, columns, kinds)
    unit = None if schema.privacy_unit.column is None else columns[schema.privacy_unit.column]
    rows = _rows(schema, engine, columns, kinds, unit)
    same = _same(_there(schema, engine, columns, kinds, rows), _here(schema, columns, kinds, rows))
    if same and unit is not None:
        some = schema.privacy_unit.contributions + 3  # rows of one person, who has too many then
        one = {each: values[:some] for each, values in rows.items()}
        one[unit] = [rows[unit][0]] * len(one[unit])
        here, there = _here(schema, columns, kinds, one), _there(schema, engine, columns, kinds, one)
        same = here.counts.sum() == there.counts.sum() <= schema.privacy_unit.contributions
    if not same:
        raise TableError(
            f"{engine.words.shown} does not work out this schema as it is meant (tried on constants, no row was read); "
            "write the table to Parquet and release that"
        )


def _refuse_unsure(schema: Schema, engine: Other, columns: Mapping[str, Column], kinds: Mapping[Column, Kind]) -> None:
    """What dialects do not agree about, and nobody needs."""
    unit = schema.privacy_unit.column
    if unit is not None and kinds[columns[unit]] in ("double", "boolean", "timestamp"):
        raise TableError(f"privacy_unit: {engine.words.shown} tells people apart by text, whole numbers or days only")
    for name, part in schema.attributes.items():
        listed = isinstance(part, Category) and not part.numeric
        if listed and kinds[columns[part.column]] == "double" and engine.dialect != "duckdb":
            raise TableError(f"attributes.{name} lists texts, but its column holds floats; list numbers, or use bins")


def _rows(
    schema: Schema, engine: Other, columns: Mapping[str, Column], kinds: Mapping[Column, Kind], unit: Column | None
) -> Rows:
    """Rows of constants: every value of every column, each beside another of the other columns; all of other people."""
    pools = {each: pool(kinds[each], _parts(schema, columns, each), engine.words) for each in kinds}
    longest = max(map(len, pools.values()))
    rows: dict[Column, Sequence[Any]] = {}
    for place, (each, values) in enumerate(pools.items()):
        rows[each] = [values[(row + place * (row // len(values))) % len(values)] for row in range(longest)]
    if unit is not None:
        people = (_person(kinds[unit], number) for number in count())
        rows[unit] = [next(people) for _ in range(longest)]
    return rows


def _parts(schema: Schema, columns: Mapping[str, Column], each: Column) -> list[Any]:
    parts = [*schema.attributes.values(), *schema.measures.values()]
    return [part for part in parts if columns[part.column] == each]


def _person(kind: Kind, number: int) -> Any:
    """Somebody; two after each other differ by case, an accent or a blank alone."""
    if kind == "text":
        return ("p{}", "P{}", "p{} ", "p\u00e9{}")[number % 4].format(number // 4)
    if kind == "uuid":
        return f"00000000-0000-0000-0000-{number:012}"
    if kind == "date":
        return dt.date(2000, 1, 1) + dt.timedelta(days=number)
    return Decimal(number) if kind.startswith("decimal") else number


def _same(one: Aggregate, other: Aggregate) -> bool:
    if not (np.array_equal(one.cells, other.cells) and np.array_equal(one.counts, other.counts)):
        return False
    return all(np.array_equal(one.sums[name], other.sums[name]) for name in one.sums)


def _here(schema: Schema, columns: Mapping[str, Column], kinds: Mapping[Column, Kind], rows: Rows) -> Aggregate:
    import pyarrow as pa

    arrays = [pa.array(values, _arrow(kinds[each])) for each, values in rows.items()]
    engine = over_origin(Frame(pa.table(arrays, names=[each.name for each in rows]), "pyarrow", "Table"))
    own = dict(zip(rows, engine.columns, strict=True))
    return _gathered(schema, engine, {name: own[each] for name, each in columns.items()})


def _there(
    schema: Schema, engine: Other, columns: Mapping[str, Column], kinds: Mapping[Column, Kind], rows: Rows
) -> Aggregate:
    selects = [
        exp.Select(
            expressions=[named(_constant(value, kinds[each], engine), each.reference) for each, value in each_row]
        )
        for each_row in (list(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True))
    ]
    constants = exp.Subquery(
        this=exp.union(*selects, distinct=False, copy=False), alias=exp.TableAlias(this=exp.to_identifier("tried"))
    )
    return _gathered(schema, engine.over(constants), columns)


def _gathered(schema: Schema, engine: Engine, columns: Mapping[str, Column]) -> Aggregate:
    row_by_row = comes_by_rows(schema, for_margins=False)
    statement = aggregate_statement(schema, engine, columns, KEY, row_by_row=row_by_row)
    found = checked(engine.run(statement, list(dict.fromkeys(columns.values()))), schema, row_by_row=row_by_row)
    return found if isinstance(found, Aggregate) else found.gathered


def _constant(value: Any, kind: Kind, engine: Other) -> SQL:
    plain: dict[str, Callable[[Any], SQL]] = {"double": double, "date": day, "timestamp": moment}
    plain["text"] = engine.words.text_constant
    if value is not None and kind in plain:
        return plain[kind](value)
    if value is None or kind == "boolean":
        return engine.words.constant(exp.Null() if value is None else exp.Boolean(this=value), kind)
    literal = exp.Literal.string(str(value)) if kind == "uuid" or kind.startswith("decimal") else whole(value)
    return engine.words.constant(literal, kind)


def _arrow(kind: Kind) -> Any:
    import pyarrow as pa

    if kind.startswith("decimal"):
        digits, after = kind[len("decimal(") : -1].split(",")
        return pa.decimal128(int(digits), int(after))
    plain = {"text": pa.string(), "uuid": pa.string(), "double": pa.float64(), "boolean": pa.bool_()}
    return {**plain, "date": pa.date32(), "timestamp": pa.timestamp("us"), "bigint": pa.int64()}[kind]
