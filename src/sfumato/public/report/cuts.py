"""An axis cut into few enough groups of cells to be drawn: neighbours along an order, the largest values of others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis, Label
from sfumato.domain.predicates import Predicate
from sfumato.domain.values import ValueSet
from sfumato.frozen import dataclass

OTHERS = "all others"


@dataclass(frozen=True, eq=False)
class Cut:
    """Groups of an axis's cells, in order. groups: the cells of each. labels: what each is called."""

    axis: Axis
    groups: tuple[Codes, ...]
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.groups)

    @property
    def whole(self) -> bool:
        """Whether every group is one cell."""
        return self.size == self.axis.size

    @property
    def kinds(self) -> Codes:
        """The group of every cell."""
        found = np.zeros(self.axis.size, dtype=np.int64)
        for place, cells in enumerate(self.groups):
            found[cells] = place
        return found

    @property
    def as_asked(self) -> Codes:
        """The same, numbered in the order in which groups first appear along the axis, as contents take them."""
        _, first, kind = np.unique(self.kinds, return_index=True, return_inverse=True)
        place = np.empty(len(first), dtype=np.int64)
        place[np.argsort(first)] = np.arange(len(first))
        return place[kind.reshape(-1)]

    def where(self, place: int) -> Predicate:
        """The rows of one group."""
        sets = [self.axis.values_in(int(cell)) for cell in self.groups[place]]
        return Predicate.where(self.axis.name, reduce(or_, _merged(sets)))


def cut(axis: Axis, most: int, sizes: Floats | None = None) -> Cut:
    """At most so many groups. sizes: of the cells, by which values without an order are kept or put together."""
    cells = np.arange(axis.size)
    if axis.size <= most:
        return Cut(axis, tuple(cells[place : place + 1] for place in cells), tuple(map(shown, axis.labels())))
    if axis.values and not axis.splits:
        order = cells if sizes is None else np.argsort(-sizes, kind="stable")
        kept, rest = np.sort(order[: most - 1]), np.sort(order[most - 1 :])
        groups = (*(kept[place : place + 1] for place in range(len(kept))), rest)
        return Cut(axis, groups, (*(shown(axis.label(int(cell))) for cell in kept), OTHERS))
    wide = -(-axis.places // (most - axis.missing))
    groups = tuple(cells[start : min(start + wide, axis.places)] for start in range(0, axis.places, wide))
    labels = tuple(span(axis, int(group[0]), int(group[-1])) for group in groups)
    if axis.missing:
        groups, labels = (*groups, cells[-1:]), (*labels, shown(None))
    return Cut(axis, groups, labels)


def shown(label: Label) -> str:
    """A label as a reader meets it."""
    if label is None:
        return "no value"
    return {True: "true", False: "false"}[label] if isinstance(label, bool) else str(label)


def span(axis: Axis, first: int, last: int) -> str:
    """What cells from one to another are called."""
    if axis.kind == "number":
        return f"{float(axis.edges[first]):,.6g} to {float(axis.edges[last + 1]):,.6g}"
    start, end = (shown(axis.label(cell)) for cell in (first, last))
    if first == last:
        return start
    return f"{start.split(' to ')[0]} to {end.split(' to ')[-1]}"


def _merged(sets: Sequence[ValueSet]) -> list[ValueSet]:
    """Halves put together again and again: a long run of neighbours stays one span on the way."""
    while len(sets) > 1:
        pairs = [sets[place : place + 2] for place in range(0, len(sets), 2)]
        sets = [reduce(or_, pair) for pair in pairs]
    return list(sets)
