"""Haar contrasts within buckets of cells, and their empirical-Bayes shrinkage.

`Halvings`: each bucket is bisected down to single cells; the contrasts of the two halves, of unit length, are an
orthonormal basis of the deviations within the bucket (an unbalanced Haar basis).

Shrinkage (`kept_and_deviation`). A noisy contrast is q + noise of variance v, with q of variance t; its posterior mean
keeps 1 - B of it, B = v / (v + t). Prior of B in a family of halvings: a point mass at 1 (an even part), or uniform on
(0, 1) (the uniform shrinkage prior). Given k noisy contrasts with sum of squares Q v, the posterior is that point mass
beside a gamma(k / 2 + 1, Q / 2) distribution truncated to (0, 1): the odds and the first two moments of B are
incomplete gamma functions. The prior probability of evenness depends on the parent family (a Markov chain down the
tree), so that an even area is evened out at all depths and a slope is kept down to where noise hides it. The constants
were set by judgement; no search over them is on record.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sfumato.answers.fit import ByModel, Fit, Inside, Sets
from sfumato.arrays import Codes, Flags, Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass


class OverBuckets(ByModel):
    """Base of fits whose cells lie in buckets with fitted totals.

    labels: bucket of each cell, numbered from 0, (cells,). totals: the fit of the bucket totals.
    """

    labels: Codes
    totals: Fit

    @property
    def of(self) -> str:
        """Statistic that is fitted: "count" or the name of a measure."""
        return self.totals.of

    @cached_property
    def sizes(self) -> Codes:
        """Number of cells of each bucket, (buckets,)."""
        return np.bincount(self.labels)

    def means(self, columns: Floats) -> Floats:
        """Bucket means of columns (cells, sums), as (buckets, sums)."""
        return np.stack([np.bincount(self.labels, weights=one) for one in columns.T], axis=1) / self.sizes[:, None]

    def measured_inside(self, within: Sets) -> Inside | None:
        """Measured buckets that lie within each set of cells; within: (cells, sets)."""
        return self.totals.measured_inside(self.buckets_inside(within))

    def buckets_inside(self, within: Sets) -> Sets:
        """Whether each bucket lies wholly within each set, (buckets, sets); within: (cells, sets)."""
        outside = [np.bincount(self.labels, weights=~one) for one in within.T]
        return np.asarray(np.stack(outside, axis=1) == 0.0)

    def _check_labels(self) -> None:
        """Validate and freeze the labels before anything is indexed by them: a file may hold any numbers."""
        labels, buckets = np.array(self.labels, dtype=np.int64), len(self.totals.estimate)
        within = labels.size > 0 and labels.min() >= 0 and labels.max() < buckets
        if not within or not np.bincount(labels, minlength=buckets).all():
            raise QueryError(f"{buckets} buckets need labels from 0 to {buckets - 1}, each at least once")
        labels.setflags(write=False)
        object.__setattr__(self, "labels", labels)


def buckets_with_rows(labels: Codes, possible: Flags | None) -> Flags | None:
    """Flags of the buckets that hold a cell which is no structural zero, (buckets,); None where there are no zeros."""
    return None if possible is None else np.asarray(np.bincount(labels, possible) > 0.0)


def erring_together(apart: Floats, together: Floats) -> Floats:
    """Inflate a covariance of sums so that its diagonal is that of fully correlated parts.

    apart: covariance of the sums if their parts erred independently, (sums, sums). together: variance of each sum under
    full correlation, (sums,), as where one slope runs through all parts that a query cuts. With less than full
    correlation, intervals for boxes of a smooth table of several attributes had too little coverage.
    """
    alone = np.diagonal(apart)
    wider = np.sqrt(np.divide(together, alone, out=np.ones_like(together), where=alone > 0.0))
    return np.asarray(apart * np.outer(wider, wider), dtype=np.float64)


GENERATIONS = 4  # halvings of one depth form a family if they lie in the same part so many above; by judgement


@dataclass(frozen=True, eq=False)
class Halvings:
    """All bisections of runs of cells down to single cells, depth by depth; one array entry per bisection.

    start, middle, stop: the halves are [start, middle) and [middle, stop).
    family: number of the family of each bisection; a family is of one depth and has at most 16 members.
    above: for each family, that of its parents, -1 for whole runs.
    depth: of each family.
    """

    start: Codes
    middle: Codes
    stop: Codes
    family: Codes
    above: Codes
    depth: Codes

    @classmethod
    def of(cls, sizes: Codes, held: Flags | None = None) -> Halvings:
        """Bisections of consecutive runs with these sizes; an odd cell goes to the first half.

        held: flags of the runs that are bisected, (runs,); None: all.

        >>> Halvings.of(np.array([3, 1, 2])).middle.tolist()
        [2, 5, 1]
        """
        stop = np.cumsum(sizes, dtype=np.int64)
        start = stop - sizes
        if held is not None:
            start, stop = start[held], stop[held]
        lineage = [start] * GENERATIONS  # where the parts around each part begin, from its parent on
        parents = np.full(len(start), -1)
        nothing = np.zeros(0, dtype=np.int64)
        halves, families = [(nothing, nothing, nothing, nothing)], [(nothing, nothing)]
        count = 0
        for depth in range(64):
            large = stop - start > 1
            if not large.any():
                break
            start, stop, parents = start[large], stop[large], parents[large]
            lineage = [starts[large] for starts in lineage]
            middle = start + (stop - start + 1) // 2
            _, example, family = np.unique(lineage[-1], return_index=True, return_inverse=True)
            halves.append((start, middle, stop, count + family))
            families.append((parents[example], np.full(len(example), depth)))
            lineage = [np.repeat(starts, 2) for starts in (start, *lineage[:-1])]
            parents = np.repeat(count + family, 2)
            start, stop = (np.stack(ends, axis=1).reshape(-1) for ends in ((start, middle), (middle, stop)))
            count += len(example)
        return cls(*(np.concatenate(part) for part in (*zip(*halves, strict=True), *zip(*families, strict=True))))

    @cached_property
    def _heights(self) -> tuple[Floats, Floats]:
        """Entries of each unit contrast on its first and second half, (halvings,) each."""
        first, second = self.middle - self.start, self.stop - self.middle
        length = np.sqrt(1.0 / first + 1.0 / second)
        return 1.0 / (first * length), 1.0 / (second * length)

    def in_halves(self, which: Codes) -> tuple[Floats, Floats]:
        """Entries of some unit contrasts on either half, as columns."""
        here, there = self._heights
        return here[which, None], there[which, None]

    def contrasts(self, values: Floats) -> Floats:
        """Haar analysis: inner products of all unit contrasts with values (cells, sums), as (halvings, sums)."""
        sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
        here, there = self._heights
        first = here[:, None] * (sums[self.middle] - sums[self.start])
        return np.asarray(first - there[:, None] * (sums[self.stop] - sums[self.middle]), dtype=np.float64)

    def spread_out(self, contrasts: Floats, cells: int) -> Floats:
        """Haar synthesis: cells with these contrasts (halvings, sums) and zero run totals, as (cells, sums)."""
        here, there = self._heights
        steps = np.zeros((cells + 1, contrasts.shape[1]))
        np.add.at(steps, self.start, here[:, None] * contrasts)
        np.add.at(steps, self.middle, -(here + there)[:, None] * contrasts)
        np.add.at(steps, self.stop, there[:, None] * contrasts)
        return np.asarray(np.cumsum(steps, axis=0)[:-1], dtype=np.float64)

    @cached_property
    def heights(self) -> Codes:
        """Number of further bisections, this one included, down to single cells, (halvings,)."""
        return np.asarray(np.ceil(np.log2(self.stop - self.start)), dtype=np.int64)


POOLED = 2.0  # contrasts' worth of what all halvings of the same size show, in the estimate for each family
EVEN = 0.25  # chance that a bucket is even before its cells are measured
EVEN_IN_EVEN = 0.9  # the same for the halves of an even part
EVEN_IN_UNEVEN = 0.02  # and of an uneven one
# Halves on a slope lean the same way, so what is left out of them adds up along the edge of a query where noise does
# not: less is left out than would be best for each by itself.
CAUTION = 0.5
UNSEEN = 0.5  # of the noise's variance, over the root of the contrasts: unevenness of that size may go unseen


def kept_and_deviation(halvings: Halvings, noisy: Floats, variance: float) -> tuple[Floats, Floats]:
    """Shrinkage factor and standard deviation of the true contrasts of every family of halvings, (families,) each.

    noisy: cells in the order of the halvings, (cells,). variance: of their noise. With B given that the family is not
    even, the factor is (1 - P(even)) (1 - E[B])^CAUTION.
    """
    families = len(halvings.above)
    if variance <= 0.0 or not families:
        return np.ones(families), np.zeros(families)
    squares = halvings.contrasts(noisy[:, None])[:, 0] ** 2 / variance
    members = np.bincount(halvings.family).astype(np.float64)
    height = np.zeros(families, dtype=np.int64)
    height[halvings.family] = halvings.heights
    alike = np.bincount(halvings.heights, weights=squares) / np.maximum(np.bincount(halvings.heights), 1)
    count = members + POOLED
    total = np.maximum(np.bincount(halvings.family, weights=squares) + POOLED * alike[height], 1e-9)
    log_even, mean, square = _noise_part(count, total)
    even = _evenness(halvings, log_even)
    best = (1.0 - even) * (1.0 - mean)  # for a contrast by itself
    # A true contrast given its noisy one has the variance v (1 - B) for a given B, and B varies.
    varies = np.maximum(even + (1.0 - even) * square - (1.0 - best) ** 2, 0.0)
    deviation_squared = (best * (1.0 - best) + varies * total / count) / np.maximum(1.0 - best, 1e-6) ** 2
    deviation = np.sqrt(variance * np.maximum(deviation_squared, UNSEEN / np.sqrt(members)))
    return (1.0 - even) * (1.0 - mean) ** CAUTION, deviation


def _evenness(halvings: Halvings, log_even: Floats) -> Floats:
    """Posterior probability that each family is even, from the top down, (families,).

    log_even: log Bayes factor of evenness from the family's own contrasts, (families,).
    """
    probability = np.full(len(log_even), EVEN)
    for depth in range(int(halvings.depth.max()) + 1):
        families = halvings.depth == depth
        prior = probability[families]
        if depth:
            prior = EVEN_IN_UNEVEN + (EVEN_IN_EVEN - EVEN_IN_UNEVEN) * probability[halvings.above[families]]
        odds = np.exp(np.clip(log_even[families], -500.0, 500.0)) * prior / (1.0 - prior)
        probability[families] = odds / (1.0 + odds)
    return probability


def _noise_part(count: Floats, squares: Floats) -> tuple[Floats, Floats, Floats]:
    """Log Bayes factor of B = 1 against a uniform B, and the posterior means of B and B^2 under the latter.

    count: number of contrasts. squares: their sum of squares over the noise variance. All arrays (families,).
    """
    from scipy.special import gammainc, gammaln

    shape, rate = count / 2.0 + 1.0, squares / 2.0
    below = gammainc(shape, rate)
    # Where the cells lie closer than their noise should let them, all of the distribution leans against 1.
    usual = below > 1e-250
    below = np.where(usual, below, 1.0)
    mean = np.where(usual, gammainc(shape + 1.0, rate) / below * shape / rate, shape / (shape + 1.0))
    square = gammainc(shape + 2.0, rate) / below * shape * (shape + 1.0) / rate**2
    square = np.where(usual, square, shape / (shape + 2.0))
    otherwise = np.where(usual, np.log(below) + gammaln(shape) - shape * np.log(rate), -np.log(shape) - rate)
    return -rate - otherwise, mean, square
