"""Rank pairs of attributes by association: noise-corrected Cramer's V. Post-processing of the release only.

Every pair is laid out in at most GROUPS by GROUPS groups and compared with the table expected under independence (rows
times columns over the total). The strength is Cramer's V, from a chi-square less what the noise of the cells alone adds
to it; that noise is taken from a few cells that the release is asked for. A pair is left out unless its departure is
twice what noise makes of independent attributes.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import inf, isfinite, sqrt
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.answer import of_each
from sfumato.answers.question import Manner
from sfumato.answers.results import Estimate
from sfumato.arrays import Floats
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.public.report.distributions import Cut, Distribution, counts_of, cut, errors_where, takes_long
from sfumato.releases.contents.content import ContentOfCells

if TYPE_CHECKING:
    from sfumato.releases.contents.content import Content
    from sfumato.releases.release import Release

GROUPS, FEWER_GROUPS = 10, 6  # of each attribute, in a picture; fewer where every number takes long
MOST_PAIRS = 300  # that are looked at: all of 25 attributes
MOST_SLOW = 30  # where every look is a question with intervals
PICTURES = 6
SEEN = 2.0  # times what noise makes of attributes that have nothing to do with each other
LEAST = 1.0  # rows that a cell is taken to expect, at least, so that no empty corner decides


@dataclass(frozen=True, eq=False)
class Pair:
    """Two attributes in groups. counts: row by row. strength: noise-corrected Cramer's V, from 0 to 1."""

    rows: Cut
    columns: Cut
    counts: tuple[Estimate, ...]
    strength: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.size, self.columns.size

    @property
    def values(self) -> Floats:
        return np.array([one.value for one in self.counts]).reshape(self.shape)

    @property
    def expected(self) -> Floats:
        """Expected count of each cell under independence."""
        return independent(self.values)

    @property
    def certainty(self) -> Floats:
        """Departure of each cell from independence, in half-widths of its interval; above 1 it exceeds the noise."""
        found = []
        for one, usual in zip(self.counts, self.expected.ravel(), strict=True):
            side = one.value - one.low if one.value > usual else one.high - one.value
            found.append(abs(one.value - usual) / side if side > 0 and isfinite(side) else 0.0)
        return np.array(found).reshape(self.shape)

    @property
    def words(self) -> str:
        """Strength in a word."""
        return next(
            word
            for least, word in ((0.5, "strong"), (0.25, "clear"), (0.1, "weak"), (0.0, "faint"))
            if self.strength >= least
        )


def independent(values: Floats) -> Floats:
    """Table expected under independence: rows times columns over the total, at least zero."""
    kept = np.maximum(values, 0.0)
    total = max(float(kept.sum()), 1.0)
    return np.asarray(np.outer(kept.sum(axis=1), kept.sum(axis=0)) / total)


def strength_of(values: Floats, variance: float) -> float:
    """Noise-corrected Cramer's V; 0 where the departure could be noise.

    >>> round(strength_of(np.array([[50.0, 0.0], [0.0, 50.0]]), 0.0), 2)
    1.0
    >>> strength_of(np.array([[26.0, 24.0], [24.0, 26.0]]), 9.0)
    0.0
    """
    usual = np.maximum(independent(values), max(LEAST, sqrt(variance)))  # what is less than the noise tells little
    total = float(np.maximum(values, 0.0).sum())
    degrees = (values.shape[0] - 1) * (values.shape[1] - 1)
    departure = float((((values - independent(values)) ** 2) / usual).sum())
    noise = variance * float((1.0 / usual).sum()) * degrees / values.size
    if total <= 0 or departure < SEEN * noise:
        return 0.0
    return min(1.0, sqrt(max(0.0, departure - noise) / (total * (min(values.shape) - 1))))


def strongest_pairs(release: Release, known: Mapping[str, Distribution], confidence: float) -> list[Pair]:
    """Pairs to draw, the strongest first, with intervals simultaneous over all cells of a picture."""
    content = release.content
    most = FEWER_GROUPS if takes_long(content) else GROUPS
    cuts = {name: _cut(one, most) for name, one in known.items()}
    cuts = {name: one for name, one in cuts.items() if one.size > 1}
    quick = isinstance(content, ContentOfCells)
    looked = list(combinations(cuts, 2))[: MOST_PAIRS if quick else MOST_SLOW]
    pairs = []
    for strength, first_cut, second_cut in _strongest(content, [(cuts[a], cuts[b]) for a, b in looked]):
        rows, columns = _turned(first_cut, second_cut)
        each = of_each(confidence, rows.size * columns.size)
        pair = Pair(rows, columns, counts_of(content, (rows, columns), each, Manner(one_of_many=True)), strength)
        if (pair.certainty > 1.0).any():
            pairs.append(pair)
    return pairs


def _strongest(content: Content, looked: Sequence[tuple[Cut, Cut]]) -> list[tuple[float, Cut, Cut]]:
    """Strongest of some pairs, by strength. Noise only lessens it, so weaker tables are not asked for their errors."""
    tables = [_table(content, first, second) for first, second in looked]
    most = [0.0 if table is None else strength_of(table[0], 0.0) for table in tables]
    found: list[tuple[float, int]] = []
    for place in sorted(range(len(looked)), key=lambda place: -most[place]):
        table, least = tables[place], -found[PICTURES - 1][0] if len(found) >= PICTURES else 0.0
        if table is None or most[place] == 0.0 or most[place] < least:
            break
        values, variance = table
        error = _variance(content, *looked[place]) if isinstance(content, ContentOfCells) else variance
        if isfinite(error) and (strength := strength_of(values, error)) > 0.0:
            insort(found, (-strength, place))
    return [(-less, *looked[place]) for less, place in found[:PICTURES]]


def _cut(one: Distribution, most: int) -> Cut:
    whole = one.cut.whole
    sizes = np.array([count.value for count in one.counts]) if whole else None
    return cut(one.axis, most, sizes, one.cut.about)


def _turned(one: Cut, other: Cut) -> tuple[Cut, Cut]:
    """Choose rows and columns: an ordered attribute runs to the right, else the one with fewer groups."""
    if one.axis.ordered != other.axis.ordered:
        return (other, one) if one.axis.ordered else (one, other)
    return (other, one) if one.size < other.size else (one, other)


def _table(content: Content, first: Cut, second: Cut) -> tuple[Floats, float] | None:
    """Estimated counts of a pair, and their median variance if that came with them; None where there are none."""
    try:
        if isinstance(content, ContentOfCells):
            values, variance = _laid_out(content, first, second), inf
        else:
            counts = counts_of(content, (first, second), 0.95)
            values = np.array([one.value for one in counts]).reshape(first.size, second.size)
            variance = median(one.stderr**2 for one in counts)
    except SfumatoError:
        return None
    return (values, variance) if np.isfinite(values).all() else None


def _variance(content: ContentOfCells, first: Cut, second: Cut) -> float:
    """Median variance of a few cells of a pair; infinite where it is unknown."""
    few = [(first.size * at // 3, second.size * at // 3) for at in range(3)]
    wheres = [first.where(row) & second.where(column) for row, column in few]
    try:
        return median(error**2 for error in errors_where(content, wheres))
    except SfumatoError:
        return inf


def _laid_out(content: ContentOfCells, first: Cut, second: Cut) -> Floats:
    """Estimates of all groups of two attributes, without errors, which take most of the time."""
    pairs = sorted((first, second), key=lambda one: one.axis.name)
    cells = content.view({one.axis.name: one.as_asked for one in pairs}).cells
    values = np.zeros((first.size, second.size))
    places = tuple(one.kinds[cells.codes[one.axis.name]] for one in (first, second))
    np.add.at(values, places, cells.values["count"])
    return values
