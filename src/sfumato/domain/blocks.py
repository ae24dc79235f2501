"""Blocks of neighbouring cells: products of runs along every axis."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Self

import numpy as np

from sfumato.domain.grid import Domain, Partition
from sfumato.frozen import dataclass

GOLDEN = 0.6180339887498949  # steps of this size fall evenly into every interval


@dataclass(frozen=True)
class Blocks:
    """Products of runs of cells along every axis. starts: the first cells of the runs, axis by axis."""

    domain: Domain
    starts: tuple[tuple[int, ...], ...]

    @classmethod
    def at_most(cls, domain: Domain, number: int, whole: str | None = None) -> Self:
        """At most `number` blocks of runs of equal length; the longest axis is coarsened first.

        whole: an axis that stays as it is, so that there may be more blocks than wanted where it is long.
        """
        runs = list(domain.shape)
        kept = None if whole is None else domain.place(whole)
        while prod(runs) > number and any(run > 1 for place, run in enumerate(runs) if place != kept):
            longest = max((place for place in range(len(runs)) if place != kept), key=lambda place: runs[place])
            runs[longest] = (runs[longest] + 1) // 2
        sizes = zip(runs, domain.shape, strict=True)
        return cls(domain, tuple(tuple(k * size // run for k in range(run)) for run, size in sizes))

    def uneven(self, number: int) -> Self:
        """At most `number` other blocks, of uneven length, with limits off the even grid by golden-ratio steps."""
        coarse = self.at_most(self.domain, number)
        starts = []
        for theirs, size in zip(coarse.starts, self.domain.shape, strict=True):
            runs = len(theirs)
            if runs == size:
                starts.append(theirs)
                continue
            moved = (int((k + k * GOLDEN % 1.0 - 0.5) * size / runs) for k in range(1, runs))
            starts.append(tuple(sorted({0, *(min(max(start, 1), size - 1) for start in moved)})))
        return type(self)(self.domain, tuple(starts))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(each) for each in self.starts)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @cached_property
    def partition(self) -> Partition:
        """The block of every cell."""
        label = np.zeros(self.domain.shape, dtype=np.int64)
        for place, (starts, size) in enumerate(zip(self.starts, self.domain.shape, strict=True)):
            along = np.searchsorted(starts, np.arange(size), side="right") - 1
            label = label * len(starts) + along.reshape([-1 if p == place else 1 for p in range(len(self.starts))])
        return Partition(self.domain, label.reshape(-1))
