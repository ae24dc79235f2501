"""Update of a fit with a coarse histogram: blocks of ordered attributes, counted besides.

An estimate that evens out neighbours is off to the same side in all cells around a peak: little in each, and much in a
range. Noisy counts of blocks show it. Their gaps to the estimate, error and noise, are divided into Haar contrasts of
halves, quarters, eighths along each attribute. How large errors are at each scale, as a multiple of what the fit
claims, is learned from them (empirical Bayes); the posterior mean moves the estimate, each block's move being spread
over its cells in proportion to the rows that they are estimated to hold. The number of all rows stays.

So the error of a sum of cells with weights q has two parts. With a the means of q over each block, cells weighed by
their estimated rows, L the cells of every block, and H the orthonormal Haar basis:

    variance(q) = |D H a|^2 + (q - L a)' C (q - L a),

D^2 being the variance that is left of each contrast, and C the covariance that the fit claimed before. A range made of
whole blocks carries the error of blocks alone; another what the fit claims of the cells by which it departs from them.
"""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np

from sfumato.answers.fit import Arrays, FitReader, Grouped, keep_in_parts, summed
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.calibration.adjusted_fit import AT_ONCE, MOST_NUMBERS, MOST_SPREAD, NO_NOISE, MovedFit, Steadied
from sfumato.models.calibration.model_error import LEAST, WIDER, learned_sizes, posterior
from sfumato.queries import Identity

MOST_BLOCKS = 256
Cut = tuple[tuple[int, int], ...]  # attributes, and into how many runs of values each is cut


@dataclass(frozen=True)
class Blocks:
    """A coarse grid: runs of values of some attributes, crossed. cut: the attributes, and how many runs of each."""

    domain: Domain
    cut: Cut

    def __post_init__(self) -> None:
        shape, axes = self.domain.shape, [axis for axis, _ in self.cut]
        if not axes or len({*axes}) < len(axes) or not all(0 <= axis < len(shape) for axis in axes):
            raise QueryError("blocks name each of their attributes once")
        if not all(2 <= runs <= shape[axis] for axis, runs in self.cut) or self.number > MOST_BLOCKS:
            raise QueryError(f"blocks are runs of values of attributes, at most {MOST_BLOCKS} of them")
        if self.number * self.domain.size > MOST_NUMBERS:
            raise QueryError("there are more blocks than fit so many cells")

    @property
    def number(self) -> int:
        return prod(runs for _, runs in self.cut)

    @cached_property
    def labels(self) -> Codes:
        """The block of every cell."""
        found, cells = np.zeros(self.domain.size, dtype=np.int64), np.arange(self.domain.size)
        for place, runs in self.cut:
            axis = self.domain.axes[place]
            found = found * runs + self.domain.codes_along(axis.name, cells) * runs // axis.size
        return found

    @cached_property
    def basis(self) -> tuple[Floats, Codes]:
        """The orthonormal Haar basis of blocks, a row for each contrast, and the level of it along each attribute."""
        rows: Floats = np.ones((1, 1))
        levels: Codes = np.zeros((1, 0), dtype=np.int64)
        for _, runs in self.cut:
            own, level = haar(runs)
            rows = np.asarray(np.kron(rows, own), dtype=np.float64)
            levels = np.hstack([np.repeat(levels, runs, axis=0), np.tile(level, len(levels))[:, None]])
        return rows, levels

    def shares(self, estimate: Floats) -> Floats:
        """Of every cell, which part of its block's rows it is estimated to hold; of an empty block, all alike."""
        rows = np.maximum(estimate, 0.0)
        sums = np.bincount(self.labels, rows, self.number)
        even = 1.0 / np.bincount(self.labels, minlength=self.number)
        held = sums > 0.0
        return np.asarray(np.where(held[self.labels], rows / np.where(held, sums, 1.0)[self.labels], even[self.labels]))


@dataclass(frozen=True, eq=False)
class BlockCounts:
    """Counts of blocks that a fit was brought to. left: the variance that is left of each of their contrasts.

    fit: with what it claims of errors beforehand; steadied: counts along attributes that it was brought to before.
    """

    blocks: Blocks
    fit: MovedFit
    steadied: Steadied | None
    measured: Measurement
    left: Floats

    def __post_init__(self) -> None:
        keep_in_parts(self, "left")
        number = self.blocks.number
        if self.left.shape != (number,) or not (0.0 <= self.left.min() <= self.left.max() <= MOST_SPREAD):
            raise QueryError("what is known of blocks has a variance for every contrast of them")
        asked = type(self.measured.queries), self.measured.queries.rows, self.measured.of
        if asked != (Identity, number, self.fit.of):
            raise QueryError("blocks are counted one by one")

    @classmethod
    def brought(
        cls, fit: MovedFit, steadied: Steadied | None, blocks: Blocks, measured: Measurement
    ) -> tuple[MovedFit, Steadied | None, BlockCounts]:
        """A fit moved towards counts of blocks, and what is then known of them."""
        before = cls(blocks, fit, steadied, measured, np.zeros(blocks.number))
        off, noise = before.gaps, measured.noise.variance
        claimed, (_, levels) = before.claimed, blocks.basis
        mean, left = np.zeros(blocks.number), claimed.copy()
        scales = [(levels == level).all(axis=1) for level in np.unique(levels, axis=0) if level.any()]
        sizes = learned_sizes([(off[here], claimed[here], noise) for here in scales])
        for here, weights in zip(scales, sizes, strict=True):
            mean[here], variance, _ = posterior(off[here], claimed[here], noise, weights)
            left[here] = WIDER**2 * variance
        moves = blocks.basis[0].T @ mean
        moved = fit.moved(fit.estimate + blocks.shares(fit.estimate) * moves[blocks.labels])
        along = None if steadied is None else steadied.around(moved)
        found = cls(blocks, moved, along, measured, left)
        vars(found)["with_cells"] = before.with_cells  # covariances stay as they were when an estimate moves
        return moved, along, found

    @property
    def gaps(self) -> Floats:
        """By how much contrasts of the counts differ from those of the estimate."""
        estimate = np.bincount(self.blocks.labels, self.fit.estimate, self.blocks.number)
        return np.asarray(self.blocks.basis[0] @ (self.measured.answers - estimate))

    @property
    def claimed(self) -> Floats:
        """The variance of each contrast by what the fit claims, counts along attributes included."""
        between = self._between
        if self.steadied is not None and self._along is not None:
            known, less = self.steadied.parts(self._along)
            between = between + known - less
        basis = self.blocks.basis[0]
        return np.asarray(np.maximum(((basis @ between) * basis).sum(axis=1), LEAST))

    @cached_property
    def with_cells(self) -> Floats:
        """Covariances of cells and blocks by the fit, (cells, blocks)."""
        labels, number = self.blocks.labels, self.blocks.number
        parts = []
        for start in range(0, number, AT_ONCE):
            some = np.arange(start, min(start + AT_ONCE, number))
            parts.append(self.fit.covariances((labels[:, None] == some).astype(np.float64)))
        return np.concatenate(parts, axis=1)

    @cached_property
    def _between(self) -> Floats:
        return self._by_block(self.with_cells)

    @cached_property
    def _along(self) -> Floats | None:
        """Covariances of blocks with counts along attributes, (runs, blocks)."""
        return None if self.steadied is None else self._by_block(self.steadied.model.with_cells).T

    def _by_block(self, cells: Floats) -> Floats:
        """Sums of rows of a matrix over the cells of every block."""
        order = np.argsort(self.blocks.labels, kind="stable")
        starts = np.searchsorted(self.blocks.labels[order], np.arange(self.blocks.number))
        return np.asarray(np.add.reduceat(cells[order], starts, axis=0))

    def means(self, columns: Floats) -> Floats:
        """Of weights of cells, (cells, sums), the means over each block, (blocks, sums)."""
        return self._by_block(self._shares[:, None] * columns)

    @cached_property
    def _shares(self) -> Floats:
        return self.blocks.shares(self.fit.estimate)

    def by_group(self, asked: Grouped) -> tuple[Floats, Floats]:
        """For every group, means of weights over blocks, and sums' covariances with these: (groups, blocks, sums)."""
        number = self.blocks.number
        label = asked.group * number + self.blocks.labels[asked.place]
        means = summed(label, self._shares[asked.place, None] * asked.weights, asked.groups * number)
        means = means.reshape(asked.groups, number, asked.sums)
        products = np.empty_like(means)
        for one in range(asked.sums):
            weighed = asked.weights[:, one, None] * self.with_cells[asked.place]
            products[:, :, one] = summed(asked.group, weighed, asked.groups)
        if asked.whole is None:
            return means, products
        return means + self.means(asked.whole), products + self.with_cells.T @ asked.whole

    def departing(
        self, model: Floats, along: Floats | None, means: Floats, products: Floats
    ) -> tuple[Floats, Floats | None]:
        """The covariance by the fit of sums less their means over blocks, all rows last, and that with counts along.

        model, along: of the sums themselves. means, products: of each, by block.
        """
        less = means.T @ products
        found = model.copy()
        found[:-1, :-1] += means.T @ self._between @ means - less - less.T
        found[:-1, -1] -= means.T @ self._between.sum(axis=0)
        found[-1, :-1] = found[:-1, -1]
        tiny = NO_NOISE * float(np.abs(np.diagonal(model)).max(initial=0.0))
        np.fill_diagonal(found, np.maximum(np.diagonal(found), tiny))
        return found, None if along is None or self._along is None else along - self._along @ means

    def of_means(self, means: Floats) -> Floats:
        """The covariance that is left of blocks' counts, of sums with such means."""
        contrasts = self.blocks.basis[0] @ means
        return np.asarray(contrasts.T @ (self.left[:, None] * contrasts))

    def record(self) -> Arrays:
        cut = np.array(self.blocks.cut, dtype=np.int64)
        return {"blocks": cut.reshape(-1), "blocks_left": self.left}

    @classmethod
    def read(cls, file: FitReader, fit: object, steadied: Steadied | None) -> BlockCounts | None:
        """None where a file has none."""
        if "blocks" not in file.arrays:
            return None
        numbers, left = file.whole("blocks").tolist(), file.numbers("blocks_left")
        if len(numbers) % 2 or not isinstance(fit, MovedFit):
            raise QueryError("blocks name each of their attributes once")
        blocks = Blocks(file.domain, tuple(zip(numbers[::2], numbers[1::2], strict=True)))
        return cls(blocks, fit, steadied, file.measurement(blocks.number), left)


def haar(number: int) -> tuple[Floats, Codes]:
    """The orthonormal Haar basis of so many places, a row each, and the level of every row: 0 for the constant.

    >>> haar(3)[1].tolist()
    [0, 1, 2]
    """
    rows, levels, runs = [np.full(number, number**-0.5)], [0], [(0, number, 1)]
    for start, end, level in runs:
        if end - start > 1:
            middle, row = (start + end + 1) // 2, np.zeros(number)
            first, second = middle - start, end - middle
            row[start:middle] = (second / (first * (first + second))) ** 0.5
            row[middle:end] = -((first / (second * (first + second))) ** 0.5)
            rows.append(row)
            levels.append(level)
            runs += [(start, middle, level + 1), (middle, end, level + 1)]
    return np.array(rows), np.array(levels, dtype=np.int64)
