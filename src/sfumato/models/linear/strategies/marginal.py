"""Tables by some of the axes, each as precise as the workload deserves.

McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, section 6.3 (OPT_M): weights on all 2^d marginals. Here an axis may
also have levels between its total and its cells, those of a tree, so that ranges profit too. The table of all cells is
always among them: every query has an answer.
"""

from __future__ import annotations

from math import log, prod

import numpy as np

from sfumato.domain import Domain
from sfumato.least_squares.gram import even_cuts
from sfumato.least_squares.marginals import Grid, Table
from sfumato.least_squares.products import grams_of
from sfumato.models.linear.strategies.budget_allocation import best_weights, whole_weights
from sfumato.models.linear.strategies.per_axis import AxisPart, axis_by_axis, wanted_of
from sfumato.models.linear.strategies.trees import tree_for
from sfumato.queries import Identity, Kron, Marginals, Queries, Ranges, Stack, Total, Tree, Workload
from sfumato.queries.strategy import Strategy

MOST_TABLES = 2**12
LEAST_FOR_CELLS = 1 / 32  # of the budget, for the table of all cells
BITS = 12


def marginal_strategy(domain: Domain, workload: Workload, pure: bool, *, trees: bool = False) -> Strategy | None:
    """The best weights on all combinations of levels; None where there are too many.

    trees: also use the levels of each axis's best tree, not only its total and its cells; None where these have none.

    >>> from sfumato.domain import Axis
    >>> from sfumato.queries import default_workload
    >>> domain = Domain(tuple(Axis(name, "category", np.arange(5.0), tuple("wxyz")) for name in "abc"))
    >>> marginal_strategy(domain, default_workload(domain), True).queries
    Marginals((4, 4, 4), 2 tables)
    """
    wanted, sizes = wanted_of(domain, workload), domain.shape
    widths = [{1, size} for size in sizes]
    if trees:
        # Under zCDP a tree has many levels; which they are, the first sweep tells, and their weights are found below.
        deep = axis_by_axis(domain, workload, lambda axis, gram: tree_for(gram, False), sweeps=1)
        deeper = [plain | _levels(part) for plain, part in zip(widths, deep, strict=True)]
        if deeper == widths:
            return None
        widths = deeper
    if prod(map(len, widths)) > MOST_TABLES:
        return None
    grid = Grid(sizes, tuple(tuple(sorted(each)) for each in widths))
    grams = zip(*(grams_of(wanted, axis) for axis in range(len(sizes))), strict=True)
    asked = np.sum([one.weight * grid.asked(each) for one, each in zip(wanted, grams, strict=True)], axis=0)
    weights = best_weights(asked, grid.answered, grid.back, np.ones(len(asked)), pure)[0]
    weights[-1] = max(weights[-1], LEAST_FOR_CELLS)
    measured = [pair for pair in zip(grid.tables, whole_weights(weights, BITS), strict=True) if pair[1]]
    queries = _counts(sizes, [table for table, _ in measured])
    if len(measured) == 1:
        return Strategy(queries)
    which = np.repeat(np.arange(len(measured)), [prod(table) for table, _ in measured])
    return Strategy(queries, tuple(weight for _, weight in measured), which)


def _levels(part: AxisPart) -> set[int]:
    """Levels like the tree's that divide the cells evenly, each inside the one above."""
    found, finer = set(), part.queries.columns
    for cuts in part.queries.levels[-2::-1] if type(part.queries) is Tree else []:
        even = [width for width in range(1, finer) if finer % width == 0]
        finer = min(even, key=lambda width: abs(log(width / (len(cuts) - 1))), default=1)
        found.add(finer)
    return found


def _counts(sizes: tuple[int, ...], tables: list[Table]) -> Queries:
    """The counts of several tables, one after the other."""
    if all(width in (1, size) for table in tables for width, size in zip(table, sizes, strict=True)):
        return Marginals(sizes, [[a for a, width in enumerate(table) if width == sizes[a]] for table in tables])
    return Stack(*(Kron(*map(_level, sizes, table)) for table in tables))


def _level(size: int, width: int) -> Queries:
    cuts = even_cuts(size, width)
    if width in (1, size):
        return Identity(size) if width == size else Total(size)
    return Ranges(size, cuts[:-1], cuts[1:] - 1)
