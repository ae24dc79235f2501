"""Expected error of a strategy on a workload, before any data is read.

The mean squared error of a block W of queries is noise variance times trace(W (A^T P A)^-1 W^T) / rows (Li, Hay,
Rastogi, Miklau, McGregor, VLDB Journal 2015). Figures are for epsilon = 1 (or rho = 1/2) and one row per person, in the
papers' convention: noise of variance 2 b^2 for scale b. The discrete noise that is drawn has 2 b^2 - 1/6 and a little:
at large epsilon the figures are slightly high.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from hashlib import blake2b
from math import prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.least_squares.base import EachCell, LeastSquares
from sfumato.least_squares.closed_forms import AmongPossible, GivenZeros, given_zeros, least_squares
from sfumato.least_squares.general import Iterative, of_few_cells
from sfumato.least_squares.gram import (
    MOST_WRITTEN,
    Gram,
    Product,
    gram_among,
    gram_of,
    grams_of,
    has_short_gram,
    kind,
    products,
)
from sfumato.least_squares.kron import KronSquares
from sfumato.measurement import Design, Gaussian
from sfumato.queries import Identity, Kron, Queries, Stack, Workload
from sfumato.queries.strategy import Combined, Strategy
from sfumato.queries.workload import GOLDEN, places_among

if TYPE_CHECKING:
    from sfumato.least_squares.classes import Merged

MOST_INVERTED = 2**11  # cells up to which a strategy without closed form is written out
FEW_ROWS = 256  # of a block that are solved for one by one, rather than written out as a Gram matrix
SAMPLED = 64  # rows of a block that stand for all where there are too many cells for that
FEW_SAMPLED = 8  # the same where each takes long
RESIDUAL = 1e-6  # relative, at which a solution by iteration is good enough for a plan
MOST_ROUNDS = 650
MOST_TOUCHED = 2**22  # rows of a block of which those that touch possible cells are found


def expected_errors(strategy: Strategy, workload: Workload, pure: bool, possible: Flags | None = None) -> Floats:
    """Root mean squared error of each block at epsilon = 1 (rho = 1/2 unless pure), one row per person, (blocks,).

    possible: flags of the cells that are no structural zeros, to which the fit is conditioned, (cells,); None: all.

    >>> from sfumato.queries import AllRanges, Identity
    >>> expected_errors(Strategy(Identity(2)), Workload(("ranges",), (AllRanges(2),)), True).round(4).tolist()
    [1.633]
    """
    if (columns := strategy.queries.columns) != workload.columns:
        raise QueryError(f"the strategy spans {columns} cells and the workload {workload.columns}; use one domain")
    noise = 2.0 * float(strategy.load(1)) ** 2 if pure else float(strategy.load(2))
    if possible is not None:
        return np.sqrt(noise * np.array(_mean_squares_given_zeros(strategy, workload.blocks, possible)))
    return np.sqrt(noise * np.array(_mean_squares(strategy, workload.blocks)))


def overall_error(strategy: Strategy, workload: Workload, pure: bool) -> float:
    """Root of the weighted sum over blocks of mean squared errors: the objective that strategies are compared by."""
    return float(np.sqrt((expected_errors(strategy, workload, pure) ** 2 * workload.weights).sum()))


def _mean_squares(strategy: Strategy, blocks: Sequence[Queries]) -> list[float]:
    """Mean squared error of each block, for unit noise variance on the weighted rows."""
    if len(strategy.axes) > 1:
        axes = [least_squares(axis.weighted, np.ones(axis.queries.rows)) for axis in strategy.axes]
        if all(axis.closed and axis.certain for axis in axes):
            fit: LeastSquares = KronSquares(tuple(axis.queries.columns for axis in strategy.axes), axes)
            known: list[dict[object, Gram]] = [{} for _ in axes]
            return [_mean_square(fit, block, known) for block in blocks]
    weighted = strategy.weighted
    if type(weighted) is Identity:
        return [_squares_in(block) / block.rows for block in blocks]
    ones = np.ones(weighted.rows)
    fit = least_squares(weighted, ones)
    if isinstance(fit, EachCell):
        return [fit.price_of_squares(block.column_squares().astype(np.float64)) / block.rows for block in blocks]
    if not fit.closed and weighted.columns <= MOST_INVERTED:
        fit = of_few_cells(weighted, ones)
    elif isinstance(fit, Iterative):
        if not weighted.column_squares().all():
            return [np.inf] * len(blocks)
        fit = fit.roughly(RESIDUAL, MOST_ROUNDS)
    shared: list[dict[object, Gram]] = [{} for _ in fit.sizes or (weighted.columns,)]
    return [_mean_square(fit, block, shared) for block in blocks]


def _mean_squares_given_zeros(strategy: Strategy, blocks: Sequence[Queries], possible: Flags) -> list[float]:
    """Mean squared errors given zeros of some blocks, kept with the strategy: plans ask for them again and again."""
    known = strategy.__dict__.setdefault("_given_zeros", {})
    zeros = blake2b(np.packbits(possible).tobytes()).digest()
    new = {id(block): block for block in blocks if (zeros, id(block)) not in known}
    for block, square in zip(new.values(), _squares_given_zeros(strategy, [*new.values()], possible), strict=True):
        known[zeros, id(block)] = block, square  # the block too, so that its id stays its own
    return [known[zeros, id(block)][1] for block in blocks]


def _squares_given_zeros(strategy: Strategy, blocks: Sequence[Queries], possible: Flags) -> list[float]:
    """Mean squared error of each block, trace(W_p (A_p^T P A_p)^-1 W_p^T) / rows, with the possible cells' columns.

    In closed form, or of a sample of rows along the axes that zeros vary along, in closed form along the others.
    """
    if not blocks:
        return []
    weighted = Kron(*(axis.weighted for axis in strategy.axes)) if len(strategy.axes) > 1 else strategy.weighted
    fit = given_zeros(weighted, np.ones(weighted.rows), possible)
    if isinstance(fit, EachCell):
        return [float(block.column_squares()[possible].sum()) / block.rows for block in blocks]
    every = _Rows(strategy, fit, possible)
    if not isinstance(fit, GivenZeros):
        return [every.mean_square(block) for block in blocks]
    linked = _Rows(Combined(tuple(strategy.axes[axis] for axis in fit.some)), fit.linked, fit.possible.reshape(-1))
    known: dict[object, float] = {}
    result = []
    for block in blocks:
        wanted = products(block, fit.sizes)
        if wanted is None:
            result.append(every.mean_square(block))
            continue
        total = 0.0
        for term in wanted:
            some = tuple(term.factors[axis] for axis in fit.some)
            key = tuple(map(kind, some))
            if key not in known:
                known[key] = linked.mean_square(Kron(*some)) * prod(factor.rows for factor in some)
            others = (each.price(gram_of(term.factors[axis])) for axis, each in fit.others.items())
            total += term.weight * known[key] * prod(others)
        result.append(total / block.rows)
    return result


@dataclass(frozen=True, eq=False)
class _Rows:
    """Errors of queries by a strategy given zeros, where these are priced together or row by row.

    fit: its solver. possible: flags of the cells that are no structural zeros, (cells,); None: all.
    """

    strategy: Strategy
    fit: LeastSquares
    possible: Flags | None = None

    def mean_square(self, block: Queries) -> float:
        """Mean squared error of a block: exact, or of a sample of its rows that touch possible cells."""
        if isinstance(self.fit, AmongPossible):
            wanted = gram_among(block, self.fit.cells)
            if wanted is not None:
                return self.fit.price_among(wanted) / block.rows
        most, share = SAMPLED // 2 if block.columns <= MOST_TOUCHED // SAMPLED else FEW_SAMPLED, 1.0
        if block.rows > MOST_TOUCHED:  # beside what the same rows err by without zeros, of which the mean is known
            rows = np.unique(places_among(block.rows, most))
            without = _Rows(self.strategy, least_squares(self.strategy.weighted, np.ones(self.strategy.queries.rows)))
            share = _mean_squares(self.strategy, [block])[0] / float(
                without._squares(without._written(block, rows)).mean()
            )
        else:
            marks = np.arange(1, block.columns + 1) * GOLDEN % 1.0  # whose sums cancel in no row
            touching = np.flatnonzero(block @ (marks if self.possible is None else marks * self.possible))
            share = len(touching) / block.rows
            rows = touching if len(touching) <= most else touching[places_among(len(touching), most)]
        if not len(rows):
            return 0.0
        return share * float(self._squares(self._written(block, np.unique(rows))).mean())

    def _written(self, block: Queries, rows: Codes) -> Floats:
        """Some rows of a block, with 0 in structural zeros, (rows, cells)."""
        written = block[rows].dense().astype(np.float64)
        return written if self.possible is None else written * self.possible

    def _squares(self, rows: Floats) -> Floats:
        """Squared errors c^T (A_p^T P A_p)^-1 c of rows c, (rows,); the mean of rows that take long."""
        result = np.zeros(len(rows))
        left = []
        for index, row in enumerate(rows):
            weighed = None if self._merged is None else self._merged.of_cells(row)
            if weighed is None:
                left.append(index)
            else:
                result[index] = (weighed.weights[:, 0] ** 2 * weighed.counts) @ weighed.design.sizes
        if left:
            fit = self.fit.roughly(sqrt(RESIDUAL), MOST_ROUNDS) if isinstance(self.fit, Iterative) else self.fit
            some = left if len(left) <= FEW_SAMPLED else np.array(left)[np.unique(places_among(len(left), FEW_SAMPLED))]
            result[left] = fit.squares(np.ascontiguousarray(rows[some].T)).mean()
        return result

    @cached_property
    def _merged(self) -> Merged | None:
        """Reduction to few classes of cells; None unless queries are products over the axes."""
        from sfumato.least_squares.classes import Merged

        queries = self.strategy.queries
        first = queries.blocks[0] if isinstance(queries, Stack) else queries
        shape = tuple(factor.columns for factor in first.factors) if type(first) is Kron else (queries.columns,)
        noises = tuple(Gaussian(Fraction(1, weight**2)) for weight in self.strategy.weights)
        return Merged.of(Design(queries, noises, self.strategy.which), shape, self.possible)


def _squares_in(block: Queries) -> float:
    """Sum of squares of all entries (squared Frobenius norm)."""
    if type(block) is Kron:
        return prod(map(_squares_in, block.factors))
    return float(block.column_squares().astype(np.float64).sum())


def _mean_square(fit: LeastSquares, block: Queries, shared: list[dict[object, Gram]]) -> float:
    """Mean squared error of one block; shared: Gram matrices along each axis that blocks have in common."""
    wanted = _asked(block, fit)
    if wanted is None:
        return _by_rows(fit, block)
    grams = zip(*(grams_of(wanted, axis, known) for axis, known in enumerate(shared)), strict=True)
    return sum(term.weight * fit.price_by_axes(*each) for term, each in zip(wanted, grams, strict=True)) / block.rows


def _asked(block: Queries, fit: LeastSquares) -> list[Product] | None:
    """Block as Kronecker products that are priced in closed form; None where solving for its rows is better."""
    wanted = products(block, fit.sizes or (block.columns,)) if fit.closed else None
    long = [factor for term in wanted or [] for factor in term.factors if not has_short_gram(factor)]
    few = block.rows <= FEW_ROWS and block.columns <= MOST_WRITTEN
    return None if long and (few or any(factor.columns > MOST_WRITTEN for factor in long)) else wanted


def _by_rows(fit: LeastSquares, block: Queries) -> float:
    """Mean of c^T (A^T P A)^-1 c over the rows c of a block, or over an evenly spaced sample where these are many."""
    few = fit.closed and block.rows <= FEW_ROWS and block.columns <= MOST_WRITTEN
    if fit.closed and not few and block.columns <= MOST_INVERTED:
        return fit.price(gram_of(block)) / block.rows
    count = block.rows if few else SAMPLED
    chosen = block[np.unique(np.linspace(0, block.rows - 1, count).round().astype(np.int64))]
    return float(fit.squares(np.asarray(chosen.T @ np.eye(chosen.rows), dtype=np.float64)).mean())
