"""Where an expression of a real-valued attribute can change its value.

Inside a bin there are more values than can be tried, so the expression must be made of steps: comparisons with
constants, and FLOOR, CEIL, ROUND or CAST of something linear. Between two of the points found here it is constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

from sfumato.effort import spend
from sfumato.errors import QueryError, UnsupportedSQL
from sfumato.frozen import dataclass
from sfumato.sql.values.functions import MOST_DECIMALS, call
from sfumato.sql.values.tree import Call, Tree, evaluate, places

MOST_POINTS = 10_000

_COMPARISONS = ("eq", "neq", "lt", "lte", "gt", "gte", "between", "in", "nullif", "greatest", "least")
_JUMPS = {"floor": 0.0, "ceil": 0.0, "trunc": 0.0, "round": 0.5, "to_integer": 0.5, "intdiv": 0.0}


@dataclass(frozen=True)
class Line:
    """slope * x + start."""

    slope: float
    start: float


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
        """What kind of function of the attribute an expression is; its points are gathered on the way."""
        if not places(tree):
            value = evaluate(tree, (), call)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return Line(0.0, float(value)) if number else "steps"
        if not isinstance(tree, Call):
            return Line(1.0, 0.0)
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

    def _meet(self, lines: list[Line]) -> None:
        """The points where the first line meets any of the others."""
        for other in lines[1:]:
            slope = lines[0].slope - other.slope
            if slope:
                self.found.add((other.start - lines[0].start) / slope)

    def _jump(self, name: str, lines: list[Line]) -> None:
        """The points where rounding jumps: where the line passes whole numbers, or halves."""
        line, scale = lines[0], 1.0
        if any(other.slope for other in lines[1:]):
            raise self.refusal()
        if name == "intdiv" and len(lines) > 1:
            scale = 1.0 / lines[1].start if lines[1].start else math.nan
        elif len(lines) > 1:
            scale = 10.0 ** min(max(lines[1].start, -MOST_DECIMALS), MOST_DECIMALS)
        ends = sorted((line.slope * x + line.start) * scale for x in (self.low, self.high))
        if not all(map(math.isfinite, ends)) or ends[1] - ends[0] > MOST_POINTS:
            raise QueryError(f"{self.what()} would be told apart into more than {MOST_POINTS:,} pieces; round it more")
        spend(2 * int(ends[1] - ends[0]), "an expression")
        for whole in range(math.floor(ends[0]) - 1, math.ceil(ends[1]) + 2):
            self.found.add(((whole + _JUMPS[name]) / scale - line.start) / line.slope)

    def refusal(self) -> UnsupportedSQL:
        return UnsupportedSQL(
            f"{self.what()} is known by its bins only, and this is not one value inside a bin; "
            "compare it with constants, or round it by FLOOR(... / 1000)"
        )


def _combined(name: str, lines: list[Line]) -> Line | None:
    """Arithmetic of lines, where it gives a line again."""
    first, *others = lines
    if name in ("to_number", "neg") and not others:
        sign = -1.0 if name == "neg" else 1.0
        return Line(sign * first.slope, sign * first.start)
    if len(others) != 1:
        return None
    (other,) = others
    if name in ("add", "sub"):
        sign = 1.0 if name == "add" else -1.0
        return Line(first.slope + sign * other.slope, first.start + sign * other.start)
    if name == "mul" and not (first.slope and other.slope):
        return Line(first.slope * other.start + first.start * other.slope, first.start * other.start)
    if name == "div" and not other.slope and other.start:
        return Line(first.slope / other.start, first.start / other.start)
    return None
