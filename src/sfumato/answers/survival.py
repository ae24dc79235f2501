"""Kaplan-Meier curves from a release: the share that is still without an event at each time, with intervals.

With d_u events at time u and n_u rows at risk, those whose time is u or later, the curve is

    S(u) = product over v <= u of (1 - d_v / n_v)

(Kaplan, Meier 1958). Both are sums of noisy counts, unbiased and with known noise and correlations, so the interval of
S(u) is that of function_interval.py, cut to what is possible: between 0 and 1, and no higher than an upper end before.
It exists up to the last time at which rows are surely at risk. Intervals are of each time by itself.

The truth is the curve of the table's rows. With `population` the rows are taken as drawn from a population: Greenwood's
variance S(u)^2 sum of d_v / (n_v (n_v - d_v)) is added, as normal (Greenwood 1926).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import hypot, isnan, nan, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.answers.evaluate import Evaluation, Shown, Sum
from sfumato.answers.fieller import Functional, Noises, Term, linear_interval, side_by_side
from sfumato.answers.function_interval import function_interval
from sfumato.answers.question import Groups, cell_weights, kinds_asked
from sfumato.answers.results import Estimate, Result
from sfumato.answers.spreads import times
from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis, ValueSet
from sfumato.domain.predicates import Predicate
from sfumato.effort import at_most
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.plain_text import html_block
from sfumato.schema import Schema
from sfumato.sql import Amount, Column, Select, compile_select

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

MOST_TIMES = 1_000  # values of the time, and of all curves together
SHOWN = 12  # times of a curve that are printed


@dataclass(frozen=True, eq=False)
class Curve:
    """Curve of one group. times: labels. at_risk, events: rows at each time. survival: share left after each."""

    times: tuple[Any, ...]
    at_risk: tuple[Estimate, ...]
    events: tuple[Estimate, ...]
    survival: tuple[Estimate, ...]

    def quantile(self, share: float = 0.5) -> tuple[Any, Any, Any]:
        """First time at which at most a share is left, and both ends of its interval; None: not within these times.

        The ends are where the curve's intervals reach the share (test inversion; Brookmeyer, Crowley 1982).
        """
        if not _is_share(share):
            raise QueryError(f"a share lies between 0 and 1, such as 0.5 for the median, not {share!r}")

        def first(level: Sequence[float]) -> Any:
            return next((time for time, at in zip(self.times, level, strict=True) if at <= share), None)

        value, low, high = ([getattr(one, end) for one in self.survival] for end in ("value", "low", "high"))
        return first(value), first(low), first(high)


@dataclass(frozen=True, eq=False)
class Survival:
    """Kaplan-Meier curves by group (None: all rows). They print as a table."""

    time: str
    by: str | None
    curves: Mapping[Any, Curve]
    confidence: float
    population: bool
    notes: tuple[str, ...]

    @property
    def answer(self) -> Result:
        """All times of all curves as the answer of a query, with its frames and files."""
        rows = tuple(
            (time, *([] if self.by is None else [group]), *numbers)
            for group, curve in self.curves.items()
            for time, *numbers in zip(curve.times, curve.survival, curve.at_risk, curve.events, strict=True)
        )
        names = (self.time, *([] if self.by is None else [self.by]), "survival", "at_risk", "events")
        return Result(names, rows, self.confidence, self.notes, numbers=frozenset(names[-3:]))

    def to_arrow(self) -> pa.Table:
        """All times of all curves, with intervals."""
        return self.answer.to_arrow()

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Plot the curves with their intervals; it needs matplotlib."""
        return self.answer.plot("survival", ax=ax)

    def _lines(self) -> Iterator[str]:
        for group, curve in self.curves.items():
            middle, low, high = ("not reached" if end is None else f"{self.time} {end}" for end in curve.quantile())
            yield f"{f'{self.by} = {group}: ' if self.by else ''}half are left until {middle} ({low} to {high})"
            heads = self.time, "at risk", "events", "survival", f"{self.confidence:.0%} interval"
            yield f"{heads[0]:>12}{heads[1]:>12}{heads[2]:>10}{heads[3]:>10}  {heads[4]:>16}"
            every = range(len(curve.times))
            kept = every if len(every) <= SHOWN else np.unique(np.linspace(0, every[-1], SHOWN).astype(int)).tolist()
            for place in kept:
                one = curve.survival[place]
                share = "?" if isnan(one.value) else f"{one.value:.3f}"
                ends = f"{one.low:.3f} to {one.high:.3f}"
                rows = f"{curve.at_risk[place].value:>12,.0f}{curve.events[place].value:>10,.0f}"
                yield f"{curve.times[place]!s:>12}{rows}{share:>10}  {ends:>16}"

    def __str__(self) -> str:
        return "\n".join([*self._lines(), *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        return html_block(f"<pre>{escape(str(self))}</pre>")


def survival(
    content: Shown,
    time: str,
    event: str,
    *,
    by: str | None = None,
    where: str | None = None,
    confidence: float = 0.95,
    population: bool = False,
) -> Survival:
    """Kaplan-Meier curves. time: ordered attribute; event: condition, or an attribute with two values."""
    from sfumato.answers.contingency import attribute_named, condition_of

    schema = content.schema
    time = attribute_named(time, schema)
    axis = schema.domain[time]
    if not axis.ordered:
        raise QueryError(f"{time} has no order; time is a whole number, a number in bins or a date")
    at_most(axis.places, MOST_TIMES, f"values of {time}", "cut it into bins in the schema, or ask for fewer of them")
    rows = _rows(where, schema)
    if axis.missing:
        rows &= ~Predicate.where(time, ValueSet.missing())
    had = rows & _rows(condition_of(event, schema), schema)
    names = [time, *dict.fromkeys(name for name in had.names if name != time)]
    group_by = () if by is None else (attribute_named(by, schema),)
    amounts = tuple(Amount(rows, name) for name in (*names, *group_by))
    select = Select((Column("n", amounts),), group_by, Predicate.everything())
    evaluation = Evaluation(content.view(kinds_asked(select, schema)), Groups.of(select, schema.domain), confidence)
    if evaluation.view.suppressed is not None:
        raise QueryError("a release that holds only cells above a threshold has no survival curves")
    at_most(axis.places * len(evaluation.groups.present), MOST_TIMES, f"points of curves by {by}", "take fewer groups")
    found = dict(zip(_labels(evaluation.groups, schema), _curves(evaluation, axis, rows, had, population), strict=True))
    notes = ["intervals are of each time by itself, not of a curve as a whole"]
    if not population:
        notes.append("they are about this table; population=True adds the error of sampling")
    return Survival(time, group_by[0] if group_by else None, found, confidence, population, tuple(notes))


def _is_share(number: object) -> bool:
    return isinstance(number, int | float) and 0.0 <= number <= 1.0


def _rows(condition: str | None, schema: Schema) -> Predicate:
    """Rows of a condition as behind WHERE."""
    if condition is None:
        return Predicate.everything()
    return compile_select(f"SELECT COUNT(*) FROM release WHERE {condition}", schema).where


def _labels(groups: Groups, schema: Schema) -> list[Any]:
    """Value of each present group; None where there is one group of all rows."""
    if not groups.names:
        return [None]
    axis = schema.domain[groups.names[0]]
    return [axis.label(code) for code in groups.code(groups.names[0]).tolist()]


def _curves(evaluation: Evaluation, axis: Axis, rows: Predicate, had: Predicate, population: bool) -> Iterator[Curve]:
    """Curve of each present group."""
    schema, cells, size = evaluation.view.schema, evaluation.view.cells, axis.places
    at: Codes = cells.codes[axis.name]
    every, events = (cell_weights(Amount(one, None), schema, cells.codes, cells.size)["count"] for one in (rows, had))
    weights = [times(events, np.asarray(at == place, dtype=np.float64)) for place in range(size)]
    weights += [times(every, np.asarray((at >= place) & (at < size), dtype=np.float64)) for place in range(size)]
    sums = [Sum({"count": one}, {}, {}, np.zeros(evaluation.groups.number)) for one in weights]
    values = [evaluation.values_of(one) for one in sums]
    whole = float(cells.values["count"].sum())
    left = max(1.0 - whole / schema.population, 0.0) if population and schema.population is not None else 1.0
    for group, terms in zip(evaluation.groups.present, evaluation.terms(sums), strict=True):
        if terms is None:
            raise QueryError("time and event were not measured together; release them together (--workload)")
        of_group = [Functional(*(float(part[group]) for part in one)) for one in values]
        yield _curve(axis, of_group, terms, evaluation.confidence, left if population else 0.0)


def _curve(axis: Axis, sums: Sequence[Functional], terms: Sequence[Term], confidence: float, sampled: float) -> Curve:
    """Curve from the sums of events, then of rows at risk, by time. sampled: share of Greenwood's variance."""
    size, noises = axis.places, side_by_side(terms, 3 * len(sums))
    rows = [_number(one, noises, place, confidence) for place, one in enumerate(sums)]
    events, at_risk = rows[:size], rows[size:]
    points, top = list[Estimate](), 1.0
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    for place in range(size):
        known = at_risk[place].low > 0.0 and not (points and isnan(points[-1].value))
        found = function_interval(SurvivingShare(place, size), [], sums, noises, confidence) if known else None
        if found is None:
            points.append(Estimate(nan, nan, 0.0, top, confidence, nan, nan))
            continue
        by_sampling = 0.0
        if sampled:
            d, n = (np.array([each.value for each in of[: place + 1]]) for of in (events, at_risk))
            greenwood = (np.maximum(d, 0.0) / (n * np.maximum(n - np.maximum(d, 0.0), 1.0))).sum()
            by_sampling = abs(found.value) * sqrt(sampled * float(greenwood))
        low = max(found.value - hypot(found.value - found.low, z * by_sampling), 0.0)
        top = max(min(top, found.value + hypot(found.high - found.value, z * by_sampling)), 0.0)
        model = hypot(found.model, by_sampling)
        error = hypot(found.noise, model)
        points.append(Estimate(found.value, error, min(low, top), top, confidence, found.noise, model))
    labels = tuple(axis.label(place) for place in range(size))
    return Curve(labels, tuple(at_risk), tuple(events), tuple(points))


def _number(rows: Functional, noises: Noises, place: int, confidence: float) -> Estimate:
    """Estimate of one sum. place: its index; it has three columns (value, low, high) in the weights of `noises`."""
    own = noises.weighed(noises.weights[:, 3 * place : 3 * place + 3])
    found = linear_interval(rows, own, confidence)
    return Estimate(found.value, found.stderr, found.low, found.high, confidence, found.noise, found.model)


@dataclass(frozen=True)
class SurvivingShare:
    """S at a time and its gradient, as a function of events by time, then rows at risk by time."""

    place: int
    size: int

    def __call__(self, sums: Floats) -> tuple[float, Floats]:
        inside = slice(0, self.place + 1)
        events, at_risk = sums[: self.size][inside], sums[self.size :][inside]
        gradient = np.zeros(len(sums))
        if not (at_risk > 0.0).all():
            return nan, gradient
        share = 1.0 - events / at_risk
        before = np.concatenate([[1.0], np.cumprod(share)[:-1]])
        after = np.concatenate([np.cumprod(share[::-1])[::-1][1:], [1.0]])
        others = before * after
        gradient[: self.size][inside] = -others / at_risk
        gradient[self.size :][inside] = others * events / at_risk**2
        return float(np.prod(share)), gradient
