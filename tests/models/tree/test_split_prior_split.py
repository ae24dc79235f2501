"""Splitting a node's rows: against integration on a grid, and nothing is lost on the way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.models.tree.observation import Mixture, Normal
from sfumato.models.tree.split_prior import COMPONENTS, EVEN, FEW, FIRST_FEW, Halves, split

FOUR = np.where(FEW == 4.0, 1.0, 1e-300)
OF_ONE_SIZE = np.array([[12.0], [30.0]]), np.array([[9.0], [16.0]])


def halves(mean: np.ndarray, variance: np.ndarray) -> Halves:
    count = mean.shape[1]
    nothing, same = np.zeros((2, count)), np.ones(count)
    return Halves(mean, variance, nothing, nothing - 4.0, 0.4 * same, same < 0, mean.sum(axis=0), FOUR)


def only(h: Halves, *components: int) -> Mixture:
    """What halves say where only some components are possible, all as common as each other."""
    found = h.together()
    impossible = ~np.isin(np.arange(COMPONENTS), components)
    return replace(found, log_weight=np.where(impossible[:, None], -np.inf, found.log_weight))


@pytest.mark.parametrize("component", [FIRST_FEW, EVEN + 2, EVEN + 4])
def test_what_is_known_from_above_agrees_with_integration(component):
    """One component, and a node of which its surroundings say 60 rows, give or take 5: the distribution of the first
    half on a grid of an eighth of a row."""
    h = halves(*OF_ONE_SIZE)
    mixture = only(h, component)
    below = mixture.component_posterior()[0].moment_matched()
    precision = 1 / below.variance + 1 / 25.0
    whole = Normal((below.mean / below.variance + 60.0 / 25.0) / precision, 1 / precision)
    found = split(h, mixture, whole, below)
    rows, first = np.meshgrid(np.arange(-40.0, 160.0, 0.125), np.arange(-60.0, 100.0, 0.125))
    a, b = rows - first, first
    if component == FIRST_FEW:
        prior = (first - 4.0) ** 2 / 2.4**2
    else:
        prior = (first - 0.4 * rows) ** 2 / ({2: 1 / 32, 4: 1 / 2}[component - EVEN] ** 2 * 42.0**2 * 0.24)
    density = np.exp(-0.5 * ((b - 12.0) ** 2 / 9 + (a - 30.0) ** 2 / 16 + (rows - 60.0) ** 2 / 25 + prior))
    density /= density.sum()
    means = [(density * part).sum() for part in (b, a)]
    spreads = [(density * (part - mean) ** 2).sum() for part, mean in zip((b, a), means, strict=True)]
    assert found.rows[:, 0] == pytest.approx(means, rel=1e-6)
    assert found.rows_variance[:, 0] == pytest.approx(spreads, rel=1e-6)


def test_components_that_do_not_add_up_to_the_node_are_put_right():
    """Rows passed on from below are not quite those of the one component there is; the halves share the node's all the
    same, two fifths and three."""
    h = halves(*OF_ONE_SIZE)
    mixture = only(h, EVEN)
    below = Normal(mixture.mean[EVEN] + 3.0, 1.2 * mixture.variance[EVEN])
    whole = Normal(below.mean + 5.0, 0.5 * below.variance)
    assert split(h, mixture, whole, below).rows[:, 0] == pytest.approx(whole.mean * [0.4, 0.6])


def test_rows_are_neither_lost_nor_made():
    """Whatever is known from above, what both halves hold is what the node holds, chances sum to one, and no variance
    is negative."""
    numbers = np.arange(60.0)
    mean = np.stack([numbers * 37 % 50 - 10, numbers**2 % 400])
    variance = np.stack([1.0 + numbers % 7, 0.01 + numbers * 5 % 90])
    h = halves(mean, variance)
    mixture = only(h, *range(COMPONENTS))
    below = mixture.component_posterior()[0].moment_matched()
    for more in (0.0, 1e-3, 1.0, 1e6):
        precision = (1 + more) / below.variance
        whole = Normal((below.mean + more * (numbers + 5)) / (1 + more), 1 / precision)
        found = split(h, mixture, whole, below)
        assert (found.alive * found.rows).sum(axis=0) == pytest.approx(whole.mean, abs=1e-6)
        assert found.chances.sum(axis=0) == pytest.approx(1.0) and (found.alive > 0).all()
        assert (found.variance >= 0).all() and (found.rows_variance > 0).all()
