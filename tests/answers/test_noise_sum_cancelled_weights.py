from fractions import Fraction

import pytest

from sfumato.answers.noise_sum import half_width
from sfumato.measurement import Laplace

NOISE = Laplace(Fraction(2))


@pytest.mark.parametrize("left", [0.1 + 0.2 - 0.3, 5.55e-17, 1e-160, 1e-300])
def test_what_is_left_of_weights_that_cancel_changes_nothing(left):
    """A share of the whole has weights 1 - r with r = 1, which floating point leaves at 1e-17."""
    assert half_width([(1.0, NOISE, 50), (left, NOISE, 10_000)], 0.95) == half_width([(1.0, NOISE, 50)], 0.95)
