"""The paper's tables: made up in their shape, or the real ones where a folder has them.

Counts along 256 cells. A folder may hold nettrace.csv, searchlogs.csv and social.csv, one count a line, in order;
longer ones are summed to 256 cells.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sfumato.errors import TableError
from sfumato.lab.reproduce.synthetic import Counts, even_numbers, normal_numbers, sampled

CELLS = 256
ROWS = {"NetTrace": 65_536, "Search logs": 32_768, "Social network": 32_768}  # as the paper says
FILES = {"NetTrace": "nettrace.csv", "Search logs": "searchlogs.csv", "Social network": "social.csv"}
BINS = 10  # of the simulated histogram


def tables(folder: Path | None = None) -> dict[str, Counts]:
    """Every table by name; those of the folder in place of ours."""
    found = made_up()
    for name, file in FILES.items():
        if folder is not None and (folder / file).exists():
            found[name] = _read(folder / file)
    return found


def made_up() -> dict[str, Counts]:
    """Connections of hosts, which fall off steeply; searches by day, with a season; friends, which fall off slowly."""
    place = np.arange(CELLS)
    rough = np.exp(0.6 * normal_numbers(CELLS, seed=17))
    masses = {
        "NetTrace": (1.0 + place) ** -1.6 * rough,
        "Search logs": (1.5 + np.sin(place / CELLS * 11.0 * np.pi)) * np.exp(place / CELLS) * rough,
        "Social network": np.exp(-place / 40.0) * rough,
    }
    return {name: sampled(mass, ROWS[name], seed=2017) for name, mass in masses.items()}


def histogram() -> Counts:
    """Ten bins with numbers by chance."""
    return np.floor(1000 * even_numbers(BINS, seed=3)).astype(np.int64)


def _read(path: Path) -> Counts:
    try:
        counts = np.loadtxt(path, dtype=np.int64, ndmin=1)
    except (OSError, ValueError):
        raise TableError(f"{path.name} is not a list of whole numbers, one a line") from None
    if len(counts) < CELLS or (counts < 0).any():
        raise TableError(f"{path.name} needs at least {CELLS} counts, none of them below 0")
    return np.asarray(np.add.reduceat(counts, np.arange(CELLS) * len(counts) // CELLS))
