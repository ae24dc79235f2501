"""Closed-form least squares for trees, wavelets, and the identity with additional rows.

`TreeSquares` (Hay, Rastogi, Miklau, Suciu, VLDB 2010, section 4): one pass up, one pass down. The paper's trees are
complete with equal noise; here every node has its own precision and number of children. A subtree's likelihood of its
sum s is a parabola a/2 (s - m)^2. A cell has its own precision for a. Children combine as 1 / a = sum of their 1 / a,
around the sum of their m; the node's own measurement adds its precision. Down the tree, the correction of a node is
shared out to its children in proportion to their 1 / a.

`HaarSquares`, `NominalSquares`: Privelet's wavelets (Xiao, Wang, Gehrke, ICDE 2010) have explicit inverses.

`Woodbury` (McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, section 4): with D the cells' precisions and p further
rows B of variances V, (D + B^T V^-1 B)^-1 = D^-1 - D^-1 B^T (V + B D^-1 B^T)^-1 B D^-1 (Sherman, Morrison, Woodbury).
The inner matrix is p x p; where the rows of B are disjoint it is diagonal, and p may be large.

Choice of the solver of (A^T P A)^-1 by family of queries: a closed form if there is one, else dense or iterative.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.least_squares.base import (
    EachCell,
    LeastSquares,
    NormalEquations,
    OneTotal,
    all_known,
    bare,
    every_cell,
    pieces,
    pooled,
)
from sfumato.least_squares.general import Guess, Iterative, of_few_cells, of_few_rows, of_normal, solve_by_root
from sfumato.least_squares.gram import Gram, even_cuts
from sfumato.least_squares.kron import KronSquares, MarginalSquares, SharedBasis, closest_products
from sfumato.queries import Haar, Identity, Kron, Marginals, NominalHaar, Queries, Stack, Total, Tree
from sfumato.queries.base import Indicators


@dataclass(frozen=True, eq=False)
class _Level:
    """Level of inner nodes, with the coefficients of both passes."""

    cuts: Codes  # the cells at which its nodes begin and end
    first: Codes  # of each node's children, on the next level
    parts: Codes  # how many children
    own: Floats  # the precision of each node's own measurement, 0 where it has none
    keep: Floats  # the share of the children's sum that is left beside a node's own measurement
    lift: Floats  # for every child, its share of what the node is lifted by


class TreeSquares(LeastSquares):
    """(A^T P A)^-1 for the nodes of a tree, every cell with a precision above 0."""

    def __init__(self, tree: Tree, precisions: Floats) -> None:
        end = tree.rows - tree.columns
        firmness = self._cells = precisions[end:]
        self._levels: list[_Level] = []  # from the cells upwards
        for cuts, first in zip(tree.levels[-2::-1], reversed(tree.children), strict=True):
            parts = np.diff(first)
            cut = parts > 1
            together = 1.0 / np.add.reduceat(1.0 / firmness, first[:-1])
            lift = np.repeat(together, parts) / firmness
            start = end - int(cut.sum())
            own = np.zeros(len(parts))
            own[cut] = precisions[start:end]
            firmness, end = together + own, start
            self._levels.append(_Level(cuts, first[:-1], parts, own, together / firmness, lift))

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Upward and downward pass, linear in the number of nodes."""
        alone = columns / self._cells[:, None]
        passed = []
        for level in self._levels:
            together = np.add.reduceat(alone, level.first, axis=0)
            passed.append((alone, together))
            alone = together * level.keep[:, None]
        sums = alone
        for level, (alone, together) in zip(reversed(self._levels), reversed(passed), strict=True):
            sums = alone + np.repeat(sums - together, level.parts, axis=0) * level.lift[:, None]
        return sums, all_known(columns)

    def price(self, gram: Gram) -> float:
        """Total squared error, trace of gram @ covariance: rank-one updates from the leaves up."""
        ones = 1.0 / self._cells  # the inverse of every subtree so far, times a column of ones
        error = float((gram.diagonal * ones).sum())
        for level in self._levels:
            error -= float((level.own * level.keep * gram.squares(ones, level.cuts)).sum())
            ones = ones * np.repeat(level.keep, np.diff(level.cuts))
        return error


class HaarSquares(LeastSquares):
    """Haar wavelet: A is square, so (A^T P A)^-1 = A^-1 P^-1 A^-T.

    A^-1 is A^T with rows and columns times powers of two: a half is half of its range's total plus or minus half of its
    difference, so every bisection down to a cell divides all earlier coefficients by two.
    """

    def __init__(self, haar: Haar, precisions: Floats) -> None:
        first, pairs = haar.pairs()
        depth = np.full(haar.columns, haar.height)
        depth[np.delete(first, pairs)] -= haar.height > 0  # cells that were alone before the last halving
        self._haar = haar
        self._cells = np.ldexp(1.0, -depth)
        self._rows = np.ldexp(1.0, 2 * np.maximum(haar.row_level - 1, 0)) / precisions

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Inverse transform, scaling and transform, linear in the number of cells."""
        cells, rows = self._cells[:, None], self._rows[:, None]
        return (self._haar.T @ ((self._haar @ (columns * cells)) * rows)) * cells, all_known(columns)

    def price(self, gram: Gram) -> float:
        """Sum over levels; the rows of one level touch different cells, so that they are priced as one column."""
        n, height = self._haar.columns, self._haar.height
        error = float(gram.squares(self._cells, np.array([0, n]))[0] * self._rows[0])
        for level in range(height):
            halves = even_cuts(n, 2 ** (level + 1))
            cuts = halves[::2]
            middle = halves[1::2] if level < height - 1 else cuts[:-1] + 1
            left = np.arange(n) < np.repeat(middle, np.diff(cuts))
            each = gram.squares(np.where(left, self._cells, -self._cells), cuts)[np.diff(cuts) > 1]
            error += float((each * self._rows[2**level : 2**level + len(each)]).sum())
        return error


class NominalSquares(LeastSquares):
    """Nominal wavelet: with n categories of variances v and variance v0 of the total, (V - v v^T / sum v + v0 J) / n^2.

    A^T P A is n^2 P - n (p 1^T + 1 p^T) + (sum p + p0) J; the product with the above is I.
    """

    def __init__(self, wavelet: NominalHaar, precisions: Floats) -> None:
        self._cells = wavelet.columns
        self._total, self._each = 1.0 / precisions[0], 1.0 / precisions[1:]

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Explicit inverse, linear in the number of categories."""
        solved = np.repeat(self._total * columns.sum(axis=0, keepdims=True), self._cells, axis=0)
        if self._cells > 1:
            each = self._each[:, None]
            solved += each * (columns - (each * columns).sum(axis=0, keepdims=True) / each.sum())
        return solved / self._cells**2, all_known(columns)

    def price(self, gram: Gram) -> float:
        """Total squared error, trace of gram @ covariance, in time linear in the cells if gram is of low rank."""
        error = self._total * gram.grand
        if self._cells > 1:
            shared = float(gram.squares(self._each, np.array([0, self._cells]))[0]) / float(self._each.sum())
            error += float((gram.diagonal * self._each).sum()) - shared
        return float(error / self._cells**2)


FEW_ROWS = 2048  # beside all cells, up to which they are written out
FEW_ENTRIES = 2**25  # of all of these


class Woodbury(LeastSquares):
    """Identity with p further rows, by a p x p Cholesky factor, or by a diagonal matrix where the rows are disjoint."""

    def __init__(self, cells: Floats, rows: Queries, precisions: Floats) -> None:
        measured = precisions > 0
        kept = rows if measured.all() else rows[measured]
        self._apart = disjoint(kept)
        self._cells, self._precisions = cells[:, None], precisions[measured, None]
        variances = 1.0 / precisions[measured]
        self._few: Any = kept  # what @ and .T apply to: here queries, below a matrix
        if self._apart:
            self._middle = (variances + kept @ (1.0 / cells))[:, None]
        else:
            self._few = matrix = kept.dense().astype(np.float64)
            self._middle = np.asarray(
                np.linalg.cholesky(np.diag(variances) + (matrix / cells) @ matrix.T), dtype=np.float64
            )

    @classmethod
    def of(cls, queries: Stack, precisions: Floats) -> LeastSquares | None:
        """Inverse for a stack in which one block is all cells and the others are few or disjoint rows; else None."""
        blocks = pieces(queries, precisions)
        for index, (block, own) in enumerate(blocks):
            if not every_cell(block) or not (own > 0).all():
                continue
            others = blocks[:index] + blocks[index + 1 :]
            rows = others[0][0] if len(others) == 1 else Stack(*(one for one, _ in others))
            few = rows.rows <= min(FEW_ROWS, queries.columns) and rows.rows * queries.columns <= FEW_ENTRIES
            weights = np.concatenate([extra for _, extra in others])
            if not weights.any():
                return EachCell(own)
            if few or disjoint(rows):
                return cls(own, rows, weights)
        return None

    @property
    def closed(self) -> bool:
        return not self._apart or len(self._precisions) * len(self._cells) <= FEW_ENTRIES

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Woodbury solution with one step of iterative refinement, since the difference may cancel."""
        solved = self._once(columns)
        residual = columns - self._cells * solved - self._few.T @ (self._precisions * (self._few @ solved))
        return solved + self._once(residual), all_known(columns)

    def price(self, gram: Gram) -> float:
        """Squared error of the cells alone, less the reduction by the further rows."""
        rows = self._few.dense() if self._apart else self._few
        alone = rows / self._cells[:, 0]
        cells, products = float((gram.diagonal / self._cells[:, 0]).sum()), gram.times(alone)
        if self._apart:
            return cells - float((self._shared(alone) * products).sum())
        return cells - float(np.trace(self._shared(products @ alone.T)))  # few by few, before anything is solved

    def _shared(self, rows: Floats) -> Floats:
        """Inverse of the inner matrix V + B D^-1 B^T times rows."""
        return np.asarray(rows / self._middle) if self._apart else solve_by_root(self._middle, rows)

    def _once(self, columns: Floats) -> Floats:
        """Woodbury solution without refinement."""
        alone = columns / self._cells
        return np.asarray(alone - (self._few.T @ self._shared(self._few @ alone)) / self._cells)


def disjoint(rows: Queries) -> bool:
    """Whether rows are indicators of pairwise disjoint sets of cells."""
    return isinstance(rows, Indicators) and rows.l1 <= 1


# -- families

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


# -- structural zeros


def given_zeros(queries: Queries, variances: Floats, possible: Flags) -> LeastSquares:
    """Exact solver on possible cells alone, (A_p^T P A_p)^-1; solutions are 0 in the others.

    possible: flags of the cells that are no structural zeros, (cells,). Axes of a Kronecker product along which these
    do not vary keep their closed forms. The others are one axis: dense where few cells are possible, else conjugate
    residuals, for which the solver of all cells is the preconditioner. Ten to thirty rounds do on trees.

    >>> from sfumato.queries import Identity, Stack, Total
    >>> twice = given_zeros(Stack(Total(3), Identity(3)), np.ones(4), np.array([True, True, False]))
    >>> twice.solve(np.array([[1.0], [0.0], [5.0]]))[0].round(4).tolist()
    [[0.6667], [-0.3333], [0.0]]
    """
    queries, precisions = bare(queries, 1.0 / variances)
    solver = _chosen(queries, precisions)
    if isinstance(solver, EachCell):
        return EachCell(np.where(possible, precisions, np.inf))
    if isinstance(solver, KronSquares) and solver.certain and type(queries) is Kron:
        return _by_axes(queries, precisions, possible, solver)
    return _among(queries, precisions, possible, solver)


def _by_axes(queries: Kron, precisions: Floats, possible: Flags, solver: KronSquares) -> LeastSquares:
    """Solver given zeros of a Kronecker product whose precisions are products."""
    grid = possible.reshape(solver.sizes)
    varies = [bool((grid != grid.take([0], axis)).any()) for axis in range(grid.ndim)]
    if all(varies):
        return _among(queries, precisions, possible, solver)
    lists, _ = closest_products(precisions, [factor.rows for factor in queries.factors])
    some = [axis for axis, each in enumerate(varies) if each]
    own = np.ones(1)
    for axis in some:
        own = np.multiply.outer(own, lists[axis]).reshape(-1)
    inner = grid[tuple(slice(None) if each else 0 for each in varies)]
    linked = given_zeros(Kron(*(queries.factors[axis] for axis in some)), 1.0 / own, inner.reshape(-1))
    return GivenZeros(solver, some, inner, linked)


def _among(queries: Queries, precisions: Floats, possible: Flags, solver: LeastSquares) -> LeastSquares:
    """Solver on possible cells, dense or by iteration. solver: of all cells."""
    cells = np.flatnonzero(possible)
    normal = normal_among(queries, precisions, cells) if len(cells) <= FEW_CELLS else None
    if normal is not None:
        return AmongPossible(cells, of_normal(normal))
    if isinstance(solver, Iterative):
        return solver.given_zeros(possible)
    return Iterative(queries, precisions, _solution(solver) if solver.certain else None, possible=possible)


def normal_among(queries: Queries, precisions: Floats, cells: Codes) -> Floats | None:
    """A^T P A between some cells, dense, (some, some); None where that would take much."""
    queries, precisions = bare(queries, precisions)
    if isinstance(queries, Stack):
        normal = np.zeros((len(cells), len(cells)))
        for block, own in pieces(queries, precisions):
            part = normal_among(block, own, cells)
            if part is None:
                return None
            normal += part
        return normal
    if type(queries) is Kron:
        lists, exact = closest_products(precisions, [factor.rows for factor in queries.factors])
        if exact:
            result = np.ones((len(cells), len(cells)))
            along = np.unravel_index(cells, [factor.columns for factor in queries.factors])
            for factor, own, codes in zip(queries.factors, lists, along, strict=True):
                used, place = np.unique(codes, return_inverse=True)
                part = normal_among(factor, own, used)
                if part is None:
                    return None
                result *= part[np.ix_(place, place)]
            return result
    if queries.rows * len(cells) > FEW_ENTRIES or queries.columns * len(cells) > FEW_ENTRIES:
        return None
    chosen = np.zeros((queries.columns, len(cells)), dtype=np.int64)
    chosen[cells, np.arange(len(cells))] = 1
    weighed = np.asarray(queries @ chosen, dtype=np.float64)
    return np.asarray(weighed.T @ (weighed * precisions[:, None]))


class AmongPossible(LeastSquares):
    """Solver on some cells; solutions are 0 in the others. inner: over these cells alone, dense."""

    def __init__(self, cells: Codes, inner: LeastSquares) -> None:
        self.cells, self._inner = cells, inner

    @property
    def certain(self) -> bool:
        return self._inner.certain

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Solution of the inner solver, put in its place."""
        solved = np.zeros_like(columns)
        solved[self.cells], estimable = self._inner.solve(columns[self.cells])
        return solved, estimable

    def price(self, gram: Gram) -> float:
        return self.price_among(gram.among(self.cells))

    def price_among(self, wanted: Floats) -> float:
        """Squared error on a workload's Gram matrix between possible cells."""
        none = np.zeros((0, len(wanted)))
        return self._inner.price(Gram(none, none, np.zeros(len(wanted)), wanted))


class GivenZeros(LeastSquares):
    """Kronecker product given structural zeros: one solver of all axes that these vary along, and one of each other.

    solver: of the product without zeros. some: the axes that zeros vary along; possible: flags of their cells; linked:
    solver of these cells.
    """

    def __init__(self, solver: KronSquares, some: list[int], possible: Flags, linked: LeastSquares) -> None:
        self.sizes, self.some, self.possible, self.linked = solver.sizes, some, possible, linked
        self.others = {axis: each for axis, each in enumerate(solver.factors) if axis not in some}
        sizes = (possible.size, *(self.sizes[axis] for axis in self.others))
        self._inner = KronSquares(sizes, [linked, *self.others.values()])

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Solve along the linked axes, brought to the front, and along each other axis."""
        front = [*self.some, *self.others]
        sizes = [self.sizes[axis] for axis in front]
        grid = columns.reshape(*self.sizes, -1).transpose(*front, len(front))
        solved = self._inner.solve(grid.reshape(columns.shape))[0].reshape(*sizes, -1)
        back = np.argsort(front).tolist()
        return solved.transpose(*back, len(front)).reshape(columns.shape), all_known(columns)


# -- choice of the solver


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
    """Wrap a solver class: None instead of a solver unless all precisions are positive."""
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
    """Closed form of a stack: repeated blocks pooled, marginals (MarginalSquares), identity and few rows (Woodbury)."""
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


QUICK = (Identity, Tree, Haar, NominalHaar)  # whose inverse takes time and memory in proportion to their rows
MOST_SPACES = 8  # times the cells that tables by levels may lay out while they are solved


@dataclass(frozen=True, eq=False)
class WeightedAxis:
    """Queries and precisions (rows,) along one axis; the inverse is computed when it is needed."""

    queries: Queries
    precisions: Floats

    @cached_property
    def inverse(self) -> LeastSquares:
        """(A^T P A)^-1 of the axis."""
        return least_squares(self.queries, 1.0 / self.precisions)

    @property
    def quick(self) -> bool:
        """Whether every cell is estimable, in time and memory linear in the rows."""
        if isinstance(self.queries, Stack):
            tables = MarginalSquares.of(self.queries, self.precisions)
            return tables is not None and tables.certain and tables.laid_out <= MOST_SPACES
        return type(self.queries) in QUICK or (type(self.queries) is Total and self.queries.columns == 1)

    def cells(self, answers: Floats) -> Floats:
        """GLS estimates (cells, k) from answers (rows, k)."""
        return self.inverse.solve(self.queries.T @ (answers * self.precisions[:, None]))[0]

    @cached_property
    def weights(self) -> Floats:
        """Weight of each answer in the GLS estimate of the axis total, (rows,)."""
        solved = self.inverse.solve(np.ones((self.queries.columns, 1)))[0]
        return np.asarray(self.queries @ solved)[:, 0] * self.precisions
