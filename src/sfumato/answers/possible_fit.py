"""A fit that respects structural zeros: cells that no row can be in are 0, and bring no error into any sum.

The true count of an impossible cell is 0 by the public schema. So its estimate is replaced by 0, and a sum of cells
errs by the errors of its possible cells alone: weights on impossible cells are taken out before the fit is asked.
Guaranteed bounds are those of the same sum, for these cells hold nothing in every table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import cast

import numpy as np

from sfumato.answers.fit import Arrays, ByGroup, Errors, Fit, FitReader, Grouped, Inside, Plain, Sets
from sfumato.answers.noise_sum import Ends, Find
from sfumato.arrays import Flags, Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement


def without_impossible(fit: Fit, possible: Flags) -> Fit:
    """The fit with structural zeros. possible: flags of the cells that rows can be in, (cells,)."""
    return cast("Fit", PossibleFit(fit, possible))  # its kind is that of the fit, so no attribute of the class


@dataclass(frozen=True, eq=False)
class PossibleFit(Plain):
    """Fit with structural zeros. fit: as published; possible: flags of the cells that rows can be in, (cells,)."""

    family: str = field(init=False)
    room: int = field(init=False)
    exact: bool = field(init=False)
    fit: Fit
    possible: Flags

    def __post_init__(self) -> None:
        """Take over what the fit says of its kind."""
        for name in ("family", "room", "exact"):
            object.__setattr__(self, name, getattr(self.fit, name))

    @property
    def of(self) -> str:
        return self.fit.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return self.fit.measurements

    @property
    def words(self) -> tuple[str, ...]:
        return self.fit.words

    @cached_property
    def estimate(self) -> Floats:
        return np.where(self.possible, self.fit.estimate, 0.0)

    def errors(self, columns: Floats) -> Errors:
        return self.fit.errors(columns * self.possible[:, None])

    def errors_by_group(self, asked: Grouped) -> Sequence[Errors] | None:
        """Errors of every group's sums; None where the fit needs them group by group."""
        if not isinstance(self.fit, ByGroup):
            return None
        kept = self.possible[asked.place]
        whole = None if asked.whole is None else asked.whole * self.possible[:, None]
        return self.fit.errors_by_group(
            replace(asked, place=asked.place[kept], group=asked.group[kept], weights=asked.weights[kept], whole=whole)
        )

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        """Bounds of the same sum over possible cells."""
        find = self.fit.guaranteed(domain, rows)

        def possible(low: Floats, high: Floats, tail: float) -> Ends:
            low, high = low * self.possible, high * self.possible
            return find(low, high, tail) if low.any() or high.any() else Ends(0.0, 0.0)

        return possible

    def measured_inside(self, within: Sets) -> Inside | None:
        return self.fit.measured_inside(within & self.possible[:, None])

    def record(self, domain: Domain) -> Arrays:
        return self.fit.record(domain)

    @classmethod
    def read(cls, file: FitReader) -> PossibleFit:
        raise QueryError("it holds a kind of fit that is never written")
