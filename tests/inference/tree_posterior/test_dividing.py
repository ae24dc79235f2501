"""Dividing a region's rows: against the mixture written out on a grid, and nothing is lost on the way."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.inference.tree_posterior.dividing import DOUBT, Law, as_one, divided
from sfumato.inference.tree_posterior.split_prior import EVEN, FEW, FIRST_FEW, SECOND_EMPTY, WAYS, Halves

FOUR = np.where(FEW == 4.0, 1.0, 1e-300)
OF_ONE_SIZE = np.array([[12.0], [30.0]]), np.array([[9.0], [16.0]])


def halves(mean: np.ndarray, variance: np.ndarray) -> Halves:
    count = mean.shape[1]
    nothing, same = np.zeros((2, count)), np.ones(count)
    return Halves(mean, variance, nothing, nothing - 4.0, 0.4 * same, same < 0, mean.sum(axis=0), FOUR)


def with_ways(h: Halves, *ways: int) -> tuple[np.ndarray, Law]:
    """What halves say where only some ways are possible, all as common as each other."""
    weight, mean, variance = h.together()
    weight[np.delete(np.arange(WAYS), ways)] = -np.inf
    return weight, Law(mean, variance)


def test_a_mixture_becomes_the_normal_law_of_its_moments():
    likely = np.log(np.array([[0.2, 3.0], [0.6, 1e-300]]))
    law, weight = as_one(likely, Law(np.array([[1.0, 5.0], [9.0, 0.0]]), np.array([[4.0, 2.0], [1.0, 1.0]])))
    assert np.exp(weight) == pytest.approx([0.8, 3.0])
    assert law.mean == pytest.approx([7.0, 5.0])
    assert law.variance == pytest.approx([0.25 * (4 + 36) + 0.75 * (1 + 4), 2.0])


def test_without_more_from_above_the_ways_are_mixed_as_they_are_likely():
    """Of the root: nothing is known but what its parts say, so the law of (first half, region) is a mixture of the
    laws that each way has of its own."""
    h = halves(*OF_ONE_SIZE)
    ways = [SECOND_EMPTY, FIRST_FEW, EVEN, EVEN + 3]
    likely, states = with_ways(h, *ways)
    whole, _ = as_one(likely, states)
    found = divided(h, likely, states, whole, whole)
    chances = np.exp(likely[:, 0]) / np.exp(likely[:, 0]).sum()
    assert found.chances[:, 0] == pytest.approx(chances) and found.lives[:, 0] == pytest.approx(
        [1.0, 1.0 - chances[SECOND_EMPTY]]
    )
    first, slope, within = (part[:, 0] for part in h.divide(states.mean))
    rows, known = states.mean[:, 0], states.variance[:, 0]
    middle, centre = chances @ first, chances @ rows
    spread = chances @ (known + (rows - centre) ** 2)
    together = chances @ (slope * known + (first - middle) * (rows - centre))
    own = chances @ (slope**2 * known + within + (first - middle) ** 2)
    regression = together / spread
    between = chances @ (first - middle - regression * (rows - centre)) ** 2
    assert found.slope[0] == pytest.approx(regression)
    assert found.variance[0] == pytest.approx(own - regression * together + (DOUBT - 1) * between)
    assert found.rows[0, 0] == pytest.approx(middle) and found.spread[0, 0] == pytest.approx(own)
    there = np.delete(np.arange(WAYS), SECOND_EMPTY)
    lives, second = chances[there].sum(), rows - first
    square = chances[there] @ ((1 - slope[there]) ** 2 * known[there] + within[there] + second[there] ** 2)
    assert found.rows[1, 0] == pytest.approx(chances[there] @ second[there] / lives)
    assert found.spread[1, 0] == pytest.approx(square / lives - found.rows[1, 0] ** 2)


@pytest.mark.parametrize("way", [FIRST_FEW, EVEN + 2, EVEN + 4])
def test_what_is_known_from_above_agrees_with_integration(way):
    """One way, and a region of which its surroundings say 60 rows, give or take 5: the law of the first half on a grid
    of an eighth of a row."""
    h = halves(*OF_ONE_SIZE)
    likely, states = with_ways(h, way)
    below, _ = as_one(likely, states)
    precision = 1 / below.variance + 1 / 25.0
    whole = Law((below.mean / below.variance + 60.0 / 25.0) / precision, 1 / precision)
    found = divided(h, likely, states, whole, below)
    rows, first = np.meshgrid(np.arange(-40.0, 160.0, 0.125), np.arange(-60.0, 100.0, 0.125))
    a, b = rows - first, first
    if way == FIRST_FEW:
        prior = (first - 4.0) ** 2 / 2.4**2
    else:
        prior = (first - 0.4 * rows) ** 2 / ({2: 1 / 32, 4: 1 / 2}[way - EVEN] ** 2 * 42.0**2 * 0.24)
    law = np.exp(-0.5 * ((b - 12.0) ** 2 / 9 + (a - 30.0) ** 2 / 16 + (rows - 60.0) ** 2 / 25 + prior))
    law /= law.sum()
    means = [(law * part).sum() for part in (b, a)]
    spreads = [(law * (part - mean) ** 2).sum() for part, mean in zip((b, a), means, strict=True)]
    assert found.rows[:, 0] == pytest.approx(means, rel=1e-6)
    assert found.spread[:, 0] == pytest.approx(spreads, rel=1e-6)


def test_ways_that_do_not_add_up_to_the_region_are_put_right():
    """Rows passed on from below are not quite those of the one way there is; the halves share the region's all the
    same, two fifths and three."""
    h = halves(*OF_ONE_SIZE)
    likely, states = with_ways(h, EVEN)
    below = Law(states.mean[EVEN] + 3.0, 1.2 * states.variance[EVEN])
    whole = Law(below.mean + 5.0, 0.5 * below.variance)
    assert divided(h, likely, states, whole, below).rows[:, 0] == pytest.approx(whole.mean * [0.4, 0.6])


def test_rows_are_neither_lost_nor_made():
    """Whatever is known from above, what both halves hold is what the region holds, chances sum to one, and no variance
    is negative."""
    numbers = np.arange(60.0)
    mean = np.stack([numbers * 37 % 50 - 10, numbers**2 % 400])
    variance = np.stack([1.0 + numbers % 7, 0.01 + numbers * 5 % 90])
    h = halves(mean, variance)
    likely, states = with_ways(h, *range(WAYS))
    below, _ = as_one(likely, states)
    for more in (0.0, 1e-3, 1.0, 1e6):
        precision = (1 + more) / below.variance
        whole = Law((below.mean + more * (numbers + 5)) / (1 + more), 1 / precision)
        found = divided(h, likely, states, whole, below)
        assert (found.lives * found.rows).sum(axis=0) == pytest.approx(whole.mean, abs=1e-6)
        assert found.chances.sum(axis=0) == pytest.approx(1.0) and (found.lives > 0).all()
        assert (found.variance >= 0).all() and (found.spread > 0).all()
