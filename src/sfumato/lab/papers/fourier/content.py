"""Release of noisy Walsh-Hadamard coefficients of margins, with a non-negative integer table fitted to them.

The coefficients are the curator's noisy answers. Estimates come from the fitted table, whose margins agree with each
other and are never negative. How far that table is off cannot be derived from the noise alone, so intervals come from
the coefficients, whose noise is known, and hold for every table: an interval is the measurement's, stretched to hold
the estimate where that lies outside, and the standard error adds the distance of the two. Where cells are too many for
a table, margins are those of the coefficients with the total raised until no cell is negative.

File format:

sets       for each set of attributes: how many it has
attributes the attributes of all sets, by their places in the schema
answers    the noisy coefficients of all sets, one set after the other
cells      the cells of the table that are not empty, and their rows
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import hypot, isnan
from typing import Any, ClassVar

import numpy as np

from sfumato.answers.answer import answer_select
from sfumato.answers.evaluate import Terms, View
from sfumato.answers.question import Gathered, Groups, gather_listed
from sfumato.answers.results import Cell, Estimate, Result
from sfumato.arrays import Codes, Floats, Whole
from sfumato.frozen import dataclass
from sfumato.lab.papers.fourier.walsh import downward_closure, least_raise, parts_of, walsh_table
from sfumato.measurement import Measurement, Noise
from sfumato.models.margins.content import Margins
from sfumato.models.margins.table import Places, Table
from sfumato.queries import Queries
from sfumato.releases.contents.content import About, Content, Written
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import CELL, CELLS, Columns
from sfumato.releases.file.records import NoiseRecord, noise_as_json, record, refusal
from sfumato.releases.rows.from_cells import RowsOfListedCells
from sfumato.releases.rows.model import RowModel
from sfumato.schema import Schema
from sfumato.sql import Key, Select

COLUMNS = {"sets": ["attributes"], "attributes": ["attribute"], "answers": ["answer"], CELLS: [CELL, "count"]}
MOST_ANSWERS = 2**22  # coefficients that a file may hold


@record
class CoefficientsRecord:
    """Manifest of coefficients: whether there is a table behind them, and their noise."""

    table: bool
    noise: NoiseRecord


class _NoNoise:
    """Noise of the fitted table: none, its cells are exact."""

    def terms(self, sides: object, cells: Gathered, groups: Groups) -> list[Terms]:
        return [()] * len(groups.present)

    def largest_model_part(self, side: object, groups: object) -> None:
        """Not told here."""

    def signs_of_rows(self, within: object, cells: Gathered) -> None:
        return None


@dataclass(frozen=True, eq=False)
class Coefficients(Content):
    """sets: of attributes, with all their subsets. measured: their Walsh coefficients, set by set, with one noise.

    cells, counts: the table, cells that are not empty; None where the total was raised instead.
    """

    uses: ClassVar[frozenset[str]] = frozenset({"details"})

    schema: Schema
    sets: tuple[Places, ...]
    measured: tuple[Measurement, ...]
    cells_kept: Codes | None
    counts: Whole | None

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
        """Amount that was added to the total where there is no table."""
        return 0.0 if self.counts is not None else least_raise(self.parts, self.domain.shape)

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
        if self.counts is None or self.cells_kept is None:
            return self.raised.view(kinds)
        gathered = gather_listed(self.domain, self.cells_kept, {"count": self.counts.astype(np.float64)}, tuple(kinds))
        return View(self.schema, gathered, _NoNoise())

    def cells(self) -> Floats:
        if self.counts is None or self.cells_kept is None:
            return self.raised.cells()
        laid_out = np.zeros(self.domain.size)
        laid_out[self.cells_kept] = self.counts
        return laid_out

    @cached_property
    def row_model(self) -> RowModel:
        if self.counts is None or self.cells_kept is None:
            return self.raised.row_model
        counts = {"count": self.counts.astype(np.float64)}
        return RowsOfListedCells(self.schema, counts, {"count": 1.0}, self.cells_kept, {"count": 0.0})

    @property
    def about(self) -> About:
        number = sum(len(one.answers) for one in self.measured)
        orders = max(map(len, self.sets))
        if self.counts is not None:
            numbers = f"numbers are those of one table of {int(self.counts.sum()):,} rows, whole and never negative"
        else:
            numbers = f"{self.raised_by:,.0f} rows were added to the total, evenly, so that no cell is negative"
        return About(
            self.domain.names,
            f"{number:,} coefficients of margins of up to {orders} attributes",
            self.measured,
            f"{numbers}; intervals come from the noisy coefficients alone and hold for every table",
        )

    def write(self) -> Written:
        kept = np.zeros(0, dtype=np.int64)
        cells, counts = (
            (kept, kept) if self.counts is None or self.cells_kept is None else (self.cells_kept, self.counts)
        )
        columns: dict[str, dict[str, Whole]] = {
            "sets": {"attributes": np.array([len(places) for places in self.sets], dtype=np.int64)},
            "attributes": {"attribute": np.array([place for places in self.sets for place in places], dtype=np.int64)},
            "answers": {"answer": np.concatenate([one.answers for one in self.measured])},
            CELLS: {CELL: cells, "count": counts},
        }
        noise = noise_as_json(self.noise)
        about: dict[str, Any] = {"table": self.counts is not None, "noise": noise}
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
        table = (cells[CELL], cells["count"]) if about.table else (None, None)
        return cls(schema, sets, tuple(measured), *table)


def queries_of(places: Places, sizes: tuple[int, ...]) -> Queries:
    """The rows that a set of attributes was asked by."""
    return walsh_table(tuple(sizes[place] for place in places))


def _statistic() -> Statistic:
    return Statistic("count", CELLS, "count", None)


Ask = Callable[[Select], Result]


def answer_beside(select: Select, shown: Ask, measured: Ask) -> Result:
    """The numbers and the order of one answer with the intervals of the other; groups are told by their keys."""
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
