"""Regions against brute force: every atom of a small domain, where an atom is a point or an open interval."""

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.domain import END, START, Axis, Domain, ValueSet, predicates
from sfumato.domain import predicates as boxes
from sfumato.domain.predicates import Box, Predicate, union
from sfumato.errors import QueryError

# Bins of whole numbers, bins of reals, and a category; limits of sets lie on multiples of a half.
DOMAIN = Domain(
    (
        Axis("age", "integer", np.array([0, 1, 3, 6])),
        Axis("income", "number", np.array([0, 2, 3])),
        Axis("sex", "category", np.arange(4), ("F", "M", "other")),
    )
)


def atoms(axis: Axis) -> list[list[tuple[float, float]]]:
    """For each cell, its atoms as (a value of the atom, its width)."""
    cells = []
    for cell in range(axis.size):
        low, high = axis.edges[cell], axis.edges[cell + 1]
        if axis.discrete:
            cells.append([(value, 1.0) for value in np.arange(low, high)])
            continue
        halves = np.arange(low, high, 0.5)
        last = [(high, 0.0)] if cell == axis.size - 1 else []
        cells.append([(v, 0.0) for v in halves] + [(v + 0.25, 0.5) for v in halves] + last)
    return cells


ATOMS = {axis.name: atoms(axis) for axis in DOMAIN}
CELLS = list(product(*(range(size) for size in DOMAIN.shape)))
CODES = {name: np.array([cell[place] for cell in CELLS]) for place, name in enumerate(DOMAIN.names)}


def contains(values: ValueSet, value: float) -> bool:
    return any(start <= (value, 0) and (value, 1) <= end for start, end in values.spans)


limits = st.integers(-1, 14).map(lambda half: half / 2)
value_sets = st.one_of(
    st.builds(ValueSet.below, limits, inclusive=st.booleans()),
    st.builds(ValueSet.above, limits, inclusive=st.booleans()),
    st.lists(limits, max_size=3).map(ValueSet.one_of),
)
# A tree is a leaf (name, values), ("not", tree), ("and", tree, tree) or ("or", tree, tree).
trees = st.recursive(
    st.tuples(st.sampled_from(DOMAIN.names), value_sets),
    lambda inner: st.one_of(st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)),
    max_leaves=6,
)


def region_of(tree) -> Predicate:
    match tree:
        case ("not", inner):
            return ~region_of(inner)
        case ("and", left, right):
            return region_of(left) & region_of(right)
        case ("or", left, right):
            return region_of(left) | region_of(right)
        case (name, values):
            return Predicate.where(name, values)


def holds(tree, row: dict[str, float]) -> bool:
    match tree:
        case ("not", inner):
            return not holds(inner, row)
        case ("and", left, right):
            return holds(left, row) and holds(right, row)
        case ("or", left, right):
            return holds(left, row) or holds(right, row)
        case (name, values):
            return contains(values, row[name])


def brute_weights(tree) -> tuple[list[float], list[float], list[float]]:
    """Share, sure and possible of every cell, from all its atoms."""
    share, sure, possible = [], [], []
    for cell in CELLS:
        inside = []
        for row in product(*(ATOMS[name][code] for name, code in zip(DOMAIN.names, cell, strict=True))):
            width = prod(width for _, width in row)
            inside.append((width, holds(tree, dict(zip(DOMAIN.names, (value for value, _ in row), strict=True)))))
        share.append(sum(width for width, yes in inside if yes) / sum(width for width, _ in inside))
        sure.append(float(all(yes for _, yes in inside)))
        possible.append(float(any(yes for _, yes in inside)))
    return share, sure, possible


@settings(deadline=None)
@given(trees)
def test_weights_volume_and_cuts_agree_with_every_atom(tree):
    predicate = region_of(tree)
    share, sure, possible = brute_weights(tree)
    got = predicate.weights(DOMAIN, CODES)
    np.testing.assert_allclose(got[0], share, atol=1e-12)  # a handful of sums of halves and thirds
    assert got[1].tolist() == sure
    assert got[2].tolist() == possible
    assert predicate.volume(DOMAIN) == pytest.approx(sum(share), abs=1e-9)
    assert predicate.exact(DOMAIN) == (sure == possible)
    assert bool(predicate.cuts(DOMAIN)) == (sure != possible)
    assert set(predicate.cuts(DOMAIN)) <= set(predicate.names)


@settings(deadline=None)
@given(trees)
def test_boxes_are_disjoint_and_never_empty(tree):
    boxes = region_of(tree).boxes
    assert all(boxes)
    assert not any(a & b for i, a in enumerate(boxes) for b in boxes[:i])


@settings(deadline=None)
@given(trees, trees)
def test_set_algebra(first, second):
    a, b = region_of(first), region_of(second)
    assert not a & ~a
    assert not ~(a | ~a)
    assert (a & b).inside(a)
    assert a.inside(a | b)
    assert not (a - b) & b
    assert (~(a | b)).inside(~a & ~b)
    assert (~a & ~b).inside(~(a | b))


@settings(deadline=None)
@given(value_sets, value_sets, limits)
def test_value_sets_intersect_and_unite_like_sets(a, b, value):
    for probe in (value, value + 0.25):
        assert contains(a & b, probe) == (contains(a, probe) and contains(b, probe))
        assert contains(a | b, probe) == (contains(a, probe) or contains(b, probe))


def test_everything_and_nothing():
    assert Predicate.everything()
    assert not Predicate.nothing()
    assert ~Predicate.everything() == Predicate.nothing()
    assert Predicate.where("age", ValueSet.everything()) == Predicate.everything()
    assert Predicate.where("age", ValueSet.nothing()) == Predicate.nothing()
    assert Predicate.everything().volume(DOMAIN) == DOMAIN.size
    assert Predicate.everything().names == ()


def test_the_whole_table_is_one_cell_when_no_codes_are_given():
    assert [w.tolist() for w in Predicate.everything().weights(DOMAIN, {})] == [[1.0]] * 3
    assert [w.tolist() for w in Predicate.nothing().weights(DOMAIN, {})] == [[0.0]] * 3


def test_alternatives_on_one_attribute_stay_one_box():
    parts = [Predicate.where("age", ValueSet.one_of([value])) for value in range(200)]
    assert union(parts) == Predicate.where("age", ValueSet.one_of(range(200)))
    assert union([]) == Predicate.nothing()


def test_boxes_that_differ_in_one_attribute_are_joined():
    poor = Predicate.where("income", ValueSet.below(1, inclusive=True))
    women = Predicate.where("sex", ValueSet.one_of([0]))
    assert (poor & women) | (~poor & women) == women
    assert len((poor | women).boxes) == 2


def test_a_cut_that_another_condition_heals_is_none():
    women = Predicate.where("sex", ValueSet.one_of([0]))
    predicate = Predicate.where("income", ValueSet.below(1, inclusive=False)) | women
    share, sure, possible = predicate.weights(DOMAIN, {"income": np.array([0, 0]), "sex": np.array([0, 1])})
    assert (sure.tolist(), possible.tolist()) == ([1, 0], [1, 1])
    assert share.tolist() == [1, 0.5]
    assert predicate.cuts(DOMAIN) == ["income"]
    assert (predicate & women).cuts(DOMAIN) == []


def test_a_single_point_cuts_a_bin_of_reals_without_weight():
    predicate = Predicate.where("income", ValueSet.one_of([1]))
    share, sure, possible = predicate.weights(DOMAIN, {"income": np.array([0, 1])})
    assert (share.tolist(), sure.tolist(), possible.tolist()) == ([0, 0], [0, 0], [1, 0])


def test_where_the_outside_is_too_much_work_sure_is_on_the_safe_side(monkeypatch):
    cheap = ValueSet.below(1, inclusive=False)
    predicate = Predicate.where("income", cheap) | Predicate.where("sex", ValueSet.one_of([0]))
    monkeypatch.setattr(predicates, "_FEW_BOXES", 1)
    fresh = Predicate(predicate.boxes)
    _, sure, possible = fresh.weights(DOMAIN, CODES)
    _, exact_sure, exact_possible = predicate.weights(DOMAIN, CODES)
    assert fresh.cuts(DOMAIN) == ["income"]
    assert (sure <= exact_sure).all()
    assert possible.tolist() == exact_possible.tolist()


def test_covers_of_large_axes_are_worked_out_afresh(monkeypatch):
    predicate = Predicate.where("age", ValueSet.below(2, inclusive=True)) & Predicate.where(
        "sex", ValueSet.one_of([1, 2])
    )
    before = [w.tolist() for w in predicate.weights(DOMAIN, CODES)]
    monkeypatch.setattr(boxes, "_SMALL_AXIS", 0)
    assert [w.tolist() for w in predicate.weights(DOMAIN, CODES)] == before


def test_too_many_boxes_are_refused():
    def diagonal(first: str, second: str) -> Predicate:
        """Forty boxes, no two of which differ in one attribute only."""
        return Predicate(tuple(Box.of({name: ValueSet.one_of([i]) for name in (first, second)}) for i in range(40)))

    assert len((diagonal("a", "b") & diagonal("b", "c")).boxes) == 40
    with pytest.raises(QueryError, match="too complicated"):
        _ = diagonal("a", "b") & diagonal("c", "d")


def test_unknown_attributes_and_missing_codes_are_named():
    with pytest.raises(QueryError, match="no attribute 'height'"):
        Predicate.where("height", ValueSet.one_of([1])).volume(DOMAIN)
    with pytest.raises(QueryError, match="places on age are needed"):
        Predicate.where("age", ValueSet.one_of([1])).weights(DOMAIN, {"sex": np.array([0])})


def test_weights_cannot_be_overwritten():
    for weights in Predicate.where("income", ValueSet.below(1, inclusive=True)).weights(DOMAIN, CODES):
        with pytest.raises(ValueError, match="read-only"):
            weights[0] = 5


def test_a_box_answers_for_attributes_it_does_not_name():
    box = Box.of({"age": ValueSet((((0.0, 0), (1.0, 1)),)), "sex": ValueSet(((START, END),))})
    assert box["sex"] == ValueSet.everything()
    assert [name for name, _ in box.sets] == ["age"]
