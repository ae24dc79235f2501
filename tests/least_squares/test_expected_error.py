"""Expected error: closed forms against matrices written out, and against the noise itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.least_squares import expected_error as expected
from sfumato.least_squares.expected_error import expected_errors
from sfumato.least_squares.grams import added, gram_of
from sfumato.least_squares.products import AxisPart, combined, parts_of
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


def shared(queries: Queries, modulus: int = 5) -> Strategy:
    """Shares that differ from row to row."""
    return Strategy(queries, tuple(range(1, modulus + 1)), np.arange(queries.rows) * 3 % modulus)


STRATEGIES = [
    Strategy(Identity(12), (3,)),
    shared(Tree(12, (3, 4))),
    shared(Tree(12, 5)),
    shared(Tree.of_levels([[0, 5, 12], np.arange(13)])),
    shared(Haar(12)),
    Strategy(Haar(12)),
    Strategy(NominalHaar(12), (22, 1), np.minimum(np.arange(13), 1)),
    shared(NominalHaar(12)),
    shared(Stack(Scaled(Identity(12), np.arange(1, 13)), Weighted([[1] * 12, [0, 3] * 6]))),
    shared(Stack(Prefix(12), Total(12))),
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


def test_shares_that_are_no_products_are_told_apart():
    queries = Kron(Identity(2), Identity(2))
    uneven = Strategy(queries, (1, 2), np.array([0, 0, 0, 1]))
    assert parts_of(uneven) is None
    workload = Workload(("ranges",), (Kron(AllRanges(2), AllRanges(2)),))
    assert expected_errors(uneven, workload, True)[0] == pytest.approx(by_hand(uneven, workload.blocks[0], True))


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
    monkeypatch.setattr(expected, "MOST_INVERTED", 4)
    strategy = shared(Stack(Prefix(30), Identity(30)))
    workload = Workload(("prefixes",), (Prefix(30),))  # 30 rows: fewer than are sampled, so all are solved for
    assert expected_errors(strategy, workload, True)[0] == pytest.approx(by_hand(strategy, Prefix(30), True), rel=1e-5)


def test_another_domain_is_refused():
    with pytest.raises(QueryError, match="4 cells and the workload 5"):
        expected_errors(Strategy(Identity(4)), Workload(("w",), (Identity(5),)), True)


def test_grams_add_up():
    parts = [AllRanges(9), Prefix(9), Total(9), Identity(9), Ranges(9, [2], [7])]
    gram = added([gram_of(part) * (k + 1.0) for k, part in enumerate(parts)])
    V = sum((k + 1.0) * part.gram() for k, part in enumerate(parts))
    assert gram.dense == pytest.approx(V)
    assert gram.diagonal == pytest.approx(np.diag(V))
    assert gram.grand == pytest.approx(V.sum())
    v, cuts = np.linspace(-1, 2, 9) ** 2, np.array([0, 2, 3, 9])
    wanted = [v[a:b] @ V[a:b, a:b] @ v[a:b] for a, b in pairwise(cuts.tolist())]
    assert gram.squares(v, cuts) == pytest.approx(wanted)
    again = added([gram_of(part) * (k + 1.0) for k, part in enumerate(parts)])
    assert gram == again and hash(gram) == hash(again) and gram != gram_of(Identity(9))


@pytest.mark.parametrize("width", [1, 3, 8, 20, 33, 60, 120])
def test_roughness_is_what_nodes_leave(width):
    gram = added([gram_of(AllRanges(120)) * 0.01, gram_of(Prefix(120)), gram_of(Total(120)), gram_of(Identity(120))])
    V, cuts = gram.dense, np.arange(width + 1) * 120 // width
    left = sum(np.trace(V[a:b, a:b]) - V[a:b, a:b].sum() / (b - a) for a, b in pairwise(cuts.tolist()))
    assert gram.roughness(width) == pytest.approx(left, rel=0.02, abs=1e-6)  # some pairs stand for all
