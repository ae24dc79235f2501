"""Every family beside the normal equations written out: what it solves, and what it prices."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import QueryError
from sfumato.least_squares import closed_forms as families
from sfumato.least_squares.base import EachCell, LeastSquares, OneTotal
from sfumato.least_squares.closed_forms import (
    FORMS,
    AmongPossible,
    GivenZeros,
    HaarSquares,
    NominalSquares,
    TreeSquares,
    Woodbury,
    least_squares,
)
from sfumato.least_squares.general import Dense, Iterative, Span
from sfumato.least_squares.gram import gram_of
from sfumato.least_squares.kron import KronSquares, MarginalSquares, SharedBasis, closest_products
from sfumato.measurement import Laplace
from sfumato.queries import (
    AllRanges,
    Cells,
    Haar,
    Identity,
    Kron,
    Marginals,
    NominalHaar,
    Prefix,
    Queries,
    Ranges,
    Scaled,
    Stack,
    Total,
    Tree,
    Weighted,
)

UNEVEN = Tree.of_levels([[0, 3, 9], [0, 1, 3, 4, 9], list(range(10))])
THETA = Weighted([[1, 2, 0, 5, 1, 1, 7], [3, 0, 0, 1, 1, 1, 1]])


def spread(rows: int, orders: float = 2.0) -> np.ndarray:
    """Variances that differ from row to row, over so many powers of ten."""
    return 10.0 ** (orders * np.modf(np.arange(1, rows + 1) * 0.6180339887)[0])


def probes(cells: int) -> np.ndarray:
    """Single cells, ranges and uneven weights, a column each."""
    column = np.arange(cells)
    return (
        np.stack([column == 0, column == cells - 1, column >= cells // 2, np.cos(column), column + 0.5], axis=1) * 1.0
    )


def written_out(queries: Queries, variances: np.ndarray) -> np.ndarray:
    matrix = queries.dense().astype(np.float64)
    return matrix.T @ (matrix / variances[:, None])


def asked_of(cells: int) -> list[Queries]:
    """Workloads of short Gram matrices and of full ones."""
    return [
        AllRanges(cells),
        Prefix(cells),
        Total(cells),
        Identity(cells),
        Ranges(cells, [0, cells // 2], [0, cells - 1]),
    ]


def check(queries: Queries, variances: np.ndarray, kind: type) -> None:
    """What is solved for is the inverse times a column, what is priced its trace with a Gram matrix."""
    found = least_squares(queries, variances)
    assert type(found) is kind
    normal = written_out(queries, variances)
    inverse = np.linalg.pinv(normal, rcond=1e-13, hermitian=True)

    def determined(columns: np.ndarray) -> np.ndarray:
        return np.abs(normal @ (inverse @ columns) - columns).max(axis=0) <= 1e-7 * np.abs(columns).max(axis=0)

    def price(asked: Queries) -> float:
        return np.trace(asked.gram() @ inverse) if determined(asked.gram() * 1.0).all() else np.inf

    columns = np.concatenate([probes(queries.columns), queries.T @ np.eye(queries.rows)], axis=1)
    before = columns.copy()
    solved, known = found.solve(columns)
    assert known.tolist() == determined(columns).tolist()
    assert known.all() if found.certain else known[5:].all()
    expected = inverse @ columns
    np.testing.assert_allclose(solved[:, known], expected[:, known], rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    assert np.array_equal(columns, before)
    squares = np.where(known, (columns * expected).sum(axis=0), np.inf)
    assert found.squares(columns) == pytest.approx(squares, rel=1e-8, abs=1e-12 * np.abs(expected).max())
    for asked in asked_of(queries.columns):
        assert found.price(gram_of(asked)) == pytest.approx(price(asked), rel=1e-8), asked
    for axes in zip(*map(asked_of, found.sizes), strict=True):
        assert found.price_by_axes(*map(gram_of, axes)) == pytest.approx(price(Kron(*axes)), rel=1e-8), axes


EXAMPLES = [  # at least one of every class and of every line of FORMS
    (Total(6), OneTotal),
    (Total(1), OneTotal),
    (Identity(5), EachCell),
    (Scaled(Identity(5), [1, 2, -3, 4, 5]), EachCell),
    (Kron(Identity(2), Kron(Identity(3), Identity(2))), EachCell),
    (Stack(Kron(Identity(3), Identity(2)), Ranges(6, [0, 3], [2, 4])), Woodbury),
    (Tree(1, ()), TreeSquares),
    (Tree(2, 2), TreeSquares),
    (Tree(16, 2), TreeSquares),
    (Tree(27, 3), TreeSquares),
    (Tree(37, 2), TreeSquares),
    (Tree(40, (3, 2, 7)), TreeSquares),
    (UNEVEN, TreeSquares),
    (Scaled(Tree(10, 4), np.arange(1, Tree(10, 4).rows + 1)), TreeSquares),
    *((Haar(n), HaarSquares) for n in (1, 2, 3, 8, 11, 29, 64)),
    *((NominalHaar(n), NominalSquares) for n in (1, 2, 3, 17)),
    (Stack(Scaled(Identity(7), [3, 1, 4, 1, 5, 9, 2]), THETA), Woodbury),
    (Stack(THETA, Total(7), Identity(7)), Woodbury),
    (Stack(Identity(9), Ranges(9, [0, 2, 6], [1, 4, 8])), Woodbury),
    (Scaled(Stack(Identity(4), Prefix(4)), [5, 1, 2, 3, 0, 2, 0, 1]), Woodbury),
    (Scaled(Stack(Total(3), Identity(3)), [0, 1, 2, 3]), EachCell),
    (Prefix(9), Dense),
    (AllRanges(9), Dense),
    (Stack(UNEVEN, Total(9)), Dense),
    (Ranges(12, [0, 2, 2, 7], [5, 8, 3, 11]), Span),
    (Scaled(Stack(Prefix(9), Prefix(9)), [1, 1, 0] * 6), Span),
    (Kron(Tree(4, 2), Haar(3)), KronSquares),
    (Kron(Total(2), Prefix(3)), KronSquares),
    (Marginals((3, 2), [(0, 1), (0,), ()]), MarginalSquares),
    (Marginals((3, 2, 2), [(0,), (1, 2)]), MarginalSquares),
    (Stack(Kron(Identity(6), Identity(4)), Kron(Ranges(6, [0, 3], [2, 5]), Total(4))), MarginalSquares),
    (Stack(Kron(Ranges(6, [0, 2, 4], [1, 3, 5]), Total(2)), Kron(Total(6), Identity(2))), MarginalSquares),
    (Stack(Total(8), Ranges(8, [0, 4], [3, 7]), Ranges(8, [0, 2, 4, 6], [1, 3, 5, 7]), Identity(8)), MarginalSquares),
    (Stack(Total(6), Kron(Identity(3), Total(2)), Identity(6)), MarginalSquares),
    (Kron(Tree(3, 3), Tree(2, 2)), Iterative),
]


def by_rows(queries: Queries, kind: type) -> np.ndarray:
    """Variances that differ from row to row as far as a class allows."""
    if kind is KronSquares:
        return np.outer(*(spread(factor.rows) for factor in queries.factors)).ravel()
    if kind is MarginalSquares:
        return np.concatenate([np.full(block.rows, 1.5**i) for i, block in enumerate(queries.blocks)])
    return spread(queries.rows, 0.2 if kind is Iterative else 2.0)


@pytest.mark.parametrize(("queries", "kind"), EXAMPLES, ids=repr)
def test_every_family_agrees_with_the_matrix_written_out(queries, kind):
    check(queries, by_rows(queries, kind), kind)
    alike = np.full(queries.rows, 3.5)
    check(queries, alike, type(least_squares(queries, alike)) if kind in (Woodbury, Iterative) else kind)


def test_every_class_and_every_form_has_an_example():
    given_zeros = {AmongPossible, GivenZeros}  # in test_given_zeros.py
    assert {kind for _, kind in EXAMPLES} == set(LeastSquares.__subclasses__()) - given_zeros
    assert {type(queries) for queries, _ in EXAMPLES} >= set(FORMS)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.integers(2, 9), st.floats(0, 6), st.randoms(use_true_random=False))
def test_trees_of_any_shape_and_precision(cells, branching, orders, chance):
    tree = Tree(cells, branching)
    variances = spread(tree.rows, orders)
    chance.shuffle(variances)
    check(tree, variances, TreeSquares)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 11), max_size=10), st.lists(st.integers(1, 11), max_size=5))
def test_trees_given_by_their_cuts(lower, upper):
    levels = [sorted({0, 12, *upper}), sorted({0, 12, *upper, *lower}), list(range(13))]
    tree = Tree.of_levels([cuts for i, cuts in enumerate(levels) if cuts not in levels[i + 1 :]])
    check(tree, spread(tree.rows), TreeSquares)


FACTORS = [Tree(6, 2), Haar(5), NominalHaar(4), Identity(3), Stack(Identity(7), THETA), Prefix(4)]


@pytest.mark.parametrize("first", FACTORS, ids=repr)
@pytest.mark.parametrize("second", FACTORS, ids=repr)
def test_factors_with_precisions_that_are_products(first, second):
    queries = Kron(first, second)
    kind = EachCell if type(first) is type(second) is Identity else KronSquares
    check(queries, np.outer(spread(first.rows), spread(second.rows)).ravel(), kind)


def test_three_factors_nested_and_scaled():
    queries = Kron(Scaled(Tree(4, 2), 3), Kron(Haar(3), NominalHaar(3)))
    check(queries, np.full(queries.rows, 2.0), KronSquares)


@pytest.mark.parametrize("scale", ["2/3", "5", "400"])
def test_whole_noise_is_not_quite_a_product_and_is_solved_all_the_same(scale):
    """Weights per level on both axes; the variance of discrete Laplace noise does not go with its scale squared."""
    tree = Tree(9, 3)
    weights = np.array([1, 2, 4])[tree.row_level]
    by_weight = {weight: Laplace(Fraction(scale) / weight).variance for weight in (1, 2, 4, 8, 16)}
    variances = np.vectorize(by_weight.get)(np.outer(weights, weights)).ravel()
    check(Kron(tree, tree), variances, Iterative)


TABLES = [
    Marginals((3, 4, 2), [(0, 1, 2), (0,), ()]),
    Marginals((3, 4, 2), [(0, 1, 2), (0, 2), (1,), (0, 1, 2)]),
    Marginals((3, 1, 4), [(0, 1), (2,)]),
    Stack(Scaled(Kron(Identity(3), Total(4)), 3), Scaled(Kron(Identity(3), Identity(4)), 2)),
]


@pytest.mark.parametrize("queries", TABLES, ids=repr)
def test_tables_by_some_attributes(queries):
    check(queries, by_rows(queries, MarginalSquares), MarginalSquares)


def test_a_table_of_scaled_cells_is_no_table():
    queries = Stack(Kron(Identity(3), Scaled(Identity(4), 1)[:]), Kron(Identity(3), Total(4)))
    check(queries, by_rows(queries, MarginalSquares), Dense)


HALF_BLIND = [
    Total(6),
    Cells(6, [0, 1, 1]),
    Ranges(6, [0, 2], [3, 5]),
    Kron(Total(2), Identity(3)),
    Kron(Identity(2), Total(3)),
    Kron(Total(2), Prefix(3)),
    Kron(Ranges(2, [0], [1]), Tree(3, 2)),
    Marginals((2, 3), [(0,), (1,)]),
    Scaled(Identity(6), [1, 0, 2, 0, 1, 1]),
    Scaled(Haar(6), [1, 0, 2, 0, 1, 1]),
    Scaled(Tree(6, 6), [1, 0, 2, 0, 1, 1, 1]),
    Scaled(Stack(Identity(6), Total(6)), [1, 0, 2, 0, 1, 1, 1]),
]


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("few", [2048, 1], ids=["written out", "iterated"])
@pytest.mark.parametrize("queries", HALF_BLIND, ids=repr)
def test_what_the_queries_do_not_determine_is_said(queries, few, uneven, monkeypatch):
    monkeypatch.setattr(families, "FEW_CELLS", few)
    variances = spread(queries.rows, 1.0) if uneven else np.ones(queries.rows)
    matrix = queries.dense().astype(np.float64)
    columns = np.concatenate([np.eye(6), np.ones((6, 1)), matrix.T, matrix.T @ spread(queries.rows)[:, None]], axis=1)
    solved, known = least_squares(queries, variances).solve(columns)
    gram = written_out(queries, variances)
    missed = columns - matrix.T @ np.linalg.lstsq(matrix.T, columns, rcond=1e-12)[0]
    assert known.tolist() == (np.abs(missed).max(axis=0) < 1e-9).tolist()
    assert not known.all()
    np.testing.assert_allclose((gram @ solved)[:, known], columns[:, known], atol=1e-8 * np.abs(columns).max())


@pytest.mark.parametrize("size", [1e-40, 1e40])
@pytest.mark.parametrize(
    "queries", [Tree(6, 2), Prefix(5), Kron(Haar(2), Prefix(3)), Stack(Haar(6), Total(6))], ids=repr
)
def test_noise_of_any_size(queries, size):
    columns, variances = probes(queries.columns), spread(queries.rows)
    solved, known = least_squares(queries, variances * size).solve(columns)
    assert known.all()
    np.testing.assert_allclose(solved / size, least_squares(queries, variances).solve(columns)[0], rtol=1e-8, atol=1e-8)


def test_certain_solvers_say_so():
    assert least_squares(Tree(5, 2), np.ones(Tree(5, 2).rows)).certain
    assert OneTotal(1, 2.0).certain and not OneTotal(2, 2.0).certain
    assert not least_squares(Scaled(Identity(2), [0, 1]), np.ones(2)).certain


def test_a_column_of_nothing_is_known_and_nothing():
    for queries in (Total(4), Ranges(4, [0], [1]), Kron(Total(2), Identity(2)), Haar(4), Marginals((2, 2), [(0,)])):
        solved, known = least_squares(queries, np.ones(queries.rows)).solve(np.zeros((4, 2)))
        assert known.all() and not solved.any()


@pytest.mark.parametrize(
    "blocks",
    [
        (Tree(3000, 2), Tree(3000, 7)),
        (Kron(Identity(50), Total(60)), Kron(Tree(50, 4), Identity(60))),
        (Kron(Prefix(50), Total(60)), Kron(Total(50), Tree(60, 3)), Cells(3000, range(3000))),
    ],
    ids=repr,
)
def test_many_cells_without_a_closed_form_converge(blocks):
    """The relative residual is at most the stated 1e-10, times what the scaling adds."""
    queries = Stack(*blocks)
    variances = spread(queries.rows, 1.0)
    found = least_squares(queries, variances)
    assert type(found) is Iterative
    columns = probes(3000)
    solved, known = found.solve(columns)
    missed = queries.T @ ((queries @ solved) / variances[:, None]) - columns
    assert known.all() and (np.linalg.norm(missed, axis=0) <= 1e-8 * np.linalg.norm(columns, axis=0)).all()


CELLS_AND_TOTALS = [Kron(Total(4), Identity(3), Total(5)), Kron(Identity(4), Total(3), Identity(5)), Identity(60)]


def test_a_basis_shared_by_all_blocks_is_exact_for_cells_and_totals():
    queries, precisions = Stack(Total(60), *CELLS_AND_TOTALS), np.repeat([1.0, 3.0, 0.5, 2.0], [1, 3, 20, 60])
    guess = SharedBasis.of(queries.blocks, np.split(precisions, [1, 4, 24]))
    columns = probes(60)
    np.testing.assert_allclose(
        guess(columns), np.linalg.solve(written_out(queries, 1 / precisions), columns), atol=1e-12
    )


def test_a_basis_shared_by_all_blocks_leaves_out_what_none_of_them_sees():
    """Any guess must be symmetric and without negative eigenvalues, and here those that are not 0 are seen."""
    blocks = [Kron(AllRanges(4), Total(3)), Kron(Total(4), Identity(3))]
    made = SharedBasis.of(blocks, [spread(10), spread(3)])(np.eye(12))
    values = np.linalg.eigvalsh(made)
    assert np.allclose(made, made.T, atol=1e-12) and values.min() > -1e-12
    assert (values > 1e-12).sum() == np.linalg.matrix_rank(Stack(*blocks).dense()) == 6


def test_a_basis_needs_blocks_along_the_same_short_axes():
    ones = [np.ones(6), np.ones(6)]
    assert SharedBasis.of([Kron(Identity(2), Identity(3)), Kron(Identity(3), Identity(2))], ones) is None
    assert SharedBasis.of([Kron(Identity(2), Identity(3)), Prefix(6)], ones) is None
    assert SharedBasis.of([Kron(Identity(2), Identity(300))], [np.ones(600)]) is None
    assert SharedBasis.of([Prefix(6), Identity(6)], ones) is None


def test_ranges_and_tables_of_uneven_noise_take_few_rounds():
    """30 with the shared basis; with the diagonal of A^T P A some hundreds."""
    queries = Stack(
        Total(2400),
        Kron(AllRanges(20), Identity(10), Total(12)),
        Kron(Total(20), Identity(10), Identity(12)),
        Identity(2400),
    )
    variances, columns = spread(queries.rows, 0.7), probes(2400)
    found = least_squares(queries, variances)
    assert type(found) is Iterative and found.roughly(1e-10, 60).solve(columns)[1].all()
    assert not Iterative(queries, 1 / variances, rounds=60).solve(columns)[1].any()


def test_large_trees_and_wavelets_meet_their_equations():
    for queries in (Tree(100_003, 16), Haar(100_003), NominalHaar(1000)):
        variances = spread(queries.rows, 1.0)
        columns = probes(queries.columns)
        solved, _ = least_squares(queries, variances).solve(columns)
        missed = queries.T @ ((queries @ solved) / variances[:, None]) - columns
        assert (np.linalg.norm(missed, axis=0) <= 1e-9 * np.linalg.norm(columns, axis=0)).all()


@pytest.mark.parametrize(
    "variances", [np.ones(2), np.array([1.0, 0.0, 1.0]), np.array([1.0, np.inf, 1.0]), -np.ones(3)]
)
def test_variances_must_be_one_per_row_and_above_zero(variances):
    with pytest.raises(QueryError, match="variance"):
        least_squares(Identity(3), variances)


def test_few_queries_over_many_cells_are_solved_by_their_rows():
    """Against the pseudo-inverse written out; columns outside the span of the rows are not known."""
    lows, highs = np.array([0, 10, 30, 30]), np.array([19, 29, 99, 59])
    queries, variances = Ranges(200, lows, highs), np.array([1.0, 4.0, 2.0, 0.5])
    found = least_squares(queries, variances)
    assert type(found) is Span
    written = queries.dense().astype(np.float64)
    inside, outside = written.T @ np.array([[1.0], [2.0], [-1.0], [0.5]]), np.eye(200)[:, [5]]
    solved, known = found.solve(np.hstack([inside, outside]))
    # Its rank is 4: without a bound, rounding passes for further singular values on some processors.
    expected = np.linalg.pinv(written.T @ (written / variances[:, None]), rcond=1e-10, hermitian=True) @ inside
    assert np.allclose(solved[:, :1], expected, atol=1e-9) and known.tolist() == [True, False]


def test_products_of_precisions_are_told_from_others_however_many_there_are():
    """Means over many rows round; a product of weights must not count as none for that."""
    first, second = np.resize([3.0, 7.0, 1e6], 4000), np.resize([2.0**20, 11.0], 900)
    lists, exact = closest_products(np.outer(first, second).reshape(-1), [4000, 900])
    assert exact and np.allclose(np.outer(*lists), np.outer(first, second), rtol=1e-12, atol=0)
    odd = np.outer(first, second)
    odd[17, 5] *= 1 + 1e-6
    assert not closest_products(odd.reshape(-1), [4000, 900])[1]
