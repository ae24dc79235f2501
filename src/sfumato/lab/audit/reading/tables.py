"""Cases and sources of the reading audit: random schemas, and rows full of values that break readers.

A case is one table; a source makes cases. A table of `awkward_table` has a few values of a few columns, and a fault
that depends on one value is found after some hundred pairs.

Some engines are so slow that few readings can be tried. Their tables are dealt instead: each row is awkward in every
column and every value of every column occurs, so that one reading shows whether any of them falls into a wrong cell;
and people are chosen that an engine might take for one another, each with as many rows as are used, so that two who
become one are counted too seldom, and one who becomes two too often.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from importlib.util import find_spec
from math import ceil, log2
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.reading.table import Table
from sfumato.lab.audit.reading.reference import Row, unit_of
from sfumato.schema import Schema
from sfumato.schema.series import Series

if TYPE_CHECKING:
    import pyarrow as pa

BLOCKS = (5, 16, 64, 2**23)  # into which a CSV file is cut; nothing may depend on it
Make = Callable[[Random, Path], "Case"]


@dataclass(frozen=True)
class Case:
    """A table that can be opened whole or without some of its parts, a part being a row or the bytes of a record.

    neighbours: the parts left without each unit, where removing it removes more than its own parts. unlike: difference
    of a reading of some parts from the expected one, in words, in place of the reference reading of `rows`.
    """

    schema: Schema
    parts: tuple[Any, ...]
    unit: Callable[[Any], Hashable]
    open: Callable[[Sequence[Any]], Table]
    rows: Callable[[Sequence[Any]], Sequence[Row]]
    typed: bool = True
    neighbours: Callable[[], Iterable[tuple[Any, ...]]] | None = None
    unlike: Callable[[Sequence[Any], Aggregate], str | None] | None = None


@dataclass(frozen=True)
class Source:
    """Source of cases: their maker, share of the pairs to try, and library needed.

    first: makers of cases that are tried before those of `make`, where only a few readings can be afforded.
    """

    make: Make
    share: float = 1.0
    needs: str = "pyarrow"
    first: tuple[Make, ...] = ()

    @property
    def here(self) -> bool:
        """Whether the library that the source needs is installed."""
        return find_spec(self.needs) is not None


UTC = dt.UTC
TOKYO = dt.timezone(dt.timedelta(hours=9), "Asia/Tokyo")
_BIG = 2**53

TEXTS = ["a", "A", "ä", "a\u0308", "", " a", "a ", "1", "1.0", "true", "TRUE", "x\ny", 'x"y', "a\0", "\u202ea",
         "nan", "ß", "ss"]  # fmt: skip
DAYS = [dt.date(2020, 1, 31), dt.date(2020, 2, 29), dt.date(2020, 3, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]
TIMES = [
    dt.datetime(2020, 1, 31, 23, 59, 59, 999999),
    dt.datetime(2020, 2, 1),
    dt.datetime(2020, 2, 29, 12),
    dt.datetime(1969, 12, 31, 23, 59, 59),
]
NUMBERS = [0.0, -0.0, 0.5, -0.5, 1.0, 1.5, -2.0, 2.0, 2.5, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324,
           0.25, 3.0]  # fmt: skip
FAR_NUMBERS = [*NUMBERS, 1e19, -1e19, 2.0**53]
WHOLE = [0, 1, -1, 2, -2, 3, 127, -128]
LARGE = [*WHOLE, _BIG, _BIG + 1, 2**63 - 1, -(2**63)]
PEOPLE = ["p", "P", "q", "é", "e\u0301", "nan", "NULL"]
# Persons whose texts are alike, where a column may hold objects of any type.
OBJECTS = [1, "1", 1.0, True, "true", Decimal(1), "\ud800", "?", "2020-02-29", dt.date(2020, 2, 29), b"1", None]

# For each column the types it may have, as Arrow names them, and the values that a column of that type is drawn from.
POOLS: dict[str, dict[str, Sequence[object]]] = {
    "c": {
        **dict.fromkeys(("string", "large_string", "string_view", "dictionary"), TEXTS),
        **{"int64": LARGE, "float64": NUMBERS, "bool": [True, False]},
    },
    "n": {
        "int8": WHOLE,
        "int64": LARGE,
        "uint64": [0, 1, 2, _BIG, 2**64 - 1],
        "float32": NUMBERS[:12],
        "float64": FAR_NUMBERS,
        "decimal128": [Decimal("1.50"), Decimal("-2.00"), Decimal("9999999.99"), Decimal("0.00")],
        "bool": [True, False],
    },
    "x": {"float64": NUMBERS, "int64": LARGE, "decimal128": [Decimal("0.25"), Decimal("0.50"), Decimal("-0.01")]},
    "b": {"bool": [True, False], "int64": [0, 1, 2], "string": ["true", "F", "yes", "maybe", "", "0"]},
    "d": {
        "date32": DAYS,
        "timestamp[us]": TIMES,
        "timestamp[ns]": TIMES,
        "timestamp[s]": [time.replace(microsecond=0) for time in TIMES],
        "timestamp[ms, tz=UTC]": [time.replace(tzinfo=UTC, microsecond=0) for time in TIMES],
        "timestamp[us, tz=Asia/Tokyo]": [time.replace(tzinfo=TOKYO) for time in TIMES],
    },
    "m": {
        "float64": NUMBERS,
        "int64": LARGE,
        "float32": NUMBERS[:12],
        "decimal128": [Decimal("4.00"), Decimal("-7.25")],
    },
    "who": {
        "string": PEOPLE,
        "dictionary": PEOPLE,
        "int64": [1, 2, _BIG, _BIG + 1, 2**63 - 1],
        "float64": [1.0, 2.5, -0.0, 0.0, math.nan, math.inf],
    },
}
# Words for a missing value, and units: none of them is listed in `awkward_schema`.
NO_VALUES = ["ss", "ß", "F", "3", "-2", "0.25", "q", "2020-02-29", "x", "inf"]
MARKS = ["EUR", "E", "%", "€"]
PLAIN_NAMES = {part: part for part in POOLS}
NAMES = [
    PLAIN_NAMES,
    {"c": 'a"b', "n": "select", "x": "x y", "b": "é😀", "d": "cell", "m": "m0", "who": "unit"},
    {"c": "N", "n": "n", "x": "rows", "b": "a0", "d": "list0", "m": "code", "who": "place"},
    {"c": "c,d", "n": "line break", "x": "'x'", "b": "{b}", "d": "%d", "m": "--m", "who": "source"},
]
# Types of other databases by the same names: PostgreSQL, ClickHouse (where they can be missing) and MariaDB. Texts are
# of types and collations that take some of them for one another.
DATABASE_TYPES = {
    "string": ("text", "String", "text CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"),
    "large_string": ("varchar(40)", "", "varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_nopad_ci"),
    "string_view": ("sfumato_audit.loose_text", "", "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci"),
    "dictionary": ("sfumato_audit.citext", "String", "varchar(40) CHARACTER SET utf16 COLLATE utf16_general_ci"),
    "int8": ("smallint", "Int8", "tinyint"),
    "int64": ("bigint", "Int64", "bigint"),
    "uint64": ("numeric", "UInt64", "bigint unsigned"),
    "float32": ("real", "Float32", "float"),
    "float64": ("double precision", "Float64", "double"),
    "decimal128": ("numeric(9, 2)", "Decimal(9, 2)", "decimal(9, 2)"),
    "bool": ("boolean", "Bool", "tinyint(1)"),
    "date32": ("date", "Date32", "date"),
}


@dataclass(frozen=True)
class AwkwardTable:
    """A schema and rows that it can be applied to, each column of one declared type."""

    schema: Schema
    rows: tuple[Row, ...]
    types: dict[str, str]  # by column name

    def arrow(self, rows: Sequence[Row]) -> pa.Table:
        """Some of the rows as an Arrow table of the declared types."""
        import pyarrow as pa

        columns = [pa.array([row[name] for row in rows], arrow_type(kind)) for name, kind in self.types.items()]
        return pa.table(columns, names=list(self.types))

    def case(self, opening: Callable[[Sequence[Row]], Table], *, typed: bool = True) -> Case:
        """Case of the reading audit whose parts are the rows; opening: makes a source of some of them."""
        column = self.schema.privacy_unit.column

        def unit(row: Row) -> Hashable:
            return None if column is None else unit_of(row[column])

        return Case(self.schema, self.rows, unit, opening, lambda rows: rows, typed)


def awkward_table(random: Random) -> AwkwardTable:
    """Random schema, and a few rows of a few people, as a table."""
    schema, names = awkward_schema(random)
    types = {names[part]: random.choice(list(POOLS[part])) for part in names}
    pools = {names[part]: _pool(random, part, types[names[part]]) for part in names}
    rows = tuple(
        {name: None if random.random() < 0.1 else random.choice(pool) for name, pool in pools.items()}
        for _ in range(random.randint(4, 14))
    )
    return AwkwardTable(schema, rows, types)


def awkward_schema(random: Random, names: dict[str, str] | None = None) -> tuple[Schema, dict[str, str]]:
    """Random schema, and the column name of each of its parts; one part always identifies people."""
    names = names or random.choice(NAMES)
    attributes: dict[str, dict[str, Any]] = {
        "c": {"type": "category", "values": ["a", "A", "ä", "1", "true", "x\ny"], "other": random.random() < 0.5},
        "n": {"type": "integer", "lower": -2, "upper": 2},
        "x": {"type": "number", "lower": 0, "upper": 1, "width": "0.25"},
        "b": {"type": "boolean"},
        "d": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31", "by": random.choice(["day", "month"])},
    }
    if random.random() < 0.3:
        attributes["n"] = {"type": "category", "values": [-1, 0, 1, 2], "other": random.random() < 0.5}
    _vary(attributes, random)
    chosen = random.sample(sorted(attributes), random.randint(1, 3))
    described = {part: attributes[part] | {"column": names[part]} for part in chosen}
    if random.random() < 0.1:  # the same again and again, until there are too many cells to lay out
        times = ceil(26 / log2(reading_schema(described).domain.size))
        described = {f"{part}{time}": one for time in range(times) for part, one in described.items()}
    measured = random.random() < 0.5
    unit: Any = {"column": names["who"], "contributions": random.randint(1, 3)} if random.random() < 0.8 else "row"
    measures = {"m": {"lower": -4, "upper": 4, "step": 1, "column": names["m"]}} if measured else {}
    file = {"missing": NO_VALUES, "strip": MARKS} if _aside(random).random() < 0.3 else None
    schema = reading_schema(described, unit, measures, file)
    with suppress(SchemaError):  # rules that leave no row for a value
        schema = reading_schema(described, unit, measures, file, _rules(schema, _aside(random)))
    schema = _recoded(schema, {part: names[part] for part in chosen}, names["m"] if measured else None, _aside(random))
    schema = _in_a_series(schema, {part: names[part] for part in chosen if part in ("c", "d")}, _aside(random))
    schema = _weighed(schema, names["m"] if measured else None, _aside(random))
    schema = _by_person(schema, _aside(random))
    used = [*chosen, *(["m"] if measured else []), "who"]
    return schema, {part: names[part] for part in random.sample(used, len(used))}


def reading_schema(
    attributes: dict[str, Any],
    unit: Any = "row",
    measures: dict[str, Any] | None = None,
    file: dict[str, Any] | None = None,
    rules: dict[str, Any] | None = None,
) -> Schema:
    """Schema of given attributes, privacy unit, measures, file and rules about impossible rows."""
    parts: dict[str, Any] = {"privacy_unit": unit, "attributes": attributes, "measures": measures or {}}
    parts |= {"file": file} if file else {}
    parts |= rules or {}
    return Schema.from_dict({"dataset": "reading", **parts})


RULES = {
    "c": ["TRIM({0})", "LOWER({0}) || ''", "CASE WHEN {0} LIKE 'x%' OR {0} IN ('1', 'a ') THEN 'a' ELSE {0} END"],
    "n": ["{0} + 0", "-{0} * 2 + 1", "FLOOR({0} / 2)", "COALESCE({0} / {0}, 2)"],
    "x": ["CASE WHEN {0} > 0.5 THEN {0} / 2 ELSE {0} END", "ABS({0}) * {0}", "ROUND({0} * {0} - 0.1, 1)"],
    "b": ["NOT {0}", "{0} OR {0} IS NULL"],
    "d": ["DATE_TRUNC('month', {0})", "GREATEST({0}, DATE '2020-02-01')", "COALESCE({0}, DATE '2020-02-29')"],
    "m": ["{0} * 2 - 1", "{0} / ({0} - 1)"],
}
LOOKED_UP = {"key": ["a", "A", "1", "ä", "true", "", "x\ny", "2.5", "3"], "to": list("aAaä1a1AA")}


def _recoded(schema: Schema, columns: Mapping[str, str], measure: str | None, aside: Random) -> Schema:
    """The schema, at times with `recode` rules that redefine its columns, or look one up in a table (`with`)."""
    if max(aside.random(), aside.random()) >= 0.5:  # beside other options, which go by the first of these two
        return schema
    columns = {**columns, **({"m": measure} if measure is not None else {})}
    quoted = {part: _quoted(name) for part, name in columns.items()}
    chosen = aside.sample(sorted(columns), aside.randint(1, len(columns)))
    rules = {columns[part]: aside.choice(RULES[part]).format(quoted[part]) for part in chosen}
    more: dict[str, Any] = {"recode": rules}
    if "c" in chosen and aside.random() < 0.5:
        del rules[columns["c"]]
        table = {"key": LOOKED_UP["key"], columns["c"]: LOOKED_UP["to"]}
        more["with"] = [{"key": "key", "column": columns["c"], "table": table}]
    with suppress(SchemaError):  # two columns whose names differ by case alone
        return Schema.from_dict({**schema.to_dict(), **{key: part for key, part in more.items() if part}})
    return schema


def _in_a_series(schema: Schema, columns: Mapping[str, str], aside: Random) -> Schema:
    """The schema, at times as that of a series whose periods are in one of these columns."""
    if not columns or aside.random() >= 0.3 or schema.made:
        return schema
    part = aside.choice(sorted(columns))
    period = "name" if part == "c" else aside.choice(["day", "week", "month", "quarter", "year", "year"])
    few = schema.privacy_unit.column is not None and aside.random() < 0.5
    unit = f"person in at most 2 {period}s" if few else f"person in a {period}"
    series = Series.model_validate({"period": period, "unit": unit, "column": columns[part]})
    return schema.model_copy(update={"series": series})


def _weighed(schema: Schema, column: str | None, aside: Random) -> Schema:
    """The schema, at times with rows weighed by the column of its measure, some moved toward a mean."""
    wanted = [aside.random() for _ in range(12)][-1]  # whatever else was drawn from the first ones
    if column is None or schema.series is not None or wanted >= 0.4:
        return schema
    moved = {"shrink": "0.5", "mean": 1} if wanted < 0.1 else {}
    return Schema.from_dict(schema.to_dict() | {"weight": {"column": column, "upper": 3, "step": "0.5", **moved}})


def _by_person(schema: Schema, aside: Random) -> Schema:
    """The schema, sometimes with `per_person`: each column an aggregate of a person's rows."""
    unit = schema.privacy_unit.column
    parts = [*schema.attributes.values(), *schema.measures.values()]
    columns = list(dict.fromkeys(part.column for part in parts))
    alike = len({column.lower() for column in (*columns, unit or "")}) <= len(columns)
    wanted = [aside.random() for _ in range(9)][-1] < 0.25  # whatever else was drawn from the first ones
    if unit is None or schema.series is not None or schema.made or alike or not wanted:
        return schema
    kinds = {part.column: getattr(part, "type", "number") for part in parts}
    made = {}
    for column in columns:
        functions = {"category": CHOSEN, "date": CHOSEN, "boolean": [*CHOSEN, "BOOL_OR({0})", "BOOL_AND({0})"]}
        function = aside.choice(functions.get(kinds[column], [*CHOSEN, *NUMBERED]))
        made[column] = function.format(_quoted(column), _quoted(aside.choice(columns)))
    select = ", ".join(f"{made[column]} AS {_quoted(column)}" for column in columns)
    rule = f"SELECT {select} FROM t GROUP BY {_quoted(unit)}"
    unit_alone = {"column": unit, "contributions": 1}
    return Schema.from_dict(schema.to_dict() | {"per_person": rule, "privacy_unit": unit_alone})


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# Aggregates of a column, {0}, in the order of another, {1}; of numbers there are more.
CHOSEN = ["MIN({0})", "MAX({0})", "FIRST({0} ORDER BY {1})", "LAST({0} ORDER BY {1})"]
NUMBERED = ["SUM({0})", "AVG({0})", "COUNT({0})", "COUNT(DISTINCT {0})", "COUNT(*)"]


def _rules(schema: Schema, aside: Random) -> dict[str, Any]:
    """Random combinations of cells that a schema calls impossible, and an attribute that follows from another."""
    axes = [axis for axis in schema.domain.axes if 1 < axis.size <= 2**10]
    if len(axes) < 2 or aside.random() >= 0.4:
        return {}
    rules: dict[str, Any] = {}
    fine, coarse = aside.sample(axes, 2)
    values = [label for label in coarse.labels() if label is not None]
    named = [label for label in fine.labels() if label is not None and label != "other"]
    other = (fine.values[-1:] == ("other",)) > (coarse.values[-1:] == ("other",))
    if aside.random() < 0.4 and not other and len(named) >= len(values) and (coarse.missing or not fine.missing):
        aside.shuffle(named)
        dealt = [*values, *(aside.choice(values) for _ in named[len(values) :])]
        groups: dict[str, list[Any]] = {}
        for value, group in zip(named, dealt, strict=True):
            groups.setdefault(str(group), []).append(value)
        return {"follows": {coarse.name: {"from": fine.name, "groups": groups}}}
    sides = {axis.name: aside.sample(labels, aside.randint(1, len(labels) - 1)) for axis in (fine, coarse)
             for labels in [axis.labels()]}  # fmt: skip
    first = {name: side if aside.random() < 0.5 else {"not": side} for name, side in sides.items()}
    second = {axis.name: aside.choice(axis.labels()) for axis in aside.sample(axes, 2)}
    rules["impossible"] = [first, second] if aside.random() < 0.5 else [first]
    return rules


def _aside(random: Random) -> Random:
    """A generator in the same state, which draws without moving the other."""
    aside = Random()  # noqa: S311 (tables, not noise)
    aside.setstate(random.getstate())
    return aside


def _vary(attributes: dict[str, dict[str, Any]], random: Random) -> None:
    """Apply rarer options of attributes at random, without changing which tables are drawn."""
    aside = _aside(random)
    if aside.random() < 0.4:
        attributes["d"]["by"] = aside.choice(["hour", "week", "quarter", "year"])
    elif aside.random() < 0.3:
        attributes["d"] = {"type": "date", "by": aside.choice(["weekday", "hour_of_day"])}
    if attributes["n"]["type"] == "category" and aside.random() < 0.5:
        attributes["n"]["map"] = {"2.5": 2, "7": -1}
    if aside.random() < 0.3:
        attributes["c"]["fold"] = "spaces"
    elif aside.random() < 0.4:
        attributes["c"] |= {"values": ["a", "ä", "1", "x\ny"], "fold": ["case", "spaces"], "map": {"TRUE": "1"}}
    if aside.random() < 0.3:
        attributes["b"] |= {"map": {"1": False, "maybe": True}, "fold": "case"}
    for attribute in attributes.values():
        if aside.random() < 0.3:
            attribute["missing"] = "keep"


def _pool(random: Random, part: str, kind: str) -> list[object]:
    """Random sample of a pool of values, small enough that people repeat and cells are shared."""
    values = list(POOLS[part][kind])
    return random.sample(values, min(len(values), random.randint(2, 5)))


def arrow_type(kind: str) -> Any:
    """Arrow type of a kind of column in POOLS."""
    import pyarrow as pa

    if kind == "dictionary":
        return pa.dictionary(pa.int32(), pa.string())
    if kind == "decimal128":
        return pa.decimal128(9, 2)
    if kind.startswith("timestamp"):
        unit, _, zone = kind[len("timestamp[") : -1].partition(", tz=")
        return pa.timestamp(unit, zone or None)
    return getattr(pa, {"bool": "bool_"}.get(kind, kind))()


MOST = 3  # rows of a person that are used
TOO_MANY = 4  # rows that one person has beside these
_YEAR = {"lower": "2020-01-01", "upper": "2020-12-31"}
_LISTED = ["a", "A", "ä", "a\u0308", "a ", " a", "ß", "1", "true", "nan"]


def _listed(values: list[Any]) -> dict[str, Any]:
    return {"type": "category", "values": values, "other": True}


# Each column: its type, its values, and an attribute that tells them apart. No row falls out, whatever it holds, but a
# few that `SELDOM` calls impossible, in one of the tables.
COLUMNS: dict[str, tuple[str, Sequence[object], dict[str, Any]]] = {
    "text": ("string", TEXTS, _listed(_LISTED)),
    "spelled": (
        "string",
        ["1", " 2.5e0 ", "nan", "-inf", "1e999", "x", "", "1e-400", "2 5", "０"],
        _listed([1, 2.5, 25]),
    ),
    "float": ("float64", NUMBERS, _listed(["0", "0.5", "-0.5", "inf", "1e+308", "3"])),
    "large": ("int64", LARGE, {"type": "integer", "lower": -2, "upper": 2}),
    "number": ("float64", FAR_NUMBERS, {"type": "number", "lower": 0, "upper": 1, "width": "0.25"}),
    "word": ("string", ["true", "F", "yes", "maybe", "", "0", "TRUE", "t", "no"], {"type": "boolean"}),
    "day": ("date32", DAYS, {"type": "date", "by": "week", **_YEAR}),
    "at": (
        "timestamp[us, tz=UTC]",
        [time.replace(tzinfo=UTC) for time in TIMES],
        {"type": "date", "by": "hour_of_day"},
    ),
}
SELDOM = {"text": ["a", "A", None], "large": {"not": [-2]}, "word": [True, None]}
MEASURED = [*NUMBERS, 4.0, -4.0]
PEOPLE_BY_KIND: dict[str, Sequence[object]] = {
    "string": ["p", "P", "p ", "é", "e\u0301"],
    "float64": [0.0, -0.0, math.nan, 1.0, math.inf],
}


def dealt_table(kind: str, random: Random) -> AwkwardTable:
    """Table with every awkward value of every column, in rows of people with identifiers of one kind."""
    attributes = {name: {**described, "missing": "keep"} for name, (_, _, described) in COLUMNS.items()}
    unit = {"column": "who", "contributions": MOST}
    rules = {"impossible": [SELDOM]} if kind == "float64" else None
    schema = reading_schema(attributes, unit, {"m": {"lower": -4, "upper": 4, "step": 1, "column": "m"}}, rules=rules)
    types = {name: own for name, (own, _, _) in COLUMNS.items()} | {"m": "float64", "who": kind}
    hands = {name: [*values, None] for name, (_, values, _) in COLUMNS.items()} | {"m": [*MEASURED, None]}
    for hand in hands.values():
        random.shuffle(hand)
    people = [person for person in PEOPLE_BY_KIND[kind] for _ in range(MOST)]
    people += [PEOPLE_BY_KIND[kind][-1]] * TOO_MANY + [None]
    length = max(len(people), *(len(hand) for hand in hands.values()))
    people += [PEOPLE_BY_KIND[kind][-1]] * (length - len(people))
    rows = tuple(
        {**{name: hand[place % len(hand)] for name, hand in hands.items()}, "who": person}
        for place, person in enumerate(people)
    )
    return AwkwardTable(schema, rows, types)
