"""What is measured of how far answers are off: large where three attributes say more than their pairs, else small."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from curators import curator_of

from sfumato.inference.margins.table import Table, subsets, sum_out
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.mechanisms.shared.margins_check import BY_CHANCE, LEAST, ORDERS, WIDER, check, looks
from sfumato.schema import Schema

ROWS = 40_000


def schema_of(*sizes: int) -> Schema:
    attributes = {f"a{place}": {"type": "integer", "lower": 0, "upper": size - 1} for place, size in enumerate(sizes)}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def parity(axes: int) -> np.ndarray:
    """Attributes of two values that are independent pair by pair; the first three add up to an even number."""
    codes = np.indices([2] * axes)
    return np.where((codes[0] + codes[1] + codes[2]) % 2 == 0, 2 * ROWS // 2**axes, 0)


def even(axes: int) -> np.ndarray:
    return np.full([2] * axes, ROWS // 2**axes)


def checked(counts: np.ndarray, off: float = 0.0, variance: float = 25.0, budget: Budget | None = None):
    """Tables up to pairs, exact but for a pattern of size `off` that adds up to nothing, checked; and as they were."""
    budget = budget or Budget.pure(1)
    axes = range(counts.ndim)
    tables = {}
    for part in subsets(tuple(axes)):
        if len(part) < 3:
            exact = sum_out(counts, part, axes).astype(float)
            pattern = off * (-1.0) ** np.indices(exact.shape).sum(axis=0) if part else np.zeros(())
            tables[part] = Table(part, exact + pattern, np.full(exact.shape, variance), np.zeros(exact.shape))
    given = {"epsilon": budget.amount} if budget.is_pure else {"rho": budget.amount}
    curator = curator_of(schema_of(*counts.shape), counts, entropy=TestingEntropy(2), **given)
    found = check(curator, schema_of(*counts.shape), tables, budget)
    assert curator.charge.fullest == (curator.charge.limit if counts.ndim > 1 else 0)  # one attribute is not looked at
    return found, tables


@pytest.mark.parametrize("budget", [Budget.pure(1), Budget.zcdp(Fraction(1, 10))], ids=["pure", "gaussian"])
def test_threes_that_pairs_do_not_tell_are_seen(budget):
    """Every cell of the three is off by all its rows, 5,000: in variances of what is joined, that is 5,000 or more.

    On the even table nothing is off but noise, of at most 40 rows over eight cells of as many: under 5.
    """
    far, near = (checked(counts, budget=budget)[0].spreads for counts in (parity(3), even(3)))
    assert far.of((0, 1, 2)) > 5000 and BY_CHANCE <= near.of((0, 1, 2)) < 5


def test_what_nobody_measured_deviates_at_least_as_rows_do():
    """Claims of pairs that are far too large leave nothing for the three; its cells scatter by chance all the same."""
    found, _ = checked(even(4), variance=1e4, budget=Budget.pure(20))
    assert found.spreads.of((0, 1, 2)) == found.spreads.of((0, 1, 2, 3)) == BY_CHANCE


def test_of_several_threes_the_one_that_is_off_is_told_from_the_others():
    spreads = checked(parity(4), budget=Budget.pure(20))[0].spreads
    assert spreads.of((0, 1, 2)) > 1000
    assert all(spreads.of(places) < 10 for places in combinations(range(4), 3) if places != (0, 1, 2))


def test_errors_of_pairs_are_brought_to_the_size_that_was_measured():
    """Each cell is off by 50. It claims a variance of 25 beyond its margins, of which a quarter is its own.

    A normal error of mean size 1.2 times 50 has this variance; noise on the misfit of 200 moves it by a few per cent.
    """
    found, before = checked(even(3), off=50.0, budget=Budget.pure(20))
    for pair in combinations(range(3), 2):
        growth = float(found.tables[pair].noise.mean() / before[pair].noise.mean())
        assert growth == pytest.approx((WIDER * 50) ** 2 * np.pi / 2 / (25 / 4), rel=0.1)
        assert np.array_equal(found.tables[pair].estimate, before[pair].estimate)


def test_errors_that_are_smaller_than_claimed_are_kept_in_part():
    found, before = checked(even(3), variance=1e4, budget=Budget.pure(20))
    for pair in combinations(range(3), 2):
        assert np.allclose(found.tables[pair].noise / before[pair].noise, LEAST, rtol=1e-6)
    for place in range(3):  # the noise of one attribute is known: nothing is taken away
        assert np.array_equal(found.tables[place,].noise, before[place,].noise)
        assert (found.tables[place,].model > 0).all()


@pytest.mark.parametrize("axes", [1, 2, 3, 5])
def test_every_order_that_there_is_is_looked_at_once(axes):
    found, _ = checked(even(axes))
    assert list(looks(schema_of(*[2] * axes))) == [order for order in ORDERS if order <= axes]
    assert len(found.measured) == max(0, min(axes - 1, len(ORDERS)))
    assert all(one.of == "misfit" for one in found.measured)


def test_what_nobody_looks_at_deviates_as_rows_do():
    """With one or two attributes no three are looked at: were they asked for, no interval would be of noise alone."""
    for axes in (1, 2):
        assert checked(even(axes))[0].spreads.of((0, 1, 2)) == 1.0
