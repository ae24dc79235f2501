"""What every piece of a line has borne, kept by stretches of pieces: the rule of `charge.py`, for very many cells."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction

from sfumato.errors import PrivacyError


class StretchCharge:
    """limit: what one piece may bear. Lines are numbered from 0, and so are the pieces of each."""

    def __init__(self, limit: Fraction, lines: int, length: int) -> None:
        self.limit = limit
        self.length = length
        self._starts = [[0] for _ in range(lines)]  # of stretches whose pieces have borne the same
        self._loads = [[Fraction(0)] for _ in range(lines)]

    @property
    def fullest(self) -> Fraction:
        """The load of the fullest piece."""
        return max(max(loads) for loads in self._loads)

    def borne(self, line: int, piece: int) -> Fraction:
        """What a piece has borne so far."""
        return self._loads[line][bisect_left(self._starts[line], piece + 1) - 1]

    def admit(self, line: int, first: int, end: int, load: Fraction) -> None:
        """Add a load to the pieces from `first` up to `end`, or refuse and change nothing if one would bear more."""
        if load < 0 or not 0 <= first < end <= self.length:
            raise PrivacyError("a load is negative, or on no piece of the line; the charge only ever grows")
        starts, loads = list(self._starts[line]), list(self._loads[line])
        for mark in (first, end):
            place = bisect_left(starts, mark)
            if mark < self.length and (place == len(starts) or starts[place] != mark):
                starts.insert(place, mark)
                loads.insert(place, loads[place - 1])
        loads = [borne + load if first <= start < end else borne for start, borne in zip(starts, loads, strict=True)]
        if max(loads) > self.limit:
            raise PrivacyError(
                f"this would bring a piece of a line to {max(loads)} of a budget of {self.limit} per row; ask for less"
            )
        self._starts[line], self._loads[line] = starts, loads
