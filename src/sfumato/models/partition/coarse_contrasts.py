"""Correct a shrinkage fit at coarse scales by its residuals, and learn the size of its errors there.

Every contrast of halves within a bucket is shrunk by itself (shrinkage.py). An effect that runs through many buckets,
such as one value of a short attribute that holds a little more than another everywhere, is then left out of each of
them to the same side: little in a cell, much in a range, and far more than independent errors of the halves add up to.
The noisy cells show it, for their noise is averaged over as many cells.

Model. y = x + n are the noisy cells, z = S y + K Z the shrinkage fit with its claimed bias of covariance M, and L
(cells, B) the indicators of a grid of blocks over all attributes. The gaps H L'(y - z), in the orthonormal Haar basis H
(B, B) of halves, quarters, ... along each attribute, are the bias of contrasts and noise. Their noise is known, for all
is linear. A contrast's bias has variance s times what is claimed, M. There is one s for each set of attributes that
contrasts involve, for what a fit leaves out of single attributes and of their interactions differs in size; its prior
is learned from all sets (empirical Bayes, model_error.learned_sizes).

Estimator. With T the posterior weights of the gaps, R = H'T H and P (cells, B) the shares of cells in the estimated
rows of their block,

    x = z + P R L'(y - z)

Errors. With D^2 = (1 - T)^2 s H L'M L H' (its diagonal), N the covariance of the noise of z and v that of a cell,

    covariance = N + M + P J' + J P' + P Q P'
    J = (v S - N) L R - M L
    Q = R L'(v - 2 v S + N) L R + L'M L + H'D^2 H

that is, the noise of x exactly, D^2 for block means, and M for what a sum departs from these. Regions that were found
in noise hold more of it than noise does with regions given. So no part of it counts as known: the size of all of it is
measured (models/calibration).

Structural zeros: blocks of these alone hold no row and no bias. The moves of blocks, H'T H L'(y - z), and their
covariance H'D^2 H are conditioned on being 0 there, and D^2 is of contrasts brought to length 1 on the other blocks, as
in block_counts.py. Own method.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.fit import (
    Arrays,
    ByModel,
    Errors,
    FitReader,
    Grouped,
    Inside,
    Sets,
    TotalByNoise,
    in_parts,
    keep_in_parts,
    summed,
)
from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.calibration.adjusted_fit import AT_ONCE, MOST_SPREAD, all_by_model, covariance_of
from sfumato.models.calibration.block_counts import Blocks
from sfumato.models.calibration.model_error import LEAST, SIZES, learned_sizes
from sfumato.models.partition.shrinkage import ShrinkageFit

if TYPE_CHECKING:
    from sfumato.answers.noise_sum import Find


@dataclass(frozen=True, eq=False)
class CoarseFit(ByModel, TotalByNoise):
    """Shrinkage fit with coarse contrasts of its residuals added.

    trust, left: weight of each contrast's gap, and variance of the bias that remains of it, (B,) each. The number of
    all rows stays that of the inner fit.
    """

    family = "coarse"
    room = ShrinkageFit.room

    inner: ShrinkageFit
    blocks: Blocks
    trust: Floats
    left: Floats

    def __post_init__(self) -> None:
        keep_in_parts(self, "trust", "left")
        shape = (self.blocks.number,)
        if self.trust.shape != shape or not (0.0 <= self.trust.min() <= self.trust.max() <= 1.0):
            raise QueryError("the gap of every contrast of blocks has a weight from 0 to 1")
        if self.left.shape != shape or not (0.0 <= self.left.min() <= self.left.max() <= MOST_SPREAD):
            raise QueryError("what is known of blocks has a variance for every contrast of them")

    @classmethod
    def of_residuals(cls, inner: ShrinkageFit, blocks: Blocks) -> CoarseFit:
        """Learn the size of a fit's bias at coarse scales, and correct it as far as it stands out of the noise."""
        trust, left = np.zeros(blocks.number), np.zeros(blocks.number)
        plain = cls(inner, blocks, trust, left)
        basis, levels = blocks.basis
        gaps = basis @ plain._residuals
        claimed, noise = (
            np.maximum(((basis @ between) * basis).sum(axis=1), LEAST)
            for between in (plain._by_block(plain._parts[1]), plain._parts[2])
        )
        gaps, claimed, noise = gaps / blocks.lengths**0.5, claimed / blocks.lengths, noise / blocks.lengths
        noise[~(basis[:, ~blocks.empty] != 0.0).any(axis=1)] = 1.0  # where no row can be: nothing is learned there
        sets = [(involved == (levels > 0)).all(axis=1) for involved in np.unique(levels > 0, axis=0) if involved.any()]
        sizes = learned_sizes([(gaps[own] / noise[own] ** 0.5, claimed[own] / noise[own], 1.0) for own in sets])
        for own, weights in zip(sets, sizes, strict=True):
            bias = SIZES[:, None] * claimed[own]
            trust[own] = weights @ (bias / (bias + noise[own]))
            left[own] = (1.0 - trust[own]) ** 2 * (weights @ bias)
        result = cls(inner, blocks, trust, left)
        vars(result)["_parts"] = plain._parts  # they depend on the inner fit alone
        return result

    @property
    def of(self) -> str:
        return self.inner.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return self.inner.measurements

    @cached_property
    def estimate(self) -> Floats:
        moves = self._held(self._kept @ self._residuals)
        return in_parts(self.inner.estimate + self._shares * moves[self.blocks.labels])

    @cached_property
    def _residuals(self) -> Floats:
        """Noisy less fitted counts of the blocks, L'(y - z), (B,)."""
        off = self.inner.cells.answers - self.inner.estimate
        off = off if self.inner.possible is None else off * self.inner.possible
        return np.bincount(self.blocks.labels, off, self.blocks.number).astype(np.float64)

    @cached_property
    def _shares(self) -> Floats:
        """Share of each cell in its block's estimated rows, (cells,): the entries of P."""
        return self.blocks.shares(self.inner.estimate)

    @cached_property
    def _kept(self) -> Floats:
        """Matrix R = H'T H of kept block residuals, (B, B)."""
        basis = self.blocks.basis[0]
        return np.asarray(basis.T @ (self.trust[:, None] * basis))

    @cached_property
    def _gain(self) -> Floats:
        """Regression of the moves of all blocks on those of blocks of structural zeros alone, (B, empty)."""
        basis = self.blocks.basis[0]
        between = (basis.T @ (self.left[:, None] * basis))[:, self.blocks.empty]
        return np.asarray(between @ np.linalg.pinv(between[self.blocks.empty], hermitian=True))

    def _held(self, moves: Floats) -> Floats:
        """Condition moves (B,) or (B, n) of blocks on 0 in those of structural zeros alone."""
        if not self.blocks.empty.any():
            return moves
        held = moves - self._gain @ moves[self.blocks.empty]
        held[self.blocks.empty] = 0.0
        return held

    @cached_property
    def _parts(self) -> tuple[Floats, Floats, Floats]:
        """Covariances of cells with residuals of blocks (v S - N) L, of biases M L, and the noise of residuals.

        (cells, B), (cells, B), and L'(v - 2 v S + N) L, (B, B); v - 2 v S + N = v - (v S - N) - v S, with S symmetric.
        """
        labels, number, variance = self.blocks.labels, self.blocks.number, self.inner.cells.noise.variance
        gaps, biases = np.empty((len(labels), number)), np.empty((len(labels), number))
        noise = np.diag(variance * np.bincount(labels, self.inner.possible, number).astype(np.float64))
        for start in range(0, number, AT_ONCE):
            some = np.arange(start, min(start + AT_ONCE, number))
            columns = (labels[:, None] == some).astype(np.float64)
            smoothed = self.inner.smoothed(columns)
            gaps[:, some] = variance * smoothed - self.inner.noise_covariances(columns, smoothed)
            biases[:, some] = self.inner.model_covariances(columns)
            noise[:, some] -= self._by_block(gaps[:, some]) + variance * self._by_block(smoothed)
        return gaps, biases, (noise + noise.T) / 2.0

    @cached_property
    def _update(self) -> tuple[Floats, Floats]:
        """Matrices J (cells, B) and Q (B, B) of the error covariance."""
        gaps, biases, noise = self._parts
        basis = self.blocks.basis[0]
        between = self._held(self._held(self._kept @ noise @ self._kept).T).T + self._by_block(biases)
        return (
            self._held((gaps @ self._kept).T).T - biases,
            between + self._held(self._held(basis.T @ (self.left[:, None] * basis)).T).T,
        )

    def _by_block(self, cells: Floats) -> Floats:
        """Sum the rows of a (cells, n) matrix over the cells of every block, (B, n)."""
        return summed(self.blocks.labels, cells, self.blocks.number)

    def covariances(self, columns: Floats) -> Floats:
        """Covariances of every cell with weighted sums of cells, (cells, sums)."""
        with_blocks, between = self._update
        means = self._by_block(self._shares[:, None] * columns)
        of_blocks = with_blocks.T @ columns + between @ means
        return np.asarray(
            self.inner.covariances(columns)
            + self._shares[:, None] * of_blocks[self.blocks.labels]
            + with_blocks @ means
        )

    def errors(self, columns: Floats) -> Errors:
        """Covariance of weighted sums of cells, all of it the model's; columns: (cells, sums)."""
        return self._errors(columns.T @ self.covariances(columns))

    def errors_by_group(self, asked: Grouped) -> list[Errors] | None:
        """Errors of the sums of each of many groups; None where groups share common weights in every cell."""
        prior = self.inner.errors_by_group(asked)
        if prior is None:
            return None
        (with_blocks, between), number = self._update, self.blocks.number
        label = asked.group * number + self.blocks.labels[asked.place]
        means = summed(label, self._shares[asked.place, None] * asked.weights, asked.groups * number)
        means = means.reshape(asked.groups, number, asked.sums)
        products = np.empty_like(means)
        for index in range(asked.sums):
            weighed = asked.weights[:, index, None] * with_blocks[asked.place]
            products[:, :, index] = summed(asked.group, weighed, asked.groups)
        result = []
        for errors, mean, product in zip(prior, means, products, strict=True):
            added = mean.T @ (product + between @ mean / 2.0)
            result.append(self._errors(covariance_of(errors) + added + added.T))
        return result

    def _errors(self, covariance: Floats) -> Errors:
        """Errors with a covariance (sums, sums) that counts as the model's; rounding leaves nothing below zero."""
        covariance = (covariance + covariance.T) / 2.0
        np.fill_diagonal(covariance, np.maximum(np.diagonal(covariance), 0.0))
        return all_by_model(self.inner.cells, covariance)

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        return self.inner.guaranteed(domain, rows)

    def measured_inside(self, within: Sets) -> Inside | None:
        return self.inner.measured_inside(within)

    def record(self, domain: Domain) -> Arrays:
        cut = np.array(self.blocks.cut, dtype=np.int64)
        return {**self.inner.record(domain), "coarse": cut.reshape(-1), "trust": self.trust, "coarse_left": self.left}

    @classmethod
    def read(cls, file: FitReader) -> CoarseFit:
        raise QueryError("a fit is corrected at coarse scales where its errors were measured, and nowhere else")

    @classmethod
    def read_around(cls, file: FitReader, inner: ShrinkageFit) -> CoarseFit | None:
        """Read the correction from a file around the inner fit; None where the file has none."""
        if "coarse" not in file.arrays:
            return None
        numbers = file.whole("coarse").tolist()
        if len(numbers) % 2:
            raise QueryError("blocks name each of their attributes once")
        blocks = Blocks(file.domain, tuple(zip(numbers[::2], numbers[1::2], strict=True)), file.possible)
        return cls(inner, blocks, file.numbers("trust"), file.numbers("coarse_left"))
