"""SQL that maps an attribute's value to its cell along the axis, exactly as `sfumato.domain.Axis` does.

Numbers and dates are clipped to their bounds and binned; a category's value is looked up in its public list of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from sfumato.arrays import Codes
from sfumato.domain import Axis
from sfumato.errors import SchemaError
from sfumato.kernel.reading.engines import Column, Engine
from sfumato.kernel.reading.expressions import (
    SQL,
    TEXTS,
    at_most,
    cast,
    choose,
    clip,
    column,
    day,
    double,
    in_plain_digits,
    is_float,
    is_present,
    missing_if_nan,
    moment,
    over,
    type_of,
    whole,
    whole_text,
    without_marks,
)
from sfumato.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number
from sfumato.schema.attributes.lists import BLANKS, LOWER, UPPER, as_number
from sfumato.schema.parts import as_day
from sfumato.schema.rules import runs_of
from sfumato.schema.series import Series

SHORT_LIST = 32  # values that are compared in turn faster than they are looked up
LONG_LIST = 1000  # values that DuckDB is given as one text
BETWEEN = "\x1f"  # between the values of such a text: what ASCII has for it
MOST_LOOKED_UP = 8  # lists in one statement


def long_lists(attributes: Mapping[str, Attribute]) -> set[str]:
    """Categories whose values are looked up by a subquery, which takes as long for thousands of values as for two.

    They are few, the longest: an engine takes minutes to plan dozens of subqueries. Other values are compared in turn.
    """
    lengths = {name: len(one.spellings) for name, one in attributes.items() if isinstance(one, Category)}
    longest = sorted(lengths, key=lambda name: -lengths[name])[:MOST_LOOKED_UP]
    return {name for name in longest if lengths[name] > SHORT_LIST}


def cell_in_list(attribute: Category, value: SQL, name: str, engine: Engine, *, looked_up: bool) -> SQL:
    """SQL of the cell of a category's value; NULL if its row is left out.

    Where missing values are kept, NULL and an unlisted empty text are missing; other unlisted ones `other` or NULL.
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
    """SQL of the index of a value in a category's list; NULL if it is not listed.

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
    places = exp.Select(expressions=[exp.Min(this=column("code", name))]).from_(
        _list(entries, name, engine), copy=False
    )
    return places.where(exp.EQ(this=read(column("entry", name)), expression=value.copy()), copy=False).subquery()


def looked_up(values: Mapping[str, str], text: SQL, engine: Engine, *, by_subquery: bool) -> SQL:
    """SQL that looks up a text, by its bytes, in a public mapping; NULL if it is not in it. One value for each row."""
    name = "looked_up"

    def read(entry: SQL) -> SQL:
        return engine.bytes_of(cast(entry, "text"))

    key, entries = read(text), list(values.items())
    if not entries:
        return cast(exp.Null(), "text")
    if not (engine.subqueries and by_subquery):
        return _halved(entries, key, read, numeric=False)
    found = exp.Select(expressions=[exp.Min(this=column("code", name))]).from_(_list(entries, name, engine), copy=False)
    return found.where(exp.EQ(this=read(column("entry", name)), expression=key), copy=False).subquery()


def _halved(entries: Sequence[tuple[str, int | str]], value: SQL, read: Callable[[SQL], SQL], *, numeric: bool) -> SQL:
    """SQL that looks up a value in a list by binary search: bytes and numbers have one order in every engine."""
    in_order = sorted(entries, key=lambda entry: float(entry[0]) if numeric else entry[0].encode())

    def among(low: int, high: int) -> SQL:
        if high - low == 1:
            entry, code = in_order[low]
            return choose([(exp.EQ(this=value, expression=read(exp.Literal.string(entry))), _code(code))], exp.Null())
        middle = (low + high) // 2
        below = exp.LT(this=value.copy(), expression=read(exp.Literal.string(in_order[middle][0])))
        return exp.Case(ifs=[exp.If(this=below, true=among(low, middle))], default=among(middle, high))

    return among(0, len(in_order))


def _entries(attribute: Category) -> list[tuple[str, int]]:
    """Spellings of a category as written in the statement, each with its cell."""
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


def _code(code: int | str) -> SQL:
    return cast(exp.Literal.string(code), "text") if isinstance(code, str) else whole(code)


def _list(entries: Sequence[tuple[str, int | str]], name: str, engine: Engine) -> SQL:
    """SQL lookup table from texts to cells, or to other texts."""
    columns = [exp.to_identifier("entry"), exp.to_identifier("code")]
    alias = exp.TableAlias(this=exp.to_identifier(name), columns=columns)
    texts, stood_for = [entry for entry, _ in entries], [str(code) for _, code in entries]
    if (
        len(entries) > LONG_LIST
        and engine.dialect == "duckdb"
        and not any(BETWEEN in one for one in (*texts, *stood_for))
    ):
        # One text for all: an engine parses, and a program writes, single values a hundred times slower.
        codes = _split(stood_for)
        if isinstance(entries[0][1], int):
            codes = exp.cast(codes, "BIGINT[]", dialect="duckdb")
        both = [exp.Anonymous(this="unnest", expressions=[part]) for part in (_split(texts), codes)]
        return exp.Subquery(this=exp.Select(expressions=both), alias=alias)
    return exp.Values(
        expressions=[exp.Tuple(expressions=[exp.Literal.string(entry), _code(code)]) for entry, code in entries],
        alias=alias,
    )


def _split(texts: Iterable[str]) -> SQL:
    """SQL of a list of texts, written as one text."""
    parts = [exp.Literal.string(BETWEEN.join(texts)), exp.Literal.string(BETWEEN)]
    return exp.Anonymous(this="string_split", expressions=parts)


MOST_UNEVEN_CELLS = 10_000  # each edge of uneven cells is written into the statement
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
    """SQL of a column's value in the attribute's own type; NULL if missing or unreadable."""
    return unless_missing(_read_value(attribute, source, engine), source, engine)


def unless_missing(value: SQL, source: Column, engine: Engine) -> SQL:
    """SQL of a value of a column with NULL in place of the words that the schema states for missing values.

    Texts are compared by their bytes, without blanks at both ends; numbers and days as what they are.
    """
    found, words = type_of(source, engine.dialect), source.spelling.missing
    tests: list[SQL] = []
    if words and (found is None or found in TEXTS):
        text = engine.bytes_of(_folded(read_text(source, engine), ("spaces",)))
        midnights = [f"{one} 00:00:00" for one in words if as_day(one) is not None]  # as Excel and pandas have a day
        spelled = map(exp.Literal.string, (*words, *midnights))
        tests = [exp.EQ(this=text, expression=engine.bytes_of(one)) for one in spelled]
    elif words and found in exp.DataType.INTEGER_TYPES | exp.DataType.REAL_TYPES:
        number = engine.safe_cast(column(source.reference), source, "double")
        numbers = [number for number in map(as_number, words) if number is not None]
        tests = [exp.EQ(this=number, expression=double(one)) for one in numbers]
    elif words and found in exp.DataType.TEMPORAL_TYPES:
        date = engine.safe_cast(column(source.reference), source, "date")
        tests = [exp.EQ(this=date, expression=day(one)) for one in map(as_day, words) if one is not None]
    return choose([(test, exp.Null()) for test in tests], value) if tests else value


def _read_value(attribute: Attribute, source: Column, engine: Engine) -> SQL:
    if isinstance(attribute, Boolean):
        return _read_boolean(attribute, source, engine)
    if isinstance(attribute, Date):
        to = "timestamp" if attribute.has_time else "date"
        return engine.safe_cast(read_time(source, engine), source, to)
    if isinstance(attribute, Category) and not attribute.numeric:
        return engine.bytes_of(_folded(read_text(source, engine), attribute.fold or ()))
    if reads_whole(attribute, source, engine):
        return engine.safe_cast(column(source.reference), source, "bigint")
    return _read_number(source, engine)


def _read_boolean(attribute: Boolean, source: Column, engine: Engine) -> SQL:
    """SQL of a column as a boolean, by the schema's map of texts or by the usual spellings."""
    usual = engine.safe_cast(column(source.reference), source, "boolean")
    if not attribute.spellings:
        return usual
    text = engine.bytes_of(_folded(read_text(source, engine), attribute.fold or ()))
    told = [
        (exp.EQ(this=text, expression=engine.bytes_of(exp.Literal.string(spelling))), exp.Boolean(this=truth))
        for spelling, truth in attribute.spellings.items()
    ]
    return choose(told, usual)


def reads_whole(attribute: Attribute, source: Column, engine: Engine) -> bool:
    """Whether an integer attribute is read as integers: several times faster than doubles, with the same cells.

    Rounding to doubles keeps order, and leaves bounds below 2^53 where they are: clipped, both are the same number.
    """
    if not isinstance(attribute, Integer) or type_of(source, engine.dialect) not in _WITHIN_64_BITS:
        return False
    return max(abs(attribute.lower), abs(attribute.upper)) < _EXACT


def read_time(source: Column, engine: Engine) -> SQL:
    """SQL of a column as date or time: as it is, or parsed from text in the stated format."""
    value, written = column(source.reference), source.spelling.dates
    if written is None:
        found = type_of(source, engine.dialect)
        # DuckDB takes a day with a blank behind it for a date and for no time; other engines for both.
        text = engine.dialect == "duckdb" and (found is None or found in TEXTS)
        return exp.Trim(this=value, expression=exp.Literal.string(BLANKS)) if text else value
    time = engine.time_of(value, written)
    if "%Y" not in written:
        return time
    year = exp.Extract(this=exp.var("YEAR"), expression=time.copy())
    return choose([(year >= whole(1000), time)], exp.Null())  # four digits: 1.2.20 is not a day of the year 20


def read_number(source: Column, engine: Engine) -> SQL:
    """SQL of a column as a number; NULL if missing or unreadable."""
    return unless_missing(_read_number(source, engine), source, engine)


def _read_number(source: Column, engine: Engine) -> SQL:
    """SQL of a column as a number. In columns of text, true and false are 1 and 0, as they are in booleans."""
    spelling = source.spelling
    text = without_marks(column(source.reference), spelling.strip if source.type is None else ())
    spelled = in_plain_digits(text, spelling.decimal, spelling.thousands)
    value = missing_if_nan(engine.safe_cast(spelled, source, "double"))
    if source.type is not None:
        return value
    words = [
        (exp.EQ(this=column(source.reference), expression=exp.Literal.string(word)), double(place))
        for place, word in enumerate(("false", "true"))
    ]
    return exp.Coalesce(this=value, expressions=[choose(words, exp.Null())])


def in_period(series: Series, label: str, source: Column, engine: Engine) -> SQL:
    """SQL test whether a row is in a period, by its own value; not where that is missing or cannot be read.

    A day has one period, and what is no day is compared with the period as it is written: no row is in two. Days that
    are written in a stated format are read by that alone.
    """
    text = engine.bytes_of(_folded(read_text(source, engine), ("spaces",)))
    flag = _flag(exp.EQ(this=text, expression=engine.bytes_of(exp.Literal.string(label))))
    if series.period == "day" and source.spelling.dates is not None:
        flag = whole(0)
    first, last = series.first_day(label), series.last_day(label)
    found = type_of(source, engine.dialect)
    if first is not None and last is not None and (found is None or found in exp.DataType.TEMPORAL_TYPES):
        date = engine.safe_cast(read_time(source, engine), source, "date")
        within: SQL = exp.And(this=date.copy() >= day(first), expression=date.copy() <= day(last))
        flag = choose([(is_present(date), _flag(within))], flag)
    return exp.EQ(this=unless_missing(flag, source, engine), expression=whole(1))


def _flag(test: SQL) -> SQL:
    return choose([(test, whole(1))], whole(0))


def read_unit(source: Column, engine: Engine, *, as_text: bool = False) -> SQL:
    """SQL of the privacy unit of a row; NULL if it has none.

    as_text: by its text alone, by which people are known in tables of other types too.

    For privacy: texts are compared by their bytes, because a collation that takes two persons for one would let one of
    them decide which rows of the other are kept, and NaN would be a person whom many can join. Where each value has a
    type of its own, its type is part of who it is (`sfumato.kernel.reading.formats.origin.identity_of`).
    """
    return unless_missing(_read_unit(source, engine, as_text), source, engine)


def _read_unit(source: Column, engine: Engine, as_text: bool) -> SQL:
    if source.who is not None and not as_text:
        return column(source.who)
    value = column(source.reference)
    found = type_of(source, engine.dialect)
    if as_text or found is None or found in TEXTS:
        return engine.bytes_of(read_text(source, engine))
    return engine.without_nan(value, source)


def read_text(source: Column, engine: Engine) -> SQL:
    """SQL of a column as text; a whole float is written as an integer, so that a listed 3 matches; NaN is missing."""
    value = column(source.reference)
    text = engine.safe_cast(value, source, "text")
    if not is_float(source, engine.dialect):
        return text
    return choose([(exp.NEQ(this=value, expression=double(math.nan)), whole_text(value, text))], exp.Null())


def _folded(text: SQL, how: tuple[str, ...]) -> SQL:
    """SQL of a text folded like `schema.attributes.lists.folded`: ASCII letters and blanks, whatever the locale."""
    if "spaces" in how:
        text = exp.Trim(this=text, expression=exp.Literal.string(BLANKS))
    if "case" in how:
        text = exp.Anonymous(this="translate", expressions=[text, *map(exp.Literal.string, (UPPER, LOWER))])
    return text


def within_bounds(attribute: Attribute, value: SQL, *, in_whole: bool = False) -> SQL:
    """SQL of a present value clipped to the attribute's bounds. in_whole: it was read as an integer.

    Where missing values are kept a missing one stays so; elsewhere its row is left out.
    """
    bounded = _bounded(attribute, value, in_whole)
    return choose([(is_present(value), bounded)], exp.Null()) if attribute.keeps_missing else bounded


def _bounded(attribute: Attribute, value: SQL, in_whole: bool) -> SQL:
    if in_whole and isinstance(attribute, Integer):
        return clip(value, *(cast(whole(bound), "bigint") for bound in (attribute.lower, attribute.upper)))
    if isinstance(attribute, Date):
        return clip(value, *map(moment, attribute.moments) if attribute.has_time else map(day, attribute.bounds))
    if isinstance(attribute, Integer | Number):
        bounded = clip(value, double(attribute.lower), double(attribute.upper))
        return exp.Floor(this=bounded) if isinstance(attribute, Integer) else bounded
    return value


def cell_along(attribute: Attribute, axis: Axis, name: str, *, in_whole: bool = False) -> SQL:
    """SQL of the cell along an axis, from a column of clipped values (for a category: of indices in its list)."""
    cell = _cell_of_value(attribute, axis, name, in_whole)
    if not attribute.keeps_missing or isinstance(attribute, Category):
        return cell
    return choose([(is_present(column(name)), cell)], whole(axis.places))


def _cell_of_value(attribute: Attribute, axis: Axis, name: str, in_whole: bool) -> SQL:
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
    """SQL of the cell of a number: estimated by division, then corrected by comparison with both edges."""
    grid = attribute.grid
    if grid is None or abs(grid[0]) + (axis.places + 1) * grid[1] > _NEAR:
        return _search(axis, name)
    first, step, parts = map(double, grid)
    guess = exp.Floor(this=over(column(name) * parts - first, step))
    beyond = guess + double(1)

    def edge(place: SQL) -> SQL:
        # Whole numbers that doubles hold, divided once: the double nearest to the edge, as in the axis.
        return over(place * step + first, parts)

    too_far, too_near = column(name) < edge(guess), column(name) >= edge(beyond)
    cell = choose([(too_far, guess - double(1)), (too_near, beyond)], guess)
    return at_most(cell, double(axis.places - 1))  # the upper bound belongs to the last cell


def _integer_cell(attribute: Integer, axis: Axis, name: str, in_whole: bool) -> SQL:
    """SQL of the cell of an integer, floor((offset * times + rest) / by): exact, because a quotient of integers that
    doubles hold never rounds up to an integer.
    """
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
    first, value = attribute.bounds[0], column(name)
    if attribute.recurring:
        return part_of("HOUR", value) if attribute.has_time else part_of("ISODOW", value) - whole(1)
    if attribute.has_time:
        return exp.DateDiff(this=value, expression=moment(attribute.moments[0]), unit=exp.var("HOUR"))
    days = exp.DateDiff(this=value, expression=day(first), unit=exp.var("DAY"))
    months = (part_of("YEAR", value) - whole(first.year)) * whole(12) + part_of("MONTH", value)
    cells: dict[str, SQL] = {
        "day": days,
        "week": _floor_quotient(days, first.weekday(), 7),
        "month": months - whole(first.month),
        "quarter": _floor_quotient(months, -1, 3) - double((first.month - 1) // 3),
        "year": part_of("YEAR", value) - whole(first.year),
    }
    return cells[attribute.by]


def part_of(unit: str, value: SQL) -> SQL:
    """SQL of a part of a date or time, such as YEAR, as a whole number."""
    return cast(exp.Extract(this=exp.var(unit), expression=value.copy()), "bigint")


def _floor_quotient(number: SQL, plus: int, by: int) -> SQL:
    """SQL of floor((number + plus) / by), exact for integers that doubles hold (see `_integer_cell`)."""
    return exp.Floor(this=over(cast(exp.paren(number + whole(plus)), "double"), double(by)))


def in_steps_of_cells(name: str, codes: Codes) -> SQL:
    """SQL that maps a column of cells to codes[cell], by a binary search among runs of equal codes."""
    runs = runs_of(codes)
    if len(runs) > MOST_UNEVEN_CELLS:
        raise SchemaError(
            f"follows or impossible names values in more than {MOST_UNEVEN_CELLS:,} separate runs; list values that "
            "belong together side by side"
        )

    def among(low: int, high: int) -> SQL:
        if high - low == 1:
            return whole(runs[low][2])
        middle = (low + high) // 2
        below = column(name) < whole(runs[middle][0])
        return exp.Case(ifs=[exp.If(this=below, true=among(low, middle))], default=among(middle, high))

    return among(0, len(runs))


def _search(axis: Axis, name: str) -> SQL:
    """SQL of the cell among uneven edges, by binary search."""
    if axis.places > MOST_UNEVEN_CELLS:
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

    return among(0, axis.places)
