"""A release that could say nothing is refused before anything is spent, unless it is meant."""

from __future__ import annotations

from sfumato.errors import BudgetError
from sfumato.kernel.budget import Budget
from sfumato.models.base.mechanism import Mechanism
from sfumato.plain_text import as_rows
from sfumato.planner.by_kind import one_way_errors
from sfumato.queries import Workload
from sfumato.schema import Schema

WHAT_TO_DO = "give more epsilon, fewer attributes or wider bins, or --even-if-useless to go on"


def refuse_useless(schema: Schema, mechanism: Mechanism, workload: Workload | None, budget: Budget) -> None:
    """Refuse where even the counts of single values would be noise, as far as the stated number of rows tells.

    That is where for every attribute the standard error exceeds the rows of a typical value; and, for cells that are
    published above a threshold, where not even one cell per value could reach it. Reads no data.
    """
    rows = schema.expected_rows
    if rows is None:
        return
    sizes = {axis.name: axis.size for axis in schema.domain}
    if mechanism.is_sparse(schema):
        from sfumato.models.cells.sparse_cells import planned_threshold

        least, threshold = min(sizes.values()), planned_threshold(schema, budget)
        if rows < threshold * least:
            raise BudgetError(
                f"this release would be useless: only cells with {threshold:,} rows or more are published, and "
                f"{rows:,} rows cannot fill {least:,} of them; {WHAT_TO_DO}",
                kind="budget",
            )
        return
    errors = one_way_errors(schema, mechanism, workload, budget)
    if errors and all(error > rows / sizes[name] for name, error in errors.items()):
        name = min(errors, key=lambda name: errors[name] * sizes[name])
        raise BudgetError(
            f"this release would be useless: even the rows with one value of {name}, about {rows / sizes[name]:,.3g} "
            f"of {rows:,}, would be off by {as_rows(errors[name])}; {WHAT_TO_DO}",
            kind="budget",
        )
