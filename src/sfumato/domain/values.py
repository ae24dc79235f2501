"""Sets of values of one attribute, and their cover of the cells of its axis."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from sfumato.arrays import Floats
from sfumato.effort import spend
from sfumato.frozen import dataclass

# A place between values: (v, 0) lies just before v and (v, 1) just after it, so open and closed ends need no flags.
Place = tuple[float, int]
START: Place = (-math.inf, 0)
END: Place = (math.inf, 1)
NO_VALUE: Place = (math.inf, 0)  # from here to the end: rows without a value, behind all that have one


@dataclass(frozen=True)
class ValueSet:
    """A set of values of one attribute: disjoint spans between places, in order.

    >>> young = ValueSet.below(18, inclusive=False)
    >>> young | ~young == ValueSet.everything()
    True
    """

    spans: tuple[tuple[Place, Place], ...]

    @classmethod
    def everything(cls) -> ValueSet:
        return cls(((START, END),))

    @classmethod
    def nothing(cls) -> ValueSet:
        return cls(())

    @classmethod
    def below(cls, value: float, *, inclusive: bool) -> ValueSet:
        return cls(((START, (value, int(inclusive))),))

    @classmethod
    def above(cls, value: float, *, inclusive: bool) -> ValueSet:
        return cls((((value, int(not inclusive)), END),))

    @classmethod
    def one_of(cls, values: Iterable[float]) -> ValueSet:
        return cls(tuple(((v, 0), (v, 1)) for v in sorted(set(values))))

    @classmethod
    def missing(cls) -> ValueSet:
        """Set that holds only the rows without a value.

        >>> ValueSet.missing() | ValueSet.present() == ValueSet.everything()
        True
        """
        return cls(((NO_VALUE, END),))

    @classmethod
    def present(cls) -> ValueSet:
        """Set of all values, without the rows that have none."""
        return cls(((START, NO_VALUE),))

    @property
    def holds_missing(self) -> bool:
        """Whether rows without a value belong to the set."""
        return bool(self.spans) and self.spans[-1][1] == END

    def __invert__(self) -> ValueSet:
        ends = [START, *(place for span in self.spans for place in span), END]
        return ValueSet(tuple((a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if a < b))

    def __and__(self, other: ValueSet) -> ValueSet:
        spend(len(self.spans) + len(other.spans), "a condition")
        both, mine, its = [], 0, 0
        while mine < len(self.spans) and its < len(other.spans):  # side by side: the lists of an IN can be long
            (a, b), (c, d) = self.spans[mine], other.spans[its]
            start, end = max(a, c), min(b, d)
            if start < end:
                both.append((start, end))
            mine, its = (mine + 1, its) if b <= d else (mine, its + 1)
        return ValueSet(tuple(both))

    def __or__(self, other: ValueSet) -> ValueSet:
        return ~(~self & ~other)

    def __bool__(self) -> bool:
        return bool(self.spans)


@dataclass(frozen=True)
class Cover:
    """The cover of an axis's cells by a set of values.

    share: the part of each cell that is covered if values are spread evenly inside a cell.
    sure: 1 where every value of the cell is covered, whatever its spread. possible: 1 where some value is.
    """

    share: Floats
    sure: Floats
    possible: Floats

    def with_cell(self, inside: float) -> Cover:
        """The cover with one more cell, which lies wholly inside (1) or outside (0)."""
        return Cover(*(np.append(part, inside) for part in (self.share, self.sure, self.possible)))

    @property
    def exact(self) -> bool:
        """Whether no cell is cut, so that the answer does not depend on the spread inside cells."""
        return bool(np.array_equal(self.sure, self.possible))
