"""Margins: for tables of many attributes. Measure margins where they tell something, join them when asked.

    1  one-way margins, with a small share
    2  for every pair, the noisy distance between its table and the product of its margins: which attributes depend on
       each other is known almost for free, with no rounds of selection
    3  pairs, each with the share that its dependence and its cells are worth
    4  estimates: noise is taken out by what order, other pairs and the margins say (inference/margins)
    5  how far the estimates are off, measured: by pairs, by threes and by fours of attributes

Nothing is ever laid out but margins, so there may be any number of attributes. A row lies in one cell of every margin,
so what is spent on margins adds up (docs/privacy.md, section 9), and a misfit moves by at most 1 for a row (theorem 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

import numpy as np

from sfumato.arrays import Floats
from sfumato.inference.margins.allocation import shares
from sfumato.inference.margins.one_way import one_way_margin
from sfumato.inference.margins.pairs import all_pairs
from sfumato.inference.margins.sums import sums_along
from sfumato.inference.margins.table import Noisy, Places, Table, independent, pooled
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement
from sfumato.mechanisms._margins_check import check
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.queries import Identity, Workload
from sfumato.releases.contents.margins import Margins
from sfumato.schema import Schema

FINEST = 2**20  # parts in which shares of a budget are counted


@dataclass(frozen=True)
class Settings:
    """Shares of the budget, and what is too large to measure.

    one_way, misfits, check: of what counts get. count: weight against that of one measure. pairs: of a measure's share.
    """

    one_way: Fraction = Fraction(6, 100)
    misfits: Fraction = Fraction(3, 100)
    check: Fraction = Fraction(4, 100)
    count: int = 3
    pairs: Fraction = Fraction(1, 3)
    most_cells: int = 2**18  # of a pair
    most_cells_of_sums: int = 2**10  # of a pair that a measure is summed by


def margins(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Margins:
    """Publish margins of all attributes, and what joins them.

    budget: counts get `Settings.count` parts and every measure one.
    """
    settings, measures = Settings(), list(schema.measures)
    for_count, *for_measures = budget.split(settings.count, *[1] * len(measures))
    survey = _Survey(curator, schema, settings)
    for_tables, for_check = for_count.split(1 - settings.check, settings.check)
    checked = check(curator, schema, survey.counts(for_tables), for_check)
    survey.measured.extend(((), found) for found in checked.measured)
    tables, spreads = {"count": checked.tables}, {"count": checked.spreads}
    for of, share in zip(measures, for_measures, strict=True):
        noisy = survey.sums(of, share)
        counts = {places: table.estimate for places, table in checked.tables.items()}
        tables[of], spreads[of] = sums_along(noisy, counts, float(schema.units[of]))
    return Margins(schema, tables, spreads, tuple(survey.measured))


@dataclass(frozen=True, eq=False)
class _Survey:
    """What is asked of the curator, and all that came back."""

    curator: Curator
    schema: Schema
    settings: Settings
    measured: list[tuple[Places, Measurement]] = field(default_factory=list)

    def counts(self, budget: Budget) -> dict[Places, Table]:
        """Tables of the total, of all attributes and of all pairs."""
        domain, settings = self.schema.domain, self.settings
        axes = range(len(domain.axes))
        if not (pairs := self._pairs(settings.most_cells)):
            alone = zip(axes, budget.evenly(len(axes)), strict=True)
            return self._tables({(place,): [self._measure((place,), share)] for place, share in alone})
        left = 1 - settings.one_way - settings.misfits
        for_one_way, for_misfits, for_tables = budget.split(settings.one_way, settings.misfits, left)
        noisy: dict[Places, list[Noisy]] = {}
        for place, share in zip(axes, for_one_way.evenly(len(axes)), strict=True):
            noisy[place,] = [self._measure((place,), share)]
        total, one_way = self._one_way(noisy)
        products = [independent([one_way[a], one_way[b]], total) for a, b in pairs]
        names = [[domain.names[place] for place in places] for places in pairs]
        guesses = [np.rint(each).astype(np.int64).reshape(-1) for each in products]
        found = self.curator.measure_margin_misfits(list(zip(names, guesses, strict=True)), for_misfits)
        self.measured.append(((), found))
        misfits = dict(zip(pairs, np.maximum(found.answers, 0).tolist(), strict=True))
        precisions = [1.0 / noisy[place,][0][1] for place in axes]
        worth = shares(one_way, precisions, misfits, float(for_tables.amount), budget.is_pure)
        weights = [max(1, round(FINEST * each)) for each in worth.values()]
        for places, share in zip(worth, for_tables.split(*weights), strict=True):
            noisy.setdefault(places, []).append(self._measure(places, share))
        return self._tables(noisy)

    def _tables(self, noisy: Mapping[Places, list[Noisy]]) -> dict[Places, Table]:
        """Estimates from all that was measured."""
        total, one_way = self._one_way(noisy)
        tables: dict[Places, Table] = {
            (): Table((), np.array(total), np.array(pooled(_listed(noisy), ())[1]), np.zeros(()))
        }
        for place, margin in enumerate(one_way):
            variances = np.full(len(margin), pooled(_listed(noisy), (place,))[1])
            tables[place,] = Table((place,), margin, variances, np.zeros(len(margin)))
        seen: dict[Places, Noisy] = {places: each[0] for places, each in noisy.items() if len(places) == 2}
        if len(one_way) > 1:
            tables |= all_pairs(one_way, seen, [axis.ordered for axis in self.schema.domain])
        return tables

    def sums(self, of: str, budget: Budget) -> dict[Places, Noisy]:
        """Noisy sums of a measure along every attribute, and along pairs of few cells."""
        axes: list[Places] = [(place,) for place in range(len(self.schema.domain.axes))]
        pairs = self._pairs(self.settings.most_cells_of_sums)
        for_axes, *for_pairs = budget.split(1 - self.settings.pairs, self.settings.pairs) if pairs else (budget,)
        budgets = [*for_axes.evenly(len(axes)), *(share for each in for_pairs for share in each.evenly(len(pairs)))]
        return {
            places: self._measure(places, share, of) for places, share in zip([*axes, *pairs], budgets, strict=True)
        }

    def _measure(self, places: Places, budget: Budget, of: str = "count") -> Noisy:
        seen = self.curator.margin([self.schema.domain.names[place] for place in places])
        found = seen.measure(Identity(seen.domain.size), budget, of=of)
        self.measured.append((places, found))
        return found.answers.astype(np.float64).reshape(seen.domain.shape), found.noise.continuous_variance

    def _one_way(self, noisy: Mapping[Places, list[Noisy]]) -> tuple[float, list[Floats]]:
        listed = _listed(noisy)
        total = max(0.0, float(pooled(listed, ())[0]))
        axes = enumerate(self.schema.domain.axes)
        return total, [one_way_margin(*pooled(listed, (place,)), total, axis.ordered) for place, axis in axes]

    def _pairs(self, most: int) -> list[Places]:
        shape = self.schema.domain.shape
        return [(a, b) for a, b in combinations(range(len(shape)), 2) if shape[a] * shape[b] <= most]


def _listed(noisy: Mapping[Places, list[Noisy]]) -> list[tuple[Places, Noisy]]:
    return [(places, one) for places, each in noisy.items() for one in each]


MECHANISM = Mechanism(
    name="margins",
    summary="margins of many attributes, measured where they tell something and joined when asked",
    paper="own; after McKenna et al. 2022",
    run=margins,
    gaussian=True,
    by_margins=True,
    checks_itself=True,
)
