"""The error a strategy will have on a workload, known before any data is.

trace(W (A^T P A)^-1 W^T) is the squared error of least squares (Li, Hay, Rastogi, Miklau, McGregor, VLDB Journal 2015).
Figures are for epsilon = 1 (or rho = 1/2) and one row per person, in the papers' convention: noise of variance 2 b^2
for scale b. The whole-numbered noise that is drawn has 2 b^2 - 1/6 and a little: at large epsilon the figures are high.
"""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.least_squares.axis_error import MOST_DENSE, Inverse, axis_error, has_closed_form
from sfumato.least_squares.grams import gram_of, has_short_gram
from sfumato.least_squares.marginal_error import table_error
from sfumato.least_squares.products import kind, parts_of, products
from sfumato.queries import Identity, Queries, Workload
from sfumato.queries.strategy import Strategy

MOST_INVERTED = 2**11  # cells up to which a strategy without closed form is written out
SAMPLED = 64  # rows of a block that are solved for where neither a closed form nor the matrix is at hand
FEW_ROWS = 256  # of a block that are written out rather than multiplied
RESIDUAL = 1e-6  # relative, at which their solution is good enough for a plan
MOST_ROUNDS = 500


def expected_errors(strategy: Strategy, workload: Workload, pure: bool) -> Floats:
    """The root mean squared error of each block at epsilon = 1 (rho = 1/2 unless pure), one row per person.

    >>> from sfumato.queries import AllRanges, Identity
    >>> expected_errors(Strategy(Identity(2)), Workload(("ranges",), (AllRanges(2),)), True).round(4).tolist()
    [1.633]
    """
    weighted = strategy.weighted
    if weighted.columns != workload.columns:
        raise QueryError(
            f"the strategy spans {weighted.columns} cells and the workload {workload.columns}; use one domain"
        )
    noise = 2.0 * float(weighted.l1) ** 2 if pure else float(weighted.l2_squared)
    price = _Pricing(strategy, weighted)
    return np.sqrt(noise * np.array([price.mean_square(block) for block in workload.blocks]))


def overall_error(strategy: Strategy, workload: Workload, pure: bool) -> float:
    """The root of the sum over blocks of their mean squared errors: what strategies are compared by."""
    return float(np.sqrt((expected_errors(strategy, workload, pure) ** 2).sum()))


class _Pricing:
    """The mean squared error of blocks of queries, for noise of variance 1 on the weighted strategy."""

    def __init__(self, strategy: Strategy, weighted: Queries) -> None:
        self._strategy, self._weighted = strategy, weighted
        self._parts = parts_of(strategy)
        self._known: dict[object, float] = {}

    def mean_square(self, block: Queries) -> float:
        if (closed := self._by_axes(block)) is not None or (closed := table_error(self._strategy, block)) is not None:
            return closed / block.rows
        if self._weighted.columns <= MOST_INVERTED:
            if block.rows <= FEW_ROWS:
                return self._inverse.error_of(np.asarray(block.dense(), dtype=np.float64)) / block.rows
            return self._inverse.error(gram_of(block)) / block.rows
        return _sampled(self._weighted, block)

    @cached_property
    def _inverse(self) -> Inverse:
        return Inverse.of(self._weighted)

    def _by_axes(self, block: Queries) -> float | None:
        """The summed squared error of products under a product."""
        if type(self._weighted) is Identity:
            return float(block.column_squares().sum(dtype=np.float64))
        if self._parts is None:
            return None
        wanted = products(block, tuple(part.queries.columns for part in self._parts))
        if wanted is None or not all(_priced(factor) for one in wanted for factor in one.factors):
            return None
        small = MOST_INVERTED if len(self._parts) > 1 else 0  # one axis without closed form is inverted only once
        if not all(part.queries.columns <= small or has_closed_form(part.queries) for part in self._parts):
            return None
        return sum(one.weight * prod(map(self._along, range(len(self._parts)), one.factors)) for one in wanted)

    def _along(self, axis: int, factor: Queries) -> float:
        """The squared error of a factor under its axis of the strategy; workloads repeat the same few factors."""
        key = (axis, kind(factor))
        if key not in self._known:
            part = self._parts[axis]  # type: ignore[index]  # only called if there are parts
            self._known[key] = axis_error(part.queries, part.shares, gram_of(factor))
        return self._known[key]


def _priced(factor: Queries) -> bool:
    return factor.columns <= MOST_DENSE or has_short_gram(factor)


def _sampled(weighted: Queries, block: Queries) -> float:
    """The mean over rows at even distances, each solved for by conjugate gradients."""
    places = np.unique(np.linspace(0, block.rows - 1, SAMPLED).round().astype(np.int64))
    chosen = block[places]
    columns = np.asarray(chosen.T @ np.eye(chosen.rows), dtype=np.float64)
    diagonal = weighted.column_squares().astype(np.float64)[:, None]
    if (diagonal == 0).any():
        return float("inf")
    solved, residual = np.zeros_like(columns), columns.copy()
    size = (columns**2 / diagonal).sum(axis=0)
    direction = residual / diagonal
    old = size.copy()
    for _ in range(MOST_ROUNDS):
        ahead = weighted.T @ (weighted @ direction)
        step = old / np.maximum((direction * ahead).sum(axis=0), 1e-300)
        solved += step * direction
        residual -= step * ahead
        new = (residual**2 / diagonal).sum(axis=0)
        if (new <= RESIDUAL**2 * size).all():
            break
        direction = residual / diagonal + new / np.maximum(old, 1e-300) * direction
        old = new
    return float((columns * solved).sum(axis=0).mean())
