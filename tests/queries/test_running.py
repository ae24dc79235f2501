"""Running totals: the square root of the prefix matrix against the explicit matrix, and its known figures."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from sfumato.queries.ranges import GRID, Running, coefficients, on_grid, worst_square


def _toeplitz(row) -> np.ndarray:
    size = len(row)
    return np.array([[float(row[i - j]) if i >= j else 0.0 for j in range(size)] for i in range(size)])


def test_the_square_root_of_the_prefix_matrix_is_exact():
    row = coefficients(40)
    for total in range(40):  # sums of c_i c_(k-i) are all 1
        assert sum(row[i] * row[total - i] for i in range(total + 1)) == 1


@pytest.mark.parametrize(("periods", "figure"), [(12, 1.71), (60, 2.21), (120, 2.43), (365, 2.78)])
def test_errors_of_running_totals_are_the_figures_and_those_of_the_explicit_matrix(periods, figure):
    root = _toeplitz(coefficients(periods))
    sensitivity = np.sqrt((root**2).sum(axis=0).max())
    ideal = sensitivity * np.sqrt((root**2).sum(axis=1))
    found = Running(periods).totals()
    assert np.allclose(found, ideal, rtol=2e-4)  # what the grid loses; 1.02 was asked for
    assert np.sqrt((found**2).mean()) == pytest.approx(figure, abs=0.005)  # root mean square over all running totals
    assert found[-1] == found.max() < 1.09 * figure
    least = np.linalg.svd(np.tril(np.ones((periods, periods))), compute_uv=False).sum() / periods
    assert 1.0 < figure / least < 1.11  # nothing is below: the nuclear norm of the prefix matrix (Matousek et al.)
    assert Running(periods).anew()[-1] == pytest.approx(np.sqrt(periods))


@pytest.mark.parametrize("periods", [1, 2, 30, 365])
def test_errors_are_those_of_the_matrix_on_the_grid(periods):
    assert on_grid(periods)[0] == GRID and all(isinstance(each, int) and 0 < each <= GRID for each in on_grid(periods))
    measured = _toeplitz([each / GRID for each in on_grid(periods)])
    column = np.sqrt((measured**2).sum(axis=0).max())
    back = np.linalg.inv(measured)
    assert np.sqrt(float(worst_square(periods))) / GRID == pytest.approx(column, rel=1e-12)
    assert np.allclose(Running(periods).single(), column * np.sqrt((back**2).sum(axis=1)), rtol=1e-9)
    totals = np.tril(np.ones((periods, periods))) @ back
    assert np.allclose(Running(periods).totals(), column * np.sqrt((totals**2).sum(axis=1)), rtol=1e-9)


@pytest.mark.parametrize("periods", range(1, 11))
def test_no_periods_of_a_person_move_measurements_by_more_than_the_first_ones(periods):
    """Theorem 14, against all sets of columns of the matrix, in whole numbers."""
    row = on_grid(periods)
    columns = [np.array([0] * place + [*row[: periods - place]]) for place in range(periods)]
    longest = {
        many: max(int((sum(chosen) ** 2).sum()) for chosen in combinations(columns, many))
        for many in range(1, periods + 1)
    }
    for together in range(1, periods + 3):
        shares = [Fraction(longest[many], many) for many in range(1, min(together, periods) + 1)]
        assert worst_square(periods, together) == max(shares)
        assert all(longest[many] == int((sum(columns[:many]) ** 2).sum()) for many in range(1, len(shares) + 1))


def test_of_nearly_all_periods_fewer_may_count_for_more_each():
    """Runs follow each other, so that a person may be in eleven periods of one and in one of the next."""
    prefix = np.cumsum(on_grid(12))
    assert worst_square(12, 12) > Fraction(int((prefix**2).sum()), 12)
    assert worst_square(12, 12) == worst_square(12, 11)
