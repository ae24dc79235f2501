"""How far tables lie from what was joined of smaller ones, and how far blocks of their cells are off.

The deviation of a cell is taken to grow with the root of the rows that are expected in it: variance = spread * rows.
Where a release measured how far a set of attributes is off, its own spread is known; else that of sets of its size.
Errors of neighbouring cells are alike, so that blocks of cells, halves of every axis down to sixteenths, have spreads
of their own, as variance for each unit of a block's size (scales.py: `sizes_of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from sfumato.frozen import dataclass
from sfumato.inference.margins.table import Places


@dataclass(frozen=True)
class Scaled:
    """The spread of errors of blocks, halves first, then quarters and finer: what noise makes, and what was assumed.

    stripes: for each attribute of a pair, the spread beyond that of cells of a value of it with halves of the other.
    """

    noise: tuple[float, ...]
    model: tuple[float, ...]
    stripes: tuple[float, ...] = ()


@dataclass(frozen=True)
class Spreads:
    """by_order: the spread of sets of one, two, three, ... attributes; more than are listed have the last.

    single: of those sets whose own spread is known. blocks_by_order, blocks: the same for blocks of cells. contrasts:
    of the halves of three attributes, as they were estimated, where what was joined of smaller sets has another.
    """

    by_order: tuple[float, ...] = ()
    single: Mapping[Places, float] = field(default_factory=dict)
    blocks_by_order: Mapping[int, Scaled] = field(default_factory=dict)
    blocks: Mapping[Places, Scaled] = field(default_factory=dict)
    contrasts: Mapping[Places, float] = field(default_factory=dict)

    def of(self, places: Places) -> float:
        """The spread of a set of attributes.

        >>> Spreads((0.0, 1.0, 2.0), {(0, 1): 5.0}).of((0, 1)), Spreads((0.0, 1.0, 2.0)).of((1, 2, 3, 4))
        (5.0, 2.0)
        """
        if places in self.single:
            return self.single[places]
        return self.by_order[min(len(places), len(self.by_order)) - 1] if self.by_order and places else 0.0

    def of_blocks(self, places: Places) -> Scaled | None:
        """The spreads of blocks of a set of attributes, if any are known."""
        return self.blocks.get(places, self.blocks_by_order.get(len(places)))
