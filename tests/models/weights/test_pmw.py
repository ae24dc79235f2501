"""PMW: what it spends, when it updates, and how often its intervals hold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of
from shaped_tables import CELLS, SHAPES, coverage, line

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models.weights.measure import Stream, pmw, search_noise
from sfumato.queries import AllRanges


def test_spends_exactly_its_budget_with_measures_and_several_rows_per_person():
    schema = line(contributions=3, measures={"m": {"lower": 0, "upper": 10, "missing": "drop"}})
    for shape in SHAPES.values():  # among them one where no query is ever found
        curator = curator_of(schema, shape, epsilon=Fraction(3, 7))
        pmw(curator, schema, Budget.pure(Fraction(3, 7)))
        assert curator.charge.fullest == curator.charge.limit == Fraction(1, 7)


def test_pays_only_for_queries_that_it_answers_badly():
    """An even table is what it starts from. A round that finds nothing leaves its share to measuring the error.

    1,176 ranges, of which 24 x 25 touch a middle cell; half of a tenth of epsilon, and of four
    more where nothing was found. Noise
    alone is found in about half of the searches, so that 20 of them are all alike in one case of a million.
    """
    even, scales = np.full(CELLS, 10**6), set()
    for seed in range(20):
        curator = curator_of(line(), even, entropy=TestingEntropy(seed))
        scales.add(pmw(curator, line(), Budget.pure(1), settings=Stream(rounds=1)).fits[0].inner.misfit.noise.scale)
    assert scales == {600 / Fraction(1, 20), 600 / Fraction(5, 20)}


def test_learns_what_an_even_spread_of_the_total_would_miss():
    counts = SHAPES["spike"] * 10
    fit = pmw(curator_of(line(), counts, epsilon=10), line(), Budget.pure(10)).fits[0]
    errors = AllRanges(CELLS) @ (fit.estimate - counts)
    even = AllRanges(CELLS) @ (counts.sum() / CELLS - counts)
    assert np.sqrt(np.mean(errors**2)) < 0.1 * np.sqrt(np.mean(even**2))


def test_the_same_bits_give_the_same_cube():
    one, other = (pmw(curator_of(line(), SHAPES["sparse"]), line(), Budget.pure(1)).fits[0] for _ in range(2))
    assert np.array_equal(one.estimate, other.estimate) and np.array_equal(one.scales.factors, other.scales.factors)


@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_hold_as_many_of_the_workloads_queries_as_they_say(shape):
    """15 releases. The share held varies by 0.08 between releases, so their mean by 0.021: five of these below 0.95."""
    assert coverage(pmw, SHAPES[shape], 15) > 0.95 - 5 * 0.021


def test_the_threshold_is_what_noise_alone_reaches():
    """The largest of 1,000 Laplace noises of scale 4 k / epsilon passes it with a chance of about one half."""
    assert search_noise(Budget.pure(1), 1000, 1) == 28
    assert search_noise(Budget.pure(Fraction(1, 2)), 1000, 3) == 166
