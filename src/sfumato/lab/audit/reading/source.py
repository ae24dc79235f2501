"""What the reading audit attacks: a case, which is one table, and a source, which makes cases."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from sfumato.frozen import dataclass
from sfumato.kernel.reading.table import Table
from sfumato.lab.audit.reading.reference import Row
from sfumato.schema import Schema

BLOCKS = (5, 16, 64, 2**23)  # into which a CSV file is cut; nothing may depend on it
Make = Callable[[Random, Path], "Case"]


@dataclass(frozen=True)
class Case:
    """A table that can be opened whole or without some of its parts, a part being a row or the bytes of a record."""

    schema: Schema
    parts: tuple[Any, ...]
    unit: Callable[[Any], Hashable]
    open: Callable[[Sequence[Any]], Table]
    rows: Callable[[Sequence[Any]], Sequence[Row]]
    typed: bool = True


@dataclass(frozen=True)
class Source:
    """A source: how its cases are made, the share of the pairs that it is worth, and the library that it needs.

    first: cases that come before those, where a few readings have to find what elsewhere hundreds do.
    """

    make: Make
    share: float = 1.0
    needs: str = "pyarrow"
    first: tuple[Make, ...] = ()

    @property
    def here(self) -> bool:
        """Whether it can be attacked on this machine."""
        return find_spec(self.needs) is not None
