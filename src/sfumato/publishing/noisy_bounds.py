"""Bounds of a column and rows of each person, from noisy counts alone: by powers first, then finer inside.

A column's range is found in three measurements. The first counts rows by powers of a hundred and both signs, or by 25
years; the others count in round steps inside the part that holds rows. A fourth, of what lies inside and outside, says
with an interval how well it went, for the other three were used to choose. Every cell is counted once in each, so a
person with one row changes one cell by one.

Everything here reads measurements that are paid for; what it says depends on them and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from fractions import Fraction
from math import ceil, log, log10, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Partition
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.queries import Identity

Counts = NDArray[np.float64]
Places = NDArray[np.int64]
Look = Callable[[dict[str, Any], Fraction], Curator]  # a look at the column as such an attribute, for this epsilon


@dataclass(frozen=True)
class Settings:
    """Choices of the search, all public.

    outside: share of rows that may lie outside of the bounds, half of it at each end. looks: parts of the epsilon for
    the three measurements and for the last, of what lies inside. steps: the most round steps of a measurement. alarms:
    chance that noise alone makes an end of the first measurement, which would leave the others nothing to see.
    caution: of each measurement, beside that. count: share of rows of the counts that a cap is chosen for. single:
    whole numbers that get a cell each; more are gathered. bins: the most cells of a number.
    """

    outside: Fraction = Fraction(1, 100)
    looks: tuple[int, ...] = (3, 3, 3, 1)
    steps: int = 40
    alarms: float = 0.0005
    caution: tuple[float, ...] = (1.0, 0.5, 0.3)
    count: float = 0.1
    single: int = 200
    bins: int = 25


@dataclass(frozen=True)
class Share:
    """Estimated share with an interval that holds in 95 of 100 cases."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.estimate:.1f} % (95 %: {100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True)
class Bounds:
    """Bounds of a column. inside: rows with a value that lie between them. cells: of a round width, or months."""

    lower: Any
    upper: Any
    inside: Share
    cells: int


def measured(curator: Curator, labels: Sequence[int] | Places, epsilon: Fraction) -> Counts:
    """Noisy rows of groups of cells, each cell in one group; the noise is Laplace of scale 1 / epsilon."""
    groups = curator.reduce(Partition(curator.domain, np.asarray(labels)))
    answers = groups.measure(Identity(groups.domain.size), Budget.pure(epsilon)).answers
    return np.asarray(answers, dtype=np.float64)


def ends_of(counts: Counts, epsilon: Fraction, settings: Settings, caution: float) -> tuple[int, int] | None:
    """First and last group that hold rows: outside of them lie a few, and what noise alone may look like.

    None where noise alone may be all that there is.
    """
    total, scale = counts.sum(), 1 / float(epsilon)
    target = max(float(settings.outside) / 2 * total, 0.0)
    if total < _unlikely(len(counts), scale, settings.alarms):
        return None
    first, last = (_begin(side, target, scale, settings.alarms, caution) for side in (counts, counts[::-1]))
    if first is None or last is None or first > len(counts) - 1 - last:
        return None
    return first, len(counts) - 1 - last


def _unlikely(cells: int, scale: float, alarms: float) -> float:
    """Rows that the sum of so many noises exceeds with at most this chance (Bernstein, of Laplace noise)."""
    deep = log(1 / alarms)
    return scale * (2 * sqrt(cells * deep) + deep if cells > 1 else deep)


def _begin(counts: Counts, target: float, scale: float, alarms: float, caution: float) -> int | None:
    single = target + caution * scale * log(len(counts) / alarms)
    total = 0.0
    for place, count in enumerate(counts):
        total += float(count)
        if count > single or total > target + caution * _unlikely(place + 1, scale, alarms / 2):
            return place
    return None


def share_inside(inside: float, outside: float, epsilon: Fraction) -> Share:
    """Share of two noisy counts, with an interval of 95 %: each within its quantile, at 97.5 % each."""
    quantile = log(1 / 0.025) / float(epsilon)

    def ratio(part: float, rest: float) -> float:
        part, rest = max(part, 0.0), max(rest, 0.0)
        return part / (part + rest) if part + rest > 0 else 1.0

    return Share(
        ratio(inside, outside),
        ratio(inside - quantile, outside + quantile),
        ratio(inside + quantile, outside - quantile),
    )


# -- numbers

MOST_ARE_INSIDE = 0.5  # or noise has led astray, and nothing is said
LARGEST = 16  # powers of ten beyond which whole numbers are not exact in a float, so all are clipped there
SMALLEST = -6
FINE = 4  # powers of ten between the largest value and the cells that are counted inside


def trial(kind: str) -> dict[str, Any]:
    """Keys of an attribute, or of a measure, that stand in for blanks: public and the widest there are."""
    if kind == "category":
        return {"values": ["\N{SYMBOL FOR NULL}"], "other": True}
    if kind == "date":
        return {"lower": FIRST_DAY, "upper": LAST_DAY}
    if kind == "measure":
        return {"lower": -1, "upper": 1}
    return powers(kind)


def powers(kind: str) -> dict[str, Any]:
    """Attribute of cells by powers of a hundred and both signs.

    On the positive side a power belongs to the cell below it, on the negative side to the one above: 100 to [0, 100].
    """
    whole, top = kind == "integer", 9 * 10 ** (LARGEST - 1)
    sizes = [Fraction(10) ** power for power in range(0 if whole else SMALLEST, LARGEST, 2)]
    sizes = [size for size in sizes if size > 1] if whole else sizes
    cuts = [-size for size in reversed(sizes)] + [Fraction(0)] + [_past(size, whole) for size in sizes]
    return {"type": kind, "lower": -top, "upper": top, "cuts": cuts}


def _past(size: Fraction, whole: bool) -> Fraction:
    """The next number that counts as beyond a size."""
    return size + (1 if whole else size / 10**FINE)


def bounds_of_numbers(kind: str, look: Look, epsilon: Fraction, settings: Settings) -> Bounds | None:
    """Bounds of a column of numbers; None where rows with a readable value are too few for this epsilon."""
    whole = kind == "integer"
    parts = [epsilon * part / sum(settings.looks) for part in settings.looks]
    first = powers(kind)
    edges = [Fraction(first["lower"]), *first["cuts"], Fraction(first["upper"])]
    curator = look(first, parts[0])
    found = ends_of(measured(curator, range(len(edges) - 1), parts[0]), parts[0], settings, settings.caution[0])
    if found is None:
        return None
    low, high = _plain_edge(edges[found[0]], whole), _plain_edge(edges[found[1] + 1], whole)
    fine = Fraction(10) ** (ceil(log10(max(abs(low), abs(high)))) - FINE)
    fine = max(fine, Fraction(1)) if whole else fine
    low, high = low // fine * fine, -(-high // fine) * fine
    cells = int((high - low) / fine) + 3  # one below, one for the upper end itself, one above
    inner: dict[str, Any] = {"type": kind, "lower": low - fine, "upper": high + 2 * fine - whole, "width": fine}
    curator = look(inner, sum(parts[1:], Fraction(0)))
    for place, (part, caution) in enumerate(zip(parts[1:3], settings.caution[1:], strict=True)):
        step = next(step for step in _round_steps(fine) if (high - low) / step <= settings.steps)
        cut = _cuts(low, high, step, inner["lower"], fine)
        found = ends_of(measured(curator, _labels(cut, cells), part), part, settings, caution)
        if found is None:
            return None
        lowest = low // step * step
        more = place == 0  # the next may find an end one step farther out
        low, high = max(low, lowest + (found[0] - 1 - more) * step), min(high, lowest + (found[1] + more) * step)
        if low >= high:
            low, high = (low, low + step) if found[0] > 0 else (high - step, high)
    if 0 < low <= high / 10:
        low = Fraction(0)
    elif low / 10 <= high < 0:
        high = Fraction(0)
    inside = _inside(curator, (low - inner["lower"]) / fine, (high - inner["lower"]) / fine + 1, cells, parts[3])
    if inside.high < MOST_ARE_INSIDE:
        return None
    width = next(step for step in _round_steps(fine) if (high - low) / step <= settings.bins)
    return Bounds(_number(low, whole), _number(high, whole), inside, ceil((high - low) / width))


def _plain_edge(edge: Fraction, whole: bool) -> Fraction:
    """The round number that a cut stands for."""
    if edge <= 0 or edge >= 9 * 10 ** (LARGEST - 1):
        return edge
    return edge - 1 if whole else edge * 10**FINE / (10**FINE + 1)


def _round_steps(fine: Fraction) -> list[Fraction]:
    """1, 2, 5, 10, 20, 25, 50, ... times the finest."""
    tens = [fine * figure * 10**power for power in range(2 * LARGEST) for figure in (10, 20, 25, 50)]
    return [fine, 2 * fine, 5 * fine, *tens]


def _cuts(low: Fraction, high: Fraction, step: Fraction, start: Fraction, fine: Fraction) -> list[int]:
    """Numbers of the fine cells at which groups begin: multiples of a step from low to high.

    In the upper half a multiple belongs to the group below it, so that values at a round upper end lie inside.
    """
    marks = [low // step * step + place * step for place in range(int(-((low - high) // step)) + 2)]
    marks = [mark for mark in marks if mark < high + step]
    middle = (low + high) / 2
    return [max(0, int((mark - start) / fine) + (mark > middle)) for mark in marks]


def _labels(cuts: Sequence[int], cells: int) -> Places:
    """Group of each of the cells: 0 before the first cut."""
    return np.searchsorted(np.asarray(cuts), np.arange(cells), side="right")


def _inside(curator: Curator, start: Fraction | int, end: Fraction | int, cells: int, epsilon: Fraction) -> Share:
    places = np.arange(cells)
    outside, inside = measured(curator, ((places >= int(start)) & (places < int(end))).astype(np.int64), epsilon)
    return share_inside(inside, outside, epsilon)


def _number(value: Fraction, whole: bool) -> int | float:
    return int(value) if whole or value.denominator == 1 else float(value)


# -- dates

FIRST_DAY, LAST_DAY = date(1800, 1, 1), date(2199, 12, 31)
_MONTHS = (300, 60, 12, 3, 1)  # 25 years, five, a year, a quarter, a month


def bounds_of_dates(look: Look, epsilon: Fraction, settings: Settings) -> Bounds | None:
    """First and last day of whole years, quarters or months; None where readable dates are too few."""
    parts = [epsilon * part / sum(settings.looks) for part in settings.looks]
    day = timedelta(days=1)
    curator = look({"type": "date", "lower": FIRST_DAY - day, "upper": LAST_DAY + day, "by": "day"}, epsilon)
    cells, origin = curator.domain.size, FIRST_DAY - day
    low, high = 0, 12 * (LAST_DAY.year + 1 - FIRST_DAY.year)  # in months
    for part, caution in zip(parts[:3], settings.caution, strict=True):
        step = next(step for step in reversed(_MONTHS) if (high - low) / step <= settings.steps)
        marks = list(range(low, high + step, step))
        cuts = [(_month(mark) - origin).days for mark in marks]
        found = ends_of(measured(curator, _labels(cuts, cells), part), part, settings, caution)
        if found is None:
            return None
        low, high = max(low, marks[0] + (found[0] - 1) * step), min(high, marks[0] + found[1] * step)
        if low >= high:
            low, high = (low, low + step) if found[0] > 0 else (high - step, high)
    first, last = _month(low), _month(high) - day
    inside = _inside(curator, (first - origin).days, (last - origin).days + 1, cells, parts[3])
    if inside.high < MOST_ARE_INSIDE:
        return None
    return Bounds(first, last, inside, high - low)


def _month(months: int) -> date:
    """The first day of a month, counted from the first of all."""
    return date(FIRST_DAY.year + months // 12, months % 12 + 1, 1)


# -- rows of each person

CAPS = [1, *(number for power in range(1, 20) for number in (2**power, 3 * 2 ** (power - 1)))]


@dataclass(frozen=True)
class Cap:
    """Rows of each person that are used. above: people who have more. dropped: share of rows that are left out."""

    rows: int
    above: Share
    dropped: Share


def rows_of_people() -> dict[str, Any]:
    """Attribute of the rows of a person: 1, 2, 3, 4, 5 to 6, 7 to 8, 9 to 12, ..."""
    return {"type": "integer", "lower": 1, "upper": CAPS[-1] + 1, "cuts": [cap + 1 for cap in CAPS]}


def best_cap(curator: Curator, epsilon: Fraction, spent: Fraction, settings: Settings) -> Cap | None:
    """The cap with the least error of a count, of rows that it drops and of noise that grows with it.

    spent: epsilon of the release that it is for. The error is that of a count of `settings.count` of all rows: its
    share of what is dropped, and the standard deviation of its noise.
    """
    check = epsilon * settings.looks[3] / sum(settings.looks)
    look = epsilon - check
    cells = curator.domain.size
    counts = measured(curator, range(cells), look)
    clear = np.flatnonzero(counts > log(cells / settings.alarms) / float(look))
    if not len(clear):
        return None
    seen = np.arange(cells) <= clear[-1] + 2  # nobody is taken to have more than twice as many rows as any that are
    people = np.where(seen, np.maximum(counts, 0.0), 0.0)
    ends = np.array([*CAPS, 2 * CAPS[-1]], dtype=np.float64)
    starts = np.array([1, *(cap + 1 for cap in CAPS)], dtype=np.float64)
    middle = (starts + ends) / 2
    lost = [float((people * np.maximum(middle - cap, 0.0)).sum()) for cap in CAPS]
    errors = [settings.count * rows + sqrt(2) * cap / float(spent) for rows, cap in zip(lost, CAPS, strict=True)]
    cap = CAPS[int(np.argmin(errors))]
    few, many = measured(curator, [int(place > CAPS.index(cap)) for place in range(cells)], check)
    quantile = log(cells / 0.05) / float(look)
    fewest, most = (np.where(seen, np.maximum(counts + sign * quantile, 0.0), 0.0) for sign in (-1, 1))

    def left_out(of_cut: Counts, rows: Counts, of_kept: Counts, others: Counts) -> float:
        cut, kept = (of_cut * np.maximum(rows - cap, 0.0)).sum(), (of_kept * np.minimum(others, cap)).sum()
        return float(cut / (cut + kept)) if cut + kept > 0 else 0.0

    least, likely = left_out(fewest, starts, most, ends), left_out(people, middle, people, middle)
    share = Share(likely, least, left_out(most, ends, fewest, starts))
    return Cap(cap, share_inside(many, few, check), share)
