"""Simplify outlines of areas so that neighbours keep touching: snapping to a grid, then line simplification.

Corners are rounded to a grid over all areas, so that a corner which two areas share stays one. Borders are then cut
into lines where more than two of them meet, and every line is simplified once, for both of its sides, by effective area
(Visvalingam and Whyatt 1993): the corner that spans the least triangle with its neighbours goes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import cos, floor, hypot, inf, log10, radians
from typing import TypeAlias

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass

Point: TypeAlias = tuple[int, int]
Ring: TypeAlias = list[Point]  # corners on the grid; the first is not repeated
Shape: TypeAlias = list[list[Ring]]  # polygons, each an outer ring and its holes
Outline: TypeAlias = Sequence[Sequence[Floats]]  # the same before: corners as rows of two coordinates

STEPS, FEWEST_STEPS = 2_000, 125  # of the grid along the longer side
MOST_POINTS, POINTS_OF_AREA = 20_000, 10  # corners that are kept of all areas, and for each area besides
SQUARES = 250  # along the longer side: how small the square is that an area becomes which would vanish


@dataclass(frozen=True)
class Grid:
    """Grid over a plane, counted from its south-west corner. aspect: length of a step of x beside one of y.

    >>> grid = Grid.over((5.0, 47.0), (15.0, 55.0), 1000)
    >>> grid.aspect, grid.size, grid.place((10, 10))
    (0.6293203910498375, (787, 1000), (5.1271, 47.08))
    """

    west: float
    south: float
    step: float  # of y
    aspect: float
    size: Point

    @classmethod
    def over(cls, low: tuple[float, float], high: tuple[float, float], steps: int) -> Grid:
        """Grid over a bounding box; longitudes are shortened as they are at its middle latitude."""
        degrees = low[0] >= -180 and high[0] <= 180 and low[1] >= -90 and high[1] <= 90
        aspect = max(0.01, cos(radians((low[1] + high[1]) / 2))) if degrees else 1.0
        wide, tall = (high[0] - low[0]) * aspect, high[1] - low[1]
        step = max(wide, tall) / steps or 1.0
        return cls(low[0], low[1], step, aspect, (round(wide / step), round(tall / step)))

    def snap(self, corners: Floats) -> Ring:
        """The nearest points of the grid."""
        origin, steps = (self.west, self.south), (self.step / self.aspect, self.step)
        found = np.rint((corners - origin) / steps).astype(np.int64)
        return [(x, y) for x, y in found.tolist()]

    def place(self, point: Point) -> tuple[float, float]:
        """Coordinates of a point, with no more digits than the grid needs."""
        digits = max(0, 1 - floor(log10(self.step)))
        x, y = self.west + point[0] * self.step / self.aspect, self.south + point[1] * self.step
        return round(x, digits), round(y, digits)


def simplified(outlines: Sequence[Outline]) -> tuple[Grid, list[Shape]]:
    """Outlines on the finest grid on which their corners are few enough; every area keeps a polygon."""
    corners = [ring for outline in outlines for polygon in outline for ring in polygon]
    low = np.min([ring.min(axis=0) for ring in corners], axis=0)
    high = np.max([ring.max(axis=0) for ring in corners], axis=0)
    box = (float(low[0]), float(low[1])), (float(high[0]), float(high[1]))
    most, steps = MOST_POINTS + POINTS_OF_AREA * len(outlines), STEPS
    while True:
        grid = Grid.over(*box, steps)
        shapes = _thinned([_snapped(outline, grid) for outline in outlines], most)
        if steps <= FEWEST_STEPS or _points(shapes) <= most:
            side = max(1, steps // SQUARES)
            return grid, [
                shape or [[_square(outline, grid, side)]] for shape, outline in zip(shapes, outlines, strict=True)
            ]
        steps //= 2


def _points(shapes: Iterable[Shape]) -> int:
    return sum(len(ring) for shape in shapes for polygon in shape for ring in polygon)


def _snapped(outline: Outline, grid: Grid) -> Shape:
    """Polygons of an area on the grid, without those that collapse there."""
    found = []
    for polygon in outline:
        outer, *holes = [_cleaned(grid.snap(ring)) for ring in polygon]
        if twice_area(outer):
            found.append([outer, *(hole for hole in holes if twice_area(hole))])
    return found


def _cleaned(corners: Ring) -> Ring:
    """Ring without repeated corners and without spikes, which go to a corner and back."""
    found: Ring = []
    for corner in corners:
        if found and found[-1] == corner:
            continue
        if len(found) > 1 and found[-2] == corner:
            found.pop()
            continue
        found.append(corner)
    while len(found) > 1:  # the same where the end meets the beginning
        if found[-1] == found[0] or (len(found) > 2 and found[-2] == found[0]):
            found.pop()
        elif len(found) > 2 and found[1] == found[-1]:
            found.pop(0)
        else:
            break
    return found


def twice_area(ring: Sequence[Point]) -> int:
    """Twice the area inside of a ring.

    >>> twice_area([(0, 0), (2, 0), (2, 2), (0, 2)])
    8
    """
    turned = zip(ring, [*ring[1:], *ring[:1]], strict=True)
    return abs(sum(x * down - across * y for (x, y), (across, down) in turned))


def _square(outline: Outline, grid: Grid, side: int) -> Ring:
    """Square in place of an area too small for the grid, at its largest polygon."""
    largest = max((polygon[0] for polygon in outline), key=lambda ring: hypot(*np.ptp(ring, axis=0)))
    ((x, y),) = grid.snap(np.array([(largest.min(axis=0) + largest.max(axis=0)) / 2]))
    x, y = x - side // 2, y - side // 2
    return [(x, y), (x + side, y), (x + side, y + side), (x, y + side)]


# -- lines between areas

Line: TypeAlias = tuple[Point, ...]  # from one meeting of lines to the next, written in one direction of the two


def _thinned(shapes: Sequence[Shape], most: int) -> list[Shape]:
    """Thin shapes to at most so many corners, if possible, by removing those of least effective area."""
    meeting = _meetings(ring for shape in shapes for polygon in shape for ring in polygon)
    cut = [[[_lines(ring, meeting) for ring in polygon] for polygon in shape] for shape in shapes]
    used: dict[Line, int] = {}
    for line, _ in (one for shape in cut for polygon in shape for ring in polygon for one in ring):
        used[line] = used.get(line, 0) + 1
    weights = {line: effective_areas(line) for line in used}
    least = _threshold(weights, used, most)
    kept = {
        line: [corner for corner, weight in zip(line, weights[line], strict=True) if weight > least] for line in used
    }
    found = []
    for shape in cut:
        polygons = [[_joined(ring, kept) for ring in polygon] for polygon in shape]
        found.append(
            [[outer, *filter(twice_area, holes)] for outer, *holes in polygons if len(outer) > 2 and twice_area(outer)]
        )
    return found


def _meetings(rings: Iterable[Ring]) -> set[Point]:
    """Junctions: corners where other than two border lines meet."""
    near: dict[Point, set[Point]] = {}
    for ring in rings:
        for corner, other in zip(ring, [*ring[1:], ring[0]], strict=True):
            near.setdefault(corner, set()).add(other)
            near.setdefault(other, set()).add(corner)
    return {corner for corner, others in near.items() if len(others) != 2}


def _lines(ring: Ring, meeting: set[Point]) -> list[tuple[Line, bool]]:
    """Cut a ring into lines; each with whether the ring runs through it backwards."""
    cuts = [place for place, corner in enumerate(ring) if corner in meeting] or [ring.index(min(ring))]
    turned = ring[cuts[0] :] + ring[: cuts[0] + 1]
    found = []
    for start, end in pairwise([*(cut - cuts[0] for cut in cuts), len(ring)]):
        line = tuple(turned[start : end + 1])
        back = line[::-1]
        found.append((line, False) if line <= back else (back, True))
    return found


def _joined(lines: Sequence[tuple[Line, bool]], kept: dict[Line, Ring]) -> Ring:
    found: Ring = []
    for line, back in lines:
        found += (kept[line][::-1] if back else kept[line])[:-1]
    return found


def effective_areas(line: Line) -> list[float]:
    """Twice the area of the triangle that each corner spans at its removal; infinite for kept corners.

    >>> effective_areas(((0, 0), (1, 0), (2, 0), (3, 3)))
    [inf, 0.0, 6, inf]
    """
    size, least = len(line), 2 if line[0] == line[-1] else 0  # a ring stays a triangle
    before, after = list(range(-1, size - 1)), list(range(1, size + 1))
    spans: list[float] = [inf, *(_span(line, at - 1, at, at + 1) for at in range(1, size - 1)), inf]
    heap = [(spans[at], at) for at in range(1, size - 1)]
    heapify(heap)
    found, reached, left = [inf] * size, 0.0, size - 2
    while heap and left > least:
        span, at = heappop(heap)
        if span != spans[at] or found[at] != inf:
            continue
        reached = max(reached, span)
        found[at], left = reached, left - 1
        one, other = before[at], after[at]
        after[one], before[other] = other, one
        for beside in (one, other):
            if 0 < beside < size - 1:
                spans[beside] = _span(line, before[beside], beside, after[beside])
                heappush(heap, (spans[beside], beside))
    return found


def _span(line: Line, first: int, middle: int, last: int) -> int:
    return twice_area((line[first], line[middle], line[last]))


def _threshold(weights: dict[Line, list[float]], used: dict[Line, int], most: int) -> float:
    """Threshold of effective area that leaves few enough corners; 0 removes only those on straight lines."""
    pairs = [(weight, used[line]) for line, listed in weights.items() for weight in listed[:-1]]
    pairs.sort(reverse=True)
    kept = 0
    for weight, uses in pairs:
        kept += uses
        if kept > most and weight < inf:
            return weight
    return 0.0
