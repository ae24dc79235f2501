"""Contract of a family of linear queries: an implicit matrix A with exact sensitivities, and its form in a file.

A family is a matrix A (rows, columns) that is never written out: a row is a query, a column is a cell of the domain,
and the answers on counts x are A x. Families hold no data and never change.

Privacy. The kernel's proof relies on `column_sums`: when a row of the table is added to cell c or removed from it, the
answers change by column c of A, so a family that understates its column sums breaks the guarantee. Hence

- the kernel accepts only objects for which `trusted` holds: exactly the families of this package and no subclasses,
  because a subclass can override `column_sums` and lie;
- what a family stores is copied and can never be made writable again;
- for `integral` families column sums and sums of squares are exact integers, and a sum that could pass 2^62 is
  refused. For others they are floating-point numbers, good for planning, not for a proof.

Integers in, integers out. `A @ x` in int64 is exact while (largest |entry|) * (sum of |x|) stays below 2^62, and
refused beyond. That refusal depends on x; the kernel, whose failures must not depend on private counts, uses
`apply_wrapping`, which never fails on values: it answers modulo 2^64, and adding noise modulo 2^64 afterwards is as
private as adding it to the true answer and reducing the result.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.arrays import LARGEST, MOST_GRAM_COLUMNS, MOST_LISTED, Array, listable, operand, row_numbers

MOST_PARTS = 2**16  # of one family: each is an object in memory


@dataclass(frozen=True)
class Form:
    """File format of a family: its name, and the attributes it is made of.

    numbers, arrays, parts: names of attributes that are integers, arrays (or tuples of them), inner queries.
    alone: the name where its array is a single number, which is then kept as one.
    make: constructor from inner queries, numbers and arrays; None for the family's own.
    unkept: reason why such values, in the same order, cannot be kept; empty where they can.
    """

    name: str
    numbers: tuple[str, ...] = ("columns",)
    arrays: tuple[str, ...] = ()
    parts: str | None = None
    alone: str | None = None
    make: Callable[..., Any] | None = None
    unkept: Callable[..., str] = lambda *values: ""

    def single(self) -> Form:
        """Form of a family whose array is a single number."""
        return self if self.alone is None else replace(self, name=self.alone, numbers=self.arrays, arrays=())


def too_many(parts: int) -> str:
    """Reason why a family of so many parts cannot be kept in a file; empty where it can."""
    if parts <= MOST_PARTS:
        return ""
    return f"queries of more than {MOST_PARTS} parts cannot be kept in a file; ask fewer at once"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Queries(ABC):
    """Linear queries over numbered cells, as an implicit matrix (rows, columns)."""

    rows: int = field(init=False)
    columns: int = field(init=False)

    form: ClassVar[Form]  # how a file keeps the family
    __array_ufunc__: ClassVar[None] = None  # `array @ queries` is then a TypeError, not an attempt to unroll the rows
    __iter__: ClassVar[None] = None  # likewise, a family may have more rows than anyone can walk through

    def _store(self, **values: object) -> None:
        """Set attributes of the frozen object, once."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    # What a family tells of itself. x is (columns, k) and y is (rows, k), in int64 (then integral) or float64.

    @abstractmethod
    def _times(self, x: Array) -> Array:
        """A x, modulo 2^64 for integers; never a view of x. x: (columns, k)."""

    @abstractmethod
    def _back(self, y: Array) -> Array:
        """A^T y, modulo 2^64 for integers. y: (rows, k)."""

    @abstractmethod
    def _totals(self, power: int) -> Array:
        """Column sums of |A[i, c]| ** power, (columns,)."""

    @abstractmethod
    def _magnitudes(self, power: int) -> Queries:
        """Family with entries |A[i, c]| ** power."""

    @abstractmethod
    def _select(self, index: Array) -> Queries:
        """Family of the rows with these numbers, in this order, repeats included."""

    def _row(self, place: int) -> Array:
        """One row as a dense array, (columns,)."""
        return np.asarray(self._select(np.array([place]))._dense()[0])

    @abstractmethod
    def _dense(self) -> Array:
        """Dense matrix, computed without `_times`: tests compare the two."""

    @property
    @abstractmethod
    def integral(self) -> bool:
        """Whether all entries are integers, by construction."""

    @property
    @abstractmethod
    def entry_bound(self) -> int | float:
        """Upper bound of all |entries|."""

    def _peak(self, power: int) -> int | float:
        """Largest column sum of |A[i, c]| ** power; families over huge domains know it without listing the columns."""
        listable(self.columns, "a sum for every column", "ask for fewer kinds of query at once")
        return self._totals(power).max().item()  # type: ignore[no-any-return]

    def _level(self, power: int) -> int | float | None:
        """Common value of all column sums, if they are equal and that can be known; else None."""
        if self.columns > MOST_LISTED:
            return None
        totals = self._totals(power)
        return totals[0].item() if (totals == totals[0]).all() else None

    def _gram(self, weights: Array | None) -> Array:
        """A^T diag(weights) A, (columns, columns), a few columns at a time; weights: (rows,) or None."""
        whole = self.integral and (weights is None or weights.dtype.kind == "i")
        dtype = np.int64 if whole else np.float64
        gram = np.empty((self.columns, self.columns), dtype)
        step = max(1, 2**22 // max(self.rows, self.columns))
        for start in range(0, self.columns, step):
            width = min(step, self.columns - start)
            answers = self._times(np.eye(self.columns, width, -start, dtype=dtype))
            gram[:, start : start + width] = self._back(answers if weights is None else answers * weights[:, None])
        return gram

    # What everyone may ask.

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return self.rows, self.columns

    def __len__(self) -> int:
        return self.rows

    def __matmul__(self, x: object) -> Array:
        if isinstance(x, Queries | Transposed):
            return NotImplemented
        array = operand(x, self.columns, repr(self))
        self._refuse_overflow(array)
        return self._apply(array, forward=True)

    @property
    def T(self) -> Transposed:  # noqa: N802
        """Transpose, to apply to answers."""
        return Transposed(self)

    def apply_wrapping(self, x: object) -> Array:
        """A x modulo 2^64: whether it succeeds depends on the shape and type of x, never on its values."""
        return self._apply(operand(x, self.columns, repr(self)), forward=True)

    def column_sums(self) -> Array:
        """L1 norm of every column, (columns,): by how much one row of the table in cell c can change all answers."""
        listable(self.columns, "a sum for every column", "use l1 or constant_column_sum")
        return self._totals(1)

    def column_squares(self) -> Array:
        """Squared L2 norm of every column, (columns,)."""
        listable(self.columns, "a sum for every column", "use l2_squared")
        return self._totals(2)

    @property
    def constant_column_sum(self) -> int | float | None:
        """Column sum that all columns share; None if they differ, or are too many to tell."""
        return self._level(1)

    @property
    def l1(self) -> int | float:
        """L1 sensitivity to one row of the table: the largest column sum."""
        return self._peak(1)

    @property
    def l2_squared(self) -> int | float:
        """Squared L2 sensitivity to one row of the table: the largest column sum of squares.

        Exact for integral queries.
        """
        return self._peak(2)

    def gram(self) -> Array:
        """Gram matrix A^T A, dense; exact for integral queries."""
        if self.columns > MOST_GRAM_COLUMNS:
            raise QueryError(
                f"the Gram matrix of {self.columns} columns does not fit in memory; {MOST_GRAM_COLUMNS} are allowed: "
                "use fewer cells"
            )
        self._must_fit(self.l2_squared)  # no entry of A^T A is larger than the largest on its diagonal (Cauchy-Schwarz)
        return self._gram(None)

    def row(self, place: int) -> Array:
        """One row as a dense array, (columns,); negative indices count from the end."""
        listable(self.columns, "a row", "apply the queries with @ instead")
        if not -self.rows <= place < self.rows:
            raise QueryError(f"{self!r} has rows 0 to {self.rows - 1}; the row asked for is not one of them")
        return self._row(operator.index(place) % self.rows)

    def __getitem__(self, wanted: int | slice | Sequence[int] | Array) -> Queries:
        if isinstance(wanted, slice) and range(self.rows)[wanted] == range(self.rows):
            return self
        return self._select(row_numbers(wanted, self.rows, repr(self)))

    def dense(self) -> Array:
        """Dense matrix, for small families and for tests."""
        listable(self.rows * self.columns, "the matrix", "apply the queries with @ instead")
        return self._dense()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.columns})"

    def _apply(self, array: Array, *, forward: bool) -> Array:
        """A x (forward) or A^T y for one column or several, checked against memory."""
        length = (self.rows if forward else self.columns) * (1 if array.ndim == 1 else array.shape[1])
        listable(length, "the answer", "select fewer rows or cells")
        if not self.integral:
            array = array.astype(np.float64, copy=False)
        flat = array[:, None] if array.ndim == 1 else array
        done = self._times(flat) if forward else self._back(flat)
        return done[:, 0] if array.ndim == 1 else done

    def _must_fit(self, bound: float) -> None:
        """Refuse integers that could pass 2^62. The bound may be rounded: int64 has a factor of two in reserve."""
        if self.integral and bound > LARGEST:
            raise QueryError(f"sums over the entries of {self!r} could pass 2^62; use smaller weights")

    def _refuse_overflow(self, array: Array) -> None:
        """Refuse integer operands whose answers could pass 2^62."""
        if not self.integral or array.dtype.kind != "i" or array.size == 0:
            return
        largest = max(int(array.max()), -int(array.min()))
        if self.entry_bound * largest * len(array) < LARGEST:  # the usual case, told without another pass
            return
        total = float(np.abs(array.astype(np.float64)).sum(axis=0).max())
        if self.entry_bound * total >= LARGEST:
            raise QueryError(f"answers of {self!r} on these numbers could pass 2^62; use smaller or floating numbers")


@dataclass(frozen=True, slots=True, eq=False)
class Transposed:
    """View of a family that applies A^T to answers."""

    T: Queries

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the transposed matrix."""
        return self.T.columns, self.T.rows

    def __matmul__(self, y: object) -> Array:
        if isinstance(y, Queries | Transposed):
            return NotImplemented
        array = operand(y, self.T.rows, repr(self))
        self.T._refuse_overflow(array)
        return self.T._apply(array, forward=False)

    def __repr__(self) -> str:
        return f"{self.T!r}.T"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Indicators(Queries):
    """Families with entries 0 or 1, so that every power of an entry is the entry itself."""

    integral = True
    entry_bound = 1

    def _magnitudes(self, power: int) -> Queries:
        return self

    def _totals(self, power: int) -> Array:
        return self._back(np.ones((self.rows, 1), dtype=np.int64))[:, 0]


def check_parts(parts: tuple[Queries, ...], what: str) -> None:
    """Refuse an empty composition, or parts that are not families."""
    if not parts:
        raise QueryError(f"{what} needs at least one family of queries")
    for part in parts:
        if not isinstance(part, Queries):
            raise QueryError(f"{what} is made of families of queries such as Identity(5), not of {type(part).__name__}")


def listed(parts: tuple[Queries, ...]) -> str:
    """Short text of the parts of a composed family."""
    return ", ".join(map(repr, parts[:4])) + (f", ... {len(parts) - 4} more" if len(parts) > 4 else "")
