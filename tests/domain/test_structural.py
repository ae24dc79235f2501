"""Structural zeros: what follows from stated rules, against a walk over all combinations."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from sfumato.domain.structural import Excluded, Function, Structure

SHAPE = (4, 3, 2, 5)


def some_structure(seed: int) -> Structure:
    random = np.random.default_rng(seed)
    rules = []
    for _ in range(3):
        places = random.choice(4, size=random.integers(2, 4), replace=False).tolist()
        rules.append(Excluded({place: random.random(SHAPE[place]) < 0.6 for place in places}))
    image = random.integers(0, 3, 5)
    return Structure(SHAPE, tuple(rules), (Function(3, 1, image, 3),))


@pytest.mark.parametrize("seed", range(12))
def test_marginals_of_possible_combinations_are_those_of_a_walk(seed):
    """Every combination of all axes that agrees with the rules, projected on each set of axes."""
    structure = some_structure(seed)
    rows = np.array([*product(*map(range, SHAPE))]).T
    good = structure.agrees(rows)
    every = good.reshape(SHAPE)
    for order in (1, 2, 3, 4):
        for places in combinations(range(4), order):
            projected = every.any(axis=tuple(axis for axis in range(4) if axis not in places))
            found = structure.possible(places)
            assert np.array_equal(np.ones_like(projected) if found is None else found, projected)


def test_classes_are_possible_where_some_member_is():
    structure = some_structure(1)
    flags = structure.possible((0, 3))
    kinds = {0: np.array([0, 0, 1, 1]), 3: np.array([0, 1, 1, 2, 2])}
    found = structure.by_class(kinds)
    wanted = np.zeros((2, 3), dtype=bool)
    for cell in product(range(4), range(5)):
        wanted[kinds[0][cell[0]], kinds[3][cell[1]]] |= True if flags is None else flags[cell]
    assert np.array_equal(np.ones_like(wanted) if found is None else found, wanted)


def test_rows_agree_or_not():
    structure = Structure((2, 2), (Excluded({0: np.array([True, False]), 1: np.array([False, True])}),))
    assert structure.agrees(np.array([[0, 0, 1], [0, 1, 1]])).tolist() == [True, False, True]
    assert structure.possible((0,)) is None
    assert Structure((2, 2)).possible((0, 1)) is None
