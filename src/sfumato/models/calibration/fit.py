"""Fit with calibrated errors: the model's standard deviations times factors that were measured by kind of query.

A query is a weighted sum of cells. Its kind depends on how many attributes it restricts and how many cells it sums,
counted by weight as (sum |w|)^2 / sum w^2 (`Questions`).

`Scales` holds a factor for each kind that was measured: single cells (in groups by estimated rows), tiles and blocks of
neighbouring cells, single values of one attribute, pairs of values and ranges of two. Other queries interpolate between
the factor of cells and those of tiles and blocks, linearly in logarithms of factor and size, so that there are no
jumps; ranges of two attributes between that of pairs and that of ranges or, where these were not looked at, of larger
tiles and blocks, as neighbours are off in one direction. Cells estimated as empty get an additional variance for rows
hidden in them, which fades as more cells are summed.

`MeasuredFit` applies them. The claimed covariance M (sums, sums) of some sums is divided into the part S explained by
measured totals, marginals and block counts, which is known, and the rest R = M - S. With factors F = diag(f) and the
variances h of hidden rows,

    covariance = S + F R F + diag(h)   (off-diagonal correlations of R are kept)

so a query about nearly all rows has nearly the error of the total. The factors are estimated in
models/calibration/misfits_by_kind.py. Own method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np

from sfumato.answers.fit import (
    Arrays,
    ByGroup,
    ByModel,
    Errors,
    Fit,
    FitReader,
    Grouped,
    Inside,
    KnowsZeros,
    Sets,
    TotalByNoise,
    keep_in_parts,
    summed,
)
from sfumato.arrays import Codes, Flags, Floats, Whole
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.calibration.adjusted_fit import NO_NOISE, MovedFit, Spreading, Steadied
from sfumato.models.calibration.block_counts import BlockCounts
from sfumato.models.partition.coarse_contrasts import CoarseFit
from sfumato.models.partition.fit import PartitionFit
from sfumato.models.partition.shrinkage import ShrinkageFit
from sfumato.models.tree.fit import TreeFit
from sfumato.models.weights.fit import ScaledShape
from sfumato.plain_text import off_on_average

if TYPE_CHECKING:
    from sfumato.answers.guaranteed_sums import Runs
    from sfumato.answers.noise_sum import Find


@dataclass(frozen=True, eq=False)
class Questions:
    """Kinds of several weighted sums of cells.

    restricted: (sums,), number of attributes that each sum restricts to some of their values. cells: (sums,), effective
    number of cells summed. rows: (sums,), mean estimated rows of a summed cell.
    """

    restricted: Codes
    cells: Floats
    rows: Floats

    @classmethod
    def of_columns(cls, domain: Domain, columns: Floats, estimate: Floats, possible: Flags | None = None) -> Questions:
        """Classify sums by their weights on all cells, (cells, sums); estimate: (cells,).

        possible: flags of the cells that are no structural zeros, which alone are counted, (cells,).
        """
        sums = columns.shape[1]
        laid_out = (columns != 0.0).reshape(*domain.shape, sums)
        restricted = np.zeros(sums, dtype=np.int64)
        for axis, length in enumerate(domain.shape):
            others = tuple(place for place in range(len(domain.shape)) if place != axis)
            restricted += laid_out.any(axis=others).sum(axis=0) < length
        size = np.abs(columns if possible is None else columns * possible[:, None])
        return cls(restricted, *_sizes(size.sum(axis=0), (size**2).sum(axis=0), size.T @ estimate))

    @classmethod
    def of_groups(cls, domain: Domain, asked: Grouped, estimate: Floats, possible: Flags | None = None) -> Questions:
        """Classify the sums of every group of a GROUP BY, one group after the other.

        estimate, possible: (cells,), see `of_columns`. A sum that has weights common to all groups is classified by
        these alone.
        """
        restricted = np.zeros((asked.groups, asked.sums), dtype=np.int64)
        for axis, length in zip(domain, domain.shape, strict=True):
            along = domain.codes_along(axis.name, asked.place)
            for index in range(asked.sums):
                touched = asked.weights[:, index] != 0.0
                pairs = _distinct(asked.group[touched] * length + along[touched], asked.groups * length)
                restricted[:, index] += np.bincount(pairs // length, minlength=asked.groups) < length
        size = np.abs(asked.weights if possible is None else asked.weights * possible[asked.place, None])
        parts = [summed(asked.group, each, asked.groups) for each in (size, size**2)]
        parts.append(summed(asked.group, size * estimate[asked.place, None], asked.groups))
        if asked.whole is not None:
            common = cls.of_columns(domain, asked.whole, estimate, possible)
            everywhere = asked.whole.any(axis=0)
            restricted[:, everywhere] = common.restricted[everywhere]
            size = np.abs(asked.whole if possible is None else asked.whole * possible[:, None])
            for part, whole in zip(parts, (size, size**2, size * estimate[:, None]), strict=True):
                part[:, everywhere] = whole.sum(axis=0)[everywhere]
        return cls(restricted.reshape(-1), *_sizes(*(part.reshape(-1) for part in parts)))

    def some(self, part: slice) -> Questions:
        """Select a slice of the sums."""
        return Questions(self.restricted[part], self.cells[part], self.rows[part])


def _distinct(numbers: Codes, count: int) -> Codes:
    """Distinct ones of some numbers below `count`, ascending; without a sort where marking them takes less."""
    if count > 64 * len(numbers) + 2**16:
        return np.unique(numbers)
    seen = np.zeros(count, dtype=np.bool_)
    seen[numbers] = True
    return np.flatnonzero(seen)


def in_ways(questions: Questions, attributes: int) -> tuple[Flags, Flags]:
    """Flag queries that restrict one attribute of several, and those that restrict two of more: two (sums,) arrays."""
    single = (questions.restricted <= 1) & (attributes > 1)
    return single, (questions.restricted == 2) & (attributes > 2)


def _sizes(size: Floats, squares: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Effective number of cells (sum |w|)^2 / sum w^2, and mean rows of a cell, from sums of |w|, w^2 and |w| x."""
    there = squares > 0.0
    cells = np.divide(size**2, squares, out=np.ones_like(size), where=there)
    return np.maximum(cells, 1.0), np.divide(rows, size, out=np.zeros_like(rows), where=there)


EMPTY, FILLED, TILES, ONE_WAY, TWO_WAY, BLOCKS, TWO_RANGES = range(7)
WORDS = (
    "single cells estimated to hold fewer than {rows:.2g} rows",
    "single cells",
    "tiles of about {cells:,} cells",
    "single values of one attribute",
    "pairs of values of two attributes",
    "blocks of about {cells:,} cells",
    "ranges of two attributes, of about {cells:,} cells",
)
MOST_KINDS = 64
LARGEST = 2.0**50  # of a factor, and of an end


@dataclass(frozen=True, eq=False)
class Scales:
    """Measured error factors, one entry per kind of query and group.

    kinds: (n,), EMPTY to TWO_RANGES. ends: (n,), upper end of the group: rows of a cell, or log2 of the number of cells
    summed; ascending within a kind. factors: (n,), on claimed standard deviations; for EMPTY the standard deviation of
    hidden rows. errors: (n,), mean error in rows; where noise hides it, minus an upper bound of it (older files: 0).
    """

    kinds: Whole
    ends: Floats
    factors: Floats
    errors: Floats

    def __post_init__(self) -> None:
        kinds = np.array(self.kinds, dtype=np.int64)
        object.__setattr__(self, "kinds", kinds)
        keep_in_parts(self, "ends", "factors", "errors")
        arrays = self.ends, self.factors, self.errors
        if kinds.ndim != 1 or len(kinds) > MOST_KINDS or any(array.shape != kinds.shape for array in arrays):
            raise QueryError(f"measured errors come in at most {MOST_KINDS} kinds, with three numbers each")
        if len(kinds) and not 0 <= kinds.min() <= kinds.max() < len(WORDS):
            raise QueryError("errors of a kind of question were measured that Sfumato does not know")
        if len(kinds) and not (
            self.factors.min() >= 0.0 and all(np.abs(array).max() <= LARGEST for array in arrays[:2])
        ):
            raise QueryError("a factor on errors is neither negative nor beyond all measure")
        for kind in range(len(WORDS)):
            if (np.diff(self.ends[kinds == kind]) < 0.0).any():
                raise QueryError("groups of measured errors go from the least to the greatest")

    def of(self, questions: Questions, attributes: int) -> tuple[Floats, Floats]:
        """Factor on the standard deviation of every query, and variance of rows hidden in it, (sums,) each."""
        size = np.log2(questions.cells)
        sizes, factors = self._beyond_cells()
        fading = np.clip(1.0 - size / max(float(sizes[0]), 1.0), 0.0, 1.0) if len(sizes) else size == 0.0
        ends, hidden = self._kind(EMPTY)
        added = np.zeros(len(size))
        if len(hidden):
            group = np.minimum(np.searchsorted(ends, questions.rows, side="right"), len(hidden) - 1)
            added = np.where(questions.rows < ends[-1], hidden[group] ** 2 * fading, 0.0)
        result = self._of_cells(questions)
        if len(sizes):
            result = _between(size, result, sizes, factors)
        for kind, flags in zip((ONE_WAY, TWO_WAY), in_ways(questions, attributes), strict=True):
            own, theirs = self._kind(kind)
            if not len(theirs):
                continue
            result, added = np.where(flags, theirs[0], result), np.where(flags, 0.0, added)
            if kind == TWO_WAY:  # ranges are like tiles, not like pairs, unless they were looked at themselves
                looked = self._kind(TWO_RANGES)
                ends, those = looked if len(looked[0]) else (sizes, factors)
                if len(larger := ends[ends > own[0]]):
                    ranges = _between(size, result, larger, those[ends > own[0]], float(own[0]))
                    result = np.where(flags, ranges, result)
        return result, added

    def _of_cells(self, questions: Questions) -> Floats:
        """Factor of the group of cells with as many estimated rows as the query's cells have, (sums,)."""
        ends, factors = self._kind(FILLED)
        if not len(factors):
            return np.ones(len(questions.rows))
        return np.asarray(factors[np.minimum(np.searchsorted(ends, questions.rows), len(factors) - 1)])

    def _beyond_cells(self) -> tuple[Floats, Floats]:
        """Sizes (log2 cells) and factors of all kinds larger than a cell, ascending by size.

        Tiles first; blocks, pairs of values and ranges where they are larger than these.
        """
        sizes, factors = self._kind(TILES)
        for kind in (BLOCKS, TWO_WAY, TWO_RANGES):
            more, theirs = self._kind(kind)
            larger = more > sizes.max(initial=0.0)
            sizes, factors = np.concatenate([sizes, more[larger]]), np.concatenate([factors, theirs[larger]])
        return sizes, factors

    def _kind(self, kind: int) -> tuple[Floats, Floats]:
        """Upper ends and factors of the groups of one kind of query."""
        here = self.kinds == kind
        return self.ends[here], self.factors[here]

    @property
    def words(self) -> tuple[str, ...]:
        """A sentence on the mean error of each kind and group."""
        return tuple(map(self._in_words, range(len(self.kinds))))

    def _in_words(self, index: int) -> str:
        """A sentence on the mean error of one entry."""
        kind, end = int(self.kinds[index]), float(self.ends[index])
        what = WORDS[kind].format(
            rows=end, cells=round(2.0 ** min(max(end, 0.0), 62.0)) if kind in (TILES, BLOCKS, TWO_RANGES) else 0
        )
        if kind == FILLED:
            last = index + 1 == len(self.kinds) or self.kinds[index + 1] != FILLED
            what += " estimated to hold more rows" if last and (self.kinds == FILLED).sum() > 1 else ""
            what += "" if last else f" estimated to hold up to {end:.3g} rows"
        error = float(self.errors[index])
        return f"{what}: {off_on_average(error) if error > 0.0 else off_on_average(0.0, hidden=-error)}"

    def record(self) -> Arrays:
        """Arrays of the factors for a release file."""
        return {"kinds": self.kinds, "ends": self.ends, "factors": self.factors, "errors": self.errors}

    @classmethod
    def read(cls, file: FitReader) -> Scales:
        return cls(file.whole("kinds"), *(file.numbers(name) for name in ("ends", "factors", "errors")))


def _between(size: Floats, cells: Floats, sizes: Floats, factors: Floats, start: float = 0.0) -> Floats:
    """Interpolate factors between cells and larger sizes, linearly in log factor and log size.

    size: (sums,), log2 of cells summed. cells: (sums,), factors of single cells, or of sums of the size `start`. sizes,
    factors: (n,) of larger sums; beyond the largest size its factor holds.
    """
    logs = np.log2(np.maximum(np.concatenate([factors[:1], factors]), 1.0 / LARGEST))
    ends = np.concatenate([[start], np.maximum(sizes, start + 1e-9)])
    index = np.clip(np.searchsorted(ends, size, side="right") - 1, 0, len(ends) - 2)
    share = np.clip((size - ends[index]) / np.maximum(ends[index + 1] - ends[index], 1e-9), 0.0, 1.0)
    below = np.where(index == 0, np.log2(np.maximum(cells, 1.0 / LARGEST)), logs[index])
    return np.asarray(2.0 ** ((1.0 - share) * below + share * logs[index + 1]))


@dataclass(frozen=True, eq=False)
class Brought:
    """A fit with the one-way marginals and block counts with which it was updated, if any."""

    fit: Fit
    along: Steadied | None = None
    blocks: BlockCounts | None = None


@dataclass(frozen=True, eq=False)
class MeasuredFit(ByModel, KnowsZeros):
    """Fit whose model errors are scaled by measured factors.

    inner: the fit. scales: factors by kind of query. misfits: the measurements from which these were estimated.
    steadied, blocks: one-way marginals and block counts with which the fit was updated, if any. possible: flags of the
    cells that are no structural zeros, (cells,); None where there are none.
    """

    family = "measured"
    room = 4

    inner: Fit
    domain: Domain
    scales: Scales
    misfits: tuple[Measurement, ...]
    steadied: Steadied | None = None
    blocks: BlockCounts | None = None
    possible: Flags | None = None

    @classmethod
    def of_brought(
        cls,
        brought: Brought,
        domain: Domain,
        scales: Scales,
        misfits: tuple[Measurement, ...],
        possible: Flags | None = None,
    ) -> Self:
        """Calibrated fit from an updated fit and the factors measured for it."""
        return cls(brought.fit, domain, scales, misfits, brought.along, brought.blocks, possible)

    @property
    def of(self) -> str:
        return self.inner.of

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.scales.words)

    @property
    def estimate(self) -> Floats:
        return self.inner.estimate

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        along = self.steadied.measured if self.steadied else ()
        counted = (*along, self.blocks.measured) if self.blocks else along
        return (*self.inner.measurements, *counted, *self.misfits)

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        from sfumato.answers.guaranteed_sums import with_counts_along

        return with_counts_along(self.runs(), innermost(self.inner).guaranteed(domain, rows))

    def runs(self) -> list[Runs]:
        """Counts measured in addition to the fit's: one-way marginals, blocks and total, for guaranteed intervals."""
        from sfumato.answers.guaranteed_sums import Runs

        result = self.inner.runs() if isinstance(self.inner, MovedFit) else []
        if self.steadied is not None:
            along = self.steadied.along
            result += [
                Runs(along.labels(number), measurement) for number, measurement in enumerate(self.steadied.measured)
            ]
        return result if self.blocks is None else [*result, Runs(self.blocks.blocks.labels, self.blocks.measured)]

    def measured_inside(self, within: Sets) -> Inside | None:
        return self.inner.measured_inside(within)

    def errors(self, columns: Floats) -> Errors:
        errors = with_total(self.inner, columns)
        products = None if self.steadied is None else self.steadied.model.with_cells.T @ columns
        means = None if self.blocks is None else (self.blocks.means(columns), self.blocks.with_cells.T @ columns)
        questions = Questions.of_columns(self.domain, columns, self.estimate, self.possible)
        return self._scaled(errors, products, means, *self.scales.of(questions, len(self.domain.axes)))

    def errors_by_group(self, asked: Grouped) -> list[Errors] | None:
        """Calibrated errors of every group's sums; None where the inner fit cannot give them at once."""
        if not isinstance(self.inner, ByGroup):
            return None
        by_group = by_group_with_total(self.inner, asked, len(self.estimate))
        if by_group is None:
            return None
        questions = Questions.of_groups(self.domain, asked, self.estimate, self.possible)
        factors, hidden = self.scales.of(questions, len(self.domain.axes))
        products = None if self.steadied is None else self.steadied.products_by_group(asked)
        means = None if self.blocks is None else self.blocks.by_group(asked)
        result = []
        for group, errors in enumerate(by_group):
            own = slice(group * asked.sums, (group + 1) * asked.sums)
            along = None if products is None else products[group]
            blocks = None if means is None else (means[0][group], means[1][group])
            result.append(self._scaled(errors, along, blocks, factors[own], hidden[own]))
        return result

    def drawn_by_group(self, asked: Grouped) -> list[Floats] | None:
        """Part of the model covariances of every group's sums that noise caused, (sums, sums) each; None if unknown.

        All that measured counts explain (the total, marginals, blocks), and of the rest what the inner fit says.
        """
        errors = self.errors_by_group(asked)
        if errors is None:
            return None
        inner = innermost(self.inner)
        shares = inner.drawn_shares(asked) if isinstance(inner, Drawing) else np.zeros((asked.groups, asked.sums))
        roots = np.sqrt(np.maximum(shares, 0.0))
        return [
            one.drawn + root[:, None] * (one.model - one.drawn) * root
            for one, root in zip(errors, roots, strict=True)
            if one.drawn is not None
        ]

    def _scaled(
        self,
        errors: Errors,
        products: Floats | None,
        means: tuple[Floats, Floats] | None,
        factors: Floats,
        hidden: Floats,
    ) -> Errors:
        """Scale the unexplained part of the model covariance by the factors of the queries' kinds.

        errors: of the sums, with the total as last sum. products: (runs, sums), covariances with one-way runs.
        means: block means of the weights and covariances with blocks, (B, sums) each. factors, hidden: see `Scales.of`.
        """
        sure, residual = parts_of(errors.model, products, self.steadied, self.blocks, means)
        claimed = np.diagonal(residual)
        sizes = factors**2 * claimed + hidden
        stretch = np.sqrt(np.divide(sizes, claimed, out=np.zeros_like(sizes), where=claimed > 0.0))
        model = sure + stretch[:, None] * residual * stretch
        np.fill_diagonal(model, np.diagonal(sure) + sizes)
        return replace(errors, weights=errors.weights[:, :-1], model=model, unknown=errors.unknown[:-1], drawn=sure)

    def record(self, domain: Domain) -> Arrays:
        along = {} if self.steadied is None else self.steadied.record()
        blocks = {} if self.blocks is None else self.blocks.record()
        return {**self.inner.record(domain), **along, **blocks, **self.scales.record()}

    @classmethod
    def read_around(cls, file: FitReader, inner: Spreading) -> Self:
        """Read the calibration from a file around its inner fit."""
        along = Steadied.read(file, inner)
        blocks = BlockCounts.read(file, inner, along)
        return cls(inner, file.domain, Scales.read(file), file.others(), along, blocks, file.possible)


# -- file forms, one for each inner model


class MeasuredTree(MeasuredFit):
    """Calibrated posterior of a tree of counts (`TreeFit`)."""

    family = "measured-tree"
    room = TreeFit.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        return cls.read_around(file, TreeFit.read(file))


class MeasuredShape(MeasuredFit):
    """Calibrated learned shape (`ScaledShape`).

    The noise of its total is known; the size of every other error was measured.
    """

    family = "measured-shape"
    room = ScaledShape.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        inner = ScaledShape.read(file)
        return cls.read_around(file, MovedFit.read_around(file, inner) or inner)


class MeasuredShrinkage(MeasuredFit):
    """Calibrated shrinkage of noisy cells towards noisy bucket totals (`ShrinkageFit`).

    The noise is known; the bias of the shrinkage was measured.
    """

    family = "measured-nested"
    room = ShrinkageFit.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        found = ShrinkageFit.read(file, together=False)
        inner = CoarseFit.read_around(file, found) or found
        return cls.read_around(file, MovedFit.read_around(file, inner) or inner)


class MeasuredPartition(MeasuredFit):
    """Calibrated partition estimate (`PartitionFit`): bucket totals over a tree, divided evenly among cells.

    The variance within buckets was measured first, and then the error of the whole estimate.
    """

    family = "measured-regional"
    room = PartitionFit.room

    @classmethod
    def read(cls, file: FitReader) -> Self:
        inner = PartitionFit.read(file, file.domain)
        if not isinstance(inner.totals, TreeFit):
            raise QueryError("buckets whose errors were measured have totals over a tree")
        return cls.read_around(file, MovedFit.read_around(file, inner) or inner)


@runtime_checkable
class Drawing(Protocol):
    """Fit that can report which share of its error variance, given the total, is due to noise."""

    def drawn_shares(self, asked: Grouped) -> Floats:
        """Shares of the variances of every group's sums, (groups, sums)."""


def with_total(fit: Fit, columns: Floats) -> Errors:
    """Errors of weighted sums of cells (cells, sums), with the total as last sum."""
    if isinstance(fit, TotalByNoise):
        return _and_nothing(fit.errors(columns))
    return fit.errors(np.column_stack([columns, np.ones(len(columns))]))


def by_group_with_total(fit: ByGroup, asked: Grouped, cells: int) -> Sequence[Errors] | None:
    """Errors of every group's sums with the total as last sum; None where they are not available at once."""
    if isinstance(fit, MovedFit) and fit.whole is not None:
        return fit.with_all_rows(asked)
    if not isinstance(fit, TotalByNoise):
        return fit.errors_by_group(with_all_rows(asked, cells))
    errors = fit.errors_by_group(asked)
    return None if errors is None else [*map(_and_nothing, errors)]


def _and_nothing(errors: Errors) -> Errors:
    """Append to errors of sums a total that carries no model error."""
    weights = np.zeros((len(errors.weights), errors.weights.shape[1] + 1))
    weights[:, :-1] = errors.weights
    model = np.zeros((len(errors.model) + 1, len(errors.model) + 1))
    model[:-1, :-1] = errors.model
    return replace(errors, weights=weights, model=model, unknown=np.append(errors.unknown, False))


def with_all_rows(asked: Grouped, cells: int) -> Grouped:
    """Append the total of all cells as last sum of every group."""
    weights = np.column_stack([asked.weights, np.zeros(len(asked.weights))])
    whole = np.zeros((cells, asked.sums)) if asked.whole is None else asked.whole
    return replace(asked, weights=weights, whole=np.column_stack([whole, np.ones(cells)]))


def parts_of(
    model: Floats,
    products: Floats | None,
    steadied: Steadied | None,
    blocks: BlockCounts | None = None,
    means: tuple[Floats, Floats] | None = None,
) -> tuple[Floats, Floats]:
    """Split the covariance of sums into the part that measured counts explain, and the rest: (sums, sums) each.

    model: (sums + 1, sums + 1), with the total last; what goes with the total is explained by it. products: (runs,
    sums), covariances of the sums with one-way runs. means: block means of the weights and covariances with blocks, (B,
    sums) each.
    """
    if blocks is not None and means is not None:
        model, products = blocks.departing(model, products, *means)
    sure = np.zeros_like(model[:-1, :-1])
    if model[-1, -1] > NO_NOISE * float(np.diagonal(model).max()):
        sure = np.outer(model[:-1, -1], model[:-1, -1]) / model[-1, -1]
    residual = model[:-1, :-1] - sure
    if steadied is not None and products is not None:
        explained, less = steadied.parts(products)
        sure, residual = sure + explained, residual - less
    if blocks is not None and means is not None:
        sure = sure + blocks.of_means(means[0])
    np.fill_diagonal(residual, np.maximum(np.diagonal(residual), 0.0))  # rounding may leave nothing below zero
    return sure, residual


@runtime_checkable
class Around(Protocol):
    """Interface of fits that wrap another fit: updates, corrections, calibrations."""

    @property
    def inner(self) -> Fit: ...


def innermost(fit: Fit) -> Fit:
    """Unwrap all updates and calibrations of a fit."""
    while isinstance(fit, Around):
        fit = fit.inner
    return fit
