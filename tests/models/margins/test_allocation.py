"""Shares of a budget go where they buy most."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.models.margins.views import price_of, shares

MARGINS = [np.array([600.0, 300.0, 100.0]), np.full(4, 250.0), np.array([900.0, 100.0]), np.full(5, 200.0)]
PAIRS = list(combinations(range(4), 2))


def shared(misfits: dict, available: float = 1.0, pure: bool = True, precision: float = 1e-3) -> dict:
    return shares(MARGINS, [precision] * 4, misfits, available, pure)


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("available", [0.01, 1.0, 100.0])
def test_shares_add_up_to_one_and_come_out_the_same_twice(pure, available):
    misfits = {pair: 50.0 * place for place, pair in enumerate(PAIRS)}
    found = shared(misfits, available, pure)
    assert sum(found.values()) == pytest.approx(1.0) and all(share > 0 for share in found.values())
    assert found == shared(misfits, available, pure)


def test_what_depends_gets_more_and_what_does_not_gets_nothing():
    found = shared({pair: 400.0 if pair == (0, 1) else 30.0 if pair == (2, 3) else 0.0 for pair in PAIRS})
    assert found[0, 1] > found.get((2, 3), 0.0)
    assert not {(0, 2), (0, 3), (1, 2), (1, 3)} & set(found)


def test_nothing_to_find_leaves_the_one_way_margins():
    """Whether little is available for them or they are known well: something is always measured."""
    for found in (shared(dict.fromkeys(PAIRS, 0.0)), shared({}, 1e-9), shared({}, 1.0, True, 1e12)):
        assert set(found) <= {(place,) for place in range(4)} and sum(found.values()) == pytest.approx(1.0)


def test_prices_are_those_of_laplace_and_gaussian_noise():
    deviation = np.array([1.0, 2.0])
    assert price_of(deviation, True) == pytest.approx([np.sqrt(2.0), np.sqrt(2.0) / 2])
    assert price_of(deviation, False) == pytest.approx([1 / 2, 1 / 8])
