"""The descent: every path spends the whole budget and no more, whatever was seen, and full regions are looked at."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.queries import AllRanges, Identity, Prefix, Total, Workload
from sfumato.strategies.cutting import SAMPLED, geometry_of
from sfumato.strategies.descent import PARTS, Front, next_looks


def tree_over(cells: int) -> list[np.ndarray]:
    height = max(0, (cells - 1).bit_length())
    return [np.arange(2**level + 1) * cells // 2**level for level in range(height + 1)]


def ranges(cells: int) -> Workload:
    return Workload(("ranges",), (AllRanges(cells),))


def spent(cells: int, see, *, unit: float = 200.0, pure: bool = True) -> tuple[np.ndarray, int]:
    """What a descent spends on each cell, in PARTS, and how many rounds it takes; `see` makes up what is seen."""
    tree = tree_over(cells)
    geometry, front = geometry_of(ranges(cells), np.arange(cells), tree), Front.root()
    total, rounds = np.zeros(cells, dtype=np.int64), 0
    while len(front):
        here, others = front.highest()
        assert (here.levels == here.levels[0]).all() and (others.levels > here.levels[0]).all()
        asked = next_looks(here, tree, geometry, unit, pure=pure)
        assert (asked.shares > 0).all() and (asked.left >= 0).all()
        queries = asked.ranges(tree)
        total += queries.T @ asked.shares
        variances = unit * (PARTS / asked.shares) ** (2 if pure else 1)
        front, rounds = others.together(asked.heard(see(queries), variances)), rounds + 1
    return total, rounds


@given(
    cells=st.integers(1, 700),
    seen=st.lists(st.integers(-(10**4), 10**6), min_size=1, max_size=40),
    unit=st.floats(1e-9, 1e9),
    pure=st.booleans(),
)
def test_every_path_spends_exactly_the_budget_whatever_is_seen(cells, seen, unit, pure):
    """Also what no table would show: then the counts of parts have nothing to do with each other."""
    total, rounds = spent(cells, lambda queries: np.resize(seen, queries.rows), unit=unit, pure=pure)
    assert (total == PARTS).all() and rounds <= 2 * len(tree_over(cells))


def test_an_empty_region_is_left_at_once_and_a_full_one_is_looked_into():
    cells, counts = 1024, np.zeros(1024, dtype=np.int64)
    counts[300:400] = 5000
    asked = []
    spent(cells, lambda queries: asked.append(queries) or queries @ counts)
    lows, highs = (np.concatenate([getattr(one, end) for one in asked]) for end in ("lows", "highs"))
    narrow = highs - lows < 4
    assert narrow.any()
    assert ((lows[narrow] >= 200) & (highs[narrow] < 500)).all()
    wide = highs - lows >= 16
    assert (lows[wide] > 500).any() and (highs[wide] < 200).any()


def test_few_cells_are_looked_at_one_by_one_with_everything():
    asked = []
    total, rounds = spent(16, lambda queries: asked.append(queries) or np.zeros(queries.rows, dtype=np.int64))
    assert rounds == 1 and asked[0].rows == 16 and (total == PARTS).all()


@pytest.mark.parametrize("cells", [1, 3, 5, 100, 129])
def test_ends_of_the_tree_without_a_cell_are_not_asked(cells):
    def see(queries):
        assert (queries.lows <= queries.highs).all() and queries.columns == cells
        return np.full(queries.rows, 10**6)

    assert (spent(cells, see)[0] == PARTS).all()


def test_how_queries_lie_agrees_with_counting():
    order = np.array([2, 0, 3, 1, 5, 4, 7, 6])
    asked = Workload(("some", "all"), (Prefix(8), Total(8)))
    found = geometry_of(asked, order, tree_over(8))
    rows = np.concatenate([block.dense() for block in asked.blocks])[:, order] != 0
    for level, begins in enumerate(tree_over(8)):
        parts = [rows[:, a:b] for a, b in pairwise(begins)]
        cut = np.mean([sum(part[q].any() and not part[q].all() for part in parts) for q in range(len(rows))])
        whole = np.mean([part[q].all() for part in parts for q in range(len(rows))])
        assert found.cut[level] == pytest.approx(cut) and found.whole[level] == pytest.approx(whole)


def test_some_queries_stand_for_very_many():
    cells = 512
    found, exact = (
        geometry_of(Workload(("w",), (block,)), np.arange(cells), tree_over(cells))
        for block in (AllRanges(cells), AllRanges(cells)[::97])
    )
    assert AllRanges(cells).rows > 1000 * SAMPLED
    assert np.allclose(found.cut[1:], exact.cut[1:], atol=0.35)
    assert found.cut[-1] == 0 and geometry_of(
        Workload(("w",), (Identity(cells),)), np.arange(cells), tree_over(cells)
    ).whole[-1] == pytest.approx(1 / cells)
