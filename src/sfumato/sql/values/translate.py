"""Translate syntax to expression trees: every known function, and a refusal in the user's own words for any other."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

from sfumato.errors import QueryError
from sfumato.sql.scope import TIMESTAMPS, bare, constant, in_words, unsupported
from sfumato.sql.values.dates import part_name, step_name, unit_name
from sfumato.sql.values.tree import ERROR, Call, Const, Tree

if TYPE_CHECKING:
    from sqlglot import exp

Leaf = Callable[[Any], Tree | None]

KNOWN = (
    "of values that are public, CASE, arithmetic, ROUND, FLOOR, CEIL, ABS, CAST, COALESCE, LIKE, LOWER, UPPER, "
    "EXTRACT, DATE_TRUNC, DATE_DIFF, STRFTIME and TO_CHAR are known"
)

_NO_PATTERN = (
    "LIKE and ILIKE are the patterns that are known; write x LIKE 'No%' OR x LIKE '%th', or list the values with IN"
)
_INSTEAD = {
    "datebin": "write DATE_TRUNC('week', d), or for every 10 days FLOOR((d - DATE '2024-01-01') / 10)",
    **dict.fromkeys(("regexplike", "regexpilike", "regexpextract", "regexpreplace", "similarto", "glob"), _NO_PATTERN),
}


def translate(node: exp.Expression, leaf: Leaf, place: str) -> Tree:
    """The tree of an expression.

    leaf: gives the tree of a node that stands for a value, None for one to be translated here; it is called first.
    place: where the expression stands, for messages.
    """

    def read(part: Any) -> Tree:
        found = leaf(part)
        if found is not None:
            return found
        if part.key in ("add", "sub") and "interval" in (bare(part.this).key, bare(part.expression).key):
            return _moved(part, read)
        if part.key in _SAME:
            return Call(part.key, tuple(read(arg) for arg in _operands(part)))
        reader = _READERS.get(part.key)
        if reader is None:
            raise unsupported(f"{in_words(part)} in {place}", _INSTEAD.get(part.key, KNOWN))
        tree = reader(part, read)
        if tree is None:
            raise unsupported(f"{in_words(part)} of this form in {place}", KNOWN)
        return Call("not", (tree,)) if part.args.get("negate") else tree

    return read(node)


def _operands(node: Any) -> list[Any]:
    if node.key in ("and", "or"):
        return [bare(part) for part in node.flatten()]
    extra = [node.args[name] for name in ("expression", "decimals", "start", "length") if node.args.get(name)]
    return [part for part in (node.this, *extra, *node.expressions) if part is not None]


def _constant(node: Any, _read: Any) -> Tree | None:
    value = constant(node)
    return None if value is None else Const(value)


def _case(node: Any, read: Callable[[Any], Tree]) -> Tree:
    args: list[Tree] = []
    for branch in node.args["ifs"]:
        condition = read(branch.this)
        if node.this is not None:
            condition = Call("eq", (read(node.this), condition))
        args += [condition, read(branch.args["true"])]
    default = node.args.get("default")
    return Call("case", (*args, Const(None) if default is None else read(default)))


def _if(node: Any, read: Callable[[Any], Tree]) -> Tree:
    other = node.args.get("false")
    return Call("case", (read(node.this), read(node.args["true"]), Const(None) if other is None else read(other)))


def _cast(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    from sqlglot import exp

    kind, inner, types = node.args["to"].this, read(node.this), exp.DataType
    if kind in types.NUMERIC_TYPES and kind not in types.INTEGER_TYPES and node.args["to"].expressions:
        digits = node.args["to"].expressions
        decimals = digits[1].name if len(digits) > 1 else "0"
        few = decimals.isdigit() and len(decimals) <= 2
        return Call("round", (Call("to_number", (inner,)), Const(int(decimals)))) if few else None
    names: list[tuple[Container[Any], str]] = [
        (types.INTEGER_TYPES, "to_integer"),
        (types.NUMERIC_TYPES, "to_number"),
        (types.TEXT_TYPES, "to_text"),
        ((types.Type.BOOLEAN,), "to_boolean"),
        ((types.Type.DATE,), "to_date"),
    ]
    name = next((name for kinds, name in names if kind in kinds), None)
    name = "to_moment" if name is None and node.args["to"].is_type(*TIMESTAMPS) else name
    return None if name is None else Call(name, (inner,))


def _in(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
        return None
    return Call("in", (read(node.this), *(read(value) for value in node.expressions)))


def _between(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    if node.args.get("symmetric"):
        return None
    return Call("between", (read(node.this), read(node.args["low"]), read(node.args["high"])))


def _is(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    other = node.args["expression"]
    if other.key == "null":
        return Call("is_null", (read(node.this),))
    if other.key != "boolean":
        return None
    holds = read(node.this)
    return Call("is_true", (holds if other.this else Call("not", (holds,)),))


def _part(word: str, node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    name = part_name(word)
    return None if name is None else Call(f"part:{name}", (read(node),))


def _extract(node: Any, read: Callable[[Any], Tree]) -> Tree:
    word = node.this.name
    found = _part(word, node.args["expression"], read)
    if found is None:
        raise unsupported(f"EXTRACT({word.upper()} ...)", "a date tells its year, quarter, month, week and day")
    return found


def _truncated(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    unit = unit_name(node.args["unit"].name) if node.args.get("unit") else None
    return None if unit is None else Call(f"start:{unit}", (read(node.this),))


def _moved(node: Any, read: Callable[[Any], Tree]) -> Tree:
    """A date and an interval, in either order of a sum."""
    first, second = bare(node.this), bare(node.expression)
    day, interval = (first, second) if second.key == "interval" else (second, first)
    if day.key == "interval" or (node.key == "sub" and interval is first):
        raise unsupported(in_words(interval), "add it to a date, or subtract it from one")
    return _by_interval(day, interval, node.key == "sub", read)


def _by_interval(day: Any, interval: Any, back: bool, read: Callable[[Any], Tree]) -> Tree:
    """A date moved by INTERVAL 3 MONTH, or by the number and unit of DATEADD."""
    from sqlglot import exp

    unit = step_name(interval.args["unit"].name) if interval.args.get("unit") else None
    if unit is None:
        raise unsupported(f"{in_words(interval)} of this form", "write INTERVAL 3 MONTH, with one number and unit")
    if unit in ("minute", "second") and day.find(exp.Column):
        raise unsupported(f"an interval of a {unit}", "days and hours are the shortest that a release knows")
    count = constant(interval.this)
    if count is None:
        raise unsupported(f"{in_words(interval)} of this form", "write INTERVAL 3 MONTH, with one number and unit")
    steps = Call("neg", (Call("to_integer", (Const(count),)),)) if back else Call("to_integer", (Const(count),))
    return Call(f"moved:{unit}", (read(day), steps))


def _shifted(back: bool) -> Callable[[Any, Callable[[Any], Tree]], Tree]:
    """DATE_ADD(day, INTERVAL 1 MONTH) and DATEADD(month, 1, day)."""

    def read_shift(node: Any, read: Callable[[Any], Tree]) -> Tree:
        from sqlglot import exp

        step = bare(node.args["expression"])
        if step.key != "interval":
            step = exp.Interval(this=step.copy(), unit=node.args.get("unit"))
        return _by_interval(bare(node.this), step, back, read)

    return read_shift


def _between_dates(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    """DATE_DIFF('day', first, last), whose arguments the parser turns around."""
    unit = step_name(node.args["unit"].name) if node.args.get("unit") else "day"
    if unit is None or unit in ("minute", "second"):
        return None
    return Call(f"diff:{unit}", (read(node.args["expression"]), read(node.this)))


def _bucket(node: Any, read: Callable[[Any], Tree]) -> Tree:
    """WIDTH_BUCKET(x, low, high, count): 0 below, count + 1 from high on, and equal widths between."""
    low, high, count = (constant(node.args[name]) for name in ("min_value", "max_value", "num_buckets"))
    numbers = [one for one in (low, high, count) if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) < 3 or not (numbers[0] < numbers[1] and numbers[2] >= 1 and float(numbers[2]).is_integer()):
        raise QueryError("WIDTH_BUCKET takes two limits, the lower first, and a number of buckets: (age, 0, 100, 10)")
    least, most, buckets = map(Const, numbers)
    x, width = read(node.this), Const(numbers[1] - numbers[0])
    inside = Call("floor", (Call("div", (Call("mul", (Call("sub", (x, least)), buckets)), width)),))
    cases = (Call("lt", (x, least)), Const(0), Call("gte", (x, most)), Const(numbers[2] + 1))
    return Call("case", (*cases, Call("add", (inside, Const(1)))))


def _trim(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    if node.args.get("expression"):
        return None
    position = str(node.args.get("position") or "").upper()
    return Call({"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim"), (read(node.this),))


def _of_parts(name: str, *parts: str) -> Callable[[Any, Callable[[Any], Tree]], Tree | None]:
    """Reader of a function with required arguments, by their names in sqlglot's node."""

    def read_parts(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
        extras = [key for key, value in node.args.items() if value and key not in (*parts, "zone", "default_date")]
        if extras or not all(node.args.get(part) for part in parts):
            return None
        return Call(name, tuple(read(node.args[part]) for part in parts))

    return read_parts


def _distinct_from(node: Any, read: Callable[[Any], Tree]) -> Tree:
    same = Call("same", (read(node.this), read(node.args["expression"])))
    return same if node.key == "nullsafeeq" else Call("not", (same,))


_NAMED = {  # functions that the parser has no node for, by their number of arguments
    ("to_char", 2): "as_characters",
    ("to_date", 1): "read_characters",
    ("to_date", 2): "read_characters",
    ("format_date", 2): "formatted",
    ("date_format", 2): "formatted",
}


def _anonymous(node: Any, read: Callable[[Any], Tree]) -> Tree:
    """Functions that the parser has no node for."""
    name, args = node.name.lower(), node.expressions
    found = None
    if name.startswith(f"{ERROR}:"):
        return Call(name, (read(args[0]),))
    if name in ("date_part", "datepart") and len(args) == 2:
        found = _part(args[0].name, args[1], read)
    elif len(args) == 1 and name in ("isodow", "isoyear", "century", "dayname", "monthname", "decade", "weekday"):
        found = _part(name, args[0], read)
    elif name in ("date_add", "date_sub") and len(args) == 2 and args[1].key == "interval":
        found = _by_interval(bare(args[0]), args[1], name == "date_sub", read)
    elif (name, len(args)) in _NAMED:
        found = Call(_NAMED[name, len(args)], tuple(map(read, args)))
    if found is None:
        raise unsupported(in_words(node), KNOWN)
    return found


def _escaped(node: Any, _read: Any) -> Tree:
    raise unsupported("LIKE with ESCAPE", "leave ESCAPE out, or list the values with IN")


# Nodes whose arguments, in order, are those of the function of the same name.
_SAME = {
    *("add", "sub", "mul", "div", "mod", "intdiv", "pow", "neg", "abs", "floor", "ceil", "trunc", "round"),
    *("eq", "neq", "lt", "lte", "gt", "gte", "and", "or", "not", "coalesce", "nullif", "greatest", "least"),
    *("lower", "upper", "sign", "length", "left", "right", "substring", "concat", "startswith", "endswith", "contains"),
}
_READERS: dict[str, Callable[[Any, Callable[[Any], Tree]], Tree | None]] = {
    "paren": lambda node, read: read(node.this),
    "literal": _constant,
    "boolean": _constant,
    "null": lambda _node, _read: Const(None),
    "case": _case,
    "if": _if,
    "cast": _cast,
    "trycast": _cast,
    "in": _in,
    "between": _between,
    "is": _is,
    "like": lambda node, read: Call("like", (read(node.this), read(node.args["expression"]))),
    "ilike": lambda node, read: Call("ilike", (read(node.this), read(node.args["expression"]))),
    "dpipe": lambda node, read: Call("joined", (read(node.this), read(node.args["expression"]))),
    "escape": _escaped,
    "nullsafeeq": _distinct_from,
    "nullsafeneq": _distinct_from,
    "trim": _trim,
    "replace": _of_parts("replace", "this", "expression", "replacement"),
    "splitpart": _of_parts("split_part", "this", "delimiter", "part_index"),
    "strposition": _of_parts("position", "this", "substr"),
    "widthbucket": _bucket,
    "timetostr": _of_parts("formatted", "this", "format"),
    "strtotime": _of_parts("parsed", "this", "format"),
    "date": _of_parts("to_date", "this"),
    "tsordstodate": _of_parts("to_date", "this"),
    "timestrtotime": _of_parts("to_moment", "this"),
    "datefromparts": _of_parts("day_of", "year", "month", "day"),
    "lastday": _of_parts("end_of_month", "this"),
    "dateadd": _shifted(False),
    "datesub": _shifted(True),
    "datediff": _between_dates,
    "extract": _extract,
    "timestamptrunc": _truncated,
    "datetrunc": _truncated,
    "anonymous": _anonymous,
    **{
        key: lambda node, read, word=word: _part(word, node.this, read)  # type: ignore[misc]
        for key, word in {
            **{name: name for name in ("year", "quarter", "month", "week", "day", "hour", "dayofweek", "dayofyear")},
            **{"dayofmonth": "day", "weekofyear": "week", "dayofweekiso": "isodow"},
            **{"monthname": "monthname", "dayname": "dayname", "timetounix": "epoch"},
        }.items()
    },
}
