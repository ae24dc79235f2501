"""Safe casts in PostgreSQL, where a failed cast ends the statement, and the statement's text in its SQL.

The dangers of a cast depend on the column's type: a numeric can be larger or smaller than any double, a date later
than any timestamp, a text anything. PostgreSQL also stops where a product or quotient of doubles is too small for one,
so a number this close to zero is moved away from it, to NEAREST; it keeps its sign.

That no value stops the statement depends on the steps of measures as well. A row's steps are (value - centre) / step.
If the centre is 0, the value is 0 or at least NEAREST away, so the quotient is 0 or at least NEAREST / step, which a
double holds where the step is at most LARGEST_STEP. Any other centre is a whole number of steps, and two doubles of
which one is at least a step are equal or lie 2^-54 of it apart: that quotient is never too small. So larger steps are
refused.

Where sqlglot would write SQL of another meaning, PostgreSQL's own words are used (`spelled`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from datetime import date

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.expressions import SQL, TEXTS, cast, choose, clip, day, double, is_present, type_of, whole
from sfumato.schema import Schema

# In quotes: a bare 0 is a number of 32 bits that is turned into one of 64, and PostgreSQL decides before it has worked
# that out. An OFFSET that may be any is a reason for it to use one process.
FENCE = exp.Literal.string("0")


def spelled(statement: SQL) -> str:
    """The text of a statement in PostgreSQL's SQL."""
    own = statement.copy().transform(_own_words, copy=False)
    for subquery in own.find_all(exp.Subquery):
        if subquery.alias == "rows" and isinstance(subquery.this, exp.Select):
            # Otherwise an expression is written out, and worked out, wherever its name stands.
            subquery.this.set("offset", exp.Offset(expression=FENCE.copy()))
    return own.sql(dialect=DIALECT, identify=True, copy=False)


def bytes_of(text: SQL) -> SQL:
    """SQL of a text's bytes; those of a literal are written out."""
    bare = text.this if isinstance(text, exp.Cast) else text
    if isinstance(bare, exp.Literal):
        return cast(exp.Literal.string(rf"\x{bare.this.encode().hex()}"), "bytea")
    return exp.Anonymous(this="convert_to", expressions=[text, exp.Literal.string("UTF8")])


def scramble(parts: Sequence[SQL]) -> SQL:
    """SQL hash of all parts, each seeded with the hash of those before it."""
    found: SQL = whole(0)
    for part in parts:
        found = exp.Anonymous(this="hashtextextended", expressions=[plain(part), found])
    return found


def _own_words(node: SQL) -> SQL:
    """PostgreSQL's form of a syntax node: time differences in whole hours or days, rounded down."""
    if not isinstance(node, exp.DateDiff):
        return node
    later, earlier = node.this, node.expression
    if node.text("unit") == "DAY":
        return exp.paren(cast(later, "date") - cast(earlier, "date"))
    epoch = exp.Extract(this=exp.var("EPOCH"), expression=exp.paren(later - earlier))
    return cast(exp.Floor(this=exp.Div(this=epoch, expression=whole(3600))), "bigint")


DIALECT = "postgres"
NEAREST = 1e-200  # to zero
LARGEST_STEP = 10**100  # of a measure; NEAREST / LARGEST_STEP is a double of full precision, far from too small
LONGEST = 300  # characters of a text that may be a number
TRUE, FALSE = ("true", "t", "1", "yes", "y"), ("false", "f", "0", "no", "n")
_BLANKS = " \t\n\v\f\r"
_NUMBER = r"^[+-]?({0}[.]?({0})?|[.]{0})([eE][+-]?0*[0-9]{{1,4}})?$".format("[0-9](_?[0-9])*")
_TYPES = exp.DataType.Type


def safe_cast(value: SQL, source: Column, to: str) -> SQL:
    """SQL of a column's value as text, double, bigint, boolean, date or timestamp; NULL on failure."""
    found = type_of(source, DIALECT)
    if to == "text":
        return _text(value, found)
    if to == "double":
        return _double(value, found)
    if to == "boolean":
        return _boolean(value, found)
    if to == "timestamp" and found == _TYPES.DATE:
        # A date can lie beyond every timestamp; a schema's bounds are within these years.
        within = clip(value, *map(day, (date.min, date.max)))
        return choose([(is_present(value), cast(within, to))], exp.Null())
    return cast(value, to)


def refuse_large_steps(schema: Schema) -> None:
    """Refuse a measure whose step is so large that a value near 0, divided by it, would stop PostgreSQL."""
    for name, measure in schema.measures.items():
        if measure.step > LARGEST_STEP:
            raise TableError(
                f"measures.{name} has a step of {float(measure.step):.1g}, and PostgreSQL stops at quotients that are "
                "too small for its numbers; use a larger unit, so that the step is at most 1e100"
            )


def plain(text: SQL) -> SQL:
    """SQL of a text under collation "C": a collation that equates texts does not allow patterns."""
    return exp.Collate(this=cast(text, "text"), expression=exp.to_identifier("C", quoted=True))


def missing_if_decimal_nan(value: SQL) -> SQL:
    """SQL of a numeric with NaN as NULL."""
    return exp.Nullif(this=value, expression=cast(exp.Literal.string("NaN"), "decimal"))


def _text(value: SQL, found: exp.DType | None) -> SQL:
    if found in TEXTS:
        return plain(value)  # the blanks that fill up a CHAR(n) are no part of its text: the cast leaves them out
    if found in exp.DataType.FLOAT_TYPES:
        return _text_of_float(value, largest=1e6 if found == _TYPES.FLOAT else 1e15)
    if found == _TYPES.DECIMAL:
        value = missing_if_decimal_nan(value)
    return plain(value)


def _text_of_float(value: SQL, largest: float) -> SQL:
    """SQL of a float as text, as Python and DuckDB write it; PostgreSQL uses exponents from `largest` on."""
    size = exp.Abs(this=cast(value.copy(), "double"))
    digits = cast(cast(cast(value.copy(), "text"), "decimal"), "text")
    spelled: list[tuple[SQL, SQL]] = [
        (exp.EQ(this=value, expression=double(math.inf)), exp.Literal.string("inf")),
        (exp.EQ(this=value, expression=double(-math.inf)), exp.Literal.string("-inf")),
        (exp.And(this=size >= double(largest), expression=size.copy() < double(1e16)), digits),
    ]
    return plain(choose(spelled, cast(value.copy(), "text")))


def _double(value: SQL, found: exp.DType | None) -> SQL:
    if found == _TYPES.BOOLEAN:
        return choose([(value, double(1)), (exp.Not(this=value), double(0))], exp.Null())
    if found == _TYPES.DECIMAL:
        return _of_decimal(value)
    if found == _TYPES.DOUBLE:
        return choose(_tiny(value, double), value)
    if found in TEXTS:
        return _of_text(plain(value))
    return cast(value, "double")


def _tiny(value: SQL, literal: Callable[[float], SQL]) -> list[tuple[SQL, SQL]]:
    """SQL cases that replace non-zero numbers closer to zero than NEAREST by NEAREST or -NEAREST."""
    above: SQL = exp.And(this=value.copy() > literal(0), expression=value.copy() < literal(NEAREST))
    below: SQL = exp.And(this=value.copy() < literal(0), expression=value.copy() > literal(-NEAREST))
    return [(above, double(NEAREST)), (below, double(-NEAREST))]


def _decimal(value: float) -> SQL:
    return cast(exp.Literal.string("0" if value == 0 else repr(value)), "decimal")


def _of_decimal(value: SQL) -> SQL:
    """SQL of a numeric as the nearest double, infinite beyond all doubles."""
    most = sys.float_info.max
    is_nan: SQL = exp.EQ(this=value, expression=cast(exp.Literal.string("NaN"), "decimal"))
    above, below = exp.GT(this=value, expression=_decimal(most)), exp.LT(this=value, expression=_decimal(-most))
    cases = [(is_nan, exp.Null()), *_tiny(value, _decimal), (above, double(math.inf)), (below, double(-math.inf))]
    return choose(cases, cast(value.copy(), "double"))


def _of_text(text: SQL) -> SQL:
    """SQL of a text as a number if it is one, in digits or infinite; else NULL."""
    bare = exp.Anonymous(this="btrim", expressions=[text, exp.Literal.string(_BLANKS)])
    short = exp.LTE(this=exp.Anonymous(this="length", expressions=[bare]), expression=whole(LONGEST))
    spelled = exp.RegexpLike(this=bare.copy(), expression=exp.Literal.string(_NUMBER))
    word = exp.Anonymous(this="lower", expressions=[bare.copy()])
    words = [
        (
            exp.In(this=word.copy(), expressions=[exp.Literal.string(f"{sign}{name}") for name in ("inf", "infinity")]),
            to,
        )
        for sign, to in (("", double(math.inf)), ("+", double(math.inf)), ("-", double(-math.inf)))
    ]
    parted = [exp.Literal.string("_"), exp.Literal.string("")]  # 1_000, as other engines read it
    digits = cast(exp.Anonymous(this="replace", expressions=[bare.copy(), *parted]), "decimal")
    found = choose([(spelled, _of_decimal(digits)), *words], exp.Null())
    return choose([(short, found)], exp.Null())


def _boolean(value: SQL, found: exp.DType | None) -> SQL:
    if found == _TYPES.BOOLEAN:
        return value
    if found in exp.DataType.INTEGER_TYPES:
        return exp.NEQ(this=value, expression=whole(0))
    word = exp.Anonymous(this="lower", expressions=[plain(value)])
    told = [
        (exp.In(this=word, expressions=[exp.Literal.string(one) for one in spelled]), exp.Boolean(this=truth))
        for spelled, truth in ((TRUE, True), (FALSE, False))
    ]
    return choose(told, exp.Null())
