"""The spread of a set of attributes is its own, or that of sets of its size."""

from __future__ import annotations

from sfumato.models.margins.scales import Spreads


def test_a_set_has_its_own_spread_or_that_of_its_order():
    spreads = Spreads((0.0, 1.0, 2.0), {(0, 3): 5.0})
    assert [spreads.of(places) for places in ((), (2,), (0, 1), (0, 3), (0, 1, 3))] == [0.0, 0.0, 1.0, 5.0, 2.0]


def test_more_attributes_than_are_listed_have_the_last_and_nothing_has_none():
    assert Spreads((0.0, 1.0)).of((0, 1, 2, 3)) == 1.0
    assert Spreads().of((0, 1)) == 0.0
