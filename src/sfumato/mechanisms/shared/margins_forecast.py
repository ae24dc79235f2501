"""What errors to expect of margins, before any data is read: as if all pairs got even shares, or the whole table did.

The mechanism does better, for it learns which pairs matter; but by how much depends on the table. Rows are taken to lie
evenly, cells to deviate from what fewer attributes say by a middling share, and errors add up as those of a joined
table do (inference/margins/errors.py): a query over some attributes carries the error of every set of them, each for
the cells of that set that it sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb, prod, sqrt

import numpy as np

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.limits import MOST_DENSE
from sfumato.mechanisms.mechanism import Foresight
from sfumato.queries.workload import default_workload, sets_of
from sfumato.schema import Schema

USUAL_ROWS = 20_000  # where none are stated
SPREAD = 0.3  # of a pair's cells around the product of their margins, as a share of it: the middle of many tables
BEYOND_PAIRS = 0.4  # of that, for what more attributes have beyond pairs
COUNT = 3  # weight of counts against those of measures
FOR_TABLES = 0.85  # of the budget, besides first looks and checks


@dataclass(frozen=True)
class Forecast:
    """sizes: of the attributes. rows: expected. share: of the budget that each pair gets; whole: or the whole table."""

    sizes: tuple[int, ...]
    rows: int
    share: float
    whole: float
    pure: bool

    @classmethod
    def of(cls, schema: Schema, budget: Budget) -> Forecast:
        weights, contributions = sum(schema.weights.values()) - 1, schema.privacy_unit.contributions
        weight = COUNT / (COUNT + float(weights))
        amount = FOR_TABLES * weight * float(budget.amount) / (contributions if budget.is_pure else contributions**2)
        pairs = max(1, comb(len(schema.attributes), 2))
        rows = USUAL_ROWS if schema.expected_rows is None else max(1, schema.expected_rows)
        return cls(schema.domain.shape, rows, amount / pairs, amount, budget.is_pure)

    def noise(self, places: Sequence[int]) -> float:
        """The variance of what was measured of a cell of one set of attributes."""
        cells = prod(self.sizes[place] for place in places)
        return 1.0 / max(self._by_pairs(places), self._by_whole(cells), 1e-300)

    def variance(self, places: Sequence[int]) -> float:
        """Of a cell of one set of attributes, beyond what smaller sets have."""
        cells, noise = prod(self.sizes[place] for place in places), self.noise(places)
        if not places:
            return noise
        mean = self.rows / cells
        spread = (1.0, SPREAD)[len(places) - 1] if len(places) < 3 else SPREAD * BEYOND_PAIRS
        prior = (spread * mean) ** 2 + mean
        return prior * noise / (prior + noise)

    def error(self, places: Sequence[int], summed: Mapping[int, float]) -> float:
        """The standard error of a query about some attributes. summed: of each, how many values it adds up."""
        total = 0.0
        for order in range(min(len(places), 3) + 1):
            for part in combinations(places, order):
                cells = prod(summed.get(place, 1.0) for place in part)
                others = (summed.get(place, 1.0) / self.sizes[place] for place in places if place not in part)
                total += self.variance(part) * cells * prod(others) ** 2
        if len(places) > 3:
            total += self.variance(places)
        return sqrt(total)

    def _information(self, share: float) -> float:
        return share**2 / 2.0 if self.pure else 2.0 * share

    def _by_pairs(self, places: Sequence[int]) -> float:
        """1 / variance of what all pairs together say of a set."""
        each, parts = self._information(self.share), [1.0 / size for size in self.sizes]
        if len(parts) == 1:  # which is measured itself
            return each * (1.0 if places else parts[0])
        if len(places) == 1:
            return each * (sum(parts) - parts[places[0]])
        if not places:
            return each * (sum(parts) ** 2 - sum(part**2 for part in parts)) / 2.0
        return each if len(places) == 2 else 0.0

    def _by_whole(self, cells: int) -> float:
        every = prod(self.sizes)
        return 0.0 if every > 10**9 else self._information(self.whole) * cells / every


def foresee(schema: Schema, budget: Budget) -> Foresight:
    """About the errors that margins will have; reads no data."""
    forecast, domain = Forecast.of(schema, budget), schema.domain
    one_way = {name: sqrt(forecast.noise((place,))) for place, name in enumerate(domain.names)}
    by_kind = {"all rows": forecast.error((), {})}
    for order, words in enumerate(("one attribute", "two attributes", "three attributes"), 1):
        sets = [[domain.place(axis.name) for axis in axes] for axes in sets_of(domain, order)]
        if sets and order <= len(domain.axes):
            by_kind[words] = sqrt(float(np.mean([forecast.error(places, {}) ** 2 for places in sets])))
    if domain.size > MOST_DENSE:  # no workload of all its cells can be written down
        return Foresight(float(np.exp(np.mean(np.log(list(by_kind.values()))))), one_way, by_kind)
    return Foresight(_of_usual_workload(schema, forecast), one_way, by_kind)


def _of_usual_workload(schema: Schema, forecast: Forecast) -> float:
    """About the error on what everybody asks, in rows a query, as the usual workload of the schema weighs it."""
    domain, asked = schema.domain, default_workload(schema.domain)
    sets = [*([()] if len(domain.axes) > 2 else []), *sets_of(domain, 1), *sets_of(domain, 2)]
    ranges = len(sets)
    sets += sets_of(domain, 3) if len(domain.axes) > 2 else []
    sets += [tuple(domain)] if len(domain.axes) > 3 else []
    errors = []
    for number, axes in enumerate(sets):
        places = [domain.place(axis.name) for axis in axes]
        ordered = [(p, axis) for p, axis in zip(places, axes, strict=True) if axis.ordered and number < ranges]
        errors.append(forecast.error(places, {place: (axis.size + 2) / 3 for place, axis in ordered}))
    return asked.overall(np.array(errors))
