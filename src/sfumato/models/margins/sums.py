"""Empirical-Bayes shrinkage of a measure's sums along one and two attributes.

A sum is rows times a mean. Means of one attribute's values scatter around the overall mean, and those of two attributes
around what the one-way means imply: additively, or, where no value is negative, multiplicatively, weighed by marginal
likelihood. Deviations are expanded in the eigenvectors of a prior covariance (shrinkage.Directions) and shrunk by s /
(s + v), s the prior variance of the coefficient, v that of the noise, averaged over a common factor of s by likelihood.
Shrinking single cells instead would bias every sum of many cells.

Neighbours' errors are correlated, but a table keeps variances of single cells. So these are scaled by one factor
(`together`) such that the average range, or single value if there is no order, has the right variance. Own method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import sqrt

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.models.margins.joining import join_products, join_sums
from sfumato.models.margins.scales import Spreads
from sfumato.models.margins.shrinkage import SPREADS, Directions
from sfumato.models.margins.table import Noisy, Places, Table, along_all, pooled

SCATTERS = np.logspace(-5, 1, 25)  # of the largest size of one row's value: what means may scatter by
WIDER = 3.5  # times the variance of what was assumed, as means deviate with longer tails than normal ones
MOST_VALUES = 600  # of an attribute whose directions are looked for; the time grows with their cube


def sums_along(
    noisy: Mapping[Places, Noisy],
    counts: Mapping[Places, Floats],
    largest: float,
    level: float | None = None,
    ordered: Sequence[bool] = (),
) -> tuple[dict[Places, Table], Spreads]:
    """Estimate one- and two-way tables of a measure's sums, in its steps, by shrinking noisy ones.

    Returns the tables by set of axes, () for the total, and the overdispersion of sets of axes that have no table.
    noisy: sums and their noise variance, by set of axes. counts: estimated rows, by set of axes. largest: most steps
    that a row adds or takes away. level: the measure's centre in steps above zero, if it is never negative; then
    multiplicative fits are tried beside additive ones. ordered: whether each axis has an order; empty: none has.
    """
    total, variance = pooled(list(noisy.items()), ())
    rows = max(float(counts[()]), 1.0)
    tables: dict[Places, Table] = {(): Table((), np.asarray(total), np.asarray(variance), np.zeros(()))}
    axes = sorted({place for places in noisy for place in places})
    along = {axis: _AxisPrior.of(counts[axis,], ordered=bool(ordered) and ordered[axis]) for axis in axes}
    for axis in axes:
        sums, variance = pooled(list(noisy.items()), (axis,))
        guess = along[axis].share * float(np.clip(total, -largest * rows, largest * rows))
        estimate, *errors = _drawn(guess, sums, variance, [along[axis]], rows * largest)
        lacking = (float(total) - float(estimate.sum())) / len(estimate)
        tables[axis,] = Table((axis,), estimate + lacking, *errors)
    pairs: list[Places] = sorted(places for places in noisy if len(places) == 2)
    alone: dict[Places, dict[Places, Floats]] = {p: {(k,): tables[p[k],].estimate for k in (0, 1)} for p in pairs}
    ways = [{p: join_sums(counts[p], alone[p]) for p in pairs}]
    if level is not None:
        ways.append({p: join_products(counts[p], alone[p], level) for p in pairs})
    fits = [_likeliest([(way[p], *noisy[p], counts[p]) for p in pairs], (largest * SCATTERS) ** 2) for way in ways]
    belief = np.exp(np.array([likelihood for likelihood, _ in fits]) - max(fits)[0])
    belief /= belief.sum()
    for first, second in pairs:
        guesses = np.array([way[first, second] for way in ways])
        guess = np.tensordot(belief, guesses, axes=1)
        apart = [sqrt(each) * (one - guess) for each, one in zip(belief, guesses, strict=True)]
        shrunk = _drawn(guess, *noisy[first, second], [along[first], along[second]], rows * largest, apart)
        tables[first, second] = Table((first, second), *shrunk)
    return tables, Spreads((0.0, WIDER * max(fits)[1]))


@dataclass(frozen=True, eq=False)
class _AxisPrior:
    """An axis: share of the rows by value (values,), directions of its means, and the usual queries along it."""

    share: Floats
    directions: Directions
    asked: UsualQueries

    @classmethod
    def of(cls, rows: Floats, *, ordered: bool) -> _AxisPrior:
        """Axis from its counts (values,)."""
        positive = np.maximum(rows, 0.0)
        share = positive / max(float(positive.sum()), 1.0)
        smooth = ordered and len(rows) <= MOST_VALUES
        alone = Directions(np.zeros(len(rows)), np.eye(len(rows)))  # every value its own direction
        directions = Directions.of(share, smooth) if len(rows) <= MOST_VALUES else alone
        return cls(share, directions, UsualQueries.of(directions, share, ordered=smooth))


def _drawn(
    guess: Floats, sums: Floats, variance: float, along: Sequence[_AxisPrior], size: float, apart: Sequence[Floats] = ()
) -> tuple[Floats, Floats, Floats]:
    """Shrink sums towards a guess whose margins they keep; return estimate, noise variances and model variances.

    size: scale of the sums. apart: deviations of alternative guesses, each times the root of its probability.
    """
    if not all(len(axis.directions.sizes) for axis in along):  # an attribute with one value
        return guess, np.zeros(guess.shape), np.zeros(guess.shape)
    vectors = [axis.directions.vectors for axis in along]
    transposed = [basis.T for basis in vectors]
    off = along_all(transposed, sums - guess)
    sizes = reduce(np.add.outer, [axis.directions.sizes for axis in along])
    trust, left = _posterior(off, sizes + 2.0 * np.log(size), variance)
    for other in apart:
        left = left + ((1.0 - trust) * along_all(transposed, other)) ** 2
    single = along_all([basis**2 for basis in vectors], left)
    single = single * together(left, single, *(axis.asked for axis in along))
    noise = np.minimum(single, variance)
    return guess + along_all(vectors, trust * off), noise, single - noise


def _posterior(off: Floats, sizes: Floats, variance: float) -> tuple[Floats, Floats]:
    """Posterior weights (trust in the measured value) and variances of coefficients.

    off: deviations from the prior mean. sizes: log prior variances up to a common factor, which is averaged over by
    likelihood. variance: of the noise.
    """
    spreads = np.exp(SPREADS.reshape(-1, *[1] * off.ndim) + sizes)
    expected = spreads + variance
    logs = -0.5 * (np.log(expected) + off**2 / expected).reshape(len(SPREADS), -1).sum(axis=1)
    belief = np.exp(logs - logs.max())
    belief = (belief / belief.sum()).reshape(-1, *[1] * off.ndim)
    trusts = spreads / expected
    trust = (belief * trusts).sum(axis=0)
    between = ((belief * trusts**2).sum(axis=0) - trust**2) * off**2
    return trust, variance * trust + np.maximum(between, 0.0)


def _likeliest(tables: Sequence[tuple[Floats, Floats, float, Floats]], scales: Floats) -> tuple[float, float]:
    """Maximum likelihood over a scale of prior variances: (log likelihood, scale).

    tables: (guess, noisy sums, noise variance, array to which prior variances are proportional) of each.
    """
    if not tables:
        return 0.0, float(scales[0])

    def log_likelihood(scale: float) -> float:
        spreads = ((noisy - guess, variance + scale * size) for guess, noisy, variance, size in tables)
        return -0.5 * sum(float((np.log(spread) + off**2 / spread).sum()) for off, spread in spreads)

    return max((log_likelihood(scale), float(scale)) for scale in scales)


@dataclass(frozen=True, eq=False)
class UsualQueries:
    """Sums of squared weights over the usual queries of an axis.

    on_directions: (directions,). on_values: (values,), weights less their share of a total.

    >>> flat = Directions(np.zeros(1), np.array([[1.0], [-1.0]]) / np.sqrt(2))
    >>> UsualQueries.of(flat, np.array([0.5, 0.5]), ordered=False)  # either value
    UsualQueries(on_directions=array([1.]), on_values=array([0.5, 0.5]))
    """

    on_directions: Floats
    on_values: Floats

    @classmethod
    def of(cls, along: Directions, share: Floats, *, ordered: bool) -> UsualQueries:
        """All ranges of an ordered axis, or all single values; share: (values,), of the rows."""
        size = len(share)
        if not ordered:
            return cls((along.vectors**2).sum(axis=0), 1.0 - 2.0 * share + (share**2).sum())
        below = np.vstack([np.zeros(along.vectors.shape[1]), along.vectors.cumsum(axis=0)])
        rows, place = np.concatenate([[0.0], share.cumsum()]), np.arange(size)
        inside = (place + 1) * (rows.sum() - rows[:-1].cumsum()) - (size - place) * rows[:-1].cumsum()
        on_values = _of_ranges(rows) + (place + 1) * (size - place) - 2.0 * inside
        return cls(np.array([_of_ranges(each) for each in below.T]), on_values)


def _of_ranges(below: Floats) -> float:
    """Sum over all ranges of their squared content; below: (values + 1,), cumulative content."""
    return float(len(below) * (below**2).sum() - below.sum() ** 2)


def together(left: Floats, single: Floats, *asked: UsualQueries) -> float:
    """Ratio of the mean variance of the usual queries to that from independent cells; at least 1.

    left: posterior variances by direction; single: variances by cell. At most the number of cells, as if all erred
    alike.
    """
    truly, apart = left, single
    for each in asked:
        truly, apart = each.on_directions @ truly, each.on_values @ apart
    return min(max(1.0, float(truly) / max(float(apart), 1e-300)), float(single.size))
