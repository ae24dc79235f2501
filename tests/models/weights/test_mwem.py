"""MWEM: what it spends, how it learns, and how often its intervals hold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of
from shaped_tables import CELLS, SHAPES, X, coverage, line

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models.weights.measure import (
    CANDIDATES,
    MWEM,
    Candidates,
    measure_total,
    mwem,
    rounds_for,
    sampled,
    shape_refuses,
    with_rest,
)
from sfumato.queries import AllRanges, Identity, Kron, Scaled, Total, Weighted, Workload, default_workload


def test_spends_exactly_its_budget_with_measures_and_several_rows_per_person():
    schema = line(contributions=3, measures={"m": {"lower": 0, "upper": 10, "missing": "drop"}})
    for rounds in (None, 1, 7):
        curator = curator_of(schema, SHAPES["smooth"], epsilon=Fraction(3, 7))
        cube = mwem(curator, schema, Budget.pure(Fraction(3, 7)), settings=Candidates(rounds=rounds))
        assert curator.charge.fullest == curator.charge.limit == Fraction(1, 7)
        assert [fit.of for fit in cube.fits] == ["count", "m"]


def test_learns_what_an_even_spread_of_the_total_would_miss():
    counts = SHAPES["spike"]
    for seed in range(5):
        fit = mwem(curator_of(line(), counts, entropy=TestingEntropy(seed)), line(), Budget.pure(1)).fits[0]
        errors = AllRanges(CELLS) @ (fit.estimate - counts)
        even = AllRanges(CELLS) @ (counts.sum() / CELLS - counts)
        # Rounds carry noise of scale 37; a shape that learned nothing is off by thousands.
        assert np.sqrt(np.mean(errors**2)) < 0.1 * np.sqrt(np.mean(even**2))


def test_the_same_bits_give_the_same_cube():
    one, other = (mwem(curator_of(line(), SHAPES["sparse"]), line(), Budget.pure(1)).fits[0] for _ in range(2))
    assert np.array_equal(one.estimate, other.estimate) and np.array_equal(one.scales.factors, other.scales.factors)


@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_hold_as_many_of_the_workloads_queries_as_they_say(shape):
    """15 releases. The share held varies by 0.08 between releases, so their mean by 0.021: five of these below 0.95.

    Some shapes are covered more than 95 %: where the misfit is not much more than the noise it was measured with.
    """
    assert coverage(mwem, SHAPES[shape], 15) > 0.95 - 5 * 0.021


def test_an_estimate_that_is_wrong_knows_it():
    """One round cannot learn a sparse table: errors must grow to what is missed, not to what noise there is."""
    fit = mwem(
        curator_of(line(), SHAPES["sparse"], epsilon=1000), line(), Budget.pure(1000), settings=Candidates(rounds=1)
    ).fits[0]
    misses = np.abs(AllRanges(CELLS) @ (fit.estimate - SHAPES["sparse"]))
    assert misses.mean() > 100
    model, noise = fit.inner.variances(AllRanges(CELLS))
    expected = np.sqrt(2 / np.pi * (fit.inner.spread**2 * model + noise)).mean()
    assert expected == pytest.approx(misses.mean(), rel=0.02)
    cells = np.sqrt(np.diagonal(fit.errors(np.eye(CELLS)).model))
    assert np.mean(np.abs(fit.estimate - SHAPES["sparse"]) < 1.96 * cells) > 0.9  # full ones, too, though one in eleven


def test_an_empty_table_is_learned_as_any_other_even_without_noise():
    fit = mwem(curator_of(line(), SHAPES["nothing"], epsilon=10**5), line(), Budget.pure(10**5)).fits[0]
    assert not fit.estimate.any()


def test_more_rows_are_worth_more_rounds():
    def rounds(rows: int, cells: int = CELLS) -> int:
        schema = line(cells)
        curator = curator_of(schema, [rows] + [0] * (cells - 1), epsilon=100)
        total = measure_total(curator, Budget.pure(100)).estimate[0]
        return rounds_for(total, Budget.pure(1), 1, cells, CANDIDATES)

    assert [rounds(rows) for rows in (0, 10**4, 10**8)] == [4, 25, CANDIDATES.most]
    assert rounds(10**8, cells=2**20) < 12  # over many cells a round takes long


def test_a_query_and_its_complement_touch_every_cell_alike():
    for row in ([1, 0, 0, 1], [0, 3, -2, 1], [1, 1, 1, 1], [0, 0, 0, 0]):
        both = with_rest(np.array(row))
        assert both.constant_column_sum == max(1, np.abs(row).max())
        assert np.array_equal(both.row(0), row)


def test_large_workloads_are_sampled_block_by_block_and_always_alike():
    workload = Workload(("a", "b"), (AllRanges(500), Identity(500)))
    one, other = sampled(workload, 2000), sampled(workload, 2000)
    assert one.rows == 1500 and np.array_equal(one.dense(), other.dense())
    assert len(np.unique(one.blocks[0].dense(), axis=0)) == 1000
    # no pattern of a block is met or missed: each of two categories in half of the rows
    (block,) = (sampled(Workload(("c",), (Kron(AllRanges(100), Identity(2)),)), 100),)
    first = (block @ np.kron(np.ones(100, dtype=np.int64), np.array([1, 0])) > 0).sum()
    assert 40 <= first <= 60
    few = Workload(("t",), (Total(5),))
    assert sampled(few, 100) is few.blocks[0]


def test_refuses_what_no_shape_can_be_learned_for():
    assert shape_refuses(line(), default_workload(line().domain)) is None
    fractions = Workload(("w",), (Weighted(np.full((1, CELLS), 0.5)),))
    assert "whole numbers" in (shape_refuses(line(), fractions) or "")
    huge = line(2**23)
    assert "hierarchical" in (MWEM.why_not(huge) or "")


def test_weights_other_than_one_are_measured_and_paid_for():
    workload = Workload(("w", "v"), (Scaled(AllRanges(CELLS), 3), Weighted(np.stack([X, -X]))))
    curator = curator_of(line(), SHAPES["smooth"])
    mwem(curator, line(), Budget.pure(1), workload)
    assert curator.charge.fullest == curator.charge.limit
