"""Answer one SQL statement of a PostgreSQL client: decode parameters, evaluate, and pack the rows. Runs in a worker.

A request (`Asked`) holds all that its answer depends on. An answer is bytes: its description in JSON, then its rows as
the protocol's messages. So equal requests are answered once, and the bytes are cached for all clients.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence
from datetime import timedelta
from struct import unpack_from
from typing import NamedTuple

from sfumato.answers.results import Result
from sfumato.effort import MOST_CHARACTERS, at_most
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.serve.pgwire import protocol as pg
from sfumato.serve.pgwire.catalogue.tables import Catalogue, Who
from sfumato.serve.pgwire.packets import data_row
from sfumato.serve.pgwire.protocol import Column, Failure, Value
from sfumato.serve.pgwire.statements import (
    any_as_in,
    as_release_reads_it,
    example,
    kind_of,
    parameter_type,
    places_of,
    put_values,
    release_asked,
)
from sfumato.serve.web.answers import ask
from sfumato.serve.web.questions import Query
from sfumato.serve.web.shelf import Book, Shelf
from sfumato.sql.reading import parameters_apart, too_deep


@dataclass(frozen=True)
class Answer:
    """Answer to a statement: columns, number of rows, notes, parameter types, and all rows as messages."""

    columns: tuple[Column, ...]
    count: int
    notes: tuple[str, ...]
    parameters: tuple[int, ...]
    rows: bytes

    @classmethod
    def unpacked(cls, packed: bytes) -> Answer:
        """Decode an answer that `pack_answer` encoded."""
        head, _, rows = packed.partition(b"\n")
        about = json.loads(head)
        columns = tuple((str(name), int(oid)) for name, oid in about["columns"])
        return cls(columns, about["count"], tuple(about["notes"]), tuple(about["parameters"]), rows)

    def part(self, start: int, most: int) -> tuple[bytes, int, int]:
        """Slice rows from an offset, at most so many (0: all): the bytes, the next offset, and the number of rows."""
        end, count = start, 0
        if most <= 0 and start == 0:
            return self.rows, len(self.rows), self.count
        while end < len(self.rows) and (most <= 0 or count < most):
            (length,) = unpack_from("!i", self.rows, end + 1)
            end, count = end + 1 + length, count + 1
        return self.rows[start:end], end, count


def pack_answer(
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    *,
    formats: Sequence[int] = (),
    notes: Sequence[str] = (),
    parameters: Sequence[int] = (),
) -> bytes:
    """Encode an answer. formats: 0 for text and 1 for binary; none, one for all, or one for each column."""
    writers = [pg.as_binary if form else pg.as_text for form in spread(formats, len(columns))]
    lines = []
    for row in rows:
        cells = zip(writers, row, columns, strict=True)
        lines.append(data_row([write(value, oid) for write, value, (_, oid) in cells]))
    about = {"columns": list(columns), "count": len(rows), "notes": list(notes), "parameters": list(parameters)}
    return json.dumps(about).encode() + b"\n" + b"".join(lines)


def spread(formats: Sequence[int], many: int) -> tuple[int, ...]:
    """Expand format codes to one for each value."""
    if len(formats) in (0, 1):
        return tuple(formats or (0,)) * many
    if len(formats) != many:
        said = f"{len(formats)} formats were given for {many} columns"
        raise Failure(pg.PROTOCOL, said, "give none, one, or one for each")
    return tuple(formats)


def as_announced(columns: Sequence[Column], rows: Sequence[Sequence[object]], announced: Sequence[Column]) -> None:
    """Refuse an answer whose columns differ from those announced to the client; in PostgreSQL's own words."""
    same = [name for name, _ in columns] == [name for name, _ in announced]
    if not same or not all(pg.fits(value, oid) for row in rows for value, (_, oid) in zip(row, announced, strict=True)):
        raise Failure(pg.UNSUPPORTED, "cached plan must not change result type", "prepare the statement again")


_TEXTS = (pg.TEXT, pg.VARCHAR, pg.BPCHAR, pg.NAME, pg.UNKNOWN, 0)


class Given(NamedTuple):
    """Value that a client sent for one parameter, undecoded. value: None is NULL. binary: its format."""

    value: bytes | None
    binary: bool


def decoded(given: Given, oid: int) -> Value:
    """Decode a parameter's value by its type.

    >>> from sfumato.serve.pgwire.protocol import INT8
    >>> decoded(Given(b"30", False), INT8), decoded(Given(bytes(7) + bytes([2]), True), INT8)
    (30, 2)
    """
    if given.value is None:
        return None
    try:
        return _from_binary(given.value, oid) if given.binary else _from_text(given.value.decode(), oid)
    except (ValueError, OverflowError, KeyError, struct.error):
        what = "a parameter has a value that is none of its type"
        raise Failure(pg.BAD_VALUE, what, "give a value of that type") from None


def _from_text(text: str, oid: int) -> Value:
    if oid in pg.WHOLE:
        return int(text)
    if oid in pg.REAL or oid == pg.NUMERIC:
        return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else float(text)
    if oid == pg.BOOL:
        return {"t": True, "1": True, "f": False, "0": False}[text[:1].lower()]
    if oid in pg.ELEMENTS:
        return [_from_text(one, pg.ELEMENTS[oid]) for one in _listed(text)]
    return text


def _listed(text: str) -> list[str]:
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError
    at_most(len(text), MOST_CHARACTERS, "characters are in a list of values", "give fewer")
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^",{}]+)', text[1:-1])
    return [re.sub(r"\\(.)", r"\1", quoted) or plain for quoted, plain in found]


def _from_binary(data: bytes, oid: int) -> Value:
    if oid in pg.WHOLE or oid in pg.REAL:
        (found,) = struct.unpack(pg.WHOLE.get(oid) or pg.REAL[oid], data)
        return int(found) if oid in pg.WHOLE else float(found)
    if oid == pg.DATE:
        return (pg.BEGINNING + timedelta(days=struct.unpack("!i", data)[0])).date().isoformat()
    if oid in (pg.TIMESTAMP, pg.TIMESTAMPTZ):
        return (pg.BEGINNING + timedelta(microseconds=struct.unpack("!q", data)[0])).isoformat(" ")
    if oid in pg.ELEMENTS:
        return _from_packed_list(data)
    if oid in _TEXTS:
        return data.decode()
    if oid not in (pg.BOOL, pg.NUMERIC):
        raise Failure(pg.UNSUPPORTED, "a parameter in binary is of a type that is not known here", "send it as text")
    return data != b"\0" if oid == pg.BOOL else _numeric(data)


def _numeric(data: bytes) -> int | float:
    """Decode PostgreSQL's binary NUMERIC: digits to the base of 10,000."""
    many, weight, sign, _ = struct.unpack_from("!hhHh", data)
    if sign not in (0, 0x4000) or not 0 <= many <= 100 or abs(weight) > 100:
        raise ValueError
    whole = 0
    for digit in struct.unpack_from(f"!{many}h", data, 8):
        whole = whole * 10_000 + digit
    power = weight - many + 1
    found: int | float = whole * 10_000**power if power >= 0 else whole / 10_000**-power
    return -found if sign else found


def _from_packed_list(data: bytes) -> Value:
    dimensions, _, element = struct.unpack_from("!iiI", data)
    if dimensions == 0:
        return []
    if dimensions != 1 or element in pg.ELEMENTS:
        raise ValueError
    (many,), at = struct.unpack_from("!i", data, 12), 20
    found: list[Value] = []
    for _ in range(many):
        (size,) = struct.unpack_from("!i", data, at)
        found.append(None if size < 0 else _from_binary(data[at + 4 : at + 4 + size], element))
        at += 4 + max(size, 0)
    return found


@dataclass(frozen=True)
class Asked:
    """Request of a client: all that an answer depends on, so that equal requests are answered once.

    types: of the parameters, as far as the client says them. values: None where it only wants to know the columns.
    announced: the columns that it was told of, if it was. how: the session's confidence and interval.
    """

    text: str
    who: Who
    how: Query
    types: tuple[int, ...] = ()
    values: tuple[Given, ...] | None = ()
    formats: tuple[int, ...] = ()
    announced: tuple[Column, ...] | None = None

    def packed(self) -> bytes:
        """Encode as JSON for a worker; bytes that a client sent become the Latin-1 characters of the same numbers."""
        values = None
        if self.values is not None:
            values = [(None if one.value is None else one.value.decode("latin-1"), one.binary) for one in self.values]
        told = (self.text, self.who, self.how.model_dump(), self.types, values, self.formats, self.announced)
        return json.dumps(told).encode()

    @classmethod
    def unpacked(cls, packed: bytes) -> Asked:
        """Decode the request, in the worker."""
        text, who, how, types, values, formats, announced = json.loads(packed)
        given = values and [Given(None if one is None else one.encode("latin-1"), binary) for one, binary in values]
        return cls(
            text,
            Who(*who),
            Query.model_validate(how),
            tuple(types),
            None if given is None else tuple(given),
            tuple(formats),
            None if announced is None else tuple((name, oid) for name, oid in announced),
        )


class OfCatalogue(Exception):
    """Raised for a statement about the system catalogue, which this worker does not have."""


def answer(shelf: Shelf, catalogue: Catalogue | None, asked: Asked) -> bytes:
    """Answer a request; returns the packed answer."""
    try:
        return _answer(shelf, catalogue, asked)
    except RecursionError:
        raise too_deep() from None


def _answer(shelf: Shelf, catalogue: Catalogue | None, asked: Asked) -> bytes:
    text = parameters_apart(asked.text)
    found = release_asked(text, shelf)
    notes: Sequence[str] = ()
    if found is None:
        if catalogue is None:
            raise OfCatalogue
        tree = catalogue.read(text)
        types, values = _values(tree, asked, None)
        columns, rows = catalogue.answer(tree, types, values, asked.who)
    else:
        book, tree = found
        types, values = _values(tree, asked, book.release.schema)
        any_as_in(tree)
        sql = as_release_reads_it(text, tree, book, changed=bool(types))
        result = ask(book, sql, asked.how, strict=asked.how.strict)
        columns, rows = _table(result, book)
        notes = result.remarks
    if asked.announced is not None:
        as_announced(columns, rows, asked.announced)
        columns = list(asked.announced)
    return pack_answer(columns, rows, formats=asked.formats, notes=notes, parameters=types)


def _values(tree: object, asked: Asked, schema: Schema | None) -> tuple[tuple[int, ...], list[Value]]:
    """Find the parameters' types and values, and put the values into the syntax tree."""
    places = places_of(tree)  # type: ignore[arg-type]
    oids, found = list[int](), list[Value]()
    for number, nodes in sorted(places.items()):
        known, name = parameter_type(nodes, schema)
        oids.append((asked.types[number - 1] if number <= len(asked.types) else 0) or known)
        found.append(None if schema is None else example(oids[-1], name, schema))
    if asked.values is not None:
        if len(asked.values) != len(oids):
            said = f"the statement has {len(oids)} parameters, and {len(asked.values)} values were given"
            raise Failure(pg.PROTOCOL, said)
        found = [decoded(given, oid) for given, oid in zip(asked.values, oids, strict=True)]
    put_values(places, found, casts=schema is None)
    return tuple(oids), found


def _table(result: Result, book: Book) -> tuple[list[Column], list[tuple[object, ...]]]:
    """Rows as `sfumato query --format csv` has them; a number with an error is a float even if it looks whole."""
    records, schema = result.records(), book.release.schema
    keys, moments = set(result.columns) - result.estimated, result.moments
    columns = []
    for name in result.headers:
        values = [record.get(name) for record in records]
        found = pg.type_of(values, dates=False)
        if name in moments:
            found = pg.DATE if moments[name] == "day" else pg.TIMESTAMP
        elif name in keys:  # a month or a week has a name of its own, which is a text
            known = schema.domain[name].kind != "date" if name in schema.domain else name in schema.measures
            found = found or (kind_of(name, schema) if known else pg.TEXT)
        elif found is None or not any(isinstance(value, str | bool) for value in values):
            found = pg.FLOAT8
        columns.append((name, found))
    return columns, [tuple(record.get(name) for name, _ in columns) for record in records]
