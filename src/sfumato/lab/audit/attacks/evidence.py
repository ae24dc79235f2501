"""Evidence from all published numbers at once: a score of how much they speak for one input and against the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sfumato.lab.audit.subjects.subject import HIDDEN, Outputs

Values = NDArray[np.int64] | NDArray[np.float64]

FINE, COARSE = 32, 8  # bins of the values of a column; up to twice as many values have a weight of their own


def telling_columns(zero: Outputs, one: Outputs) -> list[int]:
    """Columns that vary, the ones that differ most between the inputs first."""
    telling = []
    for column in range(zero.shape[1]):
        first, second = zero[:, column], one[:, column]
        if len(np.unique(np.concatenate([first, second]))) > 1:
            telling.append((-_distance(*_binned(first, second)[1:]), column))
    return [column for _, column in sorted(telling)]


def distinct_columns(zero: Outputs, one: Outputs, order: list[int]) -> list[int]:
    """Without columns that are another one times a constant, such as estimates that repeat their answers.

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
    """Sums, over the most telling columns, of how much each value speaks for input 1 (its log-likelihood ratio).

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
    """Edges of bins, and how many of the values of either input lie in each bin."""
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
