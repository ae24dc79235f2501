"""How a count's budget is shared out, and what it is brought to: all rows and margins first, its errors last."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.domain import Domain, Partition
from sfumato.domain.binary_tree import BinaryTree
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement
from sfumato.models.calibration.block_counts import BlockCounts, Blocks
from sfumato.models.calibration.first_margins import (
    MarginsFirst,
    blocks_of,
    margins_beside_cells,
    margins_beside_tree,
    measure_blocks,
    part_for_all_rows,
    part_for_blocks,
    shared_out,
)
from sfumato.models.calibration.fit import Brought
from sfumato.models.calibration.gls_update import steadied
from sfumato.models.calibration.misfits_by_kind import part_of_budget
from sfumato.models.calibration.moved import MovedFit, Moving, Spreading
from sfumato.models.calibration.scales import BLOCKS
from sfumato.queries import Identity


@dataclass(frozen=True)
class Shares:
    """What the count's budget is for; public. known: kinds of question whose errors need not be measured."""

    first: MarginsFirst
    known: frozenset[int]
    most: Budget
    errors: Budget
    margins: Budget | None
    all_rows: Budget | None = None
    blocks: Budget | None = None

    @classmethod
    def beside_tree(cls, domain: Domain, tree: BinaryTree, budget: Budget) -> Shares:
        """Where a tree is measured, of which the root is all rows."""
        first = margins_beside_tree(domain, tree, pure=budget.is_pure)
        known = first.known | {BLOCKS}  # a tree measures these
        most, errors, (margins,) = shared_out(budget, part_of_budget(domain, known), first.part)
        return cls(first, known, most, errors, margins)

    @classmethod
    def beside_cells(cls, domain: Domain, budget: Budget, *, seen: bool = True) -> Shares:
        """Where cells are measured, or buckets of them that were chosen unseen; a tree over these has all rows."""
        first = margins_beside_cells(domain, pure=budget.is_pure)
        known, whole = first.known, part_for_all_rows(domain) if seen else Fraction(0)
        parts = part_of_budget(domain, known, seen=seen), first.part, whole, part_for_blocks(domain, seen=seen)
        most, errors, (margins, all_rows, blocks) = shared_out(budget, *parts)
        return cls(first, known, most, errors, margins, all_rows, blocks)

    def measure(self, curator: Curator) -> Counted:
        """Everything that comes first."""
        margins = self.first.measure(curator, self.margins)
        whole = None
        if self.all_rows is not None:
            together = curator.reduce(Partition(curator.domain, np.zeros(curator.domain.size, dtype=np.int64)))
            whole = together.measure(Identity(1), self.all_rows)
        return Counted(self.first, margins, whole, _blocks(curator, self.blocks))


@dataclass(frozen=True, eq=False)
class Counted:
    """Noisy counts that an estimate is brought to: along attributes, of all rows, and of blocks."""

    first: MarginsFirst
    margins: list[Measurement]
    whole: Measurement | None
    blocks: tuple[Blocks, Measurement] | None = None

    def bring(self, fit: Moving) -> Brought:
        """A fit that can be moved, moved to the margins, if there are any."""
        return Brought(fit) if self.first.along is None else Brought(*steadied(fit, self.first.along, self.margins))

    def bring_all(self, fit: Spreading) -> Brought:
        """Any other, to all rows, then to margins, then to blocks."""
        if self.whole is None and self.first.along is None and self.blocks is None:
            return Brought(fit)
        moved, along = MovedFit.brought(fit, self.whole), None
        if self.first.along is not None:
            moved, along = steadied(moved, self.first.along, self.margins)
        if self.blocks is None:
            return Brought(moved, along)
        return Brought(*BlockCounts.brought(moved, along, *self.blocks))


def counted_beside_shape(curator: Curator, budget: Budget) -> tuple[Counted, Budget]:
    """Margins that pay beside a shape that is learned from queries, and what they leave of a budget."""
    first = margins_beside_cells(curator.domain, pure=budget.is_pure)
    wanted = first.part, part_for_blocks(curator.domain)
    most, *shares = budget.split(1 - sum(wanted), *(part for part in wanted if part))
    margins, blocks = (shares.pop(0) if part else None for part in wanted)
    return Counted(first, first.measure(curator, margins), None, _blocks(curator, blocks)), most


def _blocks(curator: Curator, budget: Budget | None) -> tuple[Blocks, Measurement] | None:
    """A coarse grid and its noisy counts, where a budget is for it."""
    blocks = blocks_of(curator.domain)
    return None if blocks is None or budget is None else (blocks, measure_blocks(curator, blocks, budget))
