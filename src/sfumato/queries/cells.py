"""Queries given explicitly: a dense matrix, lists of single cells, or sets of cells (predicates).

`Weighted` is any matrix, for what no other family expresses; `Cells` and `Predicates` have entries 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import numpy as np

from sfumato.arrays import Codes
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.arrays import Array, codes, frozen, numbers, powers, scatter_add, size
from sfumato.queries.base import Form, Indicators, Queries, too_many


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Weighted(Queries):
    """Dense matrix of integers or floating-point numbers.

    >>> (Weighted([[1, -2, 0], [0, 3, 3]]) @ [4, 5, 6]).tolist()
    [-6, 33]
    """

    matrix: Array

    form = Form("weighted", arrays=("matrix",), make=lambda columns, matrix: Weighted(matrix.reshape(-1, columns)))

    def __init__(self, matrix: object) -> None:
        entries = numbers(matrix, "Weighted")
        if entries.ndim != 2 or entries.size == 0:
            raise QueryError(f"Weighted needs a matrix with at least one row and column; the shape is {entries.shape}")
        self._store(rows=entries.shape[0], columns=entries.shape[1], matrix=frozen(entries))

    def __repr__(self) -> str:
        return f"Weighted({self.rows} x {self.columns})"

    @property
    def integral(self) -> bool:
        return self.matrix.dtype.kind == "i"

    @property
    def entry_bound(self) -> int | float:
        return np.abs(self.matrix).max().item()  # type: ignore[no-any-return]

    def _times(self, x: Array) -> Array:
        return np.asarray(self.matrix @ x)

    def _back(self, y: Array) -> Array:
        return np.asarray(self.matrix.T @ y)

    def _totals(self, power: int) -> Array:
        entries = powers(self.matrix, power)
        self._must_fit(float(entries.sum(axis=0, dtype=np.float64).max()))
        return np.asarray(entries.sum(axis=0))

    def _magnitudes(self, power: int) -> Queries:
        return Weighted(powers(self.matrix, power))

    def _gram(self, weights: Array | None) -> Array:
        return gram_of(self.matrix, weights)

    def _select(self, index: Array) -> Queries:
        return Weighted(self.matrix[index])

    def _dense(self) -> Array:
        return self.matrix.copy()


def gram_in_parts(queries: Queries, weights: Array | None, written: Callable[[Array], Array]) -> Array:
    """A^T diag(weights) A for a family whose rows are written out in chunks; written: dense rows by row numbers."""
    whole = queries.integral and (weights is None or weights.dtype.kind == "i")
    gram = np.zeros((queries.columns, queries.columns), dtype=np.int64 if whole else np.float64)
    step = max(1, 2**21 // queries.columns)
    for start in range(0, queries.rows, step):
        part = np.arange(start, min(start + step, queries.rows))
        gram += gram_of(written(part), None if weights is None else weights[part])
    return gram


def gram_of(matrix: Array, weights: Array | None) -> Array:
    """M^T diag(weights) M. Integers go through floating point, which is fast, where that is exact."""
    heavy = matrix if weights is None else matrix * weights[:, None]
    if heavy.dtype.kind == "i":
        # no sum on the way is larger than this, and floats hold whole numbers up to 2^53 exactly
        bound = float(np.abs(heavy).max()) * float(np.abs(matrix).max()) * len(matrix)
        if bound < 2**53:
            return np.asarray(matrix.T.astype(np.float64) @ heavy.astype(np.float64)).astype(np.int64)
    return np.asarray(matrix.T @ heavy)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cells(Indicators):
    """Single cells: row i is the cell codes[i]; the domain may be far too large to list.

    >>> Cells(2**62, [7, 2**61]).l1
    1
    """

    codes: Codes

    form = Form("cells", arrays=("codes",))

    def __init__(self, n: int, cells: object) -> None:
        columns = size(n, "Cells")
        chosen = frozen(codes(cells, columns, "Cells"))
        self._store(rows=len(chosen), columns=columns, codes=chosen)

    def __repr__(self) -> str:
        return f"Cells({self.columns}, {self.rows} cells)"

    def _times(self, x: Array) -> Array:
        return np.asarray(x[self.codes])

    def _back(self, y: Array) -> Array:
        return scatter_add(self.columns, self.codes, y)

    def _totals(self, power: int) -> Array:
        return np.bincount(self.codes, minlength=self.columns)

    def _peak(self, power: int) -> int:
        return int(_times_named(self.codes).max())

    def _level(self, power: int) -> int | None:
        return _shared(_times_named(self.codes), self.columns)

    def _gram(self, weights: Array | None) -> Array:
        return np.diag(self._totals(1) if weights is None else self._back(weights[:, None])[:, 0])

    def _select(self, index: Array) -> Queries:
        return Cells(self.columns, self.codes[index])

    def _dense(self) -> Array:
        return np.asarray(self.codes[:, None] == np.arange(self.columns)).astype(np.int64)


def _again(columns: int, cells: Codes, starts: Codes) -> Predicates:
    """Rebuild Predicates from a file's arrays, checked."""
    if starts[0] != 0 or starts[-1] != len(cells) or (np.diff(starts) < 0).any():
        raise QueryError("the rows of Predicates begin with the first cell, end with the last and follow each other")
    return Predicates(columns, [cells[a:b] for a, b in pairwise(starts.tolist())])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Predicates(Indicators):
    """Sets of cells: row i counts the cells where a condition holds, given as a mask or as cell numbers.

    >>> (Predicates(3, [[True, False, True], {1, 2}]) @ [4, 5, 6]).tolist()
    [10, 11]
    """

    cells: Codes  # the cells of row 0 in order, then those of row 1, ...
    starts: Codes  # where each row begins among them, and the end

    form = Form(
        "predicates",
        arrays=("cells", "starts"),
        make=_again,
        unkept=lambda columns, cells, starts: too_many(len(starts) - 1),
    )

    def __init__(self, n: int, masks: Iterable[object]) -> None:
        columns = size(n, "Predicates")
        try:
            sets = [_cells_of(mask, columns) for mask in masks]
        except TypeError:
            raise QueryError("Predicates needs a list of masks or of sets of cells") from None
        if not sets:
            raise QueryError("Predicates needs at least one row; the list is empty")
        starts = np.cumsum([0, *(len(cells) for cells in sets)], dtype=np.int64)
        self._store(rows=len(sets), columns=columns, cells=frozen(np.concatenate(sets)), starts=frozen(starts))

    def __repr__(self) -> str:
        return f"Predicates({self.columns}, {self.rows} rows)"

    def _times(self, x: Array) -> Array:
        answers = np.zeros((self.rows, x.shape[1]), dtype=x.dtype)
        some = np.diff(self.starts) > 0  # reduceat would read an empty row as one cell
        if some.any():
            answers[some] = np.add.reduceat(x[self.cells], self.starts[:-1][some], axis=0)
        return answers

    def _back(self, y: Array) -> Array:
        return scatter_add(self.columns, self.cells, np.repeat(y, np.diff(self.starts), axis=0))

    def _totals(self, power: int) -> Array:
        return np.bincount(self.cells, minlength=self.columns)

    def _peak(self, power: int) -> int:
        return int(_times_named(self.cells).max(initial=0))

    def _level(self, power: int) -> int | None:
        return _shared(_times_named(self.cells), self.columns)

    def _gram(self, weights: Array | None) -> Array:
        return gram_in_parts(self, weights, lambda part: self._select(part)._dense())

    def _select(self, index: Array) -> Queries:
        return Predicates(self.columns, [self._set(row) for row in index.tolist()])

    def _set(self, place: int) -> Codes:
        """Cell numbers of one row's set."""
        return np.asarray(self.cells[self.starts[place] : self.starts[place + 1]])

    def _dense(self) -> Array:
        matrix = np.zeros(self.shape, dtype=np.int64)
        matrix[np.repeat(np.arange(self.rows), np.diff(self.starts)), self.cells] = 1
        return matrix


def _cells_of(mask: object, columns: int) -> Codes:
    """Cell numbers of a mask (columns,) or a set."""
    listed = mask if isinstance(mask, np.ndarray | list | tuple) else list(mask)  # type: ignore[call-overload]
    marked = np.asarray(listed)
    if marked.dtype != np.bool_:
        return np.unique(codes(marked, columns, "Predicates", empty=True))
    if marked.shape != (columns,):
        raise QueryError(f"Predicates needs masks over all {columns} cells; one has the shape {marked.shape}")
    return np.flatnonzero(marked).astype(np.int64)


def _times_named(cells: Codes) -> Codes:
    """Multiplicity of each cell that occurs."""
    return np.unique(cells, return_counts=True)[1]


def _shared(named: Codes, columns: int) -> int | None:
    """Common multiplicity of all columns, or None."""
    if len(named) == 0:
        return 0
    return int(named[0]) if len(named) == columns and (named == named[0]).all() else None
