"""What is worked out for a statement, from its text to the bytes of its answer. Runs in a worker."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sfumato.answers.result import Result
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.serve.pgwire.catalogue.database import Catalogue, Who
from sfumato.serve.pgwire.decoding import Given, as_announced, decoded, pack_answer
from sfumato.serve.pgwire.encoding import DATE, FLOAT8, TEXT, TIMESTAMP, Column, Value, type_of
from sfumato.serve.pgwire.failures import Failure
from sfumato.serve.pgwire.parameters import any_as_in, places_of, put_values
from sfumato.serve.pgwire.statements import as_release_reads_it, example, kind_of, parameter_type, release_asked
from sfumato.serve.web.answers import ask
from sfumato.serve.web.asked.questions import Query
from sfumato.serve.web.shelf import Book, Shelf
from sfumato.sql.reading import parameters_apart, too_deep


@dataclass(frozen=True)
class Asked:
    """All that an answer depends on, so that it is worked out once for all who ask the same.

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
        """As JSON, for a worker; bytes that a client sent become characters of the same numbers."""
        values = None
        if self.values is not None:
            values = [(None if one.value is None else one.value.decode("latin-1"), one.binary) for one in self.values]
        told = (self.text, self.who, self.how.model_dump(), self.types, values, self.formats, self.announced)
        return json.dumps(told).encode()

    @classmethod
    def unpacked(cls, packed: bytes) -> Asked:
        """The same in the worker."""
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
    """The statement is about the catalogue of tables, which this worker does not have."""


def answer(shelf: Shelf, catalogue: Catalogue | None, asked: Asked) -> bytes:
    """The answer, packed."""
    try:
        return _answer(shelf, catalogue, asked)
    except RecursionError:
        raise too_deep() from None


def _answer(shelf: Shelf, catalogue: Catalogue | None, asked: Asked) -> bytes:
    text = parameters_apart(asked.text)
    found = release_asked(text, shelf)
    if found is None:
        if catalogue is None:
            raise OfCatalogue
        tree = catalogue.read(text)
        types, values = _values(tree, asked, None)
        columns, rows = catalogue.answer(tree, types, values, asked.who)
        return _packed(columns, rows, (), types, asked)
    book, tree = found
    types, values = _values(tree, asked, book.release.schema)
    any_as_in(tree)
    sql = as_release_reads_it(text, tree, book, changed=bool(types))
    result = ask(book, sql, asked.how, strict=asked.how.strict)
    columns, rows = _table(result, book)
    return _packed(columns, rows, result.remarks, types, asked)


def _values(tree: object, asked: Asked, schema: Schema | None) -> tuple[tuple[int, ...], list[Value]]:
    """The types of parameters and their values, which are put into the tree."""
    places = places_of(tree)  # type: ignore[arg-type]
    types, values = [], []
    for number, nodes in places.items():
        known, name = parameter_type(nodes, schema)
        stated = asked.types[number - 1] if number <= len(asked.types) else 0
        types.append((number, stated or known))
        values.append((number, None if schema is None else example(stated or known, name, schema)))
    oids = tuple(oid for _, oid in sorted(types))
    found: list[Value] = [value for _, value in sorted(values, key=lambda pair: pair[0])]
    if asked.values is not None:
        if len(asked.values) != len(oids):
            raise Failure(
                "08P01", f"the statement has {len(oids)} parameters, and {len(asked.values)} values were given"
            )
        found = [decoded(given, oid) for given, oid in zip(asked.values, oids, strict=True)]
    put_values(places, found, casts=schema is None)
    return oids, found


def _packed(
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    notes: Sequence[str],
    types: Sequence[int],
    asked: Asked,
) -> bytes:
    if asked.announced is not None:
        as_announced(columns, rows, asked.announced)
        columns = asked.announced
    return pack_answer(columns, rows, formats=asked.formats, notes=notes, parameters=types)


def _table(result: Result, book: Book) -> tuple[list[Column], list[tuple[object, ...]]]:
    """Rows as `sfumato query --format csv` has them; numbers with an error are real ones also where they look whole."""
    records, schema = result.records(), book.release.schema
    keys, moments = set(result.columns) - result.estimated, result.moments
    columns = []
    for name in result.headers:
        values = [record.get(name) for record in records]
        found = type_of(values, dates=False)
        if name in moments:
            found = DATE if moments[name] == "day" else TIMESTAMP
        elif name in keys:  # a month or a week has a name of its own, which is a text
            known = name in schema.domain and schema.domain[name].kind != "date"
            found = found or (kind_of(name, schema) if known else TEXT)
        elif found is None or not any(isinstance(value, str | bool) for value in values):
            found = FLOAT8
        columns.append((name, found))
    return columns, [tuple(record.get(name) for name, _ in columns) for record in records]
