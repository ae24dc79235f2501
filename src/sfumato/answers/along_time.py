"""Errors of a series with running totals: parts of a run, which share noises, have correlated errors.

The error of part m in a cell is E_m = sum over j <= m of v_mj z_j, with fresh noises z_j of one size on a grid of
1 / GRID and public weights v_m (its `Trail`). Cells are independent of each other. So sums of cells of several parts,
with weights W_m, have the covariance

    sum over cells c, and parts m and m', of  W_mc W_m'c K_mm',   K_mm' = size * sum over j of v_mj v_m'j.

Fresh noise is hundreds of grid steps wide or more, so its sums are normal beyond any digit that is shown. Rounding
to the grid (kernel/ledger/past_noise.py) adds at most half a step to each, counted as a variance of 1/12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato.answers.evaluate import ENDS, CountedNoise, NoiseSource, Sum, Terms
from sfumato.answers.fieller import NormalErrors, Term, normal_terms
from sfumato.answers.fit import Arrays, Errors, FitReader, OfOneMeasurement, Unbiased
from sfumato.answers.noise_sum import Ends, reach
from sfumato.answers.question import ByStatistic, Gathered, Groups, WeightRange
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Design, Gaussian, Measurement, Noise, Trail
from sfumato.queries import Identity
from sfumato.queries.ranges import GRID
from sfumato.schema.series import MOST_PERIODS

FINE = 2**40  # of one, in which a file keeps the weights of a trail
WORDS = 4  # of 32 bits, in which it keeps the name of a run
Run = tuple[str, int, tuple[str, ...]]
ROUNDED = 1.0 / 12.0  # variance of rounding to the grid, in its steps
NUMBERS_AT_ONCE = 2**22
SIDES = "low", "high"


@dataclass(frozen=True, eq=False)
class RunningCells(Unbiased, OfOneMeasurement):
    """Measurement of every cell in one part of a run (module docstring). Answers are in GRID-ths of a row or a step.

    measurement: its noise is the fresh noise of this part. trail: weights of all fresh noises in the error of a cell.
    """

    family = "running"
    room = 2

    measurement: Measurement
    trail: Trail

    @cached_property
    def estimate(self) -> Floats:
        return self.measurement.answers / GRID

    @property
    def words(self) -> tuple[str, ...]:
        return ("noise is spread over time: later parts of the series take back a share of it in sums over periods",)

    def errors(self, columns: Floats) -> Errors:
        sums = columns.shape[1]
        design = Design(self.measurement.queries, (in_all(self.measurement.noise, self.trail),))
        return Errors(design, columns / GRID, np.zeros((sums, sums)), np.zeros(sums, dtype=bool))

    def record(self, domain: Domain) -> Arrays:
        run = [int(self.trail.run[8 * word : 8 * word + 8], 16) for word in range(WORDS)]
        return {"run": np.array(run), "trail": np.rint(self.trail.weights * FINE).astype(np.int64)}

    @classmethod
    def read(cls, file: FitReader) -> RunningCells:
        run, trail = file.whole("run"), file.whole("trail")
        measured = file.measurement(file.domain.size)
        if len(run) != WORDS or ((run < 0) | (run >= 2**32)).any():
            raise QueryError("its run has no name")
        if not 1 <= len(trail) <= MOST_PERIODS or trail[-1] != FINE or np.abs(trail).max() > FINE:
            raise QueryError("its noise has no trail")
        if type(measured.queries) is not Identity or not isinstance(measured.noises[0], Gaussian):
            raise QueryError("it does not measure every cell")
        return cls(measured, Trail("".join(f"{word:08x}" for word in run), trail / FINE))


def in_all(noise: Noise, trail: Trail) -> Gaussian:
    """Normal noise of a cell summed over a trail of parts: variance times the sum of squared weights, in grid units."""
    return _gaussian(_fresh(noise) * float(trail.weights @ trail.weights))


def _fresh(noise: Noise) -> float:
    return noise.variance + ROUNDED


def _gaussian(variance: float) -> Gaussian:
    return Gaussian(Fraction(variance))


@dataclass(frozen=True, eq=False)
class AlongTime(NoiseSource):
    """Noise source of the cells of one part. noises: its fresh noise, by statistic, in steps of the grid."""

    noises: Mapping[str, Noise]
    trail: Trail

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """Noise terms of each present group: independent noise on every cell."""
        each = CountedNoise({of: in_all(noise, self.trail) for of, noise in self.noises.items()})
        return each.terms([_in_grid_units(side) for side in sides], cells, groups)


def _in_grid_units(side: Sum) -> Sum:
    """Convert a sum to units of the grid, 1 / GRID."""

    def scaled(weights: ByStatistic) -> ByStatistic:
        return {of: one.times(1.0 / GRID) for of, one in weights.items()}

    return Sum(scaled(side.split), scaled(side.whole), {}, side.unseen)


@dataclass(frozen=True, eq=False)
class OfPart:
    """Sums of a series restricted to one of its parts. groups: GROUP BY within the part."""

    noises: AlongTime
    sides: Sequence[Sum]
    cells: Gathered
    groups: Groups

    @property
    def run(self) -> Run:
        """Key of the run, the parts of the series that share noise with this one: same cells, same statistics."""
        return self.noises.trail.run, self.cells.size, tuple(self.noises.noises)

    def weights(self, of: str, kind: str) -> Floats:
        """Weights of one statistic on its cells: value, low and high of each side in turn, (cells, sums)."""
        sides = [getattr(side, kind).get(of) for side in self.sides]
        nothing = np.zeros(self.cells.size)
        return np.stack([nothing if each is None else getattr(each, end) for each in sides for end in ENDS], axis=1)

    @cached_property
    def _by_group(self) -> tuple[Codes, Codes]:
        labels = self.groups.of_cells(self.cells)
        order = np.argsort(labels, kind="stable")
        return order, labels[order]

    @property
    def split(self) -> bool:
        """Whether any sum is split by group, with weights on the cells of each group alone."""
        return any(side.split for side in self.sides)

    def inside(self, group: int) -> Codes:
        """Cells of a group."""
        order, labels = self._by_group
        return order[slice(*np.searchsorted(labels, [group, group + 1]))]


class Joint:
    """Covariances of sums over parts of a series that share noise (a run), group by group."""

    def __init__(self, parts: Sequence[OfPart]) -> None:
        self.parts = parts
        self.shared = shared(parts)
        self.many = numbers(parts[0].cells)
        self._known: dict[tuple[int, ...], Floats] = {}

    @cached_property
    def _weights(self) -> dict[str, tuple[Floats, Floats]]:
        """Weights of each statistic on the cells of a group and on all cells, (parts, cells, sums) each."""
        found = dict.fromkeys(of for part in self.parts for side in part.sides for of in (*side.split, *side.whole))
        return {
            of: tuple(np.stack([part.weights(of, kind) for part in self.parts]) for kind in ("split", "whole"))  # type: ignore[misc]
            for of in found
            if of in self.shared
        }

    def terms(self, members: Sequence[tuple[int, int]]) -> tuple[Term, ...]:
        """Noise terms of a group's sums. members: each part with cells of it, and its number there."""
        places = [place for place, _ in members]
        covariance = self._of_all(tuple(places)).copy()
        none = np.zeros(0, dtype=np.int64)
        inside = [self.parts[place].inside(group) if self.parts[place].split else none for place, group in members]
        cells = np.unique(np.concatenate(inside))
        for of, (split, whole) in self._weights.items():
            base = whole[places][:, cells]
            full = base.copy()
            for at, (place, mine) in enumerate(zip(places, inside, strict=True)):
                full[at, np.searchsorted(cells, mine)] += split[place, mine]
            shares = self.shared[of][np.ix_(places, places)]
            covariance += quadratic(shares, full, self.many[cells]) - quadratic(shares, base, self.many[cells])
        return tuple(normal_terms(covariance, np.arange(len(covariance)), model=False))

    def of_every_group(self) -> NormalErrors:
        """Errors of every present group's sums at once, where each has cells in all parts."""
        parts, groups = range(len(self.parts)), self.parts[0].groups
        labels = groups.of_cells(self.parts[0].cells)
        at = np.full(groups.number, -1)
        at[groups.present] = np.arange(len(groups.present))
        inside = np.flatnonzero(at[labels] >= 0)
        group = at[labels[inside]]
        noise = np.repeat(self._of_all(tuple(parts))[None], len(groups.present), axis=0)
        for of, (split, whole) in self._weights.items():
            base = whole[:, inside]
            for sign, weights in ((1.0, split[:, inside] + base), (-1.0, base)):
                if not weights.any():
                    continue
                taken = np.tensordot(self.shared[of], weights, axes=1)
                each = sign * np.einsum("pcx,pcy,c->cxy", weights, taken, self.many[inside], optimize=True)
                np.add.at(noise, group, each)
        unknown = np.zeros(len(noise), dtype=np.bool_)
        return NormalErrors(noise, np.zeros_like(noise), unknown, np.arange(noise.shape[1]))

    def _of_all(self, places: tuple[int, ...]) -> Floats:
        """Covariance of sums over some parts by their weights on all cells (`Sum.whole`), the same for every group."""
        if places not in self._known:
            sums = len(ENDS) * len(self.parts[0].sides)
            self._known[places] = np.zeros((sums, sums))
            for of, (_, whole) in self._weights.items():
                if whole.any():
                    shares = self.shared[of][np.ix_(places, places)]
                    self._known[places] += quadratic(shares, whole[list(places)], self.many)
        return self._known[places]


def shared(parts: Sequence[OfPart]) -> dict[str, Floats]:
    """Covariance K, (parts, parts), of a cell's errors in parts that share noise, by statistic, in rows or steps."""
    trails = np.zeros((len(parts), max(len(part.noises.trail.weights) for part in parts)))
    for row, part in zip(trails, parts, strict=True):
        row[: len(part.noises.trail.weights)] = part.noises.trail.weights
    sizes = {of: max(_fresh(part.noises.noises[of]) for part in parts) for of in parts[0].noises.noises}
    return {of: size / GRID**2 * (trails @ trails.T) for of, size in sizes.items()}


def numbers(cells: Gathered) -> Floats:
    """Number of cells of the domain that each gathered cell stands for."""
    return np.full(cells.size, float(cells.merged)) * (1.0 if cells.many is None else cells.many)


def quadratic(shares: Floats, weights: Floats, many: Floats) -> Floats:
    """Covariance of sums. weights: (parts, cells, sums). shares: K, (parts, parts). many: as of `numbers`, (cells,)."""
    parts, cells, sums = weights.shape
    result = np.zeros((sums, sums))
    block = max(1, NUMBERS_AT_ONCE // (parts * sums))
    for start in range(0, cells, block):
        some = weights[:, start : start + block] * np.sqrt(many[start : start + block])[:, None]
        taken = np.tensordot(shares, some, axes=1)
        result += some.reshape(-1, sums).T @ taken.reshape(-1, sums)
    return result


def ends_of_run(parts: Sequence[tuple[OfPart, WeightRange]], tail: float) -> Ends:
    """Bounds of a sum over parts that share noise: estimate plus or minus the quantile of the joint noise."""
    low, high = (
        {of: np.stack([getattr(mine, end)[of] for _, mine in parts]) for of in parts[0][1].low} for end in SIDES
    )
    values = [part.cells.values for part, _ in parts]

    def value(weights: Mapping[str, Floats]) -> float:
        return sum(float(row @ own[of]) for of, each in weights.items() for row, own in zip(each, values, strict=True))

    among = [part for part, _ in parts]
    return Ends(value(low) - _reach(among, low, tail), value(high) + _reach(among, high, tail))


def _reach(parts: Sequence[OfPart], weights: Mapping[str, Floats], tail: float) -> float:
    """Upper `tail` quantile of a sum's error over parts that share noise. weights: (parts, cells), by statistic."""
    together, many = shared(parts), numbers(parts[0].cells)
    variance = sum(float(quadratic(together[of], each[..., None], many)[0, 0]) for of, each in weights.items())
    if variance <= 0.0:
        return 0.0
    design = Design(Identity(1), (_gaussian(variance * GRID**2),))
    return reach(design, np.zeros(1, dtype=np.int64), np.full(1, 1.0 / GRID), tail)
