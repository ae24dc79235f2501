"""The descent: every path spends the whole budget and no more, whatever was seen, and full regions are looked at."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.domain import Axis, Domain
from sfumato.domain.binary_tree import BinaryTree
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.measurement import Laplace
from sfumato.models.tree.descent import PARTS, SAMPLED, Frontier, Planned, geometry_of, next_measurements
from sfumato.queries import AllRanges, Identity, Prefix, Total, Workload, default_workload


def ranges(cells: int) -> Workload:
    return Workload(("ranges",), (AllRanges(cells),))


def domain_of(*sides: tuple[int, str]) -> Domain:
    axes = (Axis(f"a{place}", kind, np.arange(size + 1.0)) for place, (size, kind) in enumerate(sides))
    return Domain(tuple(axes))


def wandering(words: list[int], rounds: int):
    """A way to go on that first jumps and spends by chance, each region as it likes, and then as the mechanism does."""
    left = [rounds]

    def go_on(frontier, tree, geometry, unit, *, pure):
        left[0] -= 1
        if left[0] < 0:
            return next_measurements(frontier, tree, geometry, unit, pure=pure)
        level, asked = int(frontier.levels[0]), []
        for place, number in enumerate(frontier.numbers):
            word = words[(place + 7 * left[0]) % len(words)]
            jump = word % (min(4, tree.height - level) + 1)
            parts, _ = tree.parts(level, np.array([number]), jump)
            share = max(1, int(frontier.left[place]) // (2 + word % 3))
            asked += [(level + jump, part, share, frontier.left[place] - share, jump) for part in parts]
        return Planned(*np.array(asked).T)

    return go_on


def spent(
    tree: BinaryTree,
    see,
    *,
    workload: Workload | None = None,
    unit: float = 200.0,
    pure: bool = True,
    go_on=next_measurements,
) -> tuple[np.ndarray, int]:
    """What a descent spends on each place, in PARTS, and how many rounds it takes; `see` makes up what is seen."""
    cells = len(tree.order)
    geometry, frontier = geometry_of(workload or ranges(cells), tree), Frontier.root()
    total, rounds = np.zeros(cells, dtype=np.int64), 0
    while len(frontier):
        here, others = frontier.highest()
        assert (here.levels == here.levels[0]).all() and (others.levels > here.levels[0]).all()
        asked = go_on(here, tree, geometry, unit, pure=pure)
        assert (asked.shares > 0).all() and (asked.left >= 0).all()
        queries = asked.ranges(tree)
        total += queries.T @ asked.shares
        variances = unit * (PARTS / asked.shares) ** (2 if pure else 1)
        frontier, rounds = others.together(asked.answered(see(queries), variances)), rounds + 1
    return total, rounds


whatever = st.lists(st.integers(-(10**4), 10**6) | st.integers(-30, 30), min_size=1, max_size=40)


@given(cells=st.integers(1, 700), seen=whatever, unit=st.floats(1e-9, 1e9), pure=st.booleans())
def test_every_path_spends_exactly_the_budget_whatever_is_seen(cells, seen, unit, pure):
    """Also what no table would show: then the counts of parts have nothing to do with each other."""
    tree = BinaryTree.line(cells)
    total, rounds = spent(tree, lambda queries: np.resize(seen, queries.rows), unit=unit, pure=pure)
    assert (total == PARTS).all() and rounds <= 2 * (tree.height + 1)


@given(
    sides=st.lists(
        st.tuples(st.integers(1, 12), st.sampled_from(["integer", "category"])), min_size=2, max_size=4
    ).filter(lambda sides: np.prod([size for size, _ in sides]) <= 3000),
    seen=whatever,
    unit=st.floats(1e-9, 1e9),
    pure=st.booleans(),
)
def test_every_path_spends_exactly_the_budget_over_several_attributes(sides, seen, unit, pure):
    domain = domain_of(*sides)
    tree, asked = BinaryTree.over(domain), default_workload(domain)
    total, rounds = spent(tree, lambda q: np.resize(seen, q.rows), workload=asked, unit=unit, pure=pure)
    assert (total == PARTS).all() and rounds <= 2 * (tree.height + 1)


@given(
    words=st.lists(st.integers(0, 10**6), min_size=1, max_size=60),
    rounds=st.integers(1, 5),
    seen=st.lists(st.integers(-40, 40), min_size=1, max_size=40),
    sides=st.sampled_from([(300,), (16, 16), (5, 7, 9)]),
)
def test_regions_that_came_by_different_ways_are_not_mixed_up(words, rounds, seen, sides):
    """Looks that go up again are made on the account of parts of one look only: regions beside them may have more left,
    or less, or may have been parts of another. So the descent is led astray first, and then left to itself."""
    domain = domain_of(*((size, "integer") for size in sides))
    tree, asked, way = BinaryTree.over(domain), default_workload(domain), wandering(words, rounds)
    total, _ = spent(tree, lambda queries: np.resize(seen, queries.rows), workload=asked, go_on=way)
    assert (total == PARTS).all()


def test_an_empty_region_is_left_at_once_and_a_full_one_is_looked_into():
    cells, counts = 1024, np.zeros(1024, dtype=np.int64)
    counts[300:400] = 5000
    asked = []
    spent(BinaryTree.line(cells), lambda queries: asked.append(queries) or queries @ counts)
    lows, highs = (np.concatenate([getattr(one, end) for one in asked]) for end in ("lows", "highs"))
    narrow = highs - lows < 4
    assert narrow.any()
    assert ((lows[narrow] >= 200) & (highs[narrow] < 500)).all()
    wide = highs - lows >= 16
    assert (lows[wide] > 500).any() and (highs[wide] < 200).any()


def test_few_cells_are_looked_at_one_by_one_with_everything():
    asked = []
    total, rounds = spent(
        BinaryTree.line(16), lambda queries: asked.append(queries) or np.zeros(queries.rows, dtype=np.int64)
    )
    assert rounds == 1 and asked[0].rows == 16 and (total == PARTS).all()


@pytest.mark.parametrize("cells", [1, 3, 5, 100, 129])
def test_ends_of_the_tree_without_a_cell_are_not_asked(cells):
    def see(queries):
        assert (queries.lows <= queries.highs).all() and queries.columns == cells
        return np.full(queries.rows, 10**6)

    assert (spent(BinaryTree.line(cells), see)[0] == PARTS).all()


SQUARE = domain_of((4, "integer"), (2, "category"), (3, "integer"))


@pytest.mark.parametrize("tree", [BinaryTree.line(24), BinaryTree.over(SQUARE)])
def test_how_queries_lie_agrees_with_counting(tree):
    asked = Workload(("some", "all"), (Prefix(24), Total(24)))
    found = geometry_of(asked, tree)
    rows = np.concatenate([block.dense() for block in asked.blocks])[:, tree.order] != 0
    for level, begins in enumerate(tree.begins):
        parts = [rows[:, a:b] for a, b in pairwise(begins)]
        cut = np.mean([sum(part[q].any() and not part[q].all() for part in parts) for q in range(len(rows))])
        whole = np.mean([part[q].all() for part in parts for q in range(len(rows))])
        assert found.cut[level] == pytest.approx(cut) and found.whole[level] == pytest.approx(whole)


def test_some_queries_stand_for_very_many():
    cells, tree = 512, BinaryTree.line(512)
    found, exact = (
        geometry_of(Workload(("w",), (block,)), tree) for block in (AllRanges(cells), AllRanges(cells)[::97])
    )
    assert AllRanges(cells).rows > 1000 * SAMPLED
    assert np.allclose(found.cut[1:], exact.cut[1:], atol=0.35)
    single = geometry_of(Workload(("w",), (Identity(cells),)), tree)
    assert found.cut[-1] == 0 and single.whole[-1] == pytest.approx(1 / cells)


@pytest.mark.parametrize("noisy", [False, True])
def test_quiet_regions_are_looked_at_together(noisy):
    """A table that is empty but for one corner: the last round takes the empty rest in a few regions, larger than
    those of the round before, and the cells of the corner one by one."""
    domain = domain_of((64, "integer"), (64, "integer"))
    tree, noise = BinaryTree.over(domain), Laplace(Fraction(10))
    corner = np.zeros((64, 64), dtype=np.int64)
    corner[:8, :8] = 500
    along, rounds = corner.reshape(-1)[tree.order], []

    def see(queries):
        rounds.append(queries)
        off = draw(noise, queries.rows, TestingEntropy(len(rounds))) if noisy else 0
        return queries @ along + off

    total, _ = spent(tree, see, workload=default_workload(domain))
    first, last = rounds[0], rounds[-1]
    before, after = (queries.highs - queries.lows + 1 for queries in (first, last))
    assert (total == PARTS).all() and len(rounds) == 2 and (before == 16).all()
    quiet = after > 1
    assert np.count_nonzero(~quiet) == 64 and corner.reshape(-1)[tree.order[last.lows[~quiet]]].min() == 500
    assert np.count_nonzero(quiet) < len(before) / (2 if noisy else 16) and after.max() >= 512
