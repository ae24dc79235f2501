"""Least squares that is solved when it is asked: the estimates of the fit that keeps them, and files without."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of
from fitted import SCHEMA, SIZE

from sfumato.answers.fit import PARTS, FitReader
from sfumato.errors import QueryError
from sfumato.measurement import Measurement
from sfumato.models.linear.fit import FINENESS, LinearFit, SolvedFit
from sfumato.queries import Identity, Kron, NominalHaar, Queries, Stack, Total, Tree

TREE = Tree(7, 2)


def measured(queries: Queries, scales: object = Fraction(2), which: object = None) -> Measurement:
    curator = curator_of(SCHEMA, np.arange(SIZE) * 7, epsilon=10)
    return curator.measure(queries, scales=scales, which=which)


def asked() -> list[Measurement]:
    """By trees, and a noise for each of their levels; by a wavelet; by the cells alone."""
    levels = np.repeat(TREE.row_level, 2)
    return [
        measured(Kron(TREE, Identity(2)), [Fraction(k) for k in (2, 3, 5, 4)], levels),
        measured(Kron(TREE, NominalHaar(2)), Fraction(8)),
        measured(Identity(SIZE)),
    ]


@pytest.mark.parametrize("number", range(3))
def test_estimates_are_those_of_the_fit_that_keeps_them(number):
    found = SolvedFit.of_answers(asked()[number])
    kept = LinearFit.of_answers(found.measurement)
    assert isinstance(found, SolvedFit)
    assert np.abs(found.estimate - kept.estimate).max() <= 0.5 / PARTS + 1 / FINENESS
    columns = np.column_stack([np.ones(SIZE), np.arange(SIZE) / 8.0])
    assert np.allclose(found.errors(columns).weights, kept.errors(columns).weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("number", range(3))
def test_sums_along_some_attributes_are_sums_of_estimates(number):
    """Also where all cells are one axis to the queries, and two to the domain."""
    fit = SolvedFit.of_answers(asked()[number])
    cells = fit.estimate.reshape(SCHEMA.domain.shape)
    for places in ([], [0], [1], [0, 1]):
        others = tuple({0, 1} - set(places))
        summed = fit.sums(SCHEMA.domain, places)
        assert np.abs(summed - cells.sum(axis=others).reshape(-1)).max() <= SIZE / FINENESS


def test_cells_that_were_measured_by_themselves_are_the_answers():
    fit = SolvedFit.of_answers(asked()[2])
    assert np.array_equal(fit.estimate, fit.measurement.answers)


def test_what_takes_long_is_solved_once_and_kept():
    stack = measured(Stack(Identity(SIZE), Kron(Tree(7, 2), Total(2))), Fraction(4))
    assert type(SolvedFit.of_answers(stack)) is LinearFit


def test_a_file_that_leaves_out_what_it_cannot_is_refused():
    for queries in (Total(SIZE), Kron(TREE, Total(2))):
        reader = FitReader(SCHEMA.domain, None, {}, [lambda columns, queries=queries: measured(queries)])
        with pytest.raises(QueryError, match="quickly solved"):
            SolvedFit.read(reader)


def test_a_fit_that_needs_its_estimate_says_that_it_is_missing():
    reader = FitReader(SCHEMA.domain, None, {}, [lambda columns: measured(Identity(SIZE))])
    with pytest.raises(QueryError, match="lacks an estimate"):
        LinearFit.read(reader)
