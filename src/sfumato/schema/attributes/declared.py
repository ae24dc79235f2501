"""What all parts of a schema share, and what all attributes do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from sfumato.arrays import Floats
from sfumato.schema.values import ColumnName

MOST_CELLS_OF_AN_AXIS = 10_000_000


class Declared(BaseModel):
    """A part of the schema: frozen, and without keys that nobody asked for."""

    # Arbitrary types: Fraction. Deferred: parts are compiled with the whole, not each by itself before it.
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)


class Column(Declared):
    """A part of the schema that reads one column: the one of its own name, unless `column` names another."""

    column: ColumnName = ""  # the schema fills in the name


class Attributed(Column):
    """A column that becomes an axis. With `missing: keep` it has one more cell, the last, for rows without a value."""

    missing: Literal["keep"] | None = None

    @property
    def keeps_missing(self) -> bool:
        """Whether rows without a value have a cell of their own; without one they are left out."""
        return self.missing is not None

    @property
    @abstractmethod
    def places(self) -> int:
        """How many cells there are for values."""

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.places + self.keeps_missing


def floats(numbers: Sequence[int | Fraction | float]) -> Floats:
    return np.array([float(number) for number in numbers], dtype=np.float64)


def check_size(size: int, remedy: str) -> None:
    """Refuse an axis that is too long to lay out."""
    if size > MOST_CELLS_OF_AN_AXIS:
        raise ValueError(f"has more than {MOST_CELLS_OF_AN_AXIS:,} cells; {remedy}")
