"""Queries as a file holds them: a family and its arguments as strict JSON, their arrays as whole numbers beside it.

Reading trusts nothing. A record has the keys of its family and no others, every array is used once, no part is nested
deeper than `MOST_DEPTH` or spans more cells than the whole, and the families' own constructors check the rest. What is
kept in memory is what the file holds: no family stores more than its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Whole
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.queries import Queries, trust
from sfumato.queries.form import Form, too_many
from sfumato.releases.file.strict_json import refusal

Record = dict[str, Any]
Families = dict[str, tuple[Form, Callable[..., Queries]]]  # by their names in a file: how each is kept and made

MOST_DEPTH = 8  # of families within families: twice as many levels of JSON, and strict_json allows twenty in all


class Arrays:
    """The arrays of a file, in order; on reading each is handed out once, so that no array can be multiplied."""

    def __init__(self, arrays: list[Whole] | None = None) -> None:
        self.all = arrays if arrays is not None else []
        self._left = set(range(len(self.all)))

    def keep(self, values: NDArray[Any]) -> int:
        """Take in an array; its place is what a record names it by."""
        self.all.append(np.ascontiguousarray(values, dtype=np.int64).reshape(-1))
        return len(self.all) - 1

    def take(self, place: object) -> Whole:
        """The array at a place, for its one and only use."""
        if type(place) is not int or place not in self._left:
            raise refusal("it names an array that it does not have, or one twice")
        self._left.remove(place)
        return self.all[place]

    def refuse_leftovers(self) -> None:
        """Every array of a file has a use."""
        if self._left:
            raise refusal("it has arrays that nothing in it names")


def describe(queries: Queries, arrays: Arrays) -> Record:
    """Queries as a record; their arrays go into `arrays`.

    >>> from sfumato.queries import Identity, Kron, Total
    >>> describe(Kron(Total(2), Identity(3)), Arrays())["parts"][0]
    {'family': 'total', 'columns': 2}
    """
    if not trust.trusted(queries) or not queries.integral:
        raise ReleaseFileError("only whole-number queries of the families of sfumato.queries can be kept in a file")
    return _describe(queries, arrays, 1)


def _describe(queries: Queries, arrays: Arrays, depth: int) -> Record:
    if depth > MOST_DEPTH:
        raise ReleaseFileError("queries within queries within queries, too deep for a file; ask for plainer ones")
    form = queries.form
    if form.alone is not None and getattr(queries, form.arrays[0]).ndim == 0:
        form = form.single()
    inner = () if form.parts is None else getattr(queries, form.parts)
    parts = inner if isinstance(inner, tuple) else (inner,)
    _refuse(too_many(len(parts)) or form.unkept(*parts, *(getattr(queries, key) for key in form.numbers + form.arrays)))
    record: Record = {"family": form.name}
    for key in form.numbers:
        record[key] = _as_json(getattr(queries, key))
    for key in form.arrays:
        found = getattr(queries, key)
        record[key] = [arrays.keep(one) for one in found] if isinstance(found, tuple) else arrays.keep(found)
    if form.parts is not None:
        record["parts"] = [_describe(part, arrays, depth + 1) for part in parts]
    return record


def rebuild(record: object, arrays: Arrays, columns: int) -> Queries:
    """The queries of an untrusted record, over so many columns; whatever is wrong with it is a ReleaseFileError."""
    both = [(form, family) for family in trust.FAMILIES for form in (family.form, family.form.single())]
    families = {form.name: (form, form.make or family) for form, family in both}
    try:
        queries = _rebuild(record, arrays, families, columns, 1)
    except (AttributeError, QueryError, LookupError, TypeError, ValueError, ArithmeticError):
        raise refusal("its queries are not well formed") from None
    if queries.columns != columns or not queries.integral:
        raise refusal("its queries do not span its cells, or are not whole numbers")
    return queries


def _rebuild(record: Any, arrays: Arrays, families: Families, most: int, depth: int) -> Queries:
    form, make = families[record["family"]]
    inner = () if form.parts is None else ("parts",)
    if depth > MOST_DEPTH or record.keys() != {"family", *form.numbers, *form.arrays, *inner}:
        raise ValueError
    if "columns" in form.numbers and not (type(record["columns"]) is int and 1 <= record["columns"] <= most):
        raise ValueError
    given = [_only_whole(record[key]) for key in form.numbers]
    for key in form.arrays:
        places = record[key]
        given.append([arrays.take(place) for place in places] if type(places) is list else arrays.take(places))
    parts: list[Queries] = []
    for key in inner:
        _refuse(too_many(len(record[key])))
        parts = [_rebuild(part, arrays, families, most, depth + 1) for part in record[key]]
    _refuse(form.unkept(*parts, *given))
    return make(*parts, *given)


def _as_json(value: Any) -> Any:
    """Whole numbers, alone or in tuples, as JSON has them."""
    return [_as_json(one) for one in value] if isinstance(value, tuple) else int(value)


def _only_whole(value: Any) -> Any:
    if type(value) is not int and not (type(value) is list and all(_only_whole(one) is one for one in value)):
        raise ValueError
    return value


def _refuse(reason: str) -> None:
    if reason:
        raise ReleaseFileError(reason)
