"""An expression as plain values: constants, references to places of a row, and calls of named functions.

The same tree is evaluated twice: on the public values of attributes, where it says which cells belong together, and on
the rows of an answer, whose numbers have intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from datetime import date
from functools import cached_property
from typing import Any

from sfumato.frozen import dataclass

Value = str | int | float | bool | date | None


@dataclass(frozen=True)
class Const:
    """Constant."""

    value: Value


@dataclass(frozen=True)
class Ref:
    """Reference to a column of the row, by its index."""

    place: int


@dataclass(frozen=True)
class Lookup:
    """Table look-up of the value in one column of the row, by the column's index."""

    place: int
    table: tuple[tuple[Value, Value], ...]

    @cached_property
    def found(self) -> dict[Value, Value]:
        return dict(self.table)


@dataclass(frozen=True)
class Call:
    """Call of an SQL function, by name, with expressions as arguments."""

    name: str
    args: tuple[Tree, ...]

    @cached_property
    def places(self) -> frozenset[int]:
        """Indices of the columns that it refers to."""
        return frozenset(place for arg in self.args for place in places(arg))

    @cached_property
    def size(self) -> int:
        """Number of evaluations per row."""
        return 1 + sum(size(arg) for arg in self.args)


Tree = Const | Ref | Lookup | Call

ERRORS = ("stderr", "low", "high")  # of a number n, called n_stderr, n_low and n_high
ERROR = "error"  # the function that gives one of them, as in error:low


def error_named(name: str, known: Container[str]) -> tuple[str, str] | None:
    """Parse a name such as n_low into the number n and its error "low"; None for any other. known: numbers, lowercase.

    >>> error_named("n_low", {"n"}), error_named("n_low", {"n", "n_low"}), error_named("low", {"n"})
    (('n', 'low'), None, None)
    """
    base, _, kind = name.lower().rpartition("_")
    return (base, kind) if kind in ERRORS and base in known and name.lower() not in known else None


def is_error(tree: Tree) -> bool:
    """Whether an expression is the standard error or an interval end of a number."""
    return isinstance(tree, Call) and tree.name.partition(":")[0] == ERROR


def evaluate(tree: Tree, row: Sequence[Any], call: Callable[[str, list[Any]], Any]) -> Any:
    """Evaluate an expression on a row; call: evaluates a function, by name."""
    if isinstance(tree, Const):
        return tree.value
    if isinstance(tree, Ref):
        return row[tree.place]
    if isinstance(tree, Lookup):
        return tree.found.get(row[tree.place])
    return call(tree.name, [evaluate(arg, row, call) for arg in tree.args])


def relocated(tree: Tree, where: Callable[[int], int]) -> Tree:
    """Expression with its column indices mapped."""
    if isinstance(tree, Call):
        return Call(tree.name, tuple(relocated(arg, where) for arg in tree.args))
    return tree if isinstance(tree, Const) else replace(tree, place=where(tree.place))


def places(tree: Tree) -> frozenset[int]:
    """Indices of the columns that an expression refers to."""
    if isinstance(tree, Call):
        return tree.places
    return frozenset() if isinstance(tree, Const) else frozenset({tree.place})


def size(tree: Tree) -> int:
    """Number of evaluations of an expression per row."""
    return tree.size if isinstance(tree, Call) else 1


def calls(tree: Tree) -> Iterator[Call]:
    """All calls in an expression, outermost first."""
    waiting = [tree]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Call):
            yield found
            waiting += reversed(found.args)
