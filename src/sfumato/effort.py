"""Limits on the work of a statement, counted in steps before the work is done.

Whatever is built from a text costs steps, and a text has a fixed number of them. A step is a value worked out, or as
much work besides; a million of them take about a second. Steps are counted, and no clock is read, so that a statement
is answered or refused everywhere alike. docs/sql.md has the limits as a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sfumato.errors import QueryError

MOST_CHARACTERS = 20_000  # of a statement
DEEPEST = 100  # parentheses within each other
MOST_LEVELS = 200  # of a syntax tree, in which a + b + c has two; not counted: AND and OR in a row
MOST_ITEMS = 500  # of a select list
MOST_RULES = 100  # of ORDER BY, of GROUP BY, of PARTITION BY
MOST_SETS = 64  # grouping sets
MOST_SELECTS = 64  # one after the other by UNION ALL
MOST_NODES = 10_000  # of a statement whose subqueries and aliases are written out
MOST_TEXT = 10_000  # characters of a text that a function makes
MOST_DIGITS = 38  # of a whole number that arithmetic makes
MOST_STEPS = 1_500_000  # to read a statement; as many again to work on the rows of its answer
STEPS_OF_A_ROW = 100  # more of them, for each row of an answer
OF_A_NODE = 50  # steps to look at, to copy or to write a node of a syntax tree


class TooMuchWork(QueryError):
    """A statement goes beyond one of these limits; no other way of reading it is tried."""


class _Steps:
    """Counter of the remaining steps, of `most` in all."""

    __slots__ = ("left", "most")

    def __init__(self, most: int) -> None:
        self.left = self.most = most


_STEPS: ContextVar[_Steps | None] = ContextVar("steps", default=None)


@contextmanager
def counted(most: int = MOST_STEPS) -> Iterator[None]:
    """Count the steps of a block of code; inside another count, that one continues.

    >>> with counted(10):
    ...     spend(11, "this")
    Traceback (most recent call last):
    ...
    sfumato.effort.TooMuchWork: this takes more than 10 steps to work out; write it shorter, or ask in parts
    """
    if _STEPS.get() is not None:
        yield
        return
    before = _STEPS.set(_Steps(most))
    try:
        yield
    finally:
        _STEPS.reset(before)


def spend(steps: int, what: str = "the query") -> None:
    """Spend steps before the work is done, or refuse if fewer are left.

    what: the work, as the message of a refusal names it.
    """
    found = _STEPS.get()
    if found is None:
        return
    found.left -= steps
    if found.left < 0:
        raise TooMuchWork(f"{what} takes more than {found.most:,} steps to work out; write it shorter, or ask in parts")


def at_most(count: int, most: int, what: str, remedy: str) -> None:
    """Refuse a number above its limit, naming both."""
    if count > most:
        shown = f"{count:,}" if count < 10**9 else "far more"
        raise TooMuchWork(f"{shown} {what}, and {most:,} is the most; {remedy}")


def text_of_at_most(length: int) -> None:
    """Refuse to make a text that is too long."""
    at_most(length, MOST_TEXT, "characters would be in one text", "put shorter texts together")
    spend(length >> 6)
