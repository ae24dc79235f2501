"""Synthetic rows whose marginal tables match the known ones to within less than a sample's error.

Rows are drawn attribute by attribute (`Step`, `plan_steps`): ancestral sampling along a tree of largest mutual
information (Chow, Liu 1968), each attribute given up to three earlier ones. Then they are changed until all known
tables fit, after the gradual updates of PrivSyn (Zhang et al., USENIX Security 2021). Each row proposes another value
of an attribute; the change in

    sum over tables and cells of  weight * (expected - held)^2 / (expected + SOFT)

is computed, and proposals that lower it are accepted with probability proportional to the gain. A cell that expects
half a row accepts none or one, as otherwise rare cells would stay empty in every block of rows.

Under a condition (`rows_given`): tables of the rows that fulfil it.

The condition's attributes are joined to those of a table as classes of values (answers/question.py), and the joined
counts, weighted by the share of each cell inside, are summed over them: what the release answers to COUNT(*) ... WHERE
... GROUP BY. One-way tables are joined value by value, as queries do; tables of two and more attributes by class, and
then raked to these. A condition that is no product of sets of values is kept as a table of its own attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain.predicates import Predicate
from sfumato.domain.structural import Structure
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.models.margins.joining import LITTLE, join_counts
from sfumato.models.margins.table import Places, spread_out, sum_out
from sfumato.releases.rows.condition import Chosen, classes_of, share_by_class
from sfumato.releases.rows.measures import summed
from sfumato.releases.rows.model import Block, Grouping, RandomNumbers, RowModel, gather_margin
from sfumato.releases.rows.raking import balanced, possible_margins
from sfumato.schema import Schema

MOST_GIVEN = 3  # earlier attributes that one is drawn by
MOST_CELLS = 2**15  # of an attribute and those it is drawn by
CLOSE_TO_PAIRS = 1e-3  # of the rows: how near such a table comes to its pairs; what is left is mended
LAST = 1.0 - 2.0**-30  # of a span, so that adding the number of a span cannot round up to the next


@dataclass(frozen=True, eq=False)
class Step:
    """Conditional distribution of one attribute given earlier ones, for ancestral sampling.

    given: the earlier attributes; sizes: their numbers of values. ends: (combinations * values,), cumulative
    probabilities of the values for each combination of the given ones, shifted by the number of the combination, so
    that one search serves all rows.
    """

    place: int
    given: Places
    sizes: tuple[int, ...]
    ends: Floats

    @classmethod
    def by(cls, place: int, given: Places, table: Floats) -> Step:
        """Conditional distribution from a table (*given attributes, this one); the margin where that is empty."""
        values = table.shape[-1]
        flat = table.reshape(-1, values)
        ends = np.cumsum(np.where(flat.sum(axis=1, keepdims=True) > 0, flat, flat.sum(axis=0)), axis=1)
        ends /= ends[:, -1:]
        # The last value that can be has all that is left: rounding must not lead to one that cannot.
        ends[ends >= ends[:, -1:]] = 1.0
        line: Floats = (ends + np.arange(len(flat), dtype=np.float64)[:, None]).reshape(-1)
        return cls(place, given, table.shape[:-1], line)

    def draw(self, rows: Codes, random: RandomNumbers) -> Codes:
        """Draw a value for every row independently. rows: codes (attributes, rows)."""
        return self.at(rows, random.uniform(rows.shape[1]))

    def at(self, rows: Codes, within: Floats) -> Codes:
        """Value at a quantile of every row's distribution. rows: codes (attributes, rows); within: (rows,)."""
        return self._values(self._cells(rows), within)

    def draw_evenly(self, rows: Codes, random: RandomNumbers) -> Codes:
        """Draw values by stratified sampling among the rows that share the given values; rows: (attributes, rows)."""
        cells, order = self._cells(rows), random.order(rows.shape[1])
        order = order[np.argsort(cells[order], kind="stable")]
        sorted_cells, held = cells[order], np.bincount(cells)
        rank = np.arange(len(order)) - (np.cumsum(held) - held)[sorted_cells]
        values = np.empty_like(cells)
        values[order] = self._values(sorted_cells, (rank + random.uniform(len(order))) / held[sorted_cells])
        return values

    def _cells(self, rows: Codes) -> Codes:
        """Flat index of each row's combination of given values, (rows,)."""
        cells = np.zeros(rows.shape[1], dtype=np.int64)
        for place, size in zip(self.given, self.sizes, strict=True):
            cells = cells * size + rows[place]
        return cells

    def _values(self, cells: Codes, within: Floats) -> Codes:
        """Value at a quantile within each row's combination, (rows,)."""
        values = len(self.ends) // prod(self.sizes)
        places = cells + np.minimum(within, LAST)
        return np.asarray(np.searchsorted(self.ends, places, side="right") - cells * values, dtype=np.int64)


def plan_steps(
    one_way: Sequence[Floats], known: Mapping[Places, Floats], ties: Floats, first: Places = ()
) -> list[Step]:
    """Order of the attributes and their conditional distributions, greedily along the largest dependence.

    one_way: margins. known: non-negative tables along two axes and more. ties: (attributes, attributes), mutual
    information. first: attributes whose values rows have before.
    """
    left, placed, steps = set(range(len(one_way))).difference(first), list(first), []
    while left:
        near = {
            attribute: ties[attribute, placed].max() if placed else ties[attribute].sum() for attribute in sorted(left)
        }
        attribute = max(near, key=lambda each: near[each])
        given = _given(attribute, placed, ties, one_way)
        steps.append(Step.by(attribute, given, _joined((*given, attribute), one_way, known)))
        left.remove(attribute)
        placed.append(attribute)
    return steps


def all_ties(one_way: Sequence[Floats], known: Mapping[Places, Floats]) -> Floats:
    """Mutual information of all pairs of attributes in nats, (attributes, attributes)."""
    ties = np.zeros((len(one_way), len(one_way)))
    for places, table in known.items():
        if len(places) == 2:
            product = np.outer(one_way[places[0]], one_way[places[1]]) / table.sum()
            held = (table > 0) & (product > 0)
            ties[places] = (table[held] * np.log(table[held] / product[held])).sum() / table.sum()
    return ties + ties.T


def _given(attribute: int, placed: Sequence[int], ties: Floats, one_way: Sequence[Floats]) -> Places:
    """Earlier attributes with the largest mutual information with one, as many as the limits on size allow."""
    chosen: Places = ()
    for other in sorted(placed, key=lambda one: -ties[attribute, one]):
        cells = prod(len(one_way[one]) for one in (*chosen, other, attribute))
        if ties[attribute, other] > 0 and len(chosen) < MOST_GIVEN and (cells <= MOST_CELLS or not chosen):
            chosen = (*chosen, other)
    return chosen


def _joined(places: Places, one_way: Sequence[Floats], known: Mapping[Places, Floats]) -> Floats:
    """Maximum-entropy table of some attributes, with its axes in their order."""
    among = tuple(sorted(places))
    inside = {
        tuple(among.index(one) for one in each): table for each, table in known.items() if set(each) <= set(among)
    }
    joint = join_counts([one_way[one] for one in among], inside, CLOSE_TO_PAIRS)
    return np.transpose(joint, [among.index(place) for place in places])


SWEEPS = 48  # over all attributes, at most
MOST_WORK = 7 * 10**7  # proposals times tables that they change, over all sweeps of one block: a few seconds
AT_ONCE = 2**20  # of them, in one turn
PROPOSED = 10  # rows, one of which proposes in a turn: of all, hardly any would be accepted
WEIGHED = 3  # sweeps, after which tables are weighed anew by how far they are off
FITS = 0.05  # of what the chi-square of a sample would be: nearer than this no table need be
ANYWHERE = 0.3  # of an attribute's ties, shared evenly: for choosing another one by which new values are drawn
NOTHING_HELD: Mapping[int, Codes] = {}
FEWEST = 2**13  # rows that are drawn together; if fewer are wanted they are taken out of these


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
    proposals: dict[tuple[int, int], Step] = field(default_factory=dict)  # of an attribute given another, so far

    @classmethod
    def by(cls, one_way: Sequence[Floats], known: Mapping[Places, Floats], first: Places = ()) -> Drawing:
        """Sampler for non-negative one-way margins and tables along two and more axes, all with one sum.

        first: attributes whose values are given to `draw`.
        """
        ties = all_ties(one_way, known)
        even = ANYWHERE * ties.sum(axis=1, keepdims=True) / len(one_way)
        paired = np.zeros(ties.shape)
        for places in known:
            if len(places) == 2:
                paired[places] = paired[places[::-1]] = 1.0
        sizes = tuple(len(margin) for margin in one_way)
        steps = tuple(plan_steps(one_way, known, ties, first))
        every = {(place,): margin for place, margin in enumerate(one_way)} | dict(known)
        return cls(sizes, known, (ties + even) * paired, steps, Wanted.by(len(sizes), every))

    def draw(self, count: int, random: RandomNumbers, held: Mapping[int, Codes] = NOTHING_HELD) -> Codes:
        """Draw rows: codes (attributes, rows). held: values that rows have and keep, (rows,) each, by attribute."""
        together = max(count, FEWEST)
        if held:  # every row as often as needed, and in the end its first copy
            together = count * -(-together // count)
        rows: Codes = np.zeros((len(self.sizes), together), dtype=np.int64)
        for place, codes in held.items():
            rows[place] = np.tile(codes, together // count)
        for step in self.steps:
            rows[step.place] = step.draw_evenly(rows, random)
        self._mend(rows, random, tuple(held))
        if held:
            return rows[:, :count]
        if together > count:
            rows = rows[:, random.order(together)]
            shares = [self.wanted.shares_of(place) for place in range(len(self.sizes))]
            rows = rows[:, balanced(rows, count, shares, random)]
        return rows

    def _mend(self, rows: Codes, random: RandomNumbers, held: Places = ()) -> None:
        """Sweep over the attributes until all tables fit; rows: codes (attributes, rows), changed in place.

        held: attributes that keep their values.
        """
        order, work, at = random.order(rows.shape[1]), 0, 0
        shuffled = rows[:, order]  # so that neighbours are no group
        mending = Mending(self.wanted, shuffled)
        free = [place for place in range(len(rows)) if place not in held]
        for sweep in range(SWEEPS):
            if sweep % WEIGHED == 0:
                misfits = mending.misfits()
                if misfits.max(initial=0.0) <= FITS or work > MOST_WORK:
                    break
                mending.weigh(1.0 + misfits)  # or a strong tie would be one voice among a hundred weak ones
            for place in (free[number] for number in random.order(len(free))):
                tables = self.wanted.along[place].tables
                window = slice(at, at + max(1, min(-(-len(order) // PROPOSED), AT_ONCE // tables)))
                at = window.stop if window.stop < len(order) else 0
                chances = random.uniform(2 * len(order[window]) + 1)
                values = self._other_values(place, shuffled[:, window], chances[: len(order[window]) + 1])
                mending.turn(place, window, values, chances[-len(values) :])
                work += len(values) * tables
        rows[:, order] = shuffled
        bad = order[mending.impossible()]
        good = np.setdiff1d(np.arange(rows.shape[1]), bad)
        if len(bad) and len(good):
            if held:
                bad, good = alike(rows[list(held)], bad, good, random)
            else:
                good = good[(random.uniform(len(bad)) * len(good)).astype(np.int64)]
            rows[:, bad] = rows[:, good]

    def _other_values(self, place: int, rows: Codes, chances: Floats) -> Codes:
        """Propose a value for some rows, given one other attribute chosen by its dependence; (rows,).

        chances: uniform numbers, one to choose the attribute by and one for each row.
        """
        ends = np.cumsum(self.ties[place])
        if not ends[-1] > 0:
            return np.asarray(rows[place])
        other = int(np.searchsorted(ends / ends[-1], chances[0], side="right"))
        if (place, other) not in self.proposals:
            table = self.known[min(place, other), max(place, other)]
            self.proposals[place, other] = Step.by(place, (other,), table if other < place else table.T)
        return self.proposals[place, other].at(rows, chances[1:])


def alike(codes: Codes, bad: Codes, good: Codes, random: RandomNumbers) -> tuple[Codes, Codes]:
    """Match each bad row to a random good row with the same codes, if there is one: indices of bad and of good rows.

    codes: (attributes, rows). bad, good: indices of rows.
    """
    label = np.unique(codes, axis=1, return_inverse=True)[1].reshape(-1)
    good = good[random.order(len(good))]
    good = good[np.argsort(label[good], kind="stable")]
    low, high = (np.searchsorted(label[good], label[bad], side=side) for side in ("left", "right"))
    there = high > low
    chosen = low + (random.uniform(len(bad)) * (high - low)).astype(np.int64)
    return bad[there], good[chosen[there]]


ROUNDING = 50.0  # times what a cell expects, up to one row: so far off it is content
SOFT = 1.0  # rows by which a cell is taken to expect more, so that single rows in rare cells do not weigh too much
NEVER = 1e9  # what is gained by leaving a cell that must be empty


@dataclass(frozen=True, eq=False)
class Along:
    """Tables containing one attribute, concatenated, to change that attribute in rows.

    cells: indices of their cells among those of all tables, (cells,). starts: first of each table in these, (tables,).
    steps: strides of the attribute, (tables,). others, strides: other attributes and their strides, (most, tables); a
    stride is 0 where a table has fewer.
    """

    cells: Codes
    starts: Codes
    steps: Codes
    others: Codes
    strides: Codes

    @classmethod
    def by(cls, place: int, tables: Sequence[tuple[slice, Mapping[int, int]]]) -> Along:
        """Concatenate the tables of an attribute. tables: slice of each in the vector of all; strides by attribute."""
        cells = [np.arange(each.start, each.stop) for each, _ in tables]
        most = max((len(strides) for _, strides in tables), default=1) - 1
        others, by = (np.zeros((most, len(tables)), dtype=np.int64) for _ in range(2))
        for number, (_, strides) in enumerate(tables):
            for row, (other, stride) in enumerate(pair for pair in strides.items() if pair[0] != place):
                others[row, number], by[row, number] = other, stride
        starts = np.cumsum([0, *map(len, cells)])[:-1]
        steps = np.array([strides[place] for _, strides in tables], dtype=np.int64)
        return cls(np.concatenate([np.zeros(0, dtype=np.int64), *cells]), starts, steps, others, by)

    @property
    def tables(self) -> int:
        """Number of tables."""
        return len(self.starts)

    def bases(self, rows: Codes) -> Codes:
        """Cell of each table in which each row would be with the attribute's first value, (tables, rows)."""
        bases = np.empty((self.tables, rows.shape[1]), dtype=np.int64)
        bases[...] = self.starts[:, None]
        for others, strides in zip(self.others, self.strides, strict=True):
            codes = rows[others]
            codes *= strides[:, None]
            bases += codes
        return bases

    def change(self, left: Codes, entered: Codes, weights: Floats | None = None) -> Floats:
        """Change of every cell's rows when rows move, by weights if given; left, entered: (tables, rows)."""
        each = None if weights is None else np.broadcast_to(weights, left.shape).reshape(-1)
        into, out = (np.bincount(at.reshape(-1), each, minlength=len(self.cells)) for at in (entered, left))
        return np.asarray(into - out, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Wanted:
    """Target counts of all tables, concatenated to one vector.

    shares: of the rows, by cell. starts: of tables. along: tables by attribute. strides: of each table, by attribute.
    """

    places: tuple[Places, ...]
    shares: Floats
    starts: Codes
    along: tuple[Along, ...]
    strides: tuple[Mapping[int, int], ...]

    def shares_of(self, place: int) -> Floats:
        """Shares of the values of one attribute."""
        at = self.places.index((place,))
        return self.shares[self.starts[at] : self.starts[at + 1]]

    @classmethod
    def by(cls, axes: int, known: Mapping[Places, Floats]) -> Wanted:
        """Lay out the tables of `axes` attributes in one line."""
        along: list[list[tuple[slice, Mapping[int, int]]]] = [[] for _ in range(axes)]
        shares, starts, strides = [np.zeros(0)], [0], list[Mapping[int, int]]()
        for places, table in known.items():
            start, steps = starts[-1], [table[(0,) * (axis + 1)].size for axis in range(len(places))]
            strides.append(dict(zip(places, steps, strict=True)))
            for place in places:
                along[place].append((slice(start, start + table.size), strides[-1]))
            shares.append(table.reshape(-1) / table.sum())
            starts.append(start + table.size)
        by_attribute = tuple(Along.by(place, tables) for place, tables in enumerate(along))
        return cls(tuple(known), np.concatenate(shares), np.array(starts), by_attribute, tuple(strides))

    def cells_of(self, table: int, rows: Codes) -> Codes:
        """Cell of one table that each row is in, (rows,); rows: codes (attributes, rows)."""
        cells = np.zeros(rows.shape[1], dtype=np.int64)
        for place, stride in self.strides[table].items():
            cells += rows[place] * stride
        return cells


class Mending:
    """Rows with the counts of all tables' cells. rows: codes (attributes, rows), changed in place."""

    def __init__(self, wanted: Wanted, rows: Codes) -> None:
        self.rows, self._wanted = rows, wanted
        self._expected = rows.shape[1] * wanted.shares
        self._content = np.minimum(ROUNDING * self._expected, 1.0)
        self._chi_square = 1.0 / (self._expected + SOFT)
        self._never = np.where(self._expected > 0, 0.0, NEVER)
        counts = [
            np.bincount(wanted.cells_of(table, rows), minlength=int(size))
            for table, size in enumerate(np.diff(wanted.starts))
        ]
        self._held = np.concatenate([np.zeros(0), *counts])
        self.weigh(np.ones(len(counts)))

    def _lacking(self, cells: Codes) -> Floats:
        """Residual of each cell, expected less held rows, beyond the tolerance for rounding."""
        return beyond(self._expected.take(cells) - self._held.take(cells), self._content.take(cells))

    def misfits(self) -> Floats:
        """Chi-square per cell of each table, (tables,); about 1 for a sample."""
        terms, starts = beyond(self._expected - self._held, self._content) ** 2 * self._chi_square, self._wanted.starts
        return np.asarray(np.add.reduceat(terms, starts[:-1]) / np.diff(starts)) if len(starts) > 1 else np.zeros(0)

    def weigh(self, tables: Floats) -> None:
        """Set the weights of the tables' chi-squares, (tables,)."""
        self._weight = self._chi_square * np.repeat(tables, np.diff(self._wanted.starts))
        off = self._expected - self._held
        self._coming, self._going = falls(off, self._content, self._weight, self._never)

    def turn(self, place: int, window: slice, values: Codes, chances: Floats) -> None:
        """Propose values of an attribute for some rows; accept those that lower the chi-squares, at random by gain.

        window: of the rows. values: (window,). chances: uniform numbers, (window,).
        """
        along, rows = self._wanted.along[place], self.rows[:, window]
        other = np.flatnonzero(values != rows[place])  # hardly any, of an attribute with one frequent value
        left, steps = along.bases(rows.take(other, axis=1)), along.steps[:, None]
        now, then = rows[place].take(other), values.take(other)
        left += steps * now
        entered = left + steps * (then - now)
        coming, going = self._coming.take(along.cells), self._going.take(along.cells)
        gain = coming.take(entered).sum(axis=0) + going.take(left).sum(axis=0)
        gains = np.flatnonzero(gain > 0)
        better, gain = other[gains], gain[gains]
        must = gain > NEVER / 2
        worth = np.where(must, 0.0, gain)
        left, entered = left.take(gains, axis=1), entered.take(gains, axis=1)
        accepted = must | (chances[better] < self._odds(along, left, entered, worth))
        change = along.change(left.compress(accepted, axis=1), entered.compress(accepted, axis=1))
        changed = np.flatnonzero(change)
        cells = along.cells.take(changed)
        self._held[cells] += change[changed]
        off = self._expected.take(cells) - self._held.take(cells)
        each = (of.take(cells) for of in (self._content, self._weight, self._never))
        self._coming[cells], self._going[cells] = falls(off, *each)
        rows[place, better[accepted]] = values[better[accepted]]

    def _odds(self, along: Along, left: Codes, entered: Codes, gain: Floats) -> Floats:
        """Acceptance probabilities: gains times the constant that minimises the sum of all chi-squares."""
        change = along.change(left, entered, gain)
        touched = np.flatnonzero(change)
        cells, change = along.cells.take(touched), change.take(touched)
        weighed = change * self._weight.take(cells)
        slope, bend = float(weighed @ self._lacking(cells)), float(weighed @ change)
        return gain * max(0.0, slope / bend) if bend > 0 else gain

    def impossible(self) -> Codes:
        """Indices of rows in a cell that must be empty."""
        flags, starts = np.zeros(self.rows.shape[1], dtype=bool), self._wanted.starts
        never = (self._expected <= 0) & (self._held > 0)
        for table in range(len(starts) - 1):
            inside = never[starts[table] : starts[table + 1]]
            if inside.any():
                flags |= inside[self._wanted.cells_of(table, self.rows)]
        return np.flatnonzero(flags)


def beyond(off: Floats, content: Floats) -> Floats:
    """Part of residuals beyond a tolerance, (cells,)."""
    return np.asarray(off - np.minimum(np.maximum(off, -content), content))


def falls(off: Floats, content: Floats, weight: Floats, never: Floats) -> tuple[Floats, Floats]:
    """Fall of half the chi-square of some cells if a row enters, and if one leaves; off: residuals, (cells,)."""
    now, half = beyond(off, content) ** 2, weight / 2
    coming, going = ((now - beyond(off - more, content) ** 2) * half for more in (1.0, -1.0))
    return coming - never, going + never


ROUNDS = 5  # of fitting what is expected of rows to all sums


@dataclass(frozen=True, eq=False)
class RowsOfMargins:
    """Row model of a content of marginals.

    answers: joined counts along some axes, of any sign. larger: tables of more than two axes that rows match too. sums:
    of each measure by axes, in the measure's steps. conditional: the model of the rows that fulfil a condition. first:
    axes whose values are given to `draw`.
    """

    schema: Schema
    total: float
    answers: Callable[[Places], Floats]
    larger: Mapping[Places, Floats]
    sums: Mapping[str, Mapping[Places, Floats]]
    conditional: Callable[[Predicate], RowModel]
    first: Places = ()

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        """Estimated counts by groupings of attribute values."""
        places = tuple(self.schema.domain.place(grouping.name) for grouping in groupings)
        table = self.answers(tuple(sorted(places)))
        return gather_margin(np.transpose(table, np.argsort(np.argsort(places))), groupings)

    def given(self, where: Predicate) -> RowModel:
        return self.conditional(where)

    def by(self, names: Sequence[str]) -> RowsOfMargins:
        return replace(self, first=tuple(map(self.schema.domain.place, names)))

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        """Draw a row, with means of the measures, for each of `places`: with `first`, numbers of its combinations."""
        held: dict[int, Codes] = {}
        if self.first:
            shape = [self.schema.domain.shape[place] for place in self.first]
            held = dict(zip(self.first, np.unravel_index(places.astype(np.int64), shape), strict=True))
        rows = self._drawing.draw(len(places), random, held)
        if self.schema.structure is not None:
            rows = possible_rows(self.schema.structure, rows, random, places if self.first else None)
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
        return Drawing.by([single for _, single in singles], dict(pairs) | dict(self.larger), self.first)


def possible_rows(structure: Structure, rows: Codes, random: RandomNumbers, held: Floats | None = None) -> Codes:
    """Repair rows against structural zeros: recompute functions of other values, replace rows that break a rule.

    rows: codes (attributes, rows). held: for each row, the number of the combination of values that it must keep.
    """
    for function in reversed(structure.ordered):
        rows[function.coarse] = function.image[rows[function.fine]]
    good = structure.agrees(rows)
    if not good.any():
        raise QueryError("no row that could be drawn agrees with what the schema calls impossible; sample more rows")
    kept, bad = np.flatnonzero(good), np.flatnonzero(~good)
    if held is None:
        rows[:, bad] = rows[:, kept[(random.uniform(len(bad)) * len(kept)).astype(np.int64)]]
        return rows
    for key in np.unique(held[bad]):
        mine, some = bad[held[bad] == key], kept[held[kept] == key]
        some = some if len(some) else kept
        rows[:, mine] = rows[:, some[(random.uniform(len(mine)) * len(some)).astype(np.int64)]]
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


MOST_KEPT = 2**15  # cells of the table of a condition's own attributes
MOST_CONDITIONS = 4  # whose tables are kept for the next question
RAKING_ROUNDS = 20  # of raking a table to its one-way sums, which it nearly has
RAKED = 1e-5  # of the rows: nearer than this no rows show a difference


@dataclass(frozen=True, eq=False)
class Source:
    """Marginals of all rows, from which `ConditionalTables` computes those of the rows that fulfil a condition.

    tables: axes of the known tables, by statistic. joined: estimates of one statistic by classes of values along some
    axes, joined value by value if the last argument is true. given: model of the rows that fulfil a condition.
    most_cells, most_attributes: that can be joined for one table.
    """

    schema: Schema
    tables: Mapping[str, Collection[Places]]
    joined: Callable[[str, Mapping[int, Codes], bool], Floats]
    unbiased: bool
    given: Callable[[Predicate], RowModel]
    most_cells: int
    most_attributes: int


def rows_given(where: Predicate, source: Source, rows: RowModel) -> RowModel:
    """Model of the rows that fulfil a condition, from joined tables; by rejection where these would be too large.

    Unbiased tables need rejection too, as they hold no dependence of three attributes. rows: the model of all rows.
    """
    domain = source.schema.domain
    distinct = {domain.place(name): kind for name, kind in classes_of(where, source.schema).items() if kind.any()}
    kinds, along = dict(sorted(distinct.items())), tuple(sorted(distinct))
    classes = prod(int(kind.max()) + 1 for kind in kinds.values())
    mixed = len(where.boxes) > 1 and len(along) > 2  # no pairs tell which rows fulfil it

    def fits(places: Places) -> bool:
        size = prod(domain.shape[place] for place in places)
        return size * classes <= source.most_cells and len({*places, *along}) <= source.most_attributes

    widest = tuple(sorted(set(range(len(domain.shape))) - {*along}, key=lambda place: -domain.shape[place])[:2])
    tables = ConditionalTables(source, where, kinds)
    if source.unbiased or not fits(widest) or (mixed and prod(domain.shape[place] for place in along) > MOST_KEPT):
        counted = tables.total if fits(()) and (along in source.tables["count"] or not source.unbiased) else None
        return Chosen(rows, where, source.schema, counted)
    larger = {places for places in source.tables["count"] if len(places) > 2 and fits(places)}
    kept = sorted(larger | ({along} if mixed else set()))
    sums = {
        of: {places: tables.table(of, places, fine=False) for places in known if 0 < len(places) <= 2}
        for of, known in ((of, source.tables[of]) for of in summed(source.schema))
    }
    counts = {places: tables.counts(places) for places in kept}
    return RowsOfMargins(
        source.schema, tables.total, tables.counts, counts, sums, lambda more: source.given(where & more)
    )


@dataclass(frozen=True, eq=False)
class ConditionalTables:
    """Tables along some axes of the rows that fulfil a condition.

    kinds: by axis, the classes of values that the condition distinguishes.
    """

    source: Source
    where: Predicate
    kinds: Mapping[int, Codes]

    @cached_property
    def total(self) -> float:
        """Estimated count of the rows that fulfil the condition."""
        return float(self.table("count", (), fine=True))

    def counts(self, places: Places) -> Floats:
        """Estimated counts along some axes, in ascending order."""
        if places not in self._known:
            self._known[places] = self._counts(places)
        return self._known[places]

    @cached_property
    def _known(self) -> dict[Places, Floats]:
        return {}

    def _counts(self, places: Places) -> Floats:
        if not places:
            return np.asarray(self.total)
        if len(places) == 1:
            table = self.table("count", places, fine=True)
            return table * (self.total / max(float(table.sum()), LITTLE))
        if self._tied(places):
            return self._raked(self.table("count", places, fine=False), places)
        every = self.source.joined("count", {place: np.arange(self._size(place)) for place in places}, False)
        return self._raked(every * (self.total / max(float(every.sum()), LITTLE)), places)

    def _tied(self, some: Places) -> bool:
        """Whether any known table links axes to the condition; if none does, they are independent of it."""
        known = self.source.tables["count"]
        return any(not {*some}.isdisjoint(places) and not {*self.kinds}.isdisjoint(places) for places in known)

    def _raked(self, table: Floats, places: Places) -> Floats:
        """Table with the one-way sums of the rows that fulfil the condition (iterative proportional fitting)."""
        for _ in range(RAKING_ROUNDS):
            off = 0.0
            for place in places:
                now, wanted = sum_out(table, (place,), places), self.counts((place,))
                table = table * spread_out(wanted / np.maximum(now, LITTLE), (place,), places)
                off = max(off, float(np.abs(now - wanted).sum()))
            if off <= RAKED * self.total:
                break
        return table

    def table(self, of: str, places: Places, *, fine: bool) -> Floats:
        """Sums of one statistic over the rows that fulfil the condition, along some axes in ascending order."""
        every = {place: np.arange(self._size(place)) for place in places}
        kinds = dict(sorted({**self.kinds, **every}.items()))
        domain = self.source.schema.domain
        share = share_by_class(self.where, domain, {domain.names[place]: kind for place, kind in kinds.items()})
        return sum_out(self.source.joined(of, kinds, fine) * share, places, tuple(kinds))

    def _size(self, place: int) -> int:
        return self.source.schema.domain.shape[place]
