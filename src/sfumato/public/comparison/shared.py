"""What two releases have in common: attributes of one name, and values that both list."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from sfumato.domain import Axis, Label
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.plain_text import printable

if TYPE_CHECKING:
    from sfumato.releases.release import Release

MOST_COMPARED = 100_000  # numbers of a comparison


@dataclass(frozen=True)
class SharedTable:
    """A table that both releases can be asked for. labels: of every attribute, the values that both have."""

    names: tuple[str, ...]
    labels: tuple[tuple[Label, ...], ...]

    @property
    def keys(self) -> list[tuple[Label, ...]]:
        """The cells that both have, in the order of the first release."""
        return list(product(*self.labels))

    @property
    def size(self) -> int:
        return prod(map(len, self.labels))


def shared_tables(first: Release, second: Release, by: Sequence[str]) -> tuple[list[SharedTable], list[str]]:
    """The tables to compare, and notes on what cannot be. by: one table of these; if empty, one of each attribute."""
    ours, theirs = ({axis.name: axis for axis in one.domain} for one in (first, second))
    common = [name for name in ours if name in theirs]
    if not common:
        raise QueryError(
            f"the two releases share no attribute: one has {_listed(ours)}, the other {_listed(theirs)}; compare "
            "releases whose schemas name the same things in the same way"
        )
    if len(set(by)) < len(by):
        raise QueryError("an attribute is named twice with --by; name each once")
    for name in by:
        if name not in common:
            raise QueryError(f"{name!r} is not in both releases; they share {_listed(common)}")
    tables, notes, alike = list[SharedTable](), list[str](), dict[str, tuple[Label, ...]]()
    for name in by or common:
        labels = _both(ours[name], theirs[name])
        if not labels and by:
            raise QueryError(f"the two releases cut {name!r} in different ways and share no value or bin of it")
        if not labels:
            notes.append(f"{printable(name)} is cut in different ways in the two releases and was not compared")
            continue
        alike[name] = labels
        left = [(axis.size - len(labels), which) for axis, which in ((ours[name], "first"), (theirs[name], "second"))]
        if odd := [f"{number:,} that only the {which} has" for number, which in left if number]:
            notes.append(f"of {printable(name)}, values that both have are compared, without {' and '.join(odd)}")
    if by:
        tables = [SharedTable(tuple(by), tuple(alike[name] for name in by))]
    else:
        tables = [SharedTable((name,), (labels,)) for name, labels in alike.items()]
    if not tables:
        raise QueryError("the two releases share attributes, but no value or bin of any of them; nothing to compare")
    if (number := sum(table.size for table in tables)) > MOST_COMPARED:
        raise QueryError(f"that is {number:,} cells to compare and {MOST_COMPARED:,} is the most; name fewer with --by")
    return tables, notes


def _both(ours: Axis, theirs: Axis) -> tuple[Label, ...]:
    """The labels of cells that mean the same in both: values by their names, bins by their ends."""
    if ours.ordered != theirs.ordered or (ours.ordered and ours.kind != theirs.kind):
        return ()
    others = set(theirs.labels())
    return tuple(label for label in ours.labels() if label in others)


def _listed(names: Sequence[str] | dict[str, Axis]) -> str:
    few = [repr(name) for name in names][:8]
    return ", ".join(few) + (", ..." if len(names) > 8 else "")
