"""Least squares for a question that tells few cells apart: those that count alike are taken together.

The solution is the same on all cells of a class (least_squares/classes.py), so it is found with one number for each
class instead of each cell: for one value among a hundred, measured in a tree, four or five instead of a hundred, and
for all values of an attribute mostly one. What comes out is exact.
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
    """With which weight the noise of each class of rows enters each sum, and how many rows a class has."""

    design: Design
    weights: Floats
    counts: Codes
    known: Flags


class Merged:
    """A design over several axes, as products along them."""

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
        """None where the queries are no products along the axes, or not of whole numbers."""
        queries, found = design.queries, []
        for block in queries.blocks if isinstance(queries, Stack) and len(shape) > 1 else (queries,):
            factors = block.factors if type(block) is Kron else (block,)
            if tuple(factor.columns for factor in factors) != shape or not block.integral:
                return None
            found.append(tuple(factors))
        return cls(design, shape, found)

    def along(self, place: int, told: Codes) -> Along | None:
        """The classes along an axis. told: by which number a question tells each cell from others; None: too many.

        All cells may be told apart along an axis whose queries are solved as quickly as they are asked.
        """
        key = place, digest(told)
        if key not in self._along:
            ways = self._ways(place)
            quick = len(self._blocks) == 1 and isinstance(ways[0].factor, QUICK)
            found = refined(ways, told)
            if quick and (found is None or len(found.first) > self.shape[place] // HARDLY):
                found = unmerged(ways, place)
            self._along[key] = found
        return self._along[key]

    def too_many(self, axes: list[Along]) -> bool:
        """Whether these are more classes than are solved for."""
        merged = prod(len(axis.first) for axis in axes)
        if len(self._blocks) > 1 or merged <= MOST_MERGED:
            return merged > MOST_MERGED
        return merged > min(MOST_BY_AXES, prod(self.shape) // WORTH)

    def errors(self, axes: list[Along], columns: Floats) -> Weighed:
        """The noise in sums of cells. columns: the weight of each class of cells, (classes of all axes, sums)."""
        same = tuple(axis.key for axis in axes)
        key = (*same, repr(columns.shape).encode(), digest(columns))
        if key not in self._solved:
            if same not in self._solvers:
                self._solvers[same] = self._smaller(axes)
            design, counts, solver = self._solvers[same]
            volumes = np.ones(1)
            for axis in axes:
                volumes = (volumes[:, None] * axis.cells).reshape(-1)
            solved, known = solver.solve(columns * volumes[:, None])
            weights = np.asarray(design.queries @ solved) / design.sizes[:, None]
            if sum(kept.weights.size for kept in self._solved.values()) + weights.size > MOST_KEPT:
                self._solved.clear()
            self._solved[key] = Weighed(design, weights, counts, known)
        return self._solved[key]

    def _smaller(self, axes: list[Along]) -> tuple[Design, Codes, LeastSquares]:
        """The same measurements with a row for each class, and how many rows that stands for."""
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
        """What is asked along an axis: blocks that ask the same of it, with the same noises, are one way."""
        if place not in self._listed:
            ways: dict[tuple[object, bytes], Way] = {}
            for number, factors in enumerate(self._blocks):
                noises = self._noises(number, place)
                way = ways.setdefault((kind(factors[place]), noises.tobytes()), Way(factors[place], noises, set()))
                way.blocks.add(number)
            self._listed[place] = list(ways.values())
        return self._listed[place]

    def _noises(self, number: int, place: int) -> Codes:
        """Classes of a block's rows along an axis by the noise that they carry, whatever the rows along other axes."""
        return noise_classes(self._which[number], place)
