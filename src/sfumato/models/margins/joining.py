"""Tables joined along the attributes of a question, from what is known of fewer attributes at a time.

Counts: the table of largest entropy that has the known tables as its margins, by iterative proportional fitting
(Deming, Stephan 1940). No model of all attributes is ever made: what a question does not mention has no part in it.

Sums of a measure: values are taken to be, in each cell, a sum of what every known table says about its own cells, found
in the same way but with differences in the place of ratios, since sums of a measure may have either sign. Where none is
negative, ratios are another guess (`join_products`).

Unbiased tables: the parts of the known tables that their own margins leave open are independent, and add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.arrays import Floats
from sfumato.models.margins.table import Places, spread_out, subsets, sum_out

ROUNDS = 200
CLOSE = 1e-6  # of the rows, over all cells of a margin: nearer than this nobody could tell
TILTS = 8  # rounds in which a table is also brought to contrasts, which margins may rule out
MOST_TILT = 0.5  # by which a half is changed in one round
NONE: Mapping[Places, tuple[Sequence[Floats], float]] = {}
LITTLE = 1e-12  # rows in a cell of a margin, below which nothing can be scaled up


def join_counts(
    one_way: Sequence[Floats],
    known: Mapping[Places, Floats],
    close: float = CLOSE,
    contrasts: Mapping[Places, tuple[Sequence[Floats], float]] = NONE,
) -> Floats:
    """The table of largest entropy. one_way: margins of its axes, with one sum. known: tables along several of them.

    contrasts: of halves of several axes: signs of the values of each, and the sum of rows with these signs.
    """
    among = range(len(one_way))
    total = max(float(one_way[0].sum()), LITTLE) if one_way else 0.0
    joint = np.ones([len(margin) for margin in one_way])
    for place, margin in enumerate(one_way):
        joint = joint * spread_out(margin / (total if place else 1.0), (place,), among)
    largest = [places for places in known if not any(set(places) < set(other) for other in known)]
    if len(largest) == 1 and len(largest[0]) == len(one_way):
        return known[largest[0]]
    for number in range(ROUNDS if len(largest) > 1 else 1):
        off = 0.0
        if number < TILTS:
            for places, (signs, wanted) in contrasts.items():
                joint = joint * _tilt(sum_out(joint, places, among), places, signs, wanted, among)
        for places in largest:
            now = sum_out(joint, places, among)
            off = max(off, float(np.abs(now - known[places]).sum()))
            factor = np.where(now > LITTLE, known[places] / np.maximum(now, LITTLE), 0.0)
            joint *= spread_out(factor, places, among)
        if off <= close * total and (not contrasts or number >= TILTS - 1):
            break
    return joint


def _tilt(table: Floats, places: Places, signs: Sequence[Floats], wanted: float, among: Sequence[int]) -> Floats:
    """Factors on the halves of some axes that bring a table nearer to a contrast of these."""
    now, sign = table, np.ones([1] * len(among))
    for place, each in zip(reversed(places), reversed(signs), strict=True):
        now, sign = now @ each, sign * spread_out(each, (place,), among)
    total = float(table.sum())
    one, other = (max(total + way * wanted, 0.0) / max(total + way * float(now), LITTLE) for way in (1.0, -1.0))
    return np.clip(np.where(sign > 0, one, other), 1.0 - MOST_TILT, 1.0 + MOST_TILT)


def join_sums(counts: Floats, known: Mapping[Places, Floats]) -> Floats:
    """Sums of a measure in the cells of a table of counts, which have the known sums as margins."""
    among = range(counts.ndim)
    largest = [places for places in known if not any(set(places) < set(other) for other in known)]
    rows = {places: np.maximum(sum_out(counts, places, among), LITTLE) for places in largest}
    joint: Floats = np.zeros(counts.shape)
    scale = CLOSE * max((float(np.abs(known[places]).sum()) for places in largest), default=0.0)
    for _ in range(ROUNDS if len(largest) > 1 else 1):
        off = 0.0
        for places in largest:
            lacking = known[places] - sum_out(joint, places, among)
            off = max(off, float(np.abs(lacking).sum()))
            joint = joint + counts * spread_out(lacking / rows[places], places, among)
        if off <= scale:
            break
    return joint


def join_products(counts: Floats, alone: Mapping[Places, Floats], level: float) -> Floats:
    """The same where a cell's mean is a product of what its values say, one axis at a time.

    Sums are told from a centre that lies `level` above zero; products are of what lies above zero.
    """
    among = range(counts.ndim)
    above = {p: np.maximum(known + level * sum_out(counts, p, among), 0.0) for p, known in alone.items()}
    joint = np.maximum(counts, 0.0)
    close = CLOSE * max((float(each.sum()) for each in above.values()), default=0.0)
    for _ in range(ROUNDS):
        off = 0.0
        for places, wanted in above.items():
            now = sum_out(joint, places, among)
            off = max(off, float(np.abs(now - wanted).sum()))
            factor = np.where(now > LITTLE, wanted / np.maximum(now, LITTLE), 0.0)
            joint = joint * spread_out(factor, places, among)
        if off <= close:
            break
    return joint - level * counts


def join_unbiased(bases: Sequence[Floats], known: Mapping[Places, Floats]) -> Floats:
    """The sum of the parts of all known tables, each spread evenly over the axes that it does not have.

    bases: for each axis, which share of its values is of each kind.
    """
    among = range(len(bases))
    joint: Floats = np.zeros([len(base) for base in bases])
    for places in subsets(tuple(among)):
        if places not in known:
            continue
        part = known[places]
        for axis, place in enumerate(places):
            part = part - spread_out(bases[place], (place,), places) * part.sum(axis=axis, keepdims=True)
        spread = spread_out(part, places, among)
        for place in among:
            if place not in places:
                spread = spread * spread_out(bases[place], (place,), among)
        joint = joint + spread
    return joint
