"""The data sets of DPBench and the errors to reach on them; the files are not part of the project.

Hay, Machanavajjhala, Miklau, Chen, Zhang, SIGMOD 2016. The folder holds NAME.n4096.npy (counts), 2D/NAME.npy (256 x 256
counts, summed here by blocks of 2 x 2), and 2,000 ranges and rectangles, both ends included.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from boxes import Boxes
from shapes import Case, schema_of

LINES = {"ADULT": "ADULTFRANK", **{name: name for name in ("NETTRACE", "SEARCHLOGS", "INCOME", "PATENT")}}
GRIDS = {"STROKE": "Stroke_2D_256_256", "ADULT-2D": "Adult_2D_256_256", "BEIJING-E": "BeijingTaxiE_256_256"}
CELLS, SIDE = 4096, 128


@dataclass(frozen=True)
class Target:
    """For `sfumato`: the error of the best of nine published algorithms, run from their own code, and that to reach."""

    peer: float
    reach: float


_LOW = {
    "ADULT": Target(51.9, 46),
    "NETTRACE": Target(50.8, 44),
    "SEARCHLOGS": Target(143, 115),
    "INCOME": Target(195, 128),
    "PATENT": Target(195, 150),
    "STROKE": Target(292, 250),
    "ADULT-2D": Target(77, 75),
    "BEIJING-E": Target(454, 400),
}
_HIGH = {
    "ADULT": Target(8.8, 8.0),
    "NETTRACE": Target(4.9, 4.5),
    "SEARCHLOGS": Target(19.5, 14),
    "INCOME": Target(15.3, 13.5),
    "PATENT": Target(19.5, 16),
    "STROKE": Target(39, 39),
    "ADULT-2D": Target(12, 12),
    "BEIJING-E": Target(39.5, 38),
}
TARGETS = {(name, Fraction(1, 10)): found for name, found in _LOW.items()} | {
    (name, Fraction(1)): found for name, found in _HIGH.items()
}


def line(folder: Path, name: str) -> np.ndarray:
    """The counts of a data set with one attribute."""
    return np.load(folder / f"{LINES[name]}.n{CELLS}.npy").astype(np.int64)


def grid(folder: Path, name: str) -> np.ndarray:
    """The counts of a data set with two attributes."""
    return np.load(folder / "2D" / f"{GRIDS[name]}.npy").astype(np.int64).reshape(SIDE, 2, SIDE, 2).sum(axis=(1, 3))


def ranges(folder: Path) -> Boxes:
    """The 2,000 ranges: columns low, high."""
    ends = np.load(folder / f"ranges1d_n{CELLS}_q2000_seed9001.npy").astype(np.int64)
    return Boxes(ends[:, :1], ends[:, 1:])


def rectangles(folder: Path) -> Boxes:
    """The 2,000 rectangles: columns row low, row high, column low, column high."""
    ends = np.load(folder / f"rects2d_n{SIDE}_q2000_seed9001.npy").astype(np.int64)
    return Boxes(ends[:, ::2], ends[:, 1::2])


def dpbench_cases(folder: Path) -> list[Case]:
    """All data sets with the queries given for them."""
    on_line, on_grid = schema_of((CELLS,)), schema_of((SIDE, SIDE))
    asked, boxed = ranges(folder), rectangles(folder)
    cases = [Case(name, on_line, line(folder, name), asked) for name in LINES]
    return cases + [Case(name, on_grid, grid(folder, name), boxed) for name in GRIDS]
