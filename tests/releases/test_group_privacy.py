"""Group privacy: each way to state a promise has its own conversion, and info and plan say it in a line."""

from __future__ import annotations

from math import exp

import pytest

import sfumato as sf
from sfumato.errors import BudgetError
from sfumato.kernel.budget import epsilon_for, rho_for
from sfumato.releases.group_privacy import group_privacy, in_words


def test_pure_epsilon_grows_with_the_family():
    assert [one.epsilon for one in sf.group_privacy("0.1", people=(1, 3, 10))] == [
        pytest.approx(each) for each in (0.1, 0.3, 1)
    ]


def test_rho_grows_with_the_square_and_so_beats_c_epsilon_for_pairs_at_the_same_delta():
    rho = rho_for(1, "1e-6")
    one, two = group_privacy(1, delta="1e-6", rho=rho, people=(1, 2))
    assert one.epsilon == 1 and two.epsilon == epsilon_for(4 * rho, "1e-6") and two.delta == 1e-6
    assert 2 < two.epsilon < 2.2  # c epsilon alone would come with a larger delta


def test_epsilon_and_delta_alone_pay_in_delta_too():
    (three,) = group_privacy(1, delta="1e-6", people=(3,))
    assert three.epsilon == 3 and three.delta == pytest.approx(1e-6 * (1 + exp(1) + exp(2)))
    (many,) = group_privacy(10, delta="1e-6", people=(100,))
    assert many.delta == 1 and many.factor < float("inf")


def test_a_line_says_it():
    assert in_words(group_privacy("0.5")) == (
        "For a family left out together: of 1, epsilon 0.5 (1.65 times); of 2, epsilon 1 (2.72 times); "
        "of 4, epsilon 2 (7.39 times)."
    )


@pytest.mark.parametrize("people", [(0,), (1.5,), (-1,)])
def test_groups_of_nobody_are_refused(people):
    with pytest.raises(BudgetError, match="1, 2, 3"):
        group_privacy(1, people=people)
