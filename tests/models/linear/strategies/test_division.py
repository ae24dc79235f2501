"""Workload division: the paper's own example and its hot cells, and what must hold for any workload."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.lab.reproduce.wd import W
from sfumato.models.linear.measure import divide, divide_recursively
from sfumato.models.linear.strategies.budget_allocation import best_precisions
from sfumato.queries import AllRanges, Identity, Kron, Predicates, Scaled, Total, Weighted, Workload

# W: figure 1 of the paper.
EXAMPLE = Workload(("figure 1",), (Weighted(W),))


def halves(first: set[int]) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and loads of a part and of the rest."""
    inside = np.isin(np.arange(8), list(first))
    return np.array([len(first), 8.0 - len(first)]), np.stack([W[inside].sum(axis=0), W[~inside].sum(axis=0)])


def test_the_worked_example_gives_four_undivided_and_492_as_printed():
    assert EXAMPLE.queries.l1 == 4
    sizes, loads = halves({0, 1, 2})
    assert round((sizes * loads.max(axis=1) / [0.58, 0.42]).sum() / 8, 2) == 4.92


def test_the_best_two_parts_that_add_up_give_373_and_the_columnwise_condition_gives_less():
    adding_up, columnwise = [], []
    for size in range(1, 8):
        for first in combinations(range(8), size):
            sizes, loads = halves(set(first))
            # epsilon_i in proportion to sqrt(|W_i| Delta_i) makes sum |W_i| Delta_i / epsilon_i least
            adding_up.append(np.sqrt(sizes * loads.max(axis=1)).sum() ** 2 / 8)
            columnwise.append((sizes / best_precisions(sizes, loads, 1)).sum() / 8)
    assert round(min(adding_up), 2) == 3.73
    assert round(min(columnwise), 3) == 3.25


def test_the_recursion_finds_the_best_noise_of_the_example():
    """No parts can beat every query by itself."""
    for power in (1, 2):
        alone = (best_precisions(np.ones(8), W, power) ** -power).sum() / 8
        assert divide_recursively(EXAMPLE, power=power).error == pytest.approx(alone, rel=1e-5)
    assert divide_recursively(EXAMPLE, power=1).error == pytest.approx(3.1642, abs=1e-4)


def hot(chance: float) -> Workload:
    """2,000 queries on ten neighbouring cells of 4,096; a stated part of them also touches cell 2,048."""
    start = np.arange(2000) * 1231 % 4086
    sets = [[*range(a, a + 10), 2048] if i % 10 < 10 * chance else range(a, a + 10) for i, a in enumerate(start)]
    return Workload(("hot",), (Predicates(4096, sets),))


@pytest.mark.parametrize(("chance", "least", "most"), [(0.2, 0.2, 0.5), (0.9, 0.85, 1.0)])
def test_a_hot_cell_that_few_queries_touch_halves_the_error_and_one_that_all_do_hardly_changes_it(chance, least, most):
    workload = hot(chance)
    undivided = workload.queries.l1
    assert least < divide_recursively(workload, power=1).error / undivided < most
    assert least < np.sqrt(divide_recursively(workload, power=2).error) / undivided < most


def test_a_part_that_touches_no_cell_does_no_harm():
    workload = Workload(("w",), (Predicates(3, [[0], [0], [0, 1], []]),))
    assert divide(workload).queries.rows == 4


@pytest.mark.parametrize(
    "workload",
    [
        Workload(("ranges",), (AllRanges(40),)),
        Workload(("a", "b"), (Kron(AllRanges(20), Total(3)), Kron(Total(20), Identity(3)))),
        Workload(("weighted",), (Scaled(AllRanges(10), 3),)),
        EXAMPLE,
    ],
)
def test_the_strategy_asks_the_workload_and_uses_up_the_fullest_cell(workload):
    strategy = divide(workload)
    assert np.array_equal(strategy.queries.dense(), workload.queries.dense())
    each = np.array(strategy.weights)[strategy.which]
    borne = np.abs(workload.queries.dense()).T @ each  # whole numbers, so exactly
    assert borne.max() == strategy.weighted.l1
    weights = np.concatenate([np.full(block.rows, 1 / block.rows) for block in workload.blocks])
    error = (weights * (each / borne.max()) ** -2.0).sum() / weights.sum()
    assert error == pytest.approx(divide_recursively(workload).error, rel=0.02)
    assert error < workload.queries.l1**2


def test_queries_that_all_deserve_the_same_noise_stay_together():
    strategy = divide(Workload(("w",), (Kron(Total(4), Identity(3)),)))
    assert strategy.weights == (1,) and strategy.which is None


def test_weights_that_are_not_whole_are_refused():
    with pytest.raises(QueryError, match="whole-number weights"):
        divide(Workload(("w",), (Weighted([[0.5, 1.0]]),)))
