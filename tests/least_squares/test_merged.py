"""Taking cells together that count alike gives the same noises as laying out every cell."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import pytest

from sfumato.least_squares.classes import Merged, told_apart
from sfumato.measurement import Design, Gaussian, Laplace, Measurement
from sfumato.models.linear.fit import LinearFit
from sfumato.queries import (
    Haar,
    Identity,
    Kron,
    Marginals,
    NominalHaar,
    Prefix,
    Queries,
    Ranges,
    Stack,
    Total,
    Tree,
    Weighted,
)

SHAPE = (9, 4, 3)
HALVES = Ranges(9, [0, 4], [3, 8])
STRATEGIES: dict[str, Queries] = {
    "trees": Kron(Tree(9, 3), Identity(4), Tree(3, 3)),
    "uneven tree": Kron(Tree(9, 2), Identity(4), Tree(3, 2)),
    "wavelets": Kron(Haar(9), NominalHaar(4), Identity(3)),
    "tables": Marginals(SHAPE, [(0, 1, 2), (0,), (1, 2), ()]),
    "tables of levels": Stack(Kron(Identity(9), Identity(4), Identity(3)), Kron(HALVES, Total(4), Identity(3))),
    "written out": Kron(Stack(Identity(9), Weighted([[1] * 4 + [2] * 5])), Identity(4), Identity(3)),
    "too little": Marginals(SHAPE, [(0,), (1, 2)]),
}


def design(queries: Queries, laplace: bool) -> Design:
    """Blocks, and levels of trees, with noise of their own."""
    blocks = queries.blocks if isinstance(queries, Stack) else (queries,)
    noises, which = [], []
    for block in blocks:
        firsts = [factor.rows - factor.columns if type(factor) is Tree else 0 for factor in block.factors]
        upper = [(np.arange(f.rows) < first).astype(int) for f, first in zip(block.factors, firsts, strict=True)]
        levels = np.zeros(1, dtype=np.int64)
        for each in upper:
            levels = (levels[:, None] * 2 + each).reshape(-1)
        which.append(len(noises) + levels)
        scales = [prod(3 if level >> axis & 1 else 2 for axis in range(3)) * (1 + len(noises)) for level in range(8)]
        noises += [Laplace(Fraction(s)) if laplace else Gaussian(Fraction(s**2)) for s in scales]
    return Design(queries, tuple(noises), np.concatenate(which))


def kinds(which: np.ndarray, weights: np.ndarray, counts: np.ndarray) -> dict[tuple[float, ...], int]:
    """How many rows there are of each noise and each weight."""
    found: dict[tuple[float, ...], int] = {}
    for noise, row, count in zip(which, weights, counts, strict=True):
        if np.abs(row).max() > 1e-9:
            key = (int(noise), *np.round(np.pi * np.abs(row), 7).tolist())  # halves would round either way
            found[key] = found.get(key, 0) + int(count)
    return found


def columns(stream: np.random.Generator) -> np.ndarray:
    """One value of the first axis, some of the second, and a part of all cells: sums that a query asks for."""
    one = np.zeros((9, 1, 1))
    one[stream.integers(9)] = 1.0
    some = stream.integers(0, 2, (1, 4, 1)) * 0.5
    return np.stack(np.broadcast_arrays(one * np.ones(SHAPE), one * some, np.full(SHAPE, 0.25)), axis=-1)


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("name", STRATEGIES)
def test_noises_are_those_of_all_cells(name, laplace):
    asked = design(STRATEGIES[name], laplace)
    merged = Merged.of(asked, SHAPE)
    assert merged is not None
    fit = LinearFit(
        Measurement("count", asked.queries, np.zeros(asked.queries.rows, dtype=np.int64), asked.noises, asked.which),
        np.zeros(prod(SHAPE)),
    )
    stream = np.random.default_rng(7)
    for _ in range(5):
        cube = columns(stream)
        axes = [merged.along(place, told_apart(np.moveaxis(cube, place, 0))) for place in range(3)]
        assert all(axis is not None for axis in axes)
        small = cube[np.ix_(*(axis.first for axis in axes))].reshape(-1, 3)
        found = merged.errors(axes, small)
        plain = fit.errors(cube.reshape(-1, 3))
        assert found.known.tolist() == (~plain.unknown).tolist()
        kept = found.known
        ones = np.ones(len(plain.weights))
        assert kinds(found.design.which, found.weights[:, kept], found.counts) == kinds(
            asked.which, plain.weights[:, kept], ones
        )


def test_alike_sums_are_solved_once():
    """Every value of an evenly branching tree has the same noise."""
    merged = Merged.of(design(STRATEGIES["trees"], True), SHAPE)
    found = set()
    for code in range(9):
        one = (np.arange(9) == code).astype(np.int64)
        axes = [merged.along(0, one), merged.along(1, np.zeros(4, np.int64)), merged.along(2, np.zeros(3, np.int64))]
        weights = np.array([[1.0 if one[cell] else 0.0] for cell in axes[0].first])
        found.add(id(merged.errors(axes, weights)))
        assert [len(axis.first) for axis in axes] == [3, 1, 1]
    assert len(found) == 1


def test_what_is_no_product_is_left_to_others():
    assert Merged.of(Design(Prefix(12), (Laplace(Fraction(1)),)), (3, 4)) is None
    assert Merged.of(Design(Prefix(12), (Laplace(Fraction(1)),)), (12,)) is not None
    many = Merged.of(Design(Prefix(300), (Laplace(Fraction(1)),)), (300,))
    assert many.along(0, np.arange(300)) is None


def test_an_axis_may_stay_as_it_is_where_others_are_merged():
    """An average along 200 values, for one of 64: the noises are those of all cells."""
    asked = Design(Kron(Tree(64, 2), Tree(200, 2)), (Laplace(Fraction(2)),))
    merged = Merged.of(asked, (64, 200))
    weights = np.stack([np.ones(200), np.arange(200.0)], axis=1)
    told = [(np.arange(64) == 7).astype(np.int64), np.arange(200)]
    axes = [merged.along(place, each) for place, each in enumerate(told)]
    assert [len(axis.first) for axis in axes] == [len(axes[0].first), 200] and not merged.too_many(axes)
    assert len(axes[0].first) < 10
    inside = (told[0][axes[0].first] == 1)[:, None, None]
    found = merged.errors(axes, (inside * weights).reshape(-1, 2))
    plain = LinearFit(
        Measurement("count", asked.queries, np.zeros(asked.queries.rows, dtype=np.int64), asked.noises),
        np.zeros(64 * 200),
    ).errors(((told[0] == 1)[:, None, None] * weights).reshape(-1, 2))
    squares = plain.weights.T @ plain.weights
    assert np.allclose(found.weights.T @ (found.counts[:, None] * found.weights), squares, rtol=1e-9)
    again = [merged.along(0, (np.arange(64) == 8).astype(np.int64)), axes[1]]
    assert merged.too_many([axes[1], axes[1]]) and len(again[0].first) < 10
