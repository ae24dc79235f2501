"""Trees and wavelets: what their rows mean, from the papers, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import QueryError
from sfumato.queries import Haar, NominalHaar, Queries, Tree, trusted

SIZES = st.integers(1, 70)


def rows(queries: Queries) -> list[tuple[int, ...]]:
    return [tuple(np.flatnonzero(row).tolist()) for row in queries.dense()]


def test_a_full_tree() -> None:
    tree = Tree(6, (2, 3))
    assert rows(tree) == [tuple(range(6)), (0, 1, 2), (3, 4, 5), *((cell,) for cell in range(6))]
    assert tree.row_level.tolist() == [0, 1, 1] + [2] * 6
    assert [cuts.tolist() for cuts in tree.levels] == [[0, 6], [0, 3, 6], list(range(7))]
    assert tree.constant_column_sum == 3


@given(SIZES, st.integers(2, 9))
def test_uneven_trees_are_nested_even_to_a_cell_and_ask_nothing_twice(n: int, branching: int) -> None:
    tree = Tree(n, branching)
    assert len(set(rows(tree))) == tree.rows
    assert rows(tree)[-n:] == [(cell,) for cell in range(n)]
    assert len(rows(tree)[0]) == n and tree.row_level[0] == 0
    for upper, lower in zip(tree.levels, tree.levels[1:], strict=False):
        assert set(upper) <= set(lower)
        assert np.ptp(np.diff(upper)) <= 1
        assert np.diff(np.searchsorted(lower, upper)).max() <= branching
    for level, cuts in enumerate(tree.levels):
        sizes = np.diff(cuts)
        asked = sizes if level == len(tree.levels) - 1 else sizes[sizes > 1]
        assert tree.dense()[tree.row_level == level].sum(axis=1).tolist() == asked.tolist()
        assert tree.asked[level].sum() == len(asked)


def test_a_tree_of_given_levels_is_the_same_tree() -> None:
    tree = Tree(11, (2, 3, 2))
    assert np.array_equal(Tree.of_levels(tree.levels).dense(), tree.dense())
    assert trusted(Tree.of_levels(tree.levels)) and all(not first.flags.writeable for first in tree.children)
    forest = Tree.of_levels([[0, 2, 5], range(6)])
    assert rows(forest)[:2] == [(0, 1), (2, 3, 4)] and forest.constant_column_sum == 2


def test_one_cell_is_its_own_tree() -> None:
    for tree in (Tree(1, ()), Tree(1, 2), Tree.of_levels([[0, 1]])):
        assert tree.dense().tolist() == [[1]] and tree.row_level.tolist() == [0]


@given(SIZES)
def test_haar_is_a_difference_of_halves_and_can_be_undone(n: int) -> None:
    haar = Haar(n)
    matrix = haar.dense()
    assert matrix.shape == (n, n) and (matrix[0] == 1).all()
    assert np.linalg.matrix_rank(matrix) == n
    levels = haar.row_level
    assert levels[0] == 0 and (np.diff(levels) >= 0).all() and levels[-1] == haar.height
    for row, level in zip(matrix[1:], levels[1:], strict=True):
        left, right = np.flatnonzero(row == 1), np.flatnonzero(row == -1)
        assert left[-1] + 1 == right[0] and abs(len(left) - len(right)) <= 1
        assert len(left) == np.ptp(left) + 1 and len(right) == np.ptp(right) + 1
        assert abs(len(left) + len(right) - n / 2 ** (level - 1)) < 1


def test_haar_of_a_power_of_two_is_privelet() -> None:
    """The paper's weights: n for the average, n / 2^(l-1) for a coefficient of level l; sensitivity 1 + log2 n."""
    haar = Haar(8)
    matrix = haar.dense()
    weights = np.array([8, *(8 / 2 ** (level - 1) for level in haar.row_level[1:])])
    means = [abs(row).sum() for row in matrix]
    assert weights.tolist() == means  # weight times (half the difference of two averages) is the difference of two sums
    assert haar.l1 == 4 and np.array_equal(matrix @ matrix.T, np.diag(means))


@given(st.integers(2, 30))
def test_nominal_haar_is_a_category_against_the_average(n: int) -> None:
    wavelet = NominalHaar(n)
    x = np.arange(n) ** 2
    assert (wavelet @ x).tolist() == [x.sum(), *(n * x - x.sum())]
    assert wavelet.constant_column_sum == wavelet.l1 == 1 + 2 * (n - 1)
    assert wavelet.row_level.tolist() == [0] + [1] * n
    assert not (wavelet @ x)[1:].sum()


def test_one_category_has_only_a_total() -> None:
    assert NominalHaar(1).dense().tolist() == [[1]]


def test_a_million_cells_in_linear_memory() -> None:
    n = 10**6 + 3
    x = np.arange(n) % 5
    for queries, l1 in ((Tree(n, 16), 6), (Haar(n), 21), (NominalHaar(n), 2 * n - 1)):
        answers = queries @ x
        assert queries.rows <= 2 * n and queries.l1 == l1
        assert answers[0] == x.sum()
        signs = np.arange(queries.rows) % 3 - 1
        assert (queries.T @ signs) @ x == signs @ answers


@pytest.mark.parametrize("branching", [1, 0, -2, 2.5, "4", (2, 1), (2, 2), (2, 2, 2, 2), (8, 2), (), None, 2**40])
def test_branching_that_does_not_fit_is_refused(branching: object) -> None:
    with pytest.raises(QueryError, match="branching"):
        Tree(8, branching)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "levels",
    [
        [],
        [[0, 4]],
        [[0, 4], [0, 1, 2, 3]],
        [[0, 5], [0, 1, 2, 3, 4]],
        [[1, 4], [0, 1, 2, 3, 4]],
        [[0, 2, 2, 4], [0, 1, 2, 3, 4]],
        [[0, 3, 4], [0, 2, 4], [0, 1, 2, 3, 4]],
        [[0, 4], [0, 4], [0, 1, 2, 3, 4]],
        [[0, 9], [0, 2, 4], [0, 1, 2, 3, 4]],
        [[0, 2, 4], [0, 2, 1, 4], [0, 1, 2, 3, 4]],
        [[0], [0, 1]],
        [[0, -1, 2], [0, 1, 2]],
        [[0, 0.5, 1]],
    ],
    ids=repr,
)
def test_levels_that_are_no_tree_are_refused(levels: list[list[int]]) -> None:
    with pytest.raises(QueryError):
        Tree.of_levels(levels)


@pytest.mark.parametrize("family", [Haar, NominalHaar, lambda n: Tree(n, 2)])
@pytest.mark.parametrize("n", [0, -1, 2.0, True, 2**40])
def test_sizes_that_make_no_sense_or_do_not_fit_are_refused(family, n: object) -> None:
    with pytest.raises(QueryError):
        family(n)
