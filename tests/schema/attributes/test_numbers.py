"""The cells that numbers are gathered in, edge by edge."""

import math
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sfumato.errors import SchemaError
from sfumato.schema.attributes import Integer, Number
from sfumato.schema.parts import decimal, exact

PATIENT = settings(deadline=None)  # a busy machine is no reason to fail

EPOCH = date(1970, 1, 1)


@pytest.mark.parametrize(
    ("value", "fraction"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (" 1e-3 ", Fraction(1, 1000)),
        ("1E+3", Fraction(1000)),
        ("5.", Fraction(5)),
        ("-.5", Fraction(-1, 2)),
        ("1/3", Fraction(1, 3)),
        (Fraction(2, 7), Fraction(2, 7)),
        (Decimal("2.50"), Fraction(5, 2)),
        (3, Fraction(3)),
        (1e22, Fraction(10**22)),
        (5e-324, Fraction(5, 10**324)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.int64(7), Fraction(7)),
    ],
)
def test_exact_reads_the_decimal_text(value, fraction):
    number = exact(value)
    assert number == fraction
    assert type(number.numerator) is int


@pytest.mark.parametrize(
    "value",
    [
        *(True, None, [1], {}, "", "one", "1,000", "1_000", "1/0", "0x10", "٣", "1e1000000000", "9" * 10_000, 10**301),
        *(math.nan, math.inf, -math.inf, "nan", "inf", "-Infinity", Decimal("NaN"), 1j, np.bool_(True), EPOCH),
    ],
)
def test_exact_refuses_what_is_no_finite_number(value):
    with pytest.raises(ValueError, match=r"^(is|has) ") as refusal:
        exact(value)
    assert len(str(refusal.value)) < 200


@PATIENT
@given(st.fractions(max_denominator=10**12))
def test_decimal_is_read_back_exactly(number):
    written = decimal(number)
    assert exact(written) == number
    assert isinstance(written, int) == (number.denominator == 1)


@PATIENT
@given(st.integers(-(10**9), 10**9), st.integers(0, 9))
def test_decimal_writes_decimals_as_decimals(digits, places):
    assert "/" not in str(decimal(Fraction(digits, 10**places)))


cents = st.integers(-(10**6), 10**6).map(lambda n: Fraction(n, 100))
widths = st.integers(1, 10**4).map(lambda n: Fraction(n, 1000))


@PATIENT
@given(cents, widths, st.integers(2, 40), st.integers(1, 16).map(lambda part: Fraction(part, 16)))
def test_edges_by_width_are_correctly_rounded(lower, width, cells, part):
    upper = lower + width * (cells - 1) + width * part  # the last cell may be shorter
    attribute = Number(lower=lower, upper=upper, width=width)
    edges = attribute.axis("x").edges.tolist()
    assert edges == [float(lower + i * width) for i in range(cells)] + [float(upper)]
    assert attribute.size == cells


@PATIENT
@given(cents, widths, st.integers(1, 60))
def test_edges_by_bins_are_correctly_rounded(lower, span, bins):
    edges = Number(lower=lower, upper=lower + span, bins=bins).axis("x").edges.tolist()
    assert edges == [float(lower + span * i / bins) for i in range(bins + 1)]


@PATIENT
@given(cents, st.fractions(Fraction(1, 100), 100), st.integers(1, 60))
def test_a_grid_gives_the_edges_by_one_float_division(lower, span, bins):
    attribute = Number(lower=lower, upper=lower + span, bins=bins)
    grid, edges = attribute.grid, attribute.axis("x").edges
    assert edges.tolist() == [float(lower + span * i / bins) for i in range(bins + 1)]
    if grid is not None:
        a, b, den = grid
        assert [(a + i * b) / den for i in range(bins)] == edges[:-1].tolist()
        assert all(isinstance(part, int) and abs(part) <= 2**53 for part in (*grid, a + bins * b))


def test_tenths_are_the_floats_that_a_reader_writes():
    tenths = Number(lower=0, upper=1, width="0.1")
    assert tenths.axis("x").edges.tolist() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert tenths.grid == (0, 1, 10)


def test_a_grid_that_floats_cannot_hold_is_none_and_edges_are_still_right():
    lower, upper = Fraction(1, 10**9 + 7), Fraction(10**9)
    attribute = Number(lower=lower, upper=upper, bins=7)
    assert attribute.grid is None
    assert attribute.axis("x").edges.tolist() == [float(lower + (upper - lower) * i / 7) for i in range(8)]
    assert Number(lower=0, upper=1, cuts=["0.5"]).grid is None


def test_cuts_are_the_inner_edges():
    assert Number(lower=0, upper=10, cuts=[0.3, 2]).axis("x").edges.tolist() == [0, 0.3, 2, 10]
    assert Integer(lower=0, upper=99, cuts=[18, 99]).axis("x").labels() == ["0 to 17", "18 to 98", 99]


def test_edges_that_floats_cannot_tell_apart_are_refused():
    with pytest.raises(SchemaError, match=r"attributes\.mass has cells so narrow"):
        Number(lower=10**17, upper=10**17 + 100, bins=100).axis("mass")


def test_a_large_axis_is_quick_and_a_larger_one_is_refused():
    assert Number(lower=0, upper=1, bins=10**7).axis("x").edges[1] == 1e-7
    assert Integer(lower=1, upper=10**7).size == 10**7
    with pytest.raises(ValidationError, match="more than 10,000,000 cells"):
        Integer(lower=0, upper=10**7)
    with pytest.raises(ValidationError, match="more than 10,000,000 cells"):
        Number(lower=0, upper=1, width="1e-9")


def integers_of(axis):
    return [list(range(int(low), int(high))) for low, high in pairwise(axis.edges)]


@PATIENT
@given(st.integers(-1000, 1000), st.integers(1, 200), st.data())
def test_integer_cells_hold_every_value_once_and_in_order(lower, span, data):
    upper = lower + span
    rule = data.draw(st.sampled_from(["none", "bins", "width", "cuts"]))
    given_rule = {
        "none": st.just({}),
        "bins": st.fixed_dictionaries({"bins": st.integers(1, span + 1)}),
        "width": st.fixed_dictionaries({"width": st.integers(1, span + 1)}),
        "cuts": st.fixed_dictionaries({"cuts": st.sets(st.integers(lower + 1, upper), min_size=1).map(sorted)}),
    }[rule]
    keys = data.draw(given_rule)
    attribute = Integer(lower=lower, upper=upper, **keys)
    cells = integers_of(attribute.axis("x"))
    assert [value for cell in cells for value in cell] == list(range(lower, upper + 1))
    assert len(cells) == attribute.size
    sizes = [len(cell) for cell in cells]
    if rule == "none":
        assert set(sizes) == {1}
    elif rule == "bins":
        assert len(sizes) == keys["bins"]
        assert max(sizes) - min(sizes) <= 1
    elif rule == "width":
        assert set(sizes[:-1]) <= {keys["width"]}
        assert 1 <= sizes[-1] <= keys["width"]
    else:
        assert [cell[0] for cell in cells[1:]] == keys["cuts"]
    if attribute.grid is not None:
        a, b, den = attribute.grid
        assert den == 1
        assert [a + i * b for i in range(len(cells))] == [cell[0] for cell in cells]


def test_integers_near_the_end_of_what_floats_hold():
    attribute = Integer(lower=-(2**53) + 1, upper=2**53 - 1, bins=1000)
    edges = attribute.axis("x").edges
    values = 2**54 - 1
    assert edges.tolist() == [float(1 - 2**53 + i * values // 1000) for i in range(1001)]
    assert attribute.grid is None
    with pytest.raises(ValidationError, match="below 2 to the power of 53"):
        Integer(lower=0, upper=2**53)


def test_attributes_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        Integer(lower=0, upper=9).lower = 1


@pytest.mark.parametrize("attribute", [{"lower": 0, "upper": 9, "width": 5}, {"lower": 0, "upper": 10, "cuts": [5]}])
@pytest.mark.parametrize("kind", [Integer, Number])
def test_missing_values_have_the_last_cell_behind_all_values(kind, attribute):
    plain, kept = kind(**attribute), kind(**attribute, missing="keep")
    assert (kept.places, kept.size) == (plain.size, plain.size + 1) == (2, 3)
    axis = kept.axis("x")
    assert axis.labels() == [*plain.axis("x").labels(), None]
    assert axis.edges.tolist() == plain.axis("x").edges.tolist()
    assert kept.grid == plain.grid
