"""Answer one SQL statement of a PostgreSQL client: decode parameters, evaluate, and pack the rows. Runs in a worker.

A request (`Asked`) holds all that its answer depends on. An answer is bytes: its description in JSON, then its rows as
the protocol's messages. So equal requests are answered once, and the bytes are cached for all clients.

Series limits, as Superset writes them: a JOIN of the table with its own largest groups.

    SELECT month, region, COUNT(*) FROM t JOIN (SELECT region AS region__, COUNT(*) AS mme_inner__ FROM t GROUP BY
    region ORDER BY mme_inner__ DESC LIMIT 5) AS anon_1 ON region = region__ GROUP BY month, region

The subquery is answered first, and its groups become a condition. Noisy values chose these groups, so that intervals
are widened as those of any rows that noise chose (Benjamini, Yekutieli).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from struct import unpack_from
from typing import Any, NamedTuple

from sqlglot import exp

from sfumato.answers.results import Cell, Result
from sfumato.answers.statement import CONDITION, HIGHEST, LOWEST, Chosen, confidence_of_each
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.serve.pgwire import protocol as pg
from sfumato.serve.pgwire.catalogue.tables import Catalogue, Who
from sfumato.serve.pgwire.commands import Copy, copied_rows
from sfumato.serve.pgwire.packets import data_row
from sfumato.serve.pgwire.protocol import Column, Failure, Given, Value, decoded
from sfumato.serve.pgwire.statements import (
    View,
    as_release_reads_it,
    example,
    kind_of,
    literal,
    parameter_type,
    places_of,
    put_values,
    release_asked,
    respelled,
    with_views,
)
from sfumato.serve.web.answers import ask
from sfumato.serve.web.questions import Query
from sfumato.serve.web.requests import Book, Shelf
from sfumato.sql.reading import parameters_apart, too_deep


class Joined(NamedTuple):
    """Join of a table with its own groups. pairs: columns of the table, each with one of the groups."""

    select: Any
    join: Any
    groups: Any
    pairs: tuple[tuple[Any, str], ...]


def keep_top_groups(tree: Any, ask: Callable[[str], Result]) -> tuple[Chosen, ...] | None:
    """Replace the JOIN of a table with its own largest groups by a condition on these, which `ask` finds.

    Returns the selections that noise made; None where there is no such join, or more than one.
    """
    found = [joined for join in tree.find_all(exp.Join) if (joined := _read(join.find_ancestor(exp.Select), join))]
    if len(found) != 1:
        return None
    (joined,) = found
    keys, selections = _top(joined, ask)
    joined.select.args["joins"].remove(joined.join)
    joined.select.where(_condition(joined, keys), copy=False)
    return tuple(selections)


def allowing_for(how: Query, selections: Sequence[Chosen]) -> tuple[Query, tuple[str, ...]]:
    """Query options with the confidence adjusted for groups that noise chose, and notes on that choice."""
    allowed = how.selected or how.simultaneous
    notes = tuple(one.note(how.confidence, allowed=allowed, together=False) for one in selections)
    if not allowed:
        return how, notes
    return how.model_copy(update={"confidence": confidence_of_each(how.confidence, selections)}), notes


def _read(select: Any, join: Any) -> Joined | None:
    """Read a join with the largest groups of the same table; None for any other join, which SQL answers or refuses."""
    groups, on = join.this, join.args.get("on")
    source = select.args.get("from") or select.args.get("from_")
    inner = groups.this if isinstance(groups, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or on is None or join.side or join.kind not in ("", "INNER"):
        return None
    tables = [table.name.lower() for table in inner.find_all(exp.Table)]
    if not isinstance(source.this, exp.Table) or set(tables) != {source.this.name.lower()}:
        return None
    if not (inner.args.get("group") and inner.args.get("limit") and inner.args.get("order")):
        return None
    named = {column.alias_or_name.lower(): column.alias_or_name for column in inner.selects}
    pairs = []
    for equal in on.flatten() if isinstance(on, exp.And) else [on]:
        sides = [equal.this, equal.expression] if isinstance(equal, exp.EQ) else []
        of_groups = [_is_of(side, groups.alias, named) for side in sides]
        if of_groups.count(True) != 1:
            return None
        outer, key = sides if of_groups[1] else reversed(sides)
        pairs.append((outer, named[key.name.lower()]))
    own = [column for column in select.find_all(exp.Column) if column.find_ancestor(exp.Subquery) is not groups]
    used = [column for column in own if _is_of(column, groups.alias, named)]
    return Joined(select, join, inner, tuple(pairs)) if len(used) == len(pairs) else None


def _is_of(node: Any, alias: str, named: dict[str, str]) -> bool:
    if not isinstance(node, exp.Column) or node.name.lower() not in named:
        return False
    return node.table.lower() == alias.lower() if node.table else True


def _top(joined: Joined, ask: Callable[[str], Result]) -> tuple[list[tuple[Cell, ...]], list[Chosen]]:
    """Keys of the groups that ORDER BY with LIMIT keeps, and the selection, if it goes by noisy values."""
    limit, order = joined.groups.args["limit"].expression, joined.groups.args["order"].expressions[0]
    whole = joined.groups.copy()
    whole.set("limit", None)
    result = ask(whole.sql(dialect="duckdb"))
    many = int(limit.name) if limit.is_int else 0
    places = [result.columns.index(name) for _, name in joined.pairs]
    keys = [tuple(row[place] for place in places) for row in result.rows[:many]]
    noisy = any(name in result.estimated for name in _ordered_by(order, joined.groups))
    if not noisy or not 0 < len(keys) < len(result.rows):
        return keys, []
    offset = joined.groups.args.get("offset")
    end = HIGHEST if order.args.get("desc") else LOWEST
    return keys, [Chosen(len(keys), len(result.rows), CONDITION if offset else end)]


def _ordered_by(order: Any, groups: Any) -> set[str]:
    """Columns of the select list that an order goes by; all of them where it is an expression."""
    by, names = order.this, {column.alias_or_name: column.unalias() for column in groups.selects}
    same = {name for name, column in names.items() if column == by or (isinstance(by, exp.Column) and by.name == name)}
    return same or set(names)


def _condition(joined: Joined, keys: Sequence[tuple[Cell, ...]]) -> exp.Expression:
    sides = [outer for outer, _ in joined.pairs]
    if not keys:
        return exp.Boolean(this=False)
    if len(sides) == 1:
        return exp.In(this=sides[0].copy(), expressions=[literal(key) for (key,) in keys if key is not None])  # type: ignore[arg-type]
    each = [
        exp.and_(*(exp.EQ(this=side.copy(), expression=literal(value)) for side, value in zip(sides, key, strict=True)))  # type: ignore[arg-type]
        for key in keys
    ]
    return exp.paren(exp.or_(*each))


# -- asking


@dataclass(frozen=True)
class Answer:
    """Answer to a statement: columns, number of rows, notes, parameter types, and all rows as messages.

    copied: the format code of rows that are sent by COPY. tag: command named in CommandComplete.
    """

    columns: tuple[Column, ...]
    count: int
    notes: tuple[str, ...]
    parameters: tuple[int, ...]
    rows: bytes
    copied: int | None = None
    tag: str = "SELECT"

    @classmethod
    def unpacked(cls, packed: bytes) -> Answer:
        """Decode an answer that `pack_answer` encoded."""
        head, _, rows = packed.partition(b"\n")
        about = json.loads(head)
        columns = _columns(about["columns"])
        copied = about["copied"]
        said = tuple(about["notes"]), tuple(about["parameters"])
        return cls(columns, about["count"], *said, rows, copied, "SELECT" if copied is None else "COPY")

    @property
    def described(self) -> bool:
        """Whether a RowDescription is sent: COPY describes its rows itself, and MOVE has none."""
        return self.copied is None and self.tag != "MOVE"

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
    copy: Copy | None = None,
) -> bytes:
    """Encode an answer. formats: 0 for text and 1 for binary; none, one for all, or one for each column."""
    about = {"columns": list(columns), "count": len(rows), "notes": list(notes), "parameters": list(parameters)}
    about["copied"] = None if copy is None else copy.code
    head = json.dumps(about).encode() + b"\n"
    if copy is not None:
        return head + copied_rows(copy, columns, rows)
    writers = [pg.as_binary if form else pg.as_text for form in spread(formats, len(columns))]
    lines = []
    for row in rows:
        cells = zip(writers, row, columns, strict=True)
        lines.append(data_row([write(value, oid) for write, value, (_, oid) in cells]))
    return head + b"".join(lines)


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


@dataclass(frozen=True)
class Asked:
    """Request of a client: all that an answer depends on, so that equal requests are answered once.

    types: of the parameters, as far as the client says them. values: None where it only wants to know the columns.
    announced: the columns that it was told of, if it was. how: the session's confidence and interval. copy: how rows
    are copied, by COPY. views: those of the session that it may ask.
    """

    text: str
    who: Who
    how: Query
    types: tuple[int, ...] = ()
    values: tuple[Given, ...] | None = ()
    formats: tuple[int, ...] = ()
    announced: tuple[Column, ...] | None = None
    copy: Copy | None = None
    views: tuple[View, ...] = ()

    def packed(self) -> bytes:
        """Encode as JSON for a worker; bytes that a client sent become the Latin-1 characters of the same numbers."""
        values = None
        if self.values is not None:
            values = [(None if one.value is None else one.value.decode("latin-1"), one.binary) for one in self.values]
        told = (self.text, self.who, self.how.model_dump(), self.types, values, self.formats)
        return json.dumps((*told, self.announced, self.copy, self.views)).encode()

    @classmethod
    def unpacked(cls, packed: bytes) -> Asked:
        """Decode the request, in the worker."""
        text, who, how, types, values, formats, announced, copy, views = json.loads(packed)
        given = values and [Given(None if one is None else one.encode("latin-1"), binary) for one, binary in values]
        return cls(
            text,
            Who(*who),
            Query.model_validate(how),
            tuple(types),
            None if given is None else tuple(given),
            tuple(formats),
            None if announced is None else _columns(announced),
            None if copy is None else Copy(*copy),
            tuple(View(name, text, _columns(columns)) for name, text, columns in views),
        )


def _columns(listed: Sequence[Sequence[Any]]) -> tuple[Column, ...]:
    return tuple((str(name), int(oid)) for name, oid in listed)


_TABLES = re.compile(r"\s*show\s+(?:all\s+)?tables\s*;?\s*", re.IGNORECASE)
LISTED = "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY table_name"


class OfCatalogue(Exception):
    """Raised for a statement about the system catalogue, which this worker does not have."""


def answer(shelf: Shelf, catalogue: Catalogue | None, asked: Asked) -> bytes:
    """Answer a request; returns the packed answer."""
    try:
        return _answer(shelf, catalogue, asked)
    except RecursionError:
        raise too_deep() from None


def _answer(shelf: Shelf, catalogue: Catalogue | None, asked: Asked) -> bytes:
    text = LISTED if _TABLES.fullmatch(asked.text) else parameters_apart(asked.text)
    found = release_asked(text, shelf, asked.views)
    notes: Sequence[str] = ()
    if found is None:
        if catalogue is None:
            raise OfCatalogue
        tree = catalogue.read(text)
        with_views(tree, asked.views, "postgres")
        types, values = _values(tree, asked, None)
        columns, rows = catalogue.answer(tree, types, values, asked.who, asked.views)
    else:
        book, tree, changed = found
        types, values = _values(tree, asked, book.release.schema)
        changed |= respelled(tree) or bool(types)
        columns, rows, notes = _of_release(book, text, tree, asked.how, changed=changed)
    if asked.announced is not None:
        as_announced(columns, rows, asked.announced)
        columns = list(asked.announced)
    return pack_answer(columns, rows, formats=asked.formats, notes=notes, parameters=types, copy=asked.copy)


def _of_release(
    book: Book, text: str, tree: exp.Expression, how: Query, *, changed: bool
) -> tuple[list[Column], list[tuple[object, ...]], tuple[str, ...]]:
    """Answer a statement about a release: columns, rows and notes."""

    def asked(sql: str, how: Query) -> Result:
        return ask(book, sql, how, strict=how.strict, errors=how.errors)

    sql = as_release_reads_it(text, tree, book, changed=changed)
    selections = keep_top_groups(tree, lambda inner: asked(inner, how))
    notes: tuple[str, ...] = ()
    if selections is not None:
        sql = tree.sql(dialect="duckdb")
        how, notes = allowing_for(how, selections)
    result = asked(sql, how)
    columns, rows = _table(result, book)
    return columns, rows, (*(f"note: {note}" for note in notes), *result.remarks)


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
