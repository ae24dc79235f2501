"""Running totals: the square root of the prefix matrix against the explicit matrix, and its known figures."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.queries.running import GRID, Running, coefficients, column_square, on_grid


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
    assert np.sqrt(column_square(periods)) / GRID == pytest.approx(column, rel=1e-12)
    assert np.allclose(Running(periods).single(), column * np.sqrt((back**2).sum(axis=1)), rtol=1e-9)
    totals = np.tril(np.ones((periods, periods))) @ back
    assert np.allclose(Running(periods).totals(), column * np.sqrt((totals**2).sum(axis=1)), rtol=1e-9)
