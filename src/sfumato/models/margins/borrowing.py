"""Borrow strength from other releases: other periods of a series, or an earlier release in another form.

Along time. The marginals of one period, estimated with what other periods say of them.

Model: local levels (answers/local_level.py) of all tables of one and two attributes. Forward and backward filters
over the noisy tables of the other periods give a prediction of every cell of a period that shares no noise with it. A
value, or a cell, that jumps is reset to a diffuse prior.

Estimator of pairs. The prediction, shrunk like a table of one period, is one more prior mean in the empirical-Bayes
shrinkage of the period's own noisy pair (`all_pairs`); how far it is believed is learned from the period's own tables,
so a series that drifts fast is estimated as each period alone. What a release has on top of that shrinkage (contrasts,
calibrated errors) is carried over: with a = alone, b = borrowed, p = published, c = Var b / Var a by cell,

    estimate = b + c (p - a),    variance = c Var p

Noise in the result is the period's own noise; what comes from other periods counts as model error. Variances are first
brought to the size that all periods claim on average (`evened`), times what these claims are off by as the series
itself shows (`Sizes`).

Covariance of two periods' errors, for differences and sums along time (answers/parts.py): `Walk.shared`, and of the
rest a bias that recurs in every period, measured by products of two periods' differences, published minus noisy table.

All of it works on published numbers: nothing is spent. Own method.

Another form (`Prior`): other columns, bins, values, or another mechanism.

Shared grid. Two axes of one name have cells in common: a category's values by name, what is not listed going with
"other"; ordered cells between cuts that both axes have. Both releases are summed over the groups of cells that come of
it, along one and two attributes, and the earlier one is brought to the rows of the new one.

Estimator. The two are a series of two periods: the drift between them, and the scatter of counts, are learned by
moments of the innovations, so a prior of another population is believed as little as it deserves; groups that jump are
left alone. Of the earlier release its unbiased noisy counts are used where it has them, with the noise of each sum,
else its estimates with their errors. Nothing is spent, and guaranteed intervals do not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, cast

import numpy as np

from sfumato.answers.evaluate import Evaluation
from sfumato.answers.local_level import Prediction, Walk, learned
from sfumato.answers.question import ByClass
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Axis, Domain
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.models.margins.joining import one_way_errors, onto_total
from sfumato.models.margins.noise import Marginals
from sfumato.models.margins.scales import Scaled, Spreads
from sfumato.models.margins.shrinkage import LEAST, ROUNDS_OF_LARGER, all_pairs, fit_margins
from sfumato.models.margins.table import WIDER, Noisy, Places, Table, independent, spread_out, sum_kinds, sum_out
from sfumato.releases.contents.content import Content, ContentOfCells
from sfumato.schema import Schema
from sfumato.schema.attributes.lists import OTHER
from sfumato.sql import Amount, Column

if TYPE_CHECKING:
    from os import PathLike

    from sfumato.releases.release import Release

ALWAYS = 0.1  # of a pair's variance, what every period errs by alike; about as much more or less in other series
USUAL = 0.25  # deviation of series, in how large squared errors of pairs are beside what periods claim

Look = Callable[[int, Mapping[Places, Prediction]], None]
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
    def of(cls, contents: Sequence[Marginals]) -> Periods:
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
        """Estimate drift and scatter of tables by weighted least squares on squared differences (Winsorised)."""
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

    def predicted(self, at: int, look: Look | None = None) -> dict[Places, Prediction]:
        """Expected counts in one period from all others, before and after it, at its own number of rows.

        look: called with each period on the way and the tables predicted for it from the periods passed before.
        """
        past, scale = self._along(range(at + 1), look), self.totals[at] / self.rows
        future = self._along(range(len(self.seen) - 1, at - 1, -1), look)
        both = {places: past[places] & future[places] for places in self.typical}
        return {p: Prediction(each.mean * scale, each.variance * scale**2, each.periods) for p, each in both.items()}

    def _along(self, periods: range, look: Look | None) -> dict[Places, Prediction]:
        """Kalman filter over some periods to the last one; a cell that jumps is reset to a diffuse prior."""
        walks = self.walks
        state = {places: Prediction.of_nothing(rows.shape) for places, rows in self.typical.items()}
        for period in periods:
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
            if look is not None and period != periods[0]:
                look(period, state)
            if period != periods[-1]:
                for places, noisy in self.seen[period].items():
                    if places in state:
                        scatter = walks[places].scatter * self.typical[places]
                        state[places] = state[places].after(noisy, scatter)
        return state

    def _moved(self, places: Places, state: Prediction, walk: Walk) -> Prediction:
        """Predict the filter's state one period later (variance plus drift)."""
        return replace(state, variance=state.variance + walk.drift * self.typical[places] ** 2)

    def _jumps(self, places: Places, state: Prediction, seen: Seen, walk: Walk) -> Flags:
        """Flags of the cells whose innovation is beyond its predicted spread."""
        if places not in seen:
            return np.zeros(state.mean.shape, dtype=bool)
        return state.jumps(seen[places], walk.scatter * self.typical[places])


class Sizes:
    """Ratio of actual to claimed squared errors of published pairs, estimated with predictions from other periods.

    A prediction z of the expected counts m in a period from others shares no noise with the published estimate p, which
    shrinks the counts x = m + scatter and trusts its own noisy table by w:

        E |p - x|^2  =  E |p - z|^2  -  Var z  +  (1 - 2 w) Var scatter
    """

    def __init__(self, periods: Periods, contents: Sequence[Marginals]) -> None:
        self._periods, self._rows = periods, list[tuple[float, float, float]]()
        self._scales = [periods.rows / total for total in periods.totals]
        self._tables = [each.tables["count"] for each in contents]
        self._claimed: dict[Places, Floats] = {  # on average over periods, of pairs that all have measured
            places: np.mean([self._variance(at, places) for at in range(len(contents))], axis=0)
            for places in periods.typical
            if len(places) == 2 and all(places in seen for seen in periods.seen)
        }

    def _variance(self, period: int, places: Places) -> Floats:
        """Claimed variances by cell of a period's pair, without the factor for long tails."""
        table = self._tables[period][places]
        return np.asarray((table.noise + table.model) * self._scales[period] ** 2 / WIDER**4)

    def look(self, period: int, state: Mapping[Places, Prediction]) -> None:
        """Add one period's squared errors around the tables predicted for it."""
        row, drift = np.zeros(3), 0.0
        for places, variance in self._claimed.items():
            expected, noise = state[places], self._periods.seen[period][places][1]
            known = np.isfinite(expected.variance)
            estimate, claimed, z = (
                each[known] for each in (self._tables[period][places].estimate, variance, expected.variance)
            )
            estimate = estimate * self._scales[period]
            trust = np.minimum(claimed / (noise[known] if isinstance(noise, np.ndarray) else noise), 1.0)
            scatter = self._periods.walks[places].scatter * np.maximum(estimate, 0.0)
            error = (estimate - expected.mean[known]) ** 2 - z + (1.0 - 2.0 * trust) * scatter
            row += [error.sum(), claimed.sum(), (2.0 * z**2 + 4.0 * z * claimed).sum()]
            drift += self._periods.walks[places].drift * float((self._periods.typical[places][known] ** 2).sum())
        if row[2] > 0.0:  # by how much tables drift is known only roughly, and for all periods alike
            self._rows.append((row[0], row[1], row[2] + drift**2))

    @property
    def beside_claimed(self) -> float:
        """Ratio of actual to claimed squared errors, shrunk to 1 by precision; between 1/2 and 2."""
        errors, claimed, variances = np.array(self._rows).reshape(-1, 3).T
        whole = float((claimed / variances).sum())
        if not whole > 0.0:
            return 1.0
        ratio, unsure = (
            float((errors / variances).sum()) / whole,
            len(errors) * float((1.0 / variances).sum()) / whole**2,
        )
        return float(np.clip(1.0 + USUAL**2 / (USUAL**2 + unsure) * (ratio - 1.0), 0.5, 2.0))

    @property
    def recurring(self) -> float:
        """Share of the error variance of pairs that is common to all periods, shrunk to `ALWAYS` by precision.

        A period's difference, published minus noisy table, has the error of the former and noise of its own: products
        of two periods' differences measure what their errors share.
        """
        products, unsure, many = 0.0, 0.0, len(self._tables)
        claimed = self.beside_claimed * sum(float(each.sum()) for each in self._claimed.values())
        for places, variance in self._claimed.items():
            seen = [each[places] for each in self._periods.seen]
            off = [t[places].estimate * c - y for t, c, (y, _) in zip(self._tables, self._scales, seen, strict=True)]
            products += float((np.sum(off, axis=0) ** 2).sum() - np.square(off).sum()) / (many * (many - 1))
            unsure += sum(2.0 * float((noise**2 * np.ones(variance.shape)).sum()) for _, noise in seen) / many
        if not claimed > 0.0:
            return ALWAYS
        weight = ALWAYS**2 / (ALWAYS**2 + unsure / (many * (many - 1)) / claimed**2)
        return float(np.clip(ALWAYS + weight * (products / claimed - ALWAYS), 0.0, 1.0))


def borrowed(contents: Sequence[Marginals], at: int) -> Marginals:
    """Re-estimate the marginals of one period with the other periods of the series; `contents` in the order of time."""
    if len(contents) < 2:
        return contents[at]
    periods = Periods.of(contents)
    sizes = Sizes(periods, contents)
    predicted = periods.predicted(at, sizes.look)
    own = evened(contents, at, predicted, sizes.beside_claimed)
    return lean_on(own, predicted, periods.walks, sizes.recurring)


def lean_on(
    own: Marginals, predicted: Mapping[Places, Prediction], walks: Mapping[Places, Walk], always: float = ALWAYS
) -> Marginals:
    """Shrink marginals towards predictions with independent noise. always: `Sizes.recurring`."""
    tables, shared = dict(own.tables["count"]), dict[Places, Floats]()
    for place in range(len(own.domain.axes)):
        every = np.arange(own.domain.shape[place])
        tables[place,], shared[place,] = lean_margin(own, place, predicted[place,], walks[place,], every)
    pairs, commons, ratios, lags = _pairs(own, tables, predicted, walks, always)
    return replace(with_tables(own, tables | pairs, ratios), shared=shared | commons, lags=lags)


def with_tables(own: Marginals, tables: dict[Places, Table], ratios: Mapping[Places, float]) -> Marginals:
    """Replace the tables of counts, and refit larger tables to them. ratios: new over old variance, of pairs."""
    for places in sorted((p for p in tables if len(p) > 2), key=len):
        tables[places] = _refitted(tables[places], tables)
    spreads = dict(own.spreads)
    if "count" in spreads:
        spreads["count"] = _narrower(spreads["count"], ratios)
    return replace(own, tables={**own.tables, "count": tables}, spreads=spreads)


def evened(
    contents: Sequence[Marginals], at: int, predicted: Mapping[Places, Prediction], beside: float = 1.0
) -> Marginals:
    """Rescale the claimed errors of one period to their mean over all periods.

    A period measures the size of its own errors with noise, which is why errors have longer tails than normal ones and
    are claimed wider, for tables and again for single cells (`WIDER`, `with_tails`). Sizes of several periods even out,
    and tails are short again; a cell that jumped keeps its own. beside: `Sizes.beside_claimed`.
    """
    own, rows = contents[at], [max(float(each.tables["count"][()].estimate), 1.0) for each in contents]
    beside /= WIDER**4
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
        times = (float(np.mean(sizes)) / mine * beside) ** (known / most) if mine > 0.0 else np.ones(known.shape)
        noise = np.minimum(times, 1.0) * table.noise
        tables[places] = Table(places, table.estimate, noise, times * (table.noise + table.model) - noise)
    spreads = dict(own.spreads)
    if "count" in spreads:
        others = [each.spreads["count"] for each in contents if "count" in each.spreads]
        spreads["count"] = spreads["count"].evened(others, beside, shares)
    return replace(own, tables={**own.tables, "count": tables}, spreads=spreads)


def lean_margin(own: Marginals, place: int, predicted: Prediction, walk: Walk, kind: Codes) -> tuple[Table, Floats]:
    """Shrink a one-way margin towards its prediction by precision (GLS); return it and the variances shared by periods.

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
    shared = share**2 * walk.shared(walk.drift * estimate**2, error, scatter, of_group)[0][kind]
    return Table(table.places, moved, noise, variance - noise), np.minimum(shared, variance - noise)


def _pairs(
    own: Marginals,
    tables: Mapping[Places, Table],
    predicted: Mapping[Places, Prediction],
    walks: Mapping[Places, Walk],
    always: float,
) -> tuple[dict[Places, Table], dict[Places, Floats], dict[Places, float], Floats | None]:
    """Shrink two-way tables towards predictions; also shared error variances, variance ratios and `Marginals.lags`.

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
    by_lag = list[Floats]()
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
            shared[places], lags = changed.shared(variance - noise, always)
            by_lag.append(lags)
            ratios[places] = float(variance.sum() / changed.claimed.sum())
    for places, table in published.items():
        if len(places) == 2 and places not in result:
            result[places] = replace(table, estimate=_fitted(places, table.estimate, after))
    whole = sum(float(each.sum()) for each in shared.values())
    return result, shared, ratios, np.sum(by_lag, axis=0) / whole if whole > 0.0 else None


def _fitted(places: Places, table: Floats, one_way: Sequence[Floats]) -> Floats:
    """Fit a pair to its one-way margins."""
    return fit_margins(np.maximum(table, 0.0), one_way[places[0]], one_way[places[1]])


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two-way table of one period four times: estimated alone, with borrowing, predicted by other periods, published.

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
        """Variance of a count around its prediction, by cell: scatter plus prediction error.

        A cell that is known for less long than others has a larger share of the error.
        """
        error, share = self.foretold.noise + self.foretold.model, np.where(self.known, self.predicted.variance, 0.0)
        return self.walk.scatter * np.maximum(self.leaning.estimate, 1.0) + share / self.usual * error

    def shared(self, model: Floats, always: float) -> tuple[Floats, Floats]:
        """Error covariance with other periods: from predictions, and from the model's constant bias.

        Returns it by cell, and summed over cells by lag, (periods,).
        """
        scatter = self.walk.scatter * np.maximum(self.leaning.estimate, 1.0)
        error = np.maximum(self.unforetold - scatter, 0.0)
        step = self.walk.drift * self.leaning.estimate**2
        common, lags = self.walk.shared(step, error, scatter, self.claimed)
        common = np.minimum(common, model)
        fades, stays = (1.0 - always) * common, always * model
        return np.asarray(fades + stays), lags * fades.sum() + stays.sum()

    def measured(self) -> tuple[Floats, Floats, Floats]:
        """Estimate, variance and variance from noise of a pair that was measured in its own period."""
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
        """Estimate, variance and variance from noise of a pair measured only in other periods: mean by precision."""
        p, f = self.published, self.foretold
        left = self.unforetold + self.walk.drift * f.estimate**2
        fall = np.where(self.known, left / (left + self.claimed), 1.0)
        variance = fall * self.claimed
        return f.estimate + fall * (p.estimate - f.estimate), variance, np.minimum(p.noise, variance)


def _refitted(table: Table, tables: Mapping[Places, Table]) -> Table:
    """Fit a larger table to smaller ones (iterative proportional fitting)."""
    parts = [tables[part] for part in combinations(table.places, len(table.places) - 1) if part in tables]
    estimate = np.maximum(table.estimate, LEAST)
    for _ in range(ROUNDS_OF_LARGER):
        for part in parts:
            now = np.maximum(sum_out(estimate, part.places, table.places), LEAST)
            estimate = estimate * spread_out(part.estimate / now, part.places, table.places)
    return replace(table, estimate=estimate)


def _narrower(spreads: Spreads, ratios: Mapping[Places, float]) -> Spreads:
    """Scale the spreads of pairs' blocks by the variance ratio of their cells."""
    blocks = {p: Scaled.combined([(each, ratios.get(p, 1.0))]) for p, each in spreads.blocks.items()}
    return replace(spreads, blocks=blocks)


MOST_LEANT_ON = 2**20  # groups of cells of one table; larger ones have next to no rows each
MOST_NAMED = 6  # attributes in a message
UNKNOWN = 1e30  # variance of what the earlier release does not know
OUTSIDE, NO_VALUE = -1, -2  # groups of cells without a partner, and of rows without a value
_NUMBERS = ("integer", "number")


@dataclass(frozen=True, eq=False)
class Shared:
    """Common coarsening of two axes: groups of cells that both can form.

    own: group of each cell of the new axis. prior: group of each cell of the earlier one, -1 where it has no partner.
    """

    own: Codes
    prior: Codes

    @classmethod
    def of(cls, own: Axis, prior: Axis) -> Shared | None:
        """Finest common coarsening of two axes; None where it has fewer than two groups."""
        kinds = {own.kind, prior.kind}
        if own.ordered and (len(kinds) == 1 or kinds <= {*_NUMBERS}):
            mine, its = _between_common_cuts(own, prior)
        elif not own.ordered and not prior.ordered:
            mine, its = _by_name(own, prior)
        else:
            return None
        numbers = dict.fromkeys([*mine, *([NO_VALUE] if own.missing else [])])  # groups as the new cells come
        places = {number: place for place, number in enumerate(numbers)}
        mine, its = [*mine, *([NO_VALUE] * own.missing)], [*its, *([NO_VALUE] * prior.missing)]
        found = cls(*(np.array([places.get(number, -1) for number in each], dtype=np.int64) for each in (mine, its)))
        return found if found.known.sum() > 1 else None

    @property
    def known(self) -> Flags:
        """Flags of the groups present on the earlier axis."""
        return np.isin(np.arange(self.own.max() + 1), self.prior)

    @property
    def order(self) -> Codes:
        """Groups of the earlier axis in order of first appearance, -1 for cells without a group."""
        return np.array([*dict.fromkeys(self.prior.tolist())], dtype=np.int64)


def _between_common_cuts(own: Axis, prior: Axis) -> tuple[list[int], list[int]]:
    """Groups of ordered cells between common cuts of both axes; earlier cells beyond the outermost get none."""
    cuts = np.intersect1d(own.edges, prior.edges)
    mine, its = (np.searchsorted(cuts, axis.edges[:-1], side="right") for axis in (own, prior))
    return mine.tolist(), [group if 0 < group < len(cuts) else OUTSIDE for group in its.tolist()]


def _by_name(own: Axis, prior: Axis) -> tuple[list[int], list[int]]:
    """Groups of category values by name; a value that one axis lacks joins that axis's "other"."""
    fold = str.lower if "boolean" in (own.kind, prior.kind) else str
    ours, theirs = ([fold(str(axis.label(cell))) for cell in range(axis.places)] for axis in (own, prior))
    mine = {label: cell for cell, label in enumerate(ours)}
    if OTHER in theirs:
        gathered = [label for label in ours if label == OTHER or label not in theirs]
        mine |= dict.fromkeys([*gathered, OTHER], mine[gathered[0]] if gathered else OUTSIDE)
    return [mine[label] for label in ours], [mine.get(label, mine.get(OTHER, OUTSIDE)) for label in theirs]


def shared_axes(own: Domain, prior: Domain) -> dict[int, Shared]:
    """Common coarsening (`Shared`) of axes named in both domains, by index of the axis in the first."""
    found = {place: Shared.of(axis, prior[axis.name]) for place, axis in enumerate(own) if axis.name in prior}
    return {place: shared for place, shared in found.items() if shared is not None}


@dataclass(frozen=True, eq=False)
class Prior:
    """Earlier release used as a prior. digest: of its file. shown: name of the file, for messages."""

    shown: str
    digest: str
    release: Release
    content: ContentOfCells

    @classmethod
    def read(cls, path: str | PathLike[str], schema: Schema) -> Prior:
        """Open an untrusted file; refuse one that cannot be a prior for a release of the schema."""
        from sfumato.releases.file.artifact import is_series, read_artifact
        from sfumato.releases.release import release_in

        if is_series(path):
            raise ReleaseFileError(
                f"{path} is a series; take out the part to lean on with `sfumato series extract`, and name that file",
                kind="input",
            )
        artifact = read_artifact(path)
        found = release_in(artifact)
        if found.schema.invariants:
            raise ReleaseFileError(
                f"{artifact.path} has exact counts, which nothing protects, so that what leans on it could not keep a "
                "promise about single rows; leave out --prior",
                kind="input",
            )
        if not isinstance(found.content, ContentOfCells) or found.content.threshold is not None:
            raise ReleaseFileError(
                f"{artifact.path} is a release by {found.mechanism} that does not tell the counts of all cells, so "
                "that nothing can lean on it; leave out --prior",
                kind="input",
            )
        if not shared_axes(schema.domain, found.content.domain):
            ours, theirs = (", ".join(domain.names[:MOST_NAMED]) for domain in (schema.domain, found.domain))
            raise ReleaseFileError(
                f"{artifact.path} has no attribute in common with the schema, or none with two common values or bins "
                f"(it has {theirs}; the schema {ours}), so that nothing can lean on it; leave out --prior",
                kind="input",
            )
        return cls(artifact.path, artifact.digest, found, found.content)

    def lean(self, content: Content) -> Content:
        """Re-estimate a new release with this one as a prior."""
        return lean_on_prior(cast("Marginals", content), self.content)  # no other content has a prior


def lean_on_prior(own: Marginals, prior: ContentOfCells) -> Marginals:
    """Shrink marginals towards an earlier release of a similar table, by how well the two agree."""
    shared = shared_axes(own.domain, prior.domain)
    earlier = Earlier.of(prior, own, shared)
    tables = dict(own.tables["count"])
    for place, (predicted, walk) in earlier.margins.items():
        tables[place,], _ = lean_margin(own, place, predicted, walk, shared[place].own)
    one_way = [tables[place,].estimate for place in range(len(own.domain.axes))]
    pairs = [_PriorPair.of(own, shared, places, told) for places, told in earlier.pairs.items()]
    believed = _Belief.of(pairs)
    ratios = dict[Places, float]()
    for pair in pairs:
        tables[pair.places], ratios[pair.places] = pair.leaning(believed)
    for places, table in tables.items():
        if len(places) == 2:
            fitted = fit_margins(np.maximum(table.estimate, 0.0), one_way[places[0]], one_way[places[1]])
            tables[places] = replace(table, estimate=fitted)
    return with_tables(own, tables, ratios)


_Noisy = tuple[Floats, Floats]  # counts along some axes, and the variance of each


@dataclass(frozen=True, eq=False)
class Earlier:
    """Counts of an earlier release by common groups of cells, at the rows of the new one.

    margins: for each shared axis, the prediction of the new margin, of infinite variance where groups jumped or are
    missing, and its walk in time. pairs: estimates along two axes, nan for such groups.
    """

    margins: Mapping[int, tuple[Prediction, Walk]]
    pairs: Mapping[Places, Floats]

    @classmethod
    def of(cls, prior: ContentOfCells, own: Marginals, shared: Mapping[int, Shared]) -> Earlier:
        unbiased = prior
        with suppress(QueryError):  # of those that hold no unbiased counts the estimates must do
            measured = prior.as_measured()
            unbiased = measured if isinstance(measured, ContentOfCells) else prior
        total = max(float(own.tables["count"][()].estimate), 1.0)
        listed: list[Places] = [(), *((place,) for place in shared)]
        listed = [places for places in listed if not places or places in own.noisy]
        counts = _tables(unbiased, own.domain, shared, listed)
        if () not in counts:
            return cls({}, {})
        scale = total / max(float(counts.pop(())[0]), 1.0)
        before = {places: (numbers * scale, variance * scale**2) for places, (numbers, variance) in counts.items()}
        now = {places: _summed(own.noisy[places], [shared[place].own for place in places]) for places in before}
        rows = {p: sum_kinds(own.tables["count"][p].estimate, [shared[place].own for place in p]) for p in before}
        typical = {
            p: np.maximum(np.where(_known(before[p]), (rows[p] + before[p][0]) / 2.0, rows[p]), 1.0) for p in before
        }
        periods = Periods(total, [total, total], [before, now], typical)
        predicted = periods.predicted(1)
        margins = {p[0]: (predicted[p].forgetting(~_known(before[p])), periods.walks[p]) for p in before}
        both = [places for places in combinations(margins, 2) if places in own.tables["count"]]
        pairs = _tables(prior, own.domain, shared, both)
        if unbiased is prior:
            pairs = _shrunk(pairs, {place: before[place,][0] / scale for place in margins}, own.domain)
        found = dict[Places, Floats]()
        for places, numbers in pairs.items():
            jumped = [~np.isfinite(margins[place][0].variance) for place in places]
            unknown = np.logical_or.outer(*jumped) | ~_known(numbers)
            found[places] = np.where(unknown, np.nan, numbers[0] * scale)
        return cls(margins, found)


def _known(noisy: _Noisy) -> Flags:
    """Flags of counts present in the earlier release."""
    return np.asarray(noisy[1] < UNKNOWN * LEAST)


def _shrunk(pairs: Mapping[Places, _Noisy], margins: Mapping[int, Floats], domain: Domain) -> dict[Places, _Noisy]:
    """Shrink unbiased noisy pairs as in one release; noise variances are at least that of rounding, 1/12."""
    axes = [*margins]
    total = max(float(np.mean([each.sum() for each in margins.values()])), 1.0)
    one_way = [onto_total(each, total) for each in margins.values()]
    noisy: dict[Places, tuple[Floats, float]] = {
        (axes.index(a), axes.index(b)): (numbers[0], max(float(np.median(numbers[1][_known(numbers)])), 1 / 12))
        for (a, b), numbers in pairs.items()
        if _known(numbers).any()
    }
    ordered = [domain.axes[place].ordered for place in axes]
    made = all_pairs(one_way, noisy, ordered) if noisy else {}
    return {(axes[a], axes[b]): (made[a, b].estimate, pairs[axes[a], axes[b]][1]) for a, b in noisy}


@dataclass(frozen=True, eq=False)
class _PriorPair:
    """Pair of attributes in the new and the earlier release, by common groups of cells.

    table: as published, by cell. kinds: group of each value. known: flags of groups with an earlier estimate.
    published, earlier: estimates by group, the latter fitted to the former's margins over known groups and equal to it
    elsewhere. noisy: the new release's counts and their variances, if it measured the pair.
    """

    table: Table
    kinds: tuple[Codes, Codes]
    known: Flags
    published: Floats
    earlier: Floats
    noisy: _Noisy | None

    @classmethod
    def of(cls, own: Marginals, shared: Mapping[int, Shared], places: Places, told: Floats) -> _PriorPair:
        table, (first, second) = own.tables["count"][places], (shared[place].own for place in places)
        published, known = sum_kinds(table.estimate, [first, second]), np.isfinite(told)
        held = np.where(known, published, 0.0)
        earlier = fit_margins(np.where(known, np.maximum(told, 0.0), 0.0), held.sum(axis=1), held.sum(axis=0))
        noisy = _summed(own.noisy[places], [first, second]) if places in own.noisy else None
        return cls(table, (first, second), known, published, np.where(known, earlier, published), noisy)

    @property
    def places(self) -> Places:
        return self.table.places

    @property
    def variance(self) -> Floats:
        """Claimed error variances by cell."""
        return np.maximum(self.table.noise + self.table.model, LEAST)

    @property
    def moments(self) -> Floats:
        """Sums for the weight (SURE), in noise units: products and squares of differences, risk, number of terms."""
        if self.noisy is None:
            return np.zeros(4)
        (numbers, drawn), apart = self.noisy, self.earlier - self.published
        own_noise = np.minimum(sum_kinds(self.table.noise, self.kinds), drawn)
        off, here = numbers - self.published, self.known
        sums = (apart * off + own_noise)[here], apart[here] ** 2, (off**2 - drawn + 2.0 * own_noise)[here]
        return np.array([*((each / drawn[here]).sum() for each in sums), here.sum()])

    def leaning(self, believed: _Belief) -> tuple[Table, float]:
        """Shrink the pair towards the earlier one; return it and the ratio of error variances, new over old.

        Cells of a group share its correction by their variances (GLS), and its gain in the same way.
        """
        here, variance = np.ix_(*self.kinds), self.variance
        share = np.where(self.known[here], variance / sum_kinds(variance, self.kinds)[here], 0.0)
        moved = believed.weight * share * (self.earlier - self.published)[here]
        left = variance * (1.0 - believed.gain * share)
        noise = np.minimum((1.0 - believed.weight * share) ** 2 * self.table.noise, left)
        found = Table(self.places, self.table.estimate + moved, noise, left - noise)
        return found, float(left.sum() / variance.sum())


@dataclass(frozen=True, eq=False)
class _Belief:
    """Weight of the earlier release in the mean of both, for pairs, and the relative reduction of error variance.

    With p the published estimate, e the earlier one and y noisy counts of variance r of the same table, the weight of
    least squared error is E (e - p)(x - p) / E (e - p)^2. Its numerator is estimated by (e - p)(y - p) + Cov(p, y)
    (Stein's unbiased risk estimate), of which Cov(p, y) is at least the variance of the noise that is left in p. The
    gain is then weight^2 E (e - p)^2 of the risk E (p - x)^2 = E (p - y)^2 - r + 2 Cov(p, y). Both are estimated
    one standard error towards 0.
    """

    weight: float
    gain: float

    @classmethod
    def of(cls, pairs: Sequence[_PriorPair]) -> _Belief:
        """Estimate the weight from all measured pairs."""
        products, squares, risk, number = np.sum([pair.moments for pair in pairs], axis=0) if pairs else np.zeros(4)
        if squares <= 0.0:
            return cls(0.0, 0.0)
        weight = float(np.clip((products - np.sqrt(squares)) / squares, 0.0, 1.0))
        return cls(weight, float(min(weight**2 * squares / (max(risk, 0.0) + np.sqrt(2.0 * number)), 1.0)))


def _summed(noisy: tuple[Floats, float], along: Sequence[Codes]) -> _Noisy:
    """Noisy counts summed over groups of cells."""
    numbers, variance = noisy
    return sum_kinds(numbers, along), variance * sum_kinds(np.ones(numbers.shape), along)


def _tables(
    content: ContentOfCells, own: Domain, shared: Mapping[int, Shared], sets: Iterable[Places]
) -> dict[Places, _Noisy]:
    """Tables of a release by common groups of cells along another's axes, without sets that it cannot answer."""
    found = dict[Places, _Noisy]()
    for places in sets:
        shape = tuple(int(shared[place].own.max()) + 1 for place in places)
        if prod(shape) > MOST_LEANT_ON:
            continue
        with suppress(QueryError):  # not measured together, or too large to join
            found[places] = _counted(content, {own.names[place]: shared[place] for place in places}, shape)
    return found


def _counted(content: ContentOfCells, shared: Mapping[str, Shared], shape: tuple[int, ...]) -> _Noisy:
    """Counts of a release along some attributes by groups of cells, and their variances; (groups, ...) each."""
    names = sorted(shared, key=content.domain.place)
    classes = {name: np.argsort(shared[name].order)[np.searchsorted(np.sort(shared[name].order), shared[name].prior)]
               for name in names}  # fmt: skip
    groups = ByClass.of_classes(classes)
    view = content.view(classes)
    if view.suppressed is not None:
        raise QueryError("cells below a threshold are not known")
    listed = Evaluation(view, groups, 0.95).evaluate(Column("n", (Amount(Predicate.everything(), None),)))
    numbers, variance = np.zeros(shape), np.full(shape, UNKNOWN)
    of = [shared[name].order for name in names]
    inside = np.ix_(*(each >= 0 for each in of))
    here = tuple(np.ix_(*(each[each >= 0] for each in of)))
    axes = [[*shared].index(name) for name in names]
    for result, found in ((numbers, [one.value for one in listed]), (variance, [one.stderr**2 for one in listed])):
        table = np.array(found).reshape(groups.shape)[inside]
        np.transpose(result, axes)[here] = table
    variance[~np.isfinite(numbers + variance)] = UNKNOWN
    numbers[variance >= UNKNOWN] = 0.0
    return numbers, variance
