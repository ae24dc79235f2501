"""Least squares on noisy answers: (A^T P A)^-1 for any strategy, in closed form where there is one.

A: the queries of the strategy. P: the precisions of their noise, one over its variances.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.least_squares.base import EachCell, OneTotal, Solver
from sfumato.least_squares.dense import DenseSolver
from sfumato.least_squares.few_rows import FewRowsSolver
from sfumato.least_squares.iterative import Iterative
from sfumato.least_squares.kron import KronSolver, closest_products
from sfumato.least_squares.marginals import MOST_AXES, MarginalSolver
from sfumato.least_squares.tree import TreeSolver
from sfumato.least_squares.wavelets import HaarSolver, NominalHaarSolver
from sfumato.least_squares.woodbury import Woodbury, disjoint
from sfumato.queries import Haar, Identity, Kron, Marginals, NominalHaar, Queries, Scaled, Stack, Total, Tree

FEW_CELLS = 2048  # up to which the normal equations are written out
FEW_ROWS = 2048  # beside all cells, up to which these rows are written out
FEW_ENTRIES = 2**25  # of these rows
MOST_WRITTEN = 512  # rows that are written out where there are more cells than that

__all__ = ["Solver", "solver"]


def solver(queries: Queries, variances: Floats) -> Solver:
    """The fastest exact way for these queries; variances: of the noise of every row, above 0.

    >>> from sfumato.queries import Identity, Stack, Total
    >>> twice = solver(Stack(Total(2), Identity(2)), np.ones(3))
    >>> twice.solve(np.array([[1.0], [0.0]]))[0].round(4).tolist()
    [[0.6667], [-0.3333]]
    """
    given = np.asarray(variances, dtype=np.float64)
    if given.shape != (queries.rows,) or not (np.isfinite(given) & (given > 0)).all():
        raise QueryError(f"least squares needs a finite variance above 0 for each of the {queries.rows} rows")
    return _solver(queries, 1.0 / given)


def _solver(queries: Queries, precisions: Floats) -> Solver:
    queries, precisions = _bare(queries, precisions)
    chosen = _closed_form(queries, precisions)
    if chosen is not None:
        return chosen
    if 2 * queries.rows <= queries.columns and queries.rows <= MOST_WRITTEN:
        return FewRowsSolver(queries, precisions)
    if queries.columns <= FEW_CELLS:
        return DenseSolver(queries, precisions)
    return Iterative(queries, precisions, _part_of(queries, precisions))


def _part_of(queries: Queries, precisions: Floats) -> Solver | None:
    """A block that alone determines every cell and has a closed form: a good guess for the whole stack."""
    for block, each in _pieces(queries, precisions) if isinstance(queries, Stack) else []:
        part = None if _every_cell(block) else _closed_form(block, each)  # cells guess no better than the diagonal
        if part is not None and part.certain:
            return part
    return None


def _bare(queries: Queries, precisions: Floats) -> tuple[Queries, Floats]:
    """The weights of rows taken into their precisions: w times an answer of variance v is one of variance v / w^2."""
    while True:
        if type(queries) is Scaled:
            precisions = precisions * np.square(queries.weights, dtype=np.float64)
            queries = queries.queries
        elif isinstance(queries, Stack) and len(queries.blocks) == 1:
            queries = queries.blocks[0]
        elif type(queries) is Kron and len(queries.factors) == 1:
            queries = queries.factors[0]
        else:
            return queries, precisions


def _closed_form(queries: Queries, precisions: Floats) -> Solver | None:
    form = _FORMS.get(type(queries))
    return form(queries, precisions) if form else None


def _tree(queries: Tree, precisions: Floats) -> Solver | None:
    return TreeSolver(queries, precisions) if (precisions[-queries.columns :] > 0).all() else None


def _if_all_count(form: Callable[[Any, Floats], Solver]) -> Callable[[Any, Floats], Solver | None]:
    """The form where no row has the weight 0."""
    return lambda queries, precisions: form(queries, precisions) if (precisions > 0).all() else None


def _every_cell(queries: Queries) -> bool:
    return type(queries) is Identity or (type(queries) is Kron and all(map(_every_cell, queries.factors)))


def _by_factors(queries: Kron, precisions: Floats) -> Solver | None:
    if _every_cell(queries):
        return EachCell(precisions)
    if not (precisions > 0).all():
        return None
    lists, exact = closest_products(precisions, [factor.rows for factor in queries.factors])
    solvers = [_solver(factor, one) for factor, one in zip(queries.factors, lists, strict=True)]
    guess = KronSolver(queries, precisions, solvers)
    return guess if exact else Iterative(queries, precisions, guess)


def _pieces(queries: Stack, precisions: Floats) -> list[tuple[Queries, Floats]]:
    ends = list(accumulate((block.rows for block in queries.blocks), initial=0))
    return [_bare(block, precisions[ends[i] : ends[i + 1]]) for i, block in enumerate(queries.blocks)]


def _tables(queries: Stack, precisions: Floats) -> Solver | None:
    """Where every block is a table by some axes, with one precision each."""
    tables, shapes = [], set()
    for block, each in _pieces(queries, precisions):
        factors = block.factors if type(block) is Kron else (block,)
        if any(type(factor) not in (Identity, Total) for factor in factors) or (each != each[0]).any():
            return None
        shapes.add(tuple(factor.columns for factor in factors))
        tables.append((frozenset(a for a, factor in enumerate(factors) if type(factor) is Identity), float(each[0])))
    if len(shapes) != 1 or len(min(shapes)) > MOST_AXES:
        return None
    return MarginalSolver(min(shapes), tables)


def _beside_cells(queries: Stack, precisions: Floats) -> Solver | None:
    """Where one block is all cells, and the rest few rows or disjoint ones."""
    pieces = _pieces(queries, precisions)
    for place, (block, each) in enumerate(pieces):
        if not _every_cell(block) or not (each > 0).all():
            continue
        rest = pieces[:place] + pieces[place + 1 :]
        rows = rest[0][0] if len(rest) == 1 else Stack(*(one for one, _ in rest))
        few = rows.rows <= min(FEW_ROWS, queries.columns) and rows.rows * queries.columns <= FEW_ENTRIES
        weights = np.concatenate([more for _, more in rest])
        if not weights.any():
            return EachCell(each)
        if few or disjoint(rows):
            return Woodbury(each, rows, weights)
    return None


def _stack(queries: Stack, precisions: Floats) -> Solver | None:
    return _tables(queries, precisions) or _beside_cells(queries, precisions)


_FORMS: dict[type[Queries], Callable[[Any, Floats], Solver | None]] = {
    Haar: _if_all_count(HaarSolver),
    Identity: lambda _, precisions: EachCell(precisions),
    Kron: _by_factors,
    Marginals: _stack,
    NominalHaar: _if_all_count(NominalHaarSolver),
    Stack: _stack,
    Total: _if_all_count(lambda queries, precisions: OneTotal(queries.columns, float(precisions[0]))),
    Tree: _tree,
}
