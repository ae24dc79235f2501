"""Random numbers for rows that are drawn from a release.

Rows are made of what is published already, so whoever can foresee them learns nothing: here, and only here, a user may
give a seed. Noise is drawn elsewhere and has none.

What a content gives so that rows can be drawn from it: cells for rows, and its own answers to compare them with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis
from sfumato.frozen import dataclass
from sfumato.kernel.sampling.entropy import Entropy, SystemEntropy, TestingEntropy


class RandomNumbers:
    """Uniform numbers and orders, the same ones for the same seed.

    >>> RandomNumbers(7).uniform(2).tolist() == RandomNumbers(7).uniform(2).tolist()
    True
    """

    def __init__(self, seed: int | None = None) -> None:
        self._entropy: Entropy = SystemEntropy() if seed is None else TestingEntropy(seed)

    def uniform(self, count: int) -> Floats:
        """Numbers from 0 up to, not including, 1."""
        return np.asarray((self._entropy.words(count) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    def order(self, count: int) -> Codes:
        """The numbers 0, 1, ..., count - 1 in random order."""
        return np.argsort(self._entropy.words(count), kind="stable")


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows before they have values.

    codes: for every attribute, the cell along it that each row falls in. means: for every measure, the value that is
    expected of each row, within the measure's bounds; the values drawn spread around it. Where a measure can be
    missing, a missing one counts as its centre there, and under `missing_of` stands how likely that is.
    """

    codes: Mapping[str, Codes]
    means: Mapping[str, Floats]

    def __getitem__(self, order: Codes) -> Block:
        return Block(
            {name: codes[order] for name, codes in self.codes.items()},
            {name: means[order] for name, means in self.means.items()},
        )


@dataclass(frozen=True, eq=False)
class Grouping:
    """The cells along one attribute in groups of neighbours. starts: the first cell of each group, then the end."""

    name: str
    starts: Codes

    @classmethod
    def of(cls, axis: Axis, most: int) -> Grouping:
        """Every cell by itself, or `most` groups as equal as can be where there are more cells."""
        groups = min(axis.size, most)
        return cls(axis.name, np.arange(groups + 1, dtype=np.int64) * axis.size // groups)

    @property
    def size(self) -> int:
        return len(self.starts) - 1

    @property
    def widths(self) -> Codes:
        """How many cells each group has."""
        return np.diff(self.starts)

    def labels(self, codes: Codes) -> Codes:
        """The group of each code."""
        if self.size == self.starts[-1]:
            return codes
        return np.searchsorted(self.starts, codes, side="right") - 1

    def gather(self, values: Floats, place: int) -> Floats:
        """Numbers by cell, summed by group, along one axis of an array."""
        if self.size == self.starts[-1]:
            return values
        summed = np.add.reduceat(values, self.starts[:-1], axis=place)
        return np.asarray(summed, dtype=np.float64)


class RowModel(Protocol):
    """How rows fall into cells, as far as a release knows. Made once, drawn from block by block."""

    @property
    def total(self) -> float:
        """The release's own answer to COUNT(*), which may be negative."""

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        """A row for each place, in any order.

        places: ascending numbers from 0 up to 1, one for each row, spread over that span more evenly than chance
        would; a model that keeps cells in a line cuts them by these, another may take them as ordinary random numbers.
        """

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        """The release's own answers to COUNT(*) by one or two attributes, of any sign: an axis for each grouping."""


def gather_margin(table: Floats, groupings: Sequence[Grouping]) -> Floats:
    """A table with an axis for each grouping, summed by group.

    >>> gather_margin(np.arange(6.0), [Grouping("x", np.array([0, 2, 6]))]).tolist()
    [1.0, 14.0]
    """
    for place, grouping in enumerate(groupings):
        table = grouping.gather(table, place)
    return table


def volumes(groupings: Sequence[Grouping], sizes: Mapping[str, int]) -> Floats:
    """How many cells of the domain lie in each combination of groups; sizes: of all attributes."""
    found = np.ones((1,) * len(groupings))
    for place, grouping in enumerate(groupings):
        shape = [-1 if place == other else 1 for other in range(len(groupings))]
        found = found * grouping.widths.reshape(shape).astype(np.float64)
    named = {grouping.name for grouping in groupings}
    for name, size in sizes.items():
        found = found if name in named else found * float(size)
    return found
