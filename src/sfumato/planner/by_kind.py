"""What errors to expect of counts of one, two and three attributes: public, from the strategy or from the release.

Counts that a plan or a reader meets most: the number of all rows, and the rows with given values of some attributes. A
mechanism whose noise alone decides is priced; any other release is asked itself, a few questions that stand for all.
"""

from __future__ import annotations

from math import isfinite, sqrt

import numpy as np

from sfumato.domain import Axis
from sfumato.kernel.budget import Budget
from sfumato.models.base.mechanism import Mechanism
from sfumato.planner.blocks import expected_blocks
from sfumato.queries import Identity, Queries, Total, Workload
from sfumato.queries.marginals import over
from sfumato.queries.workload import some_sets
from sfumato.releases.contents.content import Content
from sfumato.schema import Schema

WORDS = ("all rows", "one attribute", "two attributes", "three attributes")
PRICED = 12  # sets of attributes of each kind that stand for all
ASKED = 3  # of which a release is asked, and for as many values of each
MANY_CELLS = 2**20  # beyond which it is asked for one value of one set


def errors_by_kind(
    schema: Schema, mechanism: Mechanism, workload: Workload | None, budget: Budget, content: Content | None = None
) -> dict[str, float]:
    """The standard error of counts by kind, in rows; kinds of which nothing is known are left out.

    content: what was published, for mechanisms whose error depends on more than the noise.
    """
    kinds = range(min(len(schema.domain.axes), 3) + 1)
    if mechanism.forecast.strategy is not None and workload is not None and mechanism.answers == "everything":
        strategy = mechanism.forecast.strategy(schema, workload, budget.is_pure)
        chosen = [(kind, _block(schema, axes)) for kind in kinds for axes in some_sets(schema.domain, kind, PRICED)]
        squares = expected_blocks(strategy, schema, budget, [block for _, block in chosen]) ** 2
        found = {
            kind: [square for (own, _), square in zip(chosen, squares, strict=True) if own == kind] for kind in kinds
        }
    elif content is not None:
        few = 1 if schema.domain.size > MANY_CELLS and not mechanism.holds.by_margins else ASKED
        found = {kind: [_asked(content, axes, few) for axes in some_sets(schema.domain, kind, few)] for kind in kinds}
    else:
        return {}
    errors = {WORDS[kind]: sqrt(float(np.mean(squares))) for kind, squares in found.items()}
    return {name: error for name, error in errors.items() if isfinite(error)}


def _block(schema: Schema, axes: tuple[Axis, ...]) -> Queries:
    """The counts of all combinations of values."""
    domain = schema.domain
    return over(domain, {axis.name: Identity(axis.size) for axis in axes}) if axes else Total(domain.size)


def _asked(content: Content, axes: tuple[Axis, ...], few: int) -> float:
    """The mean squared error that a release states for a few combinations of values."""
    from sfumato.releases.description.typical_errors import ask_for_counts

    return float(np.mean([count.stderr**2 for count in ask_for_counts(content, axes, few)]))


def one_way_errors(schema: Schema, mechanism: Mechanism, workload: Workload | None, budget: Budget) -> dict[str, float]:
    """For each attribute the standard error of the count of one of its values, before anything is measured, in rows.

    Nothing for mechanisms of which that cannot be said.
    """
    if mechanism.forecast.foretold is not None:
        return dict(mechanism.forecast.foretold(schema, budget).one_way)
    if workload is None or mechanism.answers != "everything":
        return {}
    axes = list(schema.domain)
    blocks = [_block(schema, (axis,)) for axis in axes]
    if mechanism.forecast.strategy is not None:
        strategy = mechanism.forecast.strategy(schema, workload, budget.is_pure)
        errors = expected_blocks(strategy, schema, budget, blocks).tolist()
    elif mechanism.forecast.error_if_full is not None:
        full = mechanism.forecast.error_if_full
        errors = [
            full(schema, Workload((axis.name,), (block,)), budget) for axis, block in zip(axes, blocks, strict=True)
        ]
    else:
        return {}
    return {axis.name: error for axis, error in zip(axes, errors, strict=True)}
