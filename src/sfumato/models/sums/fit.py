"""Fit of a measure's cell sums: counts times averages, posterior under random effects of regions (posterior.py).

Noise and variation of averages form one posterior covariance, so the whole error counts as the model's. The fit is
determined by its measurement, counts and variance components, and a file that holds another estimate is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from sfumato.answers.fit import (
    PARTS,
    Arrays,
    ByModel,
    Errors,
    FitReader,
    Grouped,
    KnowsZeros,
    OfOneMeasurement,
    keep_in_parts,
    squares_by_group,
    summed,
)
from sfumato.answers.noise_sum import Ends, Find, lowest
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.sums.posterior import MOST_IN_ALL, MOST_TABLES, Effects, Posterior, Seen, Table, candidates
from sfumato.queries import Stack

FINE = 2**30  # variances are kept in whole multiples of 1 / FINE
AT_ONCE = 2**22  # numbers that are laid out for many groups
CLOSE = 1e-6  # rows, and of a sum: what another machine may round otherwise


@dataclass(frozen=True, eq=False)
class AveragesFit(ByModel, OfOneMeasurement, KnowsZeros):
    """Cell sums as estimated counts times averages.

    measurement: noisy sums of all tables, stacked. sides: sizes of the axes. rows: (cells,), estimated counts. unit:
    the most that a row adds, in steps of the statistic. effects: variance components, in that unit. estimate: (cells,).
    possible: flags of the cells that are no structural zeros, (cells,); None where there are none.
    """

    family = "averages"
    room = 8

    measurement: Measurement
    sides: tuple[int, ...]
    rows: Floats
    unit: int
    effects: Effects
    estimate: Floats
    possible: Flags | None = None

    def __post_init__(self) -> None:
        keep_in_parts(self, "rows", "estimate")
        if self.rows.min(initial=0.0) < 0.0 or self.unit < 1:
            raise QueryError("averages lean on counts that are not negative and on a positive unit")
        if len(self.effects.tables) > MOST_TABLES or sum(one.size for one in self.effects.tables) > MOST_IN_ALL:
            raise QueryError("averages have more effects than Sfumato fits")
        if min(_numbers(self.effects)) < 0.0:
            raise QueryError("averages differ by variances, none of which is negative")

    @classmethod
    def fitted(
        cls,
        measurement: Measurement,
        sides: tuple[int, ...],
        rows: Floats,
        unit: int,
        effects: Effects,
        possible: Flags | None = None,
    ) -> AveragesFit:
        """Fit with the posterior mean of all cells as estimate."""
        kept = _with_numbers(effects.tables, _kept(effects))
        empty = cls(measurement, sides, rows, unit, kept, np.zeros(len(rows)), possible)
        return replace(empty, estimate=empty.posterior.estimate * unit)

    @cached_property
    def blocks(self) -> list[tuple[Table, Codes]]:
        """Measured tables in order, each with its rows of the measurement."""
        return [(table, np.arange(*ends)) for table, ends in _tables(self.measurement, self.sides)]

    @cached_property
    def posterior(self) -> Posterior:
        """Posterior of all cell sums, in units of the most that a row adds."""
        seen = seen_in(self.measurement, self.sides, self.unit)
        return Posterior(self.rows, self.effects, seen, self.possible)

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        return super().guaranteed(domain) if rows is None else of_sums(self, domain, rows)

    def errors(self, columns: Floats) -> Errors:
        return self._all_model(self.posterior.covariance(columns))

    def errors_by_group(self, asked: Grouped) -> Sequence[Errors]:
        """Error covariances of every group's sums, computed in batches of groups."""
        posterior, result = self.posterior, list[Errors]()
        length = max(1, len(posterior.mixed))
        block = max(1, AT_ONCE // (length * asked.sums))
        for start in range(0, asked.groups, block):
            mine = (asked.group >= start) & (asked.group < start + block)
            count = min(block, asked.groups - start)
            some = replace(
                asked,
                place=asked.place[mine],
                group=asked.group[mine] - start,
                weights=asked.weights[mine],
                groups=count,
            )
            result += [self._all_model(each) for each in self._covariances(some)]
        return result

    def _covariances(self, asked: Grouped) -> Floats:
        """Posterior covariances of every group's sums, (groups, sums, sums)."""
        posterior, groups = self.posterior, asked.groups
        own = posterior.own_left
        beside = None if asked.whole is None else asked.whole[asked.place]
        full = asked.weights if beside is None else asked.weights + beside
        covariance = squares_by_group(asked.group, groups, own[asked.place], full, beside)
        parts = []
        for label, size, factor in posterior.coordinates:
            weights = factor[asked.place, None] * asked.weights
            part = summed(label[asked.place] * groups + asked.group, weights, size * groups)
            part = part.reshape(size, groups, asked.sums)
            if asked.whole is not None:
                part += posterior.reduced(label, size, factor, asked.whole)[:, None, :]
            parts.append(part)
        if asked.whole is not None:
            covariance += asked.whole.T @ (own[:, None] * asked.whole)
        if not parts:
            return covariance
        seen = np.concatenate(parts).transpose(1, 0, 2)
        return np.asarray(covariance + seen.transpose(0, 2, 1) @ (posterior.mixed @ seen))

    def _all_model(self, covariance: Floats) -> Errors:
        """Errors in steps of the statistic from a covariance in units of the most that a row adds."""
        np.fill_diagonal(covariance, np.maximum(np.diagonal(covariance), 0.0))
        return Errors.all_model(self.measurement.design, covariance * float(self.unit) ** 2)

    def record(self, domain: Domain) -> Arrays:
        parts = np.array([one.parts for one in self.effects.tables], dtype=np.int64).reshape(-1)
        return {"rows": self.rows, "unit": np.array([self.unit]), "parts": parts, "variances": _kept(self.effects)}

    @classmethod
    def read(cls, file: FitReader) -> AveragesFit:
        sides = file.domain.shape
        measured, rows, parts = file.measurement(file.domain.size), file.numbers("rows"), file.whole("parts")
        unit, variances = file.whole("unit"), file.whole("variances")
        tables = len(variances) - 3
        if len(rows) != file.domain.size or len(unit) != 1 or not 0 <= tables <= MOST_TABLES:
            raise QueryError("averages lean on a count for every cell and on a variance for every table")
        if len(parts) != tables * len(sides):
            raise QueryError("averages have a number of parts for every axis of every table")
        each = tuple(Table(sides, tuple(map(int, one))) for one in parts.reshape(tables, len(sides)))
        effects = _with_numbers(each, variances)
        fit = cls(measured, sides, rows, int(unit[0]), effects, file.estimate, file.possible)
        follows = fit.posterior.estimate * fit.unit
        if not np.allclose(follows, fit.estimate, rtol=CLOSE, atol=CLOSE * fit.unit + 1.0 / PARTS):
            raise QueryError("sums are to follow from what was measured of them")
        return fit


def of_sums(fit: AveragesFit, domain: Domain, rows: Find) -> Find:
    """Guaranteed bounds of sums as a function of weights and tail. rows: the same function for counts.

    A row adds between -unit and unit. For a table, the weights (cells,) are replaced by one weight per region: the
    noisy region sums bound that sum by their noise, and the difference is at most unit times the weighted count of |w -
    common weight|. Without any table, a sum is at most unit times the weighted count of |w|.

    Tail. Which tables were measured depends on noisy counts and on a first measurement of the cells. So the counts'
    half of the tail is divided among all candidate tables, which the schema fixes. Of the other half, the table
    measured first has half if there are others, since these depend on its noise; the others have even parts (union
    bound).
    """
    possible = len(candidates(domain)) + 1
    parts = [(table, table.labels(), places) for table, places in fit.blocks]

    def lower(weights: Floats, tail: float) -> float:
        of_counts = tail / (2.0 * possible)
        bounds = [-_most(np.abs(weights), of_counts)]
        for number, (table, labels, places) in enumerate(parts):
            alone = len(parts) == 1
            of_noise = tail / 2.0 * (1.0 if alone else 0.5 if number == 0 else 0.5 / (len(parts) - 1))
            common = _common(weights, table, labels)
            off = np.abs(weights - common[labels])
            beside = _most(off, of_counts) if off.any() else 0.0
            bounds.append(lowest(fit.measurement, places, common, of_noise) - beside)
        return max(bounds)

    def _most(weights: Floats, tail: float) -> float:
        return fit.unit * max(rows(weights, weights, tail).high, 0.0)

    return lambda low, high, tail: Ends(lower(low, tail), -lower(-high, tail))


def _common(weights: Floats, table: Table, labels: Codes) -> Floats:
    """Weight of most cells of each region where two occur, otherwise the extreme nearer to the mean, (regions,)."""
    least, most = np.full(table.size, np.inf), np.full(table.size, -np.inf)
    np.minimum.at(least, labels, weights)
    np.maximum.at(most, labels, weights)
    sizes = np.bincount(labels, minlength=table.size)
    mean = np.bincount(labels, weights=weights, minlength=table.size) / sizes
    return np.asarray(np.where(2.0 * mean >= least + most, most, least))


def seen_in(measured: Measurement, sides: tuple[int, ...], unit: int) -> tuple[Seen, ...]:
    """Measured tables of a measurement, in units of the most that a row adds; a QueryError for other queries."""
    sizes, result = measured.design.sizes, []
    for table, (start, end) in _tables(measured, sides):
        if (sizes[start:end] != sizes[start]).any():
            raise QueryError("the sums of a table carry the same noise")
        answers = measured.answers[start:end].astype(np.float64) / unit
        result.append(Seen(table, answers, float(sizes[start]) / float(unit) ** 2))
    if sum(one.table.size for one in result if one.table.parts != sides) > MOST_IN_ALL:
        raise QueryError("averages were measured in more regions than Sfumato fits")
    return tuple(result)


def _tables(measured: Measurement, sides: tuple[int, ...]) -> list[tuple[Table, tuple[int, int]]]:
    """Tables of the stacked blocks of a measurement, each with its first and last row."""
    blocks = measured.queries.blocks if type(measured.queries) is Stack else (measured.queries,)
    if len(blocks) > 2 * MOST_TABLES:
        raise QueryError("averages were measured in more tables than Sfumato asks for")
    result, start = [], 0
    for block in blocks:
        result.append((Table.asked(sides, block), (start, start + block.rows)))
        start += block.rows
    return result


def _numbers(effects: Effects) -> list[float]:
    """Variance components as a list."""
    return [*effects.between, effects.inside, effects.rows, effects.besides]


def _kept(effects: Effects) -> Codes:
    """Variance components as whole multiples of 1 / FINE, for a file."""
    return np.asarray(np.rint(np.clip(np.array(_numbers(effects)) * FINE, 0.0, 2.0**62)), dtype=np.int64)


def _with_numbers(tables: tuple[Table, ...], kept: Codes) -> Effects:
    """Decode variance components that a file keeps as whole multiples of 1 / FINE."""
    *between, inside, rows, besides = (kept / FINE).tolist()
    return Effects(tables, tuple(between), inside, rows, besides)
