"""Sums of a measure along margins, drawn towards what fewer attributes say of them.

A sum is rows times a mean. Means of one attribute's values scatter around the mean of all rows, and those of two
attributes around what the two say apart: by as much more, or, where no value is negative, by as many times more, as
incomes often do. Which of the two, and how far means scatter around it, the noisy sums tell by their likelihood, all
margins together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.arrays import Floats
from sfumato.inference.margins.joining import join_products, join_sums
from sfumato.inference.margins.spreads import Spreads
from sfumato.inference.margins.table import Noisy, Places, Table, pooled, sum_out

SCATTERS = np.logspace(-5, 1, 25)  # of the largest size of one row's value: what means may scatter by
LITTLE = 1e-9
WIDER = 3.5  # times the variance of what was assumed, as means deviate with longer tails than normal ones


def sums_along(
    noisy: Mapping[Places, Noisy], counts: Mapping[Places, Floats], largest: float, level: float | None = None
) -> tuple[dict[Places, Table], Spreads]:
    """Tables of a measure, in its steps, from noisy sums along one and two axes.

    counts: the rows in the cells of a margin. largest: the most steps that one row adds or takes away. level: how many
    steps above zero the centre lies that values are told from, for a measure that is never negative.
    """
    total, variance = pooled(list(noisy.items()), ())
    tables: dict[Places, Table] = {(): Table((), np.asarray(total), np.asarray(variance), np.zeros(()))}
    tables |= _one_way(noisy, counts, float(total), largest)
    pairs: list[Places] = sorted(places for places in noisy if len(places) == 2)
    alone: dict[Places, dict[Places, Floats]] = {p: {(k,): tables[p[k],].estimate for k in (0, 1)} for p in pairs}
    ways = [{p: join_sums(counts[p], alone[p]) for p in pairs}]
    if level is not None:
        ways.append({p: join_products(counts[p], alone[p], level) for p in pairs})
    scales = (largest * SCATTERS) ** 2
    fits = [_likeliest([(way[p], *noisy[p], counts[p]) for p in pairs], scales) for way in ways]
    (_, spread), apart = max(zip(fits, ways, strict=True), key=lambda one: one[0])
    for places in pairs:
        table = _drawn(places, apart[places], *noisy[places], spread * counts[places])
        margins: dict[Places, Floats] = {(axis,): tables[place,].estimate for axis, place in enumerate(places)}
        off = {axis: margins[axis] - sum_out(table.estimate, axis, (0, 1)) for axis in margins}
        estimate = table.estimate + join_sums(counts[places], off)
        tables[places] = Table(places, estimate, table.noise, table.model)
    return tables, Spreads((0.0, WIDER * spread))


def _one_way(
    noisy: Mapping[Places, Noisy], counts: Mapping[Places, Floats], total: float, largest: float
) -> dict[Places, Table]:
    """Sums by one attribute, around the mean of all rows; they add up to the total."""
    mean = float(np.clip(total / max(float(counts[()]), 1.0), -largest, largest))
    axes: list[Places] = sorted({(place,) for places in noisy for place in places})
    guesses = {places: mean * counts[places] for places in axes}
    known = {places: pooled(list(noisy.items()), places) for places in axes}
    _, scatter = _likeliest([(guesses[p], *known[p], counts[p] ** 2) for p in axes], (largest * SCATTERS) ** 2)
    tables: dict[Places, Table] = {}
    for places in axes:
        table = _drawn(places, guesses[places], *known[places], scatter * counts[places] ** 2)
        # What is left to the total is given to the cells that are least sure.
        unsure = table.noise + table.model + LITTLE
        lacking = total - float(table.estimate.sum())
        tables[places] = Table(places, table.estimate + lacking * unsure / unsure.sum(), table.noise, table.model)
    return tables


def _likeliest(tables: Sequence[tuple[Floats, Floats, float, Floats]], scales: Floats) -> tuple[float, float]:
    """The factor on the last arrays, as variances of what is measured around what is guessed, that is likeliest.

    Beside it, before it, the logarithm of its likelihood.

    tables: guess, what was measured, variance of its noise, what the variance of the truth is proportional to.
    """
    if not tables:
        return 0.0, float(scales[0])

    def log_likelihood(scale: float) -> float:
        spreads = ((noisy - guess, variance + scale * size) for guess, noisy, variance, size in tables)
        return -0.5 * sum(float((np.log(spread) + off**2 / spread).sum()) for off, spread in spreads)

    return max((log_likelihood(scale), float(scale)) for scale in scales)


def _drawn(places: Places, guess: Floats, noisy: Floats, variance: float, prior: Floats) -> Table:
    trust = prior / (prior + variance)
    left = WIDER * (1.0 - trust) ** 2 * prior
    return Table(places, guess + trust * (noisy - guess), trust**2 * variance, left)
