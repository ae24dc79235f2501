"""Public subsets of rows: a row more changes one count by one or not at all, and the coins are fair and independent."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of

from sfumato.errors import QueryError
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.holding import SUBSETS_AT_ONCE, thinned
from sfumato.queries import Identity
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {"a": {"type": "integer", "lower": 0, "upper": 4}}}
)


def kept(counts: list[int], seed: int = 0, word: int = 0) -> np.ndarray:
    held = np.flatnonzero(counts)
    found = np.zeros((SUBSETS_AT_ONCE, len(counts)), dtype=np.int64)
    found[:, held] = thinned(Aggregate(held, np.array(counts)[held]), seed, word)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_row_more_moves_one_count_by_one_or_not_at_all(seed):
    """The whole of the proof: tried on every cell of a few tables, in 128 subsets."""
    random = np.random.default_rng(seed)
    for _ in range(5):
        counts = random.poisson(3, 5).tolist()
        for cell in range(5):
            more = [count + (place == cell) for place, count in enumerate(counts)]
            for word in (0, 1):
                moved = kept(more, seed, word) - kept(counts, seed, word)
                assert set(np.unique(moved[:, cell])) <= {0, 1}
                assert not np.delete(moved, cell, axis=1).any()


def test_coins_are_fair_and_independent_from_row_to_row_and_from_subset_to_subset():
    """6,400,000 coins: means within 5.5 standard errors, a chance of 4e-8 for each of a few figures."""
    counts = kept([100_000, 0, 0, 0, 0])[:, 0]
    assert abs(counts.mean() - 50_000) < 5.5 * np.sqrt(25_000 / SUBSETS_AT_ONCE)
    assert 0.3 < counts.var() / 25_000 < 2.5  # chi-square of 63 degrees of freedom: outside with less than 1e-6
    many = np.array([kept([50] * 5, seed) for seed in range(20)]).transpose(1, 0, 2).reshape(SUBSETS_AT_ONCE, -1)
    together = np.corrcoef(many)[np.triu_indices(SUBSETS_AT_ONCE, 1)]
    assert np.abs(together).max() < 6.5 / np.sqrt(many.shape[1])


def test_what_is_measured_in_a_subset_is_charged_to_the_same_budget():
    curator = curator_of(SCHEMA, [10, 20, 0, 5, 1], epsilon=1)
    view = curator.subset(3, 70)
    found = view.measure(Identity(5), curator.charge.budget)
    assert curator.charge.fullest == curator.charge.limit
    assert found.answers.shape == (5,) and view.statistics == ("count",)
    with pytest.raises(QueryError, match="seed below"):
        curator.subset(-1, 0)
