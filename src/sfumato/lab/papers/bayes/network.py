"""A network of attributes, each given some earlier ones: the rows that it stands for, and their tables.

Tables of the network itself may need a sum over all attributes at once. Its rows need one attribute after the other, so
tables are counted from rows, as even as their number allows, that are drawn once with numbers everybody can draw again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.models.margins.joining import join_counts
from sfumato.models.margins.one_way import Random, Step, onto_total
from sfumato.models.margins.table import Noisy, Places, Table, spread_out, sum_out

ROUNDS = 50  # of fitting a table to its margins
LITTLE = 1e-9


@dataclass(frozen=True)
class Family:
    """One attribute, and the earlier ones that it is drawn by."""

    place: int
    parents: Places = ()

    @property
    def places(self) -> Places:
        return tuple(sorted((self.place, *self.parents)))


def smoothed(noisy: Floats, one_way: Sequence[Floats]) -> Floats:
    """A table near what was measured that is not negative and has these margins. one_way: of its axes."""
    total = float(one_way[0].sum())
    table = onto_total(noisy.reshape(-1), total).reshape(noisy.shape) if total > 0 else np.zeros(noisy.shape)
    return raked(table + LITTLE * total / max(1, table.size), one_way)


def raked(table: Floats, one_way: Sequence[Floats]) -> Floats:
    """A table brought to its one-way margins, in proportion."""
    axes = tuple(range(table.ndim))
    for _ in range(ROUNDS if len(one_way) > 1 else 1):
        for axis, margin in enumerate(one_way):
            now = np.maximum(sum_out(table, (axis,), axes), LITTLE)
            table = table * spread_out(margin / now, (axis,), axes)
    return table


def rows_of(families: Sequence[Family], tables: Mapping[Places, Floats], rows: int, random: Random) -> Codes:
    """Codes by attribute and row of the attributes that have a family. tables: of each family, along its places."""
    drawn: Codes = np.zeros((1 + max(family.place for family in families), rows), dtype=np.int64)
    for family in families:
        order = [family.places.index(place) for place in (*family.parents, family.place)]
        step = Step.by(family.place, family.parents, np.transpose(tables[family.places], order) + LITTLE)
        drawn[family.place] = step.draw_evenly(drawn, random)
    return drawn


def counted(rows: Codes, places: Places, sizes: Sequence[int], total: float) -> Floats:
    """The table of some attributes, with this sum in place of the number of rows."""
    shape = tuple(sizes[place] for place in places)
    if not places:
        return np.asarray(total)
    cells = np.ravel_multi_index(tuple(rows[list(places)]), shape)
    found = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
    return np.asarray(found * (total / max(1, rows.shape[1])), dtype=np.float64)


def larger_tables(noisy: Sequence[tuple[Places, Noisy]], tables: Mapping[Places, Table]) -> dict[Places, Table]:
    """Tables of three attributes and more that were measured, fitted to those of one and of two attributes."""
    found: dict[Places, Table] = {}
    for places, (answers, variance) in noisy:
        if len(places) < 3:
            continue
        axes = range(len(places))
        one_way = [tables[place,].estimate for place in places]
        pairs: dict[Places, Floats] = {
            (a, b): tables[places[a], places[b]].estimate for a in axes for b in axes if a < b
        }
        near = smoothed(answers, one_way)
        for _ in range(ROUNDS):
            for pair, wanted in pairs.items():
                now = np.maximum(sum_out(near, pair, axes), LITTLE)
                near = near * spread_out(wanted / now, pair, axes)
        guess = join_counts(one_way, pairs, 1e-3)
        found[places] = Table(places, near, np.minimum(variance, np.maximum(near, guess) + 1.0), np.zeros(near.shape))
    return found
