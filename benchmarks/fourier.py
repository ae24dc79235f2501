"""Contingency tables against the bound of theorem 4, and beside `residual` and `margins`.

    python benchmarks/fourier.py [RUNS]

Ten binary attributes, all margins of three of them, epsilon 1, 10,000 rows of a synthetic table: how often all margins
lie within the bound (5), and the root mean squared error of a cell of them. It sees the truth and is never imported.
"""

from __future__ import annotations

import sys
from itertools import combinations
from math import sqrt

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.papers.fourier.measure import margin_bound, raise_bound, theorem_bound
from sfumato.models import find_mechanism
from sfumato.schema import Schema

AXES, ORDER, ROWS, DELTA, EPSILON = 10, 3, 10_000, 0.05, Budget.pure(1)
TRIPLES = list(combinations(range(AXES), ORDER))
CELLS = 2**ORDER * len(TRIPLES)
BESIDE = 20  # runs of the others
SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {f"v{axis}": {"type": "integer", "lower": 0, "upper": 1} for axis in range(AXES)},
    }
)


def table(seed: int) -> np.ndarray:
    """Rows of three hidden classes, in each of which attributes are independent."""
    random = np.random.default_rng(seed)
    chances = random.beta(0.8, 0.8, (3, AXES))
    hidden = random.choice(3, ROWS, p=[0.5, 0.3, 0.2])
    bits = (random.random((ROWS, AXES)) < chances[hidden]).astype(np.int64)
    return np.bincount(bits @ (1 << np.arange(AXES)[::-1]), minlength=2**AXES).reshape([2] * AXES)


def margin(cells: np.ndarray, places: tuple[int, ...]) -> np.ndarray:
    return cells.sum(axis=tuple(axis for axis in range(AXES) if axis not in places))


def content_of(name: str, counts: np.ndarray, seed: int, **options: object):
    mechanism = find_mechanism(name).with_options(options)
    curator = over_counts(SCHEMA, counts, EPSILON, TestingEntropy(seed), {})
    return mechanism.run(curator, SCHEMA, EPSILON, None)


def errors(margins: dict[tuple[int, ...], np.ndarray], counts: np.ndarray) -> tuple[float, float]:
    """The sum of squared errors of all cells, and the largest L1 error of a margin."""
    off = [found - margin(counts, places) for places, found in margins.items()]
    return float(sum((each**2).sum() for each in off)), max(float(np.abs(each).sum()) for each in off)


def joined(content) -> dict[tuple[int, ...], np.ndarray]:
    return {places: content.joined({place: np.arange(2) for place in places})["count"] for places in TRIPLES}


def of_table(content) -> dict[tuple[int, ...], np.ndarray]:
    cells = content.cells().reshape([2] * AXES)
    return {places: margin(cells, places) for places in TRIPLES}


def against_the_bound(runs: int) -> None:
    number = 1 + AXES + AXES * (AXES - 1) // 2 + len(TRIPLES)
    bound, within, largest, squares = theorem_bound(ORDER, number, 1.0, DELTA), 0, 0.0, 0.0
    for run in range(runs):
        counts = table(run)
        content = content_of("fourier", counts, run + 1, order=ORDER)
        square, worst = errors(of_table(content), counts)
        within, largest, squares = within + (worst <= bound), max(largest, worst), squares + square
        if (run + 1) % 50 == 0:
            print(f"{run + 1} runs: {within} within, RMSE {sqrt(squares / (run + 1) / CELLS):.1f}", flush=True)
    print(f"{number} coefficients; bound (5) {bound:,.0f} rows", end="; ")
    print(f"with the noise drawn {margin_bound(ORDER, number, content.noise, DELTA):,.0f}")
    print(f"within the bound: {within} of {runs} runs; largest L1 error of a margin {largest:,.0f}")
    print(f"the paper's raise of the total: {raise_bound(number, content.noise):,.0f} rows")


def beside() -> None:
    """The same tables, the same budget: root mean squared error of a cell."""
    total: dict[str, float] = {}
    for run in range(BESIDE):
        counts = table(run)
        program, lifted = (content_of("fourier", counts, run + 1, order=ORDER, table=t) for t in ("program", "raise"))
        found = {
            "fourier, program": of_table(program),
            "fourier, coefficients alone": joined(program.unbiased),
            "fourier, total raised": joined(lifted.raised),
            "residual": joined(content_of("residual", counts, run + 1)),
            "margins": joined(content_of("margins", counts, run + 1)),
        }
        for name, margins in found.items():
            total[name] = total.get(name, 0.0) + errors(margins, counts)[0]
    for name, squares in total.items():
        print(f"RMSE of a cell, {BESIDE} runs: {name} {sqrt(squares / BESIDE / CELLS):.1f}", flush=True)


if __name__ == "__main__":
    beside()
    against_the_bound(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
