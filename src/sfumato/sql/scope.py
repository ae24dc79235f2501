"""Names, constants and sets of values of a query, resolved against the schema; names of unsupported SQL; totals.

`Windows` says, seen from one group, which rows SUM(COUNT(*)) OVER (PARTITION BY ...) adds up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from functools import reduce
from itertools import islice
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.domain import END, NO_VALUE, START, Axis, Place, ValueSet
from sfumato.domain.predicates import Predicate, cover
from sfumato.effort import MOST_RULES, OF_A_NODE, at_most, spend
from sfumato.errors import QueryError, UnsupportedSQL
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.plan import Cut

if TYPE_CHECKING:
    from sqlglot import exp


Span = tuple[Place, Place]


def fitted(axis: Axis, values: ValueSet) -> ValueSet:
    """Canonical form of a set of values on an axis: sets with the same values there become equal.

    Then age <= 20 equals age < 21, and sex IN ('F', 'M') is everything where there are no other values.
    """
    low, high = (float(axis.edges[0]), 0), (float(axis.edges[-1]), int(axis.closed))
    last = NO_VALUE if axis.missing else END
    spans = [(NO_VALUE, END)] if axis.missing and values.holds_missing else []
    for start, end in values.spans:
        a, b = (_whole(start, axis), _whole(end, axis)) if axis.discrete else (start, end)
        if a < b and a < high and low < b:
            spans.append((START if a <= low else a, last if b >= high else b))
    return together(spans)


def together(spans: Iterable[Span]) -> ValueSet:
    """The union of spans, by one sort and sweep."""
    swept: list[Span] = []
    for start, end in sorted(spans):
        if swept and start <= swept[-1][1]:
            swept[-1] = (swept[-1][0], max(end, swept[-1][1]))
        else:
            swept.append((start, end))
    return ValueSet(tuple(swept))


def _whole(place: Place, axis: Axis) -> Place:
    """Round a bound of a comparison up to a whole number, as values of the axis are; a time inside a day stays."""
    value, after = place
    if math.isinf(value) or (axis.kind == "date" and not value.is_integer()):
        return place
    return (math.floor(value) + 1.0 if after or not value.is_integer() else value), 0


@dataclass(frozen=True)
class Windows:
    """Window totals of one group. rows: those WHERE keeps. keys: by a key's text, the rows with the group's value."""

    rows: Predicate
    keys: Mapping[str, Predicate]

    def total(self, partition: Sequence[exp.Expression]) -> Predicate:
        """The rows of all groups that agree with this one in the partition."""
        at_most(len(partition), MOST_RULES, "keys are in a window", "name each key once")
        missing = [node for node in partition if text_of(node) not in self.keys]
        if missing:
            raise UnsupportedSQL(
                f"PARTITION BY {missing[0].sql(dialect='duckdb')} is not supported; name what is in GROUP BY there"
            )
        return reduce(and_, (self.keys[text_of(node)] for node in partition), self.rows)


def text_of(node: Any) -> str:
    """Canonical text of an expression: equal for the same column, whatever its case, table and parentheses."""
    from sqlglot import exp

    def plain(part: exp.Expression) -> exp.Expression:
        named = isinstance(part, exp.Column) and not isinstance(part.this, exp.Star)
        return exp.column(part.name.lower(), quoted=True) if named else part

    node = bare(node)
    if isinstance(node, exp.Literal | exp.Var | exp.Null | exp.Boolean):
        spend(1)
        return f"{node.key} {node.name}" if isinstance(node, exp.Var) else str(node.sql(dialect="duckdb"))
    spend(OF_A_NODE * nodes_in(node), "an expression that is compared with keys and aggregates")
    copy = node.transform(plain)
    for part in list(copy.find_all(exp.Paren)):
        if isinstance(part.this, exp.Paren | exp.Column | exp.Literal | exp.Func):
            part.replace(part.this)
    text: str = copy.sql(dialect="duckdb")
    return text


def nodes_in(root: Any) -> int:
    """The number of names, constants and operators in an expression."""
    return sum(1 for _ in root.walk())


SCHEMAS = ("public", "main", "dbo")  # what databases call the place of tables; a release has one table
Constant = str | int | float | bool
TIMESTAMPS = ("timestamp", "timestampntz", "timestamptz", "timestampltz", "datetime")  # types of the parser

_MOST_QUOTED, _MOST_CUT = 100, 1_000  # nodes of syntax whose functions are called as they were written; characters

SUPPORTED = (
    "a release answers SELECTs of COUNT, SUM, AVG, quantiles and their arithmetic, with WHERE, GROUP BY, HAVING, "
    "windows, ORDER BY, WITH, JOIN and UNION; DESCRIBE shows its columns"
)

# Plain words for syntax whose internal name would not help.
_WORDS = {
    "bracket": "[...]",
    "case": "CASE",
    "cast": "CAST",
    "column": "a column outside an aggregate",
    "columns": "COLUMNS(...)",
    "dot": "a field of a column",
    "dpipe": "the || operator",
    "distinct": "DISTINCT",
    "escape": "LIKE",
    "exists": "EXISTS",
    "if": "IF",
    "intdiv": "the // operator (whole-number division)",
    "mod": "the % operator",
    "null": "NULL",
    "nullsafeeq": "IS NOT DISTINCT FROM",
    "nullsafeneq": "IS DISTINCT FROM",
    "parameter": "a parameter",
    "placeholder": "a parameter",
    "pow": "a power",
    "select": "a subquery",
    "similarto": "SIMILAR TO",
    "star": "*",
    "subquery": "a subquery",
    "trycast": "TRY_CAST",
    **dict.fromkeys(("eq", "neq", "lt", "lte", "gt", "gte"), "a comparison"),
    **dict.fromkeys(("and", "or", "not", "is", "in", "between"), "a condition"),
    **dict.fromkeys(("literal", "boolean"), "a constant"),
    **dict.fromkeys(("add", "sub", "mul", "div", "neg"), "arithmetic"),
    "tuple": "a list in parentheses",
}
_OPERATORS = dict.fromkeys(("regexplike", "regexpilike"), "a regular expression (~)")  # functions, if spelled as such


@dataclass(frozen=True)
class Scope:
    """The one table of a SELECT, with the notes that compiling it gathers.

    table_names: what may stand before the dot of a column, in small letters.
    cuts, middles, beyond, unmatched: filled while the query is read; `middles` are attributes summed by the middle of
    their bins, `beyond` those asked for beyond their bounds, `unmatched` notes on conditions that no value fulfils.
    windows: what totals over groups add up, where groups are read one by one.
    """

    schema: Schema
    table_names: frozenset[str]
    cuts: list[Cut] = field(default_factory=list)
    middles: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    windows: Windows | None = None

    @property
    def rows(self) -> Predicate:
        """All rows; of a series, without the periods that have no release, so that these make no groups."""
        found = Predicate.everything()
        for axis in self.schema.domain:
            if axis.gaps:
                there = (axis.values_in(cell).spans[0] for cell in range(axis.places) if cell not in axis.gaps)
                found &= Predicate.where(axis.name, fitted(axis, together(there)))
        return found

    def name_of(self, column: exp.Expression) -> str:
        """The attribute, measure or column of groups that a column of the query means, in any letter case."""
        table = str(column.text("table"))
        if column.text("db").lower() not in ("", *SCHEMAS) or (table and table.lower() not in self.table_names):
            raise QueryError(f"no table {table!r} in FROM; write {column.name} without a table before it")
        names = list(dict.fromkeys((*self.schema.domain.names, *self.schema.measures, *self.schema.group_columns)))
        name = str(column.name)
        if name in names:
            return name
        same = [known for known in names if known.lower() == name.lower()]
        if len(same) == 1:
            return same[0]
        raise QueryError(f"no column {name!r}{self._hint(column, names)}; there are {', '.join(names)}")

    def _hint(self, column: exp.Expression, names: Sequence[str]) -> str:
        """Suggest what an unknown name may mean: a text in the wrong quotes, the table's own name, a misspelling."""
        name = str(column.name)
        if column.this.args.get("quoted") and any(name in map(str, axis.values) for axis in self.schema.domain):
            return f" (a text stands in single quotes: '{name}')"
        parts = (*self.schema.attributes.items(), *self.schema.measures.items())
        here = [known for known, part in parts if part.column.lower() == name.lower()]
        if here:
            return f" (the table's {name} is called {' or '.join(dict.fromkeys(here))} here)"
        near = get_close_matches(name.lower(), [known.lower() for known in names], n=1)
        near = near or [known.lower() for known in names if known.lower().startswith(name.lower())][:1]
        return "".join(f" (did you mean {known}?)" for known in names if near and known.lower() == near[0])

    def axis_of(self, column: exp.Expression, place: str) -> Axis:
        """The axis of a column that must be an attribute because of its place in the query."""
        name = self.name_of(column)
        if name in self.schema.group_columns:
            raise QueryError(f"{name} cannot be used in {place}: it names groups of {self.attribute_of(column)}")
        if name not in self.schema.domain:
            raise QueryError(
                f"{name} is a measure, which a release only sums, so it cannot be used in {place}; "
                f"attributes are {', '.join(self.schema.domain.names)}"
            )
        return self.schema.domain[name]

    def groups_of(self, column: exp.Expression) -> tuple[str | None, ...] | None:
        """For a column of groups, the group of each cell of the attribute behind it; None for any other column."""
        found = self.schema.group_columns.get(self.name_of(column)) if self.schema.group_columns else None
        return None if found is None else found[1]

    def attribute_of(self, column: exp.Expression) -> str:
        """The attribute or measure that a column means, or that a column of groups follows from."""
        name = self.name_of(column)
        return self.schema.group_columns[name][0] if name in self.schema.group_columns else name

    def note_cuts(self, predicates: Iterable[Predicate], text: Callable[[], str]) -> None:
        """Remember which cells predicates cut, for the notes under the answer."""
        domain, torn = self.schema.domain, dict[str, set[int]]()
        for predicate in predicates:
            for name in predicate.cuts(domain):
                for box in predicate.boxes:
                    covered = cover(domain[name], box[name])
                    torn.setdefault(name, set()).update(np.flatnonzero(covered.sure != covered.possible).tolist())
        for name, found in torn.items():
            cells = sorted(found)
            labels = ", ".join(str(domain[name].label(cell)) for cell in cells[:3]) + (
                ", ..." if len(cells) > 3 else ""
            )
            self.cuts.append(Cut(name, f"{text()} cuts the bin{'s' if len(cells) > 1 else ''} {labels}"))


def unsupported(what: str, remedy: str = SUPPORTED) -> UnsupportedSQL:
    """The error for a construct, in words."""
    return UnsupportedSQL(f"{what} is not supported; {remedy}")


def in_words(node: exp.Expression) -> str:
    """Name for messages of a piece of SQL that is not supported."""
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return f"the function {node.name.upper()}"
    if node.key in _WORDS:
        return _WORDS[node.key]
    written = node.meta.get("written", "").upper()
    if isinstance(node, exp.Func):
        return f"the function {written}" if written else _OPERATORS.get(node.key, "a function")
    return written or "this"


def quoted(node: exp.Expression) -> str:
    """A piece of a query as messages quote it: on one line, not too long, with names and dates as written."""
    from sqlglot import exp

    few = next(islice(node.walk(), _MOST_QUOTED, None), None) is None

    def as_written(part: exp.Expression) -> exp.Expression:
        name = part.meta.get("written") if isinstance(part, exp.Func) else None
        if name is None or part.sql(dialect="duckdb").upper().startswith(f"{name.upper()}("):
            return part
        args = [arg for value in part.args.values() for arg in (value if isinstance(value, list) else [value])]
        return exp.Anonymous(this=name, expressions=[arg for arg in args if isinstance(arg, exp.Expression)])

    text = (node.transform(as_written) if few else node).sql(dialect="duckdb")[:_MOST_CUT]
    text = re.sub(r"CAST\(('[^']*') AS (DATE|TIMESTAMP)\)", r"\2 \1", " ".join(text.split()))
    written = node.meta.get("words")
    if written is not None and not set(re.findall(r"\b[A-Z][A-Z_]+\b", text)) <= written:
        return in_words(node)  # the parser has another word for something in it
    return text if len(text) <= 80 else text[:77] + "..."


def bare(node: Any) -> Any:
    """A node without the parentheses around it."""
    while node is not None and node.key == "paren":
        node = node.this
    return node


def constant(node: exp.Expression) -> Constant | None:
    """The value of an expression made of literals only; None for any other."""
    read = _CONSTANTS.get(node.key)
    return read(node) if read else None


def number(node: exp.Expression) -> float | None:
    """The value of an expression made of numbers only; None for any other."""
    value = constant(node)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def place_in(node: Any, length: int) -> int | None:
    """The place, from 0, that a number of GROUP BY or ORDER BY names in a list of some length; None for any other."""
    value = number(node)
    return int(value) - 1 if value is not None and value.is_integer() and 1 <= value <= length else None


def place_of(node: Any, length: int, clause: str) -> int:
    """Place in the select list that a number names, as by `place_in`; any other node is refused."""
    place = place_in(node, length)
    if place is None:
        raise QueryError(f"{clause} {node.name} is not a place in the select list; its places are 1 to {length}")
    return place


def _literal(node: exp.Expression) -> Constant:
    text = str(node.this)
    if node.args.get("is_string"):
        return text
    try:
        value = float(text)
    except ValueError:
        raise QueryError(f"{text!r} is not a number") from None
    if not math.isfinite(value):
        raise QueryError(f"{text[:40]!r} is a number that is too large; write one up to 1e308")
    return _plain(value)


def _plain(value: float) -> int | float:
    """A whole number as int, so that it reads like the value of a category: 3, not 3.0."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _cast(node: exp.Expression) -> Constant | None:
    """DATE '2024-12-31' is its text; casts of numbers are accepted where they change nothing."""
    value = constant(node.this)
    if isinstance(value, str):
        if node.args["to"].is_type("date"):
            return value[:10]
        return value if node.args["to"].is_type(*TIMESTAMPS, "varchar", "text") else None
    return value if keeps_numbers(node) or (isinstance(value, int) and keeps_numbers(node, whole=True)) else None


def keeps_numbers(cast: exp.Expression, *, whole: bool = False) -> bool:
    """Whether a cast leaves all numbers, or at least whole numbers, as they are."""
    from sqlglot import exp

    kind, digits = cast.args["to"].this, cast.args["to"].expressions
    return kind in exp.DataType.NUMERIC_TYPES and (whole or not (digits or kind in exp.DataType.INTEGER_TYPES))


def _negated(node: exp.Expression) -> Constant | None:
    value = number(node.this)
    return None if value is None else _plain(-value)


def _arithmetic(node: exp.Expression) -> Constant | None:
    right = number(node.args["expression"])
    left = None if right is None else number(node.this)  # a long sum of columns is looked at once
    if left is None or right is None:
        return None
    if node.key == "div" and right == 0:
        raise QueryError("the query divides by zero")
    value = {"add": left + right, "sub": left - right, "mul": left * right}.get(node.key, left / (right or 1.0))
    if not math.isfinite(value):
        raise QueryError("the query contains a number that is too large")
    return _plain(value)


_CONSTANTS: dict[str, Callable[[Any], Constant | None]] = {
    "literal": _literal,
    "boolean": lambda node: bool(node.this),
    "paren": lambda node: constant(node.this),
    "cast": _cast,
    "neg": _negated,
    "add": _arithmetic,
    "sub": _arithmetic,
    "mul": _arithmetic,
    "div": _arithmetic,
}
