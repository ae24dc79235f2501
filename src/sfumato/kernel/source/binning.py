"""How an attribute's value becomes a cell along its axis, in SQL: cell for cell as `sfumato.domain.Axis` says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sqlglot import exp

from sfumato.domain import Axis
from sfumato.errors import SchemaError
from sfumato.kernel.source.engines import Column, Engine
from sfumato.kernel.source.expressions import (
    SQL,
    at_most,
    cast,
    choose,
    clip,
    column,
    day,
    double,
    in_plain_digits,
    number,
    over,
    try_cast,
    whole,
    whole_text,
)
from sfumato.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number

MOST_UNEVEN_CELLS = 10_000  # each edge of uneven cells is written into the statement
SHORT_LIST = 32  # values that are compared in turn faster than they are looked up
MOST_LOOKED_UP = 8  # lists in one statement
_EXACT = 2**53  # whole numbers below are exact as doubles
_TYPES = exp.DataType.Type
_WITHIN_64_BITS = {
    _TYPES.TINYINT,
    _TYPES.SMALLINT,
    _TYPES.INT,
    _TYPES.BIGINT,
    _TYPES.UTINYINT,
    _TYPES.USMALLINT,
    _TYPES.UINT,
}
_NEAR = 2**50  # and up to here three roundings and that of an edge, 1/8 each, put a guess one cell off at most


def read_value(attribute: Attribute, source: Column, engine: Engine) -> SQL:
    """A column as what the attribute compares; NULL if it is missing or cannot be read."""
    if isinstance(attribute, Boolean):
        return try_cast(column(source.reference), "boolean")
    if isinstance(attribute, Date):
        return try_cast(read_time(source, engine), "date")
    if isinstance(attribute, Category) and not attribute.numeric:
        return engine.bytes_of(_text(source, engine))
    if reads_whole(attribute, source, engine):
        return try_cast(column(source.reference), "bigint")
    return read_number(source)


def reads_whole(attribute: Attribute, source: Column, engine: Engine) -> bool:
    """Whether whole numbers are read as such: several times as fast as by way of doubles, and into the same cells.

    Rounding to doubles keeps order, and leaves bounds below 2^53 where they are: clipped, both are the same number.
    """
    if not isinstance(attribute, Integer) or _type(source, engine) not in _WITHIN_64_BITS:
        return False
    return max(abs(attribute.lower), abs(attribute.upper)) < _EXACT


def read_time(source: Column, engine: Engine) -> SQL:
    """A column as what a date can be made of: as it is, or read from text in the form that was stated."""
    value, written = column(source.reference), source.spelling.dates
    if written is None:
        return value
    time = engine.time_of(value, written)
    if "%Y" not in written:
        return time
    year = exp.Extract(this=exp.var("YEAR"), expression=time.copy())
    return choose([(year >= whole(1000), time)], exp.Null())  # four digits: 1.2.20 is not a day of the year 20


def read_number(source: Column) -> SQL:
    """A column as a number. Where all is text, true and false are 1 and 0, as they are in columns of booleans."""
    spelling = source.spelling
    value = number(in_plain_digits(column(source.reference), spelling.decimal, spelling.thousands))
    if source.type is not None:
        return value
    words = [
        (exp.EQ(this=column(source.reference), expression=exp.Literal.string(word)), double(place))
        for place, word in enumerate(("false", "true"))
    ]
    return exp.Coalesce(this=value, expressions=[choose(words, exp.Null())])


def read_unit(source: Column, engine: Engine) -> SQL:
    """Whom a row is about; NULL if nobody.

    For privacy: texts are compared by their bytes, because a collation that takes two persons for one would let one of
    them decide which rows of the other are kept, and NaN would be a person whom many can join.
    """
    value = column(source.reference)
    found = _type(source, engine)
    if found in exp.DataType.FLOAT_TYPES:
        return exp.Nullif(this=value, expression=double(math.nan))
    if found is None or found in exp.DataType.TEXT_TYPES | {exp.DataType.Type.ENUM}:
        return engine.bytes_of(_text(source, engine))
    return value


def _text(source: Column, engine: Engine) -> SQL:
    """A column as text; a whole float as a whole number, so that a listed 3 finds it."""
    value = column(source.reference)
    return whole_text(value) if _type(source, engine) in exp.DataType.FLOAT_TYPES else try_cast(value, "text")


def _type(source: Column, engine: Engine) -> exp.DType | None:
    return None if source.type is None else exp.DataType.build(source.type, dialect=engine.dialect).this


def within_bounds(attribute: Attribute, value: SQL, *, in_whole: bool = False) -> SQL:
    """A value that is present, moved to the nearest bound if it lies outside. in_whole: it was read so."""
    if in_whole and isinstance(attribute, Integer):
        return clip(value, *(cast(whole(bound), "bigint") for bound in (attribute.lower, attribute.upper)))
    if isinstance(attribute, Date):
        return clip(value, day(attribute.lower), day(attribute.upper))
    if isinstance(attribute, Integer | Number):
        bounded = clip(value, double(attribute.lower), double(attribute.upper))
        return exp.Floor(this=bounded) if isinstance(attribute, Integer) else bounded
    return value


def long_lists(attributes: Mapping[str, Attribute]) -> set[str]:
    """The categories whose values are looked up by a subquery: as fast for thousands of values as for two.

    They are few, the longest: an engine takes minutes to plan dozens of subqueries. Other values are compared in turn.
    """
    lengths = {name: len(one.values) for name, one in attributes.items() if isinstance(one, Category)}
    longest = sorted(lengths, key=lambda name: -lengths[name])[:MOST_LOOKED_UP]
    return {name for name in longest if lengths[name] > SHORT_LIST}


def place_in_list(attribute: Category, value: SQL, name: str, engine: Engine, *, looked_up: bool) -> SQL:
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
    return places.where(exp.EQ(this=read(column("entry", name)), expression=value), copy=False).subquery()


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


def cell_along(attribute: Attribute, axis: Axis, name: str, *, in_whole: bool = False) -> SQL:
    """The cell along an axis, for a column of values within bounds (for a category: of places in its list)."""
    if isinstance(attribute, Category):
        return column(name)
    if isinstance(attribute, Boolean):
        return choose([(column(name), whole(1))], whole(0))
    if isinstance(attribute, Date):
        return _date_cell(attribute, name)
    if isinstance(attribute, Integer):
        return _integer_cell(attribute, axis, name, in_whole)
    return _number_cell(attribute, axis, name)


def _number_cell(attribute: Number, axis: Axis, name: str) -> SQL:
    """Guess by division, then compare with the edges on both sides, so that rounding cannot misplace a value."""
    grid = attribute.grid
    if grid is None or abs(grid[0]) + (axis.size + 1) * grid[1] > _NEAR:
        return _search(axis, name)
    first, step, parts = map(double, grid)
    guess = exp.Floor(this=over(column(name) * parts - first, step))
    beyond = guess + double(1)

    def edge(place: SQL) -> SQL:
        # Whole numbers that doubles hold, divided once: the double nearest to the edge, as in the axis.
        return over(place * step + first, parts)

    too_far, too_near = column(name) < edge(guess), column(name) >= edge(beyond)
    cell = choose([(too_far, guess - double(1)), (too_near, beyond)], guess)
    return at_most(cell, double(axis.size - 1))  # the upper bound belongs to the last cell


def _integer_cell(attribute: Integer, axis: Axis, name: str, in_whole: bool) -> SQL:
    """floor((offset * times + rest) / by), which is exact: a quotient of whole numbers that doubles hold never rounds
    up to a whole number."""
    span = attribute.upper - attribute.lower + 1
    times, rest, by = 1, 0, attribute.width or 1
    if attribute.bins:  # cells start at floor(i * span / bins)
        times, rest, by = attribute.bins, attribute.bins - 1, span
    if attribute.cuts is not None or span * times >= _EXACT:
        return _search(axis, name)
    offset: SQL = column(name) - (whole(attribute.lower) if in_whole else double(attribute.lower))
    if by == 1:
        return offset
    if in_whole:
        offset = cast(exp.paren(offset), "double")
    return exp.Floor(this=over(offset * double(times) + double(rest), double(by)))


def _date_cell(attribute: Date, name: str) -> SQL:
    def part(unit: str) -> SQL:
        return cast(exp.Extract(this=exp.var(unit), expression=column(name)), "bigint")

    first = attribute.lower
    if attribute.by == "day":
        return exp.DateDiff(this=column(name), expression=day(first), unit=exp.var("DAY"))
    years = part("YEAR") - whole(first.year)
    return years if attribute.by == "year" else years * whole(12) + part("MONTH") - whole(first.month)


def _search(axis: Axis, name: str) -> SQL:
    """The cell among uneven edges, by halving."""
    if axis.size > MOST_UNEVEN_CELLS:
        raise SchemaError(
            f"attributes.{axis.name} has more than {MOST_UNEVEN_CELLS:,} cells that are not evenly spaced in numbers "
            "a computer holds exactly; use fewer cells, or bounds with fewer digits"
        )

    def among(low: int, high: int) -> SQL:
        if high - low == 1:
            return whole(low)
        middle = (low + high) // 2
        return exp.Case(
            ifs=[exp.If(this=column(name) < double(axis.edges[middle]), true=among(low, middle))],
            default=among(middle, high),
        )

    return among(0, axis.size)
