"""Counts along attributes give guaranteed ends for what they tell exactly, and for nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from fitted import SCHEMA, example, with_measured_errors

from sfumato.intervals.guaranteed.along import runs_of, with_counts_along
from sfumato.intervals.guaranteed.ends import ANYTHING, Ends, lowest
from sfumato.intervals.guaranteed.regions import finder

FIT = with_measured_errors(along=True)
ALONG = FIT.steadied.along


def of_run(number: int, run: int) -> np.ndarray:
    return (ALONG.labels(number) == run).astype(np.float64)


def nothing_else(low, high, tail):
    return ANYTHING


@pytest.mark.parametrize("number", range(len(ALONG.runs)))
def test_a_run_has_the_ends_of_its_own_count(number):
    weights = of_run(number, 1)
    found = with_counts_along(runs_of(FIT), nothing_else)(weights, weights, 0.025)
    measured, own = FIT.steadied.measured[number], np.array([1])
    assert found.low == pytest.approx(lowest(measured, own, np.ones(1), 0.0125))
    assert found.high == pytest.approx(-lowest(measured, own, -np.ones(1), 0.0125))


def test_other_sums_are_left_to_the_tree_with_all_of_the_tail():
    one_cell = np.zeros(SCHEMA.domain.size)
    one_cell[3] = 1.0
    assert finder(FIT)(one_cell, one_cell, 0.025) == finder(FIT.inner)(one_cell, one_cell, 0.025)


def test_the_nearer_end_is_taken():
    weights = of_run(0, 0)
    tree = finder(FIT.inner)(weights, weights, 0.0125)
    alone = with_counts_along(runs_of(FIT), nothing_else)(weights, weights, 0.025)
    assert finder(FIT)(weights, weights, 0.025) == Ends(max(tree.low, alone.low), min(tree.high, alone.high))


def test_all_rows_have_the_ends_of_their_own_count_or_of_the_rest():
    cells = example("measured cells along")
    everything = np.ones(SCHEMA.domain.size)
    whole, (first, *others) = cells.inner.whole, runs_of(cells)
    assert first.measured is whole and [runs.number for runs in others] == [2, 3]
    found = with_counts_along(runs_of(cells), nothing_else)(everything, everything, 0.025)
    assert found.low == pytest.approx(lowest(whole, np.array([0]), np.ones(1), 0.0125))
    nearer, alone = finder(cells)(everything, everything, 0.025), finder(cells.inner.inner)
    assert nearer.high <= min(found.high, alone(everything, everything, 0.0125).high)


def test_whole_blocks_have_the_ends_of_their_own_counts():
    fit = example("measured cells blocks")
    two = np.isin(fit.blocks.blocks.labels, (1, 3)).astype(np.float64)
    found = with_counts_along(runs_of(fit), nothing_else)(two, two, 0.025)
    assert found.low == pytest.approx(lowest(fit.blocks.measured, np.array([1, 3]), np.ones(2), 0.0125))
