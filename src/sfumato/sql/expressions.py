"""Classes of rows by the value of an expression of attributes, such as FLOOR(age / 10) or CASE.

Attributes have public values, so the expression is worked out on each of them. Along one attribute, values of which all
parts of the expression agree are a class; across attributes, classes are multiplied. No row is looked at.

Inside a bin of a real-valued attribute there are more values than can be tried, so the expression must be made of
steps: comparisons with constants, and FLOOR, CEIL, ROUND or CAST of something linear. Between two of its `breakpoints`
it is constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from functools import partial
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sfumato.domain import END, NO_VALUE, Axis
from sfumato.domain.grid import EPOCH
from sfumato.domain.predicates import Box, Predicate
from sfumato.effort import spend
from sfumato.errors import QueryError, UnsupportedSQL
from sfumato.frozen import dataclass
from sfumato.sql.scope import Scope, Span, fitted, quoted, together
from sfumato.sql.values.functions import MOST_DECIMALS, call
from sfumato.sql.values.translate import translate
from sfumato.sql.values.tree import Call, Lookup, Ref, Tree, Value, evaluate, places, size

if TYPE_CHECKING:
    from sqlglot import exp

MOST_POINTS = 10_000

_COMPARISONS = ("eq", "neq", "lt", "lte", "gt", "gte", "between", "in", "nullif", "greatest", "least")
_HALF, _WHOLE = Fraction(1, 2), Fraction(0)
_JUMPS = {"floor": _WHOLE, "ceil": _WHOLE, "trunc": _WHOLE, "round": _HALF, "to_integer": _HALF, "intdiv": _WHOLE}
_MOST_BITS = 512  # of a number of a line; beyond, arithmetic rounds to doubles


@dataclass(frozen=True)
class Line:
    """slope * x + start, in exact numbers: a point that is off by a rounding would cut a bin that ends there."""

    slope: Fraction
    start: Fraction


Shape = Line | Literal["steps"]


def breakpoints(trees: Iterable[Tree], low: float, high: float, what: Callable[[], str]) -> list[float]:
    """The points between low and high, in order, where any of the expressions may change; what: for the message."""
    found: set[float] = set()
    search = _Search(low, high, what, found)
    for tree in trees:
        shape = search.shape(tree)
        if isinstance(shape, Line) and shape.slope:
            raise search.refusal()
    return sorted(point for point in found if not math.isnan(point))


@dataclass(frozen=True)
class _Search:
    low: float
    high: float
    what: Callable[[], str]
    found: set[float]

    def shape(self, tree: Tree) -> Shape:
        """Classify an expression as linear or constant by steps, and gather its breakpoints."""
        if not places(tree):
            return self._constant(evaluate(tree, (), call))
        if not isinstance(tree, Call):
            return Line(Fraction(1), _WHOLE)
        shapes = [self.shape(arg) for arg in tree.args]
        moving = [shape for shape in shapes if isinstance(shape, Line) and shape.slope]
        if not moving:
            return "steps"
        if not all(isinstance(shape, Line) for shape in shapes):
            raise self.refusal()
        lines = [shape for shape in shapes if isinstance(shape, Line)]
        if tree.name in _COMPARISONS:
            self._meet(lines)
            if tree.name in ("greatest", "least", "nullif"):
                raise self.refusal()
            return "steps"
        if tree.name in _JUMPS:
            self._jump(tree.name, lines)
            return "steps"
        line = _combined(tree.name, lines)
        if line is None:
            raise self.refusal()
        return line

    def _constant(self, value: Value) -> Shape:
        """A constant as it was written: 0.1 is a tenth, not the double next to it."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return "steps"
        if not math.isfinite(value):
            raise self.refusal()
        return _line(_WHOLE, Fraction(repr(float(value))))

    def _meet(self, lines: list[Line]) -> None:
        """The points where the first line meets any of the others."""
        for other in lines[1:]:
            slope = lines[0].slope - other.slope
            if slope:
                self._add((other.start - lines[0].start) / slope)

    def _add(self, point: Fraction) -> None:
        """Keep a point where it lies in range, so that it is a double."""
        if self.low - 1 <= point <= self.high + 1:
            self.found.add(float(point))

    def _jump(self, name: str, lines: list[Line]) -> None:
        """The points where rounding jumps: where the line passes whole numbers, or halves."""
        line, scale = lines[0], Fraction(1)
        if any(other.slope for other in lines[1:]):
            raise self.refusal()
        if name == "intdiv" and len(lines) > 1:
            if not lines[1].start:
                return
            scale = 1 / lines[1].start
        elif len(lines) > 1:
            scale = Fraction(10) ** min(max(int(lines[1].start), -MOST_DECIMALS), MOST_DECIMALS)
        ends = sorted((line.slope * Fraction(x) + line.start) * scale for x in (self.low, self.high))
        if ends[1] - ends[0] > MOST_POINTS:
            raise QueryError(f"{self.what()} would be told apart into more than {MOST_POINTS:,} pieces; round it more")
        spend(2 * int(ends[1] - ends[0]), "an expression")
        for whole in range(math.floor(ends[0]) - 1, math.ceil(ends[1]) + 2):
            self._add(((whole + _JUMPS[name]) / scale - line.start) / line.slope)

    def refusal(self) -> UnsupportedSQL:
        return UnsupportedSQL(
            f"{self.what()} is known by its bins only, and this is not one value inside a bin; "
            "compare it with constants, or round it by FLOOR(... / 1000)"
        )


def _line(slope: Fraction, start: Fraction) -> Line:
    """Line with numbers of a bounded length, whatever arithmetic made them."""
    return Line(*(_rounded(number) for number in (slope, start)))


def _rounded(number: Fraction) -> Fraction:
    if max(number.numerator.bit_length(), number.denominator.bit_length()) <= _MOST_BITS:
        return number
    bits = number.numerator.bit_length() - number.denominator.bit_length() - 64
    return Fraction(int(number / Fraction(2) ** bits)) * Fraction(2) ** bits


def _combined(name: str, lines: list[Line]) -> Line | None:
    """Apply arithmetic to linear functions of the attribute; None where the result is not linear."""
    first, *others = lines
    if name in ("to_number", "neg") and not others:
        sign = -1 if name == "neg" else 1
        return Line(sign * first.slope, sign * first.start)
    if len(others) != 1:
        return None
    (other,) = others
    if name in ("add", "sub"):
        sign = 1 if name == "add" else -1
        return _line(first.slope + sign * other.slope, first.start + sign * other.start)
    if name == "mul" and not (first.slope and other.slope):
        return _line(first.slope * other.start + first.start * other.slope, first.start * other.start)
    if name == "div" and not other.slope and other.start:
        return _line(first.slope / other.start, first.start / other.start)
    return None


MOST_VALUES = 200_000  # of an attribute, on which an expression is worked out one by one
MOST_CLASSES = 5_000  # of values that a question may tell apart by an expression

_SAID_OF_EITHER = ("like", "ilike", "startswith", "endswith", "contains", "eq", "neq", "in", "between")

Classes = dict[Value, Predicate]


def read_classes(node: exp.Expression, scope: Scope, place: str) -> Classes:
    """The rows for each value of an expression, in the order in which values first appear along the attributes.

    place: where the expression stands, such as GROUP BY, for messages.
    """
    axes: list[Axis] = []

    def leaf(part: Any) -> Tree | None:
        if part.key != "column" or part.this.key == "star":
            return None
        groups = scope.groups_of(part)
        axis = scope.axis_of(part, place) if groups is None else scope.schema.domain[scope.attribute_of(part)]
        if axis not in axes:
            axes.append(axis)
        number = axes.index(axis)
        return Ref(number) if groups is None else Lookup(number, tuple(zip(axis.labels(), groups, strict=True)))

    tree = _of_codes_too(translate(node, leaf, place), [_codes(axis) for axis in axes])
    text = partial(quoted, node)
    slots: dict[tuple[int, Tree], int] = {}  # the parts that look at one attribute only, at which, and their places
    outer = _split(tree, slots)
    along = []
    for number, axis in enumerate(axes):
        trees = [_moved(part) for of, part in slots if of == number]
        along.append(_along(axis, trees, text))
    if np.prod([len(classes) for classes in along], initial=1.0) > MOST_CLASSES:
        fewer = "use fewer attributes in it" if len(axes) > 1 else f"write {axes[0].name} itself, or round it more"
        raise QueryError(f"{text()} tells apart more than {MOST_CLASSES:,} kinds of rows; {fewer}")
    spend(int(np.prod([len(classes) for classes in along], initial=1.0)) * (size(outer) + len(slots)), "an expression")
    order = [[place for place, (of, _) in enumerate(slots) if of == number] for number in range(len(axes))]
    found: dict[Value, dict[tuple[int, ...], list[Span]]] = {}  # spans of the last attribute, by the others' classes
    numbered = [list(enumerate(classes.items())) for classes in along]
    for combination in product(*numbered):
        row: list[Value] = [None] * len(slots)
        for mine, (_, (values, _)) in zip(order, combination, strict=True):
            for slot, value in zip(mine, values, strict=True):
                row[slot] = value
        others, last = tuple(number for number, _ in combination[:-1]), combination[-1:]
        spans = found.setdefault(evaluate(outer, row, call), {}).setdefault(others, [])
        spans += [span for _, (_, each) in last for span in each]
    classes = {value: _boxes(axes, numbered, pieces) for value, pieces in found.items()}
    scope.note_cuts(classes.values(), text)
    return classes


def _boxes(axes: list[Axis], numbered: Any, pieces: dict[tuple[int, ...], list[Span]]) -> Predicate:
    """The rows of one value: for each class of the first attributes, the spans of the last."""
    boxes = []
    for others, spans in pieces.items():
        along = [numbered[place][number][1][1] for place, number in enumerate(others)]
        sets = [*along, spans][: len(axes)]
        boxes.append(Box.of({axis.name: fitted(axis, together(each)) for axis, each in zip(axes, sets, strict=True)}))
    return Predicate(tuple(boxes)) & Predicate.everything()  # which joins what belongs together


def read_truth(node: exp.Expression, scope: Scope) -> Predicate:
    """The rows for which an expression of attributes is true."""
    return _read_outcome(node, scope, True)


def read_falsity(node: exp.Expression, scope: Scope) -> Predicate:
    """The rows for which an expression of attributes is false; it may be neither, where a value is missing."""
    return _read_outcome(node, scope, False)


def _read_outcome(node: exp.Expression, scope: Scope, outcome: bool) -> Predicate:
    classes = read_classes(node, scope, "a condition")
    if outcome and True not in classes:
        _note_unmatched(node, scope)
    if any(not isinstance(value, bool | None) for value in classes):
        raise QueryError(f"{quoted(node)} alone is not a condition; compare it with a value")
    return classes.get(outcome, Predicate.nothing())


def _note_unmatched(node: Any, scope: Scope) -> None:
    """Remember that no value that the schema lists fulfils a condition, so that its zero is not taken for a count."""
    columns = [part for part in node.walk() if part.key == "column"]
    names = list(dict.fromkeys(scope.name_of(column) for column in columns))
    if not names or any(scope.schema.domain[scope.attribute_of(column)].kind != "category" for column in columns):
        return
    pattern = node.args.get("expression") if node.key in ("like", "ilike") and node.this.key == "column" else None
    listed = f"no listed value of {' and '.join(names)}"
    scope.unmatched.append(
        f"{listed} fulfils {quoted(node)}" if pattern is None else f"{listed} matches {quoted(pattern)}"
    )


def _codes(axis: Axis) -> tuple[tuple[Value, Value], ...]:
    """The table's codes for the labels of a category; none where the labels are the table's own values."""
    pairs = list(zip(axis.values, axis.codes, strict=False))
    return tuple(pairs) if any(str(label) != code for label, code in pairs) else ()


def _of_codes_too(tree: Tree, codes: list[tuple[tuple[Value, Value], ...]]) -> Tree:
    """Extend comparisons with a label: they hold if they hold of the label or of its code."""
    if not isinstance(tree, Call) or not any(codes[place] for place in tree.places):
        return tree
    if tree.name in _SAID_OF_EITHER:
        other = _by_code(tree, codes)
        return Call("and" if tree.name == "neq" else "or", (tree, other))
    return Call(tree.name, tuple(_of_codes_too(arg, codes) for arg in tree.args))


def _by_code(tree: Tree, codes: list[tuple[tuple[Value, Value], ...]]) -> Tree:
    if isinstance(tree, Ref) and codes[tree.place]:
        return Lookup(tree.place, codes[tree.place])
    return tree if not isinstance(tree, Call) else Call(tree.name, tuple(_by_code(arg, codes) for arg in tree.args))


def _split(tree: Tree, slots: dict[tuple[int, Tree], int]) -> Tree:
    """Factor an expression into parts that depend on one attribute each."""
    looked_at = places(tree)
    if len(looked_at) == 1:
        return Ref(slots.setdefault((next(iter(looked_at)), tree), len(slots)))
    if not looked_at or not isinstance(tree, Call):
        return tree
    return Call(tree.name, tuple(_split(arg, slots) for arg in tree.args))


def _moved(tree: Tree) -> Tree:
    """Rewrite a part of an expression for rows that hold one attribute only, at place 0."""
    if isinstance(tree, Ref | Lookup):
        return replace(tree, place=0)
    return tree if not isinstance(tree, Call) else Call(tree.name, tuple(_moved(arg) for arg in tree.args))


def _along(axis: Axis, trees: list[Tree], text: Callable[[], str]) -> dict[tuple[Value, ...], list[Span]]:
    """Classes of the values of one attribute: the spans of values on which all the trees agree."""
    found: dict[tuple[Value, ...], list[Span]] = {}
    if len(trees) == 1 and isinstance(trees[0], Lookup) and axis.kind == "category" and not axis.missing:
        return _looked_up(trees[0])
    values = _values(axis, trees, text)
    spend(len(values) * (2 + sum(map(size, trees))), f"an expression of {axis.name}")
    for span, value in values:
        spans = found.setdefault(tuple(evaluate(tree, (value,), call) for tree in trees), [])
        if spans and spans[-1][1] == span[0]:
            spans[-1] = (spans[-1][0], span[1])
        else:
            spans.append(span)
    return found


def _looked_up(column: Lookup) -> dict[tuple[Value, ...], list[Span]]:
    """Classes of the values of a category by a column of groups, which lists all values in order."""
    groups = [group for _, group in column.table]
    starts = [place for place in range(len(groups)) if not place or groups[place] != groups[place - 1]]
    spend(len(starts), "a column of groups")
    found: dict[tuple[Value, ...], list[Span]] = {}
    for start, end in pairwise((*starts, len(groups))):
        found.setdefault((groups[start],), []).append(((float(start), 0), (float(end), 0)))
    return found


def _values(axis: Axis, trees: list[Tree], text: Callable[[], str]) -> list[tuple[Span, Value]]:
    """Spans of values, in order, with one value of each that stands for it; rows without a value come last."""
    missing: list[tuple[Span, Value]] = [((NO_VALUE, END), None)] if axis.missing else []
    return _present(axis, trees, text) + missing


def _present(axis: Axis, trees: list[Tree], text: Callable[[], str]) -> list[tuple[Span, Value]]:
    low, high = float(axis.edges[0]), float(axis.edges[-1])
    if axis.timed:
        return [(axis.values_in(cell).spans[0], _hour(float(axis.edges[cell]))) for cell in range(axis.places)]
    if not axis.discrete:
        points = [
            point for point in breakpoints(trees, low, high, lambda: f"{text()}: {axis.name}") if low <= point <= high
        ]
        ends = [(low, 0), *((point, after) for point in points for after in (0, 1)), (high, 1)]
        pairs = [(a, b) for a, b in pairwise(ends) if a < b]
        return [((a, b), (a[0] + b[0]) / 2) for a, b in pairs]
    if high - low > MOST_VALUES:
        raise QueryError(
            f"{text()}: {axis.name} has more than {MOST_VALUES:,} values; compare it with constants instead"
        )
    return [(((number, 0), (number + 1.0, 0)), _value(axis, number)) for number in np.arange(low, high).tolist()]


def _value(axis: Axis, number: float) -> Value:
    """Value of an attribute by its number: index of a listed value, days since 1970, or the integer itself."""
    if axis.values:
        return axis.values[int(number)]
    return EPOCH.fromordinal(EPOCH.toordinal() + int(number)) if axis.kind == "date" else int(number)


def _hour(days: float) -> datetime:
    """Midpoint of an hour that starts `days` days after 1970-01-01; it compares with full hours as the hour does."""
    return datetime(EPOCH.year, EPOCH.month, EPOCH.day) + timedelta(hours=round(days * 24), minutes=30)


def cell_classes(axis: Axis) -> Classes:
    """The rows of each cell of one attribute, by label."""
    return {
        axis.label(cell): Predicate.where(axis.name, fitted(axis, axis.values_in(cell))) for cell in range(axis.size)
    }
