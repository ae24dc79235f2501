"""Cursors of SQL (DECLARE, FETCH, MOVE, CLOSE): an answer that is kept, and a position in it.

Positions are PostgreSQL's: 0 before the first row, then the number of the row fetched last, and one more than there are
rows behind the last.
"""

from __future__ import annotations

from dataclasses import replace
from struct import unpack_from

from sfumato.serve.pgwire.asking import Answer, Asked
from sfumato.serve.pgwire.commands import Command


class Cursor:
    """Cursor on an answer. asked: its request, to be asked again for other formats. held: outlives its transaction."""

    def __init__(self, asked: Asked, found: Answer, *, held: bool) -> None:
        self.asked, self.found, self.held = asked, found, held
        self.at = 0
        self._told = False  # the notes on the answer
        self._ends: list[int] | None = None

    def take(self, asked: Asked, found: Answer) -> None:
        """Go on with the same answer in other formats."""
        self.asked, self.found, self._ends = asked, found, None

    def fetch(self, command: Command) -> Answer:
        """Move, and cut out the rows on the way: an answer to FETCH; to MOVE, one without its rows."""
        numbers = self._moved(command.way, command.step)
        ends = self._row_ends()
        rows = b"".join(self.found.rows[ends[number - 1] : ends[number]] for number in numbers)
        notes = () if self._told else self.found.notes
        self._told = True
        part = replace(self.found, count=len(numbers), notes=notes, rows=rows, tag=command.tag)
        return part if command.tag == "FETCH" else replace(part, rows=b"")

    def columns(self, command: Command) -> Answer:
        """Describe what a FETCH gives, without moving."""
        return replace(self.found, count=0, notes=(), rows=b"", tag=command.tag)

    def _moved(self, way: str, count: int | None) -> range:
        """Set the position; numbers of the rows that are passed on the way to it."""
        last, here = self.found.count, self.at
        if way in ("absolute", "relative"):
            step = count or 0
            goal = here + step if way == "relative" else step if step >= 0 else last + 1 + step
            self.at = min(max(goal, 0), last + 1)
            return range(self.at, self.at + 1) if 1 <= self.at <= last and goal == self.at else range(0)
        if count == 0:
            return range(here, here + 1) if 1 <= here <= last else range(0)
        forward = (way == "forward") == (count is None or count > 0)
        step = last + 1 if count is None else min(abs(count), last + 1)
        self.at = min(here + step, last + 1) if forward else max(here - step, 0)
        return range(here + 1, min(here + step, last) + 1) if forward else range(here - 1, max(here - step, 1) - 1, -1)

    def _row_ends(self) -> list[int]:
        """Offset behind each row, from 0 for the first row's beginning."""
        if self._ends is None:
            self._ends = [0]
            while self._ends[-1] < len(self.found.rows):
                (length,) = unpack_from("!i", self.found.rows, self._ends[-1] + 1)
                self._ends.append(self._ends[-1] + 1 + length)
        return self._ends
