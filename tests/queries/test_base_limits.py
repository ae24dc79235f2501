"""Domains too large to list, numbers too large for 64 bits, and questions that make no sense."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.domain import Axis, Domain
from sfumato.errors import QueryError
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

HUGE = 10**12
DOMAIN = Domain((Axis("age", "integer", np.arange(5)), Axis("sex", "integer", np.arange(3))))


@pytest.mark.parametrize(
    ("queries", "l1", "l2_squared", "constant"),
    [
        (Identity(HUGE), 1, 1, 1),
        (Total(2**62), 1, 1, 1),
        (Prefix(HUGE), HUGE, HUGE, None),
        (AllRanges(HUGE), (HUGE // 2) * (HUGE // 2 + 1), (HUGE // 2) * (HUGE // 2 + 1), None),
        (Cells(2**62, [3, 2**61, 3]), 2, 2, None),
        (Predicates(HUGE, [{1, HUGE - 1}, {1}, set()]), 2, 2, None),
        (Ranges(HUGE, [0, 5, 7], [HUGE - 1, 8, 8]), 3, 3, None),
        (Ranges(HUGE, [0, 500], [499, HUGE - 1]), 1, 1, 1),
        (Kron(Identity(10**6), Identity(10**6), Prefix(5)), 5, 5, None),
        (Kron(Cells(10**9, [7]), Total(10**3)), 1, 1, None),
        (Stack(Identity(HUGE), Total(HUGE), Cells(HUGE, [1, 1])), 4, 4, None),
        (Scaled(Identity(HUGE), -3), 3, 9, 3),
        (Scaled(Prefix(HUGE), 0), 0, 0, 0),
        (Kron(Scaled(Identity(HUGE), 0), Prefix(9)), 0, 0, 0),
        (Identity(HUGE)[[4, 4]], 2, 2, None),
        (Marginals((10**4, 10**4, 10**4), [(0, 1, 2), (0,), ()]), 3, 3, 3),
    ],
    ids=repr,
)
def test_sensitivity_without_a_list_of_the_columns(
    queries: Queries, l1: int, l2_squared: int, constant: int | None
) -> None:
    tracemalloc.start()
    assert (queries.l1, queries.l2_squared, queries.constant_column_sum) == (l1, l2_squared, constant)
    assert tracemalloc.get_traced_memory()[1] < 10**6  # bytes
    tracemalloc.stop()


@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)).map(sorted), min_size=1, max_size=9))
def test_depth_of_ranges_by_their_ends_alone(ends: list[list[int]]) -> None:
    queries = Ranges(12, [low for low, _ in ends], [high for _, high in ends])
    far = Ranges(12 * 10**11, queries.lows * 10**11, queries.highs * 10**11 + 10**11 - 1)
    assert (far.l1, far.constant_column_sum) == (queries.dense().sum(axis=0).max(), queries.constant_column_sum)


def test_lists_that_do_not_fit_in_memory_are_refused() -> None:
    two_uneven = Stack(Cells(HUGE, [1]), Cells(HUGE, [2]))
    for ask in (
        lambda: Identity(HUGE).column_sums(),
        lambda: Identity(HUGE).column_squares(),
        lambda: Identity(HUGE).row(0),
        lambda: Identity(10**5).dense(),
        lambda: Identity(HUGE)[1:],
        lambda: AllRanges(10**6) @ np.ones(10**6),
        lambda: two_uneven.l1,
    ):
        with pytest.raises(QueryError, match="more than the"):
            ask()
    assert two_uneven.constant_column_sum is None
    with pytest.raises(QueryError, match="20000 are allowed"):
        Total(20_001).gram()


def test_whole_numbers_near_the_bound_are_exact_and_beyond_it_refused() -> None:
    top = 2**61
    assert (Total(2) @ [top, top - 1025]).tolist() == [2**62 - 1025]
    assert (Ranges(2, [0], [1]).T @ [-(2**62) + 1]).tolist() == [-(2**62) + 1] * 2
    assert (Weighted([[2**40, -(2**40)]]) @ [2**20, 2**20 - 1]).tolist() == [2**40]
    for queries, x in (
        (Total(2), [top, top]),
        (Identity(2), [-(2**63), 0]),
        (Scaled(Identity(2), 2**40), [2**22, 0]),
        (Kron(Weighted([[2**31]]), Weighted([[2**30]])), [2]),
    ):
        with pytest.raises(QueryError, match=r"could pass 2\^62"):
            queries @ np.array(x)
    with pytest.raises(QueryError, match=r"could pass 2\^62"):
        Prefix(2).T @ [top, top]
    assert (Total(2) @ [2.0**62, 2.0**62]).tolist() == [2.0**63]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=4, max_size=4))
def test_the_kernel_door_answers_modulo_two_to_the_64(x: list[int]) -> None:
    for queries in (
        Kron(Prefix(2), AllRanges(2)),
        Scaled(Weighted([[2**40, -3, 5, 2**61]]), -7),
        Predicates(4, [{0, 3}, {0, 1, 2, 3}]),
    ):
        exact = queries.dense().astype(object) @ np.array(x, dtype=object)
        wrapped = [(int(answer) + 2**63) % 2**64 - 2**63 for answer in exact]
        assert queries.apply_wrapping(np.array(x, dtype=np.int64)).tolist() == wrapped


def test_sums_that_could_pass_the_bound_are_refused() -> None:
    big = 2**60
    assert Weighted([[big, 1], [-big, 1]]).column_sums().tolist() == [2 * big, 2]
    for queries in (
        Weighted([[big]] * 5),
        Stack(*[Scaled(Identity(3), [big, 1, 1])] * 5),
        Scaled(Prefix(5), [big] * 5),
        Kron(Scaled(Total(2), 2**40), Scaled(Identity(2), 2**23)),
        Selected(Scaled(Total(2), big), [0] * 5),
        Scaled(AllRanges(2**10), 2**50),
    ):
        with pytest.raises(QueryError, match=r"could pass 2\^62"):
            queries.column_sums()
    for queries in (Weighted([[2**32]]), Scaled(Identity(2), 2**32), Scaled(Identity(2), [2**32, 1])):
        assert queries.l1 == 2**32
        with pytest.raises(QueryError, match=r"could pass 2\^62"):
            queries.column_squares()
        with pytest.raises(QueryError, match=r"could pass 2\^62"):
            queries.gram()
    assert Scaled(Identity(2), 2**40).l2_squared == 2**80  # one number need not fit in 64 bits


def test_gram_beyond_what_floats_hold_is_exact() -> None:
    rows = [[2**30 + 1, 2**30 - 1], [3, 2**30 + 7]]
    expected = np.array(rows, dtype=object).T @ np.array(rows, dtype=object)
    assert Weighted(rows).gram().tolist() == expected.tolist()
    assert Stack(Weighted(rows), Identity(2)).gram().tolist() == (expected + np.eye(2, dtype=int)).tolist()


BAD: list[tuple[Callable[[], object], str]] = [
    *((lambda n=n: Identity(n), "whole number of columns") for n in (0, -1, 2**62 + 1, 2.0, True, "5", None)),
    (lambda: Prefix(0), "Prefix needs"),
    (lambda: Ranges(5, [0], [5]), r"Ranges \(highs\) needs numbers from 0 to 4"),
    (lambda: Ranges(5, [-1], [4]), r"Ranges \(lows\) needs numbers from 0 to 4"),
    (lambda: Ranges(5, [3], [2]), "lows.i. <= highs.i."),
    (lambda: Ranges(5, [0, 1], [2]), "as many lows as highs"),
    (lambda: Ranges(5, [], []), "at least one row"),
    (lambda: Ranges(5, [0.0], [1.0]), "flat list of whole numbers"),
    (lambda: Ranges(5, [[0]], [[1]]), "flat list of whole numbers"),
    (lambda: Cells(5, [5]), "from 0 to 4; some lie outside"),
    (lambda: Cells(2**62, np.array([2**63], dtype=np.uint64)), "some lie outside"),
    (lambda: Cells(5, []), "at least one row"),
    (lambda: Cells(5, 3), "flat list"),
    (lambda: Predicates(5, []), "at least one row"),
    (lambda: Predicates(5, 3), "a list of masks"),
    (lambda: Predicates(5, [3]), "a list of masks"),
    (lambda: Predicates(5, [[True, False]]), "masks over all 5 cells"),
    (lambda: Predicates(5, [{7}]), "from 0 to 4"),
    (lambda: Weighted([1, 2]), "at least one row and column"),
    (lambda: Weighted([[]]), "at least one row and column"),
    (lambda: Weighted([[1], [2, 3]]), "Weighted needs"),
    (lambda: Weighted([["1"]]), "finite numbers"),
    (lambda: Weighted(np.array([[np.nan]])), "finite numbers"),
    (lambda: Weighted([[2**63]]), r"at most 2\^62"),
    (lambda: Scaled(Identity(3), [1, 2]), "each of 3 rows"),
    (lambda: Scaled(Identity(3), float("nan")), "finite numbers"),
    (lambda: Scaled(Identity(3), float("inf")), "finite numbers"),
    (lambda: Scaled(Identity(3), "2"), "finite numbers"),
    (lambda: Scaled(Identity(3), Fraction(2**70)), r"at most 2\^62"),
    (lambda: Scaled(np.eye(3), 2), "not of ndarray"),
    (Stack, "at least one family"),
    (lambda: Stack(Identity(3), Total(4)), "the same columns; these have 3, 4"),
    (lambda: Stack(3), "not of int"),
    (Kron, "at least one family"),
    (lambda: Kron(Identity(2), "x"), "not of str"),
    (lambda: Kron(Identity(2**40), Identity(2**40)), r"more than the 2\^62"),
    (lambda: Marginals((2, 3), []), "one set of axes"),
    (lambda: Marginals((), [()]), "at least one axis"),
    (lambda: Marginals((2, 3), [(2,)]), "axes 0 to 1"),
    (lambda: Marginals((2, 3), [(0, 0)]), "repeats one"),
    (lambda: Marginals.of(DOMAIN, [("height",)]), "no attribute 'height'; there are age, sex"),
    (lambda: over(DOMAIN, {"age": Prefix(3)}), r"age has 4 cells; Prefix\(3\) is not"),
    (lambda: over(DOMAIN, {"height": Prefix(3)}), "no attribute 'height'"),
    (lambda: over(DOMAIN, {"age": 3}), "is not a family"),
    (lambda: Identity(3) @ [1, 2], r"Identity\(3\) applies to 3 numbers.*shape is \(2,\)"),
    (lambda: Identity(3) @ np.zeros((3, 1, 1)), "applies to 3 numbers"),
    (lambda: Identity(3) @ 5, "applies to 3 numbers"),
    (lambda: Identity(3) @ ["a", "b", "c"], "int64 or float64"),
    (lambda: Identity(3) @ np.ones(3, dtype=complex), "int64 or float64"),
    (lambda: Identity(3) @ np.ones(3, dtype=np.uint64), "convert them first"),
    (lambda: Total(3).T @ [1, 2], r"Total\(3\).T applies to 1 numbers"),
    (lambda: Identity(3)[3], "rows 0 to 2"),
    (lambda: Identity(3)[[0, -4]], "rows 0 to 2"),
    (lambda: Identity(3).row(3), "rows 0 to 2"),
    (lambda: Identity(3)[[]], "no rows selected"),
    (lambda: Identity(3)[3:], "no rows selected"),
    (lambda: Identity(3)[[True]], "a mask of its 3 rows"),
    (lambda: Identity(3)[[0.5]], "a mask of its 3 rows"),
    (lambda: Identity(3)["age"], "a mask of its 3 rows"),
    (lambda: Kron(AllRanges(2**30), AllRanges(2**30))[-1], r"beyond 2\^62"),
    (lambda: Kron(AllRanges(2**30), AllRanges(2**30))[-3:-1], r"beyond 2\^62"),
]


@pytest.mark.parametrize(("ask", "message"), BAD, ids=map(str, range(len(BAD))))
def test_what_makes_no_sense_is_refused_in_one_line(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(QueryError, match=message) as refusal:
        ask()
    assert "\n" not in str(refusal.value)


def test_cells_are_not_quoted_in_messages() -> None:
    for ask in (lambda: Cells(9, [12345]), lambda: Ranges(9, [0], [12345]), lambda: Predicates(9, [{12345}])):
        with pytest.raises(QueryError) as refusal:
            ask()
        assert "12345" not in str(refusal.value)


@pytest.mark.parametrize("use", [lambda q: np.ones(3) @ q, lambda q: q @ q, lambda q: q.T @ q, list], ids=range(4))
def test_uses_that_would_unroll_the_rows_fail_at_once(use: Callable[[Queries], object]) -> None:
    with pytest.raises(TypeError):
        use(Identity(3))
