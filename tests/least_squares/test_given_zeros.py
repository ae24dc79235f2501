"""Least squares given structural zeros, beside the normal equations of possible cells written out."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.least_squares import closed_forms, expected_error
from sfumato.least_squares.base import EachCell
from sfumato.least_squares.classes import Merged
from sfumato.least_squares.closed_forms import AmongPossible, GivenZeros, given_zeros, normal_among
from sfumato.least_squares.expected_error import expected_errors
from sfumato.least_squares.general import Iterative
from sfumato.least_squares.gram import gram_among, gram_of
from sfumato.measurement import Design, Gaussian
from sfumato.models.linear.strategies.hierarchies import tree_strategy
from sfumato.queries import (
    AllRanges,
    Haar,
    Identity,
    Kron,
    Marginals,
    NominalHaar,
    Prefix,
    Queries,
    Stack,
    Total,
    Tree,
    Workload,
    default_workload,
)
from sfumato.schema import Schema


def spread(rows: int) -> np.ndarray:
    """Variances that differ from row to row, over two powers of ten."""
    return 10.0 ** (2.0 * np.modf(np.arange(1, rows + 1) * 0.6180339887)[0])


def zeros(shape: tuple[int, ...], linked: int) -> np.ndarray:
    """Flags of possible cells, about two thirds, that vary along the first axes only."""
    flags = np.modf(np.arange(np.prod(shape[:linked])) * 0.6180339887)[0] < 0.65
    return np.broadcast_to(flags.reshape(*shape[:linked], *[1] * (len(shape) - linked)), shape).reshape(-1)


# Queries, their shape, how many of the axes zeros link, whether precisions are products over the axes, the solver.
EXAMPLES = [
    (Identity(12), (3, 4), 2, False, EachCell),
    (Kron(Tree(6, 2), Identity(4)), (6, 4), 2, True, AmongPossible),
    (Kron(Tree(6, 2), NominalHaar(4), Haar(5)), (6, 4, 5), 2, True, GivenZeros),
    (Kron(Tree(6, 2), NominalHaar(4), Haar(5)), (6, 4, 5), 3, True, AmongPossible),
    (Kron(Tree(6, 2), NominalHaar(4)), (6, 4), 2, False, AmongPossible),
    (Marginals((3, 4, 2), [(0, 1, 2), (0,), ()]), (3, 4, 2), 2, False, AmongPossible),
    (Stack(Kron(Total(5), Identity(4)), Kron(Identity(5), Identity(4))), (5, 4), 2, False, AmongPossible),
]


def variances_of(queries: Queries, products: bool) -> np.ndarray:
    if not products:
        return spread(queries.rows)
    result = np.ones(1)
    for factor in queries.factors:
        result = np.multiply.outer(result, spread(factor.rows)).reshape(-1)
    return result


@pytest.mark.parametrize("few", [2**11, 0], ids=["dense", "by iteration"])
@pytest.mark.parametrize(("queries", "shape", "linked", "products", "kind"), EXAMPLES, ids=repr)
def test_solutions_are_those_of_the_possible_cells(monkeypatch, queries, shape, linked, products, kind, few):
    monkeypatch.setattr(closed_forms, "FEW_CELLS", few)
    possible, variances = zeros(shape, linked), variances_of(queries, products)
    found = given_zeros(queries, variances, possible)
    assert type(found) is (kind if few or kind in (EachCell, GivenZeros) else Iterative)
    matrix = queries.dense().astype(np.float64)[:, possible]
    inverse = np.linalg.inv(matrix.T @ (matrix / variances[:, None]))
    columns = np.stack([np.arange(queries.columns) % 5 - 1.0, possible * 1.0, ~possible * 1.0], axis=1)
    solved, known = found.solve(columns)
    assert known.all() and not solved[~possible].any() and not solved[:, 2].any()
    np.testing.assert_allclose(
        solved[possible], inverse @ columns[possible], rtol=1e-7, atol=1e-9 * np.abs(inverse).max()
    )
    squares = (columns[possible] * (inverse @ columns[possible])).sum(axis=0)
    assert found.squares(columns * possible[:, None]) == pytest.approx(squares, rel=1e-8)


def test_sums_that_possible_cells_do_not_determine_are_unknown():
    possible = np.array([True, True, False, False, True, False])
    found = given_zeros(Stack(Kron(Total(2), Total(3)), Kron(Identity(2), Total(3))), np.ones(3), possible)
    columns = np.eye(6)[:, [0, 4, 2]]  # the cell by itself in its row is told by that row's sum; another is not
    assert found.solve(columns)[1].tolist() == [False, True, True]


def test_matrices_between_some_cells():
    cells = np.array([1, 3, 4, 7, 11])
    asked = Stack(Kron(AllRanges(3), Prefix(4)), Identity(12), Total(12))
    assert gram_among(asked, cells).tolist() == asked.gram()[np.ix_(cells, cells)].tolist()
    queries = Kron(Tree(3, 3), Tree(4, 2))
    variances = np.multiply.outer(*(spread(factor.rows) for factor in queries.factors)).reshape(-1)
    dense = queries.dense().astype(np.float64)
    written = (dense.T @ (dense / variances[:, None]))[np.ix_(cells, cells)]
    np.testing.assert_allclose(normal_among(queries, 1.0 / variances, cells), written, rtol=1e-12)
    assert np.allclose(gram_of(AllRanges(5)).among(np.array([4, 0, 4])), AllRanges(5).gram()[[4, 0, 4]][:, [4, 0, 4]])


def test_few_classes_of_cells_err_as_all_of_them():
    """Cells are told apart by where zeros are; sums of ranges, weighted sums and sums of nothing possible."""
    shape, queries = (32, 12), Kron(Tree(32, 2), Tree(12, 3))
    grid = np.ones(shape, dtype=bool)
    grid[3:9, 5:], grid[20, :4] = False, False
    design = Design(queries, (Gaussian(3),))
    merged, whole = Merged.of(design, shape, grid.reshape(-1)), given_zeros(queries, design.sizes, grid.reshape(-1))
    for low, high in ((0, 32), (2, 7), (3, 9)):
        weights = np.zeros(shape)
        weights[low:high, 5:] = 2.0
        found = merged.of_cells(weights.reshape(-1))
        square = float(found.weights[:, 0] ** 2 * found.counts @ found.design.sizes)
        exact = float(whole.squares((weights * grid).reshape(-1, 1))[0])
        assert square == pytest.approx(exact, rel=1e-8)
        assert (square == 0.0) == ((low, high) == (3, 9)) and len(found.counts) < 0.7 * queries.rows
    assert type(merged.of_cells(weights.reshape(-1))) is type(found)


def schema_of(**sizes: int) -> Schema:
    attributes = {name: {"type": "integer", "lower": 0, "upper": size - 1} for name, size in sizes.items()}
    rules = [{"a": "0..3", "b": [1, 2]}, {"a": [5, 9], "b": 0}]
    return Schema(dataset="t", privacy_unit="row", attributes=attributes, impossible=rules)


@pytest.mark.parametrize("few", [2**11, 0], ids=["dense", "by rows"])
@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("sizes", [{"a": 24, "b": 5}, {"a": 12, "b": 4, "c": 5}], ids=["linked", "one free"])
def test_a_plan_knows_the_error_given_zeros(monkeypatch, sizes, pure, few):
    """Written out; by rows within what a sample of 64 rows leaves open, as every row here is of a block of few."""
    monkeypatch.setattr(closed_forms, "FEW_CELLS", few)
    schema = schema_of(**sizes)
    workload, possible = default_workload(schema.domain), schema.possible
    strategy = tree_strategy(schema.domain, workload, pure)
    gram = strategy.weighted.gram().astype(np.float64)[np.ix_(possible, possible)]
    inverse, load = np.linalg.inv(gram), float(strategy.load(1)) ** 2 * 2.0 if pure else float(strategy.load(2))
    squares = [(inverse * each.gram()[np.ix_(possible, possible)]).sum() / each.rows for each in workload.blocks]
    found = expected_errors(strategy, workload, pure, possible)
    exact = np.sqrt(load * np.array(squares))
    assert found == pytest.approx(exact, rel=1e-9 if few else 0.1)
    assert workload.overall(found) == pytest.approx(workload.overall(exact), rel=1e-9 if few else 0.05)
    plain = expected_errors(strategy, workload, pure)
    assert (exact <= plain * (1 + 1e-9)).all() and (exact < 0.99 * plain).any()


def test_rows_of_a_large_block_are_weighed_by_what_they_err_by_without_zeros(monkeypatch):
    monkeypatch.setattr(closed_forms, "FEW_CELLS", 0)
    schema = schema_of(a=20, b=8)
    asked = Workload(("ranges",), (Kron(AllRanges(20), AllRanges(8)),))
    strategy = tree_strategy(schema.domain, asked, True)
    exact = expected_errors(strategy, asked, True, schema.possible)  # all 7,560 rows touch a possible cell
    monkeypatch.setattr(expected_error, "MOST_TOUCHED", 1000)
    monkeypatch.setattr(expected_error, "FEW_SAMPLED", 64)
    assert expected_errors(strategy, asked, True, schema.possible) == pytest.approx(exact, rel=0.03)
