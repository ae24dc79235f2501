"""Small SQL expressions that mean the same in every engine, built with sqlglot; and types of columns.

A column's type is known from the word that its engine has for it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import SupportsFloat

from sqlglot import exp

from sfumato.kernel.reading.engines import Column

TEXTS = exp.DataType.TEXT_TYPES | {exp.DataType.Type.ENUM}


def type_of(source: Column, dialect: str) -> exp.DType | None:
    """Type of a column as sqlglot's enumeration; None for untyped text."""
    return None if source.type is None else exp.DataType.build(source.type, dialect=dialect).this


def is_float(source: Column, dialect: str) -> bool:
    """Whether the column holds floats."""
    return type_of(source, dialect) in exp.DataType.FLOAT_TYPES


SQL = exp.Expression
_WHOLE = 2.0**63  # a double below this is a 64-bit number if it is whole


def column(name: str, table: str | None = None) -> SQL:
    """SQL of a column, quoted."""
    return exp.column(name, table=table, quoted=True)


def named(expression: SQL, name: str) -> SQL:
    """SQL of an expression with an alias."""
    return exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True))


def whole(value: int) -> SQL:
    """SQL literal of an integer."""
    return exp.Literal.number(value)


def double(value: SupportsFloat) -> SQL:
    """SQL of a double that reads back to the same bits; a bare 0.3 is a decimal to most engines.

    >>> double(0.3).sql()
    "CAST('0.3' AS DOUBLE)"
    """
    return cast(exp.Literal.string(repr(float(value))), "double")


def day(value: date) -> SQL:
    """SQL literal of a date."""
    return cast(exp.Literal.string(value.isoformat()), "date")


def moment(value: datetime) -> SQL:
    """SQL literal of a timestamp, to the microsecond."""
    return cast(exp.Literal.string(value.isoformat(" ")), "timestamp")


def cast(value: SQL, to: str) -> SQL:
    """SQL CAST of a value that is known to fit the type."""
    return exp.Cast(this=value, to=_type(to).copy())


def try_cast(value: SQL, to: str) -> SQL:
    """SQL TRY_CAST of a value: NULL if it does not fit."""
    return exp.TryCast(this=value, to=_type(to).copy(), safe=True)


@lru_cache(maxsize=32)
def _type(name: str) -> exp.DataType:
    return exp.DataType.build(name)  # it parses a text, which takes longer than all else about a cast


def missing_if_nan(value: SQL) -> SQL:
    """SQL of a float with NaN as NULL (engines rank NaN above every number, so it would count as the largest)."""
    return exp.Nullif(this=value, expression=double(math.nan))


_BLANKS = "[ \t\u00a0\u202f]*"


def without_marks(value: SQL, marks: Sequence[str]) -> SQL:
    """SQL of a number's text without its units (`marks`): one before it, on either side of its sign, and one after it.

    For columns without types alone, all of which DuckDB reads: its REGEXP_REPLACE replaces the first match.
    """
    if not marks:
        return value
    any_mark = "|".join(re.escape(mark) for mark in sorted(marks, key=len, reverse=True))
    before, after = f"^{_BLANKS}([+-]?){_BLANKS}(?:{any_mark}){_BLANKS}", f"{_BLANKS}(?:{any_mark}){_BLANKS}$"
    for pattern, instead in ((before, "\\1"), (after, "")):
        parts = [value, exp.Literal.string(pattern), exp.Literal.string(instead)]
        value = exp.Anonymous(this="REGEXP_REPLACE", expressions=parts)
    return value


def in_plain_digits(value: SQL, decimal: str, thousands: str) -> SQL:
    """SQL of a number's text with a decimal point and no thousands separators; NULL if it is spelled otherwise.

    Not merely by replacing: 1.5 must not become 15 where points part thousands.
    """
    if decimal == "." and not thousands:
        return value
    marks = (" ", "\u00a0", "\u202f") if thousands == " " else (thousands,) * bool(thousands)
    between = f"[{''.join(marks)}]"
    whole_part = f"[0-9]+|[0-9]{{1,3}}({between}[0-9]{{2,3}})*{between}[0-9]{{3}}" if marks else "[0-9]+"
    pattern = f"^ *[+-]?({whole_part})?([{decimal}][0-9]*)?([eE][+-]?[0-9]+)? *$"
    plain = value.copy()
    for mark, instead in [*((mark, "") for mark in marks), (decimal, ".")]:
        parts = [plain, exp.Literal.string(mark), exp.Literal.string(instead)]
        plain = exp.Anonymous(this="REPLACE", expressions=parts)
    spelled = exp.RegexpLike(this=value, expression=exp.Literal.string(pattern))
    return choose([(spelled, plain)], exp.Null())


def whole_text(value: SQL, otherwise: SQL) -> SQL:
    """SQL of a double as text: a whole one as integer, 3 and not 3.0; others by `otherwise`."""
    exact = exp.and_(value.copy() > double(-_WHOLE), value.copy() < double(_WHOLE))
    is_whole = exp.and_(exact, exp.EQ(this=exp.Floor(this=value.copy()), expression=value.copy()))
    as_whole: SQL = cast(cast(value.copy(), "bigint"), "text")
    return exp.Case(ifs=[exp.If(this=is_whole, true=as_whole)], default=otherwise)


def is_present(value: SQL) -> SQL:
    """SQL test that a value is not NULL."""
    return exp.Not(this=exp.Is(this=value, expression=exp.Null()))


def clip(value: SQL, low: SQL, high: SQL) -> SQL:
    """SQL of a value clipped to bounds. GREATEST and LEAST skip NULL, so the value must be present.

    >>> clip(column("x"), whole(0), whole(9)).sql()
    'LEAST(GREATEST("x", 0), 9)'
    """
    return at_most(exp.Greatest(this=value, expressions=[low], ignore_nulls=True), high)


def at_most(value: SQL, high: SQL) -> SQL:
    """SQL LEAST of a present value and `high`."""
    return exp.Least(this=value, expressions=[high], ignore_nulls=True)


def over(numerator: SQL, denominator: SQL) -> SQL:
    """SQL quotient of doubles."""
    return exp.Div(this=exp.paren(numerator), expression=denominator.copy(), typed=True, safe=False)


def choose(cases: Sequence[tuple[SQL, SQL]], otherwise: SQL) -> SQL:
    """SQL CASE: the result of the first test that holds."""
    return exp.Case(ifs=[exp.If(this=test.copy(), true=result.copy()) for test, result in cases], default=otherwise)


def select(wanted: list[SQL], rows: exp.Select) -> exp.Select:
    """SELECT wanted FROM (rows)."""
    return exp.Select(expressions=wanted).from_(rows.subquery("rows", copy=False), copy=False)


def first_of_each(
    rows: exp.Select, wanted: Sequence[str], of: Sequence[str], most: int, by: Sequence[SQL] = (), *, count_first: bool
) -> exp.Select:
    """SQL of the first `most` rows of each group in an order; without an order, of all rows of groups with no more.

    of: the columns by which rows are one group, none of them NULL. by: an order in which only equal rows tie.
    count_first: number rows of groups with more than `most` alone; counting is cheaper than sorting, where an engine
    keeps what is read twice. The rows are the same.
    """

    def numbered(some: exp.Select) -> exp.Select:
        order = exp.Order(expressions=[exp.Ordered(this=part) for part in by]) if by else None
        number = exp.RowNumber() if by else exp.Count(this=exp.Star())
        place = exp.Window(this=number, partition_by=[*map(column, of)], order=order)
        inner = select([*map(column, wanted), named(place, "place")], some)
        return select([*map(column, wanted)], inner).where(column("place") <= whole(most), copy=False)

    if not count_first:
        return numbered(rows)
    number = sum(1 for _ in rows.find_all(exp.CTE))
    every, large = f"every{number}", f"large{number}"

    def taken(names: Sequence[str], side: str) -> exp.Select:
        among = exp.Select(expressions=[column(name, every) for name in names]).from_(exp.to_table(every), copy=False)
        return among.join(exp.to_table(large), using=[*map(column, of)], join_type=side, copy=False)

    counted = exp.Select(expressions=[*map(column, of)]).from_(exp.to_table(every), copy=False)
    counted.set("group", exp.Group(expressions=[*map(column, of)]))
    counted.set("having", exp.Having(this=exp.Count(this=exp.Star()) > whole(most)))
    found = exp.Select(expressions=[*map(column, wanted)])
    found = found.with_(every, rows, materialized=True, copy=False).with_(large, counted, materialized=True, copy=False)
    small = taken(wanted, "anti")
    if not by:
        return found.from_(small.subquery("rows", copy=False), copy=False)
    both = exp.Union(this=small, expression=numbered(taken(rows.named_selects, "semi")), distinct=False)
    return found.from_(exp.Subquery(this=both, alias=exp.TableAlias(this=exp.to_identifier("rows"))), copy=False)
