"""Candidate events, sets of outputs, by which an observer might tell two neighbouring tables apart.

A leak shows in some event: a set of outputs that is much more likely on one table than on the other. Histograms miss
many of them, so the families here are thresholds, single values, low bits, zeros, grids, the set of published entries,
pairs of columns, and a score that adds up evidence over all columns (an estimated log-likelihood ratio of the two
inputs). The list is built from outputs that are used for nothing else, so that the event whose probability is bounded
later was fixed before those runs were seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from sfumato.frozen import dataclass
from sfumato.lab.audit.subjects.subject import HIDDEN, Outputs

Values = NDArray[np.int64] | NDArray[np.float64]

FINE, COARSE = 32, 8  # bins of the values of a column; up to twice as many values have a weight of their own


def telling_columns(zero: Outputs, one: Outputs) -> list[int]:
    """Varying columns, sorted by falling chi-square distance between the outputs on the two inputs."""
    telling = []
    for column in range(zero.shape[1]):
        first, second = zero[:, column], one[:, column]
        if len(np.unique(np.concatenate([first, second]))) > 1:
            telling.append((-_distance(*_binned(first, second)[1:]), column))
    return [column for _, column in sorted(telling)]


def distinct_columns(zero: Outputs, one: Outputs, order: list[int]) -> list[int]:
    """Drop columns that are a multiple of an earlier one, such as estimates that repeat their answers.

    By itself such a column may still show a grid, but together with the other one it shows nothing more.
    """
    found: dict[bytes, int] = {}
    for column in order:
        values = np.concatenate([zero[:, column], one[:, column]])
        shown = values != HIDDEN
        step = max(1, int(np.gcd.reduce(values[shown], initial=0)))
        found.setdefault(np.where(shown, values // step, HIDDEN).tobytes(), column)
    return list(found.values())


def scores(zero: Outputs, one: Outputs, order: list[int]) -> Iterator[tuple[int, Callable[[Outputs], Values]]]:
    """Scores of runs: estimated log-likelihood ratios, input 1 against input 0, summed over the leading columns.

    Where columns are independent no event does better than a threshold on the sum. Columns that tell nothing only add
    the noise of their estimates, so scores of few columns compete with scores of many, and coarse bins with fine ones.
    """
    for bins, (count, first) in product((FINE, COARSE), _leading(order)):
        weights = {}
        for column in first:
            edges, before, after = _binned(zero[:, column], one[:, column], bins)
            # One imagined run each keeps a value that was never seen on one input from deciding alone.
            weights[column] = edges, np.log((after + 1) / (after.sum() + 1)) - np.log((before + 1) / (before.sum() + 1))

        def evidence(outputs: Outputs, weights: dict[int, tuple[Outputs, NDArray[np.float64]]] = weights) -> Values:
            total = np.zeros(len(outputs))
            for column, (edges, weight) in weights.items():
                total += weight[np.searchsorted(edges, outputs[:, column], side="right")]
            return total.round(9)  # sums in another order must not split ties

        yield count, evidence


def _leading(order: list[int]) -> list[tuple[int, list[int]]]:
    counts = sorted({min(count, len(order)) for count in (1, 2, 3, 4, 6, 8, 12, len(order))} - {0})
    return [(count, order[:count]) for count in counts]


def _binned(first: Outputs, second: Outputs, bins: int = FINE) -> tuple[Outputs, NDArray[np.int64], NDArray[np.int64]]:
    """Bin edges, and histograms of both inputs' values over the bins."""
    pooled = np.concatenate([first, second])
    edges = np.unique(pooled)
    if len(edges) > 2 * bins:
        shown = pooled[pooled != HIDDEN]
        edges = np.unique(np.append(np.quantile(shown, np.arange(1, bins) / bins, method="nearest"), HIDDEN + 1))
    places = (np.searchsorted(edges, values, side="right") for values in (first, second))
    before, after = (np.bincount(place, minlength=len(edges) + 1) for place in places)
    return edges, before, after


def _distance(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Chi-square distance of two histograms of as many runs."""
    return float(np.sum((first - second) ** 2 / np.maximum(first + second, 1)))


Mask = NDArray[np.bool_]

MOST_PAIRED = 16  # columns that are looked at in pairs
FREQUENT = 12  # values of a column that are events of their own
LISTED = 10_000  # runs on each input from which thresholds and frequent values are taken
QUANTILES = np.concatenate([[0.002, 0.005, 0.01, 0.02], np.arange(1, 24) / 24, [0.98, 0.99, 0.995, 0.998]])


@dataclass(frozen=True)
class Feature:
    """Named function from runs' outputs to one number per run."""

    name: str
    values: Callable[[Outputs], Values]


@dataclass(frozen=True)
class Event:
    """Set of outputs: those for which `test` holds on the feature, or fails if `negated`.

    rare: too seldom to show on a few runs, however telling it is.
    """

    feature: Feature
    name: str
    test: Callable[[Values], Mask]
    negated: bool = False
    rare: bool = False

    def holds(self, outputs: Outputs) -> Mask:
        """Mask of the runs in which the event happened, (runs,)."""
        return np.asarray(self.test(self.feature.values(outputs)) != self.negated)

    def __str__(self) -> str:
        name = f"{self.feature.name} {self.name}"
        return f"not ({name})" if self.negated else name


def occurrences(events: list[Event], outputs: Outputs) -> NDArray[np.int64]:
    """Number of runs in which each event happened; consecutive events on one feature share its computation."""
    counts = np.zeros(len(events), dtype=np.int64)
    feature, values = None, np.empty(0)
    for place, event in enumerate(events):
        if event.feature is not feature:
            feature, values = event.feature, event.feature.values(outputs)  # type: ignore[assignment]
        happened = int(np.count_nonzero(event.test(values)))
        counts[place] = len(outputs) - happened if event.negated else happened
    return counts


def build_events(zero: Outputs, one: Outputs) -> list[Event]:
    """Candidate events learnt from outputs on both inputs; complements are considered by the caller."""
    pooled = np.concatenate([zero[:LISTED], one[:LISTED]])
    order = telling_columns(zero, one)
    events: list[Event] = []
    for column in order:
        feature = _column(column)
        events += _thresholds(feature, pooled) + _values(feature, pooled) + _bits(feature)
        events += _grids(feature, zero) + _grids(feature, one) + _ends(feature, zero, one)
    for feature in (PUBLISHED, SUM_OF_ALL):
        events += _thresholds(feature, pooled) + _values(feature, pooled)
    distinct = distinct_columns(zero, one, order)
    for a, b in combinations(sorted(distinct[:MOST_PAIRED]), 2):
        difference, total = _both(a, "-", b), _both(a, "+", b)
        events += [_at_least(difference, 0), _at_least(difference, 1), _equals(difference, 0)]
        events += _thresholds(difference, pooled, every=3) + _values(difference, pooled)
        events += _thresholds(total, pooled, every=3) + _values(total, pooled)
    for count, score in scores(zero, one, distinct):
        events += _thresholds(Feature(f"evidence of {count} numbers", score), pooled)
    return events


# -- features


def _column(place: int) -> Feature:
    return Feature(f"number {place}", lambda outputs: outputs[:, place])


def _both(a: int, sign: str, b: int) -> Feature:
    """Feature: sum or difference of two columns; HIDDEN where either is."""

    def combined(outputs: Outputs) -> Values:
        one, other = outputs[:, a], outputs[:, b]
        hidden = (one == HIDDEN) | (other == HIDDEN)
        return np.where(hidden, HIDDEN, one + other if sign == "+" else one - other)

    return Feature(f"number {a} {sign} number {b}", combined)


PUBLISHED = Feature("published numbers", lambda outputs: np.count_nonzero(outputs != HIDDEN, axis=1))
SUM_OF_ALL = Feature("sum of all numbers", lambda outputs: np.where(outputs == HIDDEN, 0, outputs).sum(axis=1))


# -- events on a feature


def _at_least(feature: Feature, bound: int | float) -> Event:
    return Event(feature, f">= {bound:.6g}", lambda values: values >= bound)


def _equals(feature: Feature, value: int) -> Event:
    return Event(feature, "unpublished" if value == HIDDEN else f"== {value}", lambda values: values == value)


def _thresholds(feature: Feature, outputs: Outputs, *, every: int = 1) -> list[Event]:
    values = feature.values(outputs)
    shown = values[values != HIDDEN]
    if not shown.size:
        return []
    bounds = np.unique(np.quantile(shown, QUANTILES[::every], method="nearest"))
    return [_at_least(feature, bound) for bound in bounds.tolist()]


def _ends(feature: Feature, zero: Outputs, one: Outputs) -> list[Event]:
    """Events beyond all values seen on one of the inputs: they reveal truncated noise."""
    shown = [values[values != HIDDEN] for values in (feature.values(zero), feature.values(one))]
    if not all(values.size for values in shown):
        return []
    inner = max(values.min() for values in shown), min(values.max() for values in shown) + 1
    return [replace(_at_least(feature, int(bound)), rare=True) for bound in inner]


def _values(feature: Feature, outputs: Outputs) -> list[Event]:
    """Events of equality with one of the most frequent values, zero, or unpublished."""
    distinct, times = np.unique(feature.values(outputs), return_counts=True)
    frequent = distinct[np.argsort(-times, kind="stable")[:FREQUENT]]
    repeated = {int(value) for value in frequent if times[np.searchsorted(distinct, value)] > 1}
    return [_equals(feature, value) for value in sorted(repeated | {0, HIDDEN})]


def _bits(feature: Feature) -> list[Event]:
    return [_on_grid(feature, residue, size) for size in (2, 4, 8) for residue in range(size)][1:]


def _on_grid(feature: Feature, start: int, step: int) -> Event:
    def test(values: Values) -> Mask:
        return np.asarray((values != HIDDEN) & (values % step == start % step))

    return Event(feature, f"% {step} == {start % step}", test)


def _grids(feature: Feature, outputs: Outputs) -> list[Event]:
    """Events of lying on the coarsest grid that holds all values seen on one input, through zero or not."""
    values = feature.values(outputs)
    shown = values[values != HIDDEN]
    if shown.size < 2:
        return []
    first = int(shown[0])
    steps = {(first, int(np.gcd.reduce(shown - first))), (0, int(np.gcd.reduce(shown)))}
    return [_on_grid(feature, start, step) for start, step in sorted(steps) if step > 8]
