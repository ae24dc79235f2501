"""Limits on the work of a statement, counted in steps before the work is done.

Whatever is built from a text costs steps, and a text has a fixed number of them. A step is a value worked out, or as
much work besides; a million of them take about a second. Steps are counted, and no clock is read, so that a statement
is answered or refused everywhere alike. docs/sql.md has the limits as a table (`law`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from sfumato.errors import QueryError

MOST_CHARACTERS = 20_000  # of a statement
DEEPEST = 100  # parentheses within each other; the parser needs about ten calls for each
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

LAW: tuple[tuple[str, str, str], ...] = (
    ("a statement", "linear", f"{MOST_CHARACTERS:,} characters"),
    ("parentheses within each other, also of functions and subqueries", "linear", f"{DEEPEST} deep"),
    ("`NOT`, `-`, `::`, `[...]` and operators other than `AND` and `OR` in a row", "linear", f"{MOST_LEVELS} levels"),
    ("the select list, with `*` written out", "linear", f"{MOST_ITEMS} columns"),
    ("`ORDER BY`, `GROUP BY`, `PARTITION BY`", "linear", f"{MOST_RULES} keys each"),
    ("`ROLLUP`, `CUBE`, `GROUPING SETS` and their products", "counted by arithmetic", f"{MOST_SETS} sets"),
    ("`UNION ALL`, also by `WITH` and subqueries", "doubles with each level", f"{MOST_SELECTS} `SELECT`s"),
    (
        "subqueries, `WITH` and aliases written into the `SELECT` around them",
        "doubles with each level",
        f"{MOST_NODES:,} names, constants and operators in all",
    ),
    ("`LIKE`, `ILIKE`", "length of the text times that of the pattern, 512 places of which are one step", "steps"),
    ("a text that `\\|\\|`, `CONCAT` and the like make", "doubles with each level", f"{MOST_TEXT:,} characters"),
    ("a whole number that arithmetic makes", "doubles with each level", f"{MOST_DIGITS} digits"),
    ("conditions with `OR` and `NOT` across attributes", "at worst the product of both sides", "1,000 boxes"),
    (
        "an expression of attributes",
        "its length times the values of its attributes, or the pieces it makes of a real-valued one",
        "steps",
    ),
    ("`HAVING`, `CASE`, `IN`, ranks and order on the rows of an answer", "their length times the rows", "steps"),
    (
        "steps",
        "counted, not timed",
        f"{MOST_STEPS:,} to read a statement, as many and {STEPS_OF_A_ROW} for each row to work on its rows",
    ),
)


def law() -> str:
    """The limits as a table in Markdown: construct, how its cost grows, where it is refused."""
    head = ["| construct | grows | at most |", "|---|---|---|"]
    return "\n".join([*head, *(f"| {' | '.join(row)} |" for row in LAW)])


class TooMuchWork(QueryError):
    """A statement goes beyond one of these limits; no other way of reading it is tried."""


class _Steps:
    """Counter of the remaining steps."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


_STEPS: ContextVar[_Steps | None] = ContextVar("steps", default=None)


@contextmanager
def counted(most: int = MOST_STEPS) -> Iterator[None]:
    """Count the steps of a block of code; inside another count, that one continues.

    >>> with counted(10):
    ...     spend(11, "this")
    Traceback (most recent call last):
    ...
    sfumato.effort.TooMuchWork: this takes more than 1,500,000 steps to work out; write it shorter, or ask in parts
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

    what: is worked out, for the message.
    """
    found = _STEPS.get()
    if found is None:
        return
    found.left -= steps
    if found.left < 0:
        raise TooMuchWork(f"{what} takes more than {MOST_STEPS:,} steps to work out; write it shorter, or ask in parts")


def at_most(count: int, most: int, what: str, remedy: str) -> None:
    """Refuse a number above its limit, naming both."""
    if count > most:
        shown = f"{count:,}" if count < 10**9 else "far more"
        raise TooMuchWork(f"{shown} {what}, and {most:,} is the most; {remedy}")


def text_of_at_most(length: int) -> None:
    """Refuse to make a text that is too long."""
    at_most(length, MOST_TEXT, "characters would be in one text", "put shorter texts together")
    spend(length >> 6)
