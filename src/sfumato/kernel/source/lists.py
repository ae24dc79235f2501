"""How a category's value becomes a cell, in SQL: by its place in the public list of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sfumato.errors import SchemaError
from sfumato.kernel.source.engines import Engine
from sfumato.kernel.source.expressions import SQL, cast, choose, column, whole
from sfumato.schema.attributes import Attribute, Category

SHORT_LIST = 32  # values that are compared in turn faster than they are looked up
MOST_LOOKED_UP = 8  # lists in one statement


def long_lists(attributes: Mapping[str, Attribute]) -> set[str]:
    """The categories whose values are looked up by a subquery: as fast for thousands of values as for two.

    They are few, the longest: an engine takes minutes to plan dozens of subqueries. Other values are compared in turn.
    """
    lengths = {name: len(one.values) for name, one in attributes.items() if isinstance(one, Category)}
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
    if not looked_up:
        tests = [exp.EQ(this=value.copy(), expression=read(exp.Literal.string(entry))) for entry in entries]
        return choose([(test, whole(code)) for code, test in enumerate(tests)], exp.Null())
    places = exp.Select(expressions=[exp.Min(this=column("code", name))]).from_(_list(entries, name), copy=False)
    return places.where(exp.EQ(this=read(column("entry", name)), expression=value.copy()), copy=False).subquery()


def _entries(attribute: Category) -> tuple[str, ...]:
    """A category's values as the statement spells them."""
    entries = attribute.listed
    if attribute.numeric:
        numbers = [float(value) for value in attribute.values]
        if len(set(numbers)) < len(numbers):  # for privacy: a row must not match, and count, twice
            raise SchemaError("a category lists two numbers that computers do not tell apart; write its values as text")
        entries = tuple(map(repr, numbers))
    try:
        "".join(entries).encode()
    except UnicodeEncodeError:
        raise SchemaError("a category lists a value that is not valid text; take it out") from None
    return entries


def _list(entries: Sequence[str], name: str) -> SQL:
    """A category's values and their cells, as a table."""
    return exp.Values(
        expressions=[
            exp.Tuple(expressions=[exp.Literal.string(entry), whole(code)]) for code, entry in enumerate(entries)
        ],
        alias=exp.TableAlias(
            this=exp.to_identifier(name), columns=[exp.to_identifier("entry"), exp.to_identifier("code")]
        ),
    )
