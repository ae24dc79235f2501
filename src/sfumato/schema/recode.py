"""Columns that a public rule makes out of the other columns of the same row: `recode`, in expressions that SQL has.

    recode:
      hour: EXTRACT(HOUR FROM arrived)
      age: AGE_ON(born, DATE '2026-01-01')
      kind: {match: note, first_of: {cough: [cough, Husten], fever: ["%fever%"]}, otherwise: none}
      area: {point: [lon, lat], boxes: {north: [5.0, 51.0, 15.0, 55.0]}}

An expression is checked when the schema is read (`parse_expression`): it looks at one row, and has a value for every
row. What could stop an engine has a value of its own: a quotient by zero is missing, and numbers are kept so far from
the largest and smallest that a computer holds that no sum, product or quotient leaves them (`Expression.high`, `grain`:
every column is within 2^100, and a multiple of 2^-152).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from sfumato.effort import DEEPEST, MOST_CHARACTERS, MOST_LEVELS
from sfumato.errors import SchemaError
from sfumato.frozen import dataclass

if TYPE_CHECKING:
    from sqlglot import exp

Kind = Literal["number", "text", "boolean", "date", "time"]

LARGEST, SMALLEST = 1e30, 1e-30  # of a column's numbers: those beyond count as this, those nearer to zero as zero
HIGH, GRAIN = 100, 152  # such a number is below 2^100 and, as a double, a multiple of 2^-152
MOST_BITS = 1000  # of both in a result; doubles have 1023 and 1074
MOST_WEIGHT = 30_000  # nodes of SQL that an expression becomes
LONGEST_TEXT = 100_000  # characters of a column's text that are read
LONGEST_PATTERN, MOST_WILD = 200, 8  # of LIKE
PARTS = ("hour", "minute", "dow", "isodow", "day", "month", "quarter", "year", "week")
TRUNCATED = ("day", "week", "month", "quarter", "year")
SPANS = ("day", "month", "year", "hour", "minute")

_KINDS: dict[str, Kind] = {
    "DOUBLE": "number",
    **dict.fromkeys(("TEXT", "VARCHAR"), "text"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ"), "time"),
    **{"BOOLEAN": "boolean", "DATE": "date"},
}
WORDS = {"number": "a number", "text": "text", "boolean": "true or false", "date": "a date", "time": "a time"}
_CASTS = {"number": "DOUBLE", "text": "TEXT", "boolean": "BOOLEAN", "date": "DATE", "time": "TIMESTAMP"}
_RANKED = ("number", "date", "time")  # in one order everywhere
_COMPARED = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_COMBINED = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_TIMES = {
    **{name: name for name in ("hour", "minute", "day", "month", "quarter", "year", "week")},
    **{"dayofmonth": "day", "day_of_month": "day", "weekofyear": "week", "week_of_year": "week"},
    **{"dayofweek": "dow", "day_of_week": "dow", "dayofweekiso": "isodow", "day_of_week_iso": "isodow"},
}
_TWICE = {"number text": 4, "dow": 2, "nullif": 2, "age": 3, "diff": 2, **dict.fromkeys(("round", "floor", "ceil"), 3)}
KNOWN = (
    "comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, CASE, COALESCE, NULLIF, LEAST, GREATEST, + - * / %, ABS, "
    "FLOOR, CEIL, ROUND, EXTRACT, DATE_TRUNC, DATE_DIFF, AGE_ON, LOWER, UPPER, TRIM, SUBSTR, LEFT, LENGTH, || and CAST"
)


@dataclass(frozen=True)
class Expression:
    """Checked expression over the columns of one row.

    op: a function or an operator; column and literal are leaves, with `value` their name or value. kind: of its values;
    None while only the context can tell, as of a column without types. high, grain: of a number, which is below
    2^high and a multiple of 2^-grain. weight: nodes of the SQL that it becomes.
    """

    op: str
    kind: Kind | None
    parts: tuple[Expression, ...] = ()
    value: Any = None
    high: int = HIGH
    grain: int = GRAIN
    weight: int = 1

    @property
    def columns(self) -> dict[str, None]:
        """Names of the columns that it reads, in order."""
        return {leaf.value: None for leaf in self.leaves}

    @property
    def leaves(self) -> Iterator[Expression]:
        """Column leaves, each as often as it occurs."""
        if self.op == "column":
            yield self
        for part in self.parts:
            yield from part.leaves


Read = Callable[[Any], Expression]  # of a node inside another
Reader = Callable[[Any, Read], Expression]


def parse_expression(text: str, kind: Kind | None = None, *, settle: bool = True) -> Expression:
    """Check an expression of SQL over one row's columns. kind: that its values must have; any if left out.

    settle: what nothing in it tells the kind of, such as a bare column, is text; otherwise its kind stays open.

    >>> parse_expression("EXTRACT(HOUR FROM arrived)").columns
    {'arrived': None}
    >>> parse_expression("SUM(amount)")
    Traceback (most recent call last):
    ...
    sfumato.errors.SchemaError: SUM looks at several rows; an expression may use the columns of one row
    """
    found = expression_of(_tree(text))
    return as_kind(found, kind) if settle else found


def as_kind(expression: Expression, kind: Kind | None) -> Expression:
    """Resolve an expression's kind: an open one becomes `kind`, or text where none is required."""
    return _as(expression, kind or expression.kind or "text")


def _tree(text: str) -> exp.Expression:
    import sqlglot
    from sqlglot.errors import SqlglotError

    if len(text) > MOST_CHARACTERS:
        raise SchemaError(f"an expression has more than {MOST_CHARACTERS:,} characters; write it shorter")
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth > DEEPEST or character == "[":
            raise SchemaError(f"an expression has [ or more than {DEEPEST} parentheses in each other; write it simpler")
    try:
        found = sqlglot.parse(f"SELECT {text}", read="duckdb")
    except SqlglotError:
        raise SchemaError("this is no expression of SQL; write one such as EXTRACT(HOUR FROM arrived)") from None
    except RecursionError:
        raise SchemaError("an expression is nested too deeply; write it simpler") from None
    tree: Any = found[0] if found else None
    if len(found) != 1 or tree is None or tree.key != "select":
        raise SchemaError("this is no expression of SQL; write one such as EXTRACT(HOUR FROM arrived)")
    if len(tree.expressions) != 1 or [key for key, part in tree.args.items() if part and key != "expressions"]:
        raise SchemaError("a rule is one expression, without FROM, WHERE or commas; write each as a rule of its own")
    only: exp.Expression = tree.expressions[0]
    return only


def expression_of(node: Any, level: int = 0) -> Expression:
    """Convert a node of sqlglot's syntax tree to an `Expression`; refuse everything outside an allowed list."""
    if level > MOST_LEVELS:
        raise SchemaError(f"an expression has more than {MOST_LEVELS} levels; write it simpler")
    known = _READERS.get(node.name.lower() if node.key == "anonymous" else node.key)
    if known is None:
        raise _refused(node)
    return known(node, lambda part: expression_of(part, level + 1))


def _only(node: Any, *known: str) -> Any:
    """Return the node if it has no other arguments than these; refuse it otherwise."""
    if any(part not in (None, False, []) and name not in known for name, part in node.args.items()):
        raise _refused(node)
    return node


def _one(node: Any, read: Read) -> Expression:
    return read(_only(node, "this").this)


def _both(node: Any, read: Read, *known: str) -> tuple[Expression, Expression]:
    node = _only(node, "this", "expression", *known)
    return read(node.this), read(node.expression)


def _several(node: Any, read: Read) -> list[Expression]:
    node = _only(node, "this", "expressions", "ignore_nulls", "is_nvl")
    return [read(part) for part in (node.this, *node.expressions)]


def _refused(node: Any) -> SchemaError:
    from sqlglot import exp

    name = node.name.upper() if node.key == "anonymous" else str(node.key).upper()
    if isinstance(node, exp.Func) and node.key != "anonymous":
        name = str(node.sql_name())
    if isinstance(node, exp.AggFunc | exp.Window | exp.Subquery | exp.Select | exp.Exists | exp.Star):
        what = {"window": "a window", "subquery": "a subquery", "select": "a subquery"}.get(node.key, name)
        return SchemaError(f"{what} looks at several rows; an expression may use the columns of one row")
    if isinstance(node, exp.CurrentDate | exp.CurrentTimestamp | exp.CurrentTime | exp.Localtimestamp | exp.Localtime):
        return SchemaError(f"{name} changes from day to day; write the day itself, such as DATE '2026-01-01'")
    if isinstance(node, exp.Rand | exp.Randn | exp.Uuid):
        return SchemaError(f"{name} gives another value each time; take it out")
    hints = {"intdiv": "FLOOR(a / b)", "ilike": "LOWER(x) LIKE 'a%'", "concat": "a || b"}
    hint = f"write {hints[node.key]}" if node.key in hints else f"an expression may use {KNOWN}"
    return SchemaError(f"{name} is not known to be the same in every database; {hint}")


def combined(op: str, kind: Kind | None, parts: Sequence[Expression], value: Any = None) -> Expression:
    """Build an expression from checked parts, with bounds on its numbers; refuse one that is too large."""
    numbers = [part for part in parts if part.kind in ("number", None)]
    high, grain = (max((getattr(part, name) for part in numbers), default=0) for name in ("high", "grain"))
    if op in ("+", "-"):
        high += 1
    elif op == "*":
        high, grain = parts[0].high + parts[1].high, parts[0].grain + parts[1].grain
    elif op == "/":
        high, grain = parts[0].high + parts[1].grain, parts[0].grain + parts[1].high + 53
    elif op == "round":
        high, grain = high + 4 * value + 1, 53 + 4 * value
    elif op in ("floor", "ceil"):
        high, grain = high + 1, 0
    elif op in ("extract", "length", "age", "diff"):
        high, grain = 32, 0
    if kind == "number" and max(high, grain) > MOST_BITS:
        raise SchemaError(
            "an expression multiplies or divides so often that its result could be larger or smaller than a computer's "
            "numbers; make it of two rules, the second of which uses the first"
        )
    times = _TWICE.get(value if op == "extract" else op, 1)
    own = len(value) if op == "has word" else 1
    weight = own + 8 * sum(part.op == "column" for part in parts) + times * sum(part.weight for part in parts)
    if weight > MOST_WEIGHT:
        raise SchemaError("an expression is too long; make it of two rules, the second of which uses the first")
    return Expression(op, kind, tuple(parts), value, high, grain, weight)


def _values(expression: Expression) -> range:
    """Indices of the parts that can be the expression's value (branches of CASE, COALESCE)."""
    if expression.op == "case":  # test, result, test, result, ..., result
        return range(1, len(expression.parts), 2)
    return range(len(expression.parts)) if expression.op in ("coalesce", "least", "greatest", "nullif") else range(0)


def _as(expression: Expression, kind: Kind) -> Expression:
    """Bring an expression to a type; refused where it has another."""
    if expression.kind == kind:
        return expression
    if expression.kind == "date" and kind == "time":
        return combined("to time", "time", [expression])
    if expression.kind is not None:
        shown = f"{expression.op.upper()} " if expression.op not in ("column", "literal") else ""
        raise SchemaError(
            f"an expression has {WORDS[expression.kind]} ({shown or 'a value '}of this kind) where {WORDS[kind]} is "
            "needed; CAST(column AS DOUBLE), AS TEXT, AS DATE or AS BOOLEAN reads a column as another kind"
        )
    if expression.op in ("column", "null"):
        return Expression(expression.op, kind, (), expression.value, expression.high, expression.grain)
    if expression.op in ("least", "greatest") and kind not in _RANKED:
        raise SchemaError(f"{expression.op.upper()} is for numbers and dates; write CASE for text")
    settled = {*_values(expression)}
    parts = [_as(part, kind) if place in settled else part for place, part in enumerate(expression.parts)]
    return combined(expression.op, kind, parts, expression.value)


def _common(parts: Sequence[Expression]) -> Kind | None:
    """Common kind of values (dates and times give times); None where all are open."""
    kinds = {part.kind for part in parts} - {None}
    if kinds == {"date", "time"}:
        return "time"
    if len(kinds) > 1:
        first, second, *_ = sorted(WORDS[kind] for kind in kinds if kind)
        raise SchemaError(
            f"an expression puts {first} and {second} side by side; CAST(column AS DOUBLE), AS TEXT or AS DATE reads "
            "a column as another kind"
        )
    return next(iter(kinds), None)


def _alike(op: str, parts: Sequence[Expression]) -> Expression:
    """Comparison of values, brought to a common type."""
    kind = _common(parts)
    if kind is None:
        names = " and ".join(name for part in parts for name in part.columns) or "NULL"
        raise SchemaError(
            f"nothing says of what kind {names} are; write CAST({names.split()[0]} AS DOUBLE), or AS TEXT"
        )
    if kind == "date" and any(part.kind is None for part in parts):
        kind = "time"  # the column may hold times: of the last day none but midnight is up to that day, as in SQL
    return combined(op, "boolean", [_as(part, kind) for part in parts])


def _either(op: str, parts: Sequence[Expression]) -> Expression:
    """Expression whose value is one of several (CASE, COALESCE), brought to a common type. op: which function."""
    kind = _common(parts)
    found = combined(op, None, parts)
    return found if kind is None else _as(found, kind)


def _literal(node: Any, _: Read) -> Expression:
    if node.key == "boolean":
        return Expression("literal", "boolean", value=bool(node.this))
    if node.is_string:
        return text_literal(str(node.this))
    try:
        number = float(node.this)
    except ValueError:
        number = math.nan
    return number_literal(number)


def text_literal(text: str) -> Expression:
    """A constant text."""
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise SchemaError("an expression holds a text that databases cannot hold; take out what is no letter")
    return Expression("literal", "text", value=text)


def number_literal(number: float) -> Expression:
    """A constant number."""
    if not math.isfinite(number) or (number != 0 and not SMALLEST <= abs(number) <= LARGEST):
        raise SchemaError(f"an expression holds a number beyond {SMALLEST:g} to {LARGEST:g}; use another unit")
    high = max(math.frexp(number)[1], 0)
    return Expression("literal", "number", (), number, high, number.as_integer_ratio()[1].bit_length() - 1)


def _cast(node: Any, read: Read) -> Expression:
    node = _only(node, "this", "to", "safe")
    kind = _KINDS.get(node.to.this.name)
    if kind is None or node.to.expressions:
        raise SchemaError(
            "CAST is to DOUBLE, TEXT, BOOLEAN, DATE or TIMESTAMP here; write one of these, or FLOOR for whole numbers"
        )
    if kind in ("date", "time") and node.this.key == "literal" and node.this.is_string:
        return _moment(str(node.this.this), kind)
    value: Expression = read(node.this)
    if value.kind in (kind, None):
        return _as(value, kind)
    if value.kind == "number" and kind == "text":
        return combined("number text", "text", [value])
    if {value.kind, kind} == {"date", "time"}:
        return combined(f"to {kind}", kind, [value])
    raise SchemaError(
        f"CAST of an expression that is {WORDS[value.kind or 'text']} to {_CASTS[kind]} can fail on a value; cast the "
        "column itself, which is missing where it cannot be read"
    )


def _moment(text: str, kind: Kind) -> Expression:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise SchemaError(f"{text[:40]!r} is no day; write DATE '2026-01-01'") from None
    if moment.tzinfo is not None:
        raise SchemaError("a time in an expression has no time zone; write TIMESTAMP '2026-01-01 12:00:00'")
    return Expression("literal", kind, value=moment.date() if kind == "date" else moment)


def _arithmetic(op: str, left: Expression, right: Expression) -> Expression:
    if op == "-" and {left.kind, right.kind} & {"date", "time"}:
        return combined("diff", "number", [_as(_as_date(part), "date") for part in (right, left)], "day")
    return combined(op, "number", [_as(left, "number"), _as(right, "number")])


def _like(node: Any, read: Read) -> Expression:
    node = _only(node, "this", "expression", "negate")
    pattern = node.expression
    if pattern.key != "literal" or not pattern.is_string:
        raise SchemaError("LIKE needs a pattern in quotes, the same for every row; write x LIKE 'a%'")
    found = like(_as(read(node.this), "text"), str(pattern.this))
    return combined("not", "boolean", [found]) if node.args.get("negate") else found


def like(text: Expression, pattern: str) -> Expression:
    """Test of a text against a LIKE pattern."""
    if len(pattern) > LONGEST_PATTERN or pattern.count("%") > MOST_WILD:
        raise SchemaError(f"a pattern has more than {LONGEST_PATTERN} characters or {MOST_WILD} %; write it shorter")
    if "\\" in pattern:
        raise SchemaError("a pattern holds \\, which databases understand differently; use _ in its place")
    text_literal(pattern)
    return combined("like", "boolean", [text], pattern)


def _case(node: Any, read: Read) -> Expression:
    node = _only(node, "this", "ifs", "default", "true", "false")
    if node.key == "if":
        tests, otherwise = [(node.this, node.args["true"])], node.args.get("false")
    else:
        tests, otherwise = [(one.this, one.args["true"]) for one in node.args["ifs"]], node.args.get("default")
    last = Expression("null", None, high=0, grain=0) if otherwise is None else read(otherwise)
    if node.key == "case" and node.this is not None:
        value = read(node.this)
        return case([(_alike("=", [value, read(test)]), read(result)) for test, result in tests], last)
    return case([(_as(read(test), "boolean"), read(result)) for test, result in tests], last)


def case(cases: Sequence[tuple[Expression, Expression]], otherwise: Expression) -> Expression:
    """CASE: value of the first condition that holds."""
    kind = _common([*(result for _, result in cases), otherwise])
    if kind is not None:
        cases, otherwise = [(test, _as(result, kind)) for test, result in cases], _as(otherwise, kind)
    # Results at odd places; a test that always holds goes before the last.
    parts = [part for pair in cases for part in pair] + [Expression("literal", "boolean", value=True), otherwise]
    return combined("case", kind, parts)


def _round(node: Any, read: Read) -> Expression:
    node = _only(node, "this", "decimals")
    digits = node.args.get("decimals")
    if digits is not None and (digits.key != "literal" or str(digits.this) not in "0123456"):
        raise SchemaError("ROUND is to 0 to 6 digits here; write ROUND(x, 2)")
    value = _as(read(node.this), "number")
    return combined("round", "number", [value], 0 if digits is None else int(digits.this))


def _substring(node: Any, read: Read) -> Expression:
    node = _only(node, "this", "start", "length", "expression")
    given = [1, node.expression] if node.key == "left" else [node.args.get("start"), node.args.get("length")]
    numbers: list[int | None] = []
    for one in given:
        if one is None or isinstance(one, int):
            numbers.append(one)
        elif one.key == "literal" and not one.is_string and str(one.this).isdigit() and int(one.this) <= LONGEST_TEXT:
            numbers.append(int(one.this))
        else:
            numbers.append(0)
    start, length = numbers[0] or 0, LONGEST_TEXT if numbers[1] is None else numbers[1]
    if not (start and length):
        raise SchemaError("SUBSTR and LEFT take numbers from 1 on, the same for every row; write SUBSTR(x, 1, 3)")
    return combined("substr", "text", [_as(read(node.this), "text")], (start, length))


def _as_date(value: Expression) -> Expression:
    return combined("to date", "date", [value]) if value.kind == "time" else value


def _extract(node: Any, read: Read) -> Expression:
    if node.key == "extract":
        part, value = str(_only(node, "this", "expression").name).lower(), read(node.expression)
        part = {"weekday": "dow", "dayofweek": "dow"}.get(part, part)
    else:
        part, value = _TIMES[node.key], read(_only(node, "this").this)
    if part not in PARTS:
        raise SchemaError(f"EXTRACT({part[:40].upper()}) is not known; write one of {', '.join(PARTS).upper()}")
    return combined("extract", "number", [_as(value, "time")], part)


def _trunc(node: Any, read: Read) -> Expression:
    node = _only(node, "this", "unit")
    unit = str(node.text("unit")).lower()
    if unit not in TRUNCATED:
        raise SchemaError(f"DATE_TRUNC is to {', '.join(TRUNCATED)}; write DATE_TRUNC('month', x)")
    return combined("trunc", "date", [_as(read(node.this), "time")], unit)


def _diff(node: Any, read: Read) -> Expression:
    node = _only(node, "this", "expression", "unit", "date_part_boundary")
    unit = str(node.text("unit") or "day").lower()
    if unit not in SPANS:
        raise SchemaError(f"DATE_DIFF is in {', '.join(SPANS)}s; write DATE_DIFF('day', first, last)")
    values = [read(part) for part in (node.expression, node.this)]
    if unit in ("hour", "minute"):
        return _turns(unit, [_as(value, "time") for value in values])
    return combined("diff", "number", [_as(_as_date(value), "date") for value in values], unit)


def _turns(unit: str, times: Sequence[Expression]) -> Expression:
    """Number of full-hour or full-minute boundaries between two times: by days, plus the difference on the clock."""
    if unit == "hour":
        whole, many = combined("diff", "number", [_as_date(time) for time in times], "day"), 24
    else:
        whole, many = _turns("hour", times), 60
    first, last = (combined("extract", "number", [time], unit) for time in times)
    beyond = combined("-", "number", [last, first])
    return combined("+", "number", [combined("*", "number", [whole, number_literal(float(many))]), beyond])


def _remainder(node: Any, read: Read) -> Expression:
    """x - y * (x / y without its fraction): with the sign of x; exact for whole numbers up to 2^52."""
    left, right = (_as(part, "number") for part in _both(node, read))
    ratio = combined("/", "number", [left, right])
    up, down = (combined(op, "number", [ratio]) for op in ("ceil", "floor"))
    cut = case([(combined("<", "boolean", [ratio, number_literal(0.0)]), up)], down)
    return combined("-", "number", [left, combined("*", "number", [right, cut])])


def _is_null(node: Any, read: Read) -> Expression:
    node = _only(node, "this", "expression")
    if node.expression.key != "null":
        raise SchemaError("IS is for NULL alone; leave IS TRUE out, and write NOT (...) for IS FALSE")
    return combined("is null", "boolean", [as_kind(read(node.this), None)])


def _between(node: Any, read: Read) -> Expression:
    node = _only(node, "this", "low", "high")
    return _alike("between", [read(node.args[part]) for part in ("this", "low", "high")])


def _age(node: Any, read: Read) -> Expression:
    if len(node.expressions) != 2:
        raise SchemaError("AGE_ON takes the date of birth and a day; write AGE_ON(born, DATE '2026-01-01')")
    return combined("age", "number", [_as(_as_date(read(part)), "date") for part in node.expressions])


def _of(op: str, kind: Kind, wanted: Kind) -> Reader:
    """Reader of a function of one argument. kind: of its result; wanted: of its argument."""
    return lambda node, read: combined(op, kind, [_as(_one(node, read), wanted)])


def _two(op: str, kind: Kind) -> Reader:
    """Reader of a function of two arguments, all of one kind with its result."""
    return lambda node, read: combined(op, kind, [_as(part, kind) for part in _both(node, read, "safe")])


def _test(op: str) -> Reader:
    return lambda node, read: _alike(op, _both(node, read))


def _operator(op: str) -> Reader:
    return lambda node, read: _arithmetic(op, *_both(node, read, "typed", "safe"))


def _choice(op: str) -> Reader:
    return lambda node, read: _either(op, _several(node, read))


_READERS: dict[str, Reader] = {
    "paren": _one,
    "column": lambda node, _: Expression("column", None, value=_only(node, "this").name),
    "null": lambda node, _: Expression("null", None, high=0, grain=0),
    **dict.fromkeys(("literal", "boolean"), _literal),
    **dict.fromkeys(("cast", "trycast"), _cast),
    **{key: _test(op) for key, op in _COMPARED.items()},
    **{key: _operator(op) for key, op in _COMBINED.items()},
    **{op: _two(op, "boolean") for op in ("and", "or")},
    **{op: _of(op, "number", "number") for op in ("neg", "abs", "floor", "ceil")},
    **{op: _of(op, "text", "text") for op in ("lower", "upper", "trim")},
    **{op: _choice(op) for op in ("coalesce", "least", "greatest")},
    **{"not": _of("not", "boolean", "boolean"), "length": _of("length", "number", "text"), "dpipe": _two("||", "text")},
    **{"is": _is_null, "between": _between, "like": _like, "in": lambda node, read: _alike("in", _several(node, read))},
    **dict.fromkeys(("case", "if"), _case),
    "nullif": lambda node, read: _either("nullif", _both(node, read)),
    **{"round": _round, "mod": _remainder},
    **dict.fromkeys(("substring", "left"), _substring),
    **dict.fromkeys(("extract", *_TIMES), _extract),
    **dict.fromkeys(("timestamptrunc", "datetrunc"), _trunc),
    **{"datediff": _diff, "age_on": _age},
}
