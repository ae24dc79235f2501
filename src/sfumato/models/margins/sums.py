"""Sums of a measure along margins, drawn towards what fewer attributes say of them.

A sum is rows times a mean. Means of one attribute's values scatter around the mean of all rows, and those of two
attributes around what the two say apart: by as much more, or, where no value is negative, by as many times more, as
incomes often do. How far either is believed, the noisy sums tell by their likelihood, all margins together.

What is drawn are not cells but directions in which means of neighbouring values vary together (`Directions`): the mean
of all ages from 25 to 64 is known well where single ages are lost in noise, and drawing each of them a little towards
the mean of all would make the whole wrong by all these littles.

What is asked along an attribute, ranges or single values, and how errors of many cells add up in it.

Errors of neighbours go together where neighbours were taken to be alike. A table keeps errors of single cells only,
which `JoinedErrors` adds up as if they were independent; so these are made so large that what is asked is right on
average, and single values along an order are off by less than is said.
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
from sfumato.models.margins.table import Noisy, Places, Table, pooled

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
    """Tables of a measure, in its steps, from noisy sums along one and two axes.

    counts: the rows in the cells of a margin. largest: the most steps that one row adds or takes away. level: how many
    steps above zero the centre lies that values are told from, for a measure that is never negative. ordered: which
    axes are.
    """
    total, variance = pooled(list(noisy.items()), ())
    rows = max(float(counts[()]), 1.0)
    tables: dict[Places, Table] = {(): Table((), np.asarray(total), np.asarray(variance), np.zeros(()))}
    axes = sorted({place for places in noisy for place in places})
    along = {axis: _Along.of(counts[axis,], ordered=bool(ordered) and ordered[axis]) for axis in axes}
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
        found = _drawn(guess, *noisy[first, second], [along[first], along[second]], rows * largest, apart)
        tables[first, second] = Table((first, second), *found)
    return tables, Spreads((0.0, WIDER * max(fits)[1]))


@dataclass(frozen=True, eq=False)
class _Along:
    """An axis: which share of the rows each value has, in which directions means vary together, and what is asked."""

    share: Floats
    directions: Directions
    asked: Asked

    @classmethod
    def of(cls, rows: Floats, *, ordered: bool) -> _Along:
        positive = np.maximum(rows, 0.0)
        share = positive / max(float(positive.sum()), 1.0)
        smooth = ordered and len(rows) <= MOST_VALUES
        directions = Directions.of(share, smooth) if len(rows) <= MOST_VALUES else _each_by_itself(len(rows))
        return cls(share, directions, Asked.of(directions, share, ordered=smooth))


def _each_by_itself(values: int) -> Directions:
    """Every value its own direction; that they add up to nothing is left to the total."""
    return Directions(np.zeros(values), np.eye(values))


def _drawn(
    guess: Floats, sums: Floats, variance: float, along: Sequence[_Along], size: float, apart: Sequence[Floats] = ()
) -> tuple[Floats, Floats, Floats]:
    """Sums drawn towards a guess whose margins they keep, and the variances that noise and what was assumed leave.

    apart: by how much others guess otherwise, each by the root of how far it is believed.
    """
    if not all(len(axis.directions.sizes) for axis in along):  # an attribute with one value
        return guess, np.zeros(guess.shape), np.zeros(guess.shape)
    vectors = [axis.directions.vectors for axis in along]
    off = _turned(sums - guess, [each.T for each in vectors])
    sizes = reduce(np.add.outer, [axis.directions.sizes for axis in along])
    trust, left = _posterior(off, sizes + 2.0 * np.log(size), variance)
    for other in apart:
        left = left + ((1.0 - trust) * _turned(other, [each.T for each in vectors])) ** 2
    single = _turned(left, [each**2 for each in vectors])
    single = single * together(left, single, *(axis.asked for axis in along))
    noise = np.minimum(single, variance)
    return guess + _turned(trust * off, vectors), noise, single - noise


def _turned(table: Floats, by: Sequence[Floats]) -> Floats:
    """An array multiplied by a matrix along each of its axes."""
    for axis, matrix in enumerate(by):
        table = np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)
    return table


def _posterior(off: Floats, sizes: Floats, variance: float) -> tuple[Floats, Floats]:
    """How far deviations along each direction are trusted, and the variance that is left of them.

    sizes: the logarithm of what is expected of their squares, up to a factor that all have in common and that is not
    known: what follows is the mean over all that it may be, by their likelihood.
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
    """The factor on the last arrays, as variances of what is measured around what is guessed, that is likeliest.

    Before it the logarithm of its likelihood. tables: guess, what was measured, variance of its noise, what the
    variance of the truth is proportional to.
    """
    if not tables:
        return 0.0, float(scales[0])

    def log_likelihood(scale: float) -> float:
        spreads = ((noisy - guess, variance + scale * size) for guess, noisy, variance, size in tables)
        return -0.5 * sum(float((np.log(spread) + off**2 / spread).sum()) for off, spread in spreads)

    return max((log_likelihood(scale), float(scale)) for scale in scales)


@dataclass(frozen=True, eq=False)
class Asked:
    """Squared weights of all that is asked, added up: on each direction, and on each value less its share of a total.

    >>> flat = Directions(np.zeros(1), np.array([[1.0], [-1.0]]) / np.sqrt(2))
    >>> Asked.of(flat, np.array([0.5, 0.5]), ordered=False)  # either value
    Asked(on_directions=array([1.]), on_values=array([0.5, 0.5]))
    """

    on_directions: Floats
    on_values: Floats

    @classmethod
    def of(cls, along: Directions, share: Floats, *, ordered: bool) -> Asked:
        """All ranges of values where there is an order, all single values where there is none."""
        size = len(share)
        if not ordered:
            return cls((along.vectors**2).sum(axis=0), 1.0 - 2.0 * share + (share**2).sum())
        below = np.vstack([np.zeros(along.vectors.shape[1]), along.vectors.cumsum(axis=0)])
        rows, place = np.concatenate([[0.0], share.cumsum()]), np.arange(size)
        inside = (place + 1) * (rows.sum() - rows[:-1].cumsum()) - (size - place) * rows[:-1].cumsum()
        on_values = _of_ranges(rows) + (place + 1) * (size - place) - 2.0 * inside
        return cls(np.array([_of_ranges(each) for each in below.T]), on_values)


def _of_ranges(below: Floats) -> float:
    """The sum over all ranges of the square of what they hold; below: what lies below each of their ends."""
    return float(len(below) * (below**2).sum() - below.sum() ** 2)


def together(left: Floats, single: Floats, *asked: Asked) -> float:
    """By how much errors in what is asked exceed those of single cells together; left: of every direction.

    By no more than if all cells erred alike, which bounds it where all rows lie in one cell and nothing can be asked.
    """
    truly, apart = left, single
    for each in asked:
        truly, apart = each.on_directions @ truly, each.on_values @ apart
    return min(max(1.0, float(truly) / max(float(apart), 1e-300)), float(single.size))
