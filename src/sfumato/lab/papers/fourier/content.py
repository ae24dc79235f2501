"""Walsh-Hadamard coefficients of margins, and a release of noisy ones with a non-negative integer table fitted to them.

A value of an attribute is its number in bits. A Walsh row is +1 where an even number of chosen bits is set and -1
elsewhere. Numbers that no value has are left out, so rows are as long as there are values.

Least squares: rows of one set of attributes T are those that vary along all of T and along nothing else. With B bits
and m values the rows of one attribute have the Gram matrix 2^B I - J: on vectors that sum to zero along the attribute
it is 2^B, on constant ones 2^B - m. So the normal equations separate: the component of U is the sum over all T that
hold U of the coefficients of T back in cells, averaged over the rest of T, over

    g(U) = (product over U of 2^B) * sum over T of (product over the rest of T of (2^B - m) / m),

and its noise has the variance of one coefficient over g(U).

Estimates come from the fitted table. An interval is that of the measured coefficients, stretched to hold the estimate,
so it holds for every table (docs/fourier.md); where there is no table, the total is raised until no cell is negative.

File format:

sets       for each set of attributes: how many it has
attributes the attributes of all sets, by their places in the schema
answers    the noisy coefficients of all sets, one set after the other
cells      the cells of the table that are not empty, and their rows
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from math import hypot, isnan, prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sfumato.answers.answer import answer_select
from sfumato.answers.evaluate import CountedNoise, View
from sfumato.answers.question import gather_listed
from sfumato.answers.results import Cell, Estimate, Result
from sfumato.arrays import Codes, Floats, Whole
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.models.margins.content import Margins
from sfumato.models.margins.table import Places, Table, subsets, sum_out
from sfumato.queries import Kron, Queries, Total, Weighted
from sfumato.releases.contents.content import About, Content, Written
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import CELL, CELLS, Columns
from sfumato.releases.file.records import NoiseRecord, noise_as_json, record, refusal
from sfumato.releases.rows.from_cells import RowsOfListedCells
from sfumato.releases.rows.model import RowModel
from sfumato.schema import Schema
from sfumato.sql import Key, Select


def bits(values: int) -> int:
    """Number of bits that number so many values: ceil(log2(values)).

    >>> [bits(values) for values in (1, 2, 3, 4, 5)]
    [0, 1, 2, 2, 3]
    """
    return (values - 1).bit_length()


@lru_cache(maxsize=64)
def walsh(values: int) -> Queries:
    """All Walsh rows of an attribute but the first, which is its total.

    >>> walsh(3).dense().tolist()
    [[1, -1, 1], [1, 1, -1], [1, -1, -1]]
    """
    width = bits(values)
    row, column = np.arange(1, 2**width)[:, None], np.arange(values)[None, :]
    odd = np.zeros((len(row), values), dtype=np.int64)
    for bit in range(width):
        odd ^= (row >> bit) & (column >> bit) & 1
    return Weighted(1 - 2 * odd)


@lru_cache(maxsize=256)
def walsh_table(sizes: tuple[int, ...]) -> Queries:
    """Walsh rows over a margin that no smaller margin has: those that vary along all of its attributes.

    >>> walsh_table((2, 2)).dense().tolist(), walsh_table(()).dense().tolist()
    ([[1, -1, -1, 1]], [[1]])
    """
    factors = [walsh(size) for size in sizes]
    return Kron(*factors) if len(factors) > 1 else factors[0] if factors else Total(1)


def coefficients(sizes: Iterable[int]) -> int:
    """Number of Walsh coefficients of a margin that none of its sub-margins has."""
    return prod(2 ** bits(size) - 1 for size in sizes)


def downward_closure(wanted: Iterable[Places], sizes: Sequence[int]) -> tuple[Places, ...]:
    """All subsets of the wanted sets of attributes, smaller ones first; attributes of one value are left out.

    >>> downward_closure([(0, 2)], (2, 2, 3))
    ((), (0,), (2,), (0, 2))
    """
    found: set[Places] = {()}
    for places in wanted:
        parts: list[Places] = [()]
        for place in places:
            if sizes[place] > 1:
                parts += [(*part, place) for part in parts]
        found.update(parts)
    return tuple(sorted(found, key=lambda places: (len(places), places)))


@lru_cache(maxsize=4)
def written_out(sets: tuple[Places, ...], sizes: tuple[int, ...]) -> Floats:
    """Dense Walsh rows of sets of attributes over all cells, (rows, cells), set by set.

    >>> written_out(((), (1,)), (2, 2)).tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0]]
    """
    rows = []
    for places in sets:
        factors = [walsh(size) if place in places else Total(size) for place, size in enumerate(sizes)]
        rows.append(Kron(*factors).dense())
    return np.concatenate(rows).astype(np.float64)


def parts_of(backs: Mapping[Places, Floats], sizes: Sequence[int], variance: float) -> dict[Places, Table]:
    """Least-squares (ANOVA) components of the table, one for each set of attributes, with noise variances by cell.

    backs: for each measured set, W'y as an array along its attributes, W the Walsh rows and y their noisy answers.
    variance: of the noise on one coefficient.
    """
    tops: dict[Places, Floats] = {}
    weights: dict[Places, float] = {}
    padding = [(2 ** (size - 1).bit_length() - size) / size for size in sizes]
    for places, back in backs.items():
        for part in subsets(places):
            rest = [place for place in places if place not in part]
            spare = prod(padding[place] for place in rest)
            if not spare:
                continue
            found = sum_out(back, part, places) / prod(sizes[place] for place in rest)
            for axis in range(found.ndim):
                found = found - found.mean(axis=axis, keepdims=True)
            tops[part] = tops.get(part, 0.0) + found
            weights[part] = weights.get(part, 0.0) + spare
    ordered = sorted(tops, key=lambda part: (len(part), part))
    lengths = {part: prod(2 ** (sizes[place] - 1).bit_length() for place in part) * weights[part] for part in ordered}
    return {
        part: Table(
            part, tops[part] / lengths[part], np.full(tops[part].shape, variance / lengths[part]), 0 * tops[part]
        )
        for part in ordered
    }


def margin_of(parts: Mapping[Places, Table], places: Places, sizes: Sequence[int]) -> Floats:
    """Marginal table: the sum of the components of all its subsets, each spread evenly over the other axes."""
    whole: Floats = np.zeros([sizes[place] for place in places])
    for part in subsets(places):
        if part in parts:
            spread = parts[part].estimate.reshape([sizes[place] if place in part else 1 for place in places])
            whole = whole + spread / prod(sizes[place] for place in places if place not in part)
    return whole


def least_raise(parts: Mapping[Places, Table], sizes: Sequence[int]) -> float:
    """Least amount to add to the total, evenly over cells, so that no cell of any margin is negative."""
    least = 0.0
    for places in parts:
        margin = margin_of(parts, places, sizes)
        least = max(least, -float(margin.min()) * margin.size)
    return least


COLUMNS = {"sets": ["attributes"], "attributes": ["attribute"], "answers": ["answer"], CELLS: [CELL, "count"]}
MOST_ANSWERS = 2**22  # coefficients that a file may hold


@record
class CoefficientsRecord:
    """Manifest of coefficients: whether there is a table behind them, and their noise."""

    table: bool
    noise: NoiseRecord


class Listed(NamedTuple):
    """Sparse table: indices of the non-empty cells, and their rows."""

    cells: Codes
    counts: Whole


@dataclass(frozen=True, eq=False)
class Coefficients(Content):
    """Noisy Walsh coefficients `measured` of sets of attributes (with all subsets), set by set, with one noise.

    table: fitted to them; None where the total was raised instead.
    """

    uses: ClassVar[frozenset[str]] = frozenset({"details"})

    schema: Schema
    sets: tuple[Places, ...]
    measured: tuple[Measurement, ...]
    table: Listed | None

    @property
    def noise(self) -> Noise:
        return self.measured[0].noise

    @cached_property
    def parts(self) -> dict[Places, Table]:
        """Components of every margin that the coefficients determine, by least squares."""
        sizes = self.domain.shape
        backs = {}
        for places, one in zip(self.sets, self.measured, strict=True):
            back = one.queries.T @ one.answers.astype(np.float64)
            backs[places] = back.reshape([sizes[place] for place in places])
        return parts_of(backs, sizes, self.noise.variance)

    @cached_property
    def unbiased(self) -> Margins:
        """The margins as they were measured: agreeing with each other, with cells that may be negative."""
        return Margins(self.schema, {"count": self.parts}, unbiased=True)

    @cached_property
    def raised_by(self) -> float:
        """Amount added to the total where no table was fitted."""
        return 0.0 if self.table is not None else least_raise(self.parts, self.domain.shape)

    @cached_property
    def raised(self) -> Margins:
        """The margins with the total raised until no cell is negative."""
        total = self.parts[()]
        parts = self.parts | {(): replace(total, estimate=total.estimate + self.raised_by)}
        return Margins(self.schema, {"count": parts}, unbiased=True)

    def select(self, select: Select, confidence: float) -> Result:
        def shown(asked: Select) -> Result:
            return answer_select(asked, self.schema, self._table_view, confidence)

        def measured(asked: Select) -> Result:
            return answer_select(asked, self.schema, self.unbiased.view, confidence)

        return answer_beside(select, shown, measured)

    def _table_view(self, kinds: Mapping[str, Codes]) -> View:
        if self.table is None:
            return self.raised.view(kinds)
        counts = {"count": self.table.counts.astype(np.float64)}
        gathered = gather_listed(self.domain, self.table.cells, counts, tuple(kinds))
        return View(self.schema, gathered, CountedNoise({}))  # its cells are exact

    def cells(self) -> Floats:
        if self.table is None:
            return self.raised.cells()
        laid_out = np.zeros(self.domain.size)
        laid_out[self.table.cells] = self.table.counts
        return laid_out

    @cached_property
    def row_model(self) -> RowModel:
        if self.table is None:
            return self.raised.row_model
        counts = {"count": self.table.counts.astype(np.float64)}
        return RowsOfListedCells(self.schema, counts, {"count": 1.0}, self.table.cells, {"count": 0.0})

    @property
    def about(self) -> About:
        number = sum(len(one.answers) for one in self.measured)
        orders = max(map(len, self.sets))
        if self.table is not None:
            rows = f"{int(self.table.counts.sum()):,} rows"
            numbers = f"numbers are those of one table of {rows}, whole and never negative"
        else:
            numbers = f"{self.raised_by:,.0f} rows were added to the total, evenly, so that no cell is negative"
        return About(
            self.domain.names,
            f"{number:,} coefficients of margins of up to {orders} attributes",
            self.measured,
            f"{numbers}; intervals come from the noisy coefficients alone and hold for every table",
        )

    def write(self) -> Written:
        nothing = np.zeros(0, dtype=np.int64)
        cells, counts = self.table or (nothing, nothing)
        columns: dict[str, dict[str, Whole]] = {
            "sets": {"attributes": np.array([len(places) for places in self.sets], dtype=np.int64)},
            "attributes": {"attribute": np.array([place for places in self.sets for place in places], dtype=np.int64)},
            "answers": {"answer": np.concatenate([one.answers for one in self.measured])},
            CELLS: {CELL: cells, "count": counts},
        }
        noise = noise_as_json(self.noise)
        about: dict[str, Any] = {"table": self.table is not None, "noise": noise}
        return Written("coefficients", [_statistic()], columns, {"details": about})

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        details_as(CoefficientsRecord, manifest)
        if {name: member.columns for name, member in manifest.members.items()} != COLUMNS:
            raise refusal("its members are not those of coefficients")
        if manifest.statistics != [_statistic()] or schema.measures:
            raise refusal("its statistics are not those of coefficients")
        if manifest.members["answers"].rows > MOST_ANSWERS or manifest.members[CELLS].rows > schema.domain.size:
            raise refusal("it has more coefficients or cells than Sfumato makes")

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        axes = len(schema.domain.shape)
        for name, most in (("attributes", axes), ("attribute", axes - 1), (CELL, schema.domain.size - 1)):
            if name in columns and ((columns[name] < 0) | (columns[name] > most)).any():
                raise refusal("its attributes or cells lie outside its schema")
        if CELL in columns and ((np.diff(columns[CELL]) <= 0).any() or (columns["count"] < 1).any()):
            raise refusal("its cells are not in order, or hold no rows")

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Coefficients:
        about, sizes = details_as(CoefficientsRecord, manifest), schema.domain.shape
        orders, flat, answers = (
            member("sets")["attributes"],
            member("attributes")["attribute"],
            member("answers")["answer"],
        )
        if int(orders.sum()) != len(flat):
            raise refusal("its lists of attributes do not go together")
        ends = pairwise([0, *accumulate(orders.tolist())])
        sets = tuple(tuple(flat[start:end].tolist()) for start, end in ends)
        if any(places != tuple(sorted(set(places))) for places in sets) or sets != downward_closure(sets, sizes):
            raise refusal("its sets of attributes are not those of coefficients")
        measured, start = [], 0
        for places in sets:
            queries = queries_of(places, sizes)
            measured.append(Measurement("count", queries, answers[start : start + queries.rows], (about.noise.noise,)))
            start += queries.rows
            if start > len(answers):
                break
        if start != len(answers) or len(measured) != len(sets):
            raise refusal("it does not hold the coefficients that it lists")
        cells = member(CELLS)
        if not about.table and len(cells[CELL]):
            raise refusal("it holds a table where it says that there is none")
        return cls(schema, sets, tuple(measured), Listed(cells[CELL], cells["count"]) if about.table else None)


def queries_of(places: Places, sizes: tuple[int, ...]) -> Queries:
    """Walsh queries of a set of attributes."""
    return walsh_table(tuple(sizes[place] for place in places))


def _statistic() -> Statistic:
    return Statistic("count", CELLS, "count", None)


Ask = Callable[[Select], Result]


def answer_beside(select: Select, shown: Ask, measured: Ask) -> Result:
    """Merge two answers: values and order of `shown` with the intervals of `measured`, matched by group keys."""
    keys = tuple(Key(f"key {name}", name) for name in select.group_by)
    asked = replace(select, columns=(*select.columns, *keys))
    every = replace(asked, order_by=(), limit=None, offset=0)
    found, bars = shown(asked), measured(every)
    width = len(select.columns)
    by_key = {row[width:]: row[:width] for row in bars.rows}
    rows = tuple(tuple(map(_beside, row[:width], by_key[row[width:]])) for row in found.rows)
    notes = tuple(dict.fromkeys((*bars.notes, *found.notes)))
    names = frozenset(found.columns[:width])
    return Result(
        found.columns[:width],
        rows,
        found.confidence,
        notes,
        numbers=(found.numbers or names) & names,
        dated=found.dated,
    )


def _beside(value: Cell, bar: Cell) -> Cell:
    if not isinstance(value, Estimate) or not isinstance(bar, Estimate) or isnan(bar.value) or isnan(value.value):
        return bar
    number, away = value.value, abs(value.value - bar.value)  # which noise alone would not explain
    low, high = min(bar.low, number), max(bar.high, number)
    return replace(bar, value=number, stderr=hypot(bar.stderr, away), low=low, high=high, model=hypot(bar.model, away))
