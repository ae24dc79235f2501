"""Queries as a file holds them: a family and its arguments as strict JSON, their arrays as whole numbers beside it.

Reading trusts nothing. A record has the keys of its family and no others, every array is used once, no part is nested
deeper than `MOST_DEPTH` or spans more cells than the whole, and the families' own constructors check the rest. What is
kept in memory is what the file holds: no family stores more than its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import QueryError, ReleaseFileError
from sfumato.queries import (
    AllRanges,
    Cells,
    Haar,
    Identity,
    Kron,
    Marginals,
    NominalHaar,
    Predicates,
    Prefix,
    Queries,
    Ranges,
    Scaled,
    Selected,
    Stack,
    Total,
    Tree,
    Weighted,
    trusted,
)
from sfumato.releases.file.strict_json import refusal

Column = NDArray[np.int64]
Record = dict[str, Any]

MOST_DEPTH = 8  # of families within families: twice as many levels of JSON, and strict_json allows twenty in all
MOST_PARTS = 2**16  # of one family, and rows of Predicates: each is an object in memory
MOST_HIDDEN = 2**20  # rows behind a selection, where they are many more than were selected


class Arrays:
    """The arrays of a file, in order; on reading each is handed out once, so that no array can be multiplied."""

    def __init__(self, arrays: list[Column] | None = None) -> None:
        self.all = arrays if arrays is not None else []
        self._left = set(range(len(self.all)))

    def keep(self, values: NDArray[Any]) -> int:
        """Take in an array; its place is what a record names it by."""
        self.all.append(np.ascontiguousarray(values, dtype=np.int64).reshape(-1))
        return len(self.all) - 1

    def take(self, place: object) -> Column:
        """The array at a place, for its one and only use."""
        if type(place) is not int or place not in self._left:
            raise refusal("it names an array that it does not have, or one twice")
        self._left.remove(place)
        return self.all[place]

    def refuse_leftovers(self) -> None:
        """Every array of a file has a use."""
        if self._left:
            raise refusal("it has arrays that nothing in it names")


@dataclass(frozen=True)
class _Form:
    """How a family is written: which of its attributes are numbers, arrays (or tuples of them) and inner queries.

    make: the family again, from its numbers, its arrays and its inner queries, in this order.
    """

    family: type[Queries]
    make: Callable[..., Queries]
    numbers: tuple[str, ...] = ()
    arrays: tuple[str, ...] = ()
    parts: str | None = None


def _plain(family: Callable[[int], Queries]) -> _Form:
    return _Form(family, family, numbers=("columns",))  # type: ignore[arg-type]


def _predicates(columns: int, cells: Column, starts: Column) -> Queries:
    _few(len(starts) - 1)
    if starts[0] != 0 or starts[-1] != len(cells) or (np.diff(starts) < 0).any():
        raise ValueError
    return Predicates(columns, [cells[a:b] for a, b in pairwise(starts.tolist())])


def _tree(columns: int, children: list[Column]) -> Queries:
    cuts = [np.arange(columns + 1, dtype=np.int64)]
    for first in reversed(children):
        if first.size < 2 or first.min() < 0:  # a negative place would count from the end
            raise ValueError
        cuts.append(cuts[-1][first])
    return Tree.of_levels(cuts[::-1])


def _marginals(sizes: list[int], sets: list[list[int]]) -> Queries:
    _few(len(sizes) * len(sets))
    return Marginals(sizes, sets)


def _selected(index: Column, parts: list[Queries]) -> Queries:
    (queries,) = parts
    _not_hidden(queries.rows, len(index), queries.columns)
    return Selected(queries, index)


def _scaled(weights: Any, parts: list[Queries]) -> Queries:
    (queries,) = parts
    return Scaled(queries, weights)


_FORMS = {
    "all-ranges": _plain(AllRanges),
    "cells": _Form(Cells, Cells, ("columns",), ("codes",)),
    "haar": _plain(Haar),
    "identity": _plain(Identity),
    "kron": _Form(Kron, lambda parts: Kron(*parts), parts="factors"),
    "marginals": _Form(Marginals, _marginals, ("sizes", "sets")),
    "nominal-haar": _plain(NominalHaar),
    "predicates": _Form(Predicates, _predicates, ("columns",), ("cells", "starts")),
    "prefix": _plain(Prefix),
    "ranges": _Form(Ranges, Ranges, ("columns",), ("lows", "highs")),
    "scaled": _Form(Scaled, _scaled, (), ("weights",), "queries"),
    "selected": _Form(Selected, _selected, (), ("index",), "queries"),
    "stack": _Form(Stack, lambda parts: Stack(*parts), parts="blocks"),
    "times": _Form(Scaled, _scaled, ("weights",), (), "queries"),
    "total": _plain(Total),
    "tree": _Form(Tree, _tree, ("columns",), ("children",)),
    "weighted": _Form(
        Weighted, lambda columns, matrix: Weighted(matrix.reshape(-1, columns)), ("columns",), ("matrix",)
    ),
}
_NAMES = {form.family: name for name, form in _FORMS.items() if name != "times"}


def describe(queries: Queries, arrays: Arrays) -> Record:
    """Queries as a record; their arrays go into `arrays`.

    >>> describe(Kron(Total(2), Identity(3)), Arrays())["parts"][0]
    {'family': 'total', 'columns': 2}
    """
    if not trusted(queries) or not queries.integral:
        raise ReleaseFileError("only whole-number queries of the families of sfumato.queries can be kept in a file")
    return _describe(queries, arrays, 1)


def _describe(queries: Queries, arrays: Arrays, depth: int) -> Record:
    if depth > MOST_DEPTH:
        raise ReleaseFileError("queries within queries within queries, too deep for a file; ask for plainer ones")
    single = type(queries) is Scaled and queries.weights.ndim == 0
    name = "times" if single else _NAMES[type(queries)]
    form = _FORMS[name]
    record: Record = {"family": name}
    for key in form.numbers:
        record[key] = _as_json(getattr(queries, key))
    for key in form.arrays:
        found = getattr(queries, key)
        record[key] = [arrays.keep(one) for one in found] if isinstance(found, tuple) else arrays.keep(found)
    if form.parts is not None:
        inner = getattr(queries, form.parts)
        parts = inner if isinstance(inner, tuple) else (inner,)
        _few(len(parts))
        record["parts"] = [_describe(part, arrays, depth + 1) for part in parts]
    if type(queries) is Predicates:
        _few(queries.rows)
    if type(queries) is Selected:
        _not_hidden(queries.queries.rows, queries.rows, queries.columns)
    return record


def rebuild(record: object, arrays: Arrays, columns: int) -> Queries:
    """The queries of an untrusted record, over so many columns; whatever is wrong with it is a ReleaseFileError."""
    try:
        queries = _rebuild(record, arrays, columns, 1)
    except (QueryError, LookupError, TypeError, ValueError, ArithmeticError):
        raise refusal("its queries are not well formed") from None
    if queries.columns != columns or not queries.integral:
        raise refusal("its queries do not span its cells, or are not whole numbers")
    return queries


def _rebuild(record: Any, arrays: Arrays, most: int, depth: int) -> Queries:
    form = _FORMS[record["family"]]
    inner = () if form.parts is None else ("parts",)
    if depth > MOST_DEPTH or record.keys() != {"family", *form.numbers, *form.arrays, *inner}:
        raise ValueError
    if "columns" in form.numbers and not (type(record["columns"]) is int and 1 <= record["columns"] <= most):
        raise ValueError
    given = [_only_whole(record[key]) for key in form.numbers]
    for key in form.arrays:
        places = record[key]
        given.append([arrays.take(place) for place in places] if type(places) is list else arrays.take(places))
    for key in inner:
        _few(len(record[key]))
        given.append([_rebuild(part, arrays, most, depth + 1) for part in record[key]])
    return form.make(*given)


def _as_json(value: Any) -> Any:
    """Whole numbers, alone or in tuples, as JSON has them."""
    return [_as_json(one) for one in value] if isinstance(value, tuple) else int(value)


def _only_whole(value: Any) -> Any:
    if type(value) is not int and not (type(value) is list and all(_only_whole(one) is one for one in value)):
        raise ValueError
    return value


def _few(number: int) -> None:
    if number > MOST_PARTS:
        raise ReleaseFileError(f"queries of more than {MOST_PARTS} parts cannot be kept in a file; ask fewer at once")


def _not_hidden(behind: int, selected: int, columns: int) -> None:
    """Answering a selection takes memory for all the rows behind it, which no stored answer bears witness to."""
    if behind > max(MOST_HIDDEN, 64 * selected, 2 * columns):
        raise ReleaseFileError("a selection from too many rows cannot be kept in a file; ask for plainer queries")
