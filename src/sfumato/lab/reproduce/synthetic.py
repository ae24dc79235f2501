"""Public synthetic tables that stand in for the papers' data, and runs of the product's mechanisms on them.

Tables are made by formula and by hash, so that they never change. Nothing here is private and nothing here protects
anybody. Mechanisms run exactly as they do on private tables, with noise from the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.queries import Workload
from sfumato.releases.contents.content import Content
from sfumato.schema import Schema

Counts = NDArray[np.int64]

CENSUS_ROWS = 10**6  # TR-2010-003, section 8: the rows, ages and incomes of its census
AGES, INCOMES = 79, 100
ADULT_ROWS = 32_561  # rows of the UCI Adult training data


def even_numbers(count: int, seed: int) -> Floats:
    """Uniform pseudo-random numbers in [0, 1): a hash of seed and index (the mixing step of SplitMix64).

    >>> even_numbers(10_000, seed=1).mean().round(2)
    np.float64(0.5)
    """
    mixed = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(seed * 0x632BE59BD9B4E019 % 2**64)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray((mixed >> np.uint64(11)) / 2.0**53, dtype=np.float64)


def normal_numbers(count: int, seed: int) -> Floats:
    """Normal pseudo-random numbers, from two uniform ones each (Box and Muller)."""
    radius, turn = even_numbers(2 * count, seed).reshape(2, count)
    return np.asarray(np.sqrt(-2.0 * np.log1p(-radius)) * np.cos(2.0 * np.pi * turn), dtype=np.float64)


def rows_of(mass: Floats, rows: int) -> Counts:
    """Integer counts in proportion to a mass that sum to `rows` (largest remainders).

    >>> rows_of(np.array([1.0, 1.0, 1.0]), 10).tolist()
    [4, 3, 3]
    """
    exact = mass.ravel() / mass.sum() * rows
    counts = np.floor(exact).astype(np.int64)
    up = np.argsort(counts - exact, kind="stable")[: rows - int(counts.sum())]
    counts[up] += 1
    return np.asarray(counts.reshape(mass.shape))


def sampled(mass: Floats, rows: int, seed: int) -> Counts:
    """Counts of `rows` rows that fall into cells by chance, with probabilities in proportion to a mass."""
    edges = np.cumsum(mass.ravel()) / mass.sum()
    cells = np.searchsorted(edges, even_numbers(rows, seed), side="right")
    return np.bincount(np.minimum(cells, mass.size - 1), minlength=mass.size).reshape(mass.shape).astype(np.int64)


def census_incomes() -> Counts:
    """A million incomes over 100 classes: most are small, a few large, and round classes are fuller."""
    place = np.arange(INCOMES)
    mass = np.exp(-((np.log1p(place) - 3.0) ** 2) / 0.9) * (1.0 + 0.5 * (place % 5 == 0))
    return sampled(mass, CENSUS_ROWS, seed=2010)


def census_ages_and_incomes() -> Counts:
    """A million rows over 79 ages and 100 incomes: income rises with age and then falls; many cells stay empty."""
    age, income = np.arange(AGES)[:, None], np.arange(INCOMES)[None, :]
    peak = 1.0 + 2.6 * np.sin(np.pi * np.minimum(age / 70.0, 1.0)) ** 0.7
    mass = np.exp(-((np.log1p(income) - peak) ** 2) / 0.35) * np.exp(-((age / 55.0) ** 4))
    mass *= 1.0 + 0.5 * (income % 5 == 0)
    return sampled(mass, CENSUS_ROWS, seed=2011)


def continuous_grid(side: int = 32) -> Counts:
    """A smooth table in two dimensions: two round hills on a plain (ISPE's continuous data)."""
    down, across = np.meshgrid(*[np.linspace(0.0, 1.0, side)] * 2, indexing="ij")
    hills = 60 * np.exp(-((down - 0.35) ** 2 + (across - 0.4) ** 2) / 0.05)
    hills += 40 * np.exp(-((down - 0.75) ** 2 + (across - 0.7) ** 2) / 0.03)
    return np.asarray(np.rint(hills + 5), dtype=np.int64)


def random_grid(side: int = 32) -> Counts:
    """Unstructured table: every cell uniform on 0 to 99 rows (ISPE's random data)."""
    return np.floor(100 * even_numbers(side * side, seed=5)).astype(np.int64).reshape(side, side)


def adult_grid() -> Counts:
    """Ages 17 to 80 by hours a week in threes, 32,561 rows: a ridge at 40 hours, empty corners (like UCI Adult)."""
    age, hours = np.arange(17, 81)[:, None], np.arange(1.5, 97.5, 3.0)[None, :]
    working = np.exp(-((hours - 40.0) ** 2) / 300.0) * 0.4 + 0.6 * (np.abs(hours - 40.5) < 1.5)
    old = 1.0 / (1.0 + np.exp((age - 60) / 4.0)) + 0.08
    young = 1.0 - 0.7 * np.exp(-(((age - 17) / 6.0) ** 2)) * (hours > 35)
    mass = np.exp(-(((age - 36) / 21.0) ** 2)) * working * old * young
    return sampled(mass, ADULT_ROWS, seed=1996)


@dataclass(frozen=True)
class Described:
    """Data set of WD's Table 1, as the paper describes it."""

    name: str
    rows: int
    zero_share: float
    lumpiness: float  # ours: how unevenly the full cells are filled, as the spread of the logarithm


WD_TABLE_1 = (
    Described("Adult", 17_665, 0.97998, 1.5),
    Described("Patents", 27_948_226, 0.0620118, 0.5),
    Described("Income", 20_787_122, 0.44971, 2.0),
    Described("Nw", 32_287_151, 0.00268, 2.0),
    Described("Fidata", 3_519_442, 0.58178, 2.5),
    Described("Nw2", 32_678_757, 0.0, 2.2),
)


def like(described: Described, cells: int = 4096) -> Counts:
    """Histogram with the rows and empty cells that a paper describes; cells lognormal, without an order."""
    seed = described.rows % 1000
    mass = np.exp(described.lumpiness * normal_numbers(cells, seed))
    emptied = np.argsort(even_numbers(cells, seed + 1))[: round(described.zero_share * cells)]
    mass[emptied] = 0.0
    return rows_of(mass, described.rows)


Recipe = Callable[[Curator, Schema, Budget, Workload | None], Content]  # a mechanism's own function


@cache
def schema_of(shape: tuple[int, ...]) -> Schema:
    """A schema of ordered attributes with these numbers of cells, one row per person."""
    attributes = {f"axis_{place}": {"type": "integer", "lower": 0, "upper": n - 1} for place, n in enumerate(shape)}
    unit = {"column": "person", "contributions": 1}
    return Schema.from_dict(
        {"dataset": "made_up", "privacy_unit": unit, "budget": {"epsilon": 100}, "attributes": attributes}
    )


def curator_of(counts: NDArray[np.int64], epsilon: Fraction, entropy: Entropy) -> Curator:
    """Curator over made-up counts, with a charge of its own."""
    return over_counts(schema_of(counts.shape), counts, Budget.pure(epsilon), entropy)


def released(
    mechanism: Recipe, counts: NDArray[np.int64], epsilon: Fraction, entropy: Entropy, workload: Workload | None = None
) -> Floats:
    """The estimate of every cell that a mechanism publishes, in the shape of the counts."""
    curator, schema = curator_of(counts, epsilon, entropy), schema_of(counts.shape)
    content = mechanism(curator, schema, Budget.pure(epsilon), workload)
    return content.cells().reshape(counts.shape)
