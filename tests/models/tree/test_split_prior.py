"""The components of how rows fall into halves, each against integration on a grid, which knows no closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.models.tree.split_prior import (
    AROUND,
    COMPONENTS,
    EVEN,
    FEW,
    FIRST_EMPTY,
    FIRST_FEW,
    NEARLY,
    SECOND_EMPTY,
    SECOND_FEW,
    Halves,
)

ALL_FOUR = np.where(FEW == 4.0, 1.0, 1e-300)  # how common sizes are where every half with few rows holds about four


def one(value: float) -> np.ndarray:
    return np.array([value])


def halves(share: float = 0.4, common: np.ndarray = ALL_FOUR, *, alone: bool = False, rows: float = 30.0) -> Halves:
    """One node, of which the halves are said to hold about 7 rows and 21."""
    mean, variance = np.array([[7.0], [21.0]]), np.array([[9.0], [16.0]])
    weight, zero = np.array([[-1.25], [0.5]]), np.array([[-3.0], [-8.0]])
    return Halves(mean, variance, weight, zero, one(share), np.array([alone]), one(rows), common)


def normal(x: np.ndarray, mean: float, variance: float) -> np.ndarray:
    return np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def few_rows(x: np.ndarray, common: np.ndarray, rows: float) -> np.ndarray:
    """The distribution of a half that holds few rows."""
    there = common * (rows >= FEW)
    return sum(p * normal(x, size, (AROUND * size) ** 2) for p, size in zip(there / there.sum(), FEW, strict=True))


STEP = 0.125
FIRST = np.arange(-60.0, 120.0, STEP)  # rows of the first half
WHOLE = np.arange(-90.0, 180.0, STEP)  # and of the node


def by_integration(h: Halves, component: int) -> np.ndarray:
    """The likelihood of what is known below, for a grid of (rows of the first half, rows of the node)."""
    first, whole = FIRST[:, None], WHOLE[None, :]
    (m1, m2), (v1, v2) = h.mean[:, 0], h.variance[:, 0]
    below = np.exp(h.weight.sum()) * normal(first, m1, v1) * normal(whole - first, m2, v2)
    if component == FIRST_FEW:
        return below * few_rows(first, h.common, h.rows[0])
    if component == SECOND_FEW:
        return below * few_rows(whole - first, h.common, h.rows[0])
    deviation = NEARLY[component - EVEN - 1] * h.rows[0] * np.sqrt(h.share[0] * (1 - h.share[0]))
    return below * normal(first, h.share[0] * whole, deviation**2)


@pytest.mark.parametrize("component", [component for component in range(FIRST_FEW, COMPONENTS) if component != EVEN])
def test_what_halves_say_of_their_node_agrees_with_integration(component):
    """Rectangles of an eighth of a row; the narrowest deviation is about one. Three sizes of few rows."""
    h = halves(common=np.where((FEW > 1) & (FEW < 100), 1 / 3, 1e-300), rows=300.0)
    whole = by_integration(h, component).sum(axis=0) * STEP
    weight, mean = whole.sum() * STEP, (whole * WHOLE).sum() / whole.sum()
    variance = (whole * (WHOLE - mean) ** 2).sum() / whole.sum()
    found = h.together()
    found = [part[component, 0] for part in (found.log_weight, found.mean, found.variance)]
    assert found == pytest.approx([np.log(weight), mean, variance], rel=1e-6)


@pytest.mark.parametrize("component", [component for component in range(FIRST_FEW, COMPONENTS) if component != EVEN])
@pytest.mark.parametrize("share", [0.4, 0.9])
def test_a_node_is_divided_as_integration_does(component, share):
    h = halves(share, rows=300.0)
    grid, middles = by_integration(h, component), []
    for rows in (20.0, 31.0):
        column = grid[:, np.searchsorted(WHOLE, rows)]
        middle = (column * FIRST).sum() / column.sum()
        spread = (column * (FIRST - middle) ** 2).sum() / column.sum()
        first, slope, variance = (part[component, 0] for part in h.divide(np.full((COMPONENTS, 1), rows)))
        assert (first, variance) == pytest.approx((middle, spread), rel=1e-6)
        middles.append(middle)
    assert slope == pytest.approx((middles[1] - middles[0]) / 11.0, rel=1e-6)


def test_halves_that_are_alike_agree_with_integration_along_a_line():
    h = halves()
    (m1, m2), (v1, v2) = h.mean[:, 0], h.variance[:, 0]
    whole = np.exp(h.weight.sum()) * normal(0.4 * WHOLE, m1, v1) * normal(0.6 * WHOLE, m2, v2)
    mean = (whole * WHOLE).sum() / whole.sum()
    variance = (whole * (WHOLE - mean) ** 2).sum() / whole.sum()
    found = h.together()
    found = [part[EVEN, 0] for part in (found.log_weight, found.mean, found.variance)]
    assert found == pytest.approx([np.log(whole.sum() * STEP), mean, variance], rel=1e-6)
    assert [float(part[EVEN, 0]) for part in h.divide(np.full((COMPONENTS, 1), 50.0))] == pytest.approx(
        [20.0, 0.4, 0.0]
    )


def test_an_empty_half_leaves_everything_to_the_other():
    h = halves()
    mixture = h.together()
    weight, mean, variance = (part[:, 0] for part in (mixture.log_weight, mixture.mean, mixture.variance))
    first, slope, spread = (part[:, 0] for part in h.divide(np.full((COMPONENTS, 1), 40.0)))
    assert [weight[FIRST_EMPTY], mean[FIRST_EMPTY], variance[FIRST_EMPTY]] == [-3.0 + 0.5, 21.0, 16.0]
    assert [weight[SECOND_EMPTY], mean[SECOND_EMPTY], variance[SECOND_EMPTY]] == [-8.0 - 1.25, 7.0, 9.0]
    for component, all_of_it in ((FIRST_EMPTY, 0.0), (SECOND_EMPTY, 1.0)):
        assert [first[component], slope[component], spread[component]] == [40.0 * all_of_it, all_of_it, 0.0]


def test_where_there_is_no_second_half_only_one_way_is_left():
    weight = halves(alone=True).together().log_weight[:, 0]
    assert np.isfinite(weight[SECOND_EMPTY]) and np.isneginf(np.delete(weight, SECOND_EMPTY)).all()


def test_no_half_with_few_rows_holds_more_than_its_region():
    """Of sizes up to a quarter of a million, all as common, only those up to 30 rows count, also beside a node of
    many rows; and their chances are those of integration."""
    h, possible = halves(common=np.full(len(FEW), 1 / len(FEW))), FEW[FEW <= 30]
    beside = replace(h, **{name: np.repeat(getattr(h, name), 2, axis=-1) for name in ("mean", "variance")})
    beside = replace(beside, rows=np.array([30.0, 5000.0]))
    assert beside.few.chances[len(possible) :, :, 0].max() < 1e-9 < beside.few.chances[len(possible) :, :, 1].min()
    x = np.arange(-200.0, 300.0, STEP)
    for half in (0, 1):
        below = normal(x, h.mean[half, 0], h.variance[half, 0])
        likely = np.array([(below * normal(x, size, (AROUND * size) ** 2)).sum() for size in possible])
        assert h.few.chances[: len(possible), half, 0] == pytest.approx(likely / likely.sum(), rel=1e-6)
        both = below * few_rows(x, h.common, 30.0)
        middle = (both * x).sum() / both.sum()
        spread = (both * (x - middle) ** 2).sum() / both.sum()
        found = [getattr(h.few, name)[half, 0] for name in ("log_likely", "mean", "variance")]
        assert found == pytest.approx([np.log(both.sum() * STEP), middle, spread], rel=1e-6)


def test_leaning_is_how_the_first_half_follows_its_share():
    """At one half, where the sizes of d do not change with the share to first order; chances that differ."""
    h, chances, rows = halves(0.5), np.arange(1.0, COMPONENTS + 1)[:, None] / 45.0, np.full((COMPONENTS, 1), 30.0)
    up, down = ((chances * replace(h, share=one(0.5 + by)).divide(rows)[0]).sum() for by in (1e-4, -1e-4))
    assert h.leaning(chances, rows)[0] == pytest.approx((up - down) / 2e-4, rel=1e-6)
