"""Guaranteed ends of counts where only some cells are published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.intervals.guaranteed.ends import Ends
from sfumato.intervals.guaranteed.thresholded import Thresholded
from sfumato.releases.answers.gathered import Gathered
from sfumato.releases.answers.intervals.source import Asked
from sfumato.sql import Amount


@dataclass(frozen=True, eq=False)
class FromThreshold:
    """known: what is known of any cells. size: of the domain."""

    signed: ClassVar[bool] = False

    known: Thresholded
    size: float

    @property
    def work(self) -> int:
        return 0

    def refuse(self, amounts: Sequence[Amount]) -> None:
        """By the question alone, whatever is published: cells that are not shown weigh as much as those that are."""
        if any(amount.of is not None or amount.factor != 1.0 for amount in amounts):
            raise QueryError(
                "where only cells above a threshold are published there are guaranteed intervals for counts and "
                "shares; ask for the typical interval of sums and averages"
            )

    def ends(self, asked: Asked, cells: Gathered, tail: float) -> Ends:
        low, high = (each.get("count", np.zeros(cells.size)) for each in (asked.low, asked.high))
        values = cells.values["count"]
        within = float(high.sum()) + asked.unseen
        others = float(values.sum() - high @ values), max(0.0, self.size - within)
        above = self.known.ends(float(high @ values), float(high.sum()), within, others, tail)
        sure = float(low @ values)
        return above if (low == high).all() else Ends(self.known.least(sure, within, tail), above.high)
