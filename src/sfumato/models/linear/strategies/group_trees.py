"""Trees whose nodes are the groups that a schema puts values into, such as regions of municipalities.

A tree of even ranges cuts through groups of uneven sizes, and their totals are then sums of many nodes. A level of the
groups themselves answers them at once. Whether that is worth its share of the budget depends on what is asked; all
levels, and a few ways to weigh them, are priced.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np

from sfumato.least_squares.gram import Gram
from sfumato.models.linear.strategies.per_axis import AxisPart
from sfumato.queries import Tree

WEIGHTS = ((1, 2), (1, 1), (2, 1), (4, 1), (8, 1))  # of every level of groups, and of single cells
MOST_VALUES = 1024  # of an attribute, for which trees of groups are priced


@lru_cache(maxsize=256)
def with_groups(part: AxisPart, gram: Gram, splits: tuple[tuple[int, ...], ...], pure: bool) -> AxisPart:
    """The part of a strategy along one axis, or a tree of the axis's groups if that has a smaller expected error."""
    if not splits or gram.n > MOST_VALUES:
        return part
    best, least = part, part.error(gram, pure)
    for number in range(1, len(splits) + 1):
        for chosen in combinations(splits, number):
            tree = Tree.of_levels([np.array([0, *cuts, gram.n]) for cuts in (*chosen, range(1, gram.n))])
            for groups, cells in WEIGHTS:
                found = AxisPart(tree, np.where(tree.row_level < number, float(groups), float(cells)))
                error = found.error(gram, pure)
                if error < least:
                    best, least = found, error
    return best
