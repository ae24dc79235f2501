"""What each family means, from its definition, and what the dense twins are themselves checked against."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.domain import Axis, Domain
from sfumato.queries import (
    AllRanges,
    Cells,
    Identity,
    Kron,
    Marginals,
    Predicates,
    Prefix,
    Queries,
    Ranges,
    Scaled,
    Selected,
    Stack,
    Total,
    Weighted,
    over,
)

DOMAIN = Domain(tuple(Axis(name, "integer", np.arange(n + 1)) for name, n in [("age", 4), ("sex", 2), ("area", 3)]))
SMALL = st.integers(1, 9)


def rows(queries: Queries) -> list[set[int]]:
    """The cells of each row of a 0/1 family."""
    assert set(np.unique(queries.dense())) <= {0, 1}
    return [set(np.flatnonzero(row).tolist()) for row in queries.dense()]


@given(SMALL)
def test_definitions(n: int) -> None:
    assert rows(Identity(n)) == [{i} for i in range(n)]
    assert rows(Total(n)) == [set(range(n))]
    assert rows(Prefix(n)) == [set(range(i + 1)) for i in range(n)]
    assert rows(AllRanges(n)) == [set(range(low, high + 1)) for low in range(n) for high in range(low, n)]
    assert AllRanges(n).rows == n * (n + 1) // 2


def test_rows_that_are_given() -> None:
    assert rows(Ranges(5, [0, 2, 4], [4, 3, 4])) == [{0, 1, 2, 3, 4}, {2, 3}, {4}]
    assert rows(Cells(5, [4, 0, 4])) == [{4}, {0}, {4}]
    masks = [np.array([True, False, False, True]), {1}, [2, 2, 0], range(1, 3), frozenset(), [False] * 4]
    assert rows(Predicates(4, masks)) == [{0, 3}, {1}, {0, 2}, {1, 2}, set(), set()]
    assert rows(Predicates(3, np.eye(3, dtype=bool))) == [{0}, {1}, {2}]
    assert Weighted([[1, -2], [3, 4]]).dense().tolist() == [[1, -2], [3, 4]]


def test_kron_numbers_rows_and_columns_with_the_last_factor_fastest() -> None:
    queries = Kron(Prefix(2), Identity(3))
    for first in range(2):
        for second in range(3):
            row = queries.row(first * 3 + second).reshape(2, 3)
            assert np.argwhere(row).tolist() == [[i, second] for i in range(first + 1)]


def test_kron_takes_many_factors() -> None:
    factors = [Total(2)] * 12 + [Identity(1)] * 40 + [Prefix(2)]  # more axes than a NumPy array may have
    x = np.arange(2**13)
    assert (Kron(*factors) @ x).tolist() == [x[::2].sum(), x.sum()]
    assert (Kron(*factors).T @ [1, 10]).tolist() == [11, 10] * 2**12


def test_closed_forms_of_gram_matrices() -> None:
    n = 7
    i, j = np.indices((n, n))
    assert np.array_equal(AllRanges(n).gram(), (np.minimum(i, j) + 1) * (n - np.maximum(i, j)))
    assert np.array_equal(Prefix(n).gram(), n - np.maximum(i, j))


@pytest.mark.parametrize(
    "queries",
    [
        Identity(6),
        Total(6),
        Prefix(6),
        AllRanges(6),
        Ranges(6, [0, 2, 2, 5], [5, 3, 3, 5]),
        Cells(6, [1, 1, 4]),
        Predicates(6, [{0, 5}, {1, 5}, set()]),
        Weighted([[1, 2, 3, 4, 5, 6], [-1, 0, 0, 2, 0, 0]]),
        Kron(Prefix(2), AllRanges(3)),
        Stack(Prefix(6), Total(6)),
        Selected(Stack(Prefix(6), Total(6)), [6, 2, 2, 0]),  # few rows: written out
        Selected(Total(6), [0] * 40),  # many rows of few: by the family's own law
    ],
    ids=repr,
)
def test_gram_with_a_weight_for_each_row(queries: Queries) -> None:
    for weights in (np.arange(queries.rows) + 2, (np.arange(queries.rows) + 2) / 8):
        matrix = queries.dense() * weights[:, None]
        assert np.array_equal(Scaled(queries, weights).gram(), matrix.T @ matrix)  # eighths are exact in floats


def test_gram_of_many_predicates_is_added_up_in_parts() -> None:
    masks = (
        np.random.default_rng(1).random((5000, 512)) < 0.3
    )  # more than the 2^21 entries that are written out at once
    matrix, weights = masks.astype(np.float64), np.arange(5000) % 7
    queries = Predicates(512, masks)
    assert np.array_equal(queries.gram(), matrix.T @ matrix)
    assert np.array_equal(Scaled(queries, weights).gram(), matrix.T @ (matrix * weights[:, None] ** 2))


def test_weights_may_be_of_many_kinds_and_whole_ones_keep_queries_whole() -> None:
    for weights in (
        [1, 2, 3],
        [Fraction(2), 4.0, Decimal(6)],
        np.array([1.0, 2.0, 3.0]),
        5,
        np.uint8(3),
        Fraction(8, 2),
    ):
        assert Scaled(Identity(3), weights).integral
    for weights in ([1, 2, 0.5], Fraction(1, 3), Decimal("0.1"), np.array([1.0, 2.0, 0.1])):
        assert not Scaled(Identity(3), weights).integral
    assert not Scaled(Weighted([[0.5]]), 2).integral
    assert Scaled(Identity(1), [Fraction(1, 4)]).dense().tolist() == [[0.25]]
    assert Scaled(Identity(2), [2**60 + 1, 2.0]).weights.tolist() == [2**60 + 1, 2]  # not through a float


def test_answers_are_whole_only_where_queries_and_numbers_are() -> None:
    assert (Identity(2) @ np.array([1, 2], dtype=np.int8)).dtype == np.int64
    assert (Identity(2) @ [True, False]).tolist() == [1, 0]
    assert (Identity(2) @ np.array([1, 2], dtype=np.float32)).dtype == np.float64
    assert (Scaled(Identity(2), 0.5) @ [1, 2]).tolist() == [0.5, 1.0]


def test_selections_stay_short_where_a_family_can_say_them() -> None:
    assert type(Identity(10**12)[[5, 3]]) is Cells
    assert type(AllRanges(10**5)[[5, 3]]) is Ranges
    assert type(Prefix(9)[2:4]) is type(Total(9)[[0, 0]]) is Ranges
    whole = Kron(Prefix(3), Identity(4))
    assert whole[:] is whole
    assert repr(whole[5]) == "Kron(Ranges(3, 1 ranges), Cells(4, 1 cells))"
    assert type(whole[[5, 0]]) is Selected


def test_a_few_rows_of_very_many() -> None:
    everything = Kron(AllRanges(50), AllRanges(50), AllRanges(8))
    chosen = np.random.default_rng(2).integers(0, everything.rows, 300)
    x = np.random.default_rng(3).integers(0, 9, everything.columns)
    some = everything[chosen]
    assert (some @ x).tolist() == [int(everything.row(int(place)) @ x) for place in chosen]
    assert some.l1 == sum(everything.row(int(place)) for place in chosen).max()
    shapes = (AllRanges(10**6),) * 3
    assert Kron(*shapes).rows > 2**100
    assert Kron(*shapes)[7].rows == 1


def test_marginals_by_number_and_by_name() -> None:
    x = np.random.default_rng(4).integers(0, 100, 24)
    cube = x.reshape(4, 2, 3)
    tables = Marginals.of(DOMAIN, [("age",), ("area", "age"), (), "sex"])
    expected = [cube.sum(axis=(1, 2)), cube.sum(axis=1).ravel(), [cube.sum()], cube.sum(axis=(0, 2))]
    assert (tables @ x).tolist() == np.concatenate(expected).tolist()
    assert tables.sets == ((0,), (0, 2), (), (1,))
    assert tables.constant_column_sum == tables.l1 == 4
    assert repr(tables) == "Marginals((4, 2, 3), 4 tables)"


def test_over_some_attributes() -> None:
    x = np.arange(24)
    cube = x.reshape(4, 2, 3)
    assert (over(DOMAIN, {"age": Prefix(4)}) @ x).tolist() == cube.sum(axis=(1, 2)).cumsum().tolist()
    by_area = over(DOMAIN, {"sex": Total(2), "age": Total(4)}, elsewhere=Identity)
    assert (by_area @ x).tolist() == cube.sum(axis=(0, 1)).tolist()
    assert repr(over(DOMAIN, {})) == "Kron(Total(4), Total(2), Total(3))"


def test_ranges_of_four_thousand_cells() -> None:
    n = 4096
    x = np.random.default_rng(5).integers(0, 1000, n)
    queries = AllRanges(n)
    answers = queries @ x
    assert len(answers) == n * (n + 1) // 2
    for place in (0, 1, n - 1, n, 5_000_000, queries.rows - 1):
        assert answers[place] == queries.row(place) @ x
    counts = np.arange(1, n + 1) * np.arange(n, 0, -1)
    assert np.array_equal(queries.T @ np.ones(queries.rows, dtype=np.int64), counts)
    assert np.array_equal(queries.T @ answers, queries.gram() @ x)


def test_ten_million_prefixes() -> None:
    n = 10**7
    ones = np.ones(n, dtype=np.int64)
    assert np.array_equal(Prefix(n) @ ones, np.arange(1, n + 1))
    assert np.array_equal(Prefix(n).T @ ones, np.arange(n, 0, -1))


@pytest.mark.parametrize(
    ("queries", "text"),
    [
        (Identity(5), "Identity(5)"),
        (Ranges(5, [0], [1]), "Ranges(5, 1 ranges)"),
        (Stack(*[Total(2)] * 6), "Stack(Total(2), Total(2), Total(2), Total(2), ... 2 more)"),
        (Scaled(Prefix(2), 3), "Scaled(Prefix(2), 3)"),
        (Scaled(Prefix(2), [1, 2]), "Scaled(Prefix(2), 2 weights)"),
        (Selected(Total(2), [0, 0]), "Selected(Total(2), 2 rows)"),
        (Weighted([[1, 2]]), "Weighted(1 x 2)"),
        (Predicates(4, [{1}]), "Predicates(4, 1 rows)"),
    ],
)
def test_descriptions(queries: Queries, text: str) -> None:
    assert repr(queries) == text
