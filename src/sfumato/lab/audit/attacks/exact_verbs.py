"""Exact audit of misfits, sparse vectors, partitions and margins: both output distributions, compared.

As in `exact`, scales and scores are those of the curator at work. The law of the first answer above a threshold is a
sum over the noise of the threshold whose terms are all positive, so floating point is right to about 12 digits.

Margins are audited on a square of two attributes of two values each, the smallest table that has them. A row lies in
one cell of each margin, so two margins tell of it twice and the noise must cover both. True answers are added up here,
from the counts, and not taken from the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Axis, Domain
from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.measuring import Guess
from sfumato.kernel.verbs.scores import LargestMisfit, Misfit, RowsRight, Score
from sfumato.lab.audit.attacks import reference as twins
from sfumato.lab.audit.attacks.exact import (
    Counts,
    Distribution,
    ExactFinding,
    Law,
    discrete_laplace,
    exponential,
    found,
    largest_loss,
    neighbours,
    selecting,
    watched,
)
from sfumato.lab.audit.attacks.reference import largest_gap, partition_law
from sfumato.lab.audit.attacks.tape import Chosen, Drawn
from sfumato.measurement import Laplace
from sfumato.queries import AllRanges, Identity, Prefix, Weighted

Chances = Callable[[Counts], Sequence[float]]

REACH = 60  # scales of the threshold's noise that are summed over
MISFITS = {
    "prefixes": Misfit(Prefix(3), np.array([0, 2, 1])),
    "ranges": Misfit(AllRanges(3), np.array([1, 0, 3, 0, 2, 1])),
    "weights": Misfit(Weighted(np.array([[2, -1, 0], [1, 0, -2], [0, 1, 1]])), np.array([1, -1, 4])),
    # The revenue at each of three prices (docs/auction.md).
    "prices": Misfit(Weighted(np.array([[1, 1, 1], [0, 2, 2], [0, 0, 9]])), np.zeros(3, dtype=np.int64)),
    # One query against many guesses: a row of data raises the first misfits and lowers the last.
    "guesses": Misfit(Weighted(np.array([[1, 0, 0]] * 21)), np.array([0] * 20 + [1])),
}
# Every rule on three cells, and tables that a row of data brings closer or further away.
CANDIDATES: dict[str, Score] = {
    "rows that rules get right": RowsRight(
        np.array([[code >> cell & 1 for cell in range(3)] for code in range(8)]) == 1
    ),
    "table by its cells": LargestMisfit(Identity(3), np.array([[0, 0, 0], [4, 0, 0], [1, 1, 2], [2, 2, 0]])),
    "table by weights": LargestMisfit(Weighted(np.array([[2, -1, 0], [0, 1, 1]])), np.array([[0, 0], [3, 1], [-2, 4]])),
}
PRICES = ((1, 1, 1), (2, 2, 6))  # of buckets of 1, 2 and 4 cells


def first_above_law(values: Sequence[int], threshold: int, of_threshold: Fraction, of_values: Fraction) -> list[float]:
    """Distribution of the sparse vector: P(value i is the first above the threshold) for each i, then P(none)."""
    ratio = np.exp(-1 / float(of_threshold))
    reach = ceil(REACH * of_threshold)
    noise = np.arange(-reach, reach + 1)
    still = (1 - ratio) / (1 + ratio) * ratio ** np.abs(noise)  # and none so far
    distribution = []
    for value in values:
        gap = threshold + noise - value
        distribution.append(float((still * _more_than(gap, of_values)).sum()))
        still = still * _more_than(-gap - 1, of_values)  # its noise is symmetric
    return [*distribution, float(still.sum())]


def _more_than(values: NDArray[np.int64], scale: Fraction) -> NDArray[np.float64]:
    """P(Z > value) of discrete Laplace noise Z for each value, computed without cancellation."""
    ratio = np.exp(-1 / float(scale))
    tail = ratio ** np.maximum(values + 1, -values).astype(float) / (1 + ratio)
    return np.asarray(np.where(values >= 0, tail, 1 - tail))


def summing(
    misfit: Misfit, labels: Sequence[int], epsilon: Fraction, contributions: int, *, kind: type[Curator] = Curator
) -> Law:
    """Distribution of noisy sums of misfits by group."""

    def measure(curator: Curator, budget: Budget) -> object:
        return curator.measure_misfit(misfit, budget, np.array(labels))

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        (scale,) = _scales(watched(measure, counts, epsilon, contributions, kind))
        sums = twins.sums_by_group(twins.misfits(misfit.queries, misfit.targets.tolist(), counts), labels)
        return [discrete_laplace(each, scale, 100) for each in sums]

    return distribution


def looking(
    misfit: Misfit, threshold: int, epsilon: Fraction, contributions: int, *, kind: type[Curator] = Curator
) -> Chances:
    """Distribution of the first misfit above a threshold (sparse vector)."""

    def look(curator: Curator, budget: Budget) -> object:
        return curator.first_above(misfit, threshold, budget)

    def distribution(counts: Counts) -> Sequence[float]:
        of_values, of_threshold = _scales(watched(look, counts, epsilon, contributions, kind))
        values = twins.misfits(misfit.queries, misfit.targets.tolist(), counts)
        return first_above_law(values, threshold, of_threshold, of_values)

    return distribution


def cutting_four(
    prices: tuple[int, int, int], epsilon: Fraction, contributions: int, *, kind: type[Curator] = Curator
) -> Chances:
    """Probabilities of each partition of four cells under `best_partition`. prices: of runs of 1, 2, 4 cells."""

    def cut(curator: Curator, budget: Budget) -> object:
        return curator.best_partition(budget, order=np.arange(4), price=[Fraction(p) for p in prices])

    def distribution(counts: Counts) -> Sequence[float]:
        single, longer = _scales(watched(cut, counts, epsilon, contributions, kind))
        return partition_law(counts, prices, single, longer)

    return distribution


def largest_ratio(distribution: Chances, cells: int, rows: int, contributions: int) -> tuple[float, int]:
    """Largest privacy loss of a distribution over all neighbouring tables of up to `rows` rows; number of pairs."""
    distribution = cache(distribution)
    pairs = list(neighbours(cells, rows, contributions))
    return max(largest_gap(distribution(one), distribution(other)) for one, other in pairs), len(pairs)


def verb_findings(epsilon: Fraction = Fraction(4)) -> list[ExactFinding]:
    """Exact audit of the verbs on misfits (tables of up to 4 rows on 3 cells) and of partitions (3 rows on 4 cells)."""
    findings = []
    for k in (1, 2):
        losses: dict[str, tuple[float, int]] = {}
        for name, misfit in MISFITS.items():
            labels = [row % 2 for row in range(misfit.queries.rows)]
            losses[f"select misfit of {name}"] = largest_loss(selecting(misfit, epsilon, k), (3,), 4, k)
            losses[f"sums of misfits of {name}"] = largest_loss(summing(misfit, labels, epsilon, k), (3,), 4, k)
            for threshold in (0, 4):
                distribution = looking(misfit, threshold, epsilon, k)
                losses[f"first misfit of {name} above {threshold}"] = largest_ratio(distribution, 3, 4, k)
        for name, score in CANDIDATES.items():
            losses[f"select {name}"] = largest_loss(selecting(score, epsilon, k), (3,), 4, k)
        findings += [found(name, epsilon, k, result) for name, result in losses.items()]
    for k, prices in ((1, PRICES[0]), (1, PRICES[1]), (2, PRICES[1])):
        result = largest_ratio(cutting_four(prices, k * epsilon, k), 4, 3, k)
        findings.append(found(f"best partition at prices {prices}", k * epsilon, k, result))
    return findings


def _scales(log: Sequence[object]) -> list[Fraction]:
    """Scales of the recorded Laplace draws, in order; a PrivacyError for other noise."""
    noises = [call.noise if isinstance(call, Drawn) else None for call in log]
    scales = [noise.scale for noise in noises if isinstance(noise, Laplace)]
    if len(scales) != len(noises):
        raise PrivacyError("the noise drawn is not Laplace noise, so no closed form holds")
    return scales


Asked = tuple[Sequence[str], Sequence[int], Sequence[int] | None]  # the last: the part of each cell
SQUARE = Domain((Axis("a", "integer", np.arange(3.0)), Axis("b", "integer", np.arange(3.0))))
GUESSES = ((("a",), (2, 0)), (("b",), (0, 1)), (("a", "b"), (0, 1, 0, 2)))  # of its margins
BY_CELL: Sequence[Asked] = [(names, guess, None) for names, guess in GUESSES]
IN_PARTS: Sequence[Asked] = ((("a",), (2, 0), None), (("b",), (1,), (0, 0)), (("a", "b"), (0, 2), (0, 1, 1, 0)))
AT_ONCE = ((("a",), [[1, -1]]), (("a", "b"), [[1, -1, -1, 1], [1, 1, 1, 1]]))  # margins with weights of their cells
IN_CLASSES = ((("a", "b"), [[1, 0], [0, 1]]), (("b",), [[1]]))  # the same for classes of values
CLASSES = {"a": (1, 0), "b": (0, 0)}  # of the values of its attributes: turned round, and both in one
GROUPINGS = {"each by itself": (0, 1, 2), "in two groups": (0, 1, 1), "in one group": (0, 0, 0)}
PENALTIES = (0, 1, -1)  # public, on what is chosen between
FAR = 60  # beyond all sums of misfits, so that what lies further out is one outcome


def summing_margins(
    labels: Sequence[int],
    epsilon: Fraction,
    contributions: int,
    *,
    kind: type[Curator] = Curator,
    guesses: Sequence[Asked] = BY_CELL,
) -> Law:
    """Distribution of noisy sums of the misfits of three margins, by group; cell by cell or part by part."""
    asked: list[Guess] = [(n, np.array(g), None if parts is None else np.array(parts)) for n, g, parts in guesses]

    def measure(curator: Curator, budget: Budget) -> object:
        return curator.measure_margin_misfits(asked, budget, np.array(labels))

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        (scale,) = _scales(watched(measure, counts, epsilon, contributions, kind, SQUARE))
        misfits = [twins.margin_misfit(SQUARE, names, guess, counts, parts) for names, guess, parts in guesses]
        return [discrete_laplace(each, scale, FAR) for each in twins.sums_by_group(misfits, labels)]

    return distribution


def measuring_margins(
    margins: Sequence[Sequence[str]], epsilon: Fraction, contributions: int, *, kind: type[Curator] = Curator
) -> Law:
    """Distribution of noisy counts along several margins, each with an even share of the budget."""

    def measure(curator: Curator, budget: Budget) -> None:
        for names, share in zip(margins, budget.evenly(len(margins)), strict=True):
            seen = curator.margin(names)
            seen.measure(Identity(seen.domain.size), share)

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        scales = _scales(watched(measure, counts, epsilon, contributions, kind, SQUARE))
        truths = [twins.margin(SQUARE, names, counts) for names in margins]
        pairs = zip(truths, scales, strict=True)
        return [discrete_laplace(each, scale, FAR) for truth, scale in pairs for each in truth]

    return distribution


def measuring_margins_at_once(
    asked: Sequence[tuple[tuple[str, ...], Sequence[Sequence[int]]]],
    epsilon: Fraction,
    contributions: int,
    *,
    kind: type[Curator] = Curator,
    classes: Mapping[str, tuple[int, ...]] | None = None,
) -> Law:
    """Distribution of noisy sums along several margins with one noise. asked: attributes, and weights of their cells.

    classes: of the values of each attribute, by which the table is recoded before.
    """

    def measure(curator: Curator, budget: Budget) -> object:
        listed = [(names, Weighted(np.array(weights))) for names, weights in asked]
        axes = {n: (Axis(n, "integer", np.arange(max(c) + 2.0)), np.array(c)) for n, c in (classes or {}).items()}
        return (curator.recode(axes) if axes else curator).measure_margins(listed, budget)

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        (scale,) = _scales(watched(measure, counts, epsilon, contributions, kind, SQUARE))
        sums: list[int] = []
        for names, weights in asked:
            truth = twins.margin(SQUARE, names, counts, classes and {name: classes[name] for name in names})
            sums += [sum(w * count for w, count in zip(row, truth, strict=True)) for row in weights]
        return [discrete_laplace(each, scale, FAR) for each in sums]

    return distribution


def measuring_recoded(epsilon: Fraction, contributions: int, *, kind: type[Curator] = Curator) -> Law:
    """Distribution of noisy counts of the square, recoded so that one attribute, then the other, has one value."""

    def measure(curator: Curator, budget: Budget) -> None:
        for name, share in zip(SQUARE.names, budget.evenly(2), strict=True):
            whole = Axis(name, "integer", np.arange(2.0))
            curator.recode({name: (whole, np.zeros(2, dtype=np.int64))}).measure(Identity(2), share)

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        scales = _scales(watched(measure, counts, epsilon, contributions, kind, SQUARE))
        truths = [twins.margin(SQUARE, [name], counts) for name in reversed(SQUARE.names)]
        pairs = zip(truths, scales, strict=True)
        return [discrete_laplace(each, scale, FAR) for truth, scale in pairs for each in truth]

    return distribution


def choosing_margins(epsilon: Fraction, contributions: int, *, kind: type[Curator] = Curator) -> Law:
    """Distribution of the margin chosen as farthest from its guess; scores recomputed, rate as the curator used it."""

    def choose(curator: Curator, budget: Budget) -> object:
        return curator.select_margin([(n, np.array(g)) for n, g in GUESSES], PENALTIES, budget)

    def distribution(counts: Counts, last: int) -> Sequence[Distribution]:
        log = watched(choose, counts, epsilon, contributions, kind, SQUARE)
        misfits = [twins.margin_misfit(SQUARE, names, guess, counts) for names, guess in GUESSES]
        scores = tuple(misfit - fine for misfit, fine in zip(misfits, PENALTIES, strict=True))
        return [exponential(scores, call.rate) for call in log if isinstance(call, Chosen)]

    return distribution


def margin_findings(epsilon: Fraction = Fraction(4)) -> list[ExactFinding]:
    """Exact audit of margins and their misfits, over all tables of up to 4 rows on the 2 x 2 square."""
    findings = []
    for k in (1, 2):
        laws = {f"misfits of margins, {how}": summing_margins(g, epsilon, k) for how, g in GROUPINGS.items()}
        laws["misfits of margins in parts"] = summing_margins((0, 1, 1), epsilon, k, guesses=IN_PARTS)
        laws["a choice of margins"] = choosing_margins(epsilon, k)
        laws["attributes recoded"] = measuring_recoded(epsilon, k)
        laws["both margins"] = measuring_margins([["a"], ["b"]], epsilon, k)
        laws["sums along margins at once"] = measuring_margins_at_once(AT_ONCE, epsilon, k)
        laws["margins of classes at once"] = measuring_margins_at_once(IN_CLASSES, epsilon, k, classes=CLASSES)
        laws["both margins and the total"] = measuring_margins([["a"], ["b"], []], epsilon, k)
        findings += [found(name, epsilon, k, largest_loss(law, (SQUARE.size,), 4, k)) for name, law in laws.items()]
    return findings
