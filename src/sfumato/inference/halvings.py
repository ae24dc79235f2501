"""Stretches of cells halved again and again, and the contrasts of their halves: at right angles, each of length 1."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass

GENERATIONS = 4  # halvings of one depth form a family if they lie in the same part so many above; by judgement


@dataclass(frozen=True, eq=False)
class Halvings:
    """All halvings of stretches of cells, down to single cells, depth by depth.

    start, middle, stop: where the halves lie. family: of each halving, numbered from 0; a family is of one depth and
    has 16 members at most. above: for each family, the one its parents belong to, -1 for whole stretches. depth: of
    each family.
    """

    start: Codes
    middle: Codes
    stop: Codes
    family: Codes
    above: Codes
    depth: Codes

    @classmethod
    def of(cls, sizes: Codes) -> Halvings:
        """The halvings of stretches that lie one after another; an odd cell goes to the first half.

        >>> Halvings.of(np.array([3, 1, 2])).middle.tolist()
        [2, 5, 1]
        """
        stop = np.cumsum(sizes, dtype=np.int64)
        start = stop - sizes
        lineage = [start] * GENERATIONS  # where the parts around each part begin, from its parent on
        parents = np.full(len(start), -1)
        nothing = np.zeros(0, dtype=np.int64)
        halves, families = [(nothing, nothing, nothing, nothing)], [(nothing, nothing)]
        found = 0
        for depth in range(64):
            large = stop - start > 1
            if not large.any():
                break
            start, stop, parents = start[large], stop[large], parents[large]
            lineage = [one[large] for one in lineage]
            middle = start + (stop - start + 1) // 2
            _, example, family = np.unique(lineage[-1], return_index=True, return_inverse=True)
            halves.append((start, middle, stop, found + family))
            families.append((parents[example], np.full(len(example), depth)))
            lineage = [np.repeat(one, 2) for one in (start, *lineage[:-1])]
            parents = np.repeat(found + family, 2)
            start, stop = (np.stack(ends, axis=1).reshape(-1) for ends in ((start, middle), (middle, stop)))
            found += len(example)
        return cls(*(np.concatenate(part) for part in (*zip(*halves, strict=True), *zip(*families, strict=True))))

    @cached_property
    def _heights(self) -> tuple[Floats, Floats]:
        """What a contrast of length 1 is in either half."""
        first, second = self.middle - self.start, self.stop - self.middle
        length = np.sqrt(1.0 / first + 1.0 / second)
        return 1.0 / (first * length), 1.0 / (second * length)

    def in_halves(self, which: Codes) -> tuple[Floats, Floats]:
        """The sizes of some contrasts in either half, as columns."""
        here, there = self._heights
        return here[which, None], there[which, None]

    def contrasts(self, values: Floats) -> Floats:
        """The contrast of every two halves; `values` is (cells, sums)."""
        sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
        here, there = self._heights
        first = here[:, None] * (sums[self.middle] - sums[self.start])
        return np.asarray(first - there[:, None] * (sums[self.stop] - sums[self.middle]), dtype=np.float64)

    def spread_out(self, contrasts: Floats, cells: int) -> Floats:
        """The cells that have these contrasts, in stretches that sum to zero."""
        here, there = self._heights
        steps = np.zeros((cells + 1, contrasts.shape[1]))
        np.add.at(steps, self.start, here[:, None] * contrasts)
        np.add.at(steps, self.middle, -(here + there)[:, None] * contrasts)
        np.add.at(steps, self.stop, there[:, None] * contrasts)
        return np.asarray(np.cumsum(steps, axis=0)[:-1], dtype=np.float64)

    @cached_property
    def heights(self) -> Codes:
        """How often each halved part can be halved until cells are left."""
        return np.asarray(np.ceil(np.log2(self.stop - self.start)), dtype=np.int64)
