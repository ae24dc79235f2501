"""Multiplicative weights: nearer to every answer, the total untouched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import QueryError
from sfumato.models.weights.measure import multiplicative_weights
from sfumato.queries import Haar, Identity, Kron, Prefix, Ranges, Scaled, Total, Tree, Weighted

CELLS = np.array([5.0, 0.5, 30.0, 4.0, 1.0, 9.5])
TRUTH = np.array([1.0, 2.0, 3.0, 20.0, 20.0, 4.0])  # of the same total
FAMILIES = [Identity(6), Prefix(6), Haar(6), Scaled(Prefix(6), -7), Tree(6, 2), Kron(Prefix(2), Identity(3))]


@settings(deadline=None)
@given(st.integers(0, 5), st.integers(0, 5), st.floats(-1e6, 1e6), st.integers(0, 20))
def test_the_total_stays_and_one_answer_is_approached(low, high, answer, passes):
    queries = Ranges(6, [min(low, high)], [max(low, high)])
    moved = multiplicative_weights(CELLS, queries, np.array([answer]), passes=passes)
    assert moved.sum() == pytest.approx(50.0, rel=1e-12)
    possible = np.clip(answer, *((50.0, 50.0) if queries.row(0).all() else (0.0, 50.0)))
    before, after = (abs((queries @ cells)[0] - possible) for cells in (CELLS, moved))
    assert after <= before + 1e-9
    assert after < before or before < 1e-9 or passes == 0


@pytest.mark.parametrize("queries", FAMILIES, ids=repr)
def test_every_pass_comes_nearer_to_answers_that_agree(queries):
    """The relative entropy of the truth falls with every step, and in the end the answers are met."""
    answers = queries @ TRUTH
    cells, entropy, misfits = CELLS, np.inf, []
    for _ in range(200):
        cells = multiplicative_weights(cells, queries, answers, passes=1)
        closer = float((TRUTH * np.log(TRUTH / cells)).sum())
        assert closer <= entropy + 1e-9
        entropy = closer
        misfits.append(np.abs(queries @ cells - answers).max())
    assert misfits[-1] < 0.05 * misfits[0]
    np.testing.assert_allclose(multiplicative_weights(CELLS, queries, answers, passes=200), cells, rtol=1e-9)


def test_cells_of_nothing_stay_so_and_rows_of_nothing_do_nothing():
    moved = multiplicative_weights(np.array([0.0, 1.0, 3.0]), Prefix(3), np.array([2.0, 2.0, 4.0]))
    assert moved[0] == 0.0
    same = multiplicative_weights(CELLS, Weighted([[0] * 6]), np.array([9.0]))
    assert same.tolist() == CELLS.tolist()


def test_rows_are_not_kept_where_they_would_fill_the_memory(monkeypatch):
    kept = multiplicative_weights(CELLS, Tree(6, 2), Tree(6, 2) @ TRUTH)
    monkeypatch.setattr("sfumato.models.weights.measure.WRITTEN_OUT", 0)
    assert multiplicative_weights(CELLS, Tree(6, 2), Tree(6, 2) @ TRUTH).tolist() == kept.tolist()


@pytest.mark.parametrize(
    ("cells", "answers"),
    [(np.zeros(3), [1.0]), (np.array([1.0, -1.0, 2.0]), [1.0]), (np.ones(2), [1.0]), (np.ones(3), [np.nan])],
)
def test_what_makes_no_sense_is_refused(cells, answers):
    with pytest.raises(QueryError, match="multiplicative weights need"):
        multiplicative_weights(cells, Total(3), np.array(answers))
