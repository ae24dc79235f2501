"""Boxes of cells: their sums, all at once from cumulative sums, and the same boxes in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from sfumato.domain import Axis
from sfumato.schema import Schema


@dataclass(frozen=True, eq=False)
class Boxes:
    """Row i holds the cells from lows[i] to highs[i], both ends included; a column for each attribute."""

    lows: np.ndarray
    highs: np.ndarray

    @classmethod
    def drawn(cls, schema: Schema, number: int, seed: int) -> Boxes:
        """Ranges of ordered attributes and values of others, of two attributes: as in the default workload.

        A mechanism that makes itself fit for a workload is then asked what it was told.
        """
        stream, axes = np.random.default_rng(seed), list(schema.domain)
        restricted = stream.permuted(np.tile(np.arange(len(axes)), (number, 1)), axis=1) < 2
        lows, highs = [], []
        for place, axis in enumerate(axes):
            ends = stream.integers(0, axis.size, (2, number))
            ends = np.sort(ends, axis=0) if axis.ordered else ends[[0, 0]]
            ends = np.where(restricted[:, place], ends, [[0], [axis.size - 1]])
            lows.append(ends[0])
            highs.append(ends[1])
        return cls(np.column_stack(lows), np.column_stack(highs))

    @classmethod
    def single(cls, schema: Schema, cells: np.ndarray) -> Boxes:
        """Boxes of one cell each."""
        codes = np.column_stack(np.unravel_index(cells, schema.domain.shape))
        return cls(codes, codes)

    @classmethod
    def everything(cls, schema: Schema) -> Boxes:
        """The one box that holds all cells."""
        shape = np.array([schema.domain.shape])
        return cls(0 * shape, shape - 1)

    def __len__(self) -> int:
        return len(self.lows)

    def some(self, number: int) -> Boxes:
        """That many of them, evenly chosen."""
        chosen = np.unique(np.linspace(0, len(self) - 1, number).astype(np.int64))
        return Boxes(self.lows[chosen], self.highs[chosen])

    def sums(self, table: np.ndarray) -> np.ndarray:
        """The sum of a table over every box: signed corners of its cumulative sums."""
        running = np.pad(table, [(1, 0)] * table.ndim)
        for axis in range(table.ndim):
            running = np.cumsum(running, axis=axis)
        found = np.zeros(len(self))
        for corner in product((False, True), repeat=table.ndim):
            ends = np.where(corner, self.highs + 1, self.lows)
            found += (-1) ** (table.ndim - sum(corner)) * running[tuple(ends.T)]
        return found

    def sql(self, schema: Schema) -> str:
        """One SELECT with a count for each box; attributes are integers or categories."""
        counts = [
            f"COUNT(*) FILTER (WHERE {conditions}) AS q{place}" if conditions else f"COUNT(*) AS q{place}"
            for place, conditions in enumerate(self._conditions(schema))
        ]
        return f"SELECT {', '.join(counts)} FROM {schema.dataset}"

    def _conditions(self, schema: Schema) -> list[str]:
        axes = list(schema.domain)
        return [
            " AND ".join(
                _condition(axis, int(low), int(high))
                for axis, low, high in zip(axes, lows, highs, strict=True)
                if high - low + 1 < axis.size
            )
            for lows, highs in zip(self.lows, self.highs, strict=True)
        ]


def _condition(axis: Axis, low: int, high: int) -> str:
    if axis.ordered:
        return f"{axis.name} BETWEEN {axis.edges[low]:.0f} AND {axis.edges[high]:.0f}"
    chosen = ", ".join(f"'{value}'" for value in axis.values[low : high + 1])
    return f"{axis.name} IN ({chosen})"
