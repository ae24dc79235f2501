"""Rows with the columns that `recode` and `with` make, each out of its own row, as an engine like any other.

Privacy leans on two properties. An expression reads the columns of one row, so a person's rows become the same derived
rows whoever else is there, one for each. And no value can make it fail: columns are read by the casts of the statement
itself, which yield NULL; numbers are clipped when they are read, such that no arithmetic leaves the doubles
(`sfumato.schema.recode`); times outside the years 1 to 9999 are missing, and texts are cut to a length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import reduce
from typing import Any

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.kernel.reading.binning import (
    MOST_LOOKED_UP,
    looked_up,
    part_of,
    read_number,
    read_text,
    read_time,
    read_value,
    unless_missing,
)
from sfumato.kernel.reading.engines import ROLES, Column, Derived, Engine
from sfumato.kernel.reading.expressions import (
    SQL,
    cast,
    choose,
    column,
    day,
    double,
    moment,
    named,
    over,
    select,
    whole,
    whole_text,
)
from sfumato.schema.attributes import Boolean
from sfumato.schema.attributes.lists import BLANKS, LOWER, UPPER
from sfumato.schema.recode import LARGEST, LONGEST_TEXT, SMALLEST, Expression, Kind
from sfumato.schema.row_rules import Rule, columns_read, uses

# For the use of a column that a rule reads, its kind and its name: that column of the source, or a refusal.
Find = Callable[[str, str, str], Column]
ENGINES = ("duckdb", "postgres", "spark")
TYPES: dict[Kind, str] = {"number": "double", "text": "text", "boolean": "boolean", "date": "date", "time": "timestamp"}


def with_made_columns(
    engine: Engine, rules: Mapping[str, Rule], wanted: Sequence[tuple[str, str, str]], find: Find
) -> tuple[Derived, dict[str, Column]]:
    """Engine over rows with columns computed by rules, and its column for each wanted name.

    wanted: uses of columns, (role for messages, kind, name). Columns that no rule makes stay as they are; what nothing
    uses is not worked out.
    """
    if engine.dialect not in ENGINES:
        raise TableError(
            f"recode and with were not tried on this database ({engine.dialect}); make the columns there, or copy the "
            "table to a file"
        )
    rules = _needed(rules, [name for _, _, name in wanted])
    prefix = "made"
    while any(one.reference.startswith(prefix) for one in engine.columns):
        prefix += "_"
    types = {kind: exp.DataType.build(word).sql(dialect=engine.dialect) for kind, word in TYPES.items()}
    made = {
        name: Column(name, types[rule.kind or "text"], f"{prefix}{place}")
        for place, (name, rule) in enumerate(rules.items())
    }
    kept = {name: find(role, kind, name) for role, kind, name in wanted if name not in made}
    sources = {(one, kind): find(f"the rule for {name}", ROLES[kind], one) for name, one, kind in columns_read(rules)}
    read = {key: column(f"{prefix}_from{n}") for n, key in enumerate(sources)}
    carried = dict.fromkeys(one for source in kept.values() for one in (source.reference, source.who) if one)
    inner = [column(one) for one in carried]
    inner += [named(guarded(key[1], reading(key[1], one, engine)), read[key].name) for key, one in sources.items()]
    carried |= dict.fromkeys(one.name for one in read.values())
    rows = exp.Select(expressions=inner).from_(engine.table(), copy=False)

    def made_by(name: str, rule: Rule, *, by_subquery: bool) -> SQL:
        def leaf(one: Expression) -> SQL:
            kind = one.kind or "text"
            known = made.get(one.value) if one.value != name else None  # its own name means the table's column
            return read[one.value, kind].copy() if known is None else guarded(kind, reading(kind, known, engine))

        if isinstance(rule, Expression):
            return _sql(rule, leaf, engine)
        key = leaf(Expression("column", "text", value=rule.column))
        found = looked_up(rule.values, key, engine, by_subquery=by_subquery)
        return cast(found, "double") if rule.numbers else found

    few = sum(not isinstance(rule, Expression) for rule in rules.values()) <= MOST_LOOKED_UP
    for layer in _layers(rules):
        added = [named(made_by(one, rules[one], by_subquery=few), made[one].reference) for one in layer]
        rows = select([*map(column, carried), *added], rows)
        carried |= dict.fromkeys(made[one].reference for one in layer)
    reads = {one.reference: replace(one, who=None) for one in sources.values()}
    reads |= {one.reference: one for one in kept.values()}
    names = {name: kept.get(name) or made[name] for _, _, name in wanted}
    return Derived(engine, rows, [*dict.fromkeys((*kept.values(), *made.values()))], [*reads.values()]), names


def _layers(rules: Mapping[str, Rule]) -> Iterator[list[str]]:
    """Group rules into layers: no rule uses another one of its layer."""
    layer: list[str] = []
    for name, rule in rules.items():
        if not {*uses(name, rule, rules)}.isdisjoint(layer):
            yield layer
            layer = []
        layer.append(name)
    if layer:
        yield layer


def _needed(rules: Mapping[str, Rule], names: Sequence[str]) -> dict[str, Rule]:
    """Transitive closure of the rules that some columns need, in order."""
    wanted = {*names}
    for name, rule in reversed([*rules.items()]):
        if name in wanted:
            wanted |= {*uses(name, rule, rules)}
    return {name: rule for name, rule in rules.items() if name in wanted}


def expression_sql(expression: Expression, columns: Mapping[str, Column], engine: Engine) -> SQL:
    """SQL of a checked expression. columns: of the source, for each name that it reads."""

    def leaf(one: Expression) -> SQL:
        kind = one.kind or "text"
        return guarded(kind, reading(kind, columns[one.value], engine))

    return _sql(expression, leaf, engine)


def reading(kind: Kind, source: Column, engine: Engine) -> SQL:
    """SQL of a column's value as one of a kind; NULL if missing or unreadable."""
    if kind == "number":
        return read_number(source, engine)
    if kind == "boolean":
        return read_value(Boolean(type="boolean"), source, engine)
    if kind == "text":
        return unless_missing(read_text(source, engine), source, engine)
    time = engine.safe_cast(read_time(source, engine), source, TYPES[kind])
    return unless_missing(time, source, engine)


def guarded(kind: Kind, value: SQL) -> SQL:
    """SQL of a value that was read, within the limits on which `sfumato.schema.recode` counts; NULL stays so."""
    if kind == "number":
        cases: list[tuple[SQL, SQL]] = [
            (value > double(LARGEST), double(LARGEST)),
            (value < double(-LARGEST), double(-LARGEST)),
        ]
        near = exp.LT(this=exp.Abs(this=value), expression=double(SMALLEST))
        return choose([*cases, (near, double(0))], value.copy())
    if kind == "text":
        return _substring(value, 1, LONGEST_TEXT)
    if kind == "boolean":
        return value
    low, high = map(day, (date.min, date.max)) if kind == "date" else map(moment, (datetime.min, datetime.max))
    return choose([(exp.Between(this=value, low=low, high=high), value)], exp.Null())


def _sql(expression: Expression, leaf: Callable[[Expression], SQL], engine: Engine) -> SQL:
    """SQL of an expression, its columns by `leaf`; in parentheses where they could matter."""
    if expression.op == "column":
        return leaf(expression)
    if expression.op in ("literal", "null"):
        return _constant(expression)
    parts = [_sql(part, leaf, engine) for part in expression.parts]
    if expression.op == "nullif" and expression.kind == "text":
        same = exp.EQ(this=engine.bytes_of(parts[0].copy()), expression=engine.bytes_of(parts[1]))
        return choose([(same, cast(exp.Null(), "text"))], parts[0])
    if expression.parts[0].kind == "text" and expression.op in _OF_TEXTS:
        parts = [engine.bytes_of(part) for part in parts]  # whatever the collation
    return _WRITERS[expression.op](parts, expression.value)


def _constant(expression: Expression) -> SQL:
    kind, value = expression.kind or "text", expression.value
    if expression.op == "null":
        return cast(exp.Null(), TYPES[kind])
    literals: dict[str, Callable[[Any], SQL]] = {
        "number": double,
        "boolean": lambda one: exp.Boolean(this=one),
        "date": day,
        "time": moment,
        "text": lambda one: cast(exp.Literal.string(one), "text"),
    }
    return literals[kind](value)


def _paren(value: Any) -> SQL:
    """SQL in parentheses; the value is used nowhere else, and a copy at each level would take squared time."""
    return exp.Paren(this=value)


def _case(parts: list[SQL], _: Any) -> SQL:
    """SQL of the first result whose test holds; the last one's always does."""
    return choose(list(zip(parts[:-2:2], parts[1:-2:2], strict=True)), parts[-1])


def _quotient(parts: list[SQL], _: Any) -> SQL:
    return _paren(over(parts[0], exp.Nullif(this=parts[1], expression=double(0))))


def _round(parts: list[SQL], digits: int) -> SQL:
    tens = double(10**digits)
    return _paren(over(_whole(exp.Floor, _paren(_paren(parts[0]) * tens + double(0.5))), tens))


def _whole(kind: type[exp.Func], value: SQL) -> SQL:
    """SQL of FLOOR or CEIL of a number. From 2^52 on it is whole already, and Spark's would stop at 2^63."""
    small = exp.LT(this=exp.Abs(this=value), expression=double(2.0**52))
    return choose([(small, cast(kind(this=value.copy()), "double"))], value.copy())  # type: ignore[arg-type]


def _has_word(parts: list[SQL], words: Sequence[str]) -> SQL:
    """SQL test whether one of some words stands in a text, between what is no letter or digit; A to Z count as a to z.

    A word in % may stand anywhere. By one regular expression without anchors, escapes or dots, which engines understand
    differently.
    """
    between = "[^0-9A-Za-z\u0080-\U0010ffff]"

    def spelled(word: str) -> str:
        anywhere = word.startswith("%")
        letters = [f"[{one}{one.upper()}]" if "a" <= one <= "z" else one for one in word.strip("%")]
        body = "".join(between if one == " " and not anywhere else one for one in letters)
        return body if anywhere else between + body + between

    blank = exp.Literal.string(" ")
    text = exp.DPipe(this=exp.DPipe(this=blank, expression=parts[0], safe=True), expression=blank.copy(), safe=True)
    pattern = exp.Literal.string("|".join(map(spelled, words)))
    return _paren(exp.RegexpLike(this=_paren(text), expression=pattern))


def _extract(parts: list[SQL], unit: str) -> SQL:
    if unit != "dow":
        return cast(part_of(unit.upper(), parts[0]), "double")
    iso = cast(part_of("ISODOW", parts[0]), "double")  # 1 to 7; Sunday is 0
    return choose([(exp.EQ(this=iso, expression=double(7)), double(0))], iso)


def _trunc(parts: list[SQL], unit: str) -> SQL:
    return cast(exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), parts[0]]), "date")


def _diff(parts: list[SQL], unit: str) -> SQL:
    if unit == "day":
        return cast(exp.DateDiff(this=parts[1], expression=parts[0], unit=exp.var("DAY")), "double")
    return _span(parts, {"month": (12, 1), "year": (1,)}[unit])


def _age(parts: list[SQL], _: Any) -> SQL:
    """SQL of the completed years between two dates: 20260101 - 19510102 = 749999, so 74."""
    return exp.Floor(this=over(_span(parts, (10_000, 100, 1)), double(10_000)))


def _span(parts: list[SQL], factors: Sequence[int]) -> SQL:
    """SQL of the difference of two dates, each as the sum of its year, month and day times these factors."""

    def weighed(time: SQL) -> SQL:
        terms: list[SQL] = [part_of(unit, time) * whole(by) for unit, by in zip(_UNITS, factors, strict=False)]
        return _paren(reduce(lambda left, right: exp.Add(this=left, expression=right), terms))

    return cast(_paren(weighed(parts[1]) - weighed(parts[0])), "double")


def _binary(kind: Callable[..., Any]) -> Writer:
    return lambda parts, _: _paren(kind(this=parts[0], expression=parts[1]))


def _first_of(kind: type[exp.Expression], **how: Any) -> Writer:
    return lambda parts, _: kind(this=parts[0], expressions=parts[1:], **how)


_UNITS = ("YEAR", "MONTH", "DAY")


def _substring(text: SQL, start: int, length: int) -> SQL:
    return exp.Substring(this=text, start=whole(start), length=whole(length))


def _translated(text: SQL, letters: str, instead: str) -> SQL:
    return exp.Anonymous(this="translate", expressions=[text, *map(exp.Literal.string, (letters, instead))])


Writer = Callable[[list[SQL], Any], SQL]
_OF_TEXTS = ("=", "<>", "<", "<=", ">", ">=", "in", "between")
_WRITERS: dict[str, Writer] = {
    **{op: _binary(kind) for op, kind in {"=": exp.EQ, "<>": exp.NEQ, "<": exp.LT, "<=": exp.LTE}.items()},
    **{op: _binary(kind) for op, kind in {">": exp.GT, ">=": exp.GTE, "and": exp.And, "or": exp.Or}.items()},
    **{op: _binary(kind) for op, kind in {"+": exp.Add, "-": exp.Sub, "*": exp.Mul, "||": exp.DPipe}.items()},
    "abs": lambda parts, _: exp.Abs(this=parts[0]),
    "floor": lambda parts, _: _whole(exp.Floor, parts[0]),
    "ceil": lambda parts, _: _whole(exp.Ceil, parts[0]),
    **{"least": _first_of(exp.Least, ignore_nulls=True), "greatest": _first_of(exp.Greatest, ignore_nulls=True)},
    **{"coalesce": _first_of(exp.Coalesce), "in": lambda parts, _: _paren(_first_of(exp.In)(parts, _))},
    "between": lambda parts, _: _paren(exp.Between(this=parts[0], low=parts[1], high=parts[2])),
    **{"case": _case, "/": _quotient, "round": _round, "has word": _has_word},
    **{"extract": _extract, "trunc": _trunc, "diff": _diff, "age": _age},
    "nullif": lambda parts, _: exp.Nullif(this=parts[0], expression=parts[1]),
    "neg": lambda parts, _: _paren(exp.Sub(this=double(0), expression=parts[0])),
    "not": lambda parts, _: _paren(exp.Not(this=_paren(parts[0]))),
    "is null": lambda parts, _: _paren(exp.Is(this=_paren(parts[0]), expression=exp.Null())),
    "like": lambda parts, pattern: _paren(exp.Like(this=parts[0], expression=exp.Literal.string(pattern))),
    "lower": lambda parts, _: _translated(parts[0], UPPER, LOWER),
    "upper": lambda parts, _: _translated(parts[0], LOWER, UPPER),
    "trim": lambda parts, _: exp.Trim(this=parts[0], expression=exp.Literal.string(BLANKS)),
    "length": lambda parts, _: cast(exp.Anonymous(this="length", expressions=[parts[0]]), "double"),
    "substr": lambda parts, span: _substring(parts[0], *span),
    "number text": lambda parts, _: whole_text(parts[0], cast(exp.Null(), "text")),
    "to date": lambda parts, _: cast(parts[0], "date"),
    "to time": lambda parts, _: cast(parts[0], "timestamp"),
}
