"""A table without negative cells behind noisy Walsh-Hadamard coefficients: the linear program of Barak et al. 2007.

Minimise b subject to w >= 0 and |coefficient - (row, w)| <= b for every coefficient. The true table satisfies it with
the largest noise as b, so no coefficient of the solution is farther from the measured one than that, nor farther than
twice that from the true one. Cells that no value has are left out. The simplex method ends in a corner, where at most
as many cells as there are coefficients, and one more, are not zero: rounding to whole numbers moves all cells together
by half of that, which the bound of theorem 4 rests on.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats, Whole


def whole_table(rows: Floats, coefficients: Whole) -> Whole | None:
    """Cells that are whole numbers, none negative; None if the solver gives up.

    rows: the Walsh rows over all cells, written out.
    """
    from scipy.optimize import linprog

    number, cells = rows.shape
    if not coefficients.any():
        return np.zeros(cells, dtype=np.int64)
    slack = -np.ones((number, 1))
    bounds = np.vstack([np.hstack([rows, slack]), np.hstack([-rows, slack])])
    # In units of the largest coefficient, so that the solver's tolerances mean the same for every table.
    unit = float(np.abs(coefficients).max())
    scaled = coefficients / unit
    found = linprog(
        np.append(np.zeros(cells), 1.0), A_ub=bounds, b_ub=np.concatenate([scaled, -scaled]), method="highs-ds"
    )
    if found.status != 0:
        return None
    rounded: Whole = np.maximum(np.rint(unit * found.x[:-1]), 0.0).astype(np.int64)
    return rounded
