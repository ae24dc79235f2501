"""Non-negative least squares, by the conditions that only a minimum meets, and beside SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from sfumato.errors import QueryError
from sfumato.inference.least_squares import solver
from sfumato.inference.nonnegative import non_negative
from sfumato.queries import AllRanges, Haar, Identity, Kron, Prefix, Ranges, Scaled, Stack, Total, Tree

FAMILIES = [
    Identity(12),
    Tree(12, 2),
    Tree(12, (5, 3)),
    Haar(12),
    AllRanges(12),
    Kron(Tree(4, 2), Identity(3)),
    Scaled(Prefix(12), 3),
    Stack(Tree(12, 3), Total(12)),
]


def noisy(queries, spread):
    """Answers on a table with many empty cells, and noise of several signs and sizes."""
    cells = np.maximum(0, 20 * np.sin(np.arange(queries.columns)) - 8)
    return queries @ cells + spread * np.sin(7.0 * np.arange(1, queries.rows + 1))


def gradient(queries, answers, variances, x):
    return queries.T @ ((queries @ x - answers) / variances)


@pytest.mark.parametrize("queries", FAMILIES, ids=repr)
@pytest.mark.parametrize("spread", [0.1, 10.0, 1000.0])
def test_as_good_as_scipy(queries, spread):
    variances = 1.0 + np.arange(queries.rows) % 5
    answers = noisy(queries, spread)
    x = non_negative(queries, answers, variances)
    root = np.sqrt(variances)
    expected, _ = nnls(queries.dense() / root[:, None], answers / root)
    np.testing.assert_allclose(x, expected, atol=1e-6 * max(1.0, expected.max()))
    assert (x >= 0).all()


@pytest.mark.parametrize("total", [None, 0.5, 100.0])
@pytest.mark.parametrize("queries", [*FAMILIES, Ranges(12, [0, 3], [5, 9])], ids=repr)
def test_at_a_minimum_no_permitted_move_leads_down(queries, total):
    variances = 1.0 + np.arange(queries.rows) % 5
    answers = noisy(queries, 5.0)
    x = non_negative(queries, answers, variances, total=total)
    slope = gradient(queries, answers, variances, x)
    accuracy = 1e-6 * np.abs(gradient(queries, answers, variances, np.zeros(12))).max()
    if total is not None:
        assert x.sum() == pytest.approx(total, rel=1e-12)
        slope = slope - slope[x > 0].mean()  # what moving the total would gain
    assert (x >= 0).all()
    assert np.abs(slope[x > 0]).max(initial=0.0) <= accuracy  # cells inside: level
    assert slope.min() >= -accuracy  # cells at 0: no gain from more


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 30), st.integers(2, 5), st.lists(st.floats(-50, 200), min_size=3, max_size=30))
def test_where_nothing_binds_it_is_plain_least_squares(cells, branching, values):
    tree = Tree(cells, branching)
    answers = np.resize(np.array(values), tree.rows)
    plain = solver(tree, np.ones(tree.rows)).solve((tree.T @ answers)[:, None])[0][:, 0]
    found = non_negative(tree, answers, np.ones(tree.rows))
    if plain.min() >= 0:
        np.testing.assert_allclose(found, plain, atol=1e-5 * np.abs(plain).max())
    best = np.square(tree @ plain - answers).sum()
    assert np.square(tree @ found - answers).sum() >= best - 1e-9 * np.square(answers).sum()


def test_a_total_of_nothing_is_nothing():
    assert not non_negative(Tree(5, 2), np.ones(Tree(5, 2).rows), np.ones(Tree(5, 2).rows), total=0.0).any()


def test_large_and_sparse():
    tree = Tree(4096, 16)
    answers = tree @ (np.arange(4096) % 97 == 0) * 50.0 + 20 * np.sin(np.arange(tree.rows) ** 2)
    x = non_negative(tree, answers, np.ones(tree.rows))
    slope = gradient(tree, answers, np.ones(tree.rows), x)
    accuracy = 1e-6 * np.abs(tree.T @ answers).max()
    assert np.abs(slope[x > 0]).max() <= accuracy and slope.min() >= -accuracy


def test_what_makes_no_sense_is_refused():
    with pytest.raises(QueryError, match="variance"):
        non_negative(Identity(3), np.ones(3), np.zeros(3))
    with pytest.raises(QueryError, match="answer"):
        non_negative(Identity(3), np.ones(2), np.ones(3))
    with pytest.raises(QueryError, match="total"):
        non_negative(Identity(3), np.ones(3), np.ones(3), total=-1.0)
