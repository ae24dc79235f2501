"""Halfspaces: a net of canonical ones over a public grid, and conditions of SQL that are halfspaces.

Net (Blum, Ligett, Roth; Survey 4.3): random projections of the grid, a net of directions in each, and offsets. All of
it follows from the schema and a public seed. Points are the middles of cells, scaled so that every attribute runs from
-1 to 1.

SQL: a linear comparison of attributes is read as weights, SELECT COUNT(*) FROM t WHERE 3 * age - 2 * income > 10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import shake_256
from math import pi, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.predicates import check_clauses, table_scope
from sfumato.sql.reading import compiling, parse
from sfumato.sql.scope import Scope, bare, quoted
from sfumato.sql.scope import number as constant

if TYPE_CHECKING:
    from sqlglot import exp


SPREAD = 12  # candidates for each direction of a net, of which those far apart are kept
MOST_TRIED = 2**14  # cells that stand for all where a share of the grid is worked out
PROBES = 2000  # directions on which the width of a net is tried


def public_numbers(seed: int, purpose: str, count: int) -> Floats:
    """Pseudo-random numbers in [0, 1) from a public seed."""
    raw = shake_256(f"{purpose} of seed {seed}".encode()).digest(8 * count)
    whole = np.frombuffer(raw, dtype="<u8") >> np.uint64(11)
    return (whole.astype(np.float64) + 0.5) / 2.0**53


def directions_at_random(seed: int, purpose: str, count: int, dimensions: int) -> Floats:
    """Unit vectors, evenly over the sphere."""
    first, second = public_numbers(seed, purpose, 2 * count * dimensions).reshape(2, count, dimensions)
    found = np.sqrt(-2.0 * np.log(first)) * np.cos(2.0 * pi * second)
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))


def spread_directions(seed: int, count: int, dimensions: int) -> Floats:
    """Net of directions up to sign: the axes, then greedily the candidate farthest from all others (farthest point)."""
    if dimensions == 1:
        return np.ones((1, 1))
    if dimensions == 2:
        angles = np.arange(count) * pi / count
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    candidates = directions_at_random(seed, "net", SPREAD * count, dimensions)
    kept = [*np.eye(dimensions)][:count]
    nearest = np.abs(candidates @ np.array(kept).T).max(axis=1)
    while len(kept) < count:
        farthest = int(nearest.argmin())
        kept.append(candidates[farthest])
        nearest = np.maximum(nearest, np.abs(candidates @ candidates[farthest]))
    return np.array(kept)


@dataclass(frozen=True, eq=False)
class Net:
    """The canonical halfspaces over some axes.

    projections: how many; dimensions: of each. Where there are no more axes than that, nothing is projected.
    directions: in each. offsets: of the bins that each direction is cut into.
    """

    axes: tuple[Axis, ...]
    projections: int
    dimensions: int
    directions: int
    offsets: int
    seed: int

    @property
    def plain(self) -> bool:
        """Whether points are used without projection."""
        return self.dimensions >= len(self.axes)

    @cached_property
    def matrices(self) -> Floats:
        """Random projection matrices: entries +-1 over the root of the dimensions."""
        width = len(self.axes)
        if self.plain:
            return np.eye(width)[None]
        signs = public_numbers(self.seed, "projections", self.projections * width * self.dimensions) < 0.5
        entries = np.where(signs, 1.0, -1.0).reshape(self.projections, width, self.dimensions)
        return np.asarray(entries / np.sqrt(self.dimensions))

    @cached_property
    def canonical(self) -> Floats:
        """Canonical directions within a projection, (directions, dimensions)."""
        return spread_directions(self.seed, self.directions, min(self.dimensions, len(self.axes)))

    @cached_property
    def vectors(self) -> Floats:
        """Canonical directions in attribute space, by projection."""
        return np.asarray(np.einsum("pak,dk->pda", self.matrices, self.canonical))

    @cached_property
    def reaches(self) -> Floats:
        """Bound on |coordinate| of all points along each canonical direction."""
        farthest = np.array([np.abs(scaled_middles(axis)).max() for axis in self.axes])
        return np.asarray(np.abs(self.vectors) @ farthest + 1e-9)

    @property
    def halfspaces(self) -> int:
        """Number of canonical halfspaces."""
        return prod(self.vectors.shape[:2]) * (self.offsets - 1)

    @cached_property
    def angle(self) -> float:
        """Largest angle between a direction and the nearest canonical one, in radians."""
        dimensions = self.canonical.shape[1]
        if dimensions <= 2:
            return 0.0 if dimensions == 1 else pi / (2 * len(self.canonical))
        probes = directions_at_random(self.seed, "probes", PROBES, dimensions)
        return float(np.arccos(np.abs(probes @ self.canonical.T).max(axis=1).min().clip(0, 1)))

    def bins(self, points: Floats, projection: int, direction: int) -> Codes:
        """Bin of every point along a canonical direction."""
        reach = self.reaches[projection, direction]
        along = (points @ self.vectors[projection, direction] + reach) * (self.offsets / (2.0 * reach))
        return np.asarray(np.clip(along.astype(np.int64), 0, self.offsets - 1))

    def nearest(self, direction: Floats) -> list[int]:
        """Nearest canonical direction, up to sign, in each projection."""
        return [int(np.abs(self.canonical @ (direction @ matrix)).argmax()) for matrix in self.matrices]

    def inside(self, direction: Floats, offset: float) -> list[tuple[int, Floats]]:
        """Canonical direction that answers for a halfspace in each projection, and the share of each bin inside.

        A bin counts by the share of its points: all or nothing but near the line.
        """
        points, found = self.some_points, []
        held = (points @ direction > offset).astype(np.float64)
        for number, place in enumerate(self.nearest(direction)):
            bins = self.bins(points, number, place)
            there = np.bincount(bins, minlength=self.offsets)
            share = np.bincount(bins, held, minlength=self.offsets) / np.maximum(there, 1)
            rising = float(direction @ self.vectors[number, place]) > 0
            bare: list[int] = np.flatnonzero(there == 0).tolist()  # no point there: like the bin before it
            for empty in bare if rising else bare[::-1]:
                before = empty - 1 if rising else empty + 1
                share[empty] = share[before] if 0 <= before < self.offsets else 0.0
            found.append((place, share))
        return found

    @cached_property
    def some_points(self) -> Floats:
        """Points of the grid, subsampled where there are too many."""
        sizes = [axis.places for axis in self.axes]
        if (cells := prod(sizes)) <= MOST_TRIED:
            return grid_points(self.axes, np.arange(cells))
        chosen = public_numbers(self.seed, "points", MOST_TRIED * len(sizes)).reshape(len(sizes), MOST_TRIED)
        codes = [(each * size).astype(np.int64) for each, size in zip(chosen, sizes, strict=True)]
        return np.stack([scaled_middles(axis)[code] for axis, code in zip(self.axes, codes, strict=True)], axis=1)


def scaled_middles(axis: Axis) -> Floats:
    """Midpoint of every cell with values, scaled to [-1, 1]."""
    low, high = float(axis.edges[0]), float(axis.edges[-1])
    whole = 1.0 if axis.discrete else 0.0
    middles = (axis.edges[:-1] + axis.edges[1:] - whole) / 2.0
    return np.asarray((2.0 * middles - low - (high - whole)) / max(high - whole - low, 1e-300))


def grid_points(axes: Sequence[Axis], cells: Codes) -> Floats:
    """Scaled points of cells given by flat index, (cells, axes); the last axis runs fastest."""
    places = np.unravel_index(cells, [axis.places for axis in axes])
    return np.stack([scaled_middles(axis)[place] for axis, place in zip(axes, places, strict=True)], axis=1)


def scaled(axes: Sequence[Axis], weights: Sequence[float], threshold: float) -> tuple[Floats, float]:
    """Unit direction and offset, in scaled coordinates, of the condition weights * values > threshold."""
    spans = [(float(axis.edges[0]), float(axis.edges[-1]) - (1.0 if axis.discrete else 0.0)) for axis in axes]
    halves = np.array([max(high - low, 1e-300) / 2.0 for low, high in spans])
    middles = np.array([(low + high) / 2.0 for low, high in spans])
    along = np.asarray(weights, dtype=np.float64)
    direction, offset = along * halves, threshold - float(along @ middles)
    length = float(np.linalg.norm(direction))
    return direction / length, offset / length


def questions_to_try(net: Net, count: int) -> list[tuple[Floats, float]]:
    """Random test halfspaces (direction, offset) through points of the grid, on one attribute up to all."""
    width = len(net.axes)
    directions = directions_at_random(net.seed, "tests", count, width)
    some = public_numbers(net.seed, "attributes of tests", count * width).reshape(count, width)
    through = (public_numbers(net.seed, "places of tests", count) * len(net.some_points)).astype(np.int64)
    found = []
    for number in range(count):
        kept = np.argsort(some[number])[: 1 + number % width]
        direction = np.zeros(width)
        direction[kept] = directions[number, kept]
        direction /= np.linalg.norm(direction)
        # A hair below the point, so that it lies inside.
        found.append((direction, float(net.some_points[through[number]] @ direction) - 1e-9))
    return found


WRITE = "write SELECT COUNT(*) FROM {table} WHERE 3 * a - 2 * b > 10, with attributes that are numbers"
_TURNED = {"lt", "lte"}


@dataclass(frozen=True)
class Halfspace:
    """The rows for which the weighted sum of some attributes is above a threshold; name: of the column.

    closed: whether rows on the threshold itself count too. No weights: all rows.
    """

    weights: Mapping[str, float]
    threshold: float
    closed: bool = False
    name: str = "count"


def read_halfspace(text: str, schema: Schema) -> Halfspace:
    """Parse a statement as a halfspace; if it is none, refuse with how to write one."""
    with compiling():
        return _read(parse(text, schema=schema), schema)


def _read(tree: exp.Expression, schema: Schema) -> Halfspace:
    if tree.key != "select" or len(tree.expressions) != 1:
        raise _refusal(schema)
    check_clauses(tree, ("expressions", "from", "where"))
    scope = table_scope(tree, schema)
    counted = bare(tree.expressions[0].unalias())
    if counted.key != "count" or counted.this is None or counted.this.key != "star":
        raise _refusal(schema)
    name, clause = tree.expressions[0].alias or "count", tree.args.get("where")
    if clause is None:
        return Halfspace({}, -1.0, name=name)
    node = bare(clause.this)
    if node.key not in ("gt", "gte", "lt", "lte"):
        raise _refusal(schema)
    left, right = _sum(node.this, scope), _sum(node.args["expression"], scope)
    sign = -1.0 if node.key in _TURNED else 1.0
    weights = {key: sign * (left.get(key, 0.0) - right.get(key, 0.0)) for key in {**left, **right} if key}
    weights = {key: weight for key, weight in weights.items() if weight}
    if not weights:
        raise QueryError(f"{quoted(node)} compares no attribute; {WRITE.format(table=schema.dataset)}")
    threshold = sign * (right.get("", 0.0) - left.get("", 0.0))
    return Halfspace(weights, threshold, node.key in ("gte", "lte"), name)


def _sum(node: Any, scope: Scope) -> dict[str, float]:
    """Weights by attribute of a linear expression; its constant term is under the key ""."""
    node = bare(node)
    if (value := constant(node)) is not None:
        return {"": value}
    if node.key == "column":
        return {scope.axis_of(node, "a linear condition").name: 1.0}
    if node.key == "neg":
        return {key: -weight for key, weight in _sum(node.this, scope).items()}
    if node.key in ("add", "sub"):
        left, right = _sum(node.this, scope), _sum(node.args["expression"], scope)
        sign = 1.0 if node.key == "add" else -1.0
        return {key: left.get(key, 0.0) + sign * right.get(key, 0.0) for key in {**left, **right}}
    if node.key in ("mul", "div"):
        first, second = bare(node.this), bare(node.args["expression"])
        if node.key == "mul" and constant(first) is not None:
            first, second = second, first
        factor = constant(second)
        if factor is not None and (node.key == "mul" or factor):
            scale = factor if node.key == "mul" else 1.0 / factor
            return {key: weight * scale for key, weight in _sum(first, scope).items()}
    raise QueryError(
        f"{quoted(node)} is no sum of attributes times numbers; {WRITE.format(table=scope.schema.dataset)}"
    )


def _refusal(schema: Schema) -> QueryError:
    return QueryError(f"this release counts rows on one side of a line; {WRITE.format(table=schema.dataset)}")
