"""Least squares reduced to equivalence classes of cells, for a query that distinguishes few of them.

The GLS solution is constant on the classes of classes.py, so it is solved with one unknown per class: for one value
among a hundred, measured in a tree, four or five in place of a hundred; for all values of an attribute mostly one. The
result is exact.
"""

from __future__ import annotations

from math import prod

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.least_squares.base import LeastSquares
from sfumato.least_squares.classes import Along, Way, digest, narrow, noise_classes, refined, unmerged
from sfumato.least_squares.families import least_squares
from sfumato.least_squares.gram import kind
from sfumato.measurement import Design
from sfumato.queries import Haar, Identity, Kron, NominalHaar, Queries, Stack, Total, Tree

MOST_MERGED = 2**9  # classes of cells in all, where they are solved for at once
MOST_BY_AXES = 2**17  # and where they are solved for axis by axis
HARDLY = 2  # times fewer classes than cells: with less, queries that are solved quickly are left as they are
WORTH = 4  # times fewer classes than cells: beyond MOST_MERGED, what merging has to gain
QUICK = (Tree, Identity, Total, Haar, NominalHaar)
MOST_KEPT = 2**23  # weights of noises that are remembered


@dataclass(frozen=True, eq=False)
class Weighed:
    """Noise weights of sums by class of rows.

    weights: (row classes, sums). counts: rows per class. known: whether a sum is estimable, (sums,).
    """

    design: Design
    weights: Floats
    counts: Codes
    known: Flags


class Merged:
    """Design whose blocks are Kronecker products over several axes, with cached reductions."""

    def __init__(self, design: Design, shape: tuple[int, ...], blocks: list[tuple[Queries, ...]]) -> None:
        self._design, self.shape, self._blocks = design, shape, blocks
        ends = np.cumsum([prod(factor.rows for factor in factors) for factors in blocks])[:-1]
        which = np.zeros(design.queries.rows, dtype=np.int64) if design.which is None else design.which
        parts = np.split(narrow(which), ends)
        self._which = [p.reshape([f.rows for f in factors]) for p, factors in zip(parts, blocks, strict=True)]
        self._along: dict[tuple[int, bytes], Along | None] = {}
        self._solvers: dict[tuple[bytes, ...], tuple[Design, Codes, LeastSquares]] = {}
        self._solved: dict[tuple[bytes, ...], Weighed] = {}
        self._listed: dict[int, list[Way]] = {}

    @classmethod
    def of(cls, design: Design, shape: tuple[int, ...]) -> Merged | None:
        """Reduction of a design; None where its queries are no products over the axes, or not integral."""
        queries, blocks = design.queries, []
        for block in queries.blocks if isinstance(queries, Stack) and len(shape) > 1 else (queries,):
            factors = block.factors if type(block) is Kron else (block,)
            if tuple(factor.columns for factor in factors) != shape or not block.integral:
                return None
            blocks.append(tuple(factors))
        return cls(design, shape, blocks)

    def along(self, place: int, told: Codes) -> Along | None:
        """Classes along an axis; told: initial class of each cell by the query, (cells,). None: too many classes.

        All cells may be their own class along an axis with a quick closed form.
        """
        key = place, digest(told)
        if key not in self._along:
            ways = self._ways(place)
            quick = len(self._blocks) == 1 and isinstance(ways[0].factor, QUICK)
            classes = refined(ways, told)
            if quick and (classes is None or len(classes.first) > self.shape[place] // HARDLY):
                classes = unmerged(ways, place)
            self._along[key] = classes
        return self._along[key]

    def too_many(self, axes: list[Along]) -> bool:
        """Whether the classes of all axes are more than are solved for."""
        merged = prod(len(axis.first) for axis in axes)
        if len(self._blocks) > 1 or merged <= MOST_MERGED:
            return merged > MOST_MERGED
        return merged > min(MOST_BY_AXES, prod(self.shape) // WORTH)

    def errors(self, axes: list[Along], columns: Floats) -> Weighed:
        """Noise weights of sums of cells; columns: weight of each class of cells, (classes of all axes, sums)."""
        same = tuple(axis.key for axis in axes)
        key = (*same, repr(columns.shape).encode(), digest(columns))
        if key not in self._solved:
            if same not in self._solvers:
                self._solvers[same] = self._smaller(axes)
            design, counts, solver = self._solvers[same]
            volumes = np.ones(1)
            for axis in axes:
                volumes = (volumes[:, None] * axis.cells).reshape(-1)
            solved, estimable = solver.solve(columns * volumes[:, None])
            weights = np.asarray(design.queries @ solved) / design.sizes[:, None]
            if sum(kept.weights.size for kept in self._solved.values()) + weights.size > MOST_KEPT:
                self._solved.clear()
            self._solved[key] = Weighed(design, weights, counts, estimable)
        return self._solved[key]

    def _smaller(self, axes: list[Along]) -> tuple[Design, Codes, LeastSquares]:
        """Reduced design with one row per class of rows, rows per class, and its solver."""
        blocks, which, counts = [], [], []
        for number, kinds in enumerate(self._which):
            blocks.append(Kron(*(axis.asked[number] for axis in axes)))
            which.append(kinds[np.ix_(*(axis.rows[number] for axis in axes))].reshape(-1))
            many = np.ones(1, dtype=np.int64)
            for axis in axes:
                many = (many[:, None] * axis.many[number]).reshape(-1)
            counts.append(many)
        queries = blocks[0] if len(blocks) == 1 else Stack(*blocks)
        design, many = Design(queries, self._design.noises, np.concatenate(which)), np.concatenate(counts)
        return design, many, least_squares(queries, design.sizes / many)

    def _ways(self, place: int) -> list[Way]:
        """Distinct pairs of queries and noise classes along an axis, with the blocks that have them."""
        if place not in self._listed:
            ways: dict[tuple[object, bytes], Way] = {}
            for number, factors in enumerate(self._blocks):
                noises = self._noises(number, place)
                way = ways.setdefault((kind(factors[place]), noises.tobytes()), Way(factors[place], noises, set()))
                way.blocks.add(number)
            self._listed[place] = list(ways.values())
        return self._listed[place]

    def _noises(self, number: int, place: int) -> Codes:
        """Noise classes of a block's rows along an axis."""
        return noise_classes(self._which[number], place)
