"""Queries in a file: every trusted family comes back as it went in, and nothing else is let in."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from query_strategies import WHOLE_WEIGHTS, of_family, whole_queries

from sfumato.errors import ReleaseFileError
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
from sfumato.queries.base import MOST_PARTS, Form, Indicators
from sfumato.queries.trust import FAMILIES
from sfumato.releases.file.fit_records import MOST_DEPTH, Arrays, describe, rebuild

EXAMPLES = [
    AllRanges(6),
    Cells(6, [5, 0, 5]),
    Haar(6),
    Identity(6),
    Kron(Prefix(2), Total(3)),
    Marginals((2, 3), [(0,), (), (0, 1)]),
    NominalHaar(6),
    Predicates(6, [[True, False] * 3, {1, 2}, set()]),
    Prefix(6),
    Ranges(6, [0, 2], [5, 3]),
    Scaled(Identity(6), 3),
    Scaled(Total(6), [3]),
    Scaled(Prefix(6), range(6)),
    Selected(Kron(Identity(2), Prefix(3)), [5, 0, 0]),
    Stack(Total(6), Stack(Identity(6), Haar(6))),
    Total(6),
    Tree(6, 2),
    Tree.of_levels([[0, 1, 6], [0, 1, 2, 3, 4, 5, 6]]),
    Weighted([[1, -2, 0, 2**40, 5, 6]]),
]

FORM_NAMES = sorted(form.name for family in FAMILIES for form in {family.form, family.form.single()})


def again(queries: Queries) -> Queries:
    """Through the very text and the very numbers that a file holds."""
    arrays = Arrays()
    text = json.dumps(describe(queries, arrays))
    reading = Arrays([array.copy() for array in arrays.all])
    found = rebuild(json.loads(text), reading, queries.columns)
    reading.refuse_leftovers()
    return found


def test_every_family_has_a_form_and_a_name_of_its_own():
    assert all("form" in vars(family) for family in FAMILIES)
    assert len(set(FORM_NAMES)) == len(FORM_NAMES) == len(FAMILIES) + 1  # `Scaled` has two


@pytest.mark.parametrize("family", sorted(FAMILIES, key=repr), ids=lambda family: family.__name__)
@given(data=st.data())
def test_every_family_is_kept(family, data):
    queries = data.draw(of_family(family, WHOLE_WEIGHTS))
    found = again(queries)
    assert type(found) is type(queries) and trusted(found)
    assert np.array_equal(found.dense(), queries.dense())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Every(Indicators):
    """Every so many cells together, from the first on: a family that says all about itself in its own file."""

    step: int

    form = Form(
        "every", numbers=("columns", "step"), unkept=lambda columns, step: "too wide a step" if step > 9 else ""
    )

    def __init__(self, n, step):
        self._store(rows=1, columns=n, step=step)

    def _times(self, x):
        return x[:: self.step].sum(axis=0, keepdims=True)

    def _back(self, y):
        return self._dense().T * y

    def _select(self, index):
        return Selected(self, index)

    def _row(self, place):
        return (np.arange(self.columns) % self.step == 0).astype(np.int64)

    def _dense(self):
        return self._row(0)[None]


def test_a_new_family_takes_its_own_file_and_a_place_among_the_trusted(monkeypatch):
    inside = Stack(Every(6, 2), Kron(Total(2), Every(3, 2)))
    with pytest.raises(ReleaseFileError):
        describe(inside, Arrays())
    record = {"family": "every", "columns": 6, "step": 2}
    with pytest.raises(ReleaseFileError):
        rebuild(record, Arrays(), 6)
    monkeypatch.setattr("sfumato.queries.trust.FAMILIES", FAMILIES | {Every})
    assert describe(Every(6, 2), Arrays()) == record and type(rebuild(record, Arrays(), 6)) is Every
    assert np.array_equal(again(inside).dense(), inside.dense()) and repr(again(inside)) == repr(inside)
    with pytest.raises(ReleaseFileError, match="too wide a step"):
        describe(Every(60, 10), Arrays())
    with pytest.raises(ReleaseFileError, match="too wide a step"):
        rebuild({"family": "every", "columns": 60, "step": 10}, Arrays(), 60)


@pytest.mark.parametrize("queries", EXAMPLES, ids=repr)
def test_every_family_comes_back_as_itself(queries):
    found = again(queries)
    assert type(found) is type(queries) and repr(found) == repr(queries) and trusted(found)
    assert np.array_equal(found.dense(), queries.dense())


@given(whole_queries)
def test_whatever_is_composed_comes_back(queries):
    assume(queries.integral and trusted(queries))
    found = again(queries)
    assert repr(found) == repr(queries)
    assert np.array_equal(found.dense(), queries.dense())


def test_only_whole_numbers_of_trusted_families_are_written():
    class Own(Identity):
        pass

    for queries in (Weighted([[0.5, 1]]), Scaled(Identity(2), 0.5), Own(2), Stack(Own(2))):
        with pytest.raises(ReleaseFileError):
            describe(queries, Arrays())


def deep(depth: int) -> Queries:
    queries: Queries = Identity(2)
    for _ in range(depth - 1):
        queries = Stack(queries)
    return queries


def test_what_could_not_be_read_is_not_written():
    assert again(deep(MOST_DEPTH)).rows == 2
    too_many = Predicates(2, [{0}] * (MOST_PARTS + 1))
    hidden = Selected(AllRanges(2**12), [0])
    tables = Marginals([1] * 511 + [2], [()] * 129)  # 512 factors in each of 129 tables
    for queries in (deep(MOST_DEPTH + 1), too_many, tables, Stack(*[Total(2)] * (MOST_PARTS + 1)), hidden):
        with pytest.raises(ReleaseFileError):
            describe(queries, Arrays())


IDENTITY = {"family": "identity", "columns": 6}
MALFORMED = [
    None,
    [],
    "identity",
    {},
    {"family": "model", "columns": 6},
    {"family": ["identity"], "columns": 6},
    {"family": "identity"},
    {"family": "identity", "columns": "6"},
    {"family": "identity", "columns": True},
    {"family": "identity", "columns": 6.0},
    {"family": "identity", "columns": 0},
    {"family": "identity", "columns": 5},
    {"family": "identity", "columns": 7},
    {"family": "identity", "columns": 2**80},
    {"family": "identity", "columns": 6, "more": 1},
    {"family": "identity", "columns": 6, "parts": []},
    {"family": "haar", "columns": 2**61},
    {"family": "cells", "columns": 6, "codes": 1},
    {"family": "cells", "columns": 6, "codes": -1},
    {"family": "cells", "columns": 6, "codes": True},
    {"family": "cells", "columns": 6, "codes": None},
    {"family": "cells", "columns": 6, "codes": [0]},
    {"family": "cells", "columns": 6, "codes": {"at": 0}},
    {"family": "cells", "columns": 3, "codes": 0},
    {"family": "ranges", "columns": 6, "lows": 0, "highs": 0},
    {"family": "kron", "parts": []},
    {"family": "kron", "parts": 3},
    {"family": "kron", "parts": {"a": IDENTITY}},
    {"family": "kron", "parts": [IDENTITY, IDENTITY]},
    {"family": "kron", "parts": [IDENTITY], "columns": 6},
    {"family": "stack", "parts": [IDENTITY, {"family": "total", "columns": 3}]},
    {"family": "stack", "parts": [IDENTITY] * (MOST_PARTS + 1)},
    {"family": "times", "parts": [IDENTITY], "weights": 0.5},
    {"family": "times", "parts": [IDENTITY], "weights": "2"},
    {"family": "times", "parts": [IDENTITY], "weights": 2**70},
    {"family": "times", "parts": [IDENTITY, IDENTITY], "weights": 2},
    {"family": "scaled", "parts": [IDENTITY], "weights": 0},
    {"family": "selected", "parts": [], "index": 0},
    {"family": "selected", "parts": [{"family": "total", "columns": 6}], "index": 0},
    {"family": "selected", "parts": [{"family": "kron", "parts": [IDENTITY] * 40}], "index": 0},
    {"family": "marginals", "sizes": 6, "sets": [[0]]},
    {"family": "marginals", "sizes": [2, 3], "sets": [[2]]},
    {"family": "marginals", "sizes": [2, 3], "sets": [0]},
    {"family": "marginals", "sizes": [2, 3.0], "sets": [[0]]},
    {"family": "marginals", "sizes": [2, 3], "sets": []},
    {"family": "marginals", "sizes": [2, 3], "sets": [["0"]]},
    {"family": "marginals", "sizes": [1] * 2000 + [6], "sets": [[]] * 2000},
    {"family": "predicates", "columns": 6, "cells": 0, "starts": 0},
    {"family": "predicates", "columns": 6, "cells": 0, "starts": [0]},
    {"family": "predicates", "columns": 6, "cells": [], "starts": 0},
    {"family": "weighted", "columns": 2, "matrix": 0},
    {"family": "weighted", "columns": 6, "matrix": [0]},
    {"family": "tree", "columns": 6, "children": 0},
    {"family": "tree", "columns": 6, "children": [0]},
    {"family": "tree", "columns": 6, "children": [[0]]},
    {"family": "tree", "columns": 6, "children": None},
]


@pytest.mark.parametrize("record", MALFORMED, ids=lambda record: repr(record)[:60])
def test_a_malformed_record_is_a_refusal_and_nothing_else(record):
    with pytest.raises(ReleaseFileError) as caught:
        rebuild(record, Arrays([np.array([3, 0, 5])]), 6)
    assert str(caught.value).isprintable()


def test_records_nested_too_deeply_are_refused():
    record = IDENTITY
    for _ in range(MOST_DEPTH):
        record = {"family": "stack", "parts": [record]}
    with pytest.raises(ReleaseFileError):
        rebuild(record, Arrays(), 6)


def test_an_array_is_used_once_and_every_one_is():
    twice = {"family": "stack", "parts": [{"family": "cells", "columns": 6, "codes": 0}] * 2}
    with pytest.raises(ReleaseFileError, match="twice"):
        rebuild(twice, Arrays([np.array([1])]), 6)
    reading = Arrays([np.array([1])])
    rebuild(IDENTITY, reading, 6)
    with pytest.raises(ReleaseFileError, match="nothing in it names"):
        reading.refuse_leftovers()


@pytest.mark.parametrize(
    "children",
    [[[0, 1]], [[0, 2, 1, 6]], [[1, 6]], [[0, -1]], [[0, 7]], [[0]], [[]], [[0, 6], [0, 6]], [[0, 1], [0, 6]]],
)
def test_trees_that_are_none_are_refused(children):
    arrays = Arrays([np.array(first, dtype=np.int64) for first in children])
    with pytest.raises(ReleaseFileError):
        rebuild({"family": "tree", "columns": 6, "children": list(range(len(children)))}, arrays, 6)


SCALARS = st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | st.text(max_size=3)
KEYS = [
    "family",
    "columns",
    "parts",
    "codes",
    "lows",
    "highs",
    "weights",
    "index",
    "sizes",
    "sets",
    "children",
    "matrix",
    "cells",
    "starts",
]
NAMES = st.sampled_from(FORM_NAMES)
RECORDS = st.recursive(
    SCALARS | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner | NAMES, max_size=5),
    max_leaves=12,
)


@pytest.mark.full
@given(RECORDS, st.lists(st.lists(st.integers(-2, 7), max_size=4), max_size=3))
def test_any_json_is_queries_or_a_refusal(record, arrays):
    pool = Arrays([np.array(values, dtype=np.int64) for values in arrays])
    with contextlib.suppress(ReleaseFileError):
        assert rebuild(record, pool, 6).columns == 6
