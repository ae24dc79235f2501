"""Posterior of cell sums under a random-effects model of averages, and moment estimates of its variances.

Model. n (cells,) are estimated counts. The sum of cell c is n_c times the sum over tables t of the effect of the region
of t that holds c, plus a residual: effects are N(0, tau_t^2), residuals N(0, w_c) with

    w_c = n_c^2 inside + n_c rows + besides

Sums of tables were measured with noise, taken as normal; that of the table of cells has variance v (infinite if it was
not measured). README.md has the equations of the posterior, L, E and P; Q = diag(q), q = 1 / (1/w + 1/v).

Variances (`learned`). The squared deviation of a region's noisy sum from its count times the overall average, less its
noise, has an expectation linear in the variances: weighted non-negative least squares over all regions, and one
pseudo-observation of each variance at its prior value. Own method.

Tables of regions: grids that cut every axis of a domain into nested intervals of nearly equal length.

Along an ordered axis the cuts form a tree with about `BRANCHES` children per node, from single values up to the whole
axis; along any other there are single values and the whole axis. So a table with at least as many parts on every axis
refines another. Candidate tables are those that a release may measure sums of; they depend on the schema alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import combinations, product
from math import inf, prod, sqrt

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries import Identity, Kron, Queries, Ranges, Total

BRANCHES = 8  # parts that are put together on the way up an ordered axis
MOST_REGIONS = 512  # of one table
MOST_IN_ALL = 1024  # of all tables but that of cells; equations are solved in as many numbers
MOST_TABLES = 24
MOST_TOGETHER = 3  # attributes of a table that is not that of cells
MOST_WORK = 2**27  # pairs of tables times cells, each of which is looked at


@dataclass(frozen=True)
class Table:
    """Marginal table over a grid of boxes. sides: sizes of the domain's axes. parts: intervals on each axis."""

    sides: tuple[int, ...]
    parts: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.sides) != len(self.parts) or any(
            part not in chain(side) for side, part in zip(self.sides, self.parts, strict=True)
        ):
            raise QueryError("a table cuts each axis into as many parts as Sfumato does")

    @property
    def size(self) -> int:
        """Number of regions."""
        return prod(self.parts)

    @property
    def cells(self) -> float:
        """Mean number of cells of a region."""
        return prod(self.sides) / self.size

    def within(self, other: Table) -> bool:
        """Whether this table refines the other, every region lying inside one of the other's."""
        return all(mine >= theirs for mine, theirs in zip(self.parts, other.parts, strict=True))

    def labels(self) -> Codes:
        """Region of every cell, (cells,)."""
        labels = np.zeros(1, dtype=np.int64)
        for side, part in zip(self.sides, self.parts, strict=True):
            labels = (labels[:, None] * part + part_of(side, part)).reshape(-1)
        return labels

    def queries(self) -> Queries:
        """Query matrix of all region sums, (regions, cells)."""
        if self.parts == self.sides:
            return Identity(prod(self.sides))
        factors = [_along(side, part) for side, part in zip(self.sides, self.parts, strict=True)]
        return factors[0] if len(factors) == 1 else Kron(*factors)

    @classmethod
    def asked(cls, sides: tuple[int, ...], queries: Queries) -> Table:
        """Recognise the table whose region sums some queries are; raise a QueryError if they are none."""
        if type(queries) is Identity and queries.columns == prod(sides):
            return cls(sides, sides)
        factors = queries.factors if type(queries) is Kron else (queries,)
        if tuple(factor.columns for factor in factors) != sides:
            raise QueryError("sums of regions are those of a table along the axes")
        table = cls(sides, tuple(factor.rows for factor in factors))
        for mine, theirs in zip((_along(*pair) for pair in zip(sides, table.parts, strict=True)), factors, strict=True):
            same = type(mine) is type(theirs)
            if same and isinstance(mine, Ranges) and isinstance(theirs, Ranges):
                same = np.array_equal(mine.lows, theirs.lows) and np.array_equal(mine.highs, theirs.highs)
            if not same:
                raise QueryError("sums of regions are those of a table along the axes")
        return table


@lru_cache(maxsize=256)
def chain(side: int) -> tuple[int, ...]:
    """Numbers of intervals into which an ordered axis may be cut, the finest first.

    >>> chain(100), chain(5)
    ((100, 13, 2, 1), (5, 1))
    """
    numbers = [side]
    while numbers[-1] > 1:
        numbers.append(-(-numbers[-1] // BRANCHES))
    return tuple(numbers)


@lru_cache(maxsize=256)
def part_of(side: int, parts: int) -> Codes:
    """Interval of each value of an axis at one level, (side,); intervals of a level nest in those of the next."""
    intervals = np.arange(side)
    for finer in chain(side):
        if finer == parts:
            break
        coarser = -(-finer // BRANCHES)
        intervals = (intervals * coarser + coarser - 1) // finer
    return intervals


def candidates(domain: Domain) -> list[Table]:
    """Candidate tables: the total first, then few attributes before many, the table of cells last.

    Limited in number, in regions, and in work.
    """
    sides, most = domain.shape, min(MOST_TABLES, max(3, int((MOST_WORK / domain.size) ** 0.5)))
    tables, regions = list[Table](), 0
    for parts in _few_at_first([chain(axis.size) if axis.ordered else (axis.size, 1) for axis in domain]):
        size = prod(parts)
        if len(tables) + 1 < most and parts != sides and size <= MOST_REGIONS and regions + size <= MOST_IN_ALL:
            tables.append(Table(sides, parts))
            regions += size
    return [*tables, Table(sides, sides)]


def _few_at_first(levels: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Possible numbers of parts per axis, ordered by number of attributes, then by number of regions.

    levels: for each axis its possible numbers of parts. With three axes and more, sets of two and more attributes are
    by single values only.
    """
    axes = range(len(levels))
    several = [chosen for count in range(min(len(levels), MOST_TOGETHER) + 1) for chosen in combinations(axes, count)]
    possible: dict[tuple[int, ...], None] = {}
    for chosen in several:
        coarse = len(levels) < 3 or len(chosen) < 2
        sides = [(levels[axis] if coarse else levels[axis][:1]) if axis in chosen else (1,) for axis in axes]
        possible |= dict.fromkeys(product(*sides))
    return sorted(possible, key=lambda parts: (sum(part > 1 for part in parts), prod(parts)))


def gathered(labels: Codes, values: Floats, size: int) -> Floats:
    """Sum cell values by region: labels (cells,), values (cells,) -> (regions,)."""
    return np.asarray(np.bincount(labels, weights=values, minlength=size), dtype=np.float64)


def crossed(one: Codes, other: Codes, values: Floats, sizes: tuple[int, int]) -> Floats:
    """Sum cell values by pairs of regions of two tables, (regions of the one, regions of the other)."""
    return gathered(one * sizes[1] + other, values, sizes[0] * sizes[1]).reshape(sizes)


def _along(side: int, parts: int) -> Queries:
    """Query matrix of the interval sums of one axis."""
    if parts == side:
        return Identity(side)
    if parts == 1:
        return Total(side)
    starts = np.searchsorted(part_of(side, parts), np.arange(parts + 1))
    return Ranges(side, starts[:-1], starts[1:] - 1)


# -- posterior


LEAST_VARIANCE = 1e-9  # of what is a cell's own, in rows: no division by nothing


@dataclass(frozen=True)
class Effects:
    """Variance components of averages, where a row adds between -1 and 1.

    tables: whose regions have one effect each. between: variance of the effects of each table. inside: between cells of
    a region. rows: between rows of a cell. besides: of a cell's sum, in rows, whatever its count, as counts err too.
    """

    tables: tuple[Table, ...]
    between: tuple[float, ...]
    inside: float
    rows: float
    besides: float

    def own(self, counts: Floats) -> Floats:
        """Residual variance w of every cell, (cells,); counts: (cells,)."""
        return np.maximum(counts**2 * self.inside + counts * self.rows + self.besides, LEAST_VARIANCE)


@dataclass(frozen=True, eq=False)
class Seen:
    """Measured table: noisy sums (regions,), in units of the most that a row adds, and the variance of the noise."""

    table: Table
    answers: Floats
    variance: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of cell sums, given counts (cells,), variance components and measured tables.

    possible: flags of the cells that are no structural zeros, (cells,); None where there are none. The others' counts
    are 0, and their sums are known to be.
    """

    counts: Floats
    effects: Effects
    seen: tuple[Seen, ...]
    possible: Flags | None = None

    @cached_property
    def estimate(self) -> Floats:
        """Posterior mean of every cell's sum, (cells,)."""
        noisy = self._cells[1]
        moments = [gathered(label, tau * self.counts * self._pull * noisy, size) for label, tau, size in self._levels]
        mean = self._freedom * self._out(self._inverse @ np.concatenate([*moments, np.zeros(0)]))
        mean += (1.0 - self._freedom) * noisy
        if not self._coarse:
            return mean
        sums = np.concatenate([gathered(label, mean, size) for label, size in self._regions])
        missed = np.linalg.solve(self._spread, np.concatenate([table.answers for table in self._coarse]) - sums)
        mean += self._freedom * self._out(self._inverse @ self._crossing.T @ missed)
        ends = np.cumsum([size for _, size in self._regions])[:-1]
        for (label, _), part in zip(self._regions, np.split(missed, ends), strict=True):
            mean += self.own_left * part[label]
        return mean

    def covariance(self, columns: Floats) -> Floats:
        """Posterior covariance of weighted sums of cells, (cells, sums) -> (sums, sums)."""
        seen = np.concatenate([self.reduced(*one, columns) for one in self.coordinates])
        return np.asarray(columns.T @ (self.own_left[:, None] * columns) + seen.T @ self.mixed @ seen)

    @staticmethod
    def reduced(label: Codes, size: int, factor: Floats, columns: Floats) -> Floats:
        """Sum weights of cells (cells, sums), times a factor (cells,), by region: (regions, sums)."""
        return np.stack([gathered(label, factor * one, size) for one in columns.T], axis=1)

    @cached_property
    def own_left(self) -> Floats:
        """Variance q of each cell given all effects and its own noisy sum, (cells,)."""
        return self._own * self._freedom

    @cached_property
    def coordinates(self) -> list[tuple[Codes, int, Floats]]:
        """W = [R, Q B'] by tables: region of every cell, number of regions, factor of every cell."""
        effects = [(label, size, tau * self.counts * self._freedom) for label, tau, size in self._levels]
        return [*effects, *((label, size, self.own_left) for label, size in self._regions)]

    @cached_property
    def mixed(self) -> Floats:
        """Matrix P of the posterior covariance C'QC + (W'C)' P (W'C), square over effects and measured regions."""
        inverse, first = self._inverse, len(self._inverse)
        whole = np.zeros((first + len(self._spread),) * 2)
        whole[:first, :first] = inverse
        if self._coarse:
            both = np.vstack([inverse @ self._crossing.T, np.eye(len(self._spread))])
            whole -= both @ np.linalg.solve(self._spread, both.T)
        return (whole + whole.T) / 2.0

    @cached_property
    def _own(self) -> Floats:
        """Residual variance w, (cells,)."""
        own = self.effects.own(self.counts)
        return own if self.possible is None else own * self.possible

    @cached_property
    def _cells(self) -> tuple[float, Floats]:
        """Variance v and inverse-variance mean (cells,) of all measurements of the table of cells."""
        own = [table for table in self.seen if table.table.parts == table.table.sides]
        precision = sum(1.0 / table.variance for table in own)
        if not own:
            return inf, np.zeros(len(self.counts))
        return 1.0 / precision, np.asarray(sum(table.answers / table.variance for table in own) / precision)

    @cached_property
    def _pull(self) -> Floats:
        """Precision 1 / (w + v) of each cell's noisy sum around its effects, (cells,)."""
        return np.asarray(1.0 / (self._own + self._cells[0]))

    @cached_property
    def _freedom(self) -> Floats:
        """v / (w + v), (cells,): the weight of the prior against a cell's own noisy sum."""
        return np.ones_like(self._own) if self._cells[0] == inf else self._cells[0] * self._pull

    @cached_property
    def _coarse(self) -> list[Seen]:
        """Measured tables other than that of cells."""
        return [one for one in self.seen if one.table.parts != one.table.sides]

    @cached_property
    def _regions(self) -> list[tuple[Codes, int]]:
        """Cell-to-region map B of the measured tables: region of every cell, and number of regions, by table."""
        return [(one.table.labels(), one.table.size) for one in self._coarse]

    @cached_property
    def _levels(self) -> list[tuple[Codes, float, int]]:
        """Effect-to-cell map G by table: region of every cell, standard deviation tau of effects, number of regions."""
        pairs = zip(self.effects.tables, self.effects.between, strict=True)
        return [(table.labels(), variance**0.5, table.size) for table, variance in pairs]

    def _out(self, effects: Floats) -> Floats:
        """G times standardised effects (effects,): their contribution to every cell, (cells,)."""
        sums, start = np.zeros(len(self.counts)), 0
        for label, tau, size in self._levels:
            sums += tau * self.counts * effects[start : start + size][label]
            start += size
        return sums

    @cached_property
    def _inverse(self) -> Floats:
        """Posterior covariance L^-1 of effects given the table of cells, L = I + G' diag(1 / (w + v)) G."""
        squares = self.counts**2 * self._pull
        rows = [
            [crossed(one, other, tau * sigma * squares, (size, length)) for other, sigma, length in self._levels]
            for one, tau, size in self._levels
        ]
        return np.asarray(np.linalg.inv(np.eye(sum(size for *_, size in self._levels)) + np.block(rows)))

    @cached_property
    def _crossing(self) -> Floats:
        """Map B R from effects to measured regions, R = diag(v / (w + v)) G."""
        free = self.counts * self._freedom
        return np.block(
            [
                [crossed(one, other, sigma * free, (size, length)) for other, sigma, length in self._levels]
                for one, size in self._regions
            ]
        )

    @cached_property
    def _spread(self) -> Floats:
        """Covariance E = B (Q + R L^-1 R') B' + V of the noisy region sums given the table of cells."""
        if not self._coarse:
            return np.zeros((0, 0))
        cells = np.block(
            [
                [crossed(one, other, self.own_left, (size, length)) for other, length in self._regions]
                for one, size in self._regions
            ]
        )
        noise = np.concatenate([np.full(one.table.size, one.variance) for one in self._coarse])
        return cells + self._crossing @ self._inverse @ self._crossing.T + np.diag(noise)


ANYWHERE = 1 / 3  # the variance of a value that lies anywhere between -1 and 1 with the same chance
ROUNDS = 4  # of weighing squares by what the last round found


def expected(tables: Sequence[Table], besides: float) -> Effects:
    """Prior variance components: that of values uniform between their bounds, in even shares.

    tables: the total, others, and that of cells last. The total's effect has the whole variance. besides: see
    `Effects`.
    """
    share = ANYWHERE / len(tables)  # the tables but the total, and the rows of a cell
    between = (ANYWHERE, *[share] * (len(tables) - 2))
    return Effects(tuple(tables[:-1]), between, share, ANYWHERE, besides * ANYWHERE)


def learned(counts: Floats, before: Effects, seen: Sequence[Seen]) -> Effects:
    """Estimate variance components from measured tables by weighted non-negative least squares; counts: (cells,)."""
    rows = float(counts.sum())
    if rows <= 0.0:
        return before
    mean = _mean(seen, rows)
    labels = [table.labels() for table in before.tables]
    said = [
        _said(labels[index], table, counts, before, labels, one, mean)
        for one in seen
        for index, table in enumerate(before.tables)
        if index and one.table.within(table)
    ]
    said += [_of_cells(counts, len(labels), one, mean) for one in seen if one.table.parts == one.table.sides]
    if not said:
        return before
    features, squares, noises = (np.concatenate(part) for part in zip(*said, strict=True))
    guess = np.array([*before.between[1:], before.inside, before.rows, before.besides])
    components, doubt = guess, np.zeros((len(guess),) * 2)
    for _ in range(ROUNDS):
        components, doubt = _weighed(features, squares, noises, components, guess)
    own = np.array([float(np.square(counts).mean()), float(counts.mean()), 1.0])
    doubtful = components[-2] + sqrt(max(float(own @ doubt[-3:, -3:] @ own), 0.0)) / own[1]
    components[-2] = max(components[-2], min(doubtful, ANYWHERE))  # or cells would seem surer than they are
    # Of cells that seem to hold no row, no more is known to be nothing than so many of them can tell.
    components[-1] = max(components[-1], min(components[-1] + sqrt(max(float(doubt[-1, -1]), 0.0)), before.besides))
    between = (before.between[0], *components[:-3].tolist())
    kept = [pair for pair in zip(before.tables, between, strict=True) if pair[1] > 0.0]
    return Effects(tuple(one for one, _ in kept), tuple(each for _, each in kept), *map(float, components[-3:]))


def _mean(seen: Sequence[Seen], rows: float) -> float:
    """Overall average by inverse-variance weights from all measured tables, within [-1, 1]."""
    precision = [1.0 / (one.variance * one.table.size) for one in seen]
    total = sum(float(one.answers.sum()) * each for one, each in zip(seen, precision, strict=True))
    return float(np.clip(total / (sum(precision) * rows), -1.0, 1.0))


def _said(
    to: Codes, coarser: Table, counts: Floats, effects: Effects, labels: Sequence[Codes], seen: Seen, mean: float
) -> tuple[Floats, Floats, Floats]:
    """Moment equations from a measured table, summed to the regions `to` (cells,) of a coarser table.

    Returns features (regions, components), squared deviations less noise (regions,), and noise variances (regions,).
    """
    size = coarser.size
    first = np.full(seen.table.size, -1)
    own = seen.table.labels() if seen.table.parts != seen.table.sides else np.arange(len(counts))
    first[own] = to
    answers = gathered(first, seen.answers, size)
    noise = np.asarray(seen.variance * np.bincount(first, minlength=size), dtype=np.float64)
    in_region = gathered(to, counts, size)
    shared = [
        np.square(crossed(to, label, counts, (size, table.size))).sum(axis=1)
        for label, table in zip(labels[1:], effects.tables[1:], strict=True)
    ]
    squares = gathered(to, counts**2, size)
    cells = np.bincount(to, minlength=size).astype(np.float64)
    features = np.stack([*shared, squares, in_region, cells], axis=1)
    return features, np.square(answers - mean * in_region) - noise, noise


def _of_cells(counts: Floats, tables: int, seen: Seen, mean: float) -> tuple[Floats, Floats, Floats]:
    """Moment equations from the noisy table of cells: features (cells, components), squares less noise, noise."""
    features = np.stack([counts**2] * tables + [counts, np.ones_like(counts)], axis=1)
    noise = np.full(len(counts), seen.variance)
    return features, np.square(seen.answers - mean * counts) - noise, noise


def _weighed(
    features: Floats, squares: Floats, noises: Floats, components: Floats, guess: Floats
) -> tuple[Floats, Floats]:
    """One round of weighted non-negative least squares for the variance components.

    Weights are 1 / the standard deviation of each square at the current components. guess: prior components,
    one pseudo-observation each. Returns the components and their covariance, ignoring the constraint.
    """
    from scipy.optimize import nnls

    weights = 1.0 / (features @ components + noises)
    scaled = features * weights[:, None] * guess  # in parts of what was expected, of which 1 is told once
    gram = scaled.T @ scaled + np.eye(len(guess))
    root = np.linalg.cholesky(gram)
    answer, _ = nnls(root.T, np.linalg.solve(root, scaled.T @ (squares * weights) + 1.0))
    return np.asarray(answer * guess), 2.0 * np.linalg.inv(gram) * np.outer(guess, guess)
