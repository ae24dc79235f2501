"""The error of a strategy on blocks of queries, at a budget: that of the noise as it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from sfumato.kernel.budget import Budget
from sfumato.mechanisms.linear import designs
from sfumato.planner.standin import linear_stand_in
from sfumato.queries import Queries, Workload
from sfumato.schema import Schema
from sfumato.strategies.strategy import Strategy

Floats = NDArray[np.float64]

FEW = 2**24  # numbers, up to which every query is solved for by itself
FINENESS = 2**12  # parts of the largest noise in which all others are counted
SMALLEST = 1e-12  # variance, below which noise is 0 for any plan


def expected_blocks(strategy: Strategy, schema: Schema, budget: Budget, blocks: Sequence[Queries]) -> Floats:
    """The root mean square error of every block, in rows; infinite where the strategy does not determine it.

    Query by query if they are few, as the statements of a file are; otherwise by closed forms over whole families.
    """
    rows = sum(block.rows for block in blocks)
    if rows * max(schema.domain.size, strategy.queries.rows) <= FEW:
        return _query_by_query(strategy, schema, budget, blocks)
    return _family_by_family(strategy, schema, budget, blocks)


def _query_by_query(strategy: Strategy, schema: Schema, budget: Budget, blocks: Sequence[Queries]) -> Floats:
    (count, *_) = linear_stand_in(schema, budget, strategy).fits
    written = np.concatenate([np.asarray(block.dense(), dtype=np.float64) for block in blocks])
    errors = count.errors(written.T)
    squares = (errors.weights**2 * errors.design.variances[:, None]).sum(axis=0)
    squares[errors.unknown] = np.inf
    ends = np.cumsum([block.rows for block in blocks])[:-1]
    return np.sqrt([float(part.mean()) for part in np.split(squares, ends)])


def _family_by_family(strategy: Strategy, schema: Schema, budget: Budget, blocks: Sequence[Queries]) -> Floats:
    from sfumato.strategies.expected import expected_errors

    design = designs(strategy, schema, budget)["count"]
    deviations = np.sqrt([max(noise.variance, SMALLEST) for noise in design.noises])
    # Shares that stand for the noise as it is drawn, in whole numbers, so that the figures are those of the release.
    shares = tuple(int(share) for share in np.rint(FINENESS * deviations.max() / deviations))
    weighed = Strategy(design.queries, shares, design.which)
    workload = Workload(tuple(str(place) for place in range(len(blocks))), tuple(blocks))
    at_one = expected_errors(weighed, workload, True)  # with continuous noise of scale l1 / share on every row
    return np.asarray(at_one * (FINENESS * float(deviations.max()) / (sqrt(2.0) * weighed.weighted.l1)))
