"""The cells that axes span together, and groups of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

import numpy as np

from sfumato.arrays import Codes
from sfumato.domain.axes import Axis
from sfumato.errors import QueryError, SchemaError
from sfumato.frozen import dataclass

LARGEST_NUMBER = 2**62  # of cells that can be numbered: a number must fit a signed 64-bit integer in every engine
MOST_VALUES = 2**25  # of all axes together, each of which is laid out
MOST_CELLS = 10**300  # which doubles can still express, if no computer could visit them


@dataclass(frozen=True)
class Domain:
    """The axes of a table and the cells they span, numbered row by row: the last axis runs fastest.

    Many axes span more cells than 64 bits can number (`LARGEST_NUMBER`). Such a domain is looked at along some of them.
    """

    axes: tuple[Axis, ...]
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", {axis.name: place for place, axis in enumerate(self.axes)})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __iter__(self) -> Iterator[Axis]:
        return iter(self.axes)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> Axis:
        return self.axes[self.place(name)]

    def place(self, name: str) -> int:
        """Where an attribute stands among the axes."""
        try:
            return self._places[name]
        except KeyError:
            raise QueryError(f"no attribute {name!r}; there are {', '.join(self.names)}") from None

    def along(self, names: Iterable[str]) -> Domain:
        """The domain that some of the attributes span, in the order of this one."""
        return Domain(tuple(self.axes[place] for place in sorted({self.place(name) for name in names})))

    def codes_along(self, name: str, cells: Codes) -> Codes:
        """The cell number along one axis, for flat cell numbers."""
        place = self.place(name)
        return np.asarray(cells // math.prod(self.shape[place + 1 :]) % self.shape[place], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells gathered into numbered, disjoint groups; a cell labelled -1 belongs to none.

    >>> Partition(Domain((Axis("age", "integer", np.arange(5)),)), np.array([0, 0, 1, -1])).size
    2
    """

    domain: Domain
    labels: Codes
    size: int = field(init=False)

    def __post_init__(self) -> None:
        labels = np.array(self.labels, dtype=np.int64).reshape(-1)
        if len(labels) != self.domain.size:
            raise QueryError(f"a partition needs a label for each of the {self.domain.size} cells, got {len(labels)}")
        if labels.size and labels.min() < -1:
            raise QueryError("a partition's labels are 0, 1, 2, ..., or -1 for cells that are left out")
        labels.setflags(write=False)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "size", int(labels.max(initial=-1)) + 1)

    @classmethod
    def by(cls, domain: Domain, names: Sequence[str]) -> Partition:
        """One group for each combination of values of some attributes."""
        label = np.zeros(domain.size, dtype=np.int64)
        cells = np.arange(domain.size, dtype=np.int64)
        for name in names:
            label = label * domain[name].size + domain.codes_along(name, cells)
        return cls(domain, label)


def refuse_too_many_values(sizes: Sequence[int]) -> None:
    """Refuse axes that are too long to lay out, or too many; a schema asks before it lays out any of them."""
    if (values := sum(sizes)) > MOST_VALUES:
        raise SchemaError(
            f"the attributes have {values:,} cells along their axes, and {MOST_VALUES:,} in all is the most; "
            "use wider bins"
        )
    if (cells := math.prod(sizes)) > MOST_CELLS:
        raise SchemaError(
            f"the attributes span about 10^{math.log10(cells):.0f} cells, and 10^{math.log10(MOST_CELLS):.0f} is the "
            "most; publish fewer of them at a time"
        )
