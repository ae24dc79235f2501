"""Content of a release of marginals: estimated tables of few attributes, joined for each query.

A query is answered from the tables along its own attributes and from nothing else; no number is kept for a cell of all
attributes, of which there may be more than atoms. Values that a query does not distinguish form one class
(answers/question.py), and only classes are joined where single values would be too many.

Estimates: maximum entropy for counts, additive fitting for sums (joining.py). Errors: an independent component for each
set of attributes, for cells and for blocks (table.py, scales.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import combinations
from math import prod
from statistics import NormalDist

import numpy as np

from sfumato.answers.evaluate import NoiseSource, View
from sfumato.answers.guaranteed_columns import Source as Bounds
from sfumato.answers.question import Gathered, Kinds
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.models.margins import file as margins_file
from sfumato.models.margins.joining import (
    CLOSE,
    NO_NOISE,
    NONE,
    Observed,
    join_counts,
    join_sums,
    join_unbiased,
    level_of,
    parts,
)
from sfumato.models.margins.noise import (
    ErrorsOf,
    FromTables,
    JoinedNoise,
    Narrowed,
    PossibleNoise,
    PossibleSource,
    longest_reach,
    longest_tail,
)
from sfumato.models.margins.rows import MOST_CONDITIONS, RowsOfMargins, Source, rows_given
from sfumato.models.margins.scales import LEVELS, Spreads, bends, bent, halved, measure_of, mixed_sizes, shape_of
from sfumato.models.margins.table import (
    Coarse,
    JoinedErrors,
    Places,
    Table,
    product_of,
    spread_out,
    subsets,
    sum_kinds,
    sum_out,
)
from sfumato.queries import Identity
from sfumato.releases.contents.content import NOT_UNBIASED, About, Content
from sfumato.releases.file.manifest import Manifest
from sfumato.releases.file.members import Columns
from sfumato.releases.rows.measures import summed
from sfumato.releases.rows.model import RowModel
from sfumato.schema import Schema
from sfumato.schema.facts import Fact, facts_in_words

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
class Margins(margins_file.Marginals):
    """Marginals that answer queries: tables are joined along the axes of each, with the errors of all parts."""

    def view(self, kinds: Kinds) -> View:
        """Joined table and its error model for a query. kinds: class of every value of each attribute."""
        domain, by_place = self.domain, self._classes(kinds)
        axes = tuple(by_place)
        self._check_size(by_place)
        structure = None if self.unbiased else self.schema.structure
        narrowed = None if structure is None else Narrowed.of(structure, by_place)
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
        if narrowed is not None or possible is not None:
            flags = None if possible is None else possible.reshape(-1)
            noises = PossibleNoise(joint, {axis: domain.names[axis] for axis in axes}, by_place, flags, narrowed)
        return View(self.schema, Gathered(codes, values, merged), noises, estimated=not self.unbiased)

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

        For unbiased tables, whose error is noise alone; None for others.
        """
        if not self.unbiased:
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
        if self.unbiased:
            return {of: self._added_up(of, kinds) for of in self.tables}
        structure = self.schema.structure
        narrowed = None if structure is None else Narrowed.of(structure, kinds)
        if narrowed is not None:
            within = self.joined(narrowed.kinds, close, fine=fine)
            return {of: narrowed.expand(joint) for of, joint in within.items()}
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
        """Unbiased joined table: the sum of ANOVA components, by classes of values."""
        tables = self._known(of, tuple(kinds), kinds)
        bases = [self._base(axis, kind) for axis, kind in kinds.items()]
        return join_unbiased(bases, {places: table.estimate for places, table in tables.items()})

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
            whole = {places: self._added_up(of, self.every(places)) for places in few} if self.unbiased else {}
            sums[of] = {places: whole.get(places, tables[places].estimate) for places in few}
        total = float(self.tables["count"][()].estimate)
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
        if self.unbiased:
            return self._added_up("count", every)
        return (
            self.joined(every)["count"]
            if self.schema.structure is not None
            else self._join(self._known("count", places, every), len(places))
        )

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
            () if self.unbiased or not self.schema.known else tuple(facts_in_words(self.schema, self._contradicted)),
        )

    @property
    def _contradicted(self) -> list[Fact]:
        """Public counts that the tables do not follow, as noisy ones contradict them."""
        tables = self.tables["count"]
        along = ((fact, tables[fact.places].estimate) for fact in self.schema.known)
        return [fact for fact, estimate in along if not np.array_equal(estimate.reshape(-1), fact.counts)]

    def as_measured(self) -> Margins:
        """Unbiased version: ANOVA components of the noisy tables themselves."""
        if self.unbiased:
            return self
        if self.schema.structure is not None:
            raise QueryError(
                "noisy counts of what the schema calls impossible are no answer, and without them none is unbiased; "
                "ask without unbiased"
            )
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

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Margins:
        return cls(schema, *margins_file.read(manifest, schema, member))


class MeasuredMargins(Margins):
    """Unbiased marginals. A query that no noisy table contains is refused."""

    def view(self, kinds: Kinds) -> View:
        return self.view_by_sets(kinds, [frozenset(kinds)])

    def view_by_sets(self, kinds: Kinds, sets: Iterable[frozenset[str]]) -> View:
        """View in which sums over functions of each set of attributes are unbiased; what else it shows is not."""
        for names in sets:
            self._refuse_unmeasured({name for name in names if kinds[name].max(initial=0) > 0})
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
    shape: Sequence[int],
    statistics: Sequence[str],
    measured: Sequence[tuple[Places, Measurement]],
    asked: margins_file.Methods,
) -> tuple[dict[str, dict[Places, Table]], tuple[tuple[Places, Measurement], ...]]:
    """ANOVA components of every statistic from noisy tables of single cells, and the measurements used.

    asked: method of each measurement, empty if all are cell by cell; only counts or sums of single cells are used.
    """
    used, observed = [], defaultdict[str, list[Observed]](list)
    by_cells = margins_file.CELL_BY_CELL
    for (places, measurement), method in zip(measured, asked or (by_cells,) * len(measured), strict=True):
        sizes = [shape[place] for place in places]
        cell_by_cell = isinstance(measurement.queries, Identity) and len(measurement.answers) == prod(sizes)
        if method == by_cells and cell_by_cell and measurement.of in statistics:
            used.append((places, measurement))
            values = measurement.answers.astype(np.float64).reshape(sizes)
            observed[measurement.of].append(Observed(places, values, max(measurement.noise.variance, NO_NOISE)))
    tables = {of: parts(observed[of]) for of in statistics}
    if any(() not in components for components in tables.values()):
        raise QueryError(f"this release does not hold the noisy tables that it was made of; {NOT_UNBIASED}")
    return tables, tuple(used)
