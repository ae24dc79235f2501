"""What a workload's squared error is under one axis of a strategy: trace(V (A^T S^2 A)^-1), S the shares of the rows.

In closed form for cells, trees, wavelets and p-identity strategies, in time linear in the cells for each level; from
the inverse otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.least_squares.grams import Gram
from sfumato.queries import Haar, Identity, NominalHaar, Queries, Scaled, Stack, Tree, Weighted

MOST_DENSE = 4096  # cells of a strategy without closed form whose matrix is written out


def axis_error(queries: Queries, shares: Floats, gram: Gram) -> float:
    """trace(V (A^T S^2 A)^-1): infinite where the strategy does not determine what is asked.

    >>> from sfumato.least_squares.grams import gram_of
    >>> axis_error(Identity(4), np.full(4, 2.0), gram_of(Identity(4)))
    1.0
    """
    if type(queries) is Scaled:
        return axis_error(queries.queries, shares * np.abs(queries.weights), gram)
    if type(queries) is Tree:
        return _tree(queries, shares, gram)
    if type(queries) is Haar:
        return _haar(queries, shares, gram)
    if type(queries) is NominalHaar and queries.columns > 1 and len(set(shares[1:].tolist())) == 1:
        return _nominal(queries.columns, shares, gram)
    if (split := _p_identity(queries, shares)) is not None:
        return _woodbury(*split, gram)
    return Inverse.of(Scaled(queries, shares)).error(gram)


def has_closed_form(queries: Queries) -> bool:
    """Whether `axis_error` is linear in the cells (shares of a nominal wavelet taken to be one for all categories)."""
    if type(queries) is Scaled:
        return has_closed_form(queries.queries)
    return type(queries) in (Tree, Haar, NominalHaar) or _p_identity(queries, np.ones(queries.rows)) is not None


def _tree(tree: Tree, shares: Floats, gram: Gram) -> float:
    """Node by node from the leaves: adding a node's row to its subtree is a change of rank one (Sherman, Morrison)."""
    levels, asked = tree.levels, tree.asked
    squares = np.split(shares**2, np.cumsum([int(nodes.sum()) for nodes in asked])[:-1])
    spread = 1.0 / squares[-1]  # the inverse times the vector of ones, subtree by subtree
    error = float((gram.diagonal * spread).sum())
    for cuts, nodes, precise in zip(levels[-2::-1], asked[-2::-1], squares[-2::-1], strict=True):
        weight = np.zeros(len(nodes))
        weight[nodes] = precise
        gain = 1.0 + weight * np.add.reduceat(spread, cuts[:-1])
        error -= float((weight / gain * gram.squares(spread, cuts)).sum())
        spread = spread / np.repeat(gain, np.diff(cuts))
    return error


def _haar(haar: Haar, shares: Floats, gram: Gram) -> float:
    """Row by row: a noise of one in a difference moves the halves by a half each, their halves by a quarter ..."""
    n, height = haar.columns, haar.height
    cells = np.arange(n)
    width = 2**height
    pieces = np.arange(width // 2 + 1, dtype=np.int64) * n // max(1, width // 2)
    single = np.repeat(np.diff(pieces) == 1, np.diff(pieces)) if height else np.zeros(n, dtype=bool)
    depth = height - single.astype(np.int64)  # how often the axis was halved until the cell was alone
    whole = np.array([0, n])
    error = float(gram.squares(np.ldexp(np.ones(n), -depth), whole)[0]) / float(shares[0]) ** 2
    row = 1
    for level in range(height):
        cuts = np.arange(2**level + 1, dtype=np.int64) * n // 2**level
        halved = np.diff(cuts) > 1
        middle = cuts[:-1] + 1 if level == height - 1 else np.arange(1, 2 ** (level + 1), 2) * n // 2 ** (level + 1)
        sign = np.where(cells < np.repeat(middle, np.diff(cuts)), 1.0, -1.0)
        each = gram.squares(np.ldexp(sign, level - depth), cuts)[halved]
        error += float((each / shares[row : row + len(each)] ** 2).sum())
        row += len(each)
    return error


def _nominal(n: int, shares: Floats, gram: Gram) -> float:
    """The total and the differences from it are orthogonal: one precision for each."""
    even = gram.grand / n
    return float(even / (n * shares[0] ** 2) + (gram.diagonal.sum() - even) / (n * shares[1]) ** 2)


def _p_identity(queries: Queries, shares: Floats) -> tuple[Floats, Floats] | None:
    """The weights of the cells and the weighted sums beside them, of which there may be none."""
    if type(queries) is Identity:
        return shares, np.zeros((0, queries.columns))
    if type(queries) is not Stack:
        return None
    cells, *rest = queries.blocks
    weights = shares[: cells.rows]
    if type(cells) is Scaled:
        weights, cells = weights * np.abs(cells.weights), cells.queries
    if type(cells) is not Identity or len(rest) != 1 or type(rest[0]) is not Weighted:
        return None
    return weights, rest[0].matrix * shares[cells.rows :, None]


def _woodbury(d: Floats, theta: Floats, gram: Gram) -> float:
    spread = theta / d**2
    solved = np.linalg.solve(np.eye(len(theta)) + spread @ theta.T, spread)
    return float((gram.diagonal / d**2).sum() - (solved * gram.times(spread)).sum())


@dataclass(frozen=True, eq=False)
class Inverse:
    """(A^T A)^-1, written out: by far the slowest way, for strategies without structure. missed: what A cannot tell."""

    spread: Floats
    missed: Floats | None

    @classmethod
    def of(cls, weighted: Queries) -> Inverse:
        from scipy.linalg import cho_factor, cho_solve

        if weighted.columns > MOST_DENSE:
            raise QueryError(
                f"{weighted!r:.80} over {weighted.columns} cells has no closed form; without, {MOST_DENSE} are allowed"
            )
        normal = np.asarray(weighted.gram(), dtype=np.float64)
        try:
            factor = cho_factor(normal)
            corner = np.abs(np.diag(factor[0]))
            if corner.min() > 1e-6 * corner.max():
                return cls(np.asarray(cho_solve(factor, np.eye(len(normal)))), None)
        except np.linalg.LinAlgError:
            pass  # some sums of cells are not determined: it matters only if any of them is asked for
        values, vectors = np.linalg.eigh(normal)
        kept, rest = np.split(vectors, [int((values <= 1e-10 * values[-1]).sum())], axis=1)[::-1]
        return cls((kept / values[-kept.shape[1] :]) @ kept.T, rest @ rest.T)

    def error(self, gram: Gram) -> float:
        """trace(V (A^T A)^-1), infinite where something is asked that is not determined."""
        asked = gram.dense
        if self.missed is not None and float((asked * self.missed).sum()) > 1e-9 * float(np.trace(asked)):
            return float("inf")
        return float((asked * self.spread).sum())

    def error_of(self, rows: Floats) -> float:
        """The same for queries that are written out: far less work where they are few."""
        if self.missed is not None and float(((rows @ self.missed) * rows).sum()) > 1e-9 * float((rows**2).sum()):
            return float("inf")
        return float(((rows @ self.spread) * rows).sum())
