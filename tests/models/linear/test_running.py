"""Running totals: the square root of the prefix matrix against the explicit matrix, and its known figures."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.models.linear.strategies.running import PARTS, Running, coefficients, in_parts, inverse, rounded_errors


def _toeplitz(row) -> np.ndarray:
    size = len(row)
    return np.array([[float(row[i - j]) if i >= j else 0.0 for j in range(size)] for i in range(size)])


def test_the_square_root_of_the_prefix_matrix_is_exact():
    row = coefficients(40)
    for total in range(40):  # sums of c_i c_(k-i) are all 1
        assert sum(row[i] * row[total - i] for i in range(total + 1)) == 1
    back = inverse(40)
    assert [sum(row[i] * back[k - i] for i in range(k + 1)) for k in range(40)] == [1] + [0] * 39
    assert all(4**k % each.denominator == 0 for k, each in enumerate(row))


@pytest.mark.parametrize(("periods", "figure"), [(12, 1.71), (60, 2.21), (120, 2.43), (365, 2.78)])
def test_errors_of_running_totals_are_the_figures_and_those_of_the_explicit_matrix(periods, figure):
    root = _toeplitz(coefficients(periods))
    sensitivity = np.sqrt((root**2).sum(axis=0).max())
    explicit = sensitivity * np.sqrt((root**2).sum(axis=1))
    found = Running(periods).totals()
    assert np.allclose(found, explicit, rtol=1e-12)
    assert np.sqrt((found**2).mean()) == pytest.approx(figure, abs=0.005)  # root mean square over all running totals
    assert found[-1] == found.max() < 1.09 * figure
    least = np.linalg.svd(np.tril(np.ones((periods, periods))), compute_uv=False).sum() / periods
    assert 1.0 < figure / least < 1.11  # nothing is below: the nuclear norm of the prefix matrix (Matousek et al.)
    assert Running(periods).anew()[-1] == pytest.approx(np.sqrt(periods))
    assert np.allclose(Running(periods).single(), sensitivity * np.sqrt((np.linalg.inv(root) ** 2).sum(axis=1)))


def test_coefficients_in_whole_parts_are_within_a_hundred_thousandth_of_the_square_root():
    for periods in (12, 120, 365):
        assert all(isinstance(each, int) and 0 < each <= PARTS for each in in_parts(periods))
        assert np.allclose(rounded_errors(periods), Running(periods).totals(), rtol=1e-5)
    rounded = _toeplitz([each / PARTS for each in in_parts(30)])
    explicit = np.sqrt((rounded**2).sum(axis=0).max()) * np.sqrt(
        ((np.tril(np.ones((30, 30))) @ np.linalg.inv(rounded)) ** 2).sum(axis=1)
    )
    assert np.allclose(rounded_errors(30), explicit, rtol=1e-9)


@pytest.mark.parametrize("most", [1, 2, 3, 8])
def test_no_choice_of_periods_moves_the_measurements_more_than_the_first_ones(most):
    root = _toeplitz(coefficients(8))
    every = [np.linalg.norm(root[:, list(chosen)].sum(axis=1)) for chosen in combinations(range(8), most)]
    assert Running(8, most).sensitivity == pytest.approx(max(every), rel=1e-12)
