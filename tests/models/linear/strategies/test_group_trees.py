"""Trees of groups: taken where groups are asked for, and left where they are not."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.domain import Axis, Domain
from sfumato.models.linear.strategies.hierarchies import tree_strategy
from sfumato.queries import Identity, Predicates, Tree, Workload

SIZES = [1, 3, 40, 7, 25, 60, 4, 20]
CUTS = np.cumsum(SIZES)
N = int(CUTS[-1])
GROUPS = Predicates(N, np.split(np.arange(N), CUTS[:-1]))


def domain(*splits: tuple[int, ...]) -> Domain:
    return Domain((Axis("town", "category", np.arange(N + 1.0), splits=splits),))


def error(strategy, workload: Workload, pure: bool) -> float:
    """The squared error on a workload, by explicit matrices: each block counts alike."""
    A = strategy.weighted.dense().astype(float)
    load = np.abs(A).sum(axis=0).max() ** 2 if pure else (A**2).sum(axis=0).max()
    inverse = np.linalg.inv(A.T @ A)
    return sum(load * np.trace(W @ inverse @ W.T) / len(W) for W in (block.dense() for block in workload.blocks))


def rows_of(strategy) -> int:
    return int(strategy.queries.rows)


@pytest.mark.parametrize("pure", [True, False])
def test_groups_that_are_asked_for_are_measured(pure):
    """160 values in 8 uneven groups: the tree has their totals, and the error on them is much smaller than without."""
    workload = Workload(("groups", "values"), (GROUPS, Identity(N)))
    plain = tree_strategy(domain(), workload, pure)
    found = tree_strategy(domain(tuple(CUTS[:-1].tolist())), workload, pure)
    assert isinstance(found.queries, Tree)
    assert [len(level) - 1 for level in found.queries.levels] == [len(SIZES), N]
    assert error(found, workload, pure) < 0.9 * error(plain, workload, pure)


def test_groups_that_nobody_asks_for_are_not_measured():
    workload = Workload(("values",), (Identity(N),))
    assert rows_of(tree_strategy(domain(tuple(CUTS[:-1].tolist())), workload, True)) == N


def test_of_several_levels_those_are_taken_that_pay():
    coarse = (int(CUTS[3]),)
    workload = Workload(("halves",), (Predicates(N, [np.arange(CUTS[3]), np.arange(CUTS[3], N)]),))
    found = tree_strategy(domain(coarse, tuple(CUTS[:-1].tolist())), workload, True)
    assert rows_of(found) == N + 2
