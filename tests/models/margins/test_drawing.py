"""Rows have the tables they were drawn by; others that are known they are mended to.

Samples of 20,000 rows; every attribute and every pair is tried by chi-square, with a false-alarm rate of 1e-6 for all
of them together: a sample of independent rows would pass, and rows that were not mended do not.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.models.margins import rows as rows_of_margins
from sfumato.models.margins.joining import join_counts
from sfumato.models.margins.rows import Drawing, Mending
from sfumato.models.margins.table import sum_out
from sfumato.releases.rows.model import RandomNumbers

ROWS, FALSE_ALARM = 20_000, 1e-6


def counted(rows: np.ndarray, sizes: list[int], places: tuple[int, ...]) -> np.ndarray:
    shape = [sizes[place] for place in places]
    cells = np.ravel_multi_index([rows[place] for place in places], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def p_value(held: np.ndarray, table: np.ndarray) -> float:
    """Of Pearson's test; cells that expect less than 5 rows are one."""
    expected = (held.sum() * table / table.sum()).reshape(-1)
    few = expected < 5
    held, expected = (np.append(each[~few], each[few].sum()) for each in (held.reshape(-1).astype(float), expected))
    if expected[-1] < 5:
        held[-2], expected[-2] = held[-2] + held[-1], expected[-2] + expected[-1]
        held, expected = held[:-1], expected[:-1]
    return float(chi2.sf(((held - expected) ** 2 / expected).sum(), len(held) - 1))


def least_p_value(rows, one_way, known) -> float:
    """The least of all tables, times their number."""
    sizes = [len(margin) for margin in one_way]
    every = {(place,): margin for place, margin in enumerate(one_way)} | known
    return min(p_value(counted(rows, sizes, places), table) for places, table in every.items()) * len(every)


def crowd(seed: int, sizes: list[int], classes: int = 6) -> tuple[list[np.ndarray], dict]:
    """Margins of attributes that all depend on an unseen one, so that no order of few ties tells everything."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.ones(classes) * 3)
    given = [rng.dirichlet(np.ones(size) * 0.7, classes) for size in sizes]
    one_way = [1e5 * share @ each for each in given]
    pairs = combinations(range(len(sizes)), 2)
    return one_way, {(a, b): 1e5 * (share[:, None] * given[a]).T @ given[b] for a, b in pairs}


@pytest.fixture(scope="module")
def nine():
    one_way, known = crowd(3, [2, 3, 5, 8, 4, 12, 6, 2, 30])
    return one_way, known, Drawing.by(one_way, known)


def test_every_attribute_and_pair_fits(nine):
    one_way, known, drawing_of = nine
    rows = drawing_of.draw(ROWS, RandomNumbers(1))
    assert rows.shape == (9, ROWS)
    assert least_p_value(rows, one_way, known) > FALSE_ALARM


def test_without_mending_they_do_not(nine, monkeypatch):
    """What the test above can tell: three earlier attributes do not say all about the next."""
    one_way, known, drawing_of = nine
    monkeypatch.setattr(Drawing, "_mend", lambda *_: None)
    assert least_p_value(drawing_of.draw(ROWS, RandomNumbers(1)), one_way, known) < FALSE_ALARM**2


@pytest.mark.full
def test_blocks_together_fit_better_than_one(nine):
    """Ten blocks: what is off in one block is not off in all, for rare cells neither."""
    one_way, known, drawing_of = nine
    random = RandomNumbers(2)
    rows = np.concatenate([drawing_of.draw(ROWS, random) for _ in range(10)], axis=1)
    assert least_p_value(rows, one_way, known) > FALSE_ALARM
    assert len(np.unique(rows[:, :ROWS], axis=1).T) > ROWS / 2  # and they are not one row over and over


def test_few_rows_are_a_sample_too():
    """100 draws of 30 rows each, 3,000 in all: if each draw were mended by itself, rare values would never come."""
    one_way, known = crowd(12, [3, 20, 4])
    few, random = Drawing.by(one_way, known), RandomNumbers(3)
    rows = np.concatenate([few.draw(30, random) for _ in range(100)], axis=1)
    assert rows.shape == (3, 3000)
    assert least_p_value(rows, one_way, known) > FALSE_ALARM


def test_three_attributes_are_as_joined(nine):
    """The distance to the joined tables, mean of all threes: what independent rows of these tables would have, 5 %
    more, and a hundredth for what joining three and joining all may differ by."""
    one_way, known, drawing_of = nine
    rows, rng = drawing_of.draw(ROWS, RandomNumbers(4)), np.random.default_rng(5)
    sizes = [len(margin) for margin in one_way]
    off, by_chance = [], []
    for three in combinations(range(7), 3):
        inside = {(i, j): known[three[i], three[j]] for i, j in combinations(range(3), 2)}
        joint = join_counts([one_way[place] for place in three], inside)
        joint = joint / joint.sum()
        off.append(np.abs(counted(rows, sizes, three) / ROWS - joint).sum())
        by_chance.append(np.abs(rng.multinomial(ROWS, joint.reshape(-1)) / ROWS - joint.reshape(-1)).sum())
    assert np.mean(off) < 1.05 * np.mean(by_chance) + 0.01


def test_cells_that_are_empty_stay_empty():
    """A chain where each attribute forbids values of others that it is not drawn by."""
    rng = np.random.default_rng(6)
    table = rng.gamma(0.5, 10.0, (5, 4, 6, 3, 4))
    table[0, :, :, :, 1] = table[:, 2, :, 0, :] = table[3, :, 5] = table[:, :, 2, :, 3] = 0
    one_way = [sum_out(table, (place,), range(5)) for place in range(5)]
    known = {pair: sum_out(table, pair, range(5)) for pair in combinations(range(5), 2)}
    rows = Drawing.by(one_way, known).draw(ROWS, RandomNumbers(7))
    assert sum((each == 0).sum() for each in known.values()) >= 4
    for pair, each in known.items():
        assert not counted(rows, list(table.shape), pair)[each == 0].any()
    assert least_p_value(rows, one_way, known) > FALSE_ALARM


def test_larger_tables_are_kept_too():
    """Two attributes whose sum, odd or even, is a third: pairs say nothing of it."""
    odd = np.fromfunction(lambda a, b, c: ((a + b + c) % 2 == 0) * 1000.0, (4, 4, 2))
    table = odd[..., None] * np.array([0.5, 0.3, 0.2])
    one_way = [sum_out(table, (place,), range(4)) for place in range(4)]
    known = {pair: sum_out(table, pair, range(4)) for pair in combinations(range(4), 2)}
    rows = Drawing.by(one_way, known | {(0, 1, 2): odd}).draw(ROWS, RandomNumbers(8))
    assert ((rows[0] + rows[1] + rows[2]) % 2 == 0).all()
    assert least_p_value(rows, one_way, known | {(0, 1, 2): odd}) > FALSE_ALARM


@pytest.mark.parametrize("sizes", [[4], [1], [1, 3], [3, 1, 1, 2]])
def test_few_attributes_and_those_of_one_value(sizes):
    one_way, known = crowd(9, sizes)
    rows = Drawing.by(one_way, known).draw(ROWS, RandomNumbers(10))
    for place, margin in enumerate(one_way):
        if len(margin) > 1:
            assert p_value(counted(rows, sizes, (place,)), margin) > FALSE_ALARM
        else:
            assert not rows[place].any()


def test_a_seed_repeats_the_rows(nine):
    drawing_of = nine[2]
    assert np.array_equal(drawing_of.draw(50, RandomNumbers(11)), drawing_of.draw(50, RandomNumbers(11)))
    assert not np.array_equal(drawing_of.draw(50, RandomNumbers(11)), drawing_of.draw(50, RandomNumbers(12)))


def test_counts_and_gains_follow_every_change(nine):
    """After turns of all attributes, windows at a time, they are those of the rows counted anew."""
    _, known, drawing_of = nine
    rng = np.random.default_rng(14)
    rows = np.stack([rng.integers(0, size, 2_000) for size in drawing_of.sizes])
    mending, first = Mending(drawing_of.wanted, rows), rows.copy()
    mending.weigh(1.0 + mending.misfits())
    weights = mending._weight
    for place in range(len(rows)):
        values = rng.integers(0, drawing_of.sizes[place], 700)
        before = mending.misfits() @ np.ones(len(known) + len(rows))
        mending.turn(place, slice(100, 800), values, rng.random(700))
        assert mending.misfits() @ np.ones(len(known) + len(rows)) < before
    anew = Mending(drawing_of.wanted, rows)
    anew._weight = weights
    anew._gains(slice(None))
    for name in ("_held", "_coming", "_going"):
        assert np.allclose(getattr(mending, name), getattr(anew, name))
    assert (first != rows).any() and np.array_equal(first[:, 800:], rows[:, 800:])


def test_work_on_one_block_is_bounded(nine, monkeypatch):
    """As many proposals as are let, or those of the sweeps between two looks at it."""
    drawing_of, asked = nine[2], []
    turn = Mending.turn
    monkeypatch.setattr(Mending, "turn", lambda self, place, *more: (asked.append(place), turn(self, place, *more)))
    monkeypatch.setattr(rows_of_margins, "MOST_WORK", 1)
    drawing_of.draw(ROWS, RandomNumbers(1))
    assert len(asked) == rows_of_margins.WEIGHED * len(drawing_of.sizes)
