"""Private counts of rows and sums of measures: by cell, row by row, and by margin. They never leave the kernel.

`Aggregate` holds the cells that contain rows. `Rows` holds the rows one by one, for tables with too many cells to lay
out: nearly every row then has a cell of its own, so that gathering rows by cell would take longer than reading them and
save little. A row's *words* number its cell along runs of neighbouring attributes: the cells of 100 attributes have no
number that fits in 64 bits, but each run of attributes has a short one.

`MarginCounts` counts margins from the rows, or from the cells that hold some, in blocks that fit into a processor's
cache. Whole numbers are added exactly or modulo 2^64, so the order of rows does not matter; which margins are counted
together and kept follows from the domain and from earlier queries alone (docs/privacy.md, section 9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import MOST_DENSE, Codes, Whole
from sfumato.domain import LARGEST_NUMBER, Domain
from sfumato.domain.grid import covering
from sfumato.errors import QueryError
from sfumato.frozen import dataclass


@dataclass(frozen=True, eq=False, repr=False)  # no repr: private counts must not reach a log or a traceback
class Aggregate:
    """Private aggregate: counts and sums of measures in the non-empty cells.

    cells: their numbers, rising. counts: rows in each. sums: for each measure, the sum of its steps in each.
    """

    cells: Codes
    counts: Whole
    sums: Mapping[str, Whole] = field(default_factory=dict)

    def of(self, statistic: str) -> Whole:
        """Values of one statistic, "count" or a measure, in the non-empty cells."""
        return self.counts if statistic == "count" else self.sums[statistic]

    def at(self, cells: Codes, statistic: str) -> Whole:
        """One statistic at given cells; 0 where a cell holds no rows."""
        answer = np.zeros(len(cells), dtype=np.int64)
        if len(self.cells):
            places = np.minimum(np.searchsorted(self.cells, cells), len(self.cells) - 1)
            held = self.cells[places] == cells
            answer[held] = self.of(statistic)[places[held]]
        return answer

    def regroup(self, label: Codes) -> Aggregate:
        """The aggregate over groups of cells: `label` names each cell's group, -1 leaves it out."""
        labels = label[self.cells]
        seen = labels >= 0
        groups, place = np.unique(labels[seen], return_inverse=True)

        def gathered(values: Whole) -> Whole:
            total = np.zeros(len(groups), dtype=np.int64)
            np.add.at(total, place, values[seen])
            return total

        return Aggregate(groups, gathered(self.counts), {name: gathered(sums) for name, sums in self.sums.items()})


LONGEST_WORD = 2**16  # cells that a word tells apart; only an attribute that has more values by itself has a longer one

Short = NDArray[np.unsignedinteger[Any]]  # whole numbers from 0, in no more bytes than they need


def words_of(domain: Domain) -> tuple[range, ...]:
    """Split the attributes into ranges, in order, so that the cells of each range are numbered by one word."""
    runs, first, cells = [], 0, 1
    for place, size in enumerate(domain.shape):
        if place > first and cells * size > LONGEST_WORD:
            runs.append(range(first, place))
            first, cells = place, 1
        cells *= size
    return (*runs, range(first, len(domain.axes)))


def short(values: NDArray[Any], below: int) -> Short:
    """Integers in [0, below) as uint16, or as uint32 if they need it.

    Not in one: to add numbers of one kind is faster than to save a byte.
    """
    return values.astype(np.uint16 if below <= 2**16 else np.uint32, copy=False)


@dataclass(frozen=True, eq=False, repr=False)  # no repr: private rows must not reach a log or a traceback
class Rows:
    """Placed rows, one by one. words: an array for each run of `words_of(domain)`. steps: of each measure, by row.

    weights: how many rows each counts for; None where it is 1 for all.
    """

    domain: Domain
    words: tuple[Short, ...]
    steps: dict[str, Whole] = field(default_factory=dict)
    weights: Whole | None = None
    _found: dict[str, tuple[int, Short | None]] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.words[0])

    def codes(self, name: str, these: slice) -> Short:
        """Codes of some rows along an attribute."""
        if name not in self._found:
            self._found[name] = self._find(name)
        word, along = self._found[name]
        return self.words[word][these] if along is None else np.take(along, self.words[word][these])

    def _find(self, name: str) -> tuple[int, Short | None]:
        """Index of the word that holds an axis; if it holds other axes too, the axis's code for each word value."""
        place, shape = self.domain.place(name), self.domain.shape
        word, run = next((word, run) for word, run in enumerate(words_of(self.domain)) if place in run)
        if len(run) == 1:
            return word, None
        cells = np.arange(prod(shape[run.start : run.stop]))
        return word, short(cells // prod(shape[place + 1 : run.stop]) % shape[place], shape[place])

    @cached_property
    def gathered(self) -> Aggregate:
        """Rows and sums by cell, wherever cells have a number; sums modulo 2^64."""
        if self.domain.size > LARGEST_NUMBER:
            raise QueryError(
                f"the attributes span {self.domain.size:.3g} cells, more than the 2^62 that can be numbered; "
                "measure margins of them"
            )
        cells: Codes = np.zeros(len(self), dtype=np.int64)
        for run, word in zip(words_of(self.domain), self.words, strict=True):
            cells *= prod(self.domain.shape[run.start : run.stop])
            cells += word
        order = np.argsort(cells, kind="stable") if self.steps or self.weights is not None else None
        cells = np.sort(cells) if order is None else cells[order]
        starts = np.flatnonzero(np.diff(cells, prepend=-1))
        counts = np.diff(starts, append=len(cells)) if self.weights is None else _added(self.weights[order], starts)
        sums = {name: _added(each[order], starts) for name, each in self.steps.items()}
        return Aggregate(cells[starts], counts, sums)


def _added(values: Whole, starts: Codes) -> Whole:
    return np.add.reduceat(values, starts) if len(starts) else np.zeros(0, dtype=np.int64)


def recoded(held: Aggregate | Rows, old: Domain, new: Domain, maps: Mapping[str, Codes]) -> Aggregate | Rows:
    """The same rows along attributes some of which are replaced by public functions of themselves.

    new: of as many attributes, in the same order and of the same names. maps: of attributes, the new code of each code.
    """

    def code(name: str, codes: NDArray[Any]) -> NDArray[Any]:
        return maps[name][codes] if name in maps else codes

    if isinstance(held, Rows):
        words = []
        for run in words_of(new):
            word: Codes = np.zeros(len(held), dtype=np.int64)
            for place in run:
                word = word * new.shape[place] + code(new.names[place], held.codes(new.names[place], slice(None)))
            words.append(short(word, prod(new.shape[run.start : run.stop])))
        return Rows(new, tuple(words), held.steps, held.weights)
    cells: Codes = np.zeros(len(held.cells), dtype=np.int64)
    for name, size in zip(new.names, new.shape, strict=True):
        cells = cells * size + code(name, old.codes_along(name, held.cells))
    every, inverse = np.unique(cells, return_inverse=True)
    return Aggregate(
        every,
        _by_cell(held.counts, inverse, len(every)),
        {name: _by_cell(sums, inverse, len(every)) for name, sums in held.sums.items()},
    )


def _by_cell(values: Whole, place: Codes, cells: int) -> Whole:
    """Sum of values by cell, modulo 2^64."""
    total = np.zeros(cells, dtype=np.int64)
    np.add.at(total, place, values)
    return total


BLOCK = 2**16  # rows that are looked at together; more for a margin of more cells
MOST_AT_ONCE = 2**22  # numbers of margins that are counted in the same blocks
MOST_KEPT = 2**24  # numbers of margins that are kept for a second question; others are counted again
EXACT = 2**53  # below this, sums of whole numbers are exact in doubles


class MarginCounts:
    """Private marginal counts of one table. No repr: they must not reach a log or a traceback."""

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
        """Domain of a margin, and the private aggregate of its cells."""
        domain = self.domain_along(names)
        ((_, counts),) = self.counts([domain])
        held = np.flatnonzero(counts)
        return domain, Aggregate(held, counts[held], _SumsInCells(self, domain, held))

    @property
    def _number(self) -> int:
        """Number of rows or of non-empty cells held."""
        return len(self._held) if isinstance(self._held, Rows) else len(self._held.cells)

    def counts(self, domains: Sequence[Domain]) -> Iterator[tuple[int, Whole]]:
        """Counts of all cells of several margins: yields (index of the margin, counts), in any order."""
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
        """Counts, or sums of steps, of all cells of some margins, in one pass over the rows or cells held."""
        totals: list[Whole] = [np.zeros(domain.size, dtype=np.int64) for domain in domains]
        names = dict.fromkeys(name for domain in domains for name in domain.names)
        values = self._values_of(of)
        held = self._number
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
        """Value that each row or non-empty cell adds, as doubles if these are exact; None if it is 1 for all."""
        if of not in self._values:
            if isinstance(self._held, Rows):
                values = self._held.weights if of == "count" else self._held.steps[of]
            else:
                values = self._held.of(of)
            # Only how sums are worked out depends on this, not what comes of it.
            exact = values is not None and float(np.abs(values.astype(np.float64)).sum()) < EXACT
            self._values[of] = values.astype(np.float64) if values is not None and exact else values
        return self._values[of]


class _SumsInCells(Mapping[str, Whole]):
    """Lazy mapping from measure to its sums in some cells of a margin."""

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
    """Batch margins to be counted in the same pass: few enough to hold; a large one alone."""
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
    """Cell of every row in a margin, from its codes on the margin's axes."""
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
    """Add values to `total` at indices `places`, modulo 2^64."""
    if values is None:
        total += np.bincount(places, minlength=len(total))
    elif values.dtype == np.float64:
        total += np.bincount(places, values, len(total)).astype(np.int64)
    else:
        np.add.at(total, places, values)


def _down(counts: Whole, union: Domain, domain: Domain) -> Whole:
    """Marginalise: the counts of a margin from those of a larger one, the outermost axis first: the fastest."""
    numbers, kept = counts.reshape(union.shape), 0
    for axis in union:
        if axis.name in domain:
            kept += 1
        else:
            numbers = np.add.reduce(numbers, axis=kept)
    return numbers.reshape(-1)
