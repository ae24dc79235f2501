"""How a category's value becomes a cell, in SQL: by its place in the public list of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from sfumato.errors import SchemaError
from sfumato.kernel.reading.engines import Engine
from sfumato.kernel.reading.expressions import SQL, cast, choose, column, whole
from sfumato.schema.attributes import Attribute, Category
from sfumato.schema.recoding import as_number

SHORT_LIST = 32  # values that are compared in turn faster than they are looked up
MOST_LOOKED_UP = 8  # lists in one statement


def long_lists(attributes: Mapping[str, Attribute]) -> set[str]:
    """The categories whose values are looked up by a subquery: as fast for thousands of values as for two.

    They are few, the longest: an engine takes minutes to plan dozens of subqueries. Other values are compared in turn.
    """
    lengths = {name: len(one.spellings) for name, one in attributes.items() if isinstance(one, Category)}
    longest = sorted(lengths, key=lambda name: -lengths[name])[:MOST_LOOKED_UP]
    return {name for name in longest if lengths[name] > SHORT_LIST}


def cell_in_list(attribute: Category, value: SQL, name: str, engine: Engine, *, looked_up: bool) -> SQL:
    """The cell of a category's value; NULL if its row is left out.

    A value that is not listed is missing if there is none, or if it is an empty text.
    """
    cell = _place_in_list(attribute, value, name, engine, looked_up=looked_up)
    otherwise: list[tuple[SQL, SQL]] = []
    if attribute.keeps_missing:
        missing = whole(attribute.places)
        otherwise.append((exp.Is(this=value, expression=exp.Null()), missing))
        if not attribute.numeric:
            otherwise.append((exp.EQ(this=value, expression=engine.bytes_of(exp.Literal.string(""))), missing))
    rest = whole(len(attribute.values)) if attribute.other else exp.Null()
    if otherwise:
        rest = choose(otherwise, rest)
    return exp.Coalesce(this=cell, expressions=[rest]) if otherwise or attribute.other else cell


def _place_in_list(attribute: Category, value: SQL, name: str, engine: Engine, *, looked_up: bool) -> SQL:
    """The place of a value in a category's list, NULL if it is not there.

    For privacy it is one number for each row, the least that matches: a join could let a row pass twice.
    """

    def read(entry: SQL) -> SQL:
        return cast(entry, "double") if attribute.numeric else engine.bytes_of(cast(entry, "text"))

    entries = _entries(attribute)
    if len(entries) > SHORT_LIST and not engine.subqueries:
        return _halved(entries, value, read, numeric=attribute.numeric)
    if not looked_up:
        spelled = [(read(exp.Literal.string(entry)), whole(code)) for entry, code in entries]
        return choose([(exp.EQ(this=value.copy(), expression=entry), code) for entry, code in spelled], exp.Null())
    places = exp.Select(expressions=[exp.Min(this=column("code", name))]).from_(_list(entries, name), copy=False)
    return places.where(exp.EQ(this=read(column("entry", name)), expression=value.copy()), copy=False).subquery()


def _halved(entries: Sequence[tuple[str, int]], value: SQL, read: Callable[[SQL], SQL], *, numeric: bool) -> SQL:
    """The place of a value in a list, found by halving: bytes have one order everywhere, as numbers do."""
    in_order = sorted(entries, key=lambda entry: float(entry[0]) if numeric else entry[0].encode())

    def among(low: int, high: int) -> SQL:
        if high - low == 1:
            entry, code = in_order[low]
            return choose([(exp.EQ(this=value, expression=read(exp.Literal.string(entry))), whole(code))], exp.Null())
        middle = (low + high) // 2
        below = exp.LT(this=value.copy(), expression=read(exp.Literal.string(in_order[middle][0])))
        return exp.Case(ifs=[exp.If(this=below, true=among(low, middle))], default=among(middle, high))

    return among(0, len(in_order))


def _entries(attribute: Category) -> list[tuple[str, int]]:
    """A category's spellings as the statement has them, each with the cell that it means."""
    entries = list(attribute.spellings.items())
    if attribute.numeric:
        numbers = [as_number(spelling) for spelling, _ in entries]
        if len(set(numbers)) < len(numbers):  # for privacy: a row must not match, and count, twice
            raise SchemaError("a category lists two numbers that computers do not tell apart; write its values as text")
        entries = [(repr(number), code) for number, (_, code) in zip(numbers, entries, strict=True)]
    try:
        "".join(entry for entry, _ in entries).encode()
    except UnicodeEncodeError:
        raise SchemaError("a category lists a value that is not valid text; take it out") from None
    return entries


def _list(entries: Sequence[tuple[str, int]], name: str) -> SQL:
    """A category's spellings and their cells, as a table."""
    return exp.Values(
        expressions=[exp.Tuple(expressions=[exp.Literal.string(entry), whole(code)]) for entry, code in entries],
        alias=exp.TableAlias(
            this=exp.to_identifier(name), columns=[exp.to_identifier("entry"), exp.to_identifier("code")]
        ),
    )
