"""GLS update of a fit with a coarse histogram of ordered attributes, in a Haar basis with learned variances.

Model. A fit that smooths neighbouring cells is biased to the same side in all cells around a peak: little in each, much
in a range. A coarse grid of B blocks is counted with noise. The gaps between noisy and estimated block counts are
expanded in the orthonormal Haar basis H (B, B) of halves, quarters, eighths along each attribute. A contrast of level l
has prior variance s_l times what the fit claims for it.

Estimator. The prior on s_l is learned from all contrasts of one level (empirical Bayes, model_error.learned_sizes). The
posterior mean of the contrasts moves the block counts; each block's move is divided among its cells in proportion to
their estimated rows. The number of all rows does not move.

Errors. For a sum with weights q (cells,) let a (B,) be the means of q over each block, cells weighed by their share of
the block's estimated rows, L (cells, B) the indicator matrix of blocks, D^2 (B,) the posterior variances of the
contrasts, and C the covariance that the fit claimed before:

    variance(q) = |D H a|^2 + (q - L a)' C (q - L a)

A range made of whole blocks carries the first term alone; another range carries besides what the fit claims of the
cells by which it departs from whole blocks. Blocks of structural zeros alone hold no row: the moves and their posterior
covariance, without the constant contrast, are conditioned on being 0 there. On the other blocks contrasts are a tight
frame (H'H = 1) of squared lengths f; s_l and D^2 are of contrasts brought to length 1. Own method.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from sfumato.answers.fit import Arrays, FitReader, Grouped, keep_in_parts, summed
from sfumato.arrays import Codes, Flags, Floats
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
    """Coarse grid: the product of binned attributes. cut: (attribute, number of bins) of each.

    possible: flags of the cells that are no structural zeros, (cells,); None where there are none.
    """

    domain: Domain
    cut: Cut
    possible: Flags | None = None

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
        """Number of blocks, B."""
        return prod(runs for _, runs in self.cut)

    @cached_property
    def labels(self) -> Codes:
        """Block of every cell, (cells,)."""
        labels, cells = np.zeros(self.domain.size, dtype=np.int64), np.arange(self.domain.size)
        for place, runs in self.cut:
            axis = self.domain.axes[place]
            labels = labels * runs + self.domain.codes_along(axis.name, cells) * runs // axis.size
        return labels

    @cached_property
    def empty(self) -> Flags:
        """Flags of the blocks of structural zeros alone, (B,)."""
        if self.possible is None:
            return np.zeros(self.number, dtype=np.bool_)
        return np.asarray(np.bincount(self.labels, self.possible, self.number) == 0.0)

    @cached_property
    def basis(self) -> tuple[Floats, Codes]:
        """Orthonormal Haar basis of the blocks (contrasts, B), and levels of contrasts (contrasts, attributes)."""
        rows: Floats = np.ones((1, 1))
        levels: Codes = np.zeros((1, 0), dtype=np.int64)
        for _, runs in self.cut:
            own, level = haar(runs)
            rows = np.asarray(np.kron(rows, own), dtype=np.float64)
            levels = np.hstack([np.repeat(levels, runs, axis=0), np.tile(level, len(levels))[:, None]])
        return rows, levels

    @cached_property
    def lengths(self) -> Floats:
        """Squared length f of each contrast on blocks that rows can be in, (contrasts,); 1 for one that is on none."""
        if not self.empty.any():
            return np.ones(self.number)
        squares = (self.basis[0][:, ~self.empty] ** 2).sum(axis=1)
        return np.where(squares > 0.0, squares, 1.0)

    def shares(self, estimate: Floats) -> Floats:
        """Share of each cell in its block's estimated rows, (cells,); even shares in a block without rows."""
        rows = np.maximum(estimate, 0.0)
        sums = np.bincount(self.labels, rows, self.number)
        there = np.ones(len(rows)) if self.possible is None else self.possible
        even = there / np.maximum(np.bincount(self.labels, there, self.number), 1.0)[self.labels]
        held = sums > 0.0
        return np.asarray(np.where(held[self.labels], rows / np.where(held, sums, 1.0)[self.labels], even))


@dataclass(frozen=True, eq=False)
class BlockCounts:
    """Noisy block counts with which a fit was updated, and posterior variances of their contrasts.

    fit: the updated fit, with the covariance that it claimed before. steadied: one-way marginals of an earlier update,
    if any. left: (B,), the posterior variance D^2 of each Haar contrast.
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
        """Update a fit with noisy block counts (empirical Bayes in the Haar basis).

        Returns the updated fit, the one-way marginals around it, and the block counts with their posterior variances.
        """
        before = cls(blocks, fit, steadied, measured, np.zeros(blocks.number))
        lengths = blocks.lengths**0.5
        off, noise = before.gaps / lengths, measured.noise.variance
        claimed, (_, levels) = before.claimed, blocks.basis
        mean, left = np.zeros(blocks.number), claimed.copy()
        scales = [(levels == level).all(axis=1) for level in np.unique(levels, axis=0) if level.any()]
        sizes = learned_sizes([(off[here], claimed[here], noise) for here in scales])
        for here, weights in zip(scales, sizes, strict=True):
            mean[here], variance, _ = posterior(off[here], claimed[here], noise, weights)
            left[here] = WIDER**2 * variance
        result = cls(blocks, fit, steadied, measured, left)
        moves = blocks.basis[0].T @ (lengths * mean)
        moves -= result._gain @ moves[blocks.empty]
        moved = fit.moved(fit.estimate + blocks.shares(fit.estimate) * moves[blocks.labels])
        along = None if steadied is None else steadied.around(moved)
        result = replace(result, fit=moved, steadied=along)
        vars(result)["with_cells"] = before.with_cells  # covariances stay as they were when an estimate moves
        return moved, along, result

    @property
    def gaps(self) -> Floats:
        """Haar contrasts of measured less estimated block counts, (B,)."""
        estimate = np.bincount(self.blocks.labels, self.fit.estimate, self.blocks.number)
        gaps = np.where(self.blocks.empty, 0.0, self.measured.answers - estimate)
        return np.asarray(self.blocks.basis[0] @ gaps)

    @cached_property
    def _gain(self) -> Floats:
        """Regression S_e (S_ee)^+ of the blocks' moves on those of blocks of structural zeros alone, (B, empty)."""
        between = self._contrasts[:, self.blocks.empty]
        return np.asarray(between @ np.linalg.pinv(between[self.blocks.empty], hermitian=True))

    @property
    def _contrasts(self) -> Floats:
        """Covariance S = H'D^2 H of the blocks' moves, without the constant contrast, (B, B)."""
        basis, levels = self.blocks.basis
        return np.asarray(basis.T @ ((self.left * levels.any(axis=1))[:, None] * basis))

    @property
    def claimed(self) -> Floats:
        """Prior variance of each contrast of length 1 by the fit, one-way marginals included, (B,)."""
        between = self._between
        if self.steadied is not None and self._along is not None:
            added, less = self.steadied.parts(self._along)
            between = between + added - less
        basis = self.blocks.basis[0]
        return np.asarray(np.maximum(((basis @ between) * basis).sum(axis=1) / self.blocks.lengths, LEAST))

    @cached_property
    def with_cells(self) -> Floats:
        """Covariances of cells and blocks by the fit, (cells, B)."""
        labels, number = self.blocks.labels, self.blocks.number
        parts = []
        for start in range(0, number, AT_ONCE):
            some = np.arange(start, min(start + AT_ONCE, number))
            parts.append(self.fit.covariances((labels[:, None] == some).astype(np.float64)))
        return np.concatenate(parts, axis=1)

    @cached_property
    def _between(self) -> Floats:
        """Covariances between blocks by the fit, (B, B)."""
        return self._by_block(self.with_cells)

    @cached_property
    def _along(self) -> Floats | None:
        """Covariances of the one-way counts with block counts, (runs, B)."""
        return None if self.steadied is None else self._by_block(self.steadied.model.with_cells).T

    def _by_block(self, cells: Floats) -> Floats:
        """Sum the rows of a (cells, n) matrix over the cells of every block, (B, n)."""
        order = np.argsort(self.blocks.labels, kind="stable")
        starts = np.searchsorted(self.blocks.labels[order], np.arange(self.blocks.number))
        return np.asarray(np.add.reduceat(cells[order], starts, axis=0))

    def means(self, columns: Floats) -> Floats:
        """Means over each block, weighed by estimated rows, of weights (cells, sums): (B, sums)."""
        return self._filled(self._by_block(self._shares[:, None] * columns))

    def _filled(self, means: Floats) -> Floats:
        """Means (..., B, sums) with the average one in blocks of structural zeros alone, which then add no contrast."""
        empty = self.blocks.empty
        if empty.any():
            means[..., empty, :] = means[..., ~empty, :].mean(axis=-2, keepdims=True)
        return means

    @cached_property
    def _shares(self) -> Floats:
        """Share of each cell in its block's estimated rows, (cells,)."""
        return self.blocks.shares(self.fit.estimate)

    def by_group(self, asked: Grouped) -> tuple[Floats, Floats]:
        """Block means of every group's weights, and covariances of its sums with blocks: (groups, B, sums) each."""
        number = self.blocks.number
        label = asked.group * number + self.blocks.labels[asked.place]
        means = summed(label, self._shares[asked.place, None] * asked.weights, asked.groups * number)
        means = self._filled(means.reshape(asked.groups, number, asked.sums))
        products = np.empty_like(means)
        for index in range(asked.sums):
            weighed = asked.weights[:, index, None] * self.with_cells[asked.place]
            products[:, :, index] = summed(asked.group, weighed, asked.groups)
        if asked.whole is None:
            return means, products
        return means + self.means(asked.whole), products + self.with_cells.T @ asked.whole

    def departing(
        self, model: Floats, along: Floats | None, means: Floats, products: Floats
    ) -> tuple[Floats, Floats | None]:
        """Covariance by the fit of sums less their block means, (q - La)'C(q - La), the total being last.

        model: (sums + 1, sums + 1), of the sums themselves and the total. along: (runs, sums), covariances with one-way
        counts. means, products: (B, sums), block means of the weights and covariances of the sums with blocks. Returns
        the covariance and the (runs, sums) covariances of the departures with the runs.
        """
        less = means.T @ products
        covariance = model.copy()
        covariance[:-1, :-1] += means.T @ self._between @ means - less - less.T
        covariance[:-1, -1] -= means.T @ self._between.sum(axis=0)
        covariance[-1, :-1] = covariance[:-1, -1]
        tiny = NO_NOISE * float(np.abs(np.diagonal(model)).max(initial=0.0))
        np.fill_diagonal(covariance, np.maximum(np.diagonal(covariance), tiny))
        return covariance, None if along is None or self._along is None else along - self._along @ means

    def of_means(self, means: Floats) -> Floats:
        """Posterior covariance of block counts, of sums with block means (B, sums): a'H'D^2 H a."""
        contrasts = self.blocks.basis[0] @ means
        covariance = np.asarray(contrasts.T @ (self.left[:, None] * contrasts))
        if not self.blocks.empty.any():
            return covariance
        known = self._contrasts[self.blocks.empty] @ means
        return np.asarray(covariance - (means.T @ self._gain) @ known)

    def record(self) -> Arrays:
        cut = np.array(self.blocks.cut, dtype=np.int64)
        return {"blocks": cut.reshape(-1), "blocks_left": self.left}

    @classmethod
    def read(cls, file: FitReader, fit: object, steadied: Steadied | None) -> BlockCounts | None:
        """Read the block counts from a file around the fit; None where the file has none."""
        if "blocks" not in file.arrays:
            return None
        numbers, left = file.whole("blocks").tolist(), file.numbers("blocks_left")
        if len(numbers) % 2 or not isinstance(fit, MovedFit):
            raise QueryError("blocks name each of their attributes once")
        blocks = Blocks(file.domain, tuple(zip(numbers[::2], numbers[1::2], strict=True)), file.possible)
        return cls(blocks, fit, steadied, file.measurement(blocks.number), left)


def haar(number: int) -> tuple[Floats, Codes]:
    """Orthonormal Haar basis of so many dimensions, one vector a row, and the level of each, 0 for the constant.

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
