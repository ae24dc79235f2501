"""Columns that rules of the schema make, row by row: `recode` by an expression, `with` by a public look-up table.

    recode:
      kind: {match: note, first_of: {cough: [cough, Husten], fever: ["%fever%"]}, otherwise: none}
      area: {point: [lon, lat], boxes: {north: [5.0, 51.0, 15.0, 55.0]}, otherwise: elsewhere}
      cell: {point: [lon, lat], grid: {west: 5, south: 47, east: 15, north: 55, columns: 10, rows: 8}}
      ward: {point: [x, y], polygons: {old town: [[0, 0], [4, 0], [4, 3]]}}
      district: {point: [x, y], geojson: {file: districts.geojson, name: title}}
    with:
      - {file: postcodes.csv, key: postcode}

A rule may use what other rules make; by its own name it means the column of the table. Whoever reads the table asks
`rules_of` for the rules in an order in which each follows those that it uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Protocol

from pydantic import PlainValidator

from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.plain_text import printable
from sfumato.schema.attributes import Attribute, Boolean, Category, Date
from sfumato.schema.attributes.lists import LOWER, UPPER, as_number
from sfumato.schema.dialect import same_name
from sfumato.schema.parts import Measure, column_name, shown
from sfumato.schema.per_person import PersonRule
from sfumato.schema.recode import (
    LONGEST_PATTERN,
    WORDS,
    Expression,
    Kind,
    as_kind,
    case,
    combined,
    like,
    number_literal,
    parse_expression,
    text_literal,
)

MOST_MADE = 200  # columns
MOST_LOOKED_UP_ROWS = 100_000  # of a look-up table
LONGEST_SHOWN = 200  # characters of an expression
MOST_EDGES = 500  # of all polygons of a rule
MOST_WORDS = 5_000  # and patterns of a rule
_FORMS = (
    "write an expression such as EXTRACT(HOUR FROM arrived), {match: note, first_of: {cough: [cough]}}, or "
    "{point: [lon, lat], boxes: {north: [5, 51, 15, 55]}}"
)
_ANYWHERE = "%[0-9a-z \u0080-\U0010ffff]{1,200}%"  # a pattern that is found faster as letters alone
_WITH = "write a list such as [{file: postcodes.csv, key: postcode}]"


class Ruled(Protocol):
    """Protocol: the fields of a schema that row rules use."""

    attributes: dict[str, Attribute]
    measures: dict[str, Measure]
    recode: Recodes | None
    with_: LookUps | None

    @property
    def people(self) -> PersonRule | None: ...


@dataclass(frozen=True)
class LookUp:
    """Column from a look-up table. column: of the private table, whose text is looked up. values: by that text.

    numbers: whether they are numbers, because the schema uses them as such.
    """

    column: str
    values: Mapping[str, str]
    numbers: bool = False

    @property
    def kind(self) -> Kind:
        """The kind of its values."""
        return "number" if self.numbers else "text"

    @property
    def columns(self) -> dict[str, None]:
        """Names of the columns that it reads."""
        return {self.column: None}


Rule = Expression | LookUp


def _recodes(value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"must give each new column a rule; {_FORMS}")
    if len(value) > MOST_MADE:
        raise ValueError(f"makes more than {MOST_MADE} columns; make fewer")
    for name, rule in value.items():
        column_name(name)
        try:
            _expression(rule)
        except SchemaError as problem:
            raise ValueError(f"has {name}, in which {problem}") from None
    return {str(name): _plain(rule) for name, rule in value.items()}


def _plain(value: Any) -> Any:
    """A rule as JSON holds it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _look_ups(value: object) -> tuple[dict[str, Any], ...]:
    given = [value] if isinstance(value, Mapping) else value
    if not isinstance(given, list | tuple) or not given:
        raise ValueError(f"must list tables to look values up in; {_WITH}")
    return tuple(_look_up(one) for one in given)


def _look_up(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping) or {*given} - {"key", "column", "table"} or not {"key", "table"} <= {*given}:
        raise ValueError(f"must name a file and its key; {_WITH}")
    key, table = given["key"], given["table"]
    if not isinstance(table, Mapping) or len(table) < 2 or key not in table:
        raise ValueError(f"must have the key {shown(key)} among the columns of its table, and another column; {_WITH}")
    lists = {column_name(name): tuple(map(str, part)) for name, part in table.items()}
    keys = lists[str(key)]
    if len({len(part) for part in lists.values()}) > 1 or not 1 <= len(keys) <= MOST_LOOKED_UP_ROWS:
        raise ValueError(f"must have columns of one length, of at most {MOST_LOOKED_UP_ROWS:,} rows")
    if len({*keys}) < len(keys):
        twice = next(one for place, one in enumerate(keys) if one in keys[:place])
        raise ValueError(f"has {shown(twice)} twice in the column {shown(key)}; keep one row for each key")
    try:
        "".join(entry for part in lists.values() for entry in part).encode()
    except UnicodeEncodeError:
        raise ValueError("holds a value that is not valid text; take it out") from None
    found = {"key": str(key), "table": lists}
    return found | ({"column": column_name(given["column"])} if "column" in given else {})


Recodes = Annotated[dict[str, Any], PlainValidator(_recodes)]
LookUps = Annotated[tuple[dict[str, Any], ...], PlainValidator(_look_ups)]


def rules_of(schema: Ruled) -> dict[str, Rule]:
    """Rules by the column that each computes, in dependency order.

    Kinds are settled by the attributes and measures that use a column.
    """
    wanted = dict(_kinds(schema))
    expressions: dict[str, Expression] = {}
    for name, rule in (schema.recode or {}).items():
        _refuse_twice(expressions, name)
        try:
            expressions[name] = as_kind(_expression(rule), wanted.get(name))
        except SchemaError as problem:
            raise SchemaError(f"recode.{name}: {problem}") from None
    numbers = {name for name, kind in wanted.items() if kind == "number"}
    numbers |= {leaf.value for one in expressions.values() for leaf in one.leaves if leaf.kind == "number"}
    rules: dict[str, Rule] = {**expressions}
    for table in schema.with_ or ():
        key: str = table["key"]
        keys = table["table"][key]
        for name, values in table["table"].items():
            if name == key:
                continue
            _refuse_twice(rules, name)
            known = {key: value for key, value in zip(keys, values, strict=True) if value.strip()}
            if name in numbers:
                found = {key: as_number(value) for key, value in known.items()}
                known = {key: repr(float(number)) for key, number in found.items() if number is not None}
            rules[name] = LookUp(table.get("column", key), known, name in numbers)
    _refuse_other_kinds(rules)
    return _in_order(rules)


def _refuse_other_kinds(rules: Mapping[str, Rule]) -> None:
    """Refuse a rule that reads another rule's column as a kind to which that cannot always be cast."""
    for name, rule in rules.items():
        for column, kind in leaves_of(rule):
            for one in uses(name, rule, rules):
                is_kind = rules[one].kind
                fits = is_kind == kind or {is_kind, kind} == {"date", "time"} or (kind == "text" and is_kind != "time")
                if one == column and not fits:
                    raise SchemaError(
                        f"recode.{name} reads {one} as {WORDS[kind]}, but its rule makes {WORDS[is_kind or 'text']}; "
                        "change one of the two rules"
                    )


def leaves_of(rule: Rule) -> list[tuple[str, Kind]]:
    """Columns that a rule reads, each once, with the kinds of their values."""
    if isinstance(rule, LookUp):
        return [(rule.column, "text")]
    return list(dict.fromkeys((leaf.value, leaf.kind or "text") for leaf in rule.leaves))


def columns_read(rules: Mapping[str, Rule]) -> Iterator[tuple[str, str, Kind]]:
    """Columns of the table itself that rules read: (column that a rule makes, column of the table, kind)."""
    for name, rule in rules.items():
        made = {*uses(name, rule, rules)}
        for column, kind in leaves_of(rule):
            if column not in made:
                yield name, column, kind


def _refuse_twice(rules: Mapping[str, Rule], name: str) -> None:
    if same_name(name) in map(same_name, rules):
        raise SchemaError(f"recode and with make the column {name!r} twice; rename one")


def _kinds(schema: Ruled) -> list[tuple[str, Kind]]:
    """Kinds of values that attributes, measures or `per_person` need, by column."""
    if schema.people is not None:
        leaves = schema.people.leaves
        return [(one.value, one.kind) for one in leaves if one.kind is not None and one.kind != "text"]
    found: list[tuple[str, Kind]] = [(one.column, "number") for one in schema.measures.values()]
    for one in schema.attributes.values():
        if isinstance(one, Date):
            found.append((one.column, "time" if one.has_time else "date"))
        elif not isinstance(one, Category):
            found.append((one.column, "boolean" if isinstance(one, Boolean) else "number"))
    return found


def uses(name: str, rule: Rule, rules: Mapping[str, Rule]) -> list[str]:
    """Computed columns that a rule uses; its own name refers to the table's column."""
    return [column for column in rule.columns if column in rules and column != name]


def _in_order(rules: Mapping[str, Rule]) -> dict[str, Rule]:
    done: dict[str, Rule] = {}
    while len(done) < len(rules):
        ready = [name for name in rules if name not in done and {*uses(name, rules[name], rules)} <= {*done}]
        if not ready:
            names = ", ".join(name for name in rules if name not in done)
            raise SchemaError(f"recode has columns that are made of each other: {names}; break the circle")
        done |= {name: rules[name] for name in ready}
    return done


def _expression(rule: object) -> Expression:
    """The expression of a rule as it is written in the schema."""
    if isinstance(rule, str):
        return parse_expression(rule, settle=False)
    keys = {*rule} if isinstance(rule, Mapping) else set()
    if "match" in keys and keys <= {"match", "first_of", "otherwise"}:
        return _match(rule)  # type: ignore[arg-type]
    shapes = keys & {"boxes", "grid", "polygons"}
    if "point" in keys and len(shapes) == 1 and keys <= {"point", "otherwise", *shapes}:
        return _area(rule, shapes.pop())  # type: ignore[arg-type]
    raise SchemaError(f"a rule is none that is known; {_FORMS}")


def _column(name: object, kind: Kind) -> Expression:
    return Expression("column", kind, value=column_name(name))


def _otherwise(rule: Mapping[str, Any]) -> Expression:
    value = rule.get("otherwise")
    return Expression("null", None, high=0, grain=0) if value is None else text_literal(str(value))


def _match(rule: Mapping[str, Any]) -> Expression:
    """Expression for `match`: the first name with a word or LIKE pattern that the text contains, ignoring case."""
    lists = rule.get("first_of")
    if not isinstance(lists, Mapping) or not lists:
        raise SchemaError("match needs first_of: {cough: [cough, Husten], fever: ['%fever%']}; write it")
    if sum(len(as_list(given)) for given in lists.values()) > MOST_WORDS:
        raise SchemaError(f"first_of has more than {MOST_WORDS:,} words and patterns; use fewer, or two rules")
    text = _column(rule["match"], "text")
    small = combined("lower", "text", [text])
    cases = [(combined("is null", "boolean", [text]), Expression("null", None, high=0, grain=0))]
    for name, given in lists.items():
        spelled = [str(one).translate(str.maketrans(UPPER, LOWER)) for one in as_list(given)]
        anywhere = [one for one in spelled if re.fullmatch(_ANYWHERE, one)]
        patterns = [one for one in spelled if ("%" in one or "_" in one) and one not in anywhere]
        bare = [_bare_word(one, str(name)) for one in spelled if one not in (*patterns, *anywhere)]
        words = (*bare, *anywhere)
        tests = [combined("has word", "boolean", [text], words)] if words else []
        tests += [like(small, one) for one in patterns]
        if not tests:
            raise SchemaError(f"first_of has no word for {name}; list one")
        cases.append((_joined("or", tests), text_literal(str(name))))
    return case(cases, _otherwise(rule))


def as_list(given: object) -> list[object]:
    """Convert a list or tuple to a list; any other value is its only item."""
    return [*given] if isinstance(given, list | tuple) else [given]


def _bare_word(word: str, name: str) -> str:
    """Normalise a phrase to words of letters and digits with single blanks; refuse an empty or too long one."""
    bare = "".join(letter if letter.isalnum() or letter > "\x7f" else " " for letter in word).split()
    if not bare or len(word) > LONGEST_PATTERN:
        raise SchemaError(
            f"first_of has a word for {name} that has no letter or is longer than {LONGEST_PATTERN}; mend it, or write "
            "a pattern with %"
        )
    text_literal(word)
    return " ".join(bare)


def _joined(op: str, tests: Sequence[Expression], kind: Kind = "boolean") -> Expression:
    """Expressions joined by an operator, as a tree of few levels."""
    if len(tests) == 1:
        return tests[0]
    middle = len(tests) // 2
    return combined(op, kind, [_joined(op, tests[:middle], kind), _joined(op, tests[middle:], kind)])


def _numbers(given: object, many: int, form: str) -> list[float]:
    numbers = [as_number(str(one)) for one in given] if isinstance(given, list | tuple) else []
    if len(numbers) != many or None in numbers:
        raise SchemaError(f"{shown(given)} is not known; write {form}")
    return [float(one) for one in numbers if one is not None]


def _area(rule: Mapping[str, Any], shape: str) -> Expression:
    """Expression for the area of a point: the first box or polygon that contains it, or its cell of a grid."""
    point = rule["point"]
    if not isinstance(point, list | tuple) or len(point) != 2:
        raise SchemaError("point needs two columns, such as [lon, lat]; write them")
    lon, lat = (_column(name, "number") for name in point)
    if shape == "grid":
        return _grid(rule["grid"], lon, lat)
    areas = rule[shape]
    if not isinstance(areas, Mapping) or not areas:
        raise SchemaError(f"{shape} must name areas, such as {{north: [5, 51, 15, 55]}}; write them")
    inside = _in_box if shape == "boxes" else _in_polygon
    if shape == "polygons":
        areas = {name: _rings(one) for name, one in areas.items()}
        if sum(len(ring) for rings in areas.values() for ring in rings) > MOST_EDGES:
            raise SchemaError(f"polygons have more than {MOST_EDGES} corners together; simplify them")
    known = _joined("and", [combined("not", "boolean", [combined("is null", "boolean", [one])]) for one in (lon, lat)])
    cases = [(combined("not", "boolean", [known]), Expression("null", None, high=0, grain=0))]
    return case(
        [*cases, *((inside(one, lon, lat), text_literal(str(name))) for name, one in areas.items())], _otherwise(rule)
    )


def _in_box(box: object, lon: Expression, lat: Expression) -> Expression:
    west, south, east, north = _numbers(box, 4, "[west, south, east, north]")
    if west > east or south > north:
        raise SchemaError(f"the box {shown(box)} ends before it begins; write [west, south, east, north]")
    bounds = [(lon, west, east), (lat, south, north)]
    return _joined(
        "and", [combined("between", "boolean", [one, number_literal(a), number_literal(b)]) for one, a, b in bounds]
    )


def _rings(given: object) -> list[list[list[float]]]:
    """Rings of an area: one list of corners, or several such lists, of which those inside others are holes."""
    form = "a list of corners [x, y], or a list of such lists"
    rings = given if isinstance(given, list | tuple) else []
    if not (rings and isinstance(rings[0], list | tuple) and rings[0] and isinstance(rings[0][0], list | tuple)):
        rings = [rings]
    if any(not isinstance(ring, list | tuple) or len(ring) < 3 for ring in rings):
        raise SchemaError(f"a polygon needs three corners; write {form}")
    return [[_numbers(corner, 2, form) for corner in ring] for ring in rings]


def _in_polygon(rings: Sequence[Sequence[Sequence[float]]], lon: Expression, lat: Expression) -> Expression:
    """Whether a point is in a polygon: an odd number of its edges lies to the east (ray casting).

    An edge from (a, b) up to (c, d) does if b <= y < d and x < a + (y - b) (c - a) / (d - b); each that does turns a
    sign.
    """
    signs = []
    for edge in (edge for ring in rings for edge in pairwise([*ring, ring[0]])):
        (a, b), (c, d) = sorted(edge, key=lambda corner: corner[1])
        if b == d:
            continue
        up = combined("-", "number", [lat, number_literal(b)])
        along = combined("*", "number", [up, number_literal((c - a) / (d - b))])
        east = combined("<", "boolean", [lon, combined("+", "number", [number_literal(a), along])])
        ends = [combined(op, "boolean", [lat, number_literal(end)]) for op, end in ((">=", b), ("<", d))]
        signs.append(case([(_joined("and", [*ends, east]), number_literal(-1.0))], number_literal(1.0)))
    if not signs:
        raise SchemaError("a polygon has no height; write its corners [x, y]")
    return combined("<", "boolean", [_joined("*", signs, "number"), number_literal(0.0)])


def _grid(given: object, lon: Expression, lat: Expression) -> Expression:
    """The number of a point's cell in a grid: from 0 in the south west, eastward first; outside there is none."""
    keys = ("west", "south", "east", "north", "columns", "rows")
    if not isinstance(given, Mapping) or {*given} != {*keys}:
        raise SchemaError(f"grid needs {', '.join(keys)}; write all of them")
    west, south, east, north, columns, rows = _numbers([given[key] for key in keys], 6, "numbers")
    if west >= east or south >= north or min(columns, rows) < 1 or not (columns.is_integer() and rows.is_integer()):
        raise SchemaError("grid must run from west to east and south to north, with whole numbers of columns and rows")

    def along(one: Expression, low: float, high: float, parts: float) -> Expression:
        step = combined(
            "*", "number", [combined("-", "number", [one, number_literal(low)]), number_literal(parts / (high - low))]
        )
        return combined("least", "number", [combined("floor", "number", [step]), number_literal(parts - 1)])

    row = combined("*", "number", [along(lat, south, north, rows), number_literal(columns)])
    cell = combined("+", "number", [row, along(lon, west, east, columns)])
    return case([(_in_box([west, south, east, north], lon, lat), cell)], Expression("null", None, high=0, grain=0))


def in_words(schema: Ruled) -> list[str]:
    """Sentences on the rules, one for each computed column."""
    found = []
    for name, rule in (schema.recode or {}).items():
        if isinstance(rule, str):
            said = " ".join(rule.split())
            found.append(f"{name} is {said if len(said) <= LONGEST_SHOWN else said[:LONGEST_SHOWN] + ' ...'}")
        elif "match" in rule:
            found.append(f"{name} is what is first found in {rule['match']}: {', '.join(rule['first_of'])}")
        else:
            found.append(f"{name} is where the point {rule['point'][0]}, {rule['point'][1]} lies")
    for one in schema.with_ or ():
        names, many = ", ".join(name for name in one["table"] if name != one["key"]), len(one["table"][one["key"]])
        found.append(f"{names}: looked up by {one.get('column', one['key'])} in a public list of {many:,}")
    return [printable(said) for said in found]
