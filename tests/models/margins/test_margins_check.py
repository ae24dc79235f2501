"""What is measured of how far answers are off: what three attributes say beyond their pairs, and errors."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models.margins.calibration import (
    BROAD_LOOKS,
    BY_CHANCE,
    LEAST,
    LOOKS,
    WIDER,
    check,
    looks,
    measure_contrasts,
)
from sfumato.models.margins.content import Margins
from sfumato.models.margins.scales import MEASURED, Contrasts, Haar, Spreads
from sfumato.models.margins.table import Table, subsets, sum_out
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


def joined(spreads, tables: dict, axes: int) -> np.ndarray:
    """The table of all attributes as it is joined from pairs, with what was found beside them."""
    content = Margins(schema_of(*[2] * axes), {"count": tables}, {"count": spreads})
    return content.joined(content.every(tuple(range(axes))))["count"]


@pytest.mark.parametrize("budget", [Budget.pure(1), Budget.zcdp(Fraction(1, 10))], ids=["pure", "gaussian"])
def test_threes_that_pairs_do_not_tell_are_corrected(budget):
    """Every cell of the three is off by all its rows, 5,000, as pairs alone have it: 20,000 rows are misplaced.

    The contrast of halves says so, with noise of at most 8 rows: all but a few hundred rows come to their places.
    On the even table nothing is off but noise, of at most 40 rows over eight cells of as many.
    """
    (far, tables), (near, others) = (checked(counts, budget=budget) for counts in (parity(3), even(3)))
    assert far.spreads.contrasts[0, 1, 2] == pytest.approx(ROWS, abs=400)
    assert abs(near.spreads.contrasts[0, 1, 2]) < 400 and near.spreads.of((0, 1, 2)) < 5
    assert np.abs(joined(Spreads(), tables, 3) - parity(3)).sum() == pytest.approx(ROWS, rel=1e-3)
    for spreads, given, truth in ((far.spreads, tables, parity(3)), (near.spreads, others, even(3))):
        off = np.abs(joined(spreads, given, 3) - truth)
        assert off.sum() < 0.02 * ROWS
        errors = spreads.of((0, 1, 2)) * joined(spreads, given, 3)
        assert (off**2 <= 9.0 * np.maximum(errors, BY_CHANCE * 400)).all()  # what is left is told


def test_what_nobody_measured_deviates_at_least_as_rows_do():
    """Claims of pairs that are far too large leave nothing for the three; its cells scatter by chance all the same."""
    found, _ = checked(even(4), variance=1e4, budget=Budget.pure(20))
    assert found.spreads.of((0, 1, 2)) == found.spreads.of((0, 1, 2, 3)) == BY_CHANCE


def test_of_several_threes_the_one_that_is_off_is_told_from_the_others():
    """The others are even: no row is misplaced in them, and pairs alone would misplace half of all in the first."""
    found, tables = checked(parity(4), budget=Budget.pure(20))
    contrasts = {**found.spreads.contrasts}
    assert contrasts.pop((0, 1, 2)) == pytest.approx(ROWS, abs=100)
    assert len(contrasts) == 3 and all(abs(each) < 100 for each in contrasts.values())
    assert np.abs(joined(found.spreads, tables, 4) - parity(4)).sum() < 0.02 * ROWS


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
def test_every_order_that_there_is_is_looked_at_once_at_each_scale(axes):
    found, _ = checked(even(axes))
    orders = list(looks(schema_of(*[2] * axes)))
    assert orders == [order for order in LOOKS if order <= axes]
    of = Counter(one.of for _, one in found.measured)
    assert of == Counter({"misfit": sum(len(LOOKS[order]) for order in orders), "contrast": comb(axes, 3)})
    assert {*found.spreads.contrasts} == {*combinations(range(axes), 3)}


def test_what_nobody_looks_at_deviates_as_rows_do():
    """With one or two attributes no three are looked at: were they asked for, no interval would be of noise alone."""
    for axes in (1, 2):
        assert checked(even(axes))[0].spreads.of((0, 1, 2)) == 1.0


@pytest.mark.parametrize("depth", [1, 2, MEASURED])
def test_contrasts_are_measured_to_a_depth_and_cost_a_count_for_each_two_levels(depth):
    """With 10^6 of rho noise is less than a row; a row enters one contrast of one, three and six pairs of levels."""
    schema, counts = schema_of(16, 9), np.random.default_rng(7).integers(0, 90, (16, 9))
    curator = curator_of(schema, counts, entropy=TestingEntropy(2), rho=Fraction(10**6))
    signs = Haar.of(counts.sum(axis=1).astype(float)), Haar.of(counts.sum(axis=0).astype(float))
    chosen = {(0, 1): (signs, depth)}
    seen, (handed,) = measure_contrasts(curator, schema, chosen, Budget.zcdp(Fraction(10**6)))
    found = seen[0, 1]
    inside = found.families() < depth
    assert found.depth == depth and len(handed.answers) == inside.sum()
    assert np.allclose(found.noisy, np.where(inside, Contrasts(signs, np.zeros(()), 0.0).of(counts), 0.0), atol=1)
    assert curator.charge.fullest == curator.charge.limit
    wanted = Fraction(1, 1000)
    costly = curator_of(schema, counts, entropy=TestingEntropy(2), rho=wanted)
    noise = measure_contrasts(costly, schema, chosen, Budget.zcdp(wanted))[0][0, 1].variance
    assert noise == pytest.approx((1, 3, 6)[depth - 1] * 500, rel=0.01)


def test_a_dependence_that_was_missed_shows_in_halves_and_not_in_other_pairs():
    """Two attributes that go together, taken as independent, beside one that is: their halves are off by rows / 20.

    A spread is a variance over rows, before margins are kept, which leaves a quarter of it in halves of two axes.
    Without a look at halves the spread of eighths stood for it.
    """
    side = np.arange(8)
    near = 1.0 + 0.2 * np.multiply.outer(side - 3.5, side - 3.5) / 4.0
    counts = np.rint(ROWS * near[:, :, None] / near.sum() * np.full(4, 0.25)).astype(int)
    axes, tables = range(3), {}
    for part in subsets((0, 1, 2)):
        if len(part) < 3:
            exact = sum_out(counts, part, axes).astype(float)
            if part == (0, 1):
                exact = np.outer(exact.sum(axis=1), exact.sum(axis=0)) / exact.sum()
            tables[part] = Table(part, exact, np.zeros(exact.shape), exact * (len(part) > 1) + (len(part) < 2))
    off = 4 * abs(counts[:4, :4].sum() - tables[0, 1].estimate[:4, :4].sum()) ** 2 / (ROWS / 4)
    found = {}
    for name, levels in (("few", LOOKS), ("broad", BROAD_LOOKS)):
        curator = curator_of(schema_of(8, 8, 4), counts, entropy=TestingEntropy(2), epsilon=Budget.pure(10).amount)
        spreads = check(curator, schema_of(8, 8, 4), tables, Budget.pure(10), levels=levels).spreads
        found[name] = {pair: sum(np.add(each.noise, each.model)[:1]) for pair, each in spreads.blocks.items()}
    assert off < found["broad"][0, 1] < 3 * off  # normal errors of that mean size have pi / 2 times the variance
    assert found["few"][0, 1] < off
    assert found["broad"][0, 2] < off / 4 and found["broad"][1, 2] < off / 4
