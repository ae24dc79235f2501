"""Estimates axis by axis: those of the dense equations, for all cells and for sums over any of the axes."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from sfumato.measurement import Design, Laplace
from sfumato.models.linear import fit as module
from sfumato.models.linear.fit import axes_of, estimates, inverse_of
from sfumato.queries import Haar, Identity, Kron, NominalHaar, Stack, Total, Tree

TREE, OTHER = Tree(7, 2), Tree(5, 3)
LEVELS = (TREE.row_level[:, None] * 3 + OTHER.row_level).reshape(-1)
SCALES = tuple(Laplace(Fraction(x * y, 7)) for x in (1, 2, 3, 5) for y in (2, 3, 11))
DESIGNS = {
    "cells": Design(Identity(6), (Laplace(Fraction(2)),)),
    "one axis": Design(TREE, tuple(Laplace(Fraction(k)) for k in (1, 3, 4, 2)), TREE.row_level),
    "trees": Design(Kron(TREE, OTHER), SCALES, LEVELS),
    "three axes": Design(Kron(Tree(3, 2), Identity(2), NominalHaar(3)), (Laplace(Fraction(5, 2)),)),
    "wavelets": Design(Kron(Haar(6), Identity(1)), (Laplace(Fraction(1)),)),
    "tables": Design(Stack(Kron(Identity(2), Total(3)), Kron(Identity(2), Identity(3))), (Laplace(Fraction(1)),)),
}


def dense(design: Design, answers) -> np.ndarray:
    A, precisions = design.queries.dense().astype(float), 1.0 / design.sizes
    return np.linalg.solve((A.T * precisions) @ A, A.T @ (precisions * answers))


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("at_once", [1, 20, 2**18])
def test_cells_and_sums_are_those_of_the_dense_equations(name, at_once, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    design = DESIGNS[name]
    answers = np.random.default_rng(1).integers(-50, 50, design.queries.rows)
    axes = axes_of(design)
    assert axes is not None
    cells = dense(design, answers).reshape([axis.queries.columns for axis in axes])
    for count in range(cells.ndim + 1):
        for kept in combinations(range(cells.ndim), count):
            others = tuple(set(range(cells.ndim)) - set(kept))
            assert np.allclose(estimates(axes, answers, kept), cells.sum(axis=others).reshape(-1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", DESIGNS)
def test_the_inverse_is_the_dense_one(name):
    design = DESIGNS[name]
    A = design.queries.dense().astype(float)
    columns = np.random.default_rng(2).normal(size=(design.queries.columns, 3))
    solved, known = inverse_of(axes_of(design)).solve(columns)
    assert known.all()
    assert np.allclose((A.T / design.sizes) @ A @ solved, columns, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "design",
    [
        Design(Kron(TREE, Total(2)), (Laplace(Fraction(1)),)),  # cells of the second axis are not told apart
        Design(Kron(TREE, OTHER), SCALES[:2], np.arange(TREE.rows * OTHER.rows) % 7 // 6),  # noises are no products
        Design(Kron(TREE, OTHER), SCALES[:3], np.minimum(LEVELS, 2)),
        Design(Stack(Identity(6), Kron(Tree(2, 2), Total(3))), (Laplace(Fraction(1)),)),  # solved by iteration
        Design(Total(3), (Laplace(Fraction(1)),)),
    ],
)
def test_what_is_not_quickly_solved_has_no_axes(design):
    assert axes_of(design) is None


def test_tables_by_many_short_attributes_are_solved_once_and_kept():
    """Solving lays out 1.5 times the cells for every attribute of two values."""
    few, many = (Stack(Kron(*[Total(2)] * count), Kron(*[Identity(2)] * count)) for count in (5, 6))
    assert axes_of(Design(few, (Laplace(Fraction(1)),))) is not None
    assert axes_of(Design(many, (Laplace(Fraction(1)),))) is None
