"""Every law of every family, alone and composed at random, against the matrix written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from query_strategies import COMPOSED, SIMPLE, any_queries, whole_queries

from sfumato.queries import Queries
from sfumato.queries.trust import FAMILIES

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
CLOSE = {"rtol": 1e-9, "atol": 1e-6}  # sums of at most a few thousand floats of at most 1e4 in size


def vectors(draw: st.DrawFn, length: int, values: st.SearchStrategy[object], dtype: type) -> np.ndarray:
    width = draw(st.sampled_from([None, 1, 3]))
    count = length * (width or 1)
    seed = draw(st.lists(values, min_size=min(count, 8), max_size=min(count, 8)))
    flat = np.resize(np.array(seed, dtype=dtype), count)
    return flat if width is None else flat.reshape(length, width)


def test_there_is_a_generator_for_every_family_that_the_kernel_believes() -> None:
    assert SIMPLE.keys() | COMPOSED.keys() == FAMILIES  # tests/support/query_strategies.py


@SETTINGS
@given(whole_queries, st.data())
def test_whole_numbers_stay_whole_and_exact(queries: Queries, data: st.DataObject) -> None:
    matrix = queries.dense()
    assert queries.integral and matrix.dtype == np.int64 and matrix.shape == queries.shape
    big = st.integers(-(2**31), 2**31)
    for operator, length, twin in ((queries, queries.columns, matrix), (queries.T, queries.rows, matrix.T)):
        x = vectors(data.draw, length, big, np.int64)
        before = x.copy()
        answers = operator @ x
        assert answers.dtype == np.int64
        assert np.array_equal(answers.astype(object), twin.astype(object) @ x.astype(object))
        assert np.array_equal(x, before) and not np.shares_memory(x, answers)


@SETTINGS
@given(any_queries, st.data())
def test_floating_numbers(queries: Queries, data: st.DataObject) -> None:
    matrix = queries.dense()
    for operator, length, twin in ((queries, queries.columns, matrix), (queries.T, queries.rows, matrix.T)):
        x = vectors(data.draw, length, st.floats(-100, 100), np.float64)
        answers = operator @ x
        assert answers.dtype == np.float64
        np.testing.assert_allclose(answers, twin @ x, **CLOSE)


@SETTINGS
@given(whole_queries)
def test_columns_of_whole_queries_exactly(queries: Queries) -> None:
    matrix = queries.dense().astype(object)
    sums, squares = abs(matrix).sum(axis=0), (matrix**2).sum(axis=0)
    for found, expected in ((queries.column_sums(), sums), (queries.column_squares(), squares)):
        assert found.dtype == np.int64 and found.shape == (queries.columns,)
        assert np.array_equal(found.astype(object), expected)
    assert (queries.l1, queries.l2_squared) == (sums.max(), squares.max())
    assert type(queries.l1) is type(queries.l2_squared) is int
    assert queries.constant_column_sum == (sums[0] if len(set(sums)) == 1 else None)
    assert abs(matrix).max() <= queries.entry_bound
    gram = queries.gram()
    assert gram.dtype == np.int64 and np.array_equal(gram.astype(object), matrix.T @ matrix)


@SETTINGS
@given(any_queries)
def test_columns_of_any_queries(queries: Queries) -> None:
    matrix = queries.dense()
    np.testing.assert_allclose(queries.column_sums(), abs(matrix).sum(axis=0), **CLOSE)
    np.testing.assert_allclose(queries.column_squares(), (matrix**2).sum(axis=0), **CLOSE)
    assert queries.l1 == pytest.approx(abs(matrix).sum(axis=0).max(), rel=1e-9)
    assert queries.l2_squared == pytest.approx((matrix**2).sum(axis=0).max(), rel=1e-9)
    assert abs(matrix).max() <= queries.entry_bound * (1 + 1e-12)
    assert not queries.integral or np.array_equal(matrix, np.round(matrix))
    np.testing.assert_allclose(queries.gram(), matrix.T @ matrix, **CLOSE)


@pytest.mark.full
@SETTINGS
@given(any_queries, st.data())
def test_rows_and_selections(queries: Queries, data: st.DataObject) -> None:
    matrix = queries.dense()
    assert len(queries) == queries.rows == len(matrix)
    one = data.draw(st.integers(-queries.rows, queries.rows - 1))
    np.testing.assert_allclose(queries.row(one), matrix[one], rtol=1e-12)
    np.testing.assert_allclose(queries[one].dense(), matrix[[one]], rtol=1e-12)

    many = data.draw(st.lists(st.integers(-queries.rows, queries.rows - 1), min_size=1, max_size=9))
    mask = np.zeros(queries.rows, dtype=bool)
    mask[many] = True
    part = data.draw(st.slices(queries.rows).filter(lambda s: len(range(queries.rows)[s]) > 0))
    x = np.arange(1, queries.columns + 1)
    for wanted in (many, np.array(many), mask, part):
        chosen = queries[wanted]
        np.testing.assert_allclose(chosen.dense(), matrix[wanted], rtol=1e-12)
        np.testing.assert_allclose(chosen @ x, matrix[wanted] @ x, **CLOSE)
        np.testing.assert_allclose(chosen.column_sums(), abs(matrix[wanted]).sum(axis=0), **CLOSE)
        np.testing.assert_allclose(chosen.gram(), matrix[wanted].T @ matrix[wanted], **CLOSE)
        np.testing.assert_allclose(chosen.row(-1), matrix[wanted][-1], rtol=1e-12)


@SETTINGS
@given(whole_queries)
def test_transposing_twice_gives_the_same_and_descriptions_are_short(queries: Queries) -> None:
    assert queries.T.T is queries and queries.T.shape == queries.shape[::-1]
    assert repr(queries.T) == repr(queries) + ".T"
    assert "array" not in repr(queries) and len(repr(queries)) < 1000
