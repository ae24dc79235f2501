"""Tables by some of the axes, each as precise as the workload deserves.

McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, section 6.3 (OPT_M): weights on all 2^d marginals. Here an axis may
also have levels between its total and its cells, those of a tree, so that ranges profit too. The table of all cells is
always among them: every query has an answer.
"""

from __future__ import annotations

from math import log, prod

import numpy as np

from sfumato.domain import Domain
from sfumato.least_squares.marginal_error import Grid, table_queries
from sfumato.least_squares.products import AxisPart
from sfumato.queries import Tree, Workload
from sfumato.queries.strategy import Strategy
from sfumato.strategies.per_axis import axis_by_axis, wanted_of
from sfumato.strategies.shares import best_shares, whole_shares
from sfumato.strategies.trees import tree_for

MOST_TABLES = 2**12
LEAST_FOR_CELLS = 1 / 32  # of the budget, for the table of all cells
BITS = 12


def marginal_strategy(domain: Domain, workload: Workload, pure: bool, *, trees: bool = False) -> Strategy | None:
    """The best shares on all combinations of levels; None where there are too many.

    trees: also use the levels of each axis's best tree, not only its total and its cells.

    >>> from sfumato.domain import Axis
    >>> from sfumato.queries import default_workload
    >>> domain = Domain(tuple(Axis(name, "category", np.arange(5.0), tuple("wxyz")) for name in "abc"))
    >>> marginal_strategy(domain, default_workload(domain), True).queries
    Marginals((4, 4, 4), 4 tables)
    """
    wanted, sizes = wanted_of(domain, workload), tuple(axis.size for axis in domain)
    widths = [{1, size} for size in sizes]
    if trees:
        parts = axis_by_axis(wanted, sizes, lambda axis, gram: tree_for(gram, False))  # zCDP: deep trees, many levels
        widths = [plain | _levels(part) for plain, part in zip(widths, parts, strict=True)]
    if prod(map(len, widths)) > MOST_TABLES:
        return None
    grid = Grid(sizes, tuple(tuple(sorted(each)) for each in widths))
    asked = grid.asked(wanted)
    shares = best_shares(asked, grid.spread, grid.back, np.ones(len(asked)), pure)[0]
    shares[-1] = max(shares[-1], LEAST_FOR_CELLS)
    measured = [pair for pair in zip(grid.tables, whole_shares(shares, BITS), strict=True) if pair[1]]
    queries = table_queries(sizes, [table for table, _ in measured])
    if len(measured) == 1:
        return Strategy(queries)
    which = np.repeat(np.arange(len(measured)), [prod(table) for table, _ in measured])
    return Strategy(queries, tuple(share for _, share in measured), which)


def _levels(part: AxisPart) -> set[int]:
    """Levels like the tree's that divide the cells evenly, each inside the one above."""
    found, finer = set(), part.queries.columns
    for cuts in part.queries.levels[-2::-1] if type(part.queries) is Tree else []:
        even = [width for width in range(1, finer) if finer % width == 0]
        finer = min(even, key=lambda width: abs(log(width / (len(cuts) - 1))), default=1)
        found.add(finer)
    return found
