"""Noise is taken out of dependent pairs, and all of it where there is nothing but noise.

Noise comes from a seeded generator, so nothing here is left to chance; bounds have room for another seed.
"""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.margins.shrinkage import Directions, shrink_cells, shrink_pairs
from sfumato.models.margins.table import independent

ROWS = 20_000.0
PLACES = (0, 1)


def diagonal(first: int, second: int, strength: float) -> np.ndarray:
    """A table whose rows gather around a diagonal; strength 0 is independence."""
    a, b = np.meshgrid(np.linspace(0, 1, first), np.linspace(0, 1, second), indexing="ij")
    table = np.exp(-2 * a - b) * ((1 - strength) + strength * 4 * np.exp(-(((a - b) / 0.2) ** 2)))
    return ROWS * table / table.sum()


def product_of(table: np.ndarray) -> np.ndarray:
    return independent([table.sum(axis=1), table.sum(axis=0)], float(table.sum()))


def shrunk(table: np.ndarray, deviation: float, seed: int, ordered: bool = True, said=()):
    noisy = table + np.random.default_rng(seed).normal(0.0, deviation, table.shape)
    along = tuple(Directions.of(margin / table.sum(), ordered) for margin in (table.sum(axis=1), table.sum(axis=0)))
    seen = {PLACES: (noisy, deviation**2)}
    found, _ = shrink_pairs(seen, {PLACES: product_of(table)}, {PLACES: list(said)}, {PLACES: along})
    return noisy, found[PLACES]


def distance(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first - second).sum())


@pytest.mark.parametrize(("ordered", "deviation", "most"), [(True, 20, 0.7), (True, 40, 0.55), (False, 40, 0.8)])
def test_a_dependent_pair_is_nearer_than_its_noise_and_than_its_product(ordered, deviation, most):
    """An order leaves 0.63 and 0.48 of the noise, no order 0.75 at worst; four draws of each."""
    truth = diagonal(20, 15, 0.8)
    for seed in range(4):
        noisy, found = shrunk(truth, deviation, seed, ordered)
        assert distance(found.estimate, truth) < most * distance(noisy, truth)
        assert distance(found.estimate, truth) < 0.6 * distance(product_of(truth), truth)


def test_an_order_helps_where_there_is_one():
    truth, both = diagonal(20, 15, 0.8), []
    for ordered in (True, False):
        both.append(sum(distance(shrunk(truth, 40.0, seed, ordered)[1].estimate, truth) for seed in range(4)))
    assert both[0] < 0.85 * both[1]


def test_where_there_is_only_noise_the_product_is_left():
    """Under a tenth of the noise, of which a pair of 300 cells has 300 numbers' worth."""
    truth = diagonal(20, 15, 0.0)
    for seed in range(4):
        noisy, found = shrunk(truth, 40.0, seed)
        assert distance(found.estimate, truth) < 0.1 * distance(noisy, truth)


def test_without_noise_a_pair_comes_back_as_it_is():
    truth = diagonal(12, 7, 0.5)
    _, found = shrunk(truth, 1e-4, 1)
    assert np.allclose(found.estimate, truth, atol=0.01)
    assert found.noise.max() < 1e-6 and found.model.max() < 1e-6


def test_what_others_say_of_a_pair_is_believed_if_its_own_counts_agree():
    truth = diagonal(20, 15, 0.8)
    wrong = diagonal(20, 15, 0.8)[::-1]
    wrong = wrong * (product_of(truth).sum() / wrong.sum())
    by_said = {}
    for name, said in (("nothing", []), ("right", [truth]), ("wrong", [wrong])):
        by_said[name] = np.mean([distance(shrunk(truth, 60.0, s, False, said)[1].estimate, truth) for s in range(4)])
    assert by_said["right"] < 0.3 * by_said["nothing"]
    assert by_said["wrong"] < 1.15 * by_said["nothing"]


def test_the_variances_are_about_those_of_the_errors():
    """Over 8 draws of 300 cells, within a factor of two: they are a model's."""
    truth, squares, stated = diagonal(20, 15, 0.8), [], []
    for seed in range(8):
        _, found = shrunk(truth, 40.0, seed)
        squares.append(float(((found.estimate - truth) ** 2).mean()))
        stated.append(float((found.noise + found.model).mean()))
    assert 0.5 < np.mean(stated) / np.mean(squares) < 2.0


def test_directions_leave_sums_alone_and_the_largest_comes_first():
    share = np.random.default_rng(2).dirichlet(np.ones(9))
    for seen in (None, np.diag(share), np.zeros((9, 9))):
        found = Directions.of(share, True, seen)
        assert found.vectors.shape == (9, 8) and (np.diff(found.sizes) <= 1e-9).all()
        assert np.allclose(found.vectors.T @ found.vectors, np.eye(8), atol=1e-6)
        assert np.abs(found.vectors.sum(axis=0)).max() < 1e-4


def test_an_attribute_with_one_value_says_nothing():
    truth = np.array([[30.0, 70.0]])
    assert np.allclose(shrunk(truth, 5.0, 1)[1].estimate, truth)


def test_cells_are_drawn_towards_a_guess_by_as_much_as_they_scatter_around_it():
    rng = np.random.default_rng(3)
    guess = rng.gamma(2.0, 50.0, (6, 5, 4))
    far = guess * rng.lognormal(0.0, 1.0, guess.shape)
    for truth, most in ((guess, 0.4), (far, 1.0)):
        noisy = truth + rng.normal(0.0, 30.0, truth.shape)
        found = shrink_cells(noisy, 900.0, guess)
        assert distance(found.estimate, truth) < most * distance(noisy, truth)
        assert (found.noise + found.model <= 900.0 + 1e-9).all()
    assert np.allclose(shrink_cells(far, 1e-8, guess).estimate, far, atol=1e-3)
