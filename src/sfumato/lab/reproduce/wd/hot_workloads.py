"""WD's workloads with one hot cell, and the expected error of each way to answer them.

Li et al., section 5: 2,000 queries over 4,096 cells, each around a centre of its own, that also touch one hot cell with
probability p. The paper does not say how many cells a query has; here ten are drawn, and repeats count once.
What it calls Identity is Laplace noise on the *workload*; true identity, noise on the cells, is shown beside it.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.lab.reproduce.synthetic import even_numbers, normal_numbers
from sfumato.lab.reproduce.tr_2010_003.noise_sums import mean_absolute_sum
from sfumato.models.linear.strategies.division import divide_recursively
from sfumato.queries import Predicates, Workload

CELLS, QUERIES, DRAWN, VARIANCE, HOT = 4096, 2000, 10, 10.0, 1234
EPSILONS = (10.0, 5.0, 1.0, 0.5, 0.1)
CHANCES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True)
class Divided:
    """A part of a workload and the share of epsilon it spends."""

    queries: Whole
    share: float


def hot_workload(chance: float, queries: int = QUERIES, cells: int = CELLS) -> Workload:
    """Queries around random centres, touching the hot cell with the given chance."""
    centres = np.floor(cells * even_numbers(queries, seed=41))
    near = np.rint(centres[:, None] + np.sqrt(VARIANCE) * normal_numbers(queries * DRAWN, 42).reshape(queries, -1))
    drawn = np.clip(near, 0, cells - 1).astype(np.int64)
    touches = even_numbers(queries, seed=43) < chance
    sets = [[*row, HOT % cells] if hot else row for row, hot in zip(drawn.tolist(), touches.tolist(), strict=True)]
    return Workload((f"p = {chance:g}",), (Predicates(cells, sets),))


def laplace_scales(workload: Workload) -> Floats:
    """The noise scale of every query at epsilon 1, with noise straight on the queries: the paper's Identity."""
    return np.full(workload.queries.rows, float(workload.queries.l1))


def division_scales(workload: Workload) -> Floats:
    """The same for our division."""
    division = divide_recursively(workload, power=1)
    scales = np.zeros(workload.queries.rows)
    for part, precision in zip(division.parts, division.precisions.tolist(), strict=True):
        scales[part.members] = 1.0 / precision
    return scales


def paper_scales(workload: Workload, *, halving_counts: bool = True) -> Floats:
    """The same for the paper's algorithm 1, its hot cell taken from the workload and line 8 mended.

    halving_counts: whether line 6 reckons with the halved budgets, which the printed line forgets.
    """
    matrix = workload.queries.dense()
    scales = np.zeros(len(matrix))
    for part in divide_as_printed(matrix, halving_counts=halving_counts):
        scales[part.queries] = matrix[part.queries].sum(axis=0).max() / part.share
    return scales


def mean_noise(scales: Floats, epsilon: float) -> float:
    """The mean absolute noise of queries with these scales at epsilon 1."""
    each, times = np.unique(scales, return_counts=True)
    noise = [float(mean_absolute_sum([1], scale / epsilon)[0]) for scale in each.tolist()]
    return float(np.average(noise, weights=times))


def identity_error(workload: Workload, epsilon: float) -> float:
    """Mean absolute error of answers added up from noisy cells."""
    lengths, times = np.unique(workload.queries @ np.ones(workload.columns, dtype=np.int64), return_counts=True)
    return float(np.average(mean_absolute_sum(lengths, 1.0 / epsilon), weights=times))


def divide_as_printed(matrix: Whole, *, halving_counts: bool) -> list[Divided]:
    """Algorithm 1: halve the budget, put (|W| + Delta) / 4 queries that touch the hot cell in one part, recurse."""
    done, waiting = [], [Divided(np.arange(len(matrix)), 1.0)]
    while waiting:
        part = waiting.pop()
        loads = matrix[part.queries].sum(axis=0)
        touching = part.queries[matrix[part.queries, int(loads.argmax())] > 0]
        first = touching[: (len(part.queries) + int(loads.max())) // 4]
        second = np.setdiff1d(part.queries, first)
        if not len(first) or not len(second):
            done.append(part)
            continue
        divided = sum(len(half) * int(matrix[half].sum(axis=0).max()) for half in (first, second))
        if len(part.queries) * int(loads.max()) > (2 if halving_counts else 1) * divided:
            waiting += [Divided(first, part.share / 2), Divided(second, part.share / 2)]
        else:
            done.append(part)
    return done
