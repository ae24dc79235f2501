"""How a count's budget is shared out, and what it is brought to: all rows and margins first, its errors last."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.domain import Domain, Partition
from sfumato.domain.binary_tree import BinaryTree
from sfumato.frozen import dataclass
from sfumato.inference.by_kind.scales import BLOCKS
from sfumato.inference.fits.measured.steadied import Steadied, steadied
from sfumato.inference.fits.moved import MovedFit, Moving, Spreading
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement
from sfumato.mechanisms.shared.margins_first import (
    MarginsFirst,
    margins_beside_cells,
    margins_beside_tree,
    part_for_all_rows,
    shared_out,
)
from sfumato.mechanisms.shared.measured_errors import part_of_budget
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
        parts = part_of_budget(domain, known, seen=seen), first.part, whole
        most, errors, (margins, all_rows) = shared_out(budget, *parts)
        return cls(first, known, most, errors, margins, all_rows)

    def measure(self, curator: Curator) -> Counted:
        """Everything that comes first."""
        margins = self.first.measure(curator, self.margins)
        if self.all_rows is None:
            return Counted(self.first, margins, None)
        together = curator.reduce(Partition(curator.domain, np.zeros(curator.domain.size, dtype=np.int64)))
        return Counted(self.first, margins, together.measure(Identity(1), self.all_rows))


@dataclass(frozen=True, eq=False)
class Counted:
    """Noisy counts that an estimate is brought to: along attributes, and of all rows."""

    first: MarginsFirst
    margins: list[Measurement]
    whole: Measurement | None

    def bring(self, fit: Moving) -> tuple[Moving, Steadied | None]:
        """A fit that can be moved, moved to the margins, if there are any."""
        return (fit, None) if self.first.along is None else steadied(fit, self.first.along, self.margins)

    def bring_all(self, fit: Spreading) -> tuple[Spreading, Steadied | None]:
        """Any other, to all rows and then to margins."""
        if self.whole is None and self.first.along is None:
            return fit, None
        return self.bring(MovedFit.brought(fit, self.whole))


def counted_beside_shape(curator: Curator, budget: Budget) -> tuple[Counted, Budget]:
    """Margins that pay beside a shape that is learned from queries, and what they leave of a budget."""
    first = margins_beside_cells(curator.domain, pure=budget.is_pure)
    most, margins = budget.split(1 - first.part, first.part) if first.part else (budget, None)
    return Counted(first, first.measure(curator, margins), None), most
