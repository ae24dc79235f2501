"""The groups of a GROUP BY: which there are, and which cell belongs to which."""

from __future__ import annotations

from math import prod

import numpy as np

from sfumato.answers.gathered import Gathered
from sfumato.arrays import Codes
from sfumato.domain import Domain
from sfumato.domain.boxes import cover
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.sql import Select

MOST_GROUPS = 1_000_000


@dataclass(frozen=True, eq=False)
class Groups:
    """All combinations of the group-by attributes' cells, numbered row by row, and those that a WHERE leaves."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    present: Codes

    @classmethod
    def of(cls, select: Select, domain: Domain) -> Groups:
        names = select.group_by
        shape = tuple(domain[name].size for name in names)
        if prod(shape) > MOST_GROUPS:
            raise QueryError(
                f"GROUP BY {', '.join(names)} makes {prod(shape):,} groups and {MOST_GROUPS:,} is the most; "
                "group by fewer attributes, or ask for single cells with WHERE"
            )
        possible = np.zeros(shape, dtype=bool)
        for box in select.where.boxes:
            inside = np.ones(shape, dtype=bool)
            for place, name in enumerate(names):
                touched = cover(domain[name], box[name]).possible > 0
                inside &= touched.reshape([-1 if p == place else 1 for p in range(len(names))])
            possible |= inside
        if not names:  # without GROUP BY there is one row, even where nothing can match
            possible[...] = True
        return cls(names, shape, np.flatnonzero(possible))

    @property
    def number(self) -> int:
        return prod(self.shape)

    def of_cells(self, gathered: Gathered) -> Codes:
        """The group of each gathered cell."""
        group = np.zeros(gathered.size, dtype=np.int64)
        for name, size in zip(self.names, self.shape, strict=True):
            group = group * size + gathered.codes[name]
        return group

    def code(self, name: str) -> Codes:
        """Where each present group lies on one attribute."""
        return np.asarray(np.unravel_index(self.present, self.shape)[self.names.index(name)], dtype=np.int64)
