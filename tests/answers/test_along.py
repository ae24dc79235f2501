"""Counts along attributes give guaranteed ends for what they tell exactly, and for nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from fitted import SCHEMA, example, with_measured_errors

from sfumato.answers.guaranteed_sums import with_counts_along
from sfumato.answers.noise_sum import ANYTHING, Ends, lowest

FIT = with_measured_errors(along=True)
DOMAIN = SCHEMA.domain
ALONG = FIT.steadied.along


def of_run(number: int, run: int) -> np.ndarray:
    return (ALONG.labels(number) == run).astype(np.float64)


def nothing_else(low, high, tail):
    return ANYTHING


@pytest.mark.parametrize("number", range(len(ALONG.runs)))
def test_a_run_has_the_ends_of_its_own_count(number):
    weights = of_run(number, 1)
    found = with_counts_along(FIT.runs(), nothing_else)(weights, weights, 0.025)
    measured, own = FIT.steadied.measured[number], np.array([1])
    assert found.low == pytest.approx(lowest(measured, own, np.ones(1), 0.0125))
    assert found.high == pytest.approx(-lowest(measured, own, -np.ones(1), 0.0125))


def test_other_sums_are_left_to_the_tree_with_all_of_the_tail():
    one_cell = np.zeros(SCHEMA.domain.size)
    one_cell[3] = 1.0
    assert FIT.guaranteed(DOMAIN)(one_cell, one_cell, 0.025) == FIT.inner.guaranteed(DOMAIN)(one_cell, one_cell, 0.025)


def test_the_nearer_end_is_taken():
    weights = of_run(0, 0)
    tree = FIT.inner.guaranteed(DOMAIN)(weights, weights, 0.0125)
    alone = with_counts_along(FIT.runs(), nothing_else)(weights, weights, 0.025)
    assert FIT.guaranteed(DOMAIN)(weights, weights, 0.025) == Ends(max(tree.low, alone.low), min(tree.high, alone.high))


def test_all_rows_have_the_ends_of_their_own_count_or_of_the_rest():
    cells = example("measured cells along")
    everything = np.ones(SCHEMA.domain.size)
    whole, (first, *others) = cells.inner.whole, cells.runs()
    assert first.measured is whole and sorted(runs.number for runs in others) == [2, 3]
    found = with_counts_along(cells.runs(), nothing_else)(everything, everything, 0.025)
    assert found.low == pytest.approx(lowest(whole, np.array([0]), np.ones(1), 0.0125))
    nearer, alone = (cells.guaranteed(DOMAIN)(everything, everything, 0.025), cells.inner.inner.guaranteed(DOMAIN))
    assert nearer.high <= min(found.high, alone(everything, everything, 0.0125).high)


def test_whole_blocks_have_the_ends_of_their_own_counts():
    fit = example("measured cells blocks")
    two = np.isin(fit.blocks.blocks.labels, (1, 3)).astype(np.float64)
    found = with_counts_along(fit.runs(), nothing_else)(two, two, 0.025)
    assert found.low == pytest.approx(lowest(fit.blocks.measured, np.array([1, 3]), np.ones(2), 0.0125))
