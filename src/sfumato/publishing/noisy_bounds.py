"""Bounds and caps of private columns from noisy counts.

The first measurement counts rows by round figures (1, 2, 5, 10, ...) and both signs, or by five years; one or two
more count in round steps where the ends may be. The last, of what lies inside and outside, says with an interval how
well it went, for the others were used to choose. Every cell is counted once in each, so a person with one row changes
one cell by one.

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

    outside: share of rows that may lie outside of the bounds, half of it at each end. first, check: parts of the
    epsilon for the first measurement, and for the last, of what lies inside. steps: the most round steps in which an
    end is looked for at once. alarms: chance that noise alone makes an end, in the first measurement (which would leave
    the others nothing to see) and later. doubt: standard deviations of noise by which an end errs outward, before the
    last search and in it. farther: steps beyond clear rows that an end may move out, before the last search. count:
    share of rows of the counts that a cap is chosen for. single: whole numbers that get a cell each; more are gathered.
    bins: the most cells of a number.
    """

    outside: Fraction = Fraction(1, 100)
    first: Fraction = Fraction(3, 10)
    check: Fraction = Fraction(1, 10)
    steps: int = 12
    alarms: tuple[float, float] = (0.0005, 0.01)
    doubt: tuple[float, float] = (1.0, 0.7)
    farther: int = 2
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


@dataclass(frozen=True)
class Ends:
    """Candidate ranges of the lower and of the upper bound: (outermost, innermost) below, reversed above."""

    low: tuple[int, int]
    high: tuple[int, int]


def measured(curator: Curator, labels: Sequence[int] | Places, epsilon: Fraction) -> Counts:
    """Noisy rows of groups of cells, each cell in one group; the noise is Laplace of scale 1 / epsilon."""
    groups = curator.reduce(Partition(curator.domain, np.asarray(labels)))
    answers = groups.measure(Identity(groups.domain.size), Budget.pure(epsilon)).answers
    return np.asarray(answers, dtype=np.float64)


def ends_of(counts: Counts, epsilon: Fraction, settings: Settings, search: int) -> Ends | None:
    """Groups in which the first and the last rows may lie; few rows lie outside of the outermost, despite the noise.

    search: 0 for the first measurement, 1 for the next, 2 for the last one. None where noise may be all that there is.
    """
    target = max(float(settings.outside) / 2 * float(counts.sum()), 0.0)
    alarms, doubt = settings.alarms[search > 0], settings.doubt[search > 1]
    farther = len(counts) if search > 1 else settings.farther
    low, high = (_end(side, target, float(epsilon), alarms, doubt, farther) for side in (counts, counts[::-1]))
    last = len(counts) - 1
    if low is None or high is None or low[0] > last - high[0]:
        return None
    return Ends(low, (last - high[1], last - high[0]))


def _end(
    counts: Counts, target: float, epsilon: float, alarms: float, doubt: float, farther: int
) -> tuple[int, int] | None:
    """Outermost and innermost group in which values may end, of groups numbered from the outside in.

    Noise on a sum over k groups has a standard deviation of sqrt(2 k) / epsilon. Innermost: the last group with at most
    `target` noisy rows outside of it. Outermost: the last with at most `target` even with `doubt` deviations added. If
    no clear rows lie outside of that, it is instead the first clear group, moved out by up to `farther` while the next
    groups out, as many as keep their noise below half of the target, may hold more. Innermost is never farther out.
    """
    clear = _first_clear(counts, epsilon, alarms)
    if clear is None:
        return None
    beyond = np.concatenate([[0.0], np.cumsum(counts)])
    noise = np.sqrt(2 * np.arange(len(beyond))) / epsilon
    inner, outer = (int(np.flatnonzero(beyond[:-1] + times * noise[:-1] <= target)[-1:].sum()) for times in (0, doubt))
    if outer <= clear:
        outer, wide = clear, max(1, int((target * epsilon) ** 2 / 8))
        for _ in range(min(farther, clear)):
            many = min(wide, outer)
            if beyond[outer] - beyond[outer - many] + doubt * noise[many] <= target:
                break
            outer -= 1
    return outer, max(inner, clear, outer)


def _first_clear(counts: Counts, epsilon: float, alarms: float) -> int | None:
    """First group whose rows, alone or with 1 or 3 groups before it, exceed noise at this significance level."""
    windows, sums = (1, 2, 4), np.concatenate([np.zeros(4), np.cumsum(counts)])
    hits = np.zeros(len(counts), dtype=bool)
    for many in windows:
        most = _unlikely(many, alarms / len(counts) / len(windows)) / epsilon
        hits |= sums[4:] - sums[4 - many : len(sums) - many] > most
    return int(np.argmax(hits)) if hits.any() else None


def _unlikely(many: int, alarms: float) -> float:
    """Number that the sum of so many standard Laplace noises exceeds with at most this chance (Chernoff)."""
    deep, at = log(1 / alarms), np.linspace(0.05, 0.95, 19)
    return deep if many == 1 else float(np.min((deep - many * np.log1p(-(at**2))) / at))


def narrowed(
    count: Callable[[list[int], float, Fraction], Counts],
    spans: Ends,
    steps: Sequence[int],
    epsilon: Fraction,
    settings: Settings,
) -> tuple[int, int] | None:
    """Bounds inside two spans, as multiples of round steps: by two measurements, or by one where it is fine enough.

    count: takes marks, a middle and an epsilon; returns noisy rows before, between and after the marks, of which those
    above the middle belong to the group below them.
    """
    floor, ceiling = spans.low[0], spans.high[1]
    for search in (1, 2):
        low, high = spans.low, spans.high
        step, above = (next(one for one in steps if end - start <= one * settings.steps) for start, end in (low, high))
        enough = low[1] < high[0] and 10 * max(step, above) <= high[1] - low[0]
        share = epsilon / 2 if search == 1 and not enough else epsilon
        marks = sorted({max(floor, min(m, ceiling)) for m in (*_multiples(low, step), *_multiples(high, above))})
        found = ends_of(count(marks, (low[1] + high[0]) / 2, share), share, settings, 2 if share == epsilon else 1)
        if found is None:
            return None
        edges = [floor, *marks, ceiling]
        spans = Ends((edges[found.low[0]], edges[found.low[1] + 1]), (edges[found.high[0]], edges[found.high[1] + 1]))
        if share == epsilon:
            break
        epsilon -= share
    start, end = spans.low[0], spans.high[1]
    if start < end:
        return start, end
    return (start, start + step) if start < ceiling else (end - above, end)


def _multiples(span: tuple[int, int], step: int) -> range:
    """Multiples of a step around a span."""
    return range(span[0] // step * step, -(-span[1] // step) * step + 1, step)


def share_inside(inside: float, outside: float, epsilon: Fraction) -> Share:
    """Share inside / (inside + outside) of noisy counts, with a 95 % interval: 97.5 % for each (Bonferroni)."""
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
LARGEST = 16  # powers of ten beyond which whole numbers are not exact in a float
TOP = Fraction(8 * 10 ** (LARGEST - 1))  # all are clipped there; a cell beyond is still exact
SMALLEST = -6
FINE = 4  # powers of ten between the largest value and the cells that are counted inside
MOST_SPAN = 9 * 10**14  # of so fine cells; over more, their edges are too many and not evenly spaced in floats
_ROUND = [1, 2, 5, *(figure * 10**power for power in range(2 * LARGEST) for figure in (10, 20, 25, 50))]


def trial(kind: str) -> dict[str, Any]:
    """Keys of an attribute, or of a measure, that stand in for blanks: public and the widest there are."""
    if kind == "category":
        return {"values": ["\N{SYMBOL FOR NULL}"], "other": True}
    if kind == "date":
        return {"lower": FIRST_DAY, "upper": LAST_DAY}
    if kind == "measure":
        return {"lower": -1, "upper": 1}
    return figures(kind)[0]


def figures(kind: str) -> tuple[dict[str, Any], list[Fraction]]:
    """Attribute of cells by round figures (1, 2, 5, 10, ...) of both signs, and these figures.

    On the positive side a figure belongs to the cell below it, on the negative side to the one above: 100 to [50, 100].
    """
    whole, top = kind == "integer", TOP
    tens = [Fraction(10) ** power for power in range(0 if whole else SMALLEST, LARGEST)]
    sizes = [figure * ten for ten in tens for figure in (1, 2, 5) if figure * ten < top]
    past = [size + (1 if whole else size / 10**FINE) for size in sizes]  # the next number that counts as beyond a size
    below = [-top, *(-size for size in reversed(sizes)), Fraction(0)]
    return {"type": kind, "lower": -int(top), "upper": int(top), "cuts": below[1:] + past}, [*below, *sizes, top]


def bounds_of_numbers(kind: str, look: Look, epsilon: Fraction, settings: Settings) -> Bounds | None:
    """Bounds of a column of numbers; None where too few rows have a readable value, or one but 0, for this epsilon."""
    whole, first, check = kind == "integer", epsilon * settings.first, epsilon * settings.check
    attribute, edges = figures(kind)
    found = ends_of(measured(look(attribute, first), range(len(edges) - 1), first), first, settings, 0)
    if found is None:
        return None
    low, high = _from_zero(edges[found.low[0]], edges[found.high[1] + 1])
    if not whole and max(-low, high) <= Fraction(10) ** SMALLEST:  # all but a few are 0, and bounds would clip the few
        return None
    fine = Fraction(10) ** (ceil(log10(max(abs(low), abs(high)))) - FINE)
    fine = max(fine, Fraction(1)) if whole else fine
    fine *= 10 if high - low > MOST_SPAN else 1
    start, end = low // fine, -(-high // fine)  # of the cells: one below, one for the upper end itself, one above
    inner = {"type": kind, "lower": (start - 1) * fine, "upper": (end + 2) * fine - whole, "width": fine}
    curator = look(inner, epsilon - first)

    def count(marks: list[int], middle: float, share: Fraction) -> Counts:
        return measured(
            curator, _labels([mark + (mark > middle) - start + 1 for mark in marks], end - start + 3), share
        )

    spans = Ends((start, -(-edges[found.low[1] + 1] // fine)), (edges[found.high[0]] // fine, end))
    bounds = narrowed(count, spans, _ROUND, epsilon - first - check, settings)
    if bounds is None:
        return None
    lower, upper = _from_zero(*bounds)
    inside = _inside(curator, lower - start + 1, upper - start + 2, check)
    if inside.high < MOST_ARE_INSIDE:
        return None
    width = next(step for step in _ROUND if upper - lower <= step * settings.bins)
    return Bounds(_number(lower * fine), _number(upper * fine), inside, ceil((upper - lower) / width))


def _from_zero(low: Any, high: Any) -> tuple[Any, Any]:
    """Round the smaller bound to 0 where it is at most a tenth of the other."""
    return (0 if 0 < low <= high / 10 else low), (0 if low / 10 <= high < 0 else high)


def _labels(cuts: Sequence[int], cells: int) -> Places:
    """Group of each of the cells: 0 before the first cut."""
    return np.searchsorted(np.asarray(cuts), np.arange(cells), side="right")


def _inside(curator: Curator, start: int, end: int, epsilon: Fraction) -> Share:
    places = np.arange(curator.domain.size)
    outside, inside = measured(curator, ((places >= start) & (places < end)).astype(np.int64), epsilon)
    return share_inside(inside, outside, epsilon)


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


# -- dates

FIRST_DAY, LAST_DAY = date(1800, 1, 1), date(2199, 12, 31)
_MONTHS = (1, 3, 12, 60, 300)  # a month, a quarter, a year, five years, 25


def bounds_of_dates(look: Look, epsilon: Fraction, settings: Settings) -> Bounds | None:
    """First and last day of whole years, quarters or months; None where readable dates are too few."""
    day, first, check = timedelta(days=1), epsilon * settings.first, epsilon * settings.check
    curator = look({"type": "date", "lower": FIRST_DAY - day, "upper": LAST_DAY + day, "by": "day"}, epsilon)
    cells, origin = curator.domain.size, FIRST_DAY - day

    def count(marks: list[int], _: float, share: Fraction) -> Counts:
        return measured(curator, _labels([(_month(mark) - origin).days for mark in marks], cells), share)

    marks = list(range(0, 12 * (LAST_DAY.year + 1 - FIRST_DAY.year) + 1, _MONTHS[3]))
    found = ends_of(count(marks, 0, first), first, settings, 0)
    if found is None:
        return None
    edges = [marks[0], *marks, marks[-1]]
    spans = Ends((edges[found.low[0]], edges[found.low[1] + 1]), (edges[found.high[0]], edges[found.high[1] + 1]))
    bounds = narrowed(count, spans, _MONTHS, epsilon - first - check, settings)
    if bounds is None:
        return None
    lower, upper = _month(bounds[0]), _month(bounds[1]) - day
    inside = _inside(curator, (lower - origin).days, (upper - origin).days + 1, check)
    return Bounds(lower, upper, inside, bounds[1] - bounds[0]) if inside.high >= MOST_ARE_INSIDE else None


def _month(months: int) -> date:
    """The first day of a month, counted from the first of all."""
    return date(FIRST_DAY.year + months // 12, months % 12 + 1, 1)


# -- rows of each person

CAPS = [1, *(number for power in range(1, 20) for number in (2**power, 3 * 2 ** (power - 1)))]


@dataclass(frozen=True)
class Cap:
    """Rows of each person that are used. above: people who have more.

    dropped: share of rows that are left out if nobody has more than `most` rows. Nobody can do without such an `if`:
    one person may have any number of rows, and one person is what noise hides.
    """

    rows: int
    above: Share
    dropped: Share
    most: int


def rows_of_people() -> dict[str, Any]:
    """Attribute of the rows of a person: 1, 2, 3, 4, 5 to 6, 7 to 8, 9 to 12, ..."""
    return {"type": "integer", "lower": 1, "upper": CAPS[-1] + 1, "cuts": [cap + 1 for cap in CAPS]}


def best_cap(curator: Curator, epsilon: Fraction, spent: Fraction, settings: Settings) -> Cap | None:
    """The cap with the least error of a count, of rows that it drops and of noise that grows with it.

    spent: epsilon of the release that it is for. The error is that of a count of `settings.count` of all rows: its
    share of what is dropped, and the standard deviation of its noise.
    """
    check = epsilon * settings.check
    look, cells = epsilon - check, curator.domain.size
    counts = measured(curator, range(cells), look)
    clear = _first_clear(counts[::-1], float(look), settings.alarms[0])
    if clear is None:
        return None
    last = min(
        cells - 1 - clear + 2, cells - 1
    )  # nobody is taken to have more than twice the rows of any that are clear
    seen = np.arange(cells) <= last
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
    return Cap(cap, share_inside(many, few, check), share, int(ends[last]))
