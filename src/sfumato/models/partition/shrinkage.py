"""Shrinkage estimate from noisy cells and noisy bucket totals, by Haar contrasts within buckets.

ISPE (Xiao, Xiong, Yuan, TR-2011-005) and DPCube (SDM 2010) measure cells and buckets and let a cell learn from its
bucket. Corrected: a cell is not a copy of its neighbours. Each bucket is bisected down to its cells and every contrast
of halves is shrunk by its posterior mean (buckets.py), so a slope that is visible above the noise is kept.

Estimator. Cell c of bucket b, of m_b cells:

    x_c = X_b / m_b + sum over the halvings h around c of keep_h q_h p_hc,    X_b = (1 - lean_b) Z_b + lean_b Y_b,

with Z_b the measured bucket total, Y_b the sum of its noisy cells y, p_h the unit contrast of the two halves (an
orthonormal family) and q_h = p_h . y. It is linear in the measured numbers, so the distribution of the noise in any sum
is exact. Model error: (1 - keep_h) times the true contrast, whose standard deviation is estimated; one keep and one
deviation per family of halvings. The same slope may run through all halves that the edge of a query cuts: model errors
of halvings of one size are fully correlated, the worst case, unless the size of errors is measured besides
(models/calibration/fit.py).

Structural zeros are buckets of their own, whose noisy cells and totals are not used: nothing of them enters a sum.

`shrunk` computes the same for the sums of many groups: a part of a bucket is bisected further only for groups that have
cells in it, and not where these fill it with equal weights; cells with one weight in the answer are counted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.fit import (
    Arrays,
    Errors,
    FitReader,
    Grouped,
    Inside,
    Sets,
    TotalByNoise,
    in_parts,
    keep_in_parts,
    squares_by_group,
    summed,
)
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Design, Measurement
from sfumato.models.linear.fit import LinearFit
from sfumato.models.partition.buckets import Halvings, OverBuckets, buckets_with_rows, erring_together
from sfumato.queries import Identity

if TYPE_CHECKING:
    from sfumato.answers.noise_sum import Find


@dataclass(frozen=True, eq=False)
class ShrinkageFit(OverBuckets, TotalByNoise):
    """Shrinkage fit of noisy cells and noisy bucket totals.

    labels: bucket of each cell; order: permutation of the cells, bucket after bucket, along which buckets are bisected;
    each (cells,).
    lean: weight of the sum of a bucket's cells in its total, (buckets,).
    keep, deviations: shrinkage factor and standard deviation of the true contrasts, (families,). The three are kept in
    whole multiples of 1 / PARTS.
    together: whether model errors of halvings of one size are fully correlated.
    possible: flags of the cells that are no structural zeros, which share no bucket with these, (cells,); None: all.
    """

    family = "nested"
    room = 6

    labels: Codes
    order: Codes
    totals: LinearFit
    cells: Measurement
    lean: Floats
    keep: Floats
    deviations: Floats
    together: bool = True
    possible: Flags | None = None

    def __post_init__(self) -> None:
        self._check_labels()
        keep_in_parts(self, "lean", "keep", "deviations")
        order, cells, buckets = np.array(self.order, dtype=np.int64), len(self.labels), len(self.sizes)
        every = order.shape == (cells,) and np.array_equal(np.sort(order), np.arange(cells))
        if not every or (np.diff(self.labels[order]) < 0).any():
            raise QueryError("the order of the cells has every cell once, one bucket after another")
        _check_each_measured(self.cells, cells)
        _check_each_measured(self.totals.measurement, buckets)
        if self.held is not None and self.held[self.labels[~self._possible]].any():
            raise QueryError("cells that no row can be in have buckets of their own")
        order.setflags(write=False)
        object.__setattr__(self, "order", order)
        families = len(self.halvings.above)
        if [one.shape for one in (self.lean, self.keep, self.deviations)] != [(buckets,), (families,), (families,)]:
            raise QueryError(f"{buckets} buckets and {families} families of halvings need as many numbers each")

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (self.cells, self.totals.measurement)

    @cached_property
    def held(self) -> Flags | None:
        """Flags of the buckets that rows can be in, (buckets,); None: all."""
        return buckets_with_rows(self.labels, self.possible)

    @cached_property
    def _possible(self) -> Flags:
        """Flags of the cells that rows can be in, (cells,)."""
        return np.ones(len(self.labels), dtype=np.bool_) if self.possible is None else self.possible

    @cached_property
    def halvings(self) -> Halvings:
        """Bisections of all buckets that rows can be in."""
        return Halvings.of(self.sizes, self.held)

    def means(self, columns: Floats) -> Floats:
        """Bucket means of columns (cells, sums), as (buckets, sums); 0 for buckets of structural zeros."""
        means = super().means(columns)
        return means if self.held is None else means * self.held[:, None]

    @cached_property
    def estimate(self) -> Floats:
        noisy = self.cells.answers.astype(np.float64)
        sums = np.bincount(self.labels, weights=noisy)
        totals = self.totals.estimate + self.lean * (sums - self.totals.estimate)
        totals = totals if self.held is None else totals * self.held
        return in_parts((totals / self.sizes)[self.labels] + self._kept(self._contrasts(noisy[:, None]))[:, 0])

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        """Confidence bounds that hold for every table, from cells or bucket totals, each by themselves."""
        from sfumato.answers.guaranteed_sums import of_both, one_by_one, over_buckets

        # Cells by themselves and buckets by themselves: buckets hang on the noise of cells.
        find = of_both(one_by_one(self.cells), over_buckets(self.labels, one_by_one(self.totals.measurement)))
        if self.possible is None:
            return find
        return lambda low, high, tail: find(low * self._possible, high * self._possible, tail)

    def measured_inside(self, within: Sets) -> Inside | None:
        """Measured cells and buckets that lie within each set of cells; within: (cells, sets)."""
        totals = self.totals.measurement
        inside = self.buckets_inside(within)
        if self.held is not None:
            inside, within = inside & self.held[:, None], within & self._possible[:, None]
        regions = [(totals, inside)] if isinstance(totals.queries, Identity) else []
        return [*regions, (self.cells, within)]

    def errors(self, columns: Floats) -> Errors:
        """Noise weights and model covariance of weighted sums of cells; columns: (cells, sums)."""
        of_totals = (1.0 - self.lean)[:, None] * self.means(columns)
        weights = np.concatenate([self.smoothed(columns), of_totals])
        which = np.repeat([0, 1], [len(self.labels), len(self.sizes)])
        design = Design(Identity(len(which)), (self.cells.noise, self.totals.measurement.noise), which)
        model = self._model(self._contrasts(columns))
        return Errors(design, weights, model, np.zeros(columns.shape[1], dtype=np.bool_))

    def errors_by_group(self, asked: Grouped) -> list[Errors] | None:
        """Errors of the sums of each of many groups; None where groups share common weights in every cell."""

        if asked.whole is not None:
            return None
        if self.possible is not None:
            kept = self.possible[asked.place]
            asked = replace(asked, place=asked.place[kept], group=asked.group[kept], weights=asked.weights[kept])
        position = np.empty_like(self.order)
        position[self.order] = np.arange(len(position))
        left_out = (1.0 - self.keep) * self.deviations
        terms = shrunk(asked.moved(position), self.sizes, self.halvings, self.lean, self.keep, left_out)
        group = np.concatenate([terms.cells.group, terms.buckets.group])
        weights = np.concatenate([terms.cells.weights, terms.buckets.weights])
        counts = np.concatenate([terms.cells.count, terms.buckets.count])
        which = np.repeat([0, 1], [len(terms.cells.group), len(terms.buckets.group)])
        order = np.argsort(group, kind="stable")
        ends = np.searchsorted(group[order], np.arange(asked.groups + 1))
        noises, determined = (self.cells.noise, self.totals.measurement.noise), np.zeros(asked.sums, dtype=np.bool_)
        errors = []
        for number, (apart, together) in enumerate(zip(terms.apart, terms.together, strict=True)):
            rows = order[ends[number] : ends[number + 1]]
            rows = rows if len(rows) else np.zeros(1, dtype=np.int64)
            own = weights[rows] * (group[rows] == number)[:, None]
            design = Design(Identity(len(rows)), noises, which[rows])
            model = erring_together(apart, together) if self.together else apart
            errors.append(Errors(design, own, model, determined, counts[rows]))
        return errors

    def covariances(self, columns: Floats) -> Floats:
        """Covariances of every cell with weighted sums of cells, noise and model error together, (cells, sums)."""
        return self.noise_covariances(columns, self.smoothed(columns)) + self.model_covariances(columns)

    def smoothed(self, columns: Floats) -> Floats:
        """Weights S q of the noisy cells y in weighted sums q of cells, (cells, sums); x = S y + ..., S symmetric."""
        return self._kept(self._contrasts(columns)) + (self.lean[:, None] * self.means(columns))[self.labels]

    def noise_covariances(self, columns: Floats, smoothed: Floats) -> Floats:
        """Covariances of every cell with weighted sums q of cells by noise alone, (cells, sums); smoothed: S q."""
        of_totals = self.totals.measurement.noise.variance * (1.0 - self.lean) ** 2 / self.sizes
        of_cells = self.cells.noise.variance * self.smoothed(smoothed)
        return np.asarray(of_cells + (of_totals[:, None] * self.means(columns))[self.labels])

    def model_covariances(self, columns: Floats) -> Floats:
        """Covariances of every cell with weighted sums of cells by independent errors of halvings, (cells, sums)."""
        left_out = ((1.0 - self.keep) * self.deviations)[self.halvings.family, None]
        return self._spread_out(left_out**2 * self._contrasts(columns))

    def _model(self, contrasts: Floats) -> Floats:
        """Model covariance of sums with these contrasts, (halvings, sums) to (sums, sums)."""
        left_out = ((1.0 - self.keep) * self.deviations)[self.halvings.family, None] * contrasts
        apart: Floats = left_out.T @ left_out
        if not self.together:
            return apart
        together, heights = np.zeros(len(apart)), self.halvings.heights
        for height in np.unique(heights):
            together += np.abs(left_out[heights == height]).sum(axis=0) ** 2
        return erring_together(apart, together)

    def _contrasts(self, columns: Floats) -> Floats:
        """Contrasts of columns (cells, sums), as (halvings, sums)."""
        return self.halvings.contrasts(columns[self.order])

    def _kept(self, contrasts: Floats) -> Floats:
        """Cells made of shrunk contrasts: (halvings, sums) to (cells, sums)."""
        return self._spread_out(self.keep[self.halvings.family, None] * contrasts)

    def _spread_out(self, contrasts: Floats) -> Floats:
        """Haar synthesis in the order of the domain's cells, (cells, sums)."""
        spread_out = self.halvings.spread_out(contrasts, len(self.order))
        cells = np.empty_like(spread_out)
        cells[self.order] = spread_out
        return cells if self.possible is None else cells * self.possible[:, None]  # of cumulated sums rounding is left

    def record(self, domain: Domain) -> Arrays:
        numbers = {"lean": self.lean, "keep": self.keep, "spread": self.deviations}
        return {"labels": self.labels, "order": self.order, **numbers}

    @classmethod
    def read(cls, file: FitReader, *, together: bool = True) -> ShrinkageFit:
        labels, order = file.whole("labels"), file.whole("order")
        lean, keep, deviations = (file.numbers(name) for name in ("lean", "keep", "spread"))
        cells, totals = file.measurement(file.domain.size), file.measurement(len(lean))
        _check_each_measured(totals, len(lean))  # before a stranger's equations are solved
        of_totals = LinearFit.of_answers(totals)
        return cls(labels, order, of_totals, cells, lean, keep, deviations, together, file.possible)


def _check_each_measured(measured: Measurement, rows: int) -> None:
    """Refuse a measurement that is not one count per cell or bucket with equal noise."""
    if type(measured.queries) is not Identity or measured.queries.rows != rows or len(measured.noises) != 1:
        raise QueryError("cells and buckets are measured each by itself, all with the same noise")


@dataclass(frozen=True, eq=False)
class Counted:
    """Entries of groups' sums: group, weights (entries, sums), and number of cells that have these weights."""

    group: Codes
    weights: Floats
    count: Codes


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of buckets that groups touch, one array entry per pair of group and part.

    start, stop: cells of the part, in halving order.
    low, high: entries of `Sorted` with the group's weights on it, [low, high).
    value: weight of each of its cells' noise in the sums, from the bisections so far, (entries, sums).
    """

    group: Codes
    start: Codes
    stop: Codes
    low: Codes
    high: Codes
    value: Floats

    def some(self, which: Flags) -> Parts:
        """Restrict the parts by a boolean mask."""
        places = np.flatnonzero(which)
        return Parts(*(part[places] for part in vars(self).values()))

    def beside(self, others: Parts) -> Parts:
        """Interleave two lists of parts, so that both halves of a part stay adjacent in memory."""
        pairs = zip(vars(self).values(), vars(others).values(), strict=True)
        return Parts(*(np.stack(pair, axis=1).reshape(-1, *pair[0].shape[1:]) for pair in pairs))

    @property
    def counted(self) -> Counted:
        """Convert parts to entries of the groups' sums."""
        return Counted(self.group, self.value, self.stop - self.start)


@dataclass(frozen=True, eq=False)
class Sorted:
    """Weights of all groups, sorted by group and then by cell in halving order."""

    asked: Grouped
    cells: int

    @cached_property
    def key(self) -> Codes:
        """Sort keys: group * cells + cell."""
        return np.sort(self.asked.group * self.cells + self.asked.place)

    @cached_property
    def weights(self) -> Floats:
        """Weights in sorted order, (entries, sums)."""
        return self.asked.weights[np.argsort(self.asked.group * self.cells + self.asked.place)]

    @cached_property
    def sums(self) -> Floats:
        """Cumulative sums of the weights, (entries + 1, sums)."""
        return np.concatenate([np.zeros((1, self.asked.sums)), np.cumsum(self.weights, axis=0)])

    @cached_property
    def changes(self) -> Codes:
        """Cumulative number of changes of weights between consecutive entries, (entries,)."""
        changed = (self.weights[1:] != self.weights[:-1]).any(axis=1)
        return np.concatenate([[0], np.cumsum(changed)])

    def until(self, group: Codes, place: Codes) -> Codes:
        """Number of entries that precede given cells of given groups in sorted order."""
        return np.searchsorted(self.key, group * self.cells + place)

    def even(self, parts: Parts) -> Flags:
        """Whether the group fills each part with equal weights."""
        full = parts.high - parts.low == parts.stop - parts.start
        return np.asarray(full & (self.changes[parts.high - 1] == self.changes[parts.low]))


@dataclass(frozen=True, eq=False)
class Shrunk:
    """Noise weights and model error of the sums of each group.

    cells, buckets: weights of their noises.
    apart: model covariance if halvings err independently, (groups, sums, sums).
    together: model variance if halvings of one size are fully correlated, (groups, sums).
    """

    cells: Counted
    buckets: Counted
    apart: Floats
    together: Floats


def shrunk(asked: Grouped, sizes: Codes, halvings: Halvings, lean: Floats, keep: Floats, left_out: Floats) -> Shrunk:
    """Noise weights and model error of grouped sums, from buckets down to cells.

    asked: weights of the cells in halving order. sizes: (buckets,). lean: (buckets,). keep: (families,). left_out:
    standard deviation of each family's model error, (families,).
    """
    rows, groups, sums = Sorted(asked, int(sizes.sum())), asked.groups, asked.sums
    stops = np.cumsum(sizes)
    group, place = rows.key // rows.cells, rows.key % rows.cells
    bucket = np.searchsorted(stops, place, side="right")
    low = np.flatnonzero(np.append(True, (np.diff(group) != 0) | (np.diff(bucket) != 0))[: len(group)])
    high = np.append(low[1:], len(group))
    group, bucket = group[low], bucket[low]
    means = (rows.sums[high] - rows.sums[low]) / sizes[bucket, None]
    buckets = Counted(group, (1.0 - lean[bucket])[:, None] * means, np.ones_like(bucket))
    parts = Parts(group, stops[bucket] - sizes[bucket], stops[bucket], low, high, lean[bucket, None] * means)
    apart, heights = np.zeros((groups, sums, sums)), int(halvings.heights.max(initial=0)) + 1
    size_of_rest = np.zeros((heights * groups, sums))
    done: list[Counted] = []
    ends = np.searchsorted(halvings.depth[halvings.family], np.arange(int(halvings.depth.max(initial=-1)) + 2))
    for first, end in pairwise(ends):
        even = rows.even(parts)
        if even.any():
            done.append(parts.some(even).counted)
            parts = parts.some(~even)
        which = first + np.searchsorted(halvings.start[first:end], parts.start)
        middle, family = halvings.middle[which], halvings.family[which]
        between = rows.until(parts.group, middle)
        of_first, of_second = halvings.in_halves(which)
        contrasts = of_first * (rows.sums[between] - rows.sums[parts.low])
        contrasts -= of_second * (rows.sums[parts.high] - rows.sums[between])
        rest, kept = left_out[family, None] * contrasts, keep[family, None] * contrasts
        apart += squares_by_group(parts.group, groups, np.ones(len(rest)), rest)
        size_of_rest += summed(halvings.heights[which] * groups + parts.group, np.abs(rest), heights * groups)
        first_half = replace(parts, stop=middle, high=between, value=parts.value + of_first * kept)
        second_half = replace(parts, start=middle, low=between, value=parts.value - of_second * kept)
        halves = first_half.beside(second_half)
        touched = halves.high > halves.low
        done.append(halves.some(~touched).counted)
        parts = halves.some(touched)
    cells = [vars(one).values() for one in (*done, parts.counted)]
    together = (size_of_rest**2).reshape(heights, groups, sums).sum(axis=0)
    return Shrunk(Counted(*(np.concatenate(each) for each in zip(*cells, strict=True))), buckets, apart, together)
