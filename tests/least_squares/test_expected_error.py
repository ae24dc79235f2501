"""Expected error: closed forms against matrices written out, and against the noise itself."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.least_squares import closed_forms as families
from sfumato.least_squares import expected_error as expected
from sfumato.least_squares.expected_error import expected_errors
from sfumato.models.linear.strategies.hierarchies import AxisPart, combined
from sfumato.queries import (
    AllRanges,
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
    Workload,
)
from sfumato.queries.strategy import Strategy

SOME_RANGES = Ranges(12, [0, 3, 5], [4, 9, 11])


def by_hand(strategy: Strategy, queries: Queries, pure: bool) -> float:
    A = strategy.weighted.dense().astype(float)
    W = queries.dense().astype(float)
    noise = 2 * np.abs(A).sum(axis=0).max() ** 2 if pure else (A**2).sum(axis=0).max()
    return float(np.sqrt(noise * np.trace(W @ np.linalg.pinv(A.T @ A) @ W.T) / len(W)))


def uneven(queries: Queries, modulus: int = 5) -> Strategy:
    """Weights that differ from row to row."""
    return Strategy(queries, tuple(range(1, modulus + 1)), np.arange(queries.rows) * 3 % modulus)


STRATEGIES = [
    Strategy(Identity(12), (3,)),
    uneven(Tree(12, (3, 4))),
    uneven(Tree(12, 5)),
    uneven(Tree.of_levels([[0, 5, 12], np.arange(13)])),
    uneven(Haar(12)),
    Strategy(Haar(12)),
    Strategy(NominalHaar(12), (22, 1), np.minimum(np.arange(13), 1)),
    uneven(NominalHaar(12)),
    uneven(Stack(Scaled(Identity(12), np.arange(1, 13)), Weighted([[1] * 12, [0, 3] * 6]))),
    uneven(Stack(Prefix(12), Total(12))),
]


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: repr(strategy.queries))
def test_closed_forms_agree_with_the_matrix(strategy, pure):
    blocks = (AllRanges(12), Prefix(12), Total(12), Identity(12), SOME_RANGES, Stack(Total(12), SOME_RANGES))
    workload = Workload(tuple(map(repr, blocks)), blocks)
    wanted = [by_hand(strategy, block, pure) for block in blocks]
    assert expected_errors(strategy, workload, pure) == pytest.approx(wanted, rel=1e-9)  # rounding only


@pytest.mark.parametrize("pure", [True, False])
def test_products_agree_with_the_matrix(pure):
    tree, levels = Tree(6, (2, 3)), np.array([5, 2, 3])
    strategy = combined([AxisPart(tree, levels[tree.row_level]), AxisPart(Identity(3), np.ones(3))])
    blocks = (
        Kron(AllRanges(6), Total(3)),
        Identity(18),
        Marginals((6, 3), [(0,), (1,)]),
        Scaled(Kron(Total(6), Prefix(3)), 2),
        Ranges(18, [2, 3], [9, 17]),  # no product: written out
    )
    workload = Workload(tuple(map(repr, blocks)), blocks)
    wanted = [by_hand(strategy, block, pure) for block in blocks]
    assert expected_errors(strategy, workload, pure) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("factor", [Identity(2), Tree(2, 2), Prefix(2)], ids=repr)
def test_weights_that_are_no_products(factor):
    strategy = Strategy(Kron(factor, factor), (1, 2), np.arange(factor.rows**2) // (factor.rows**2 - 1))
    workload = Workload(("ranges",), (Kron(AllRanges(2), AllRanges(2)),))
    wanted = by_hand(strategy, workload.blocks[0], True)
    assert expected_errors(strategy, workload, True)[0] == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("sets", [[(0, 1), (0,), ()], [(0, 1)], [(0,), (1,)]])
def test_tables_agree_with_the_matrix(sets):
    queries = Marginals((4, 3), sets)
    which = np.repeat(np.arange(len(sets)), [block.rows for block in queries.blocks])
    strategy = Strategy(queries, tuple(range(2, 2 + len(sets))), which) if len(sets) > 1 else Strategy(queries)
    block = Stack(Kron(AllRanges(4), Total(3)), Kron(Total(4), Identity(3)))
    assert expected_errors(strategy, Workload(("w",), (block,)), True)[0] == pytest.approx(
        by_hand(strategy, block, True), rel=1e-9
    )


def test_what_is_not_determined_has_no_bound():
    workload = Workload(("cells", "total"), (Identity(4), Total(4)))
    assert expected_errors(Strategy(Total(4)), workload, True) == pytest.approx([np.inf, np.sqrt(2)])
    tables = Strategy(Marginals((2, 2), [(0,), ()]), (1, 1), np.array([0, 0, 1]))
    assert expected_errors(tables, workload, True)[0] == np.inf


def test_large_domains_without_closed_form_are_sampled(monkeypatch):
    monkeypatch.setattr(families, "FEW_CELLS", 4)
    monkeypatch.setattr(expected, "MOST_INVERTED", 4)
    strategy = uneven(Stack(Prefix(30), Tree(30, 3)))
    workload = Workload(("prefixes",), (Prefix(30),))  # 30 rows: fewer than are sampled, so all are solved for
    assert expected_errors(strategy, workload, True)[0] == pytest.approx(by_hand(strategy, Prefix(30), True), rel=1e-5)


def test_another_domain_is_refused():
    with pytest.raises(QueryError, match="4 cells and the workload 5"):
        expected_errors(Strategy(Identity(4)), Workload(("w",), (Identity(5),)), True)


def test_a_cell_that_is_never_asked_about_has_no_bound_in_a_large_domain(monkeypatch):
    monkeypatch.setattr(families, "FEW_CELLS", 4)
    monkeypatch.setattr(expected, "MOST_INVERTED", 4)
    strategy = Strategy(Stack(Ranges(9, range(8), range(8)), Ranges(9, range(7), range(1, 8))))
    assert expected_errors(strategy, Workload(("cells",), (Identity(9),)), True)[0] == np.inf


@pytest.mark.parametrize("rows", [3, 300])
def test_blocks_of_few_and_of_many_rows_under_a_product(rows):
    """Ranges over all cells are no product: few are solved for, many are priced by their Gram matrix."""
    low = np.arange(rows) % 20
    block = Ranges(24, low, 23 - np.arange(rows) % 3)
    for strategy in (Strategy(Kron(Tree(6, 2), Haar(4))), Strategy(Marginals((6, 4), [(0, 1), (0,)]))):
        found = expected_errors(strategy, Workload(("ranges",), (block,)), False)[0]
        assert found == pytest.approx(by_hand(strategy, block, False), rel=1e-9)
