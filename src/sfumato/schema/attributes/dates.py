"""Days, and the months and years that gather them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from sfumato.arrays import Codes
from sfumato.domain import EPOCH, Axis
from sfumato.schema.attributes.declared import Attributed
from sfumato.schema.values import Day, check_order


class Date(Attributed):
    """Days from lower to upper, both included, one cell for each day, calendar month or calendar year.

    >>> Date(lower=date(2023, 12, 24), upper=date(2024, 2, 10), by="month").axis("arrival").labels()
    ['2023-12', '2024-01', '2024-02']
    """

    type: Literal["date"] = "date"
    lower: Day
    upper: Day
    by: Literal["day", "month", "year"] = "day"

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        check_order(self.lower, self.upper)
        return self

    @property
    def places(self) -> int:
        """How many cells there are for values."""
        years = self.upper.year - self.lower.year
        months = 12 * years + self.upper.month - self.lower.month
        return {"day": (self.upper - self.lower).days, "month": months, "year": years}[self.by] + 1

    def axis(self, name: str) -> Axis:
        """The numbered cells; the first and last month or year may be cut by the bounds."""
        first = self.lower
        if self.by == "day":
            starts: Sequence[int] | Codes = np.arange(first.toordinal(), first.toordinal() + self.places)
        elif self.by == "month":
            months = (first.year * 12 + first.month + place for place in range(self.places - 1))
            starts = [first.toordinal(), *(date(m // 12, m % 12 + 1, 1).toordinal() for m in months)]
        else:
            starts = [first.toordinal(), *(date(first.year + n, 1, 1).toordinal() for n in range(1, self.places))]
        edges = np.append(starts, self.upper.toordinal() + 1).astype(np.float64) - EPOCH.toordinal()
        return Axis(name, "date", edges, by=self.by, missing=self.keeps_missing)
