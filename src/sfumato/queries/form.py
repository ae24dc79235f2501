"""How a family of queries is kept in a file, said by the family itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sfumato.frozen import dataclass

MOST_PARTS = 2**16  # of one family: each is an object in memory


@dataclass(frozen=True)
class Form:
    """A family's name in a file and the attributes it is made of: whole numbers, arrays (or tuples of them), queries.

    alone: the name where its array is a single number, which is then kept as one.
    make: the family again, from its inner queries, its numbers and its arrays; None for the family's constructor.
    unkept: why these, in the same order, cannot be kept; empty where they can.
    """

    name: str
    numbers: tuple[str, ...] = ("columns",)
    arrays: tuple[str, ...] = ()
    parts: str | None = None
    alone: str | None = None
    make: Callable[..., Any] | None = None
    unkept: Callable[..., str] = lambda *values: ""

    def single(self) -> Form:
        """The form of a family whose array is a single number."""
        return self if self.alone is None else replace(self, name=self.alone, numbers=self.arrays, arrays=())


def too_many(parts: int) -> str:
    """Why a family of so many parts cannot be kept; empty where it can."""
    if parts <= MOST_PARTS:
        return ""
    return f"queries of more than {MOST_PARTS} parts cannot be kept in a file; ask fewer at once"
