"""Equivalence classes of cells and rows along an axis under a query and a strategy, by colour refinement.

Cells are equivalent if the query weights them equally and every class of rows sums them equally; rows are equivalent if
they carry the same noise and weight every class of cells equally. Classes are refined until they are stable
(Weisfeiler, Leman 1968). The GLS solution is constant on classes, as used below. Rows are first classed by their
noises over all combinations of rows along the other axes (`noises_along`): mostly one class per level of a tree.
Equality is tested by 64-bit hashes (SplitMix).

Least squares reduced to equivalence classes of cells, for a query that distinguishes few of them.

The GLS solution is constant on the classes of classes.py, so it is solved with one unknown per class: for one value
among a hundred, measured in a tree, four or five in place of a hundred; for all values of an attribute mostly one. The
result is exact. With structural zeros, cells are told apart by where these are, besides; the classes then solve what is
left of the equations on possible cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import ByAxis, Codes, Flags, Floats, Which
from sfumato.frozen import dataclass
from sfumato.least_squares.base import LeastSquares
from sfumato.least_squares.closed_forms import given_zeros, least_squares
from sfumato.least_squares.gram import kind
from sfumato.measurement import Design
from sfumato.queries import Haar, Identity, Kron, NominalHaar, Queries, Stack, Total, Tree, Weighted

MOST_CLASSES = 2**7  # along one axis; with more, little would be gained
FEW = 2**12  # words that are kept

Words = NDArray[np.uint64]
_NOTHING = np.zeros((0, 0), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Along:
    """Classes of cells and rows along one axis.

    first, cells: an example of each class of cells, and its size, (classes,). By block of queries: rows, many: an
    example of each class of rows, and its size; noises: number of its noise class; asked: query rows summed over
    each class of cells, (row classes, cell classes).
    whole: index of an axis on which every cell is its own class; -1 otherwise.
    """

    first: Codes
    cells: Codes
    rows: tuple[Codes, ...]
    many: tuple[Codes, ...]
    noises: tuple[Codes, ...]
    asked: tuple[Queries, ...]
    whole: int = -1

    @cached_property
    def key(self) -> bytes:
        """Cache key: equal for axes with the same classes."""
        if self.whole >= 0:
            return b"all of %d" % self.whole
        parts = [self.cells, *self.many, *self.noises, *(one.dense() for one in self.asked)]
        return b"|".join(repr(part.shape).encode() + part.tobytes() for part in parts)


@dataclass(frozen=True, eq=False)
class Way:
    """Queries of some blocks along one axis; noises: noise class of each row, (rows,)."""

    factor: Queries
    noises: Codes
    blocks: set[int]


def refined(ways: list[Way], told: Codes, most: int = MOST_CLASSES) -> Along | None:
    """Coarsest stable classes along an axis; None for more than `most`.

    told: initial class of each cell by the query, (cells,).
    """
    rows, sums = [way.noises for way in ways], [_NOTHING for _ in ways]
    after = ranked(told.astype(np.uint64))
    cells = np.zeros_like(after)
    while (classes := int(after.max()) + 1) > int(cells.max()) + 1 or sums[0] is _NOTHING:
        if classes > most:
            return None
        cells, mixed = after, after.astype(np.uint64) * words(1)[0]
        for number, way in enumerate(ways):
            sums[number] = np.asarray(way.factor @ _indicators(cells))
            rows[number] = ranked(_mixed(rows[number], sums[number]))
            if rows[number].max() >= most:
                return None
            mixed = _mixed(mixed, np.asarray(way.factor.T @ _indicators(rows[number])))
        after = ranked(mixed)
    first = np.unique(cells, return_index=True)[1]
    examples = [np.unique(row, return_index=True)[1] for row in rows]
    by_way = [
        (e, np.bincount(row), way.noises[e], Weighted(matrix[e]))
        for e, row, way, matrix in zip(examples, rows, ways, sums, strict=True)
    ]
    return _by_block(first, np.bincount(cells), ways, by_way, -1)


def unmerged(ways: list[Way], place: int) -> Along:
    """Classes of an axis in which every cell is its own."""
    every = np.arange(ways[0].factor.columns)
    by_way = [
        (np.arange(way.factor.rows), np.ones(way.factor.rows, dtype=np.int64), way.noises, way.factor) for way in ways
    ]
    return _by_block(every, np.ones_like(every), ways, by_way, place)


def _by_block(
    first: Codes, cells: Codes, ways: list[Way], each: Sequence[tuple[Codes, Codes, Codes, Queries]], whole: int
) -> Along:
    """Collect classes of cells and rows by block of queries."""
    blocks = range(sum(len(way.blocks) for way in ways))
    by_block = [each[next(n for n, way in enumerate(ways) if block in way.blocks)] for block in blocks]
    rows, many, noises, asked = zip(*by_block, strict=True)
    return Along(first, cells, rows, many, noises, asked, whole)


def told_apart(weights: Floats) -> Codes:
    """Class numbers of equal slices along the first axis, in an order that depends on values alone, (n,)."""
    flat = np.ascontiguousarray(weights + 0.0).reshape(len(weights), prod(weights.shape[1:]))
    return ranked(np.asarray(_scrambled(flat.view(np.uint64)) @ words(flat.shape[1])))


def digest(values: NDArray[Any]) -> bytes:
    """Hash of an array, 16 bytes."""
    return blake2b(np.ascontiguousarray(values).data, digest_size=16).digest()


def _indicators(classes: Codes) -> Codes:
    """Indicator matrix of classes, (n, classes)."""
    return np.asarray(classes[:, None] == np.arange(int(classes.max()) + 1), dtype=np.int64)


def _mixed(before: Codes | Words, asked: Codes) -> Words:
    """64-bit hashes of a class and a row of integers: equal for equal inputs, else with probability 2^-64; (n,)."""
    each = words(asked.shape[1] + 2)
    return np.asarray(before.astype(np.uint64) * each[-1] + asked.astype(np.uint64) @ each[:-2] + each[-2])


def ranked(found: Words) -> Codes:
    """Ranks of words: equal words get equal numbers, the least word 0."""
    return np.asarray(np.unique(found, return_inverse=True)[1], dtype=np.int64).reshape(-1)


def words(count: int) -> Words:
    """Fixed pseudo-random odd 64-bit words (Steele, Lea, Flood 2014: SplitMix)."""
    return _few()[:count] if count <= FEW else _made(count)


@cache
def _few() -> Words:
    """First FEW pseudo-random words, cached."""
    return _made(FEW)


def _made(count: int) -> Words:
    """Words by the SplitMix finaliser."""
    return _scrambled(np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)


def _scrambled(z: Words) -> Words:
    """SplitMix finaliser."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


FEW_CLASSES = 2**6  # that are told apart by comparing; strategies have a few levels


def noises_along(which: Which, rows: Sequence[int]) -> tuple[list[Codes], Codes] | None:
    """Noise classes of the rows along each axis, and the noise of each combination of classes; None if too many.

    which: number of the noise of every combination of rows; None where all carry the first. rows: number of rows per
    axis.
    """
    if which is None:
        return [np.zeros(count, dtype=np.int64) for count in rows], np.zeros([1] * len(rows), dtype=np.int64)
    if isinstance(which, ByAxis):
        if [*map(len, which.along)] != [*rows]:
            return None
        return [*which.along], np.arange(prod(which.kinds)).reshape(which.kinds)
    grid = narrow(which).reshape(rows)
    classes = [_compared(_in_front(grid, axis)) for axis in range(len(rows))]
    kept = [own for own in classes if own is not None]
    if len(kept) < len(rows):
        return None
    examples = [np.array([np.argmax(own == number) for number in range(own.max() + 1)]) for own in kept]
    return kept, grid[np.ix_(*examples)].astype(np.int64)


def noise_classes(grid: NDArray[np.integer], place: int) -> Codes:
    """Classes of the rows along one axis by their noises over all other axes, (rows,)."""
    front = _in_front(grid, place)
    classes = _compared(front)
    return ranked(np.asarray(front.astype(np.uint64) @ words(front.shape[1]))) if classes is None else classes


def narrow(which: Codes | ByAxis) -> NDArray[np.integer]:
    """Same integers in the smallest type that holds them."""
    if isinstance(which, ByAxis):
        return np.asarray(which)
    return which.astype(np.uint8 if len(which) and which.max() < 2**8 else np.int64, copy=False)


def _in_front(grid: NDArray[np.integer], place: int) -> NDArray[np.integer]:
    """Grid with one axis in front and the others flattened, (rows, others)."""
    return np.moveaxis(grid, place, 0).reshape(grid.shape[place], prod(grid.shape) // grid.shape[place])


def _compared(front: NDArray[np.integer]) -> Codes | None:
    """Classes of equal rows by direct comparison, (rows,); None for more than FEW_CLASSES.

    The last row is compared first: it is mostly a cell, and of these there are most.
    """
    classes, left = np.zeros(len(front), dtype=np.int64), np.arange(len(front))
    for number in range(FEW_CLASSES):
        same = (front[left] == front[left[-1]]).all(axis=1) if number else (front == front[-1]).all(axis=1)
        classes[left[same]] = number
        left = left[~same]
        if not len(left):
            return classes
    return None


# -- merged

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
    """Design whose blocks are Kronecker products over several axes, with cached reductions.

    possible: flags of the cells that are no structural zeros, (cells,), to which the fit is conditioned; None: all.
    """

    def __init__(
        self, design: Design, shape: tuple[int, ...], blocks: list[tuple[Queries, ...]], possible: Flags | None = None
    ) -> None:
        self._design, self.shape, self._blocks = design, shape, blocks
        self._possible = None if possible is None else possible.reshape(shape)
        ends = np.cumsum([prod(factor.rows for factor in factors) for factors in blocks])[:-1]
        which = np.zeros(design.queries.rows, dtype=np.int64) if design.which is None else design.which
        parts = np.split(narrow(which), ends)
        self._which = [p.reshape([f.rows for f in factors]) for p, factors in zip(parts, blocks, strict=True)]
        self._along: dict[tuple[int, bytes], Along | None] = {}
        self._solvers: dict[tuple[bytes, ...], tuple[Design, Codes, LeastSquares]] = {}
        self._solved: dict[tuple[bytes, ...], Weighed] = {}
        self._listed: dict[int, list[Way]] = {}

    @classmethod
    def of(cls, design: Design, shape: tuple[int, ...], possible: Flags | None = None) -> Merged | None:
        """Reduction of a design; None where its queries are no products over the axes, or not integral."""
        queries, blocks = design.queries, []
        for block in queries.blocks if isinstance(queries, Stack) and len(shape) > 1 else (queries,):
            factors = block.factors if type(block) is Kron else (block,)
            if tuple(factor.columns for factor in factors) != shape or not block.integral:
                return None
            blocks.append(tuple(factors))
        return cls(design, shape, blocks, possible)

    def along(self, place: int, told: Codes) -> Along | None:
        """Classes along an axis; told: initial class of each cell by the query, (cells,). None: too many classes.

        All cells may be their own class along an axis with a quick closed form.
        """
        key = place, digest(told)
        if key not in self._along:
            if self._possible is not None:
                told = told * self.shape[place] + self._zeros_along[place]
            ways = self._ways(place)
            quick = len(self._blocks) == 1 and isinstance(ways[0].factor, QUICK)
            classes = refined(ways, told, MOST_CLASSES if self._possible is None else MOST_MERGED)
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

    def of_cells(self, column: Floats) -> Weighed | None:
        """Noise weights of one sum of cells, (cells,); None where it distinguishes too many classes."""
        grid = column.reshape(self.shape)
        axes = []
        for place in range(grid.ndim):
            classes = self.along(place, told_apart(np.moveaxis(grid, place, 0)))
            if classes is None:
                return None
            axes.append(classes)
        if self.too_many(axes):
            return None
        return self.errors(axes, grid[np.ix_(*(axis.first for axis in axes))].reshape(-1, 1))

    def errors(self, axes: list[Along], columns: Floats) -> Weighed:
        """Noise weights of sums of cells; columns: weight of each class of cells, (classes of all axes, sums)."""
        possible = (
            None if self._possible is None else self._possible[np.ix_(*(axis.first for axis in axes))].reshape(-1)
        )
        same = (*(axis.key for axis in axes), b"" if possible is None else np.packbits(possible).tobytes())
        key = (*same, repr(columns.shape).encode(), digest(columns))
        if key not in self._solved:
            if same not in self._solvers:
                self._solvers[same] = self._smaller(axes, possible)
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

    @cached_property
    def _zeros_along(self) -> list[Codes]:
        """Classes of the cells along each axis by where the structural zeros are, (cells,) each."""
        flags = np.asarray(self._possible, dtype=np.uint8)
        return [noise_classes(flags, place) for place in range(len(self.shape))]

    def _smaller(self, axes: list[Along], possible: Flags | None) -> tuple[Design, Codes, LeastSquares]:
        """Reduced design with one row per class of rows, rows per class, and its solver.

        possible: flags of the classes of cells that are no structural zeros, (classes,); None: all.
        """
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
        variances = design.sizes / many
        solver = least_squares(queries, variances) if possible is None else given_zeros(queries, variances, possible)
        return design, many, solver

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
