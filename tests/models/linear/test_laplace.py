"""Noise straight on the workload: its error is its closed form, and what it does not know it says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from curators import curator_of
from grid_tables import line

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.models.linear.measure import MOST_QUERIES, laplace, laplace_refuses, laplace_strategy
from sfumato.queries import AllRanges, Ranges, Weighted, Workload, default_workload


def test_asks_the_queries_themselves_and_spends_all():
    schema, counts = line(6), np.arange(6)
    curator = curator_of(schema, counts, epsilon=Fraction(1, 3))
    cube = laplace(curator, schema, Budget.pure(Fraction(1, 3)))
    assert curator.charge.fullest == curator.charge.limit
    (fit,) = cube.fits
    (measured,) = fit.measurements
    assert np.array_equal(measured.queries.dense(), AllRanges(6).dense())
    assert measured.noise.scale == 12 * 3  # the middle cell lies in 3 x 4 of the 21 ranges


def test_the_error_of_a_workload_of_disjoint_ranges_is_that_of_its_noise():
    """2,000 answers; the mean square of Laplace noise has a relative standard error of sqrt(5 / 2000): 5.5 of them."""
    schema, counts = line(400), np.arange(400) * 10
    workload = Workload(("pairs",), (Ranges(400, np.arange(0, 400, 2), np.arange(1, 400, 2)),))
    squares = []
    for seed in range(10):
        curator = curator_of(schema, counts, entropy=TestingEntropy(seed))
        (fit,) = laplace(curator, schema, Budget.pure(1), workload).fits
        squares += np.square(workload.queries @ (fit.estimate - counts)).tolist()
    expected = fit.measurements[0].noise.variance
    assert abs(np.mean(squares) / expected - 1) < 5.5 * np.sqrt(5 / 2000)


def test_what_the_queries_do_not_determine_is_unknown():
    schema = line(4)
    curator = curator_of(schema, [5, 6, 7, 8], entropy=SystemEntropy())
    (fit,) = laplace(curator, schema, Budget.pure(1), Workload(("w",), (Ranges(4, [0, 2], [1, 3]),))).fits
    errors = fit.errors(np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]))
    assert errors.unknown.tolist() == [False, True, False]


def test_measures_are_asked_the_same_queries():
    schema = line(5, measures={"m": {"lower": 0, "upper": 10, "missing": "drop"}})
    cube = laplace(curator_of(schema, np.ones(5)), schema, Budget.pure(1))
    assert [fit.of for fit in cube.fits] == ["count", "m"]
    assert [fit.measurements[0].queries.rows for fit in cube.fits] == [15, 15]


def test_refuses_what_cannot_be_asked_one_by_one_and_says_what_to_do():
    small, large = line(30), line(2000)
    assert laplace_refuses(small, default_workload(small.domain)) is None
    why = laplace_refuses(large, default_workload(large.domain))
    assert default_workload(large.domain).queries.rows > MOST_QUERIES
    assert why is not None and "--workload" in why and "hierarchical" in why
    fractions = Workload(("w",), (Weighted([[0.5] * 30]),))
    assert "whole numbers" in (laplace_refuses(small, fractions) or "")
    assert laplace_strategy(small, default_workload(small.domain), True).weights == (1,)
