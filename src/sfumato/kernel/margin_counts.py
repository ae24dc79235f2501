"""Margins of the private counts: rows and sums along some attributes, whatever the values of the others.

A table of many attributes spans more cells than can be numbered. So every margin is counted from the rows, or from the
cells that hold some, and nothing is ever laid out but the margin itself. Rows are taken a block at a time, small enough
to stay in a processor's cache while all margins of a batch are counted in it.

Whole numbers are added up, exactly or modulo 2^64, so the order of rows leaves no trace. Which margins are counted
together, and which are kept for a second question, follows from the domain and from what was asked before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Whole
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.covering import covering
from sfumato.kernel.rows import Rows, Short, short
from sfumato.limits import MOST_DENSE

BLOCK = 2**16  # rows that are looked at together; more for a margin of more cells
MOST_AT_ONCE = 2**22  # numbers of margins that are counted in the same blocks
MOST_KEPT = 2**24  # numbers of margins that are kept for a second question; others are counted again
EXACT = 2**53  # below this, sums of whole numbers are exact in doubles


class MarginCounts:
    """The margins of one table. No repr: private counts must not reach a log or a traceback."""

    def __init__(self, domain: Domain, held: Aggregate | Rows) -> None:
        self._domain = domain
        self._held = held
        self._values: dict[str, NDArray[Any] | None] = {}
        self._kept: dict[tuple[str, tuple[str, ...]], Whole] = {}
        self._room = MOST_KEPT

    def domain_along(self, names: Sequence[str]) -> Domain:
        """The domain that some attributes span, in the order of the table's; refused if it is too large to hold."""
        if isinstance(names, str):
            raise QueryError(f"a margin takes a list of attributes; write [{names!r}]")
        domain = self._domain.along(names)
        if domain.size > MOST_DENSE:
            raise QueryError(
                f"the margin of {', '.join(domain.names)} has {domain.size:.3g} cells, and {MOST_DENSE:,} can be held; "
                "take fewer attributes"
            )
        return domain

    def along(self, names: Sequence[str]) -> tuple[Domain, Aggregate]:
        """A margin's domain, and what its cells hold."""
        domain = self.domain_along(names)
        ((_, counts),) = self.counts([domain])
        held = np.flatnonzero(counts)
        return domain, Aggregate(held, counts[held], _SumsInCells(self, domain, held))

    def counts(self, domains: Sequence[Domain]) -> Iterator[tuple[int, Whole]]:
        """The rows in every cell of margins: the place of each in the list, in any order, and its counts."""
        wanted: list[int] = []
        for place, domain in enumerate(domains):
            if ("count", domain.names) in self._kept:
                yield place, self._kept["count", domain.names]
            else:
                wanted.append(place)
        sets = [frozenset(domains[place].names) for place in wanted]
        sizes = {axis.name: axis.size for axis in self._domain}
        for batch in _batches((self._domain.along(union), places) for union, places in covering(sets, sizes)):
            unions = [union for union, _ in batch]
            for union, (_, places), counts in zip(unions, batch, self._counted("count", unions), strict=True):
                for place in (wanted[each] for each in places):
                    yield place, self._keep("count", domains[place], _down(counts, union, domains[place]))

    def sums(self, of: str, domain: Domain) -> Whole:
        """The sum of a measure's steps in every cell of a margin."""
        if (of, domain.names) in self._kept:
            return self._kept[of, domain.names]
        (sums,) = self._counted(of, [domain])
        return self._keep(of, domain, sums)

    def _keep(self, of: str, domain: Domain, numbers: Whole) -> Whole:
        numbers.setflags(write=False)
        if domain.size <= self._room and (of, domain.names) not in self._kept:
            self._kept[of, domain.names] = numbers
            self._room -= domain.size
        return numbers

    def _counted(self, of: str, domains: Sequence[Domain]) -> list[Whole]:
        """Rows, or sums of steps, in every cell of some margins, from one pass over what is held."""
        totals: list[Whole] = [np.zeros(domain.size, dtype=np.int64) for domain in domains]
        names = dict.fromkeys(name for domain in domains for name in domain.names)
        values = self._values_of(of)
        held = len(self._held) if isinstance(self._held, Rows) else len(self._held.cells)
        block = max([BLOCK, *(domain.size for domain in domains)])
        for start in range(0, held, block):
            these = slice(start, min(start + block, held))
            codes = {name: self._codes(name, these) for name in names}
            for domain, total in zip(domains, totals, strict=True):
                places = _places(domain, codes, these.stop - start)
                _add(total, places, None if values is None else values[these])
        return totals

    def _codes(self, name: str, these: slice) -> Short:
        if isinstance(self._held, Rows):
            return self._held.codes(name, these)
        return short(self._domain.codes_along(name, self._held.cells[these]), self._domain[name].size)

    def _values_of(self, of: str) -> NDArray[Any] | None:
        """What each row, or each cell that holds some, adds: doubles if these are exact; None if it is 1 for all."""
        if of not in self._values:
            if isinstance(self._held, Rows):
                values = None if of == "count" else self._held.steps[of]
            else:
                values = self._held.of(of)
            # Only how sums are worked out depends on this, not what comes of it.
            exact = values is not None and float(np.abs(values.astype(np.float64)).sum()) < EXACT
            self._values[of] = values.astype(np.float64) if values is not None and exact else values
        return self._values[of]


class _SumsInCells(Mapping[str, Whole]):
    """Sums of measures in some cells of a margin, worked out when they are asked for."""

    def __init__(self, margins: MarginCounts, domain: Domain, cells: Codes) -> None:
        self._margins, self._domain, self._cells = margins, domain, cells

    def __getitem__(self, name: str) -> Whole:
        return self._margins.sums(name, self._domain)[self._cells]

    def __iter__(self) -> Iterator[str]:
        held = self._margins._held
        return iter(held.steps if isinstance(held, Rows) else held.sums)

    def __len__(self) -> int:
        return len(list(iter(self)))


def _batches(unions: Iterator[tuple[Domain, list[int]]]) -> Iterator[list[tuple[Domain, list[int]]]]:
    """Margins that are counted in the same blocks: few enough to hold, a large one by itself."""
    batch: list[tuple[Domain, list[int]]] = []
    room = MOST_AT_ONCE
    for union, places in unions:
        alone = union.size > BLOCK
        if batch and (alone or union.size > room):
            yield batch
            batch, room = [], MOST_AT_ONCE
        batch.append((union, places))
        room = -1 if alone else room - union.size
    if batch:
        yield batch


def _places(domain: Domain, codes: Mapping[str, Short], rows: int) -> Short:
    """Where rows lie in a margin, from where they lie on its axes."""
    kind = np.dtype(np.uint16 if domain.size < 2**16 else np.uint32)
    if not domain.axes:
        return np.zeros(rows, dtype=kind)
    first, *others = domain
    places: Short = codes[first.name].astype(kind)
    for axis in others:
        places *= kind.type(axis.size)
        places += codes[axis.name]
    return places


def _add(total: Whole, places: Short, values: NDArray[Any] | None) -> None:
    """Add values to the total at each place, modulo 2^64 where it leaves 64 bits."""
    if values is None:
        total += np.bincount(places, minlength=len(total))
    elif values.dtype == np.float64:
        total += np.bincount(places, values, len(total)).astype(np.int64)
    else:
        np.add.at(total, places, values)


def _down(counts: Whole, union: Domain, domain: Domain) -> Whole:
    """The counts of a margin from those of a larger one."""
    away = tuple(place for place, axis in enumerate(union) if axis.name not in domain)
    return np.asarray(counts.reshape(union.shape).sum(axis=away), dtype=np.int64).reshape(-1)
