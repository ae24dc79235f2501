"""The kernel believes what a family says of its columns; nobody else may say it, and it may not change afterwards."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from query_strategies import any_queries

import sfumato.queries
from sfumato.queries import (
    Cells,
    Identity,
    Kron,
    Marginals,
    Predicates,
    Queries,
    Ranges,
    Scaled,
    Selected,
    Stack,
    Weighted,
    trusted,
)
from sfumato.queries.trust import FAMILIES


class Understated(Identity):
    """Says that it costs nothing."""

    def column_sums(self) -> np.ndarray:
        return np.zeros(self.columns, dtype=np.int64)

    def _peak(self, power: int) -> int:
        return 0


class Disguised(Understated):
    """Also lies about what it is."""

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return Identity


ARRAYS = [
    (lambda values: Ranges(5, values, [4, 4]), "lows", np.array([0, 1])),
    (lambda values: Ranges(5, [0, 0], values), "highs", np.array([0, 1])),
    (lambda values: Cells(5, values), "codes", np.array([3, 2])),
    (lambda values: Predicates(2, values), "cells", np.eye(2, dtype=bool)),
    (Weighted, "matrix", np.array([[1.5, 2.0]])),
    (lambda values: Scaled(Identity(2), values), "weights", np.array([1, 2])),
    (lambda values: Scaled(Identity(2), values), "weights", np.array(7)),
    (lambda values: Selected(Identity(2), values), "index", np.array([1, 0])),
]


@settings(max_examples=100, deadline=None)
@given(any_queries)
def test_families_are_trusted_however_composed(queries: Queries) -> None:
    assert trusted(queries) and trusted(queries[0])


def test_every_public_family_is_in_the_sealed_set_and_all_of_it_is_defined_in_this_package() -> None:
    public = {value for name, value in vars(sfumato.queries).items() if not name.startswith("_")}
    families = {one for one in public if isinstance(one, type) and issubclass(one, Queries)}
    assert families - {Queries} <= FAMILIES
    assert all(family.__module__.startswith("sfumato.queries.") for family in FAMILIES)


def test_what_a_family_says_of_itself_is_the_same_for_all_of_its_queries() -> None:
    """`trusted` looks at what is stored; the form of a family is not, and nobody can store one."""
    for family in FAMILIES:
        assert {"form", "integral", "entry_bound"}.isdisjoint(part.name for part in dataclasses.fields(family))
    for name in ("form", "integral", "entry_bound"):
        with pytest.raises(AttributeError):
            object.__setattr__(Identity(3), name, 0)


@pytest.mark.parametrize("liar", [Understated(3), Disguised(3)], ids=["subclass", "disguised"])
def test_a_lying_subclass_is_not_trusted_at_any_depth(liar: Queries) -> None:
    honest = Identity(3)
    assert trusted(honest) and not trusted(liar)
    for build in (
        lambda part: Kron(honest, part),
        lambda part: Stack(part, honest),
        lambda part: Scaled(part, 2),
        lambda part: Selected(part, [0]),
        lambda part: Kron(honest, Stack(honest, Scaled(Selected(part, [0, 1]), 2))),
    ):
        assert trusted(build(honest)) and not trusted(build(liar))


@pytest.mark.parametrize("other", [None, 3, "Identity(3)", np.eye(3), Identity, Identity(3).T, [Identity(3)]], ids=str)
def test_what_is_not_a_family_is_not_trusted(other: object) -> None:
    assert not trusted(other)


@pytest.mark.parametrize(("build", "name", "given_array"), ARRAYS, ids=[name for _, name, _ in ARRAYS])
def test_arrays_are_copied_and_cannot_be_made_writable(build, name: str, given_array: np.ndarray) -> None:
    queries = build(given_array)
    before = queries.dense()
    given_array[...] = 0
    assert np.array_equal(queries.dense(), before)
    stored = getattr(queries, name)
    with pytest.raises(ValueError, match="read-only"):
        stored[...] = 0
    with pytest.raises(ValueError, match="WRITEABLE"):
        stored.setflags(write=True)
    for handed_out in (queries.dense(), queries.row(0), queries.column_sums()):
        handed_out[...] = 99  # what is handed out is the caller's own
    assert np.array_equal(queries.dense(), before)


def test_attributes_cannot_be_set_or_added() -> None:
    queries = Marginals((2, 3), [(0,), ()])
    for name in ("rows", "columns", "blocks"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(queries, name, ())
    with pytest.raises(AttributeError):
        object.__setattr__(queries, "column_sums", lambda: np.zeros(6))  # no instance dictionary to hide a method in


def test_copies_whose_arrays_can_be_written_are_not_trusted() -> None:
    queries = Kron(Cells(3, [1]), Identity(2))
    for twin in (copy.deepcopy(queries), pickle.loads(pickle.dumps(queries))):
        assert np.array_equal(twin.dense(), queries.dense())
        assert not trusted(twin)
    assert trusted(copy.copy(queries))


def test_a_view_on_a_writable_array_is_not_trusted() -> None:
    queries = Cells(3, [1, 2])
    writable = np.array([1, 2])
    view = writable[:]
    view.setflags(write=False)
    object.__setattr__(queries, "codes", view)
    assert not trusted(queries)
