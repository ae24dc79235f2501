"""What a mechanism of one purpose promises before any data is read: figures that `sfumato plan` shows."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING

from sfumato.frozen import dataclass

if TYPE_CHECKING:
    from sfumato.kernel.budget import Budget
    from sfumato.queries import Workload
    from sfumato.schema import Schema

ROWS = "rows"
LEAST_SHOWN = 1e-6


@dataclass(frozen=True)
class Figure:
    """One number. what: in words. unit: of the value."""

    what: str
    value: float
    unit: str = ROWS

    @property
    def shown(self) -> str:
        """Three figures are more than a promise deserves; what is counted is shown whole.

        >>> [Figure("", value).shown for value in (12345.6, 0.04567, 42, 1e-20)]
        ['12,346', '0.0457', '42', 'under 0.000001']
        """
        if not isfinite(self.value):
            return "more than there are"
        if self.value < LEAST_SHOWN:
            return f"under {LEAST_SHOWN:.6f}"
        whole = isinstance(self.value, int) or self.value >= 100
        return f"{self.value:,.0f}" if whole else f"{self.value:.3g}"


@dataclass(frozen=True)
class Promises:
    """words: what no figure says, a sentence each."""

    figures: tuple[Figure, ...]
    words: tuple[str, ...] = ()


# Schema, budget, how sure figures are, and the workload where one is stated; options come by name.
Foretells = Callable[["Schema", "Budget", float, "Workload | None"], Promises]


def sure(confidence: float) -> str:
    """How sure a figure is, as it is said behind what it is.

    >>> sure(0.95)
    '95 % sure'
    """
    return f"{100 * confidence:g} % sure"


def with_rows(schema: Schema, *figures: Callable[[int], Figure]) -> tuple[Figure, ...]:
    """Figures that need to know about how many rows there are: none where the schema does not say."""
    rows = schema.expected_rows
    return () if not rows else tuple(figure(rows) for figure in figures)


def without_rows(schema: Schema, what: str) -> tuple[str, ...]:
    """What to do where such figures are missing."""
    return () if schema.expected_rows else (f"State expected_rows in the schema to see {what}.",)
