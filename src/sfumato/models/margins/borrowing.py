"""Borrow strength along time: the marginals of one period, estimated with what other periods say of them.

Model: local levels (answers/local_level.py) of all tables of one and two attributes. Forward and backward filters
over the noisy tables of the other periods give a prediction of every cell of a period that shares no noise with it. A
value, or a cell, that jumps lets go of its past.

Estimator of pairs. The prediction, shrunk like a table of one period, is one more prior mean in the empirical-Bayes
shrinkage of the period's own noisy pair (`all_pairs`); how far it is believed is learned from the period's own tables,
so a series that drifts fast is estimated as each period alone. What a release has on top of that shrinkage (contrasts,
calibrated errors) is carried over: with a = alone, b = borrowed, p = published, c = Var b / Var a by cell,

    estimate = b + c (p - a),    variance = c Var p

Noise in the result is the period's own noise; what comes from other periods counts as model error. Variances are first
brought to the size that all periods claim on average (`evened`).

Covariance of two periods' errors, for differences and sums along time (answers/parts.py): `Walk.shared`, and of the
rest `ALWAYS`, what the model misses in every period.

All of it works on published numbers: nothing is spent. Own method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.local_level import Prediction, Walk, learned
from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.margins.joining import one_way_errors, onto_total
from sfumato.models.margins.scales import Scaled, Spreads
from sfumato.models.margins.shrinkage import LEAST, ROUNDS_OF_LARGER, all_pairs, fit_margins
from sfumato.models.margins.table import WIDER, Noisy, Places, Table, independent, pooled, spread_out, sum_out
from sfumato.queries import Identity

if TYPE_CHECKING:
    from sfumato.models.margins.content import Margins

ALWAYS = 0.1  # of a pair's model variance that leaning leaves, what every period errs by alike

Seen = Mapping[Places, tuple[Floats, float | Floats]]  # noisy tables of one and two attributes, with their variances


@dataclass(frozen=True, eq=False)
class Periods:
    """Noisy tables of several releases of one schema, in the order of time, all at the same number of rows.

    typical: mean of the published estimates, at least a row in a cell, by set of attributes.
    """

    rows: float
    totals: Sequence[float]
    seen: Sequence[Seen]
    typical: Mapping[Places, Floats]

    @classmethod
    def of(cls, contents: Sequence[Margins]) -> Periods:
        totals = [max(float(each.tables["count"][()].estimate), 1.0) for each in contents]
        rows = float(np.mean(totals))
        seen = [each.noisy for each in contents]
        scaled = [
            {p: (y * (rows / total), v * (rows / total) ** 2) for p, (y, v) in every.items()}
            for every, total in zip(seen, totals, strict=True)
        ]
        common = set.intersection(*({p for p in each.tables["count"] if 0 < len(p) < 3} for each in contents))
        typical = {
            places: np.maximum(
                np.mean(
                    [c.tables["count"][places].estimate * (rows / n) for c, n in zip(contents, totals, strict=True)],
                    axis=0,
                ),
                1.0,
            )
            for places in sorted(common)
        }
        return cls(rows, totals, scaled, typical)

    def walk(self, sets: Sequence[Places]) -> Walk:
        """Drift and scatter of some tables by weighted least squares on squared differences, outliers cut (Winsor)."""
        lags = [2**power for power in range(len(self.seen).bit_length()) if 2**power < len(self.seen)]
        parts = []
        for lag in lags:
            for first, second in zip(self.seen, self.seen[lag:], strict=False):
                for places in sets:
                    if places in first and places in second and places in self.typical:
                        (before, noise), (after, more) = first[places], second[places]
                        rows = self.typical[places].reshape(-1)
                        drawn = np.broadcast_to(noise + more, before.shape).reshape(-1)
                        parts.append(((after - before).reshape(-1) ** 2, drawn, rows, lag))
        if not parts:
            return Walk(1.0, 1.0, len(self.seen))
        square, noise_of, rows_of = (np.concatenate([each[index] for each in parts]) for index in range(3))
        steps = np.concatenate([np.full(len(each[2]), float(each[3])) for each in parts])
        (drift, scatter), _ = learned(square, noise_of, steps * rows_of**2, rows_of)
        return Walk(float(drift), float(scatter), len(self.seen))

    @cached_property
    def walks(self) -> dict[Places, Walk]:
        """Moments along time of all one-way tables together, and of all pairs."""
        orders = ([places for places in self.typical if len(places) == order] for order in (1, 2))
        return {places: walk for sets in orders for walk in [self.walk(sets)] for places in sets}

    def predicted(self, at: int) -> dict[Places, Prediction]:
        """Expected counts in one period from all others, before and after it, at its own number of rows."""
        past, scale = self._along(range(at), at), self.totals[at] / self.rows
        future = self._along(range(len(self.seen) - 1, at, -1), at)
        both = {places: past[places] & future[places] for places in self.typical}
        return {p: Prediction(each.mean * scale, each.variance * scale**2, each.periods) for p, each in both.items()}

    def _along(self, others: range, at: int) -> dict[Places, Prediction]:
        """Kalman filter over some periods towards one; what jumps on the way, or there, lets go of its past."""
        walks = self.walks
        state = {places: Prediction.of_nothing(rows.shape) for places, rows in self.typical.items()}
        for period in [*others, at]:
            state = {places: self._moved(places, each, walks[places]) for places, each in state.items()}
            jumped = {p: self._jumps(p, state[p], self.seen[period], walks[p]) for p in state}
            # Shares add up to one: where a value jumps, the others of its attribute do not stay what they were.
            jumped |= {p: np.full(each.shape, each.any()) for p, each in jumped.items() if len(p) == 1}
            for places, each in state.items():
                flags = jumped[places]
                if len(places) == 2:
                    for place in places:
                        flags = flags | (spread_out(jumped[place,].astype(np.float64), (place,), places) > 0)
                state[places] = each.forgetting(flags)
            if period != at:
                for places, noisy in self.seen[period].items():
                    if places in state:
                        scatter = walks[places].scatter * self.typical[places]
                        state[places] = state[places].after(noisy, scatter)
        return state

    def _moved(self, places: Places, state: Prediction, walk: Walk) -> Prediction:
        """State of a table a period later."""
        return replace(state, variance=state.variance + walk.drift * self.typical[places] ** 2)

    def _jumps(self, places: Places, state: Prediction, seen: Seen, walk: Walk) -> Flags:
        """Flags of the cells whose innovation is beyond its predicted spread."""
        if places not in seen:
            return np.zeros(state.mean.shape, dtype=bool)
        return state.jumps(seen[places], walk.scatter * self.typical[places])


def noisy_tables(measured: Sequence[tuple[Places, Measurement]], shape: Sequence[int]) -> dict[Places, Noisy]:
    """Noisy tables of one and two attributes, pooled over all measurements of cells that contain them."""
    listed = []
    for places, one in measured:
        sizes = [shape[place] for place in places]
        if one.of == "count" and places and isinstance(one.queries, Identity) and len(one.answers) == prod(sizes):
            listed.append((places, (one.answers.astype(np.float64).reshape(sizes), one.noise.continuous_variance)))
    sets = {part for places, _ in listed for order in (1, 2) for part in combinations(places, order)}
    return {places: pooled(listed, places) for places in sorted(sets)}


def borrowed(contents: Sequence[Margins], at: int) -> Margins:
    """The marginals of one period, estimated with what the others say; `contents` in the order of time."""
    if len(contents) < 2:
        return contents[at]
    periods = Periods.of(contents)
    predicted = periods.predicted(at)
    return lean_on(evened(contents, at, predicted), predicted, periods.walks)


def lean_on(own: Margins, predicted: Mapping[Places, Prediction], walks: Mapping[Places, Walk]) -> Margins:
    """Marginals drawn towards predictions that share no noise with them."""
    tables, shared = dict(own.tables["count"]), dict[Places, Floats]()
    for place in range(len(own.domain.axes)):
        every = np.arange(own.domain.shape[place])
        tables[place,], shared[place,] = lean_margin(own, place, predicted[place,], walks[place,], every)
    pairs, commons, ratios = _pairs(own, tables, predicted, walks)
    return replace(with_tables(own, tables | pairs, ratios), shared=shared | commons)


def with_tables(own: Margins, tables: dict[Places, Table], ratios: Mapping[Places, float]) -> Margins:
    """Marginals with new tables of one and two attributes. ratios: by which the variances of pairs fell."""
    for places in sorted((p for p in tables if len(p) > 2), key=len):
        tables[places] = _refitted(tables[places], tables)
    spreads = dict(own.spreads)
    if "count" in spreads:
        spreads["count"] = _narrower(spreads["count"], ratios)
    return replace(own, tables={**own.tables, "count": tables}, spreads=spreads)


def evened(contents: Sequence[Margins], at: int, predicted: Mapping[Places, Prediction]) -> Margins:
    """Marginals of one period whose errors are as large as those of all periods are on average.

    A period measures the size of its own errors with noise, which is why errors have longer tails than normal ones and
    are claimed wider, for tables and again for single cells (`WIDER`, `with_tails`). Sizes of several periods even out,
    and tails are short again; a cell that jumped keeps its own.
    """
    own, rows = contents[at], [max(float(each.tables["count"][()].estimate), 1.0) for each in contents]
    tables, shares, most = dict(own.tables["count"]), dict[Places, float](), float(len(contents))
    for places, table in tables.items():
        known = predicted[places].periods if places in predicted else np.full(table.estimate.shape, most - 1.0)
        if len(places) < 2 or not known.any():
            shares[places] = 0.0
            continue
        always = known == known.max()
        shares[places] = float(known.min() / most)
        every = [(each.tables["count"].get(places), many) for each, many in zip(contents, rows, strict=True)]
        sizes = [float((one.noise + one.model)[always].sum()) / many for one, many in every if one is not None]
        mine = float((table.noise + table.model)[always].sum()) / rows[at]
        times = (float(np.mean(sizes)) / mine / WIDER**4) ** (known / most) if mine > 0.0 else np.ones(known.shape)
        noise = np.minimum(times, 1.0) * table.noise
        tables[places] = Table(places, table.estimate, noise, times * (table.noise + table.model) - noise)
    spreads = dict(own.spreads)
    if "count" in spreads:
        others = [each.spreads["count"] for each in contents if "count" in each.spreads]
        spreads["count"] = spreads["count"].evened(others, WIDER**-4.0, shares)
    return replace(own, tables={**own.tables, "count": tables}, spreads=spreads)


def lean_margin(own: Margins, place: int, predicted: Prediction, walk: Walk, kind: Codes) -> tuple[Table, Floats]:
    """One-way margin drawn towards its prediction by precision (GLS), and the variances that other periods share.

    kind: the predicted group of each value.
    """
    table, noisy, ordered = own.tables["count"][place,], own.noisy[place,], own.domain.axes[place].ordered
    total = float(table.estimate.sum())
    alone = np.maximum(one_way_errors(*noisy, total, ordered)[1], LEAST)
    of_group: Floats = np.bincount(kind, alone).astype(np.float64)
    estimate: Floats = np.bincount(kind, table.estimate).astype(np.float64)
    scatter, known = walk.scatter * np.maximum(estimate, 1.0), np.isfinite(predicted.variance)
    error = np.where(known, predicted.variance, 0.0)
    weight = np.where(known, of_group / (of_group + error + scatter), 0.0)
    share = alone / of_group[kind]
    moved = onto_total(table.estimate + share * (weight * (predicted.mean - estimate))[kind], total)
    left = 1.0 - weight[kind] * share
    variance, noise = left * (table.noise + table.model), left**2 * table.noise
    shared = share**2 * walk.shared(walk.drift * estimate**2, error, scatter, of_group)[kind]
    return Table(table.places, moved, noise, variance - noise), np.minimum(shared, variance - noise)


def _pairs(
    own: Margins, tables: Mapping[Places, Table], predicted: Mapping[Places, Prediction], walks: Mapping[Places, Walk]
) -> tuple[dict[Places, Table], dict[Places, Floats], dict[Places, float]]:
    """Pairs drawn to their predictions, variances that other periods share, and by how much variances fell.

    tables: with new one-way margins.
    """
    ordered = [axis.ordered for axis in own.domain]
    published = own.tables["count"]
    before, after = ([of[place,].estimate for place in range(len(ordered))] for of in (published, tables))
    mine: dict[Places, Noisy] = {
        places: noisy for places, noisy in own.noisy.items() if len(places) == 2 and places in published
    }
    told = dict[Places, Noisy]()
    for places, each in predicted.items():
        known = np.isfinite(each.variance)
        if len(places) == 2 and known.any():
            numbers = np.where(known, each.mean, published[places].estimate)
            told[places] = numbers, float(np.median(each.variance[known]))
    result, shared, ratios = dict[Places, Table](), dict[Places, Floats](), dict[Places, float]()
    if told:
        foretold = all_pairs(after, told, ordered)
        expected: dict[Places, Floats] = {p: independent([after[place] for place in p], after[0].sum()) for p in mine}
        expected |= {places: table.estimate for places, table in foretold.items()}
        alone, leaning = all_pairs(before, mine, ordered), all_pairs(after, mine, ordered, expected=expected)
        for places in told:
            made = alone[places], leaning[places], foretold[places], published[places]
            changed = _Pair(*made, predicted[places], told[places][1], walks[places])
            estimate, variance, noise = changed.measured() if places in mine else changed.not_measured()
            result[places] = Table(places, _fitted(places, estimate, after), noise, variance - noise)
            shared[places] = changed.shared(variance - noise)
            ratios[places] = float(variance.sum() / changed.claimed.sum())
    for places, table in published.items():
        if len(places) == 2 and places not in result:
            result[places] = replace(table, estimate=_fitted(places, table.estimate, after))
    return result, shared, ratios


def _fitted(places: Places, table: Floats, one_way: Sequence[Floats]) -> Floats:
    """Pair fitted to its one-way margins."""
    return fit_margins(np.maximum(table, 0.0), one_way[places[0]], one_way[places[1]])


@dataclass(frozen=True, eq=False)
class _Pair:
    """Estimates of one pair: by its period alone, leaning on others, by these others, and as published.

    usual: median variance of its prediction.
    """

    alone: Table
    leaning: Table
    foretold: Table
    published: Table
    predicted: Prediction
    usual: float
    walk: Walk

    @property
    def known(self) -> Flags:
        return np.isfinite(self.predicted.variance)

    @property
    def claimed(self) -> Floats:
        """Published variances by cell."""
        return np.maximum(self.published.noise + self.published.model, LEAST)

    @property
    def unforetold(self) -> Floats:
        """Variances of a count around its prediction, by cell: scatter, and error of the prediction.

        A cell that is known for less long than others has a larger share of the error.
        """
        error, share = self.foretold.noise + self.foretold.model, np.where(self.known, self.predicted.variance, 0.0)
        return self.walk.scatter * np.maximum(self.leaning.estimate, 1.0) + share / self.usual * error

    def shared(self, model: Floats) -> Floats:
        """Variances by cell of what other periods err by too: predictions, and what the model misses always."""
        scatter = self.walk.scatter * np.maximum(self.leaning.estimate, 1.0)
        error = np.maximum(self.unforetold - scatter, 0.0)
        step = self.walk.drift * self.leaning.estimate**2
        common = np.minimum(self.walk.shared(step, error, scatter, self.claimed), model)
        return np.asarray(common + ALWAYS * (model - common))

    def measured(self) -> tuple[Floats, Floats, Floats]:
        """Estimate, variance and the part of it from noise, of a pair that was measured in its period."""
        a, b, p, known = self.alone, self.leaning, self.published, self.known
        fall = np.clip((b.noise + b.model) / np.maximum(a.noise + a.model, LEAST), 0.0, 1.0)
        fall = np.where(known, fall, 1.0)
        estimate = np.where(known, b.estimate, a.estimate) + fall * (p.estimate - a.estimate)
        left = self.unforetold
        least = np.where(known, left / (left + self.claimed), 1.0)
        variance = np.maximum(fall, least) * self.claimed
        noise = p.noise * np.where(known, np.minimum(b.noise / np.maximum(a.noise, LEAST), 1.0), 1.0)
        return estimate, variance, np.minimum(noise, variance)

    def not_measured(self) -> tuple[Floats, Floats, Floats]:
        """The same of a pair that was not measured in its period, but in others: by precision."""
        p, f = self.published, self.foretold
        left = self.unforetold + self.walk.drift * f.estimate**2
        fall = np.where(self.known, left / (left + self.claimed), 1.0)
        variance = fall * self.claimed
        return f.estimate + fall * (p.estimate - f.estimate), variance, np.minimum(p.noise, variance)


def _refitted(table: Table, tables: Mapping[Places, Table]) -> Table:
    """Larger table fitted proportionally to smaller ones."""
    parts = [tables[part] for part in combinations(table.places, len(table.places) - 1) if part in tables]
    estimate = np.maximum(table.estimate, LEAST)
    for _ in range(ROUNDS_OF_LARGER):
        for part in parts:
            now = np.maximum(sum_out(estimate, part.places, table.places), LEAST)
            estimate = estimate * spread_out(part.estimate / now, part.places, table.places)
    return replace(table, estimate=estimate)


def _narrower(spreads: Spreads, ratios: Mapping[Places, float]) -> Spreads:
    """Spreads of the blocks of pairs times the fall of their cells' variances."""
    blocks = {p: Scaled.combined([(each, ratios.get(p, 1.0))]) for p, each in spreads.blocks.items()}
    return replace(spreads, blocks=blocks)
