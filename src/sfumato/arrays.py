"""Names for the array types in signatures, and size limits that several modules share.

Beyond a limit, the work is done in another way or refused.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]  # numbers that are counted or summed
Codes = NDArray[np.int64]  # places: of cells, of rows, of values on an axis
Flags = NDArray[np.bool_]


MOST_DENSE = 2**25  # cells that are laid out in full; larger domains are published in the sparse form
MOST_RUNNING = 2**20  # cells of a series with running totals, of which the noise of every part is kept
MOST_TRACKED = 2**25  # cells for which the charge keeps a number each; larger domains use one bound for all cells
MOST_MISFIT_GROUPS = 2**25  # groups of queries whose misfits are summed, a number each
MOST_SPANNED = 2**25  # columns of a measurement in a file that no estimate leans on
MOST_LAID_OUT = 2**25  # cells that are looked at one by one, where a region in SQL is no box
