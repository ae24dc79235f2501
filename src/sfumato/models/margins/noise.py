"""Marginals with the errors of their cells and blocks, and the covariances of the sums that a query asks for.

`Marginals` has the tables and their error model: an independent component for each set of attributes, for cells and for
blocks (table.py, scales.py). `JoinedNoise` turns the error model of a joined table into covariances by group.

Reach (`longest_reach`, `longest_tail`): quantiles of sums of a few noises in standard errors, where sums of many are
taken as normal; Laplace noise has longer tails, and narrow discrete noise has steps.

Structural zeros (`PossibleNoise`). Where a question names an attribute and one that follows from it, the coarser is no
axis of its own (`table.Narrowed`): its values are classes of the finer one's. An impossible cell holds 0 whatever
weight it has in a sum, so the error variance of a sum is at most the least over all such weights (conditioning of
normal errors on those that are known to be 0); `PossibleNoise` takes the smaller of two: weights as asked, and none on
impossible cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from itertools import combinations
from math import ceil, inf, prod, sqrt
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from sfumato.answers.evaluate import NoiseSource, Sum, Terms, distinct_ends
from sfumato.answers.fieller import NormalErrors
from sfumato.answers.fit import PARTS
from sfumato.answers.noise_sum import half_width
from sfumato.answers.question import ByStatistic, Gathered, Groups, Weights
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.structural import MOST_CELLS
from sfumato.frozen import dataclass
from sfumato.least_squares.base import LeastSquares
from sfumato.least_squares.closed_forms import FEW_CELLS
from sfumato.least_squares.general import of_normal
from sfumato.measurement import Gaussian, Laplace, Measurement, Noise
from sfumato.models.margins.guaranteed import WIDE
from sfumato.models.margins.joining import level_of
from sfumato.models.margins.scales import LEVELS, Spreads, bends, bent, halved, measure_of, mixed_sizes, shape_of
from sfumato.models.margins.table import (
    Coarse,
    JoinedErrors,
    Narrowed,
    Noisy,
    Places,
    SumWeights,
    Table,
    pooled,
    product_of,
    subsets,
    sum_kinds,
    sum_out,
)
from sfumato.queries import Identity
from sfumato.releases.contents.content import ContentOfCells
from sfumato.schema import Schema

Methods = tuple[tuple[int, int], ...]  # for each measurement: contrasts up to so many values, and the length of rows
MOST_GUESSED = 2**14  # values of guesses that a manifest has room for

MOST_TOLD_APART = 2**20  # cells, times sets of attributes, up to which it is said which set's model matters most
NOTHING = 1e-9  # of the largest weight: what is left of weights that cancel


@dataclass(frozen=True, eq=False)
class ErrorsOf:
    """Covariance models of one statistic: noise, model error, and components without any measurement."""

    noise: JoinedErrors
    model: JoinedErrors
    unknown: JoinedErrors


@dataclass(frozen=True, eq=False)
class JoinedNoise(NoiseSource):
    """Errors of all statistics of a joined table. names: of its axes; kinds: class of every value of an attribute.

    errors_of: error model of each statistic, made on first use. recurs: component of a statistic's model errors that
    the other periods of a series share; None where that is unknown.
    """

    names: tuple[str, ...]
    kinds: Mapping[str, Codes]
    shape: tuple[int, ...]
    errors_of: Mapping[str, Callable[[], ErrorsOf]]
    recurs: Callable[[str, JoinedErrors], JoinedErrors] | None = None
    lags: Floats | None = None
    known: dict[str, ErrorsOf] = field(default_factory=dict)  # as they are asked for

    def errors(self, of: str) -> ErrorsOf:
        """Error model of a statistic."""
        if of not in self.known:
            self.known[of] = self.errors_of[of]()
        return self.known[of]

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """Noise and model error terms of the sums of every group; None for a group with an unmeasured component."""
        columns, answer = distinct_ends(sides)
        axes, where = self._grouping(groups)
        noise, model = (np.zeros((len(groups.present), len(columns), len(columns))) for _ in range(2))
        unknown = np.zeros(len(groups.present), dtype=bool)
        for of, split, whole in self._asked(columns):
            errors = self.errors(of)
            noise += errors.noise.covariances(split, whole, axes)[where]
            model += errors.model.covariances(split, whole, axes)[where]
            if errors.unknown.variances:
                largest = max(float(np.abs(w).max()) for w in (*split, *whole) if w is not None)
                left = np.broadcast_to(errors.unknown.covariances(split, whole, axes)[where], noise.shape)
                unknown |= (np.diagonal(left, axis1=1, axis2=2) > (NOTHING * largest) ** 2).any(axis=1)
        return NormalErrors(noise, model, unknown, np.array(answer))

    def recurring(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Floats | None:
        if self.recurs is None:
            return None
        columns, answer = distinct_ends(sides)
        axes, where = self._grouping(groups)
        result = np.zeros((len(groups.present), len(columns), len(columns)))
        for of, split, whole in self._asked(columns):
            result += self.recurs(of, self.errors(of).model).covariances(split, whole, axes)[where]
        return result[:, answer][:, :, answer]

    def _grouping(self, groups: Groups) -> tuple[Places, tuple[Codes, ...]]:
        """Axes by which groups are made, and where every present group stands along them."""
        axes = tuple(sorted(self.names.index(name) for name in groups.names if name in self.names))
        return axes, tuple(self.kinds[self.names[axis]][groups.code(self.names[axis])] for axis in axes)

    def _asked(self, columns: Sequence[tuple[Sum, str]]) -> Iterator[tuple[str, SumWeights, SumWeights]]:
        """Statistics with nonzero weight in some sums, with the weights on a group's cells and on all cells."""
        for of in self.errors_of:
            split = [self._weights(side.split, of, end) for side, end in columns]
            whole = [self._weights(side.whole, of, end) for side, end in columns]
            if any(weights is not None for weights in (*split, *whole)):
                yield of, split, whole

    def _weights(self, by_statistic: ByStatistic, of: str, end: str) -> Floats | None:
        """Weights of one statistic at one end of its interval, in the shape of the table; None for none."""
        weights = by_statistic.get(of)
        return None if weights is None else np.asarray(getattr(weights, end), dtype=np.float64).reshape(self.shape)

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        """Attributes whose joint table contributes most to the model's variance of a sum, over all groups.

        None where there is no model error, or where it would take long to compute.
        """
        axes = tuple(sorted(self.names.index(name) for name in groups.names if name in self.names))
        shares: dict[tuple[int, ...], float] = {}
        for of in self.errors_of:
            split, whole = (self._weights(kind, of, "value") for kind in (side.split, side.whole))
            if split is None and whole is None:
                continue
            errors = self.errors(of)
            parts = {places: variances for places, variances in errors.model.variances.items() if variances.any()}
            if len(parts) * prod(self.shape) > MOST_TOLD_APART:
                continue
            for places, variances in parts.items():
                blocks = [
                    Coarse(scale.shares, {places: scale.variances[places]})
                    for scale in errors.model.coarse
                    if places in scale.variances
                ]
                alone = replace(errors.model, variances={places: variances}, apart={}, coarse=blocks)
                variance = float(alone.covariances([split], [whole], axes)[..., 0, 0].sum())
                shares[places] = shares.get(places, 0.0) + variance
        if not shares or max(shares.values()) <= 0.0:
            return None
        return tuple(self.names[place] for place in max(shares, key=lambda places: shares[places]))


@dataclass(frozen=True, eq=False)
class Marginals(ContentOfCells):
    """Marginal tables by statistic and axes; () is the total, and every attribute has a one-way table.

    spreads: overdispersion of sets without a table, by statistic. measured: all noisy answers, with the axes of each.
    unbiased: tables are as measured, may be negative, and are joined by adding ANOVA components; components of no table
    are then unknown. asked: method of each measurement (`Methods`), empty if all are cell by cell. guessed: number of
    all rows and one-way margins, with whose products the first misfits compare pairs, for guaranteed intervals. shared:
    by axes, where estimates borrow from other periods (borrowing.py), covariance by cell of two periods' errors, mean
    over pairs of periods. lags: ratio of the covariance at each lag to that mean, of all pairs of axes, (periods,).
    """

    uses: ClassVar[frozenset[str]] = frozenset({"details"})
    compared: ClassVar[str] = "cells of two columns"

    schema: Schema
    tables: Mapping[str, Mapping[Places, Table]]
    spreads: Mapping[str, Spreads] = field(default_factory=dict)
    measured: tuple[tuple[Places, Measurement], ...] = ()
    unbiased: bool = False
    asked: Methods = ()
    guessed: tuple[Floats, ...] = ()
    shared: Mapping[Places, Floats] = field(default_factory=dict)
    lags: Floats | None = None

    def __post_init__(self) -> None:
        """Round to the digits of a file, so that answers are the same before and after it."""
        tables = {of: {p: table.rounded() for p, table in every.items()} for of, every in self.tables.items()}
        object.__setattr__(self, "tables", tables)
        object.__setattr__(self, "spreads", {of: each.rounded() for of, each in self.spreads.items()})
        if sum(map(len, self.guessed)) > MOST_GUESSED:
            object.__setattr__(self, "guessed", ())

    @cached_property
    def noisy(self) -> Mapping[Places, Noisy]:
        """Noisy counts of one and two attributes, pooled over all measurements of cells that contain them."""
        listed, shape = [], self.domain.shape
        for places, one in self.measured:
            sizes = [shape[place] for place in places]
            if one.of == "count" and places and isinstance(one.queries, Identity) and len(one.answers) == prod(sizes):
                listed.append((places, (one.answers.astype(np.float64).reshape(sizes), one.noise.continuous_variance)))
        sets = {part for places, _ in listed for order in (1, 2) for part in combinations(places, order)}
        return {places: pooled(listed, places) for places in sorted(sets)}

    def errors(
        self, of: str, kinds: Mapping[int, Codes], joined: Mapping[str, Floats], *, single: bool = False
    ) -> ErrorsOf:
        """Error model of one statistic along some axes, by classes of values.

        joined: joined estimates of all statistics. single: without errors of blocks, which hardly reach single cells.
        """
        places, counts = tuple(kinds), np.maximum(joined["count"], 0.0)
        noise: dict[Places, Floats] = {}
        model: dict[Places, Floats] = {}
        unknown: dict[Places, Floats] = {}
        levelled = of == "count" and not self.unbiased
        apart: dict[str, dict[int, Floats]] = {"noise": {}, "model": {}}
        for part in subsets(tuple(range(len(places)))):
            within = tuple(places[axis] for axis in part)
            table = self.tables[of].get(within)
            if table is not None:
                summed = table.summed(kinds)
                noise[part], model[part] = summed.noise, summed.model
                if levelled and len(part) == 1:
                    loose = table.errors_of(table.estimate <= 0.0).summed(kinds)
                    noise[part], model[part] = summed.noise - loose.noise, summed.model - loose.model
                    apart["noise"][part[0]], apart["model"][part[0]] = loose.noise, loose.model
            elif self.unbiased:
                unknown[part] = np.ones([joined["count"].shape[axis] for axis in part])
            else:
                spread = self.spreads[of].of(within) if of in self.spreads else 0.0
                model[part] = spread * sum_out(counts, part, range(len(places)))
        bases = tuple(self._base(place, kinds[place]) for place in places)
        one_way = self.tables["count"]
        shifts = (sum_kinds(level_of(one_way[place,].estimate), [kinds[place]]) for place in places)
        levels = tuple(shifts) if levelled else None
        by_noise, by_model = ([], []) if single else self._of_blocks(of, kinds)
        return ErrorsOf(
            JoinedErrors(bases, noise, levels, apart["noise"], by_noise),
            JoinedErrors(bases, model, levels, apart["model"], by_model),
            JoinedErrors(bases, unknown),
        )

    def _recurring(self, kinds: Mapping[int, Codes], of: str, model: JoinedErrors) -> JoinedErrors:
        """Part of the model errors that recurs in all periods of a series, which differences between periods cancel.

        kinds: by attribute, the class of every value. of: the statistic. model: its model errors.
        """
        from sfumato.answers.parts import RECURS

        places, shares = tuple(kinds), dict[Places, Floats]()
        for part in subsets(tuple(range(len(places)))):
            within = tuple(places[axis] for axis in part)
            shares[part] = np.full((), RECURS)
            if of == "count" and within in self.shared:
                both = (self.shared[within], self.tables[of][within].model)
                common, whole = (sum_kinds(each, [kinds[place] for place in within]) for each in both)
                shares[part] = np.minimum(common / np.maximum(whole, 1e-300), 1.0)
        means = {part: float(share.mean()) for part, share in shares.items()}
        coarse = tuple(Coarse(e.shares, {p: means[p] * v for p, v in e.variances.items()}) for e in model.coarse)
        variances = {part: shares[part] * each for part, each in model.variances.items()}
        apart = {axis: means[axis,] * each for axis, each in model.apart.items()}
        return replace(model, variances=variances, apart=apart, coarse=coarse)

    def _of_blocks(self, of: str, kinds: Mapping[int, Codes]) -> tuple[list[Coarse], list[Coarse]]:
        """Errors of blocks of cells by scale, from noise and from the model: halves, quarters and finer, stripes."""
        places = tuple(kinds)
        by_part = {
            part: self.block_variances(of, tuple(places[axis] for axis in part))
            for part in subsets(tuple(range(len(places))))
        }
        result: tuple[list[Coarse], list[Coarse]] = ([], [])
        for level in range(LEVELS) if any(by_part.values()) else ():
            shares = tuple(self.share_of_blocks(attribute, kinds[attribute], level) for attribute in places)
            here = {
                part: (noise, model)
                for part, every in by_part.items()
                for levels, noise, model in every
                if {*levels} == {level}
            }
            result[0].append(Coarse(shares, {part: noise for part, (noise, _) in here.items()}))
            result[1].append(Coarse(shares, {part: model for part, (_, model) in here.items()}))
        for part, every in by_part.items():
            for levels, _, model in every:
                if len({*levels}) > 1:
                    shares = tuple(
                        self.share_of_blocks(attribute, kinds[attribute], levels[part.index(axis)])
                        if axis in part
                        else np.zeros((0, 0))
                        for axis, attribute in enumerate(places)
                    )
                    result[0].append(Coarse(shares, {}))
                    result[1].append(Coarse(shares, {part: model}))
            found = self.bent(of, tuple(places[axis] for axis in part))
            if found is not None:
                of_axes = dict(zip(part, found[:2], strict=True))
                shares = tuple(
                    sum_kinds(of_axes[axis].T, [kinds[attribute]]).T if axis in of_axes else np.zeros((0, 0))
                    for axis, attribute in enumerate(places)
                )
                result[0].append(Coarse(shares, {}))
                result[1].append(Coarse(shares, {part: found[2]}))
        return result

    def bent(self, of: str, places: Places) -> tuple[Floats, Floats, Floats] | None:
        """Polynomial bends of both axes of a pair (`scales.bends`), and error variances of their products; or None."""
        if len(places) != 2 or places not in self.tables[of] or self._by_rows or not self.block_variances(of, places):
            return None
        if (of, places) not in self._known_bends:
            first, second = map(self._bends_of, places)
            self._known_bends[of, places] = first, second, bent(self.tables[of][places].estimate, first, second)
        found = self._known_bends[of, places]
        return found if found[2].size else None

    def _bends_of(self, place: int) -> Floats:
        """Bends of an attribute (`scales.bends`)."""
        if place not in self._known_bends_of:
            self._known_bends_of[place] = bends(self._rows_of[place], self._measures[place])
        return self._known_bends_of[place]

    @cached_property
    def _known_bends_of(self) -> dict[int, Floats]:
        """Results of `_bends_of` so far."""
        return {}

    @cached_property
    def _known_bends(self) -> dict[tuple[str, Places], tuple[Floats, Floats, Floats]]:
        """Results of `bent` so far, by statistic and axes."""
        return {}

    def block_variances(self, of: str, places: Places) -> list[tuple[Places, Floats, Floats]]:
        """Variances of the blocks of a set of axes at every scale: level of each axis, from noise and from the model.

        A spread is that of a whole block, so what finer blocks and cells contribute is subtracted. Scales are those of
        halves, quarters and finer along all axes, and then stripes: values of one axis with halves of the other, which
        carry no noise of their own.
        """
        if (of, places) not in self._known_blocks:  # stored when it is whole, as other threads may ask too
            self._known_blocks[of, places] = self._block_variances(of, places)
        return self._known_blocks[of, places]

    def _block_variances(self, of: str, places: Places) -> list[tuple[Places, Floats, Floats]]:
        result: list[tuple[Places, Floats, Floats]] = []
        scaled = self.spreads.get(of, Spreads()).of_blocks(places) if len(places) > 1 else None
        if scaled is None:
            return result
        for level in range(min(LEVELS, len(scaled.noise))):
            levels = (level,) * len(places)
            rows = self._in_blocks(of, places, levels)
            noise, model = scaled.noise[level], scaled.model[level]
            if level < len(scaled.noise) - 1:
                less = sum(scaled.stripes) if not level else 0.0
                finer = scaled.noise[level + 1], scaled.model[level + 1] + less
                result.append((levels, (noise - finer[0]) * rows, (model - finer[1]) * rows))
            else:
                of_cells = self._errors_in_blocks(of, places, levels)
                result.append((levels, noise * rows - of_cells[0], model * rows - of_cells[1]))
        for fine, spread in enumerate(scaled.stripes):
            levels = tuple(LEVELS if axis == fine else 0 for axis in range(len(places)))
            rows = self._in_blocks(of, places, levels)
            result.append((levels, np.zeros(rows.shape), spread * rows))
        return result

    def _in_blocks(self, of: str, places: Places, levels: Places) -> Floats:
        """Sizes of blocks, with which their errors grow (`scales.sizes_of`); rows for three axes and in older files."""
        if (of, places, levels) not in self._known_sizes:
            self._known_sizes[of, places, levels] = self._sizes_of_blocks(of, places, levels)
        return self._known_sizes[of, places, levels]

    @cached_property
    def _known_sizes(self) -> dict[tuple[str, Places, Places], Floats]:
        """Results of `_in_blocks` so far."""
        return {}

    def _sizes_of_blocks(self, of: str, places: Places, levels: Places) -> Floats:
        if len(places) == 2 and max(levels) < LEVELS - 1:  # blocks of a pair add up, which is faster
            finest = self._in_blocks(of, places, (LEVELS - 1,) * len(places))
            return sum_kinds(finest, [self._nested(*at) for at in zip(places, levels, strict=True)])
        table, total = self.tables[of].get(places), float(self.tables["count"][()].estimate)
        every = [self._shares_in_blocks(*at) for at in zip(places, levels, strict=True)]
        rows, even = zip(*every, strict=True)
        blocks = self._blocks_at(places, levels)
        held = product_of(rows, total) if table is None else sum_kinds(table.estimate, blocks)
        if self._by_rows or len(places) > 2:
            return held
        tilted = [sum_kinds(shape, [block]) for shape, block in zip(self._shapes(places), blocks, strict=True)]
        return mixed_sizes(held, product_of(even, total), product_of(tilted, total))

    def _nested(self, place: int, level: int) -> Codes:
        """Block at a level of each of the smallest blocks of an axis."""
        if (place, level) not in self._known_nested:
            smallest = np.unique(self.blocks[place][LEVELS - 1], return_index=True)[1]
            self._known_nested[place, level] = self.blocks[place][level][smallest]
        return self._known_nested[place, level]

    @cached_property
    def _known_nested(self) -> dict[tuple[int, int], Codes]:
        """Results of `_nested` so far."""
        return {}

    def _blocks_at(self, places: Places, levels: Places) -> list[Codes]:
        return [self.blocks[place][level] for place, level in zip(places, levels, strict=True)]

    def _shapes(self, places: Places) -> list[Floats]:
        """Weights of each axis's values, larger where a pair is dependent (`scales.shape_of`); mean over pairs."""
        if places not in self._known_shapes:
            of_pairs: list[list[Floats]] = [[] for _ in places]
            for first, second in combinations(range(len(places)), 2):
                pair = places[first], places[second]
                table = self.tables["count"].get(pair)
                found = shape_of([self._measures[place] for place in pair], None if table is None else table.estimate)
                for axis, shape in zip((first, second), found, strict=True):
                    of_pairs[axis].append(shape)
            self._known_shapes[places] = [each[0] if len(each) == 1 else np.mean(each, axis=0) for each in of_pairs]
        return self._known_shapes[places]

    @cached_property
    def _known_shapes(self) -> dict[Places, list[Floats]]:
        """Results of `_shapes` so far."""
        return {}

    def _errors_in_blocks(self, of: str, places: Places, levels: Places) -> tuple[Floats, Floats]:
        """Noise and model variances that the cells of the blocks of some axes add up to."""
        if (table := self.tables[of].get(places)) is not None:
            blocks = self._blocks_at(places, levels)
            return sum_kinds(table.noise, blocks), sum_kinds(table.model, blocks)
        every = [self._shares_in_blocks(*at)[0] for at in zip(places, levels, strict=True)]
        rows = product_of(every, float(self.tables["count"][()].estimate))  # as if the axes were independent
        return np.zeros(rows.shape), self.spreads[of].of(places) * rows

    def _shares_in_blocks(self, place: int, level: int) -> tuple[Floats, Floats]:
        """Shares of the blocks of one axis in its rows, and in the measure that halves it (`scales.measure_of`)."""
        if (place, level) not in self._known_shares:
            block, total = [self.blocks[place][level]], float(self.tables["count"][()].estimate)
            rows = sum_kinds(total * self._rows_of[place], block)
            self._known_shares[place, level] = rows / max(total, 1e-9), sum_kinds(self._measures[place], block)
        return self._known_shares[place, level]

    @cached_property
    def _known_shares(self) -> dict[tuple[int, int], tuple[Floats, Floats]]:
        """Results of `_shares_in_blocks` so far."""
        return {}

    @cached_property
    def _known_blocks(self) -> dict[tuple[str, Places], list[tuple[Places, Floats, Floats]]]:
        """Results of `block_variances` so far, by statistic and axes."""
        return {}

    @cached_property
    def _rows_of(self) -> list[Floats]:
        """Share of all rows of each value, for every attribute."""
        return [self._base(place, np.arange(size)) for place, size in enumerate(self.domain.shape)]

    @cached_property
    def blocks(self) -> list[list[Codes]]:
        """Dyadic blocks of each attribute's values by level, and last every value by itself."""
        margins = [self.tables["count"][place,].estimate for place in range(len(self.domain.shape))]
        return [[*halved(margin, by_rows=self._by_rows), np.arange(len(margin))] for margin in margins]

    @cached_property
    def _measures(self) -> list[Floats]:
        """Measure (`scales.measure_of`) by which each attribute's values are halved."""
        return [measure_of(self.tables["count"][place,].estimate) for place in range(len(self.domain.shape))]

    @cached_property
    def _by_rows(self) -> bool:
        """Whether axes are halved by rows alone, as in older files with fewer levels."""
        known = [(*each.blocks.values(), *each.blocks_by_order.values()) for each in self.spreads.values()]
        levels = {len(scaled.noise) for blocks in known for scaled in blocks}
        return bool(levels) and max(levels) < LEVELS

    def share_of_blocks(self, axis: int, kind: Codes, level: int) -> Floats:
        """Share of each class of values in the rows of each block of an attribute, (blocks, classes)."""
        blocks = self.blocks[axis][level]
        number, kinds = int(blocks.max()) + 1, int(kind.max()) + 1
        held = np.bincount(blocks * kinds + kind, self._rows_of[axis], number * kinds).reshape(number, kinds)
        return np.asarray(held / np.maximum(held.sum(axis=1, keepdims=True), 1e-300))

    def _base(self, axis: int, kind: Codes) -> Floats:
        """Weights that spread a coarser table's error along an axis: row shares, uniform if unbiased, (classes,)."""
        if self.unbiased:
            return np.bincount(kind) / len(kind)
        rows = sum_kinds(np.maximum(self.tables["count"][axis,].estimate, 0.0), [kind])
        total = rows.sum()
        return rows / total if total > 0 else np.bincount(kind) / len(kind)


FEW = (1, 2, 3, 4, 6, 9)  # noises in a sum


@lru_cache(maxsize=256)
def longest_reach(noises: frozenset[Noise], confidence: float) -> float:
    """Largest quantile, in standard errors, of |sum| of a few noises of one kind at a confidence.

    >>> from fractions import Fraction; from sfumato.measurement import Laplace
    >>> round(longest_reach(frozenset({Laplace(Fraction(50))}), 0.95), 2)
    2.12
    >>> round(longest_reach(frozenset({Laplace(Fraction(2, 5))}), 0.95), 2)
    2.62
    """
    longest = longest_tail(noises, confidence)
    return 0.0 if longest is None else _reach_of_few(*longest, confidence)


@lru_cache(maxsize=256)
def longest_tail(noises: frozenset[Noise], confidence: float) -> tuple[Noise, int] | None:
    """Noise and number of summands whose sum has the largest quantile in standard errors; None if no noise is given.

    Quantiles are computed in order of their upper bounds, largest first, until no other can be larger.
    """
    widest = max((noise for noise in noises if isinstance(noise, Laplace)), key=lambda one: one.scale, default=None)
    sums = [(_most_reach(noise, many, confidence, widest), noise, many) for noise in noises for many in FEW]
    longest: tuple[float, float, int] = -inf, 0.0, 0
    found: tuple[Noise, int] | None = None
    for bound, noise, many in sorted(sums, key=lambda one: -one[0]):
        if bound < longest[0] - NOTHING:
            break
        reach = _reach_of_few(noise, many, confidence), noise.variance, -many
        if found is None or reach > longest:
            longest, found = reach, (noise, many)
    return found


def _most_reach(noise: Noise, many: int, confidence: float, widest: Laplace | None) -> float:
    """Upper bound of the quantile of |sum| of several noises in standard errors.

    Laplace noise is the difference of two exponential variables rounded down, so a sum of n is within n of one of
    continuous noises, whose quantile grows with the scale: that of the widest bounds the others. Of Gaussian noise see
    `guaranteed._reach`.
    """
    deviation = sqrt(noise.variance * many)
    if isinstance(noise, Laplace) and widest is not None and noise.scale >= 1 and many > 1:
        continuous = _reach_of_few(widest, many, confidence) * sqrt(widest.variance * many) + many
        return (float(noise.scale / widest.scale) * continuous + many) / deviation
    if isinstance(noise, Gaussian) and noise.sigma_squared >= WIDE:
        return ceil(-NormalDist().inv_cdf((1.0 - confidence) / 2.0) * deviation - 0.5 + NOTHING) / deviation
    return _reach_of_few(noise, many, confidence)


@lru_cache(maxsize=4096)
def _reach_of_few(noise: Noise, many: int, confidence: float) -> float:
    """Quantile of |sum| of several noises in standard errors, at a confidence."""
    deviation = sqrt(noise.variance * many)
    return half_width([(1.0, noise, many)], confidence) / deviation if deviation > 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class PossibleNoise(NoiseSource):
    """Errors of a joined table with structural zeros. cut: whether its impossible cells were only left out.

    inner: errors of the table, or of the narrowed one. names, kinds: axes of the question and classes of their values.
    possible: flags of the possible cells of inner's table, flat; None where all are.
    """

    inner: JoinedNoise
    names: Mapping[int, str]
    kinds: Mapping[int, Codes]
    possible: Flags | None
    narrowed: Narrowed | None
    cut: bool = False

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """Error terms of each group, of weights as asked or without impossible cells: those with the less variance."""
        result: list[Terms] = [()] * len(groups.present)
        for chosen, inside, some in self._by_key(groups):
            listed = [] if self.cut and self.possible is not None else [self._sides(sides, inside)]
            if self.possible is not None:
                listed.append(self._sides(sides, self.possible if inside is None else self.possible & inside))
            found = [self.inner.terms(each, cells, some) for each in listed]
            for number, each in zip(chosen.tolist(), zip(*found, strict=True), strict=True):
                result[number] = min(each, key=_variance)
        return result

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        (inner,), known = self._sides([side], None), [name for name in groups.names if name in self.inner.names]
        if len(known) < len(groups.names):
            return None
        return self.inner.largest_model_part(inner, groups)

    def _sides(self, sides: Sequence[Sum], inside: Flags | None) -> list[Sum]:
        """Sums with weights on inner's cells, 0 on those that are not inside."""
        made: dict[int, Floats] = {}

        def moved(weights: Floats) -> Floats:
            if id(weights) not in made:
                every = np.asarray(weights, dtype=np.float64)
                every = every if self.narrowed is None else every[self.narrowed.cells.reshape(-1)]
                made[id(weights)] = every if inside is None else every * inside
            return made[id(weights)]

        def each(parts: ByStatistic) -> ByStatistic:
            return {of: Weights(moved(w.value), moved(w.low), moved(w.high)) for of, w in parts.items()}

        return [replace(side, split=each(side.split), whole=each(side.whole)) for side in sides]

    def _by_key(self, groups: Groups) -> list[tuple[Codes, Flags | None, Groups]]:
        """Group the present groups by their values of attributes that are functions of one not grouped by.

        Each: numbers of the groups, flags of inner's cells with these values, and the groups as inner knows them.
        """
        narrowed = self.narrowed
        every = np.arange(len(groups.present))
        if narrowed is None or not any(self.names[place] in groups.names for place in narrowed.roots):
            return [(every, None, groups)]
        size = {place: len(kind) for place, kind in self.kinds.items()}
        left = [place for place in narrowed.kinds if self.names[place] in groups.names]
        codes = {place: groups.code(self.names[place]) for place in left}
        keys = np.zeros(len(every), dtype=np.int64)
        fits = np.ones(len(every), dtype=bool)
        inside_of: list[tuple[int, Codes, Codes]] = []
        for place, (root, classes) in narrowed.roots.items():
            if self.names[place] not in groups.names:
                continue
            wanted = self.kinds[place][groups.code(self.names[place])]
            if root in left:  # the group is one of the finer attribute, or of none
                mine = classes[narrowed.kinds[root][codes[root]]]
                fits &= mine == wanted
            else:
                keys = keys * (int(classes.max(initial=0)) + 2) + wanted
                inside_of.append((root, classes, wanted))
        result: list[tuple[Codes, Flags | None, Groups]] = []
        axes = tuple(narrowed.kinds)
        for key in np.unique(keys[fits]).tolist():
            chosen = every[fits & (keys == key)]
            inside = np.ones(narrowed.cells.shape, dtype=bool)
            for root, classes, wanted in inside_of:
                along = [len(classes) if axis == root else 1 for axis in axes]
                inside &= (classes == wanted[chosen[0]]).reshape(along)
            shape = tuple(size[place] for place in left)
            present = np.zeros(len(chosen), dtype=np.int64)
            for place in left:
                present = present * size[place] + codes[place][chosen]
            result.append((chosen, inside.reshape(-1), Groups(tuple(self.names[p] for p in left), shape, present)))
        return result


@dataclass(frozen=True, eq=False)
class Linked:
    """Generalised least squares of unbiased tables given structural zeros.

    L: attributes that rules name, with possible cells l; C: a set of other attributes. The zeros tie residuals of
    tables T + C, T within L, to each other, and not to those of another C. With variances v and P_T centring along T,

        N_C = sum over T of P_T x 11^T / v_(T+C),    x_C = N_C^-1 (sum over T of residual_(T+C) / v_(T+C)),

    between possible cells l, for each contrast of C alike.

    shape: of the domain. places: L. cells: possible cells, (axes of L, cells). tables: residuals by statistic.
    """

    shape: tuple[int, ...]
    places: Places
    cells: Codes
    tables: Mapping[str, Mapping[Places, Table]]
    _kept: dict[tuple[str, Places], tuple[LeastSquares, Floats]] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: Schema, tables: Mapping[str, Mapping[Places, Table]]) -> Linked | None:
        """Least squares of some tables; None without rules, and where they link too many cells."""
        structure, shape = schema.structure, schema.domain.shape
        if structure is None or not structure.countable:
            return None
        places = tuple(sorted(structure.axes))
        flags = structure.possible(places)
        if flags is None or np.count_nonzero(flags) > FEW_CELLS:
            return None
        return cls(shape, places, np.stack(np.nonzero(flags)), tables)

    def fits(self, kinds: Mapping[int, Codes]) -> bool:
        """Whether a question is not about too many cells."""
        others = prod(int(kind.max()) + 1 for place, kind in kinds.items() if place not in self.places)
        return bool(others * self.cells.shape[1] <= MOST_CELLS)

    def fitted(self, of: str, beside: Places) -> tuple[LeastSquares, Floats]:
        """Solver N_C, and sum of residuals times precision, (cells, *values of C), of a set C of other attributes."""
        if (of, beside) not in self._kept:
            many = self.cells.shape[1]
            normal, weighed = np.zeros((many, many)), np.zeros((many, *(self.shape[place] for place in beside)))
            for part in subsets(tuple(range(len(self.places)))):
                own = [self.places[axis] for axis in part]
                table = self.tables[of].get(tuple(sorted((*own, *beside))))
                if table is None:
                    continue
                precision = 1.0 / max(float(table.noise.flat[0]), (0.5 / PARTS) ** 2)  # as rounding leaves
                product = np.full((many, many), precision)
                for axis in part:
                    codes = self.cells[axis]
                    product *= (codes[:, None] == codes) - 1.0 / self.shape[self.places[axis]]
                normal += product
                front = np.moveaxis(table.estimate, [table.places.index(place) for place in own], range(len(own)))
                weighed += precision * front[tuple(self.cells[axis] for axis in part)]
            self._kept[of, beside] = of_normal(normal), weighed
        return self._kept[of, beside]

    def table(self, of: str, kinds: Mapping[int, Codes]) -> Floats:
        """Estimated table of a statistic along some axes, by classes of values; not estimable parts count as 0."""
        others = tuple(place for place in kinds if place not in self.places)
        bases = [np.bincount(kinds[place]) / len(kinds[place]) for place in others]
        cells = np.zeros((self.cells.shape[1], *map(len, bases)))
        for part in subsets(tuple(range(len(others)))):
            solver, weighed = self.fitted(of, tuple(others[axis] for axis in part))
            summed = sum_kinds(np.moveaxis(weighed, 0, -1), [kinds[others[axis]] for axis in part])
            solved = solver.solve(np.moveaxis(summed, -1, 0).reshape(len(cells), -1))[0]
            spread = solved.reshape(
                len(cells), *(len(bases[axis]) if axis in part else 1 for axis in range(len(others)))
            )
            for axis, base in enumerate(bases):
                if axis not in part:
                    spread = spread * base.reshape([-1 if each == axis + 1 else 1 for each in range(spread.ndim)])
            cells += spread
        result = np.zeros([int(kind.max()) + 1 for kind in kinds.values()])
        np.add.at(result.reshape(-1), self.index(kinds), cells.reshape(len(cells), -1))
        return result

    def index(self, kinds: Mapping[int, Codes]) -> Codes:
        """Cell of a table along some axes of each possible cell l and class of other axes, (cells, classes)."""
        sizes = {place: int(kind.max()) + 1 for place, kind in kinds.items()}
        others = [place for place in kinds if place not in self.places]
        along = dict(zip(others, np.indices([sizes[place] for place in others]), strict=True))
        index = np.zeros((self.cells.shape[1], prod(sizes[place] for place in others)), dtype=np.int64)
        for place, kind in kinds.items():
            own = (
                kind[self.cells[self.places.index(place)]][:, None]
                if place in self.places
                else along[place].reshape(-1)
            )
            index = index * sizes[place] + own
        return index


@dataclass(frozen=True, eq=False)
class LinkedNoise(NoiseSource):
    """Errors of sums by a `Linked` fit. kinds: class of every value of the axes of a question."""

    fit: Linked
    kinds: Mapping[int, Codes]

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """Normal errors of the sums of every group; unknown where the tables do not determine them."""
        columns, answer = distinct_ends(sides)
        index, many = self.fit.index(self.kinds), len(columns)
        group = groups.of_cells(cells)[index]
        noise, unknown = np.zeros((len(groups.present), many, many)), np.zeros(len(groups.present), dtype=bool)
        step = max(1, MOST_CELLS // (index.size * many))
        for of in self.fit.tables:
            split, whole = (
                np.stack([_of_side(getattr(side, kind), of, end, cells.size) for side, end in columns], axis=1)[index]
                for kind in ("split", "whole")
            )
            for start in range(0, len(groups.present) if split.any() or whole.any() else 0, step):
                here = slice(start, start + step)
                inside = group[:, :, None] == groups.present[here]
                weights = split[:, :, None, :] * inside[..., None] + whole[:, :, None, :]
                found, known = self._covariances(of, weights)
                noise[here] += found
                unknown[here] |= ~known
        return NormalErrors(noise, np.zeros_like(noise), unknown, np.array(answer))

    def _covariances(self, of: str, weights: Floats) -> tuple[Floats, Flags]:
        """Covariances of sums by group, and whether they are determined; weights: (cells, classes, groups, sums)."""
        others = [place for place in self.kinds if place not in self.fit.places]
        sizes = [np.bincount(self.kinds[place]).astype(np.float64) for place in others]
        small = NOTHING * np.abs(weights).max(initial=0.0)
        many, _, count, sums = weights.shape
        grid = weights.reshape(many, *map(len, sizes), count * sums)
        result, known = np.zeros((count, sums, sums)), np.ones(count, dtype=bool)
        for part in subsets(tuple(range(len(others)))):
            seen, scale = grid, np.ones(1)
            for axis, size in enumerate(sizes):
                mean = np.tensordot(seen, size / size.sum(), axes=(axis + 1, 0))
                mean = np.expand_dims(mean, axis + 1)
                seen = seen - mean if axis in part else mean
                scale = np.multiply.outer(scale, size if axis in part else np.ones(1)).reshape(-1)
            seen = np.where(np.abs(seen) > small, seen, 0.0)
            solver, _ = self.fit.fitted(of, tuple(others[axis] for axis in part))
            solved, estimable = solver.solve(seen.reshape(many, -1))
            known &= estimable.reshape(-1, count, sums).all(axis=(0, 2))
            left, right = (each.reshape(many, len(scale), count, sums) for each in (seen, solved))
            result += np.einsum("lcgi,lcgj,c->gij", left, right, scale, optimize=True)
        return result, known


def _of_side(by_statistic: ByStatistic, of: str, end: str, size: int) -> Floats:
    """Weights of one statistic for one end, (cells,); 0 where it has none."""
    weights = by_statistic.get(of)
    return np.zeros(size) if weights is None else np.asarray(getattr(weights, end), dtype=np.float64)


def _variance(terms: Terms) -> float:
    """Variance of the first sum; infinite where it is not determined."""
    if terms is None:
        return inf
    return sum(term.noise.variance * term.multiplicity * term.weights[0] ** 2 for term in terms)
