"""Public shapes that a table might have: what a plan tries mechanisms on whose error depends on the data.

None of them is drawn from anybody's data. Each is a density that is positive everywhere, made by formula, from which
`rows` people are taken as if independently, so that cells scatter as real counts do: a few rows leave most cells of a
sparse shape empty, many rows fill them. The scatter comes from a hash of the cell's number, so a plan is the same
tomorrow.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, prod

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.queries.workload import GOLDEN

Counts = NDArray[np.int64]

ROWS_PER_CELL = 10  # guessed where a schema states no expected_rows
FEW = 30.0  # rows in a cell up to which its scatter is Poisson to the letter, and nearly normal beyond


def guessed_rows(cells: int) -> int:
    """How many rows to assume where the schema says nothing."""
    return ROWS_PER_CELL * cells


def prior_tables(sizes: tuple[int, ...], rows: int) -> dict[str, Counts]:
    """Counts by cell, row-major, of tables of each shape with about `rows` rows.

    >>> {name: table.shape for name, table in prior_tables((4, 2), 100).items()}["smooth"]
    (8,)
    """
    return {name: _scattered(rows * made / made.sum(), place) for place, (name, made) in enumerate(_densities(sizes))}


def _densities(sizes: tuple[int, ...]) -> list[tuple[str, Floats]]:
    return [(name, shape(sizes).reshape(-1)) for name, shape in SHAPES.items()]


def _even(sizes: tuple[int, ...]) -> Floats:
    """The same everywhere."""
    return np.ones(sizes)


def _smooth(sizes: tuple[int, ...]) -> Floats:
    """Three wide hills on a plain."""
    hills = ((0.5, 0.15, 0.25), (0.3, 0.10, 0.6), (0.2, 0.05, 0.85))  # weight, width, place
    total = np.full(sizes, 0.05)
    for number, (weight, width, place) in enumerate(hills):
        total += weight * _hill(sizes, [(place + number * axis * GOLDEN) % 1.0 for axis in range(len(sizes))], width)
    return total


def _sparse(sizes: tuple[int, ...]) -> Floats:
    """Narrow clusters whose weights fall by a power law; a thousandth of the rows lies anywhere."""
    cells = prod(sizes)
    clusters = max(2, round(cells**0.5 / 4))
    total = np.zeros(sizes)
    for rank in range(1, clusters + 1):
        centre = [hashed(np.array([rank * 31 + axis], dtype=np.uint64), 7).item() for axis in range(len(sizes))]
        total += rank**-1.2 * _hill(sizes, centre, 0.0, reach=1.0)
    return np.asarray(total / total.sum() + 1e-3 / cells)


def _spike(sizes: tuple[int, ...]) -> Floats:
    """Half of all rows in one cell, the others spread evenly."""
    total = np.full(sizes, 0.5 / prod(sizes))
    total[tuple(size // 3 for size in sizes)] += 0.5
    return total


def _rough(sizes: tuple[int, ...]) -> Floats:
    """Cells that say nothing about their neighbours: log-normal weights."""
    return np.asarray(np.exp(1.5 * _normal(prod(sizes), 11)).reshape(sizes))


SHAPES: dict[str, Callable[[tuple[int, ...]], Floats]] = {
    "even": _even,
    "smooth": _smooth,
    "sparse": _sparse,
    "spike": _spike,
    "rough": _rough,
}


def _hill(sizes: tuple[int, ...], centre: list[float], width: float, reach: float = 0.0) -> Floats:
    """A bell of a relative width, or one that reaches a number of cells."""
    hill = np.ones(())
    for size, place in zip(sizes, centre, strict=True):
        distance = (np.arange(size) + 0.5 - place * size) / (width * size + reach)
        hill = np.multiply.outer(hill, np.exp(-0.5 * np.minimum(distance**2, 1400.0)))
    return np.asarray(hill)


def _scattered(expected: Floats, salt: int) -> Counts:
    """Whole counts around what is expected, as of people who come independently of each other."""
    counts = np.maximum(0.0, np.rint(expected + np.sqrt(expected) * _normal(len(expected), 100 + salt)))
    few = np.flatnonzero(expected <= FEW)
    uniform = hashed(few.astype(np.uint64), 200 + salt)
    chance = np.exp(-expected[few])
    below, found = chance.copy(), np.zeros(len(few))
    for number in range(1, int(4 * FEW)):  # the smallest count whose chance to be reached exceeds the hash
        found += uniform > below
        chance = chance * expected[few] / number
        below += chance
    counts[few] = found
    return counts.astype(np.int64)


def _normal(count: int, salt: int) -> Floats:
    """Numbers that look normal, one for each place (Box and Muller)."""
    places = np.arange(count, dtype=np.uint64)
    one, two = hashed(places, 2 * salt), hashed(places, 2 * salt + 1)
    return np.asarray(np.sqrt(-2.0 * np.log(one)) * np.cos(2.0 * pi * two))


def hashed(places: NDArray[np.uint64], salt: int) -> Floats:
    """Numbers in (0, 1) that look uniform, one for each place: the last steps of splitmix64."""
    mixed = (places + np.uint64(salt * 2**32 + 1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray(((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)
