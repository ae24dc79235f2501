"""Errors of pairs at the scale of broad questions: contrasts of halves and quarters, measured, corrected and sized.

An estimate that was drawn towards products and neighbours is off by little in each cell and to the same side in whole
regions. So the values of every axis are halved by rows, twice, and for a pair the Haar contrasts of its blocks are
measured: sums of rows with a sign for each half. A row enters one contrast of each two levels, with weight 1, so that
all contrasts of a pair cost as much as four counts, or fewer where an axis cannot be halved twice.

What is left of a measured contrast beyond the estimate's is error and noise. How large errors are is learned by
likelihood from all pairs (empirical Bayes, a mixture of variances on a grid, as multiples of what is claimed), and the
posterior mean corrects the estimate, by proportions that leave its margins. The posterior variance is what is left:
the spread of errors at that scale, in rows of variance for each row of a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.inference.margins.errors import along
from sfumato.inference.margins.pairs import fit_margins
from sfumato.inference.margins.spreads import Scaled
from sfumato.inference.margins.table import Places, Table

LEVELS = 3  # halvings of every axis that errors are known at: halves, quarters, eighths
MEASURED = 2  # those of which contrasts of pairs are measured
SIZES = np.exp(np.arange(-4.0, 9.0, 0.5))  # of errors' variances at a scale, over what is claimed
SOME = 0.1  # contrasts' families' worth of belief in each size, before any is seen
LEARNING = 30  # rounds in which all families teach each other how large errors are
ROUNDS = 4  # of bringing a table to its contrasts
MOST_CHANGE = 4.0  # by which a block's rows are multiplied in one round at most
FINER = 8.0  # by which the spread of single cells is smaller than that of quarters, where only these were seen
WIDER = 1.4  # times the deviations that are left, as errors have longer tails than normal ones
LEAST = 1e-9


def halved(margin: Floats, levels: int = LEVELS) -> list[Codes]:
    """For each level the block of every value, numbered from 0: an axis halved by its rows so many times.

    >>> [each.tolist() for each in halved(np.array([1.0, 1.0, 5.0, 1.0]))]
    [[0, 0, 1, 1], [0, 0, 1, 2], [0, 1, 2, 3]]
    """
    rows = np.maximum(margin, 0.0)
    share = rows / rows.sum() if rows.sum() > 0 else np.full(len(rows), 1.0 / len(rows))
    middle = np.cumsum(share) - share / 2.0
    places = [np.minimum((middle * 2**level).astype(np.int64), 2**level - 1) for level in range(1, levels + 1)]
    return [np.asarray(np.unique(each, return_inverse=True)[1], dtype=np.int64) for each in places]


@dataclass(frozen=True, eq=False)
class Haar:
    """Signs of an axis: a row for each block that is halved. level: of every row, from 0."""

    signs: Floats
    level: Codes

    @classmethod
    def of(cls, margin: Floats, levels: int = MEASURED) -> Haar:
        """The halvings of an axis by its rows; none where it has one value that holds nearly all."""
        whole = np.zeros(len(margin), dtype=np.int64)
        signs, level = [np.zeros(len(margin))[:0].reshape(0, len(margin))], []
        for depth, (outer, inner) in enumerate(
            zip([whole, *halved(margin, levels)], halved(margin, levels), strict=False)
        ):
            for block in range(int(outer.max()) + 1):
                halves = np.unique(inner[outer == block])
                if len(halves) == 2:
                    row = np.where(inner == halves[0], 1.0, -1.0) * (outer == block)
                    signs.append(row[None])
                    level.append(depth)
        return cls(np.concatenate(signs), np.array(level, dtype=np.int64))

    @property
    def levels(self) -> int:
        """How many rows a value enters at most."""
        return int(np.abs(self.signs).sum(axis=0).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class Contrasts:
    """The noisy contrasts of some attributes, an array by rows of the signs of each, and the variance of the noise."""

    signs: tuple[Haar, ...]
    noisy: Floats
    variance: float

    def of(self, table: Floats) -> Floats:
        """The contrasts of a table."""
        for axis, haar in enumerate(self.signs):
            table = along(haar.signs, table, axis)
        return table

    def rows(self, table: Floats) -> Floats:
        """The sum over the cells that each contrast is about."""
        for axis, haar in enumerate(self.signs):
            table = along(np.abs(haar.signs), table, axis)
        return table

    def back(self, contrasts: Floats) -> Floats:
        """For every cell, the sum of the contrasts that it enters, with its signs."""
        for axis, haar in enumerate(self.signs):
            contrasts = along(haar.signs.T, contrasts, axis)
        return contrasts

    def families(self) -> Codes:
        """The family of each contrast: 0 for halves of all axes, more where some are quarters."""
        found: Codes = np.zeros((), dtype=np.int64)
        for haar in self.signs:
            found = found[..., None] + haar.level
        return found


def worth_measuring(before: Floats, cost: Floats, variance_of: float, pure: bool) -> Codes:
    """Which pairs to measure contrasts of: those that make errors least.

    before: the standard deviation of each pair's contrasts by now. cost: how many contrasts a row enters. variance_of:
    what the noise's variance is if one contrast is measured alone.
    """
    order = np.argsort(-before, kind="stable")
    costs = np.cumsum(cost[order])
    noise = np.sqrt(variance_of) * (costs if pure else np.sqrt(costs))
    gains = [
        float((before[order[:k]] * (1.0 - 1.0 / np.hypot(1.0, before[order[:k]] / sd))).sum())
        for k, sd in enumerate(noise, 1)
    ]
    best = int(np.argmax(gains)) + 1 if gains else 0
    if not best or before[order[0]] < noise[0]:
        return np.zeros(0, dtype=np.int64)
    return np.sort(order[:best])


def corrected(
    tables: Mapping[Places, Table], contrasts: Mapping[Places, Contrasts], told: Sequence[Places]
) -> tuple[dict[Places, Table], dict[Places, Scaled]]:
    """Pairs with the contrasts that were measured, drawn towards them, and the spread of errors that is left.

    told: pairs of which cells were measured; how far errors of these go beyond what is claimed says nothing of others.
    """
    looked = {places: each for places, each in contrasts.items() if each.noisy.size}
    off = {places: each.noisy - each.of(tables[places].estimate) for places, each in looked.items()}
    claimed = {p: np.maximum(each.rows(tables[p].noise + tables[p].model), LEAST) for p, each in looked.items()}
    found, spreads, roughness = dict(tables), dict[Places, Scaled](), dict[Places, float]()
    means, left, noises = ({places: np.zeros(each.shape) for places, each in off.items()} for _ in range(3))
    for family in range(2 * MEASURED - 1):
        for measured in (False, True):
            every = [p for p in looked if (p in told) == measured]
            items = [(p, np.nonzero(looked[p].families() == family)) for p in every]
            items = [(p, here) for p, here in items if len(here[0])]
            sizes = learned_sizes([(off[p][at], claimed[p][at], looked[p].variance) for p, at in items])
            for (places, at), weights in zip(items, sizes, strict=True):
                mean, variance, noise = posterior(
                    off[places][at], claimed[places][at], looked[places].variance, weights
                )
                means[places][at], left[places][at], noises[places][at] = mean, variance, noise
                # of the finest contrasts there are, the variance for each row before it was corrected
                roughness[places] = float(
                    (weights @ SIZES)
                    * claimed[places][at].sum()
                    / max(float(looked[places].rows(tables[places].estimate)[at].sum()), 1.0)
                )
    for places, each in looked.items():
        table, estimate = tables[places], _tilted(tables[places].estimate, each, means[places])
        model = table.model if places in told else estimate * (1.0 + roughness[places] / FINER)
        found[places] = Table(places, estimate, table.noise, model)
        spreads[places] = _spread(each, table.estimate, left[places], noises[places])
    return found, spreads


def learned_sizes(items: Sequence[tuple[Floats, Floats, float]]) -> list[Floats]:
    """For each family of contrasts, how likely each of `SIZES` is, with a prior that all of them teach each other.

    items: what each contrast is off by, the variance claimed of it, and that of its noise.
    """
    if not items:
        return []
    logs = []
    for off, claimed, variance in items:
        expected = SIZES[:, None] * claimed.reshape(-1) + variance
        logs.append(-0.5 * (np.log(expected) + off.reshape(-1) ** 2 / expected).sum(axis=1))
    likely = np.exp([each - each.max() for each in logs])
    prior = np.full(len(SIZES), 1.0 / len(SIZES))
    for _ in range(LEARNING):
        belief = likely * prior
        belief /= belief.sum(axis=1, keepdims=True)
        prior = belief.sum(axis=0) + SOME
        prior = prior / prior.sum()
    belief = likely * prior
    return list(belief / belief.sum(axis=1, keepdims=True))


def posterior(off: Floats, claimed: Floats, variance: float, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """The posterior mean of errors, the variance that is left, and which part of that is the noise's."""
    prior = SIZES[:, None] * claimed
    kept = prior / (prior + variance)
    trust = sizes @ kept
    left = trust * variance + np.maximum(sizes @ kept**2 - trust**2, 0.0) * off**2
    return trust * off, left, np.minimum(trust**2 * variance, left)


def _tilted(table: Floats, contrasts: Contrasts, change: Floats) -> Floats:
    """A table with the same margins and, as nearly as no cell is negative, other contrasts."""
    wanted, rows, columns = contrasts.of(table) + change, table.sum(axis=1), table.sum(axis=0)
    for _ in range(ROUNDS):
        lacking = wanted - contrasts.of(table)
        step = contrasts.back(lacking / np.maximum(contrasts.rows(table), 1.0))
        factor = np.clip(1.0 + step, 1.0 / MOST_CHANGE, MOST_CHANGE)
        table = fit_margins(table * factor, rows, columns, 3)
    return fit_margins(table, rows, columns)


def _spread(contrasts: Contrasts, table: Floats, left: Floats, noise: Floats) -> Scaled:
    """Variances that are left, for each row that contrasts are about: of halves, then of quarters."""
    rows, family = np.maximum(contrasts.rows(table), 1.0), contrasts.families()
    by_level: list[list[float]] = [[], []]
    for part, found in ((noise, by_level[0]), (WIDER**2 * left - noise, by_level[1])):
        for level in range(MEASURED):
            here = family == 0 if not level else family > 0
            found.append(float((part[here]).sum() / rows[here].sum()) if here.any() else (found[-1] if found else 0.0))
    return Scaled(tuple(by_level[0]), tuple(by_level[1]))


@dataclass(frozen=True)
class OfThree:
    """The contrast of the halves of three attributes, the spread of its error, and that before it was measured."""

    contrast: float
    spread: float
    before: float


def of_three(contrasts: Mapping[Places, Contrasts], joined: Mapping[Places, Floats]) -> dict[Places, OfThree]:
    """For sets of three attributes, the contrast of their halves and how far it is off.

    joined: the tables of what is known of smaller sets.
    """
    places = [each for each in contrasts if contrasts[each].noisy.size]
    rows = {each: max(float(joined[each].sum()), 1.0) for each in places}
    now = {each: contrasts[each].of(joined[each]).reshape(-1) for each in places}
    off = {each: contrasts[each].noisy.reshape(-1) - now[each] for each in places}
    items = [(off[each], np.array([rows[each]]), contrasts[each].variance) for each in places]
    found: dict[Places, OfThree] = {}
    for each, (one, claimed, variance), weights in zip(places, items, learned_sizes(items), strict=True):
        mean, left, _ = posterior(one, claimed, variance, weights)
        contrast, spread = float((now[each] + mean)[0]), WIDER**2 * float(left[0]) / rows[each]
        found[each] = OfThree(contrast, spread, float(weights @ SIZES))
    return found
