"""The error of a strategy on blocks of queries, at a budget: that of the noise as it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from sfumato.arrays import Floats
from sfumato.kernel.budget import Budget
from sfumato.measurement import Laplace
from sfumato.models.base.measure_and_fit import whole_noise, with_weight
from sfumato.planner.release_without_data import linear_stand_in
from sfumato.queries import Queries, Workload
from sfumato.queries.strategy import Strategy
from sfumato.schema import Schema

FEW = 2**20  # numbers, up to which every query is solved for by itself


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
    from sfumato.least_squares.expected_error import expected_errors

    share = budget.split(*schema.weights.values())[0]
    whole = whole_noise(strategy, share, schema.privacy_unit.contributions)
    workload = Workload(tuple(str(place) for place in range(len(blocks))), tuple(blocks))
    at_one = expected_errors(strategy, workload, budget.is_pure)
    # Those are for continuous noise at epsilon 1, with l1 / weight (or l2 / weight). A budget stretches it, and whole
    # numbers shrink it a little: by one factor if all rows have the same noise, on average otherwise.
    if isinstance(whole, Laplace):
        stretch = float(whole.scale / strategy.load(1))
    else:
        stretch = sqrt(whole.sigma_squared / strategy.load(2))
    noises = [with_weight(whole, weight) for weight in strategy.weights]
    shrink = np.array([noise.variance / noise.continuous_variance for noise in noises])
    return np.asarray(at_one * (stretch * sqrt(float(np.average(shrink, weights=strategy.shares)))))
