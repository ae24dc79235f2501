"""Rows as they were placed, one by one: what is read where a table has too many cells to lay out.

Nearly every row then has a cell of its own. To gather rows by cell would take longer than reading them and save little,
so they are kept as they are, in a few short numbers each. A row's *words* number its cell along runs of neighbouring
attributes: the cells of 100 attributes have no number that 64 bits can hold, but each run of them has a short one.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Whole
from sfumato.domain import LARGEST_NUMBER, Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.aggregate import Aggregate

LONGEST_WORD = 2**16  # cells that a word tells apart; only an attribute that has more values by itself has a longer one

Short = NDArray[np.unsignedinteger[Any]]  # whole numbers from 0, in no more bytes than they need


def words_of(domain: Domain) -> tuple[range, ...]:
    """The places of the attributes that each word is about."""
    runs, first, cells = [], 0, 1
    for place, size in enumerate(domain.shape):
        if place > first and cells * size > LONGEST_WORD:
            runs.append(range(first, place))
            first, cells = place, 1
        cells *= size
    return (*runs, range(first, len(domain.axes)))


def short(values: NDArray[Any], below: int) -> Short:
    """Whole numbers from 0 up to, not including, `below`, in two bytes each, or in four if they need them.

    Not in one: to add numbers of one kind is faster than to save a byte.
    """
    return values.astype(np.uint16 if below <= 2**16 else np.uint32, copy=False)


@dataclass(frozen=True, eq=False, repr=False)  # no repr: private rows must not reach a log or a traceback
class Rows:
    """words: an array for each run of `words_of(domain)`. steps: for each measure, those of every row."""

    domain: Domain
    words: tuple[Short, ...]
    steps: dict[str, Whole] = field(default_factory=dict)
    _found: dict[str, tuple[int, Short | None]] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.words[0])

    def codes(self, name: str, these: slice) -> Short:
        """Where some of the rows lie on an axis."""
        if name not in self._found:
            self._found[name] = self._find(name)
        word, along = self._found[name]
        return self.words[word][these] if along is None else np.take(along, self.words[word][these])

    def _find(self, name: str) -> tuple[int, Short | None]:
        """Which word tells where a row lies on an axis and, if it tells more than that, the code for each of them."""
        place, shape = self.domain.place(name), self.domain.shape
        word, run = next((word, run) for word, run in enumerate(words_of(self.domain)) if place in run)
        if len(run) == 1:
            return word, None
        cells = np.arange(prod(shape[run.start : run.stop]))
        return word, short(cells // prod(shape[place + 1 : run.stop]) % shape[place], shape[place])

    @cached_property
    def gathered(self) -> Aggregate:
        """Rows and sums by cell, wherever cells have a number; sums modulo 2^64."""
        if self.domain.size > LARGEST_NUMBER:
            raise QueryError(
                f"the attributes span {self.domain.size:.3g} cells, more than the 2^62 that can be numbered; "
                "measure margins of them"
            )
        cells: Codes = np.zeros(len(self), dtype=np.int64)
        for run, word in zip(words_of(self.domain), self.words, strict=True):
            cells *= prod(self.domain.shape[run.start : run.stop])
            cells += word
        order = np.argsort(cells, kind="stable") if self.steps else None
        cells = np.sort(cells) if order is None else cells[order]
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        counts = np.diff(starts, append=len(cells))
        sums = {name: _added(each[order], starts) for name, each in self.steps.items()}
        return Aggregate(cells[starts], counts, sums)


def _added(values: Whole, starts: Codes) -> Whole:
    return np.add.reduceat(values, starts) if len(starts) else np.zeros(0, dtype=np.int64)
