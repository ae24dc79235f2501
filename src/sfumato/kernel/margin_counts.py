"""Margins of the private counts: rows and sums along some attributes, whatever the values of the others.

A table of many attributes spans more cells than can be numbered, but its rows lie in no more cells than there are rows.
So every margin is counted from the cells that hold rows, and nothing is ever laid out but the margin itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Whole
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.kernel.aggregate import Aggregate
from sfumato.limits import MOST_DENSE

MOST_KEPT = 2**24  # numbers of margins that are kept for a second question; others are counted again
EXACT = 2**53  # below this, sums of whole numbers are exact in doubles


class MarginCounts:
    """The margins of one aggregate. No repr: private counts must not reach a log or a traceback."""

    def __init__(self, domain: Domain, aggregate: Aggregate) -> None:
        self._domain = domain
        self._aggregate = aggregate
        self._codes: dict[str, NDArray[np.uint32]] = {}
        self._kept: dict[tuple[str, ...], Aggregate] = {}
        self._room = MOST_KEPT

    def along(self, names: Sequence[str]) -> tuple[Domain, Aggregate]:
        """The domain that some attributes span, in the order of the table's, and what its cells hold."""
        domain = self._domain.along(names)
        if domain.size > MOST_DENSE:
            raise QueryError(
                f"the margin of {', '.join(domain.names)} has {domain.size:.3g} cells, and {MOST_DENSE:,} can be held; "
                "take fewer attributes"
            )
        found = self._kept.get(domain.names)
        if found is None:
            found = self._counted(domain)
            if domain.size <= self._room:
                self._kept[domain.names] = found
                self._room -= domain.size
        return domain, found

    def _counted(self, domain: Domain) -> Aggregate:
        places: Codes = np.zeros(len(self._aggregate.counts), dtype=np.int64)
        for axis in domain:
            places *= axis.size
            places += self._along(axis.name)
        counts = _sums(places, self._aggregate.counts, domain.size)
        held = np.flatnonzero(counts)
        sums = {name: _sums(places, each, domain.size)[held] for name, each in self._aggregate.sums.items()}
        return Aggregate(held, counts[held], sums)

    def _along(self, name: str) -> NDArray[np.uint32]:
        """Where every cell that holds rows lies on an axis."""
        if name not in self._codes:
            words = (self._aggregate.cells, *self._aggregate.further)
            self._codes[name] = self._domain.codes_along(name, *words).astype(np.uint32)
        return self._codes[name]


def _sums(places: Codes, values: Whole, size: int) -> Whole:
    """The sum of the values at each place, modulo 2^64 where it leaves 64 bits."""
    if (values == 1).all():
        return np.asarray(np.bincount(places, minlength=size), dtype=np.int64)
    if float(np.abs(values.astype(np.float64)).sum()) < EXACT:  # only how it is worked out depends on this
        return np.bincount(places, values, size).astype(np.int64)
    total: Whole = np.zeros(size, dtype=np.int64)
    np.add.at(total, places, values)
    return total
