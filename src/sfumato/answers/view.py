"""What the evaluator is given for one query: cells, where their errors come from, and what is not shown of them.

A content that can lay out cells for the attributes of a query, and say which noises a weighted sum of them carries, has
every SELECT answered by the evaluator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.cell_weights import ByStatistic
from sfumato.answers.gathered import Gathered
from sfumato.answers.groups import Groups
from sfumato.answers.intervals.fieller import Term
from sfumato.answers.intervals.rows_inside import Sign
from sfumato.answers.suppressed import Suppressed
from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.schema import Schema

Terms = tuple[Term, ...] | None  # the noises of one answer; None where what was measured does not determine it


@dataclass(frozen=True, eq=False)
class Sum:
    """A linear combination of amounts, as weights.

    split: on the cells of the group asked about. whole: on all cells, whatever the group. rest: for each group, on what
    the suppressed cells hold together. unseen: for each group, how many suppressed cells may belong to it.
    """

    split: ByStatistic
    whole: ByStatistic
    rest: ByStatistic
    unseen: Floats

    @property
    def exact(self) -> bool:
        """Whether value, low and high end are one and the same."""
        return all(w.exact for kind in (self.split, self.whole, self.rest) for w in kind.values())


class NoiseSource(Protocol):
    """Which noises the answers about some cells carry."""

    def terms(self, sides: Sequence[Sum], cells: Gathered, groups: Groups) -> Sequence[Terms]:
        """For every present group, the noises of its numerator and denominator, with the weights of each."""

    def signs_of_rows(self, within: NDArray[np.bool_], cells: Gathered) -> list[Sign] | None:
        """For each set of cells, (cells, sets), what was measured of it alone; None where that is not told."""

    def largest_model_part(self, side: Sum, groups: Groups) -> tuple[str, ...] | None:
        """The attributes that the largest part of the model's error is about; None where that is not told."""


@dataclass(frozen=True, eq=False)
class View:
    """The cells of a content along the attributes of one query.

    estimated: cells are estimates that need not be whole; since counts are, intervals of counts then end at wholes.
    """

    schema: Schema
    cells: Gathered
    noises: NoiseSource
    suppressed: Suppressed | None = None
    estimated: bool = False
