"""Tilt a release towards the statements that a user names, and warn of kinds of question that become useless.

A strategy made for one statement alone leaves all other questions without an answer worth having: a table by postcode
at the least error has nothing to say on age. So a workload of statements is a tilt. What is optimised is

    NAMED * (error of the statements / s)^2  +  (1 - NAMED) * (error of the default workload / u)^2

where s and u are the errors that `hierarchical` has if it serves either alone (pure epsilon, continuous noise), so that
neither part wins by the mere size of its errors. Mechanisms that measure a workload itself take the statements alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isfinite, prod, sqrt

from sfumato.arrays import MOST_DENSE
from sfumato.domain import Domain
from sfumato.errors import SfumatoError
from sfumato.kernel.budget import Budget
from sfumato.least_squares.expected_error import expected_errors
from sfumato.models import considered
from sfumato.models.base.mechanism import Mechanism
from sfumato.plain_text import as_rows
from sfumato.planner.marginal_errors import PRICED, WORDS, Squares, squares_by_kind, table
from sfumato.planner.questions import Item
from sfumato.queries import Identity, Workload, default_workload
from sfumato.queries.strategy import Strategy
from sfumato.queries.workload import some_sets, tilted
from sfumato.releases.contents.content import Content
from sfumato.schema import Schema


def tilt_towards(named: Workload, domain: Domain) -> Workload:
    """Workload with most of the weight on what was named, and the default workload beside it.

    Cells that are too many to lay out have no default workload, and what was named stands alone.
    """
    if domain.size > MOST_DENSE:
        return named
    usual = default_workload(domain)
    return tilted(named, usual, (_scale(named, domain), _scale(usual, domain)))


def _scale(workload: Workload, domain: Domain) -> float:
    """Error on a workload if the whole budget serves it: by a tree, or by noisy cells where a tree is not priced."""
    from sfumato.models.linear.strategies.hierarchies import tree_strategy

    try:
        error = workload.overall(expected_errors(tree_strategy(domain, workload, True), workload, True))
        if isfinite(error):
            return error
    except SfumatoError:  # such as a statement that cannot be priced by a tree
        pass
    return workload.overall(expected_errors(Strategy(Identity(domain.size)), workload, True))


def squares_by_trial(schema: Schema, errors: Callable[[list[Item]], Sequence[float]]) -> Squares:
    """Mean squared errors of the tables that warnings look at, from a forecast of items of a plan."""
    sets = [
        axes for kind in range(min(len(schema.domain.axes), 3) + 1) for axes in some_sets(schema.domain, kind, PRICED)
    ]
    items = [Item(", ".join(axis.name for axis in axes), "rows", table(schema, axes)) for axes in sets]
    squares: Squares = {len(axes): {} for axes in sets}
    for axes, error in zip(sets, errors(items), strict=True):
        squares[len(axes)][axes] = error**2
    return squares


def useless_kinds(
    schema: Schema,
    mechanism: Mechanism,
    workload: Workload | None,
    budget: Budget,
    content: Content | None = None,
    squares: Squares | None = None,
) -> tuple[str, ...]:
    """Warnings on kinds of question that a workload makes useless.

    A table is useless if its error exceeds the rows of its average group; one that would be so without the workload is
    not warned of. Of a mechanism whose error depends on the data, `hierarchical` tells what would be without it.
    squares: mean squared errors with the workload, where these are known already.
    """
    from sfumato.planner.simulate import ROWS_PER_CELL

    domain, rows = schema.domain, schema.expected_rows or ROWS_PER_CELL * schema.domain.size
    if workload is None or domain.size > MOST_DENSE or workload is default_workload(domain):
        return ()
    if squares is None:
        squares = squares_by_kind(schema, mechanism, workload, budget, content)
    if not squares:
        return ()
    priced = mechanism if mechanism.forecast.strategy is not None else _plain_tree()
    usual = squares_by_kind(schema, priced, default_workload(domain), budget)
    warnings = []
    for kind in range(1, len(squares)):
        groups = {axes: rows / prod(axis.size for axis in axes) for axes in squares[kind]}
        lost = {
            axes: sqrt(square) / groups[axes]
            for axes, square in squares[kind].items()
            if sqrt(square) > groups[axes] >= sqrt(usual[kind].get(axes, inf))
        }
        if lost:
            worst, looked_at = max(lost, key=lambda axes: lost[axes]), len(squares[kind])
            many = f"{len(lost)} of {looked_at} tables" if looked_at > 1 else "the table"
            warnings.append(
                f"Warning: with this workload {many} by {WORDS[kind]} would be useless: counts by "
                f"{', '.join(axis.name for axis in worst)} would be off by {as_rows(sqrt(squares[kind][worst]))} rows, "
                f"where a group has {as_rows(groups[worst])} on average; without it, by "
                f"{as_rows(sqrt(usual[kind][worst]))}."
            )
    return tuple(warnings)


def _plain_tree() -> Mechanism:
    """First mechanism of `auto` with an exact error that neither publishes noisy cells nor searches for a strategy."""
    exact = (one for one in considered() if one.forecast.strategy is not None)
    return next(one for one in exact if not one.as_measured and not one.forecast.optimised)
