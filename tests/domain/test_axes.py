"""Sets of values, the cells they cover, and how cells are named and numbered."""

import math
from datetime import date, datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.domain import LARGEST_NUMBER, Axis, Cover, Domain, Partition, ValueSet, refuse_too_many_values
from sfumato.errors import QueryError, SchemaError

PATIENT = settings(deadline=None)  # a busy machine is no reason to fail

HALVES = [half / 2 for half in range(-2, 15)]  # from -1 to 7, so that whole numbers, gaps and ties are all common
halves = st.sampled_from(HALVES)


@st.composite
def sets_with_twins(draw, depth=3):
    """A ValueSet built by its operators, and the same set as a plain function."""
    kind = draw(
        st.sampled_from(["below", "above", "one_of", "all", "none"] + ["not", "and", "or"] * (2 if depth else 0))
    )
    if kind in ("below", "above"):
        value, inclusive = draw(halves), draw(st.booleans())
        if kind == "below":
            return ValueSet.below(value, inclusive=inclusive), lambda x: x < value or (inclusive and x == value)
        return ValueSet.above(value, inclusive=inclusive), lambda x: x > value or (inclusive and x == value)
    if kind == "one_of":
        values = draw(st.lists(halves, max_size=3))
        return ValueSet.one_of(values), lambda x: x in values
    if kind in ("all", "none"):
        return (ValueSet.everything(), lambda x: True) if kind == "all" else (ValueSet.nothing(), lambda x: False)
    one, is_one = draw(sets_with_twins(depth - 1))
    if kind == "not":
        return ~one, lambda x: not is_one(x)
    two, is_two = draw(sets_with_twins(depth - 1))
    if kind == "and":
        return one & two, lambda x: is_one(x) and is_two(x)
    return one | two, lambda x: is_one(x) or is_two(x)


def holds(values: ValueSet, x: float) -> bool:
    return any(start <= (x, 0) and (x, 1) <= end for start, end in values.spans)


@PATIENT
@given(sets_with_twins())
def test_a_set_holds_what_its_operators_say(pair):
    values, expected = pair
    points = [-1e9, *(half / 4 for half in range(-6, 32)), 1e9]  # every half, and a point between any two
    assert [holds(values, x) for x in points] == [expected(x) for x in points]


@PATIENT
@given(sets_with_twins())
def test_spans_are_in_order_and_do_not_touch(pair):
    ends = [place for span in pair[0].spans for place in span]
    assert all(a < b for a, b in pairwise(ends))
    assert bool(pair[0]) == bool(ends)


@PATIENT
@given(sets_with_twins(), sets_with_twins())
def test_equal_sets_have_equal_spans(one, two):
    a, b = one[0], two[0]
    assert ~~a == a
    assert a | b == b | a
    assert ~(a | b) == ~a & ~b
    assert (a & b) | (a & ~b) == a


edge_lists = st.lists(halves, min_size=2, max_size=6, unique=True).map(sorted)


@PATIENT
@given(edge_lists, sets_with_twins())
def test_cover_of_a_number_axis_agrees_with_critical_points(edges, pair):
    values, is_member = pair
    cover = Axis("x", "number", np.array(edges)).cover(values)
    share, sure, possible = [], [], []
    for low, high in pairwise(edges):
        # Between two neighbouring halves membership cannot change, so the halves and the points between them decide.
        between = [half + 0.25 for half in HALVES if low <= half < high]
        points = [half for half in HALVES if low <= half < high] + between
        points += [high] if high == edges[-1] else []
        share.append(sum(is_member(x) for x in between) * 0.5 / (high - low))
        sure.append(all(is_member(x) for x in points))
        possible.append(any(is_member(x) for x in points))
    assert cover.share == pytest.approx(share, abs=1e-12)  # a few additions of halves
    assert cover.sure.tolist() == sure
    assert cover.possible.tolist() == possible
    assert cover.exact == (sure == possible)


@PATIENT
@given(st.lists(st.integers(-1, 7), min_size=2, max_size=6, unique=True).map(sorted), sets_with_twins())
def test_cover_of_a_discrete_axis_agrees_with_counting_values(edges, pair):
    values, is_member = pair
    cover = Axis("x", "integer", np.array(edges)).cover(values)
    cells = [[is_member(x) for x in range(low, high)] for low, high in pairwise(edges)]
    assert cover.share == pytest.approx([sum(cell) / len(cell) for cell in cells], abs=1e-12)
    assert cover.sure.tolist() == [all(cell) for cell in cells]
    assert cover.possible.tolist() == [any(cell) for cell in cells]


def test_a_single_value_of_a_number_touches_its_cell_without_a_share():
    cover = Axis("income", "number", np.array([0.0, 1.0, 2.0])).cover(ValueSet.one_of([2.0]))
    assert cover.possible.tolist() == [0, 1]
    assert cover.share.tolist() == [0, 0]
    assert not cover.exact


def test_a_cover_is_exact_when_no_cell_is_cut():
    ones = np.ones(2)
    assert Cover(ones, ones, ones).exact
    assert not Cover(ones / 2, np.zeros(2), ones).exact


def axis_of_months() -> Axis:
    first, february, end = (float((day - date(1970, 1, 1)).days) for day in FIRST_FEBRUARY_END)
    return Axis("arrival", "date", np.array([first, february, end]), by="month")


FIRST_FEBRUARY_END = (date(2024, 1, 10), date(2024, 2, 1), date(2024, 3, 1))


@pytest.mark.parametrize(
    ("axis", "labels"),
    [
        (Axis("age", "integer", np.array([0, 1, 18, 20])), [0, "1 to 17", "18 to 19"]),
        (Axis("share", "number", np.array([0, 0.1, 1e6])), ["[0, 0.1)", "[0.1, 1000000]"]),
        (Axis("sex", "category", np.arange(3), ("F", "M")), ["F", "M"]),
        (Axis("married", "boolean", np.arange(3), (False, True)), [False, True]),
        (axis_of_months(), ["2024-01", "2024-02"]),
        (Axis("born", "date", np.array([0, 1, 2])), ["1970-01-01", "1970-01-02"]),
        (Axis("born", "date", np.array([-365, 0, 365]), by="year"), ["1969", "1970"]),
    ],
)
def test_labels(axis, labels):
    assert axis.labels() == labels
    assert axis.size == len(labels)


@pytest.mark.parametrize(
    ("axis", "literal", "number"),
    [
        (Axis("age", "integer", np.arange(5)), 3, 3.0),
        (Axis("age", "integer", np.arange(5)), "2.5", 2.5),
        (Axis("sex", "category", np.arange(3), ("F", "M")), "M", 1.0),
        (Axis("code", "category", np.arange(3), ("1", "2")), 2, 1.0),
        (Axis("married", "boolean", np.arange(3), (False, True)), True, 1.0),
        (Axis("married", "boolean", np.arange(3), (False, True)), "FALSE", 0.0),
        (axis_of_months(), "1970-01-03", 2.0),
        (axis_of_months(), date(1969, 12, 31), -1.0),
        (axis_of_months(), datetime(1970, 1, 2, 23, 59), 1.0),
    ],
)
def test_read(axis, literal, number):
    assert axis.read(literal) == number


@pytest.mark.parametrize(
    ("axis", "literal", "message"),
    [
        (Axis("age", "integer", np.arange(5)), "old", "age is a number; 'old' is not"),
        (Axis("age", "integer", np.arange(5)), True, "age is a number; 'True' is not"),
        (Axis("age", "integer", np.arange(5)), math.nan, "age is a number; 'nan' is not"),
        (Axis("age", "integer", np.arange(5)), None, "age is a number; 'None' is not"),
        (Axis("age", "integer", np.arange(5)), 10**400, "age is a number"),
        (Axis("sex", "category", np.arange(3), ("F", "M")), "f", "sex has no value 'f'; it has 'F', 'M'"),
        (axis_of_months(), "January", "write it as '2024-12-31', not 'January'"),
    ],
)
def test_read_refuses(axis, literal, message):
    with pytest.raises(QueryError, match=message):
        axis.read(literal)


def test_a_long_list_of_values_is_shown_in_part():
    axis = Axis("town", "category", np.arange(21), tuple(f"t{i}" for i in range(20)))
    with pytest.raises(QueryError, match=r"'t11', \.\.\.$"):
        axis.read("Atlantis")


def test_which_kinds_are_ordered_and_discrete():
    kinds = {kind: Axis("x", kind, np.arange(3)) for kind in ("integer", "number", "date", "category", "boolean")}
    assert [kind for kind, axis in kinds.items() if axis.ordered] == ["integer", "number", "date"]
    assert [kind for kind, axis in kinds.items() if not axis.discrete] == ["number"]


def test_amounts():
    low, middle, high = Axis("age", "integer", np.array([0, 10, 11])).amounts
    assert (low.tolist(), middle.tolist(), high.tolist()) == ([0, 10], [4.5, 10], [9, 10])
    low, middle, high = Axis("x", "number", np.array([0.0, 10.0])).amounts
    assert (low.tolist(), middle.tolist(), high.tolist()) == ([0], [5], [10])
    assert [amount.tolist() for amount in Axis("b", "boolean", np.arange(3), (False, True)).amounts] == [[0, 1]] * 3
    with pytest.raises(QueryError, match="sex is a category: it cannot be summed"):
        _ = Axis("sex", "category", np.arange(3), ("F", "M")).amounts


def test_axes_are_values():
    edges = np.arange(5.0)
    axis = Axis("age", "integer", edges)
    edges[0] = -1
    assert axis.edges[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        axis.edges[0] = -1
    twin = Axis("age", "integer", np.arange(5))
    assert axis == twin
    assert hash(axis) == hash(twin)
    assert axis != Axis("age", "integer", np.arange(1, 6))
    assert axis != Axis("years", "integer", np.arange(5))
    assert axis != "age"


def boxes(*sizes: int) -> Domain:
    return Domain(tuple(Axis(f"a{i}", "integer", np.arange(size + 1)) for i, size in enumerate(sizes)))


@PATIENT
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_cells_are_numbered_row_by_row(sizes):
    domain = boxes(*sizes)
    cells = np.arange(domain.size)
    codes = [domain.codes_along(name, cells).tolist() for name in domain.names]
    assert codes == [code.tolist() for code in np.unravel_index(cells, domain.shape)]


def test_a_domain_finds_its_axes_by_name():
    domain = boxes(2, 3)
    assert domain["a1"].size == 3
    assert ("a0" in domain, "b" in domain) == (True, False)
    assert [axis.name for axis in domain] == ["a0", "a1"]
    assert domain == boxes(2, 3) != boxes(3, 2)
    with pytest.raises(QueryError, match="no attribute 'b'; there are a0, a1"):
        domain.place("b")


def test_a_domain_may_span_more_cells_than_can_be_numbered():
    domain = boxes(*[2] * 1000)
    assert domain.size == 2**1000 > LARGEST_NUMBER and domain.along(["a7", "a0"]).size == 4


def test_a_domain_along_some_attributes_keeps_their_order():
    domain = boxes(2, 3, 4)
    first, _, last = domain.names
    assert domain.along([last, first]).shape == (2, 4)
    with pytest.raises(QueryError, match="no attribute"):
        domain.along(["nobody"])


def test_axes_too_long_to_lay_out_are_refused():
    with pytest.raises(SchemaError, match=r"33,554,433 cells along their axes, and 33,554,432 in all is the most"):
        refuse_too_many_values([2**25, 1])


def test_cell_numbers_near_the_limit_do_not_overflow():
    domain = boxes(*[2] * 62)
    last = np.array([domain.size - 1])
    assert [int(domain.codes_along(name, last)[0]) for name in domain.names] == [1] * 62


@PATIENT
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_partition_by_names_groups_equal_codes(sizes, data):
    domain = boxes(*sizes)
    names = data.draw(st.lists(st.sampled_from(domain.names), unique=True))
    partition = Partition.by(domain, names)
    cells = np.arange(domain.size)
    codes = list(zip(*(domain.codes_along(name, cells) for name in names), strict=True)) if names else [()] * len(cells)
    groups = dict(zip(codes, partition.labels.tolist(), strict=True))
    assert [groups[code] for code in codes] == partition.labels.tolist()
    assert len(set(groups.values())) == len(groups) == partition.size == math.prod(domain[n].size for n in names)


def test_partition_refuses_labels_that_do_not_fit():
    with pytest.raises(QueryError, match="a label for each of the 6 cells, got 5"):
        Partition(boxes(2, 3), np.zeros(5, dtype=np.int64))
    with pytest.raises(QueryError, match="or -1 for cells that are left out"):
        Partition(boxes(2), np.array([0, -2]))


def test_a_partition_keeps_its_own_labels():
    labels = np.array([[0, -1, 1], [1, 1, -1]])
    partition = Partition(boxes(2, 3), labels)
    labels[:] = 0
    assert partition.labels.tolist() == [0, -1, 1, 1, 1, -1]
    assert partition.size == 2
    assert Partition(boxes(2), np.array([-1, -1])).size == 0
