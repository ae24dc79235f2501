"""Content of a release of marginals: estimated tables of few attributes, joined for each query.

A query is answered from the tables along its own attributes and from nothing else; no number is kept for a cell of all
attributes, of which there may be more than atoms. Values that a query does not distinguish form one class
(answers/question.py), and only classes are joined where single values would be too many.

Estimates: maximum entropy for counts, additive fitting for sums (joining.py). Errors: noise.py.

In a file tables come one after the other, with lists of their statistics and attributes:

    tables      for each table: its statistic and number of attributes; `spread` if it has no cells of its own
    attributes  the attributes of all tables, by their place in the schema
    cells       for each cell of all tables: estimate, and standard errors of noise and model in 1024ths of a row
    measured    for each measurement: its statistic, number of attributes, noise, number of answers; contrasts are used
                for attributes of up to `contrasts` values, and query rows were scaled to `length`
    along       the attributes of all measurements
    answers     the noisy answers of all measurements
    blocks      for each set of attributes with errors of blocks: its statistic, number of attributes, whether it stands
                for all sets of its order, spreads by noise and by model of halves, quarters, eighths and sixteenths (or
                no finer than eighths), those of stripes, and the contrast of its halves, if it has one
    among       the attributes of these sets

Files are read with suspicion: whatever Sfumato would not have written is refused.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property, partial
from itertools import combinations
from math import prod
from statistics import NormalDist
from typing import Any

import numpy as np

from sfumato.answers.evaluate import NoiseSource, View
from sfumato.answers.fit import PARTS
from sfumato.answers.guaranteed_columns import Source as Bounds
from sfumato.answers.question import Gathered, Kinds
from sfumato.arrays import Codes, Flags, Floats, Whole
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.models.linear.strategies.residual_basis import FEW_VALUES, levelled
from sfumato.models.linear.strategies.residual_basis import tables as tables_by_contrasts
from sfumato.models.margins.guaranteed import FromTables, PossibleSource
from sfumato.models.margins.joining import CLOSE, NO_NOISE, NONE, Observed, join_counts, join_sums, join_unbiased, parts
from sfumato.models.margins.noise import (
    JoinedNoise,
    Linked,
    LinkedNoise,
    Marginals,
    Methods,
    PossibleNoise,
    longest_reach,
    longest_tail,
)
from sfumato.models.margins.rows import MOST_CONDITIONS, RowsOfMargins, Source, rows_given
from sfumato.models.margins.scales import FINEST, LEVELS, Scaled, Spreads, in_parts
from sfumato.models.margins.table import CONTRAST, MISFIT, Narrowed, Places, Table, spread_out, subsets, sum_kinds
from sfumato.queries import Identity, Queries
from sfumato.releases.contents.content import NOT_UNBIASED, About, Content, Written
from sfumato.releases.file import members
from sfumato.releases.file.fit_records import from_whole_numbers, in_whole_numbers
from sfumato.releases.file.manifest import BLOCKS, Manifest, Statistic, details_as
from sfumato.releases.file.members import CELLS, Columns, parts_column
from sfumato.releases.file.records import NoiseRecord, noise_as_json, record, refusal
from sfumato.releases.rows.measures import summed
from sfumato.releases.rows.model import RowModel
from sfumato.schema import Schema
from sfumato.schema.facts import Fact, facts_in_words

ESTIMATE = "estimate"
COLUMNS = {
    "tables": ["statistic", "attributes", "spread"],
    "attributes": ["attribute"],
    CELLS: [ESTIMATE, parts_column(ESTIMATE), "noise", "model"],
    "measured": ["statistic", "attributes", "noise", "answers", "contrasts", "length"],
    "along": ["attribute"],
    "answers": ["answer"],
}
FEWEST_LEVELS = 3  # of blocks; files of versions that told no sixteenths have so many
CELL_BY_CELL = 0, 0  # how margins are measured that need no contrasts
CONTRASTED = 3  # attributes of a set whose contrast is kept
MOST_LENGTH = 2**50  # that rows were brought to
MOST_JOINED = 2**22  # cells that are joined for one question
FINE = 2**19  # cells up to which all values are told apart, so that a question has one answer however it is asked
MOST_NAMED = 3  # sets of attributes in a refusal
Contrasts = Mapping[Places, tuple[Sequence[Floats], float]]  # signs of the values of each axis, and the wanted sum
BY_ESTIMATES = (
    *("blocks", "_measures", "_rows_of"),
    *("_known_bends", "_known_bends_of", "_known_nested", "_known_shares", "_known_shapes", "_known_sizes"),
)
MOST_ATTRIBUTES = 12  # in one question; every set of them has a share in its error


@dataclass(frozen=True, eq=False)
class Margins(Marginals):
    """Marginals that answer queries: tables are joined along the axes of each, with the errors of all parts."""

    def view(self, kinds: Kinds) -> View:
        """Joined table and its error model for a query. kinds: class of every value of each attribute."""
        domain, by_place = self.domain, self._classes(kinds)
        axes = tuple(by_place)
        self._check_size(by_place)
        structure = self.schema.structure
        linked = self._linked if self._linked is not None and self._linked.fits(by_place) else None
        if linked is not None or self._cuts(axes):
            named = linked.places if linked is not None else axes
            by_place = by_place | self.every(tuple(axis for axis in axes if axis in named))
            kinds = dict(kinds) | {self.domain.names[axis]: kind for axis, kind in by_place.items()}
        narrowed = None if structure is None or linked is not None else Narrowed.of(structure, by_place)
        inner = by_place if narrowed is None else dict(narrowed.kinds)
        within = self.joined(inner)
        joined = within if narrowed is None else {of: narrowed.expand(joint) for of, joint in within.items()}
        shape = joined["count"].shape
        codes = {}
        for name, kind in kinds.items():
            axis, first = domain.place(name), np.unique(kind, return_index=True)[1]
            along = spread_out(first.astype(np.float64), (axis,), axes) if axis in axes else np.asarray(first[0])
            codes[name] = np.broadcast_to(np.asarray(along, dtype=np.int64), shape).reshape(-1)
        values = {of: joint.reshape(-1) for of, joint in joined.items()}
        merged = 1 if domain.size > 2**62 else domain.size // max(1, prod(shape))
        names = tuple(domain.names[axis] for axis in inner)
        told_apart = {domain.names[axis]: kind for axis, kind in inner.items()} if narrowed else kinds
        size = within["count"].shape
        errors = {of: partial(self.errors, of, inner, within) for of in within}
        recurs = partial(self._recurring, inner) if self.shared else None
        joint = JoinedNoise(names, told_apart, size, errors, recurs, self.lags)
        noises: NoiseSource = joint
        possible = None if structure is None else structure.by_class(inner)
        if linked is not None:
            noises = LinkedNoise(linked, by_place)
        elif narrowed is not None or possible is not None:
            flags = None if possible is None else possible.reshape(-1)
            names_of = {axis: domain.names[axis] for axis in axes}
            noises = PossibleNoise(joint, names_of, by_place, flags, narrowed, cut=self.unbiased)
        return View(self.schema, Gathered(codes, values, merged), noises, estimated=not self.unbiased)

    @cached_property
    def _linked(self) -> Linked | None:
        """Least squares of unbiased tables given structural zeros; None for others, and where it would take long."""
        return Linked.of(self.schema, self.tables) if self.unbiased else None

    def _cuts(self, places: Places) -> bool:
        """Whether single impossible cells are left out of an unbiased table, so that all are told apart."""
        structure = self.schema.structure
        if not self.unbiased or structure is None or prod(self.domain.shape[axis] for axis in places) > FINE:
            return False
        return structure.possible(structure.essential(places)) is not None

    def with_errors(self, tables: Mapping[str, Mapping[Places, Table]], spreads: Mapping[str, Spreads]) -> Margins:
        """The same estimates with other errors; blocks and their sizes follow from estimates alone."""
        other = Margins(self.schema, tables, spreads)
        vars(other).update({name: getattr(self, name) for name in BY_ESTIMATES})
        return other

    @property
    def groups_by_class(self) -> bool:
        return self.schema.structure is None

    def exact_at(self, confidence: float) -> float | None:
        """Nominal confidence of a normal interval that covers `confidence` for sums of a few non-normal noises.

        For unbiased tables, whose error is noise alone; None for others, and where public counts may be wrong.
        """
        if not self.unbiased or self.schema.known:
            return None
        reach = longest_reach(frozenset(one.noise for _, one in self.measured), confidence)
        return max(confidence, 2.0 * NormalDist().cdf(reach) - 1.0)

    def drawn(self, confidence: float) -> tuple[Noise, int] | None:
        """Noise and number of summands of the longest-tailed sum of noises; None without noise."""
        return longest_tail(frozenset(one.noise for _, one in self.measured), confidence)

    def sure(self, kinds: Kinds) -> Bounds:
        """Guaranteed bounds from the noisy tables, for a query's classes of values."""
        structure, classes = self.schema.structure, self._classes(kinds)
        if structure is None:
            return FromTables(self.domain.shape, classes, self.measured, self.guessed)
        narrowed, possible = Narrowed.of(structure, classes), structure.by_class(classes)
        inner = classes if narrowed is None else narrowed.kinds
        source = FromTables(self.domain.shape, inner, self.measured, self.guessed, structure)
        return source if possible is None else PossibleSource(source, possible.reshape(-1), narrowed)

    def _classes(self, kinds: Kinds) -> dict[int, Codes]:
        """Class of every value by axis, for the attributes whose values a query distinguishes."""
        axes = sorted(self.domain.place(name) for name, kind in kinds.items() if kind.max(initial=0) > 0)
        return {axis: np.asarray(kinds[self.domain.names[axis]]) for axis in axes}

    def joined(self, kinds: Mapping[int, Codes], close: float = CLOSE, *, fine: bool = True) -> dict[str, Floats]:
        """Joined estimates of every statistic along some axes, by classes of values.

        kinds: for each axis, the class of every value. close: tolerance of the fitting, as a share of the rows. fine:
        join single values and then aggregate, where there are not too many.
        """
        places = tuple(kinds)
        structure = self.schema.structure
        if self._linked is not None and self._linked.fits(kinds):
            return {of: self._linked.table(of, kinds) for of in self.tables}
        narrowed = None if structure is None else Narrowed.of(structure, kinds)
        if narrowed is not None:
            within = self.joined(narrowed.kinds, close, fine=fine)
            return {of: narrowed.expand(joint) for of, joint in within.items()}
        if self.unbiased:
            return {of: self._added_up(of, kinds) for of in self.tables}
        if not fine or prod(self.domain.shape[axis] for axis in places) > FINE:
            return self._join_all(kinds, close, {}, None if structure is None else structure.by_class(kinds))
        joined = self._of_single_values(places, close)
        return {of: sum_kinds(joint, [kinds[axis] for axis in places]) for of, joint in joined.items()}

    def _of_single_values(self, places: Places, close: float) -> dict[str, Floats]:
        """Joined estimates of every statistic by single values; those of the last questions are kept, `FINE` cells."""
        recent = self.recent[:]  # a copy, as other threads may ask too
        for known, joined in recent:
            if known == (places, close):
                return joined
        possible = None if self.schema.structure is None else self.schema.structure.possible(places)
        joined = self._join_all(self.every(places), close, self._contrasts(places), possible)
        for joint in joined.values():
            joint.setflags(write=False)
        recent.append(((places, close), joined))
        while sum(each["count"].size for _, each in recent) > FINE:
            recent.pop(0)
        self.recent[:] = recent
        return joined

    @cached_property
    def recent(self) -> list[tuple[tuple[Places, float], dict[str, Floats]]]:
        """Results of `_of_single_values` for the last questions, by axes and tolerance."""
        return []

    def _join_all(
        self, kinds: Mapping[int, Codes], close: float, contrasts: Contrasts, possible: Flags | None
    ) -> dict[str, Floats]:
        """Joined estimates of every statistic by classes of values. possible: flags of cells; the others are 0."""
        tables = {of: self._known(of, tuple(kinds), kinds) for of in self.tables}
        joined = {"count": self._join(tables["count"], len(kinds), close, contrasts, possible)}
        for of in list(self.tables)[1:]:
            joined[of] = join_sums(joined["count"], {part: table.estimate for part, table in tables[of].items()})
        return joined

    def _known(self, of: str, places: Places, kinds: Mapping[int, Codes]) -> dict[Places, Table]:
        """Tables along subsets of some axes, aggregated to classes, with axes renumbered from 0."""
        tables = {}
        for part in subsets(places):
            if (table := self.tables[of].get(part)) is not None:
                tables[tuple(places.index(axis) for axis in part)] = table.summed(kinds)
        return tables

    def _added_up(self, of: str, kinds: Mapping[int, Codes]) -> Floats:
        """Unbiased joined table: the sum of ANOVA components, by classes of values; 0 in impossible cells."""
        places, structure = tuple(kinds), self.schema.structure
        if self._cuts(places) and any(len(np.unique(kind)) < len(kind) for kind in kinds.values()):
            return sum_kinds(self._added_up(of, self.every(places)), [kinds[axis] for axis in places])
        tables = self._known(of, tuple(kinds), kinds)
        bases = [self._base(axis, kind) for axis, kind in kinds.items()]
        joined = join_unbiased(bases, {places: table.estimate for places, table in tables.items()})
        possible = None if structure is None else structure.by_class(kinds)
        return joined if possible is None else joined * possible

    def _join(
        self,
        tables: Mapping[Places, Table],
        axes: int,
        close: float = CLOSE,
        contrasts: Contrasts = NONE,
        possible: Flags | None = None,
    ) -> Floats:
        """Joined counts along a number of axes. possible: flags of cells; the others are 0."""
        estimates = {places: table.estimate for places, table in tables.items()}
        if not axes:
            return estimates[()]
        one_way = [estimates[axis,] for axis in range(axes)]
        total = max(float(estimates[()]), 1e-9)
        for first in range(axes):  # what was not measured is independent, in whatever company it is asked for
            for second in range(first + 1, axes):
                estimates.setdefault((first, second), np.outer(one_way[first], one_way[second]) / total)
        larger = {places: each for places, each in estimates.items() if len(places) > 1}
        return join_counts(one_way, larger, close, contrasts, possible)

    def _contrasts(self, places: Places) -> Contrasts:
        """Wanted contrasts of halves of three axes among some, with signs, axes renumbered from 0."""
        contrasts = self.spreads["count"].contrasts if "count" in self.spreads else {}
        result: dict[Places, tuple[Sequence[Floats], float]] = {}
        for part in combinations(places, 3) if contrasts else ():
            if part in contrasts:
                signs = [np.where(self.blocks[place][0] > 0, -1.0, 1.0) for place in part]
                result[tuple(places.index(place) for place in part)] = signs, contrasts[part]
        return result

    def _check_size(self, kinds: Mapping[int, Codes]) -> None:
        """Refuse a query that distinguishes more cells or attributes than can be joined."""
        numbers = {self.domain.names[place]: int(kind.max(initial=0)) + 1 for place, kind in kinds.items()}
        if prod(numbers.values()) <= MOST_JOINED and len(numbers) <= MOST_ATTRIBUTES:
            return
        widest = sorted(numbers, key=lambda name: -numbers[name])
        listed = ", ".join(f"{name} ({numbers[name]:,})" for name in widest[:4])
        limit = (
            f"tells apart {float(prod(numbers.values())):.3g} cells, and {MOST_JOINED:,} can be joined"
            if len(numbers) <= MOST_ATTRIBUTES
            else f"is about {len(numbers)} attributes, and {MOST_ATTRIBUTES} can be joined"
        )
        raise QueryError(f"this question {limit}; leave out, or ask for fewer values of, {listed}")

    def cells(self) -> Floats:
        """Joined counts of all cells, where there are few enough."""
        every = self.every(tuple(range(len(self.domain.shape))))
        self._check_size(every)
        return self.joined(every)["count"].reshape(-1)

    @cached_property
    def row_model(self) -> RowModel:
        """Model from which synthetic rows are drawn."""
        counts = {} if self.unbiased else self.tables["count"]
        larger = {places: table.estimate for places, table in counts.items() if len(places) > 2}
        sums = {}
        for of, tables in ((of, self.tables[of]) for of in summed(self.schema)):
            few = [places for places in tables if 0 < len(places) <= 2 or (places and not self.unbiased)]
            whole = {places: self.joined(self.every(places))[of] for places in few} if self.unbiased else {}
            sums[of] = {places: whole.get(places, tables[places].estimate) for places in few}
        total = float(self.joined({})["count"] if self.unbiased else self.tables["count"][()].estimate)
        return RowsOfMargins(self.schema, total, self._along, larger, sums, self._rows_given)

    def _rows_given(self, where: Predicate) -> RowModel:
        """Model of the rows that fulfil a condition, kept for the last few conditions."""
        known = self._conditional_rows
        if where not in known:
            while len(known) >= MOST_CONDITIONS:
                known.pop(next(iter(known)))
            limits = MOST_JOINED, MOST_ATTRIBUTES
            source = Source(self.schema, self.tables, self._estimate, self.unbiased, self._rows_given, *limits)
            known[where] = rows_given(where, source, self.row_model)
        return known[where]

    @cached_property
    def _conditional_rows(self) -> dict[Predicate, RowModel]:
        return {}

    def _estimate(self, of: str, kinds: Mapping[int, Codes], fine: bool) -> Floats:
        """Joined estimates of one statistic along some axes, by classes of values."""
        return self.joined(kinds, fine=fine)[of]

    def _along(self, places: Places) -> Floats:
        """Joined counts of single values along some axes."""
        every = self.every(places)
        if self.schema.structure is not None:
            return self.joined(every)["count"]
        if self.unbiased:
            return self._added_up("count", every)
        return self._join(self._known("count", places, every), len(places))

    def every(self, places: Places) -> dict[int, Codes]:
        """Classes that distinguish every value of some axes."""
        return {place: np.arange(self.domain.shape[place]) for place in places}

    @property
    def about(self) -> About:
        orders = [len(places) for places in self.tables["count"]]
        words = {1: "one-way", 2: "two-way", 3: "three-way"}
        named = ((words.get(order, f"{order}-way"), orders.count(order)) for order in sorted({*orders} - {0}))
        return About(
            self.domain.names,
            f"{', '.join(f'{number:,} {word}' for word, number in named)} margins",
            tuple(measured for _, measured in self.measured),
            "margins carry noise, whose size is known exactly; what is asked beyond them is what they add up to"
            if self.unbiased
            else "margins carry noise and were drawn towards what smaller ones say of them; answers about more "
            "attributes than were measured together join margins, and how far that is off was measured with noise",
            tuple(facts_in_words(self.schema, self._contradicted)) if self.schema.known else (),
        )

    @property
    def _contradicted(self) -> list[Fact]:
        """Public counts that the tables do not follow, as noisy ones contradict them."""
        if self.unbiased:
            along = ((fact, self._added_up("count", self.every(fact.places))) for fact in self.schema.known)
            return [fact for fact, each in along if np.abs(each.reshape(-1) - fact.counts).max() > 0.5]
        tables = self.tables["count"]
        along = ((fact, tables[fact.places].estimate) for fact in self.schema.known)
        return [fact for fact, estimate in along if not np.array_equal(estimate.reshape(-1), fact.counts)]

    def as_measured(self) -> Margins:
        """Unbiased version: ANOVA components of the noisy tables themselves."""
        if self.unbiased:
            return self
        tables, measured = measured_components(self.domain.shape, list(self.tables), self.measured, self.asked)
        return MeasuredMargins(self.schema, tables, measured=measured, unbiased=True)

    def measured_view(self, kinds: Kinds, sets: Iterable[frozenset[str]]) -> View:
        measured = self.as_measured()
        return measured.view_by_sets(kinds, sets) if isinstance(measured, MeasuredMargins) else measured.view(kinds)

    def leaning(self, others: Sequence[Content], before: int) -> Content:
        """Borrow strength from other periods, where these have tables of the same cells (borrowing.py)."""
        from sfumato.models.margins.borrowing import borrowed

        if self.unbiased or self.schema.structure is not None:
            return self
        alike = [
            isinstance(each, Margins) and not each.unbiased and each.domain.axes == self.domain.axes for each in others
        ]
        kept = [each for each, same in zip(others, alike, strict=True) if same and isinstance(each, Margins)]
        at = sum(alike[:before])
        return borrowed([*kept[:at], self, *kept[at:]], at)

    def spread_beside(self, other: Content) -> float | None:
        if not isinstance(other, Margins):
            return None
        pairs = [p for p in self.tables["count"] if len(p) == 2 and p in other.tables["count"]]
        mine, its = (
            sum(float((each.tables["count"][p].noise + each.tables["count"][p].model).sum()) for p in pairs)
            for each in (self, other)
        )
        return float(np.sqrt(mine / its)) if its > 0.0 else None

    def write(self) -> Written:
        return _written(self)

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        details_as(MarginsRecord, manifest)
        columns = {name: member.columns for name, member in manifest.members.items()}
        if columns not in (COLUMNS, *(COLUMNS | of_blocks(levels) for levels in range(FEWEST_LEVELS, LEVELS + 1))):
            raise refusal("its members are not those of margins")
        if manifest.statistics != _statistics(schema, list(schema.units)):
            raise refusal("its statistics are not those of its schema")

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Validate signs and ranges of single columns; consistency between columns is checked on reading."""
        signed = (ESTIMATE, "answer", "contrast")
        below = [name for name, each in columns.items() if name not in signed and (each < 0).any()]
        parts = columns.get(parts_column(ESTIMATE))
        if below or (parts is not None and (parts >= PARTS).any()):
            raise refusal("its margins are not spelled as Sfumato spells them")

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Margins:
        return _read(manifest, schema, member)


class MeasuredMargins(Margins):
    """Unbiased marginals. A query that no noisy table contains is refused."""

    def view(self, kinds: Kinds) -> View:
        return self.view_by_sets(kinds, [frozenset(kinds)])

    def view_by_sets(self, kinds: Kinds, sets: Iterable[frozenset[str]]) -> View:
        """View in which sums over functions of each set of attributes are unbiased; what else it shows is not."""
        for names in sets:
            places = sorted(self.domain.place(name) for name in names if kinds[name].max(initial=0) > 0)
            structure = self.schema.structure
            asked = places if structure is None else structure.essential(places)
            self._refuse_unmeasured({self.domain.names[place] for place in asked})
        return super().view(kinds)

    def _refuse_unmeasured(self, query: set[str]) -> None:
        """Refuse a query of attributes that no noisy table contains."""
        sets = [{self.domain.names[place] for place in places} for places in self.tables["count"]]
        if not any(query <= names for names in sets):
            largest = [names for names in sets if len(names) > 1 and not any(names < other for other in sets)]
            near = sorted(largest, key=lambda names: (-len(names & query), len(names)))[:MOST_NAMED]
            listed = "; ".join(", ".join(name for name in self.domain.names if name in names) for names in near)
            raise QueryError(
                f"{', '.join(sorted(query))} were not measured together, so there is no unbiased answer; ask about "
                f"attributes that were ({listed or 'one at a time'}), or without unbiased"
            )


def measured_components(
    shape: Sequence[int], statistics: Sequence[str], measured: Sequence[tuple[Places, Measurement]], asked: Methods
) -> tuple[dict[str, dict[Places, Table]], tuple[tuple[Places, Measurement], ...]]:
    """ANOVA components of every statistic from noisy tables of single cells, and the measurements used.

    asked: method of each measurement, empty if all are cell by cell; only counts or sums of single cells are used.
    """
    used, observed = [], defaultdict[str, list[Observed]](list)
    for (places, measurement), method in zip(measured, asked or (CELL_BY_CELL,) * len(measured), strict=True):
        sizes = [shape[place] for place in places]
        cell_by_cell = isinstance(measurement.queries, Identity) and len(measurement.answers) == prod(sizes)
        if method == CELL_BY_CELL and cell_by_cell and measurement.of in statistics:
            used.append((places, measurement))
            values = measurement.answers.astype(np.float64).reshape(sizes)
            observed[measurement.of].append(Observed(places, values, max(measurement.noise.variance, NO_NOISE)))
    tables = {of: parts(observed[of]) for of in statistics}
    if any(() not in components for components in tables.values()):
        raise QueryError(f"this release does not hold the noisy tables that it was made of; {NOT_UNBIASED}")
    return tables, tuple(used)


@record
class MarginsRecord:
    """Entry of a manifest: how tables are joined, noises, spreads by order, and guesses of one-way margins."""

    unbiased: bool
    noises: list[NoiseRecord]
    spreads: list[list[int]]
    guessed: list[list[int]] = field(default_factory=list)  # all rows and one-way margins, in 1024ths


def _written(content: Margins) -> Written:
    """Members and manifest entry of a content of marginals."""
    statistics = list(content.tables)
    listed = [(of, table) for of, tables in content.tables.items() for table in tables.values()]
    single = [(of, places, spread) for of, each in content.spreads.items() for places, spread in each.single.items()]
    tables = [(statistics.index(of), len(table.places), 0) for of, table in listed]
    tables += [(statistics.index(of), len(places), in_parts(spread)) for of, places, spread in single]
    sets = [table.places for _, table in listed] + [places for _, places, _ in single]
    estimates, parts = in_whole_numbers(np.concatenate([table.estimate.reshape(-1) for _, table in listed]))
    variances = [table.noise for _, table in listed], [table.model for _, table in listed]
    errors = (np.concatenate([np.sqrt(variance).reshape(-1) for variance in each]) for each in variances)
    noises = {noise: place for place, noise in enumerate(dict.fromkeys(one.noise for _, one in content.measured))}
    kinds = [*statistics, MISFIT, CONTRAST]
    methods = content.asked or (CELL_BY_CELL,) * len(content.measured)
    measured = [
        (kinds.index(one.of), len(places), noises[one.noise], len(one.answers), *how)
        for (places, one), how in zip(content.measured, methods, strict=True)
    ]
    columns: dict[str, list[Whole]] = {
        "tables": _columns(tables, 3),
        "attributes": [_flat(sets)],
        CELLS: [estimates, parts, *(np.rint(PARTS * each).astype(np.int64) for each in errors)],
        "measured": _columns(measured, 6),
        "along": [_flat(places for places, _ in content.measured)],
        "answers": [np.concatenate([np.zeros(0, dtype=np.int64), *(one.answers for _, one in content.measured)])],
    }
    by_scale = [(*each.blocks_by_order.values(), *each.blocks.values()) for each in content.spreads.values()]
    levels = max((len(scaled.noise) for every in by_scale for scaled in every), default=LEVELS)
    named = COLUMNS | of_blocks(levels)
    if blocks := [row for of, each in content.spreads.items() for row in _blocks(statistics.index(of), each)]:
        columns[BLOCKS] = _columns([row for row, _ in blocks], len(named[BLOCKS]))
        columns["among"] = [_flat(places for _, places in blocks)]
    kept = {name: dict(zip(named[name], each, strict=True)) for name, each in columns.items()}
    orders = [content.spreads.get(of, Spreads()).by_order for of in statistics]
    about: dict[str, Any] = {
        "unbiased": content.unbiased,
        "noises": [noise_as_json(noise) for noise in noises],
        "spreads": [[in_parts(spread) for spread in each] for each in orders],
    }
    if content.guessed:
        about["guessed"] = [np.rint(PARTS * each).astype(np.int64).tolist() for each in content.guessed]
    return Written("margins", _statistics(content.schema, statistics), kept, {"details": about})


def _read(manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Margins:
    """Decode marginals from an untrusted file."""
    about, statistics = details_as(MarginsRecord, manifest), list(schema.units)
    if len(about.spreads) != len(statistics) or any(spread < 0 for each in about.spreads for spread in each):
        raise refusal("its manifest has spreads that do not go with its statistics")
    tables: dict[str, dict[Places, Table]] = {of: {} for of in statistics}
    single: dict[str, dict[Places, float]] = {of: {} for of in statistics}
    listed, cells = member("tables"), member(CELLS)
    estimates = from_whole_numbers(cells[ESTIMATE], cells[parts_column(ESTIMATE)])
    numbers = (estimates, *((cells[name] / PARTS) ** 2 for name in ("noise", "model")))
    start, shape = 0, schema.domain.shape
    sets = _sets(listed["attributes"], member("attributes")["attribute"], len(shape))
    for of, places, spread in zip(_named(listed["statistic"], statistics), sets, listed["spread"], strict=True):
        if places in tables[of] or places in single[of]:
            raise refusal("it lists a table twice")
        if spread:  # never 0, which stands for a table with cells
            single[of][places] = int(spread) / FINEST
            continue
        sizes = [shape[place] for place in places]
        end = start + prod(sizes)
        if end > len(estimates):
            raise refusal("its tables have more cells than it holds")
        tables[of][places] = Table(places, *(each[start:end].reshape(sizes) for each in numbers))
        start = end
    if start != len(estimates):
        raise refusal("it holds cells of no table")
    _check_whole(tables, len(shape), about.unbiased)
    scaled = _read_blocks(statistics, member, len(shape)) if BLOCKS in manifest.members else {}
    spreads = {
        of: Spreads(tuple(spread / FINEST for spread in each), single[of], *scaled.get(of, ({}, {}, {})))
        for of, each in zip(statistics, about.spreads, strict=True)
    }
    measured = tuple(_measurements(about, [*statistics, MISFIT, CONTRAST], member, shape))
    listed = member("measured")
    methods = tuple(zip(listed["contrasts"].tolist(), listed["length"].tolist(), strict=True))
    if about.guessed and [len(each) for each in about.guessed] != [1, *shape]:
        raise refusal("its guesses do not go with its schema")
    if any(not 0 <= value < MOST_LENGTH for each in about.guessed for value in each):
        raise refusal("its guesses are not as Sfumato makes them")
    guessed = tuple(np.array(each, dtype=np.float64) / PARTS for each in about.guessed)
    return Margins(schema, tables, spreads, measured, about.unbiased, methods, guessed)


def of_blocks(levels: int) -> dict[str, list[str]]:
    """Column names of the errors of blocks at a number of levels."""
    spreads = [f"{part} {level}" for part in ("noise", "model") for level in range(levels)]
    stripes = [f"stripe {axis}" for axis in range(2)]
    listed = ["statistic", "attributes", "all", *spreads, *stripes, "contrasted", "contrast"]
    return {BLOCKS: listed, "among": ["attribute"]}


def _blocks(statistic: int, spreads: Spreads) -> Iterator[tuple[tuple[int, ...], Places]]:
    """Rows for the block spreads of a statistic, each with its attributes (none if it stands for an order)."""
    listed: list[tuple[Places, int, Scaled]] = [
        ((), order, scaled) for order, scaled in spreads.blocks_by_order.items()
    ]
    listed += [(places, len(places), scaled) for places, scaled in spreads.blocks.items()]
    for places, order, scaled in listed:
        stripes = (*scaled.stripes, 0.0, 0.0)[:2]
        numbers = [round(spread * FINEST) for spread in (*scaled.noise, *scaled.model, *stripes)]
        contrast = spreads.contrasts.get(places) if places else None
        flagged = (0, 0) if contrast is None else (1, round(contrast))
        yield (statistic, order, int(not places), *numbers, *flagged), places


def _read_blocks(
    statistics: list[str], member: Callable[[str], Columns], axes: int
) -> dict[str, tuple[dict[int, Scaled], dict[Places, Scaled], dict[Places, float]]]:
    """Read block spreads by statistic: of all sets of an order, of single sets, and contrasts."""
    listed = member(BLOCKS)
    result: dict[str, tuple[dict[int, Scaled], dict[Places, Scaled], dict[Places, float]]] = {}
    if (listed["all"] > 1).any() or (listed["contrasted"] > 1).any() or (listed["attributes"] < 2).any():
        raise refusal("its errors of blocks are not spelled as Sfumato spells them")
    sets = _sets(np.where(listed["all"] > 0, 0, listed["attributes"]), member("among")["attribute"], axes)
    levels = sum(name.startswith("noise ") for name in listed)
    spreads = [[int(entry) / FINEST for entry in listed[name].tolist()] for name in of_blocks(levels)[BLOCKS][3:-2]]
    orders, flags, contrasts = (listed[name].tolist() for name in ("attributes", "contrasted", "contrast"))
    for row, (of, places) in enumerate(zip(_named(listed["statistic"], statistics), sets, strict=True)):
        by_order, single, kept = result.setdefault(of, ({}, {}, {}))
        entry = [numbers[row] for numbers in spreads]
        stripes = tuple(entry[2 * levels :]) if orders[row] == 2 else ()
        scaled = Scaled(tuple(entry[:levels]), tuple(entry[levels : 2 * levels]), stripes)
        if places in single or (not places and orders[row] in by_order):
            raise refusal("it lists the errors of a set's blocks twice")
        if places:
            single[places] = scaled
        else:
            by_order[orders[row]] = scaled
        if flags[row]:
            if len(places) != CONTRASTED:
                raise refusal("it has contrasts of sets that have none")
            kept[places] = float(contrasts[row])
    return result


def _check_whole(tables: Mapping[str, Mapping[Places, Table]], axes: int, unbiased: bool) -> None:
    """Refuse tables without a total or a one-way margin, and negative counts where none can be."""
    for by_places in tables.values():
        if () not in by_places or (not unbiased and any((axis,) not in by_places for axis in range(axes))):
            raise refusal("it lacks the total or a one-way margin of a statistic")
    if not unbiased and any((table.estimate < 0).any() for table in tables["count"].values()):
        raise refusal("it holds negative counts, where none can be")


def _measurements(
    about: MarginsRecord, kinds: list[str], member: Callable[[str], Columns], shape: Sequence[int]
) -> Iterator[tuple[Places, Measurement]]:
    """Decode the measurements, each with its attributes."""
    listed, answers = member("measured"), member("answers")["answer"]
    sets = _sets(listed["attributes"], member("along")["attribute"], len(shape))
    ends = np.cumsum(listed["answers"])
    if (listed["noise"] >= len(about.noises)).any() or int(ends[-1] if len(ends) else 0) != len(answers):
        raise refusal("its measurements do not go with their noises or answers")
    named = _named(listed["statistic"], kinds)
    if (listed["contrasts"] > FEW_VALUES).any() or (listed["length"] > MOST_LENGTH).any():
        raise refusal("its measurements are not as Sfumato makes them")
    numbers = (listed[name].tolist() for name in ("noise", "answers", "contrasts", "length"))
    for of, places, noise, size, few, length, end in zip(named, sets, *numbers, ends.tolist(), strict=True):
        if size < 1:
            raise refusal("it lists a measurement without answers")
        queries = _queries(tuple(shape[place] for place in places), few, length, size)
        yield places, Measurement(of, queries, answers[end - size : end], (about.noises[noise].noise,))


def _queries(sizes: tuple[int, ...], few: int, length: int, rows: int) -> Queries:
    """Query matrix of a measured margin: its cells, or contrasts of them."""
    if not few:
        return Identity(rows)
    if prod(size - 1 if size <= few else size for size in sizes) != rows:
        raise refusal("its measurements do not have the answers that they ask for")
    queries = tables_by_contrasts(sizes, few)
    return levelled(queries, length) if length else queries


def _sets(orders: Whole, flat: Whole, axes: int) -> list[Places]:
    """Split a flat list of attributes into sets by their orders."""
    if int(orders.sum()) != len(flat) or (orders > axes).any() or (flat >= axes).any():
        raise refusal("its lists of attributes do not go with its schema")
    ends = np.cumsum(orders)
    sets = [tuple(flat[end - order : end].tolist()) for order, end in zip(orders, ends, strict=True)]
    if any(places != tuple(sorted(set(places))) for places in sets):
        raise refusal("its lists of attributes are not in order")
    return sets


def _named(codes: Whole, names: list[str]) -> list[str]:
    """Names of statistics by their codes in the file."""
    if (codes >= len(names)).any():
        raise refusal("its tables are of statistics that its schema does not have")
    return [names[code] for code in codes]


def _statistics(schema: Schema, statistics: list[str]) -> list[Statistic]:
    """Manifest entries of the statistics."""
    found = (members.statistic(of, schema, None) for of in statistics)
    return [Statistic(one.of, CELLS, ESTIMATE, None, one.step, one.centre) for one in found]


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> list[Whole]:
    """Transpose rows of integers into columns."""
    return list(np.array(rows, dtype=np.int64).reshape(-1, width).T.copy())


def _flat(sets: Iterable[Places]) -> Whole:
    """Attributes of all sets, one after the other."""
    return np.array([place for places in sets for place in places], dtype=np.int64)
