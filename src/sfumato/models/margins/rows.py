"""Synthetic rows whose marginal tables match the known ones to within less than a sample's error.

Rows are drawn attribute by attribute (joining.Step) and then changed until all known tables fit, after the gradual
updates of PrivSyn (Zhang et al., USENIX Security 2021). Each row proposes another value of an attribute; the change in

    sum over tables and cells of  weight * (expected - held)^2 / (expected + SOFT)

is computed, and proposals that lower it are accepted with probability proportional to the gain. A cell that expects
half a row accepts none or one, as otherwise rare cells would stay empty in every block of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain.structural import Structure
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.models.margins.joining import Step, all_ties, plan_steps
from sfumato.models.margins.table import Places
from sfumato.releases.rows.measures import summed
from sfumato.releases.rows.model import Block, Grouping, RandomNumbers, gather_margin
from sfumato.releases.rows.raking import possible_margins
from sfumato.schema import Schema

SWEEPS = 40  # over all attributes, at most
MOST_WORK = 6 * 10**9  # rows that ask a table, over all sweeps of one block: a minute or two
FITS = 0.05  # of what the chi-square of a sample would be: nearer than this no table need be
ANYWHERE = 0.3  # of an attribute's ties, shared evenly: for choosing another one by which new values are drawn
FEWEST = 2**14  # rows that are drawn together; if fewer are wanted they are taken out of these


@dataclass(frozen=True, eq=False)
class Drawing:
    """Sampler of rows with given marginals; made once, every block of rows is drawn afresh.

    ties: (attributes, attributes), weights by which an attribute to condition proposals on is chosen.
    """

    sizes: tuple[int, ...]
    known: Mapping[Places, Floats]
    ties: Floats
    steps: tuple[Step, ...]
    wanted: Wanted

    @classmethod
    def by(cls, one_way: Sequence[Floats], known: Mapping[Places, Floats]) -> Drawing:
        """Sampler for non-negative one-way margins and tables along two and more axes, all with one sum."""
        ties = all_ties(one_way, known)
        even = ANYWHERE * ties.sum(axis=1, keepdims=True) / len(one_way)
        paired = np.zeros(ties.shape)
        for places in known:
            if len(places) == 2:
                paired[places] = paired[places[::-1]] = 1.0
        sizes = tuple(len(margin) for margin in one_way)
        steps = tuple(plan_steps(one_way, known, ties))
        every = {(place,): margin for place, margin in enumerate(one_way)} | dict(known)
        return cls(sizes, known, (ties + even) * paired, steps, Wanted.by(len(sizes), every))

    def draw(self, count: int, random: RandomNumbers) -> Codes:
        """Draw rows: codes (attributes, rows)."""
        together = max(count, FEWEST)
        rows: Codes = np.zeros((len(self.sizes), together), dtype=np.int64)
        for step in self.steps:
            rows[step.place] = step.draw_evenly(rows, random)
        self._mend(rows, random)
        if together > count:
            rows = rows[:, random.order(together)[:count]]
        return rows

    def _mend(self, rows: Codes, random: RandomNumbers) -> None:
        """Sweep over the attributes until all tables fit; rows: codes (attributes, rows), changed in place."""
        work = rows.shape[1] * sum(len(each) for each in self.wanted.along)
        if not work:
            return
        mending = Mending(self.wanted, rows)
        sweeps = max(1, min(SWEEPS, MOST_WORK // work))
        for _ in range(sweeps):
            misfits = mending.misfits()
            if misfits.max() <= FITS:
                break
            mending.weigh(1.0 + misfits)  # or a strong tie would be one voice among a hundred weak ones
            for place in random.order(len(rows)):
                mending.turn(int(place), self._other_values(int(place), rows, random), random)
        bad = mending.impossible()
        good = np.setdiff1d(np.arange(rows.shape[1]), bad)
        if len(bad) and len(good):
            rows[:, bad] = rows[:, good[(random.uniform(len(bad)) * len(good)).astype(np.int64)]]

    def _other_values(self, place: int, rows: Codes, random: RandomNumbers) -> Codes:
        """Propose a value for every row, given one other attribute chosen by its dependence; (rows,)."""
        ends = np.cumsum(self.ties[place])
        if not ends[-1] > 0:
            return np.asarray(rows[place])
        other = int(np.searchsorted(ends / ends[-1], random.uniform(1)[0], side="right"))
        table = self.known[min(place, other), max(place, other)]
        return Step.by(place, (other,), table if other < place else table.T).draw(rows, random)


ROUNDING = 50.0  # times what a cell expects, up to one row: so far off it is content
SOFT = 1.0  # rows by which a cell is taken to expect more, so that single rows in rare cells do not weigh too much
NEVER = 1e9  # what is gained by leaving a cell that must be empty


@dataclass(frozen=True, eq=False)
class Strides:
    """Strides of a table's cells by attribute, for changing one attribute of rows.

    cells: its cells among those of all tables. step: stride of the attribute; others: (attribute, stride) of the rest.
    """

    cells: slice
    step: int
    others: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Number of cells."""
        return int(self.cells.stop - self.cells.start)

    def base(self, rows: Codes, chosen: Codes | slice) -> Codes:
        """Index of each chosen row's cell if its value of the attribute were the first."""
        cells: Codes = np.zeros_like(rows[0][chosen])
        for place, step in self.others:
            cells += rows[place][chosen] if step == 1 else rows[place][chosen] * step
        return cells

    def cells_of(self, rows: Codes, place: int) -> Codes:
        """Cell of every row, (rows,). place: of the attribute."""
        return np.asarray(self.base(rows, slice(None)) + rows[place] * self.step)


@dataclass(frozen=True, eq=False)
class Wanted:
    """Cells of all tables in one line. shares: of the rows, by cell; starts: of tables; along: tables by attribute."""

    places: tuple[Places, ...]
    shares: Floats
    starts: Codes
    along: tuple[tuple[Strides, ...], ...]

    @classmethod
    def by(cls, axes: int, known: Mapping[Places, Floats]) -> Wanted:
        """Lay out the tables of `axes` attributes in one line."""
        along: list[list[Strides]] = [[] for _ in range(axes)]
        shares, starts = [np.zeros(0)], [0]
        for places, table in known.items():
            start, steps = starts[-1], [table[(0,) * (axis + 1)].size for axis in range(len(places))]
            for place, step in zip(places, steps, strict=True):
                others = tuple(pair for pair in zip(places, steps, strict=True) if pair[0] != place)
                along[place].append(Strides(slice(start, start + table.size), step, others))
            shares.append(table.reshape(-1) / table.sum())
            starts.append(start + table.size)
        return cls(tuple(known), np.concatenate(shares), np.array(starts), tuple(tuple(pair) for pair in along))


class Mending:
    """Rows with the counts of all tables' cells. rows: codes (attributes, rows), changed in place."""

    def __init__(self, wanted: Wanted, rows: Codes) -> None:
        self.rows, self._along, self._starts = rows, wanted.along, wanted.starts
        self._expected = rows.shape[1] * wanted.shares
        self._content = np.minimum(ROUNDING * self._expected, 1.0)
        self._chi_square = 1.0 / (self._expected + SOFT)
        self._weight = self._chi_square
        self._held = np.zeros(len(self._expected))
        for attribute, along in enumerate(self._along):
            for table in along:
                if all(attribute < other for other, _ in table.others):
                    self._held[table.cells] = np.bincount(table.cells_of(rows, attribute), minlength=table.size)

    def _lacking(self, cells: slice, more: float = 0.0) -> Floats:
        """Residual of each cell, expected less held rows after adding `more`, beyond the tolerance for rounding."""
        off = self._expected[cells] - self._held[cells] - more
        return np.asarray(np.sign(off) * np.maximum(np.abs(off) - self._content[cells], 0.0))

    def misfits(self) -> Floats:
        """Chi-square per cell of each table, (tables,); about 1 for a sample."""
        terms = self._lacking(slice(None)) ** 2 * self._chi_square
        return np.asarray(np.add.reduceat(terms, self._starts[:-1]) / np.diff(self._starts))

    def weigh(self, tables: Floats) -> None:
        """Set the weights of the tables' chi-squares, (tables,)."""
        self._weight = self._chi_square * np.repeat(tables, np.diff(self._starts))

    def turn(self, place: int, values: Codes, random: RandomNumbers) -> None:
        """Propose values (rows,) of an attribute; accept those that lower the chi-squares, at random by gain."""
        before = self.rows[place]
        chosen = np.flatnonzero(values != before)
        old, new = before[chosen], values[chosen]
        gain, bases = np.zeros(len(chosen)), []
        moves = {table.step: (old * table.step, new * table.step) for table in self._along[place]}  # few steps differ
        for table in self._along[place]:
            base = table.base(self.rows, chosen)
            coming, going = self._gains(table.cells)
            left, entered = moves[table.step]
            gain += coming.take(base + entered)
            gain += going.take(base + left)
            bases.append(base)
        better = np.flatnonzero(gain > 0)
        must = gain[better] > NEVER / 2
        worth = np.where(must, 0.0, gain[better])
        odds = self._step(place, [base[better] for base in bases], (old[better], new[better]), worth)
        moved = better[must | (random.uniform(len(better)) < odds)]
        for table, base in zip(self._along[place], bases, strict=True):
            self._held[table.cells] += _change(table, base[moved], old[moved], new[moved])
        before[chosen[moved]] = new[moved]

    def _gains(self, cells: slice) -> tuple[Floats, Floats]:
        """Fall of half the chi-square of each cell if a row enters, and if one leaves."""
        now, half = self._lacking(cells) ** 2, self._weight[cells] / 2
        never = np.where(self._expected[cells] > 0, 0.0, NEVER)
        coming = (now - self._lacking(cells, 1.0) ** 2) * half - never
        return coming, (now - self._lacking(cells, -1.0) ** 2) * half + never

    def _step(self, place: int, bases: Sequence[Codes], values: tuple[Codes, Codes], gain: Floats) -> Floats:
        """Acceptance probabilities: gains times the constant that minimises the sum of all chi-squares."""
        slope = bend = 0.0
        for table, base in zip(self._along[place], bases, strict=True):
            change = _change(table, base, *values, gain)
            weighed = change * self._weight[table.cells]
            slope += float(weighed @ self._lacking(table.cells))
            bend += float(weighed @ change)
        return gain * max(0.0, slope / bend) if bend > 0 else gain

    def impossible(self) -> Codes:
        """Indices of rows in a cell that must be empty."""
        flags = np.zeros(self.rows.shape[1], dtype=bool)
        for attribute, along in enumerate(self._along):
            for table in along:
                never = self._expected[table.cells] <= 0
                if never.any():
                    flags |= never[table.cells_of(self.rows, attribute)]
        return np.flatnonzero(flags)


def _change(table: Strides, base: Codes, old: Codes, new: Codes, weights: Floats | None = None) -> Floats:
    """Change of the rows of each cell when rows move from old to new values, by weights if given."""
    into = np.bincount(base + table.step * new, weights, minlength=table.size)
    return np.asarray(into - np.bincount(base + table.step * old, weights, minlength=table.size), dtype=np.float64)


ROUNDS = 5  # of fitting what is expected of rows to all sums


@dataclass(frozen=True, eq=False)
class RowsOfMargins:
    """Row model of a content of marginals.

    answers: joined counts along one or two axes, of any sign. larger: tables of more axes that rows keep too. sums: of
    each measure by axes, in the measure's steps.
    """

    schema: Schema
    total: float
    answers: Callable[[Places], Floats]
    larger: Mapping[Places, Floats]
    sums: Mapping[str, Mapping[Places, Floats]]

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        """Estimated counts by one or two groupings of attribute values."""
        places = tuple(self.schema.domain.place(grouping.name) for grouping in groupings)
        table = self.answers(tuple(sorted(places)))
        return gather_margin(table if places == tuple(sorted(places)) else table.T, groupings)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        """Draw a block of rows, with means of the measures."""
        rows = self._drawing.draw(len(places), random)
        if self.schema.structure is not None:
            rows = possible_rows(self.schema.structure, rows, random)
        codes = dict(zip(self.schema.domain.names, rows, strict=True))
        return Block(codes, {name: self._means(name, rows) for name in self.sums})

    def _means(self, name: str, rows: Codes) -> Floats:
        """Mean of a measure for every row, within its bounds."""
        measure, share = summed(self.schema)[name], rows.shape[1] / max(self.total, 1.0)
        most = float(measure.half_units)
        steps = row_means(rows, {places: share * table for places, table in self.sums[name].items()}, most)
        means = float(measure.centre) + steps * float(measure.step)
        return np.clip(means, float(measure.lower), float(measure.upper))

    @cached_property
    def _drawing(self) -> Drawing:
        """Sampler of rows as codes, made on first use."""
        singles, pairs = possible_margins(self.schema.domain, self.answers)
        return Drawing.by([single for _, single in singles], dict(pairs) | dict(self.larger))


def possible_rows(structure: Structure, rows: Codes, random: RandomNumbers) -> Codes:
    """Rows that no rule excludes: values that follow from others are put right; rows against a rule give way to others.

    rows: codes (attributes, rows).
    """
    for function in reversed(structure.ordered):
        rows[function.coarse] = function.image[rows[function.fine]]
    good = structure.agrees(rows)
    if not good.any():
        raise QueryError("no row that could be drawn agrees with what the schema calls impossible; sample more rows")
    kept, bad = np.flatnonzero(good), np.flatnonzero(~good)
    rows[:, bad] = rows[:, kept[(random.uniform(len(bad)) * len(kept)).astype(np.int64)]]
    return rows


def row_means(rows: Codes, sums: Mapping[Places, Floats], largest: float) -> Floats:
    """Mean of a measure for every row, so that rows add up to known sums along some axes (additive fitting).

    rows: codes (attributes, rows). largest: bound of a mean's absolute value.

    >>> sums = {(0,): np.array([6.0, 2.0]), (1,): np.array([4.0, 4.0])}
    >>> row_means(np.array([[0, 0, 1], [0, 1, 1]]), sums, 9.0).round(1)
    array([4., 2., 2.])
    """
    means: Floats = np.zeros(rows.shape[1])
    cells = {places: np.ravel_multi_index(tuple(rows[list(places)]), table.shape) for places, table in sums.items()}
    held = {places: np.maximum(np.bincount(cell, minlength=sums[places].size), 1) for places, cell in cells.items()}
    for _ in range(ROUNDS):
        for places, cell in cells.items():
            lacking = sums[places].reshape(-1) - np.bincount(cell, means, minlength=sums[places].size)
            means = np.clip(means + (lacking / held[places])[cell], -largest, largest)
    return means
