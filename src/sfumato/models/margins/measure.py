"""Mechanism `margins`: adaptive marginals for tables of many attributes (steps and formulas: README.md in this folder).

A row lies in one cell of every marginal, so charges of marginals add up (docs/privacy.md, section 9), and a misfit has
sensitivity 1 (theorem 6). Own method; the setting is that of AIM (McKenna et al. 2022).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from itertools import combinations
from math import exp2, inf, log2, prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement, with_missing
from sfumato.models.base.mechanism import Forecast, Foresight, Holds, Mechanism
from sfumato.models.margins.views import COUNT, foresee, named_sets
from sfumato.queries import Identity, Workload
from sfumato.schema import Schema
from sfumato.schema.attributes import Category
from sfumato.schema.parts import ROWS

if TYPE_CHECKING:  # `auto` asks what is foretold wherever there are three attributes; the rest is for releases
    from sfumato.models.margins.content import Margins
    from sfumato.models.margins.nested import Hierarchy, NestedMargins
    from sfumato.models.margins.scales import Contrasts, Haar, Scaled, Spreads
    from sfumato.models.margins.table import Noisy, Places, Table
    from sfumato.models.margins.views import Misfits
    from sfumato.schema.facts import Fact

NONE: Mapping[Places, Contrasts] = {}
MOST_COMPARED = 2**22  # cells of a long attribute with another one, whose values are compared with their groups
STANDS_OUT = 0.75  # of its noise, as which the root mean square of contrasts is that are measured for it alone
FINEST = 2**20  # parts in which shares of a budget are counted
OCTAVE = 16  # steps from a share to its double: few shares make few scales of noise, each with a sampler to set up
OF_A_PAIR, OF_A_CELL = 2**21, 2**7  # numbers changed for a pair of attributes and for each of its cells; see `_work`


@dataclass(frozen=True)
class Settings:
    """Shares of the budget, and limits on size.

    Of the budget for counts: check for calibration; of what is left, one_way for each attribute's first margin, misfit
    for each pair's misfit, in all at most most_one_way and most_misfits (`laplace` times this under pure epsilon, where
    noise of many numbers is larger). Of the rest, the budget for tables: three for each misfit of three attributes,
    contrasts for Haar contrasts of pairs. values: of an even share for each attribute, for single values of one that
    enters by groups; compared: of that, to measure how they differ along other attributes. most_searched: attributes up
    to which views are searched for; with more, pairs are measured. count: weight of counts against those of measures.
    pairs: share of two-way tables in a measure's budget.
    """

    one_way: Fraction = Fraction(1, 200)
    most_one_way: Fraction = Fraction(8, 100)
    misfit: Fraction = Fraction(1, 2500)
    contrasts: Fraction = Fraction(15, 100)
    most_misfits: Fraction = Fraction(4, 100)
    laplace: int = 2
    three: Fraction = Fraction(1, 2000)
    most_threes: Fraction = Fraction(1, 100)
    check: Fraction = Fraction(5, 100)
    most_searched: int = 20
    count: int = COUNT
    pairs: Fraction = Fraction(1, 3)
    values: Fraction = Fraction(1, 4)
    compared: Fraction = Fraction(1, 8)
    most_cells: int = 2**18  # of a pair
    most_cells_of_sums: int = 2**10  # of a pair that a measure is summed by

    def shares(self, axes: int, pairs: int, pure: bool) -> tuple[Fraction, Fraction, Fraction]:
        """Shares of the budget for one-way margins, misfits, and everything else."""
        one_way, misfits = min(axes * self.one_way, self.most_one_way), min(pairs * self.misfit, self.most_misfits)
        if pure:
            misfits *= self.laplace
        return one_way, misfits, 1 - one_way - misfits

    def of_measures(self, schema: Schema, budget: Budget) -> tuple[Budget, ...]:
        """Budgets for counts and for each measure."""
        return budget.split(self.count, *(measure.budget_share for measure in schema.summed.values()))

    def of_sums(self, axes: int, pairs: int, budget: Budget) -> list[Budget]:
        """Budgets for a measure's sums along every axis, and along every pair of few cells."""
        if not pairs:
            return [*budget.evenly(axes)]
        for_axes, for_pairs = budget.split(1 - self.pairs, self.pairs)
        return [*for_axes.evenly(axes), *for_pairs.evenly(pairs)]


def margins(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None
) -> Margins | NestedMargins:
    """Measure and estimate marginals of all attributes, long ones by groups where the schema has such.

    budget: counts get `Settings.count` parts and every measure its weight. workload: where it is stated, the sets of
    attributes that it names are measured with a share of their own, and the rest of the budget serves all tables.
    """
    named, tilt = named_sets(schema, workload)
    grouped = any(isinstance(one, Category) and one.groups for one in schema.attributes.values())
    if grouped and schema.structure is None and not schema.known:  # rules and facts may part groups: by values then
        from sfumato.models.margins.nested import hierarchies

        if below := hierarchies(schema):
            return _nested(curator, schema, budget, below, named, tilt)
    return _margins(curator, schema, budget, named, tilt)


def _nested(
    curator: Curator,
    schema: Schema,
    budget: Budget,
    below: Mapping[int, Hierarchy],
    named: Sequence[Places],
    tilt: Fraction,
) -> NestedMargins:
    """Count the values of long attributes; measure marginals of all attributes with groups in their place."""
    from sfumato.models.margins.nested import NestedMargins, Values, coarse, shares_within, unevenness, values_below
    from sfumato.models.margins.table import WIDER

    names, axes = schema.domain.names, len(schema.domain.axes)
    settings = Settings()
    of_all = settings.values * len(below) / axes
    for_values, for_tables = budget.split(of_all, 1 - of_all)
    by_groups = {names[place]: (each.axis, each.groups) for place, each in below.items()}
    shares, measured = for_values.evenly(len(below)), {}
    for_counts = {
        place: share.split(1 - settings.compared, settings.compared) for place, share in zip(below, shares, strict=True)
    }
    for place, (share, _) in for_counts.items():
        seen = curator.margin([names[place]])
        measured[place] = seen.measure(Identity(seen.domain.size), share)
    groups = _margins(curator.recode(by_groups), coarse(schema), for_tables, named, tilt)
    values = {}
    for place, each in below.items():
        noise, totals = measured[place].noise.continuous_variance, groups.tables["count"][place,].estimate
        estimate = values_below(measured[place].answers.astype(np.float64), noise, each.groups, totals)
        within_group = shares_within(estimate, each.groups, len(totals))
        alone = curator.recode({name: part for name, part in by_groups.items() if name != names[place]})
        sizes = {other: alone.domain.shape[other] for other in range(axes) if other != place}
        looked = [other for other, size in sizes.items() if size * len(estimate) <= MOST_COMPARED]
        guesses, known = [], {}
        for other in looked:
            pair = (min(place, other), max(place, other))
            joined = groups.joined(groups.every(pair))["count"]
            table = joined if pair[0] == place else joined.T
            known[other] = table / np.maximum(table.sum(axis=1, keepdims=True), 1e-9)
            whole = np.rint(table[each.groups] * within_group[:, None]).astype(np.int64)
            guesses.append(([names[one] for one in pair], (whole if pair[0] == place else whole.T).reshape(-1)))
        uneven = {}
        if looked:
            misfits = alone.measure_margin_misfits(guesses, for_counts[place][1])
            error = sqrt(misfits.noise.variance)
            for other, misfit in zip(looked, misfits.answers.tolist(), strict=True):
                within, rows = known[other][each.groups], estimate[:, None]
                uneven[other] = unevenness(rows, within, noise * within**2, rows * within, WIDER * misfit, error)
        values[place] = Values(each, estimate, measured[place], uneven)
    return NestedMargins(schema, groups, values)


def _margins(curator: Curator, schema: Schema, budget: Budget, named: Sequence[Places], tilt: Fraction) -> Margins:
    """Measure and estimate marginals of all attributes as they are.

    named: sets of attributes that get the share `tilt` of the budget for tables.
    """
    from sfumato.models.margins.calibration import check, looks
    from sfumato.models.margins.content import Margins

    settings, measures = Settings(), list(schema.summed)
    for_count, *for_measures = settings.of_measures(schema, budget)
    survey = _Survey(curator, schema, settings, named, tilt)
    for_tables, for_check = for_count, for_count
    if looks(schema):
        for_tables, for_check = for_count.split(1 - settings.check, settings.check)
    checked = check(curator, schema, survey.counts(for_tables), for_check, survey.spreads)
    survey.measured.extend(checked.measured)
    tables, spreads = {"count": checked.tables}, {"count": checked.spreads}
    for of, share in zip(measures, for_measures, strict=True):
        for statistic, made in sums_of(schema, of, survey.sums(of, share), checked.tables).items():
            tables[statistic], spreads[statistic] = made
    return Margins(schema, tables, spreads, tuple(survey.measured), guessed=tuple(survey.guessed))


@dataclass(frozen=True, eq=False)
class _Survey:
    """Measurements of one release of marginals, in the order taken.

    named, tilt: as in `_margins`. missed: as in `views.Foretold`.
    """

    curator: Curator
    schema: Schema
    settings: Settings
    named: Sequence[Places]
    tilt: Fraction
    measured: list[tuple[Places, Measurement]] = field(default_factory=list)
    spreads: dict[Places, Scaled] = field(default_factory=dict)
    missed: dict[Places, float] = field(default_factory=dict)
    guessed: list[Floats] = field(default_factory=list)

    def counts(self, budget: Budget) -> dict[Places, Table]:
        """Tables of the total, of all attributes and pairs, and of further views worth measuring."""
        from sfumato.answers.fit import in_parts

        settings = self.settings
        axes: list[Places] = [(place,) for place in range(len(self.schema.domain.axes))]
        if not (pairs := _pairs(self.schema, settings.most_cells)):
            return self._tables(self._measure_all(axes, budget.evenly(len(axes))))
        for_one_way, for_misfits, for_tables = budget.split(*settings.shares(len(axes), len(pairs), budget.is_pure))
        first = self._measure_all(axes, for_one_way.evenly(len(axes)))
        total, one_way, unsure = _one_way(self.schema, first)
        self.guessed.extend(in_parts(each) for each in (np.array([total]), *one_way))  # as a file keeps them
        of_pairs = self._misfits(pairs, for_misfits)
        of_threes, for_tables = self._misfits_of_threes(total, for_tables)
        if self.named:
            for_named, for_tables = for_tables.split(self.tilt, 1 - self.tilt)
            sets = [*dict.fromkeys(_essential(self.schema, places) for places in self.named)]
            first = first + self._measure_all(sets, for_named.evenly(len(sets)))
        worth = self._worth(one_way, unsure, first, of_pairs, of_threes, for_tables)
        chosen = self._broad_pairs(self.guessed[1:], of_pairs.values, worth, for_tables)
        contrasts: dict[Places, Contrasts] = {}
        if chosen:
            for_tables, for_contrasts = for_tables.split(1 - settings.contrasts, settings.contrasts)
            contrasts = self._contrasts(chosen, for_contrasts)
        shares = for_tables.split(*map(_rounded_share, worth.values()))
        return self._tables(first + self._measure_all(list(worth), shares), contrasts)

    def _broad_pairs(
        self, one_way: Sequence[Floats], misfits: Mapping[Places, float], worth: dict[Places, float], budget: Budget
    ) -> dict[Places, tuple[tuple[Haar, Haar], int]]:
        """Pairs whose Haar contrasts are worth measuring, with the signs of both axes and the depth.

        Pairs in no view get the contrast of halves, where their misfits are so uncertain that the mean square of these
        contrasts would stand out from noise. one_way: as a file keeps them, so that signs follow from it.
        """
        from sfumato.models.margins.scales import Haar, levels_of, worth_measuring

        amount, total = self._for_one_row(budget), sum(worth.values())
        shape, signs = self.schema.domain.shape, [Haar.of(margin) for margin in one_way]
        precisions: dict[Places, float] = defaultdict(float)
        for places, share in worth.items():
            part = share / total * amount
            precision = (part**2 / 2.0 if budget.is_pure else 2.0 * part) / prod(shape[place] for place in places)
            for pair in combinations(places, 2):
                precisions[pair] += precision
        by_views = {pair: 1.0 / sqrt(precision) if precision > 0 else inf for pair, precision in precisions.items()}
        pairs = list(misfits)
        before = [min(max(0.0, misfits[pair]) / 2.0, by_views.get(pair, inf)) for pair in pairs]
        share = float(self.settings.contrasts) * amount
        alone = 2.0 / share**2 if budget.is_pure else 0.5 / share
        both = [(signs[a], signs[b]) for a, b in pairs]
        depths = worth_measuring(np.array(before), both, alone, budget.is_pure).tolist()
        unseen = [place for place, pair in enumerate(pairs) if not depths[place] and pair not in precisions]
        missed = [self.missed.get(pairs[place], 0.0) / 2.0 for place in unseen]
        number = sum(len(levels_of(part, depth)) for part, depth in zip(both, depths, strict=True) if depth)
        number += len(unseen)
        noise = sqrt(alone) * (number if budget.is_pure else sqrt(number))
        if sqrt(sum(each**2 for each in missed)) > STANDS_OUT * len(unseen) ** 0.25 * noise:
            for place in unseen:
                depths[place] = 1
        return {pair: (part, depth) for pair, part, depth in zip(pairs, both, depths, strict=True) if depth}

    def _contrasts(
        self, chosen: dict[Places, tuple[tuple[Haar, Haar], int]], budget: Budget
    ) -> dict[Places, Contrasts]:
        """Measure Haar contrasts of pairs, all with the same noise."""
        from sfumato.models.margins.calibration import measure_contrasts

        contrasts, measured = measure_contrasts(self.curator, self.schema, chosen, budget)
        self.measured.extend(zip(chosen, measured, strict=True))
        return contrasts

    def _misfits(self, sets: Sequence[Places], budget: Budget) -> Misfits:
        """Measure the L1 distance of the table of each set from the product of its margins."""
        from sfumato.models.margins.table import guess_of, guess_with_zeros
        from sfumato.models.margins.views import Misfits

        names, guesses = self.schema.domain.names, []
        known = self.schema.structure
        for places in sets:
            guess = guess_of(self.guessed, places)
            if known is not None and len(places) == 2:
                guess = guess_with_zeros(self.guessed, places, known)
            product = guess.astype(np.int64)
            guesses.append(([names[place] for place in places], product.reshape(-1)))
        measured = self.curator.measure_margin_misfits(guesses, budget)
        self.measured.append(((), measured))
        values = dict(zip(sets, measured.answers.tolist(), strict=True))
        return Misfits(values, sqrt(measured.noise.continuous_variance))

    def _misfits_of_threes(self, total: float, budget: Budget) -> tuple[Misfits | None, Budget]:
        """Measure misfits of sets of three attributes of few cells; return them and the budget that is left."""
        from sfumato.models.margins.views import threes_to_test

        settings, shape = self.settings, self.schema.domain.shape
        if budget.is_pure or len(shape) > settings.most_searched:  # noise of so many misfits would tell nothing
            return None, budget
        sets = threes_to_test(shape, total, self._for_one_row(budget), float(settings.most_threes))
        sets = [places for places in sets if _essential(self.schema, places) == places]
        if not sets:
            return None, budget
        share = min(len(sets) * settings.three, settings.most_threes)
        for_tables, for_threes = budget.split(1 - share, share)
        return self._misfits(sets, for_threes), for_tables

    def _for_one_row(self, budget: Budget) -> float:
        """Budget per row of a privacy unit: epsilon / contributions, or rho / contributions^2."""
        return float(budget.amount / self.curator.charge.contributions ** (1 if budget.is_pure else 2))

    def _worth(
        self,
        one_way: list[Floats],
        unsure: list[Floats],
        measured: Sequence[tuple[Places, Noisy]],
        of_pairs: Misfits,
        of_threes: Misfits | None,
        budget: Budget,
    ) -> dict[Places, float]:
        """Shares of the budget by set of attributes.

        one_way, unsure: estimated margins and variances of their values. measured: noisy tables that there are already.
        of_pairs, of_threes: misfits.
        """
        from sfumato.models.margins.views import Search, foretell, shares

        axes, amount = len(one_way), self._for_one_row(budget)
        if axes > self.settings.most_searched:
            named = {places for places, _ in measured if len(places) == 2}
            known = {places: max(0.0, each) for places, each in of_pairs.values.items() if places not in named}
            precisions = [_precision(measured, (place,), self.schema.domain.shape) for place in range(axes)]
            return shares(one_way, precisions, known, amount, budget.is_pure)
        usual = float(np.mean([*of_pairs.values.values()]))  # a pair that is too large to look at is like others
        every: dict[Places, float] = {
            places: of_pairs.values.get(places, usual) for places in combinations(range(axes), 2)
        }
        known_pairs = [places for places in every if _essential(self.schema, places) != places]
        every |= dict.fromkeys(known_pairs, 0.0)  # an attribute and what follows from it have nothing to tell
        foretold = foretell(one_way, unsure, replace(of_pairs, values=every), of_threes, budget.is_pure)
        self.missed.update(foretold.missed)
        by_now = np.array([_precision(measured, places, self.schema.domain.shape) for places in foretold.sets])
        found = Search(foretold, self.schema.domain.shape, by_now, amount, budget.is_pure).best().listed()
        narrowed: dict[Places, float] = {}
        for places, share in found.items():  # cells of a set with what follows from one of it are those without
            essential = _essential(self.schema, places)
            narrowed[essential] = narrowed.get(essential, 0.0) + share
        return narrowed

    def _tables(
        self, noisy: list[tuple[Places, Noisy]], contrasts: Mapping[Places, Contrasts] = NONE
    ) -> dict[Places, Table]:
        """Estimate all tables from the noisy ones and contrasts."""
        tables, found = estimated(self.schema, noisy, [contrasts])
        self.spreads.update(found)
        return tables

    def sums(self, of: str, budget: Budget) -> dict[str, dict[Places, Noisy]]:
        """Measure a measure's sums along every attribute and pairs of few cells, and its rows without a value."""
        axes: list[Places] = [(place,) for place in range(len(self.schema.domain.axes))]
        pairs = _pairs(self.schema, self.settings.most_cells_of_sums)
        budgets = self.settings.of_sums(len(axes), len(pairs), budget)
        tables: dict[str, dict[Places, Noisy]] = defaultdict(dict)
        for places, share in zip(axes + pairs, budgets, strict=True):
            for statistic, noisy in self._measure(places, share, of):
                tables[statistic][places] = noisy
        return tables

    def _measure_all(self, sets: Sequence[Places], budgets: Sequence[Budget]) -> list[tuple[Places, Noisy]]:
        """Measure counts of the cells of several tables."""
        asked = zip(sets, budgets, strict=True)
        return [(places, noisy) for places, share in asked for _, noisy in self._measure(places, share, "count")]

    def _measure(self, places: Places, budget: Budget, of: str) -> list[tuple[str, Noisy]]:
        """Measure the cells of one table; with a measure's sums come its rows without a value."""
        seen = self.curator.margin([self.schema.domain.names[place] for place in places])
        measurements = with_missing(seen.measure(Identity(seen.domain.size), budget, of=of))
        self.measured.extend((places, values) for values in measurements)
        answers = (
            (measurement, measurement.answers.astype(np.float64).reshape(seen.domain.shape))
            for measurement in measurements
        )
        return [(measurement.of, (values, measurement.noise.continuous_variance)) for measurement, values in answers]


def estimated(
    schema: Schema, noisy: Sequence[tuple[Places, Noisy]], contrasts: Sequence[Mapping[Places, Contrasts]]
) -> tuple[dict[Places, Table], dict[Places, Scaled]]:
    """Estimate all tables of counts from noisy ones, and the spreads that contrasts leave; reads no data.

    contrasts: those of one release, or of several, by which tables are corrected one after the other.
    """
    from sfumato.models.margins.scales import corrected
    from sfumato.models.margins.shrinkage import all_pairs, larger_tables, predicted_anew
    from sfumato.models.margins.table import (
        Table,
        by_functions,
        pooled,
        pooled_errors,
        respecting,
        seen_by_functions,
        zeros_of_pairs,
    )

    structure = schema.structure
    spreads: dict[Places, Scaled] = {}
    total, one_way, _ = _one_way(schema, noisy)
    known = _followed(schema, noisy)
    variance = np.array(0.0 if known else pooled(noisy, ())[1])
    tables: dict[Places, Table] = {(): Table((), np.array(total), variance, np.zeros(()))}
    for place, margin in enumerate(one_way):
        variances = np.full(len(margin), 0.0 if (place,) in known else pooled(noisy, (place,))[1])
        tables[place,] = Table((place,), margin, variances, np.zeros(len(margin)))
    if structure is not None:
        tables |= pooled_errors(tables, structure)
    if len(one_way) > 1:
        told = {pair for places, _ in noisy for pair in combinations(places, 2)}
        seen: dict[Places, Noisy] = {pair: pooled(noisy, pair) for pair in sorted(told)}
        if structure is not None:
            seen = seen_by_functions(seen, structure, len(one_way))
        zeros = {} if structure is None else zeros_of_pairs(structure)
        kin = {} if structure is None else structure.kin
        ordered = [axis.ordered for axis in schema.domain]
        tables |= all_pairs(one_way, seen, ordered, zeros, kin)
        first, others = tables, [{p: item for p, item in each.items() if p not in seen} for each in contrasts]
        for unmeasured in others:
            first, _ = corrected(first, unmeasured, ())
        if any(others):
            tables |= predicted_anew(one_way, first, {p for unmeasured in others for p in unmeasured}, zeros, kin)
        for each in contrasts:
            tables, found = corrected(tables, each, {*seen})
            spreads |= found
        if structure is not None:
            tables = by_functions(respecting(tables, structure), structure, list(seen))
    return tables | larger_tables(noisy, tables, structure), spreads


def sums_of(
    schema: Schema, of: str, noisy: Mapping[str, Mapping[Places, Noisy]], known: Mapping[Places, Table]
) -> dict[str, tuple[dict[Places, Table], Spreads]]:
    """Estimate the tables of a measure's sums, and of its rows without a value, with their spreads; reads no data.

    noisy: by statistic. known: tables of counts.
    """
    from sfumato.models.margins.scales import sums_along
    from sfumato.models.margins.table import respecting

    counts, measure = {places: table.estimate for places, table in known.items()}, schema.summed[of]
    ordered = [axis.ordered for axis in schema.domain]
    made: dict[str, tuple[dict[Places, Table], Spreads]] = {}
    for statistic in sorted(noisy, key=lambda name: name == of):  # rows without a value first: the others have one
        level = None if statistic == of else 0.0
        if statistic == of and measure.lower >= 0:  # else products of means make no sense
            level = float(measure.centre / measure.step)
        made[statistic] = sums_along(
            noisy[statistic],
            counts,
            float(schema.reach(statistic)),
            level,
            ordered,
            as_measured=statistic == ROWS,  # a region that was asked often has many rows for a small weight
        )
        if schema.structure is not None:
            made[statistic] = respecting(made[statistic][0], schema.structure), made[statistic][1]
        if statistic != of:
            counts = {p: np.maximum(counts[p] - table.estimate, 0.0) for p, table in made[statistic][0].items()}
    return {statistic: made[statistic] for statistic in noisy}


def _one_way(schema: Schema, listed: Sequence[tuple[Places, Noisy]]) -> tuple[float, list[Floats], list[Floats]]:
    """Total, denoised one-way margins, and variances of their values, from all noisy tables."""
    from sfumato.models.margins.joining import one_way_errors
    from sfumato.models.margins.table import pooled

    total, known = max(0.0, float(pooled(listed, ())[0])), _followed(schema, listed)
    if known:
        total = float(next(iter(known.values())).counts.sum())  # that of all facts
    axes = enumerate(schema.domain.axes)
    found = [
        (known[place,].counts, np.zeros(axis.size))
        if (place,) in known
        else one_way_errors(*pooled(listed, (place,)), total, axis.ordered)
        for place, axis in axes
    ]
    margins, unsure = [margin for margin, _ in found], [variances for _, variances in found]
    if schema.structure is not None:
        from sfumato.models.margins.table import coherent

        margins, unsure = coherent(schema.structure, total, margins, unsure)
    return total, margins, unsure


def _followed(schema: Schema, listed: Sequence[tuple[Places, Noisy]]) -> dict[Places, Fact]:
    """Public counts that noisy tables do not contradict, by their axes; () is the number of all rows."""
    from sfumato.models.margins.table import pooled

    return {fact.places: fact for fact in schema.known if not fact.contradicts(*pooled(listed, fact.places))}


def _rounded_share(share: float) -> int:
    """Share of a budget in parts of `FINEST`, rounded to a power of 2^(1 / `OCTAVE`).

    >>> [_rounded_share(each) for each in (0.5, 0.51, 0.55, 0.0)]
    [524288, 524288, 571740, 1]
    """
    steps = round(OCTAVE * log2(max(share, 1.0 / FINEST))) / OCTAVE
    return max(1, round(FINEST * exp2(steps)))


def _precision(measured: Sequence[tuple[Places, Noisy]], places: Places, shape: Sequence[int]) -> float:
    """Precision of a cell of a set of attributes, from all noisy tables that hold it."""
    cells = prod(shape[place] for place in places)
    within = ((each, variance) for each, (_, variance) in measured if {*places} <= {*each})
    return sum(cells / prod(shape[place] for place in each) / variance for each, variance in within)


def _pairs(schema: Schema, most: int) -> list[Places]:
    """Pairs of attributes with at most `most` cells, without pairs where one attribute determines the other."""
    shape = schema.domain.shape
    pairs = [(a, b) for a, b in combinations(range(len(shape)), 2) if shape[a] * shape[b] <= most]
    return [pair for pair in pairs if _essential(schema, pair) == pair]


def _essential(schema: Schema, places: Places) -> Places:
    """Attributes without those that follow from another of them."""
    return places if schema.structure is None else schema.structure.essential(places)


def _least_of_sums(schema: Schema, budget: Budget) -> dict[str, Budget]:
    """Least budget of a table of each measure's sums; reads no data."""
    settings = Settings()
    pairs = len(_pairs(schema, settings.most_cells_of_sums))
    shares = zip(schema.summed, settings.of_measures(schema, budget)[1:], strict=True)
    every = {of: settings.of_sums(len(schema.attributes), pairs, share) for of, share in shares}
    return {of: min(listed, key=lambda one: one.amount) for of, listed in every.items()}


def _foresee(schema: Schema, budget: Budget, workload: Workload | None = None) -> Foresight:
    """Expected errors of counts, and of the total of every measure from all tables of its sums; reads no data."""
    settings, shape = Settings(), schema.domain.shape
    pairs, contributions = _pairs(schema, settings.most_cells_of_sums), schema.most_of_a_unit
    cells = [*shape, *(shape[a] * shape[b] for a, b in pairs)]
    of_sums = {}
    for measure, share in zip(schema.summed, settings.of_measures(schema, budget)[1:], strict=True):
        budgets = settings.of_sums(len(shape), len(pairs), share)
        noises = [noise_for(each, contributions, l1=Fraction(1), l2_squared=Fraction(1)) for each in budgets]
        precision = sum(1.0 / (size * noise.continuous_variance) for size, noise in zip(cells, noises, strict=True))
        bounds = schema.summed[measure]
        of_sums[measure] = float(bounds.upper - bounds.lower) / 2.0 / sqrt(precision)
    return replace(foresee(schema, budget, workload), of_sums=of_sums)


def _work(schema: Schema, workload: Workload, budget: Budget, rows: int) -> int:
    """Estimated work of a release, fitted to measured times: pairs, their cells, and cubes of ordered values."""
    from sfumato.models.margins.joining import MOST_SMOOTHED

    shape = schema.domain.shape
    cells = [a * b for a, b in combinations(shape, 2)]
    ordered = sum(values**3 for values in shape if values <= MOST_SMOOTHED)
    return (1 + len(schema.summed)) * (OF_A_PAIR * (1 + len(cells)) + OF_A_CELL * sum(cells)) + ordered


MECHANISM = Mechanism(
    name="margins",
    summary="margins of many attributes, measured where they tell something and joined when asked",
    paper="own; after McKenna et al. 2022",
    run=margins,
    gaussian=True,
    holds=Holds(by_margins=True, zeros=True),
    forecast=Forecast(foretold=_foresee, least_of_sums=_least_of_sums, checks_itself=True, work=_work),
)
