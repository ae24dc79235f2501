"""sfumato: what it spends, what it finds on tables of different shapes, and that it takes either kind of noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of
from grid_tables import line

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.measurement import Gaussian, Laplace
from sfumato.models.calibration.misfits_by_kind import part_of_budget
from sfumato.models.sums.fit import AveragesFit
from sfumato.models.tree.fit import MOST_LEAVES, TreeFit
from sfumato.models.tree.measure import MECHANISM, sfumato
from sfumato.queries import Prefix, Ranges, Workload, default_workload
from sfumato.schema import Schema

CUBE = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": {"column": "id", "contributions": 3},
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 20},
            "g": {"type": "category", "values": ["a", "b", "c"]},
            "y": {"type": "integer", "lower": 0, "upper": 6},
        },
        "measures": {"m": {"lower": 0, "upper": 10, "step": 1, "missing": "drop"}},
    }
)


@pytest.mark.parametrize("budget", [Budget.pure(Fraction(1, 3)), Budget.zcdp(Fraction(1, 7))])
def test_spends_exactly_its_budget_on_several_statistics_and_several_rows_each(budget):
    size = CUBE.domain.size
    curator = curator_of(CUBE, np.arange(size) // 9, epsilon=Fraction(1, 3), rho=budget.rho)
    cube = sfumato(curator, CUBE, budget, default_workload(CUBE.domain))
    assert curator.charge.fullest == curator.charge.limit
    count, charge = cube.fits
    assert isinstance(count.inner, TreeFit) and isinstance(charge, AveragesFit)
    assert (count.of, charge.of) == ("count", "m")
    kind = Laplace if budget.rho is None else Gaussian
    assert all(isinstance(noise, kind) for looks in count.measurements for noise in looks.noises)


@pytest.mark.parametrize("cells", [2, 3, 777])
@pytest.mark.parametrize("rows", [0, 10**9])
def test_every_cell_bears_the_whole_budget_of_the_tree_whatever_the_table(cells, rows):
    schema, counts = line(cells), np.zeros(cells, dtype=np.int64)
    counts[cells // 2] = rows
    curator = curator_of(schema, counts)
    looks = sfumato(curator, schema, Budget.pure(1)).fits[0].inner.measurement
    load = np.zeros(cells)
    for low, high, variance in zip(looks.queries.lows, looks.queries.highs, looks.design.sizes, strict=True):
        load[low : high + 1] += (2 / variance) ** 0.5
    assert np.allclose(load, 1.0 - part_of_budget(schema.domain))
    assert curator.charge.fullest == curator.charge.limit


def mean_error(counts: np.ndarray, epsilon: Fraction, runs: int) -> float:
    """Over all ranges, root mean square, the mean over releases."""
    schema, errors = line(len(counts)), []
    low, high = np.triu_indices(len(counts) + 1, 1)
    for run in range(runs):
        curator = curator_of(schema, counts, epsilon=epsilon, entropy=TestingEntropy(run))
        off = sfumato(curator, schema, Budget.pure(epsilon)).fits[0].estimate - counts
        running = np.append(0, np.cumsum(off))
        errors.append(np.sqrt(np.mean((running[high] - running[low]) ** 2)))
    return float(np.mean(errors))


def test_sparse_and_dense_tables_are_both_served():
    """A mean over 8 releases of 512 cells at epsilon 0.2, where noise on every cell is off by 92.

    About 13 with a deviation of 10, and 54 with one of 15. Noise has seeds, as errors have a long tail.
    """
    sparse, dense = np.zeros(512, dtype=np.int64), (1000 + 900 * np.sin(np.arange(512) ** 2)).astype(np.int64)
    sparse[[40, 41, 300]] = 5000, 300, 2000
    assert mean_error(sparse, Fraction(1, 5), 8) < 30
    assert mean_error(dense, Fraction(1, 5), 8) < 90


def test_a_large_cell_is_not_taken_for_its_neighbours():
    """Messages from above with next to no precision said so here: 5,000 rows were estimated as 0, counted as 4,988."""
    counts = np.zeros(512, dtype=np.int64)
    counts[[40, 41, 300]] = 5000, 300, 2000
    curator = curator_of(line(512), counts, epsilon=Fraction(1, 5), entropy=TestingEntropy(939))
    estimate = sfumato(curator, line(512), Budget.pure(Fraction(1, 5))).fits[0].estimate
    assert np.abs(estimate - counts)[[40, 41, 300]].max() < 100 and np.abs(estimate - counts).sum() < 200


def test_a_workload_is_heeded():
    """Where only quarters of the cells are asked for, nothing is looked into beyond them."""
    schema, counts = line(1024), np.full(1024, 300)
    quarters = Ranges(1024, [0, 256, 512, 768], [255, 511, 767, 1023])
    finest = []
    for block in (quarters, Prefix(1024)):
        curator = curator_of(schema, counts, entropy=TestingEntropy(4))
        looks = (
            sfumato(curator, schema, Budget.pure(1), Workload(("these",), (block,))).fits[0].inner.measurement.queries
        )
        finest.append(int((looks.highs - looks.lows + 1).min()))
    assert finest == [256, 1]


SHAPES = {"line": [256], "square": [16, 16], "mixed": [16, -4, 4]}  # -4: four categories
TABLES = ("sparse", "dense", "smooth", "one huge spike", "alternating", "zeros")
RELEASES, RANGES = 40, 50


def schema_of(sides: list[int]) -> Schema:
    kinds = (
        {"type": "integer", "lower": 0, "upper": side - 1}
        if side > 0
        else {"type": "category", "values": [f"v{value}" for value in range(-side)]}
        for side in sides
    )
    attributes = {f"a{place}": kind for place, kind in enumerate(kinds)}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def table(name: str, sides: list[int]) -> np.ndarray:
    places = np.indices([abs(side) for side in sides]).reshape(len(sides), -1)
    cells = np.arange(places.shape[1])
    away = sum(((place - 0.4 * abs(side)) / (0.25 * abs(side))) ** 2 for place, side in zip(places, sides, strict=True))
    return {
        "sparse": np.where(cells * 97 % 256 < 8, cells * 31 % 97 * 20, 0),
        "dense": 500 + cells**2 * 37 % 1009,
        "smooth": 20 + np.rint(200 * np.exp(-away)).astype(np.int64),
        "one huge spike": np.where(cells == 101, 10**6, 0),
        "alternating": places.sum(axis=0) % 2 * 100,
        "zeros": 0 * cells,
    }[name]


def some_ranges(sides: list[int]) -> np.ndarray:
    """Boxes with ends drawn evenly along every attribute, a column each."""
    lengths = [abs(side) for side in sides]
    words = (TestingEntropy(3).words(2 * len(sides) * RANGES) % np.uint64(2**31)).astype(np.int64)
    inside = np.ones((int(np.prod(lengths)), RANGES), dtype=np.bool_)
    along = zip(np.indices(lengths).reshape(len(sides), -1), lengths, words.reshape(-1, 2, RANGES), strict=True)
    for place, length, drawn in along:
        low, high = np.sort(drawn % length, axis=0)
        inside &= (place[:, None] >= low) & (place[:, None] <= high)
    return inside.astype(np.float64)


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_intervals_hold_on_tables_of_every_kind(shape):
    """Of 1.96 deviations, over 40 releases of each of six tables of 256 cells at epsilon 1/2, each with its own seed.

    Ranges and cells of one release share its noise: from release to release the part held has a deviation of at most
    0.15 (in 120 of each), so that the mean of forty has one of 0.024. Any of the 36 means of the three shapes lies
    below 0.95 by 0.13 less than once in a million times; where 70 % hold, less than one run in a million passes.
    Of 240 totals that hold with 0.95 each, more than 32 do not hold less than once in a million times over the three
    shapes; totals that hold with 0.8 pass once in 200 runs, with 0.85 once in four.
    """
    sides, totals = SHAPES[shape], []
    schema, ranges = schema_of(sides), some_ranges(sides)
    columns = np.column_stack([ranges, np.eye(256), np.ones(256)])
    for number, name in enumerate(TABLES):
        true, held = table(name, sides), []
        for run in range(RELEASES):
            entropy = TestingEntropy(RELEASES * number + run)
            curator = curator_of(schema, true, epsilon=Fraction(1, 2), entropy=entropy)
            count = sfumato(curator, schema, Budget.pure(Fraction(1, 2))).fits[0]
            deviations = np.sqrt(np.diagonal(count.errors(columns).model))
            held.append(np.abs(columns.T @ (count.estimate - true)) <= 1.96 * deviations)
        of_ranges, of_cells = np.mean(held, axis=0)[:RANGES].mean(), np.mean(held, axis=0)[RANGES:-1].mean()
        assert of_ranges > 0.82 and of_cells > 0.82, name
        totals += [one[-1] for one in held]
    assert len(totals) - sum(totals) <= 32


def test_says_why_it_does_not_fit():
    large = line(MOST_LEAVES + 1)
    assert "hierarchical" in (MECHANISM.why_not(large, None) or "")
    assert MECHANISM.why_not(line(4), None) is None
    nines = {f"a{place}": {"type": "integer", "lower": 0, "upper": 8} for place in range(6)}
    nines["b"] = {"type": "boolean"}
    wide = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": nines})
    assert wide.domain.size < MOST_LEAVES and MECHANISM.why_not(wide, None) is None
    nines["c"] = {"type": "integer", "lower": 0, "upper": 2}
    wider = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": nines})
    assert wider.domain.size < MOST_LEAVES and "regions" in (MECHANISM.why_not(wider, None) or "")
