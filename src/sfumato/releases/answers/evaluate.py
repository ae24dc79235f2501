"""One aggregate, for every group: value, standard error and interval.

An aggregate is a sum of published numbers times public weights, so its error is the same sum of independent noises, and
the law of that sum is known exactly. Where cells were not measured one by one, their fit says which noises enter and
what it assumed (intervals/noise_terms.py). A cube published above a threshold adds one more number, the rest: the noisy
total less what is published, which is what the unpublished cells hold together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats
from sfumato.intervals.fieller import Functional, Interval, Term, linear_interval, ratio_interval
from sfumato.intervals.noise_terms import at_once, noises_of, spread_over
from sfumato.measurement import Noise
from sfumato.releases.answers.cell_weights import ByStatistic, cell_weights, columns_of, total
from sfumato.releases.answers.estimate import Estimate
from sfumato.releases.answers.groups import Groups
from sfumato.releases.answers.suppressed import rest_weights, under_threshold
from sfumato.releases.cube import Cube, Gathered
from sfumato.sql import Amount, Column


@dataclass(frozen=True, eq=False)
class Sum:
    """A linear combination of amounts, as weights.

    split: on the cells of the group asked about. whole: on all cells, whatever the group. rest: for each group, on what
    the unpublished cells hold together. unseen: for each group, how many unpublished cells may belong to it.
    """

    split: ByStatistic
    whole: ByStatistic
    rest: ByStatistic
    unseen: Floats


@dataclass(frozen=True, eq=False)
class Table:
    """A cube's cells as one query sees them."""

    cube: Cube
    cells: Gathered
    groups: Groups
    confidence: float
    undetermined: list[Column] = field(default_factory=list)  # asked, and not to be had from what was measured

    @cached_property
    def group(self) -> Codes:
        """The group of each cell."""
        return self.groups.of_cells(self.cells)

    def evaluate(self, column: Column) -> list[Estimate]:
        """An aggregate for every present group."""
        numerator = self._sum(column.numerator)
        denominator = None if column.denominator is None else self._sum(column.denominator)
        tops = self._values(numerator)
        bottoms = None if denominator is None else self._values(denominator)
        estimates = []
        for group, terms in zip(self.groups.present, self._terms(numerator, denominator), strict=True):
            top = Functional(*(float(part[group]) for part in tops))
            if terms is None:
                self.undetermined.append(column)
                found = Interval(nan, nan, *(column.bounds or (-inf, inf)), nan)
            elif bottoms is None:
                found = linear_interval(top, terms, self.confidence)
                if self.cube.sparse and _is_plain_count(column):
                    unseen = float(numerator.unseen[group])
                    found = under_threshold(self.cube, found, top, terms, unseen, self.confidence)
            else:
                bottom = Functional(*(float(part[group]) for part in bottoms))
                found = ratio_interval(top, bottom, terms, self.confidence, column.bounds)
            estimates.append(_estimate(found, column.scale, self.confidence))
        return estimates

    def _sum(self, amounts: tuple[Amount, ...]) -> Sum:
        schema, codes, size = self.cube.schema, self.cells.codes, self.cells.size
        split = total(cell_weights(amount, schema, codes, size) for amount in amounts if amount.grouped)
        whole = total(cell_weights(amount, schema, codes, size) for amount in amounts if not amount.grouped)
        if not self.cube.sparse:
            return Sum(split, whole, {}, np.zeros(self.groups.number))
        rests = [rest_weights(amount, self.cube, self.cells, self.groups, self.group) for amount in amounts]
        unseen = np.sum([rest.unseen for rest in rests], axis=0)
        return Sum(split, whole, total(rest.weights for rest in rests), unseen)

    def _values(self, asked: Sum) -> tuple[Floats, Floats, Floats]:
        """Value, low and high end for every group, noise included."""

        def part(name: str) -> Floats:
            answer = np.zeros(self.groups.number)
            for of, weights in asked.split.items():
                products = getattr(weights, name) * self.cells.values[of]
                answer += np.bincount(self.group, weights=products, minlength=self.groups.number)
            for of, weights in asked.whole.items():
                answer += float(getattr(weights, name) @ self.cells.values[of])
            for of, weights in asked.rest.items():
                rest = self.cube.remainder[of]
                # The ends lean on counts of rows, which cannot be negative, whatever the noise says.
                answer += getattr(weights, name) * (rest if name == "value" or weights.exact else max(rest, 0.0))
            return answer

        exact = all(w.exact for kind in (asked.split, asked.whole, asked.rest) for w in kind.values())
        value = part("value")
        return (value, value, value) if exact else (value, part("low"), part("high"))

    def _terms(self, numerator: Sum, denominator: Sum | None) -> Sequence[tuple[Term, ...] | None]:
        """For every present group, the noises its answer carries, with the weights of each; None if all is unknown.

        Cells with the same weights are counted, not listed, and groups with the same counts are worked out once.
        """
        sides = [numerator] if denominator is None else [numerator, denominator]
        if self.cube.fits:
            return self._fitted_terms(sides)
        kinds = [_Kinds.sort(of, sides, self) for of in self.cube.statistics]
        known: dict[tuple[bytes, ...], tuple[Term, ...]] = {}
        found = []
        for group in self.groups.present:
            key = tuple(part for kind in kinds for part in kind.signature(group))
            if key not in known:
                known[key] = tuple(term for kind in kinds for term in kind.terms(group))
            found.append(known[key])
        return found

    def _fitted_terms(self, sides: list[Sum]) -> list[tuple[Term, ...] | None]:
        """The same from the fits: some groups at a time, each with its own column of weights for every end asked."""
        domain, size = self.cube.domain, self.cells.size
        split, whole = (
            {fit.of: columns_of([getattr(side, kind).get(fit.of) for side in sides], size) for fit in self.cube.fits}
            for kind in ("split", "whole")
        )
        ends = 3 * len(sides)
        # Where value, low and high are one and the same, one column serves all three.
        same = [all(split[of][e] is split[of][e - e % 3] for of in split) for e in range(ends)]
        same = [s and all(whole[of][e] is whole[of][e - e % 3] for of in whole) for e, s in enumerate(same)]
        kept = [e for e in range(ends) if e % 3 == 0 or not same[e]]
        order = [kept.index(e) if e in kept else kept.index(e - e % 3) for e in range(ends)]
        block = max(1, at_once(domain.size) // len(kept))
        found: list[tuple[Term, ...] | None] = []
        for start in range(0, len(self.groups.present), block):
            groups = self.groups.present[start : start + block]
            inside = (self.group[:, None] == groups).astype(np.float64)
            fits = []
            for fit in self.cube.fits:
                columns = [split[fit.of][e][:, None] * inside + whole[fit.of][e][:, None] for e in kept]
                wide = np.stack(columns, axis=2).reshape(size, -1)  # for each group, its ends side by side
                fits.append((fit, spread_over(domain, tuple(self.cells.codes), wide)))
            places = [[place * len(kept) + e for e in order] for place in range(len(groups))]
            found += [noises.terms for noises in noises_of(fits, places)]
        return found


@dataclass(frozen=True, eq=False)
class _Kinds:
    """The cells of one statistic, sorted into kinds that carry the same weights.

    Weights are rows of value, low and high for the numerator, then for the denominator. A cell outside the group still
    counts where an amount is not split by group, and where the rest, total less published, brings in every cell.
    """

    noise: Noise
    total_noise: Noise | None
    merged: int
    split: Floats  # a row for each kind
    whole: Floats
    rest: Floats  # a row for each group
    inside: NDArray[np.int64]  # how many cells of each kind lie in each group
    everywhere: NDArray[np.int64]

    @classmethod
    def sort(cls, statistic: str, sides: list[Sum], table: Table) -> _Kinds:
        size, number = table.cells.size, table.groups.number
        split = columns_of([side.split.get(statistic) for side in sides], size)
        whole = columns_of([side.whole.get(statistic) for side in sides], size)
        rest = columns_of([side.rest.get(statistic) for side in sides], number)
        kind, example = _alike([*split, *whole], size)
        count = len(example)
        inside = np.bincount(table.group * count + kind, minlength=number * count).reshape(number, count)
        return cls(
            table.cube.noise(statistic),
            table.cube.total_noise(statistic) if table.cube.sparse else None,
            table.cells.merged,
            np.stack([column[example] for column in split], axis=1),
            np.stack([column[example] for column in whole], axis=1),
            np.stack(rest, axis=1),
            inside,
            inside.sum(axis=0),
        )

    def signature(self, group: int) -> tuple[bytes, bytes]:
        """What tells this group's terms from those of others."""
        return self.inside[group].tobytes(), self.rest[group].tobytes()

    def terms(self, group: int) -> list[Term]:
        found = []
        rest = self.rest[group]
        here = self.inside[group]
        for cells, weights in ((here, self.split + self.whole - rest), (self.everywhere - here, self.whole - rest)):
            for kind in np.flatnonzero((cells > 0) & weights.any(axis=1)):
                found.append(Term.of(self.noise, int(cells[kind]) * self.merged, *weights[kind].tolist()))
        if self.total_noise is not None and rest.any():
            found.append(Term.of(self.total_noise, 1, *rest.tolist()))
        return found


def _alike(columns: list[Floats], size: int) -> tuple[Codes, Codes]:
    """Number the cells so that those with the same weights share a number; and an example of each."""
    kind = np.zeros(size, dtype=np.int64)
    for column in {id(column): column for column in columns}.values():
        if (column == column[:1]).all():
            continue
        value = _numbered(column)
        kind = _numbered(kind * (value.max() + 1) + value)
    return kind, np.unique(kind, return_index=True)[1]


def _numbered(values: NDArray[Any]) -> Codes:
    """Equal values get equal numbers. Most often there are few of them, and then sorting all cells is a waste."""
    few = np.unique(values[:: max(1, len(values) // 1000)])
    if len(few) < 10:
        place = np.minimum(np.searchsorted(few, values), len(few) - 1)
        if (few[place] == values).all():
            return np.asarray(place, dtype=np.int64)
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)


def _is_plain_count(column: Column) -> bool:
    return [(amount.of, amount.factor) for amount in column.numerator] == [(None, 1.0)]


def _estimate(found: Interval, scale: float, confidence: float) -> Estimate:
    low, high = (found.low, found.high) if scale >= 0 else (found.high, found.low)
    size = abs(scale)
    return Estimate(
        found.value * scale,
        found.stderr * size,
        low * scale,
        high * scale,
        confidence,
        found.noise * size,
        found.model * size,
    )
