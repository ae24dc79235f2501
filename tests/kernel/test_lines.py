"""Lines spend what they were given: all of it beforehand, and by pieces afterwards."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import CENSUS, curator_of

from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.measurement import Laplace
from sfumato.schema import Schema

HALF, PART = Budget.pure(Fraction(1, 2)), Budget.pure(Fraction(1, 4))
MEDIAN = Fraction(1, 2)


def lines(budget: Budget, pieces: int = 4):
    curator = curator_of(Schema.from_dict({**CENSUS, "measures": {}}), np.arange(200).reshape(100, 2))
    return curator, curator.lines(["sex", "age"], budget, pieces=pieces)


def test_lines_put_the_last_attribute_along_them_and_charge_the_whole_at_once():
    curator, made = lines(HALF)
    assert curator.charge.fullest == Fraction(1, 2) and (made.number, made.length) == (2, 400)
    counted = made.count([np.array([0, 400])] * 2, HALF)
    # Laplace noise of scale 2: 40 away has a chance of exp(-20).
    assert abs(counted.answers[0] - np.arange(0, 200, 2).sum()) < 40
    assert counted.noise == Laplace(Fraction(2))
    assert curator.charge.fullest == Fraction(1, 2) == made.charge.fullest
    with pytest.raises(PrivacyError):
        made.cut(0, MEDIAN, Budget.pure(Fraction(1, 100)), first=0, end=400)


def test_parts_of_a_line_do_not_load_each_other():
    _, made = lines(HALF)
    cut = made.cut(0, MEDIAN, PART, first=0, end=400) + 1
    for first, end in ((0, cut), (cut, 400)):
        made.cut(0, MEDIAN, PART, first=first, end=end)
    made.cut(1, MEDIAN, HALF, first=0, end=400)
    assert made.charge.fullest == Fraction(1, 2)
    with pytest.raises(PrivacyError):
        made.cut(0, MEDIAN, PART, first=cut - 1, end=cut)


@pytest.mark.parametrize("edges", [[0, 400], [[0, 399]] * 2, [[0, 5, 5, 400]] * 2, [[1, 400]] * 2, [[0, 400]]])
def test_runs_that_leave_something_out_are_refused_before_they_are_paid(edges):
    _, made = lines(HALF)
    with pytest.raises((QueryError, TypeError)):
        made.count(edges, HALF)
    assert made.charge.fullest == 0


def test_rho_is_refused():
    _, made = lines(HALF)
    with pytest.raises(QueryError, match="pure epsilon"):
        made.cut(0, MEDIAN, Budget.zcdp(Fraction(1)), first=0, end=400)
