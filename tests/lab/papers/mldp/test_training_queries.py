"""Training sets: every block is covered, and none more often than need be."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.domain import Axis, Domain
from sfumato.lab.papers.mldp.training_queries import Blocks, candidates, choose, fullest, training_sets

SQUARE = Domain((Axis("a", "integer", np.arange(9.0)), Axis("b", "integer", np.arange(7.0))))


@pytest.mark.parametrize("kind", ["ranges", "predicates", "subsets"])
def test_a_training_set_determines_every_block(kind):
    blocks = Blocks.at_most(SQUARE, 48)
    sets = training_sets(blocks, kind, 0)
    assert np.linalg.matrix_rank(sets) == blocks.size == 48
    load = sets.sum(axis=0)
    assert load.max() == load.min() == fullest(sets) <= 5  # as independent as they come: every block equally often


@pytest.mark.parametrize("number", [1, 5, 20, 60, 120])
def test_as_many_queries_as_are_wanted_with_the_loads_kept_even(number):
    sets = training_sets(Blocks.at_most(SQUARE, 48), "ranges", number)
    load = sets.sum(axis=0)
    assert len(sets) == number == len(np.unique(sets, axis=0)) and load.max() - load.min() <= 3


def test_the_most_used_block_is_the_sensitivity():
    """The paper's own example: of all ten ranges over four values the single ones are the independent ones."""
    ranges = np.array([[a <= c <= b for c in range(4)] for a in range(4) for b in range(a, 4)])
    assert fullest(ranges) == 6
    singles = np.array([row for row in ranges if row.sum() == 1])
    assert fullest(choose(singles, 4)) == 1


def test_candidates_are_the_same_every_time_and_each_once():
    blocks = Blocks.at_most(SQUARE, 20)
    for kind in ("ranges", "predicates", "subsets"):
        one, other = (candidates(blocks.shape, kind, further=True) for _ in range(2))
        assert np.array_equal(one, other) and len(np.unique(one, axis=0)) == len(one)
        assert (one.sum(axis=1) > 0).all()
