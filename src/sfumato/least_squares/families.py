"""Choice of the solver of (A^T P A)^-1 by family of queries: a closed form if there is one, else dense or iterative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.least_squares.base import (
    EachCell,
    LeastSquares,
    NormalEquations,
    OneTotal,
    bare,
    every_cell,
    pieces,
    pooled,
)
from sfumato.least_squares.closed_forms import HaarSquares, NominalSquares, TreeSquares, Woodbury
from sfumato.least_squares.general import Guess, Iterative, of_few_cells, of_few_rows
from sfumato.least_squares.kron import KronSquares, SharedBasis, closest_products
from sfumato.least_squares.marginals import MarginalSquares
from sfumato.queries import Haar, Identity, Kron, Marginals, NominalHaar, Queries, Stack, Total, Tree

FEW_CELLS, MOST_CELLS = 2**11, 2**12  # up to which the normal equations are written out, once or for many questions
MOST_WRITTEN = 512  # rows that are written out where there are more cells than that


def least_squares(queries: Queries, variances: Floats, *, often: bool = False) -> LeastSquares:
    """Fastest exact solver for these queries; variances: noise variance of every row, above 0, (rows,).

    often: many right-hand sides will follow, so that a dense factor pays for more cells.

    >>> from sfumato.queries import Identity, Stack, Total
    >>> twice = least_squares(Stack(Total(2), Identity(2)), np.ones(3))
    >>> twice.solve(np.array([[1.0], [0.0]]))[0].round(4).tolist()
    [[0.6667], [-0.3333]]
    """
    noise = np.asarray(variances, dtype=np.float64)
    if noise.shape != (queries.rows,) or not (np.isfinite(noise) & (noise > 0)).all():
        raise QueryError(f"least squares needs a finite variance above 0 for each of the {queries.rows} rows")
    return _chosen(queries, 1.0 / noise, MOST_CELLS if often else FEW_CELLS)


def _chosen(queries: Queries, precisions: Floats, few: int = FEW_CELLS) -> LeastSquares:
    """Solver by family: closed form, singular values (few rows), Cholesky (few cells), or iteration."""
    queries, precisions = bare(queries, precisions)
    chosen = _closed_form(queries, precisions)
    if chosen is not None:
        return chosen
    if 2 * queries.rows <= queries.columns and queries.rows <= MOST_WRITTEN:
        return of_few_rows(queries, precisions)
    if queries.columns <= few:
        return of_few_cells(queries, precisions)
    return Iterative(queries, precisions, _guess(queries, precisions))


def _guess(queries: Queries, precisions: Floats) -> Guess | None:
    """Preconditioner: a block with a closed form that determines every cell, or a basis that all blocks share."""
    blocks = pieces(queries, precisions) if isinstance(queries, Stack) else [(queries, precisions)]
    for block, each in blocks if len(blocks) > 1 else []:
        part = None if every_cell(block) else _closed_form(block, each)  # cells guess no better than the diagonal
        if part is not None and part.certain:
            return _solution(part)
    return SharedBasis.of(*zip(*blocks, strict=True))


def _solution(similar: LeastSquares) -> Guess:
    """Preconditioner that solves similar equations."""
    return lambda columns: similar.solve(columns)[0]


def _closed_form(queries: Queries, precisions: Floats) -> LeastSquares | None:
    """Closed form of the family, if these precisions have one."""
    form = FORMS.get(type(queries))
    return form(queries, precisions) if form else None


def _tree(queries: Tree, precisions: Floats) -> LeastSquares | None:
    """Tree solver where every cell has a positive precision."""
    return TreeSquares(queries, precisions) if (precisions[-queries.columns :] > 0).all() else None


def _if_all_count(form: Callable[[Any, Floats], LeastSquares]) -> Callable[[Any, Floats], LeastSquares | None]:
    """Closed form that needs all precisions positive."""
    return lambda queries, precisions: form(queries, precisions) if (precisions > 0).all() else None


def _by_factors(queries: Kron, precisions: Floats) -> LeastSquares | None:
    """Kronecker solver: exact where precisions are products, else a preconditioner of the iteration."""
    if every_cell(queries):
        return EachCell(precisions)
    if not (precisions > 0).all():
        return None
    lists, exact = closest_products(precisions, [factor.rows for factor in queries.factors])
    factors = [_chosen(factor, own) for factor, own in zip(queries.factors, lists, strict=True)]
    sizes = tuple(factor.columns for factor in queries.factors)
    near = KronSquares(sizes, factors, NormalEquations(queries, precisions))
    return near if exact else Iterative(queries, precisions, _solution(near))


def _stack(queries: Stack, precisions: Floats) -> LeastSquares | None:
    """Solver of a stack of tables, of the identity with further rows, or of blocks that were measured repeatedly."""
    if type(queries) is Stack and (repeated := pooled(queries, precisions)) is not None:
        return _chosen(*repeated)
    return MarginalSquares.of(queries, precisions) or Woodbury.of(queries, precisions)


# A family and what makes its class, or None where these precisions have no closed form.
FORMS: dict[type[Queries], Callable[[Any, Floats], LeastSquares | None]] = {
    Haar: _if_all_count(HaarSquares),
    Identity: lambda _, precisions: EachCell(precisions),
    Kron: _by_factors,
    Marginals: _stack,
    NominalHaar: _if_all_count(NominalSquares),
    Stack: _stack,
    Total: _if_all_count(lambda queries, precisions: OneTotal(queries.columns, float(precisions[0]))),
    Tree: _tree,
}
