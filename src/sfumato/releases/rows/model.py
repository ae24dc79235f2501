"""Interface of row samplers: cells of synthetic rows, and the release's own marginals to compare them with.

Rows are a function of what is published, so predicting them reveals nothing: here, and only here, a user may give a
seed. Noise is drawn elsewhere and has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Axis
from sfumato.domain.predicates import Predicate
from sfumato.frozen import dataclass
from sfumato.kernel.sampling.entropy import Entropy, SystemEntropy, TestingEntropy

if TYPE_CHECKING:
    import pyarrow as pa


class RandomNumbers:
    """Source of uniform numbers and random permutations, reproducible for a seed.

    table: number of a table of rows, from 1; those of one seed are independent.

    >>> RandomNumbers(7).uniform(2).tolist() == RandomNumbers(7).uniform(2).tolist()
    True
    >>> RandomNumbers(7).uniform(2).tolist() == RandomNumbers(7, table=2).uniform(2).tolist()
    False
    """

    def __init__(self, seed: int | None = None, table: int = 1) -> None:
        # A seed below 2^128 and a table have no other seed and table in common; the first table is the seed's own.
        self._entropy: Entropy = SystemEntropy() if seed is None else TestingEntropy(seed + ((table - 1) << 128))

    def uniform(self, count: int) -> Floats:
        """Uniform numbers in [0, 1), (count,)."""
        return np.asarray((self._entropy.words(count) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    def order(self, count: int) -> Codes:
        """Random permutation of 0 .. count - 1, (count,)."""
        return np.argsort(self._entropy.words(count), kind="stable")


@dataclass(frozen=True, eq=False)
class Block:
    """Synthetic rows before they have values.

    codes: by attribute, the cell of each row along it, (rows,). means: by measure, the expected value of each row
    within the measure's bounds, (rows,), around which values are drawn. Where a measure can be missing, a missing one
    counts as its centre there, and `missing_of` has the probability that it is. within: by attribute, the least value
    of each row and the end of its values, (rows,) each, where a condition cuts cells.
    """

    codes: Mapping[str, Codes]
    means: Mapping[str, Floats]
    within: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)

    @classmethod
    def joined(cls, blocks: Sequence[Block]) -> Block:
        """Rows of several blocks, one after the other, before a condition narrows their values."""
        first = blocks[0]
        codes = {name: np.concatenate([block.codes[name] for block in blocks]) for name in first.codes}
        return cls(codes, {name: np.concatenate([block.means[name] for block in blocks]) for name in first.means})

    def __getitem__(self, order: Codes) -> Block:
        return Block(
            {name: codes[order] for name, codes in self.codes.items()},
            {name: means[order] for name, means in self.means.items()},
            {name: (low[order], high[order]) for name, (low, high) in self.within.items()},
        )


@dataclass(frozen=True, eq=False)
class Grouping:
    """Partition of the cells along one attribute into intervals. starts: first cell of each group, then the end."""

    name: str
    starts: Codes

    @classmethod
    def of(cls, axis: Axis, most: int) -> Grouping:
        """Single cells, or `most` groups of nearly equal size where there are more cells."""
        groups = min(axis.size, most)
        return cls(axis.name, np.arange(groups + 1, dtype=np.int64) * axis.size // groups)

    @property
    def size(self) -> int:
        return len(self.starts) - 1

    @property
    def widths(self) -> Codes:
        """Number of cells of each group, (groups,)."""
        return np.diff(self.starts)

    def labels(self, codes: Codes) -> Codes:
        """Group of each code, of the same shape."""
        if self.size == self.starts[-1]:
            return codes
        return np.searchsorted(self.starts, codes, side="right") - 1

    def gather(self, values: Floats, axis: int) -> Floats:
        """Sum an array of cells by group along one axis."""
        if self.size == self.starts[-1]:
            return values
        summed = np.add.reduceat(values, self.starts[:-1], axis=axis)
        return np.asarray(summed, dtype=np.float64)


class RowModel(Protocol):
    """Sampler of the cells of rows, made once and drawn from block by block."""

    @property
    def total(self) -> float:
        """Estimate of COUNT(*), which may be negative."""

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        """Draw one row for each place, in any order.

        places: ascending numbers in [0, 1), (rows,), stratified; a model with cells on a line inverts its distribution
        at these, another may use them as ordinary random numbers.
        """

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        """Estimated marginal counts by some attributes, of any sign, with an axis for each grouping."""


@runtime_checkable
class DivisibleModel(RowModel, Protocol):
    """Sampler that can be restricted to a condition, and to numbers of rows by group."""

    def given(self, where: Predicate) -> RowModel:
        """Conditional model: rows weighted by the share of their cell that fulfils the condition."""

    def by(self, names: Sequence[str]) -> RowModel:
        """Model whose places are g + u in group number g, with u in [0, 1); groups of attributes are row-major."""


def gather_margin(table: Floats, groupings: Sequence[Grouping]) -> Floats:
    """Sum a table with an axis for each grouping by group.

    >>> gather_margin(np.arange(6.0), [Grouping("x", np.array([0, 2, 6]))]).tolist()
    [1.0, 14.0]
    """
    for place, grouping in enumerate(groupings):
        table = grouping.gather(table, place)
    return table


def volumes(groupings: Sequence[Grouping], sizes: Mapping[str, int]) -> Floats:
    """Number of domain cells in each combination of groups, (groups, ...); sizes: of all attributes."""
    cells = np.ones((1,) * len(groupings))
    for number, grouping in enumerate(groupings):
        shape = [-1 if number == other else 1 for other in range(len(groupings))]
        cells = cells * grouping.widths.reshape(shape).astype(np.float64)
    named = {grouping.name for grouping in groupings}
    for name, size in sizes.items():
        cells = cells if name in named else cells * float(size)
    return cells


def arrow_numbers(values: NDArray[Any], missing: Flags | None = None) -> pa.Array:
    """Arrow array of NumPy's numbers, null where `missing`; pyarrow's own way to one imports pandas.

    >>> arrow_numbers(np.array([4, 5, 6]), np.array([False, True, False])).to_pylist()
    [4, None, 6]
    """
    import pyarrow as pa

    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    numbers = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, numbers])


def arrow_texts(texts: Sequence[str | None]) -> pa.Array:
    """Arrow array of texts, null for None; without pandas too."""
    import pyarrow as pa

    builder = pa.lib.StringBuilder()
    builder.append_values(texts)
    return builder.finish()


def numpy_numbers(column: pa.Array, null: float) -> NDArray[Any]:
    """NumPy array of an Arrow array of numbers, with `null` for nulls; without pandas too."""
    kind, end = np.dtype(str(column.type)), column.offset + len(column)
    if not len(column):
        return np.zeros(0, dtype=kind)
    valid, numbers = column.buffers()
    values = np.frombuffer(numbers, kind, end)[column.offset :]
    if not column.null_count:
        return values
    there = np.unpackbits(np.frombuffer(valid, np.uint8), count=end, bitorder="little")[column.offset :]
    return np.where(there > 0, values, np.array(null, dtype=kind))
