"""Tables of three attributes and more that views tell: drawn towards what smaller tables say, and made to agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from sfumato.arrays import Floats
from sfumato.inference.margins.joining import join_counts
from sfumato.inference.margins.pairs import with_tails
from sfumato.inference.margins.shrinking import shrink_cells
from sfumato.inference.margins.table import Noisy, Places, Table, pooled, spread_out, subsets, sum_out

ROUNDS = 12  # of making a table agree with smaller ones
LEAST = 1e-9


def larger_tables(noisy: Sequence[tuple[Places, Noisy]], known: Mapping[Places, Table]) -> dict[Places, Table]:
    """All tables of three axes and more inside what was measured. known: tables of one axis and of two."""
    views = {places for places, _ in noisy if len(places) > 2}
    wanted = sorted(
        {part for view in views for part in subsets(view) if len(part) > 2}, key=lambda part: (len(part), part)
    )
    tables = dict(known)
    for places in wanted:
        axes = range(len(places))
        parts: dict[Places, Floats] = {
            tuple(places.index(place) for place in smaller): tables[smaller].estimate
            for smaller in combinations(places, len(places) - 1)
        }
        guess = join_counts([tables[place,].estimate for place in places], parts)
        found = shrink_cells(*pooled(noisy, places), guess)
        agreed = _agreeing(found.estimate, found.noise + found.model, parts, axes)
        tables[places] = with_tails(places, agreed, found)
    return {places: tables[places] for places in wanted}


def _agreeing(table: Floats, unsure: Floats, parts: Mapping[Places, Floats], axes: range) -> Floats:
    """A table changed to have these margins, most where least is known of it, and then, for the rest, in proportion."""
    for _ in range(ROUNDS):
        for places, margin in parts.items():
            lacking = (margin - sum_out(table, places, axes)) / np.maximum(sum_out(unsure, places, axes), LEAST)
            table = np.maximum(table + unsure * spread_out(lacking, places, axes), 0.0)
    table = np.maximum(table, LEAST)
    for _ in range(ROUNDS):
        for places, margin in parts.items():
            now = np.maximum(sum_out(table, places, axes), LEAST)
            table = table * spread_out(margin / now, places, axes)
    return table
