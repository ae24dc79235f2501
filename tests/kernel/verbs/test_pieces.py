"""Pieces chosen in blocks: the law is that of all pieces laid out, whatever the blocks."""

from __future__ import annotations

from fractions import Fraction
from time import process_time

import numpy as np
import pytest
from scipy import stats

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.verbs.partitioning import blocks, choose_piece, clipped, rows_before
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.audit.attacks.reference import dealt_out, rank_scores

COUNTS, PIECES = np.array([3, 0, 40, 2]), 8
RANGES = [(0, 32), (5, 30), (17, 19), (16, 24)]
QUANTILES = [Fraction(q) for q in ("1/2", "1/4", "2/3", "0", "1")]
RATES = [Fraction(1, 300), Fraction(1, 20), Fraction(2)]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("quantile", QUANTILES)
@pytest.mark.parametrize(("first", "end"), RANGES)
def test_every_piece_is_in_one_block_that_scores_as_well_or_better(first, end, quantile, rate):
    """With the block's chance exp(rate * its score) per piece and the piece's chance to be kept, no more is needed."""
    rank = Rank(quantile)
    edges = blocks(COUNTS, PIECES, first, end, rank, rate)
    assert edges[0] == first and edges[-1] == end and (np.diff(edges) > 0).all()
    of_blocks = clipped(rank, np.diff(rows_before(COUNTS, PIECES, edges)), rate)
    own = rank_scores(dealt_out(COUNTS.tolist(), PIECES)[first:end], quantile, rate)
    surplus = np.repeat(of_blocks, np.diff(edges)) - own
    assert (surplus >= 0).all()
    assert (np.exp(-float(rate) * surplus[own > np.min(own)]) > np.exp(-3)).all()  # and few are rejected


@pytest.mark.full
@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize(("first", "end"), RANGES)
def test_pieces_are_chosen_with_exactly_their_probabilities(first, end, rate):
    """1,500 choices of the median, false alarm 1e-6 in each of 12 tests of chi squared."""
    entropy, rank = TestingEntropy(4), Rank(Fraction(1, 2))
    chosen = [choose_piece(COUNTS, PIECES, first, end, rank, rate, entropy) - first for _ in range(1500)]
    scores = np.array(rank_scores(dealt_out(COUNTS.tolist(), PIECES)[first:end], rank.quantile, rate), dtype=float)
    expected = np.exp(float(rate) * scores)
    expected *= 1500 / expected.sum()
    found, often = np.bincount(chosen, minlength=end - first), expected > 5
    assert found[~often].sum() < 5 * (~often).sum() + 30
    if often.sum() > 1:
        scaled = expected[often] * found[often].sum() / expected[often].sum()
        assert stats.chisquare(found[often], scaled).pvalue > 1e-6


def test_a_cut_off_score_is_a_score_still():
    """Beyond 64 / rate all are as bad."""
    assert clipped(Rank(Fraction(1)), np.array([10, 1000, 1]), Fraction(1)).tolist() == [-64, -1, 0]


def test_tall_cells_and_many_pieces_take_no_time():
    """A million rows on one of 20,000 cells of 65,536 pieces each; laid out it would be ten gigabytes."""
    counts = np.full(20_000, 3)
    counts[7_000] = 10**6
    start = process_time()
    piece = choose_piece(counts, 2**16, 0, 20_000 * 2**16, Rank(Fraction(1, 2)), Fraction(1, 100), TestingEntropy(1))
    assert process_time() - start < 2
    # The median is half a million less 9,000 rows into the heap, and a choice is off by 100 rows; 3,000 is exp(-30).
    assert piece // 2**16 == 7_000
    assert abs(rows_before(counts, 2**16, np.array([piece]))[0] - counts.sum() / 2) < 3_000
