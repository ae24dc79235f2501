"""NOT PRIVATE: broken descents, kept so that the audit can be seen to catch them.

A descent may follow the noisy counts wherever they lead, but it may follow nothing else, and along every path its
shares must sum to no more than the budget (docs/sfumato.md). Each of these forgets one of the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sfumato.domain.binary_tree import BinaryTree
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.lab.audit.attacks.descents import descent_finding
from sfumato.lab.audit.attacks.replay import Run
from sfumato.measurement import Measurement
from sfumato.models.tree.descent import Frontier, GoOn, Planned, next_measurements
from sfumato.models.tree.measure import descend
from sfumato.models.tree.query_geometry import Geometry
from sfumato.queries import default_workload
from sfumato.schema import Schema


def descending(go_on: GoOn = next_measurements) -> Callable[[Curator, Schema, Budget], Measurement]:
    """A descent that goes on in some way: the one of the mechanism, or a broken one."""

    def run(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
        domain = schema.domain
        return descend(curator, BinaryTree.over(domain), budget, default_workload(domain), go_on=go_on)

    return run


def paid_twice(frontier: Frontier, tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool) -> Planned:
    """NOT PRIVATE: the last measurement on a path gets all the budget left there, and its share of it once more."""
    asked = next_measurements(frontier, tree, geometry, unit, pure=pure)
    return replace(asked, shares=np.where(asked.left == 0, 2 * asked.shares, asked.shares))


def steered_by_the_table(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """NOT PRIVATE: nodes that hold no row are leaves, by their true counts where it must be by the noisy ones."""
    truth = np.concatenate([[0], np.cumsum(curator._dense("count")[BinaryTree.over(schema.domain).order])])

    def go_on(frontier: Frontier, tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool) -> Planned:
        asked = next_measurements(frontier, tree, geometry, unit, pure=pure)
        ranges = asked.ranges(tree)
        empty = truth[ranges.highs + 1] == truth[ranges.lows]
        shares = np.where(empty, asked.shares + asked.left, asked.shares)
        return replace(asked, shares=shares, left=np.where(empty, 0, asked.left))

    return descending(go_on)(curator, schema, budget)


def replaying_descent(run: Run, kind: type[Curator] = Curator) -> Callable[[], str | None]:
    """The replay audit of a descent; what a mechanism reached for says less than what it then did, and comes last."""

    def check() -> str | None:
        complaints = descent_finding("descent", Budget.pure(1), run, curator=kind).complaints
        said = sorted({complaint.what for complaint in complaints}, key=lambda what: ("reached for" in what, what))
        return said[0] if said else None

    return check
