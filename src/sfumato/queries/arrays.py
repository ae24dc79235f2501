"""Validate and freeze the arrays that queries are built from.

No message quotes a cell or a row: which cells a query names may have been chosen from private data.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes
from sfumato.domain import LARGEST_NUMBER
from sfumato.errors import QueryError

Array = NDArray[Any]

LARGEST = 2**62  # of any whole number that is stored or added up here: a factor of two below what int64 holds
MOST_LISTED = 2**28  # numbers in one array that is made on request: 2 GB
MOST_GRAM_COLUMNS = 20_000


def frozen(array: Array) -> Array:
    """Immutable copy of an array: NumPy never writes to memory that a `bytes` object owns.

    Privacy: the kernel charges for a query when it is asked; a query that changed afterwards would not be paid for.
    """
    array = np.asarray(array)
    if array.size == 0:
        empty = np.zeros(array.shape, dtype=array.dtype)
        empty.setflags(write=False)
        return empty
    return np.frombuffer(array.tobytes(), dtype=array.dtype).reshape(array.shape)


def is_frozen(array: Array) -> bool:
    """Whether an array is a plain one that `frozen` made."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        if type(owner) is not np.ndarray or owner.flags.writeable:
            return False
        owner = owner.base
    return type(owner) is bytes or array.size == 0


def size(value: object, what: str) -> int:
    """Validate a number of columns: an integer from 1 to 2^62."""
    try:
        count = -1 if isinstance(value, bool) else int(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        count = -1
    if not 1 <= count <= LARGEST_NUMBER:
        raise QueryError(f"{what} needs a whole number of columns from 1 to 2^62, not {value!r:.60}")
    return count


def codes(values: object, below: int, what: str, *, empty: bool = False) -> Codes:
    """Validate a list of integers from 0 up to, not including, `below`."""
    if isinstance(values, Iterable) and not isinstance(values, np.ndarray | list | tuple):
        values = list(values)
    listed = _array(values, what)
    if listed.ndim != 1 or (listed.dtype.kind not in "iu" and listed.size):
        raise QueryError(f"{what} needs a flat list of whole numbers")
    if listed.size == 0 and not empty:
        raise QueryError(f"{what} needs at least one row; the list is empty")
    if listed.size and not 0 <= int(listed.min()) <= int(listed.max()) < below:
        raise QueryError(f"{what} needs numbers from 0 to {below - 1}; some lie outside")
    return listed.astype(np.int64)


def numbers(values: object, what: str) -> Array:
    """Read numbers as int64 if all are integers, else as float64; Fractions and Decimals are read exactly."""
    array = values if isinstance(values, np.ndarray) else _array(values, what, as_objects=True)
    if array.dtype.kind not in "biuf":
        return _exactly(array, what)
    if not np.isfinite(array).all() or (array.size and float(np.abs(array, dtype=np.float64).max()) > LARGEST):
        raise QueryError(f"{what} needs finite numbers of at most 2^62 in size")
    if array.dtype.kind == "f" and not (array == np.floor(array)).all():
        return array.astype(np.float64)
    return array.astype(np.int64)


def operand(x: object, length: int, what: str) -> Array:
    """Validate an operand: int64 or float64, (length,) or (length, k)."""
    array = _array(x, what)
    if array.ndim not in (1, 2) or array.shape[0] != length:
        raise QueryError(f"{what} applies to {length} numbers, or to columns of so many; the shape is {array.shape}")
    if np.can_cast(array.dtype, np.int64):
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "f" and np.can_cast(array.dtype, np.float64):
        return array.astype(np.float64, copy=False)
    raise QueryError(f"{what} applies to int64 or float64 numbers, not {array.dtype}; convert them first")


def powers(array: Array, power: int) -> Array:
    """|a| ** power, exact for integers."""
    if array.dtype.kind == "i" and int(np.abs(array).max(initial=0)) ** power > LARGEST:
        raise QueryError("the squares of these entries or weights could pass 2^62; use smaller ones")
    return np.asarray(np.abs(array) ** power)


def listable(count: int, what: str, remedy: str) -> None:
    """Refuse an array that would not fit in memory."""
    if count > MOST_LISTED:
        raise QueryError(f"{what} would hold {count:.3g} numbers, more than the {MOST_LISTED:.3g} allowed; {remedy}")


def scatter_add(length: int, where: Array, values: Array) -> Array:
    """Sum rows of values (m, k) by index `where` (m,) into an array (length, k); exact for integers."""
    width = values.shape[1]
    total = np.zeros(length * width, dtype=values.dtype)
    flat = where if width == 1 else (where[:, None] * width + np.arange(width)).reshape(-1)
    np.add.at(total, flat, values.reshape(-1))
    return total.reshape(length, width)


def _array(values: object, what: str, *, as_objects: bool = False) -> Array:
    """Convert to an array, or raise QueryError."""
    try:
        return np.asarray(values, dtype=object if as_objects else None)
    except (TypeError, ValueError, OverflowError):
        raise QueryError(f"{what} needs numbers in a regular shape") from None


def _exactly(array: Array, what: str) -> Array:
    """Read numbers of other types exactly, through fractions."""
    try:
        exact = [_ratio(value) for value in array.reshape(-1).tolist()]
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise QueryError(f"{what} needs finite numbers: int, Fraction, Decimal or float") from None
    if any(abs(value) > LARGEST for value in exact):
        raise QueryError(f"{what} needs finite numbers of at most 2^62 in size")
    whole = all(value.denominator == 1 for value in exact)
    return np.array([int(v) if whole else float(v) for v in exact], np.int64 if whole else np.float64).reshape(
        array.shape
    )


def _ratio(value: Any) -> Fraction:
    """Exact fraction of a number."""
    plain = value.item() if isinstance(value, np.generic) else value
    return Fraction(*plain.as_integer_ratio())


def row_numbers(wanted: int | slice | Sequence[int] | Array, rows: int, what: str) -> Codes:
    """Row numbers from 0, as NumPy reads an index: negative ones count from the end, a mask marks rows.

    >>> row_numbers(slice(None, None, -2), 5, "q").tolist(), row_numbers([-1, 0], 5, "q").tolist()
    ([4, 2, 0], [4, 0])
    """
    if isinstance(wanted, slice):
        chosen = range(rows)[wanted]
        count = max(0, -((chosen.start - chosen.stop) // chosen.step))
        listable(count, f"a selection from {what}", "select fewer rows")
        if count and max(chosen[0], chosen[-1]) > LARGEST:
            raise QueryError(f"rows of {what} beyond 2^62 cannot be selected; select earlier ones")
        index = np.arange(count, dtype=np.int64) * chosen.step + chosen.start
    else:
        index = _listed(wanted, rows, what)
    if index.size == 0:
        raise QueryError(f"no rows selected from {what}; select at least one of its {rows}")
    return index


def _listed(wanted: object, rows: int, what: str) -> Codes:
    """Row numbers from a list or a mask."""
    try:
        index = np.atleast_1d(np.asarray(wanted))
    except ValueError:
        index = np.empty(0, dtype=object)
    if index.dtype == np.bool_ and index.shape == (rows,):
        return np.flatnonzero(index).astype(np.int64)
    if index.ndim != 1 or (index.size and not np.can_cast(index.dtype, np.int64)) or index.dtype == np.bool_:
        raise QueryError(f"rows of {what} are selected by int64 numbers, a slice or a mask of its {rows} rows")
    if index.size and not -rows <= int(index.min()) <= int(index.max()) < rows:
        raise QueryError(f"{what} has rows 0 to {rows - 1}; some of the rows selected are not among them")
    index = index.astype(np.int64)
    if index.size == 0 or index.min() >= 0:
        return index
    if rows > LARGEST:
        raise QueryError(f"rows of {what} beyond 2^62 cannot be selected; select earlier ones")
    return np.where(index < 0, index + rows, index)
