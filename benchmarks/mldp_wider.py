"""How much wider the intervals of a learned model should be: tables that no test and no other benchmark has.

Run from the project's folder: python benchmarks/mldp_wider.py [--runs 8] [--cells 64 300 700] [--epsilon 1]
Prints the share of 95 % intervals of 200 fresh ranges that hold, by how much squared errors are taken larger.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

import numpy as np

from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.lab.papers.mldp import error_bars
from sfumato.lab.papers.mldp.error_bars import ErrorBars, boxes_of_tiles, parts_of
from sfumato.lab.papers.mldp.measure import mldp
from sfumato.lab.reproduce.mldp.figures import random_ranges
from sfumato.lab.reproduce.synthetic import curator_of, schema_of

WIDER = (0.0, 0.1, 0.15, 0.2, 0.3)


def tables(cells: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    place = np.arange(cells)
    two = np.exp(-(((place / cells - 0.7) / 0.08) ** 2)) + 0.3 * np.exp(-(((place / cells - 0.2) / 0.05) ** 2))
    masses = {
        "two hills": (30_000, two),
        "lognormal": (40_000, np.exp(2.2 * rng.standard_normal(cells))),
        "powers, shuffled": (60_000, rng.permutation((1.0 + place) ** -1.1)),
        "powers, falling": (40_000, (1.0 + place) ** -1.3),
        "heaped": (20_000, 1.0 + 10.0 * (place % 10 == 0)),
        "few cells": (2_500, (rng.random(cells) < 0.05) * rng.random(cells) + 1e-9),
        "a slow wave": (25_000, 1.0 + 0.2 * np.sin(place / 40)),
    }
    return {name: rng.multinomial(rows, mass / mass.sum()) for name, (rows, mass) in masses.items()}


def held(counts: np.ndarray, asked: np.ndarray, epsilon: Fraction) -> list[float]:
    """The share that holds in one release, for each width."""
    curator = curator_of(counts, epsilon, SystemEntropy())
    made = mldp(curator, schema_of(counts.shape), curator.charge.budget)
    rows = np.array([made.blocks.of_boxes([[row]]) for row in asked])
    off, parts = np.abs(made.running.predict(rows) - asked @ counts), parts_of(rows, made.blocks.size)
    boxes, sums = boxes_of_tiles(made.blocks, made.tiles)
    misfits, noise = sums @ made.aside.answers - made.running.predict(boxes), made.aside.noise.variance * sums.sum(1)
    found = []
    for wider in WIDER:
        error_bars.WIDER = wider
        bars = ErrorBars.of(misfits, parts_of(boxes, made.blocks.size), noise)
        found.append(float((off <= bars.quantile(0.95) * bars.errors(parts)).mean()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--cells", type=int, nargs="+", default=[64, 300, 700])
    parser.add_argument("--epsilon", type=Fraction, default=Fraction(1))
    given = parser.parse_args()
    rng, every = np.random.default_rng(101), []
    print("cells  table             " + "".join(f"{wider:>8}" for wider in WIDER))
    for cells in given.cells:
        asked = random_ranges(200, cells, seed=8)
        shares: dict[str, list[list[float]]] = {}
        for _ in range(given.runs):
            for name, counts in tables(cells, rng).items():
                shares.setdefault(name, []).append(held(counts, asked, given.epsilon))
        for name, found in shares.items():
            every += found
            print(f"{cells:<7}{name:<18}" + "".join(f"{share:>8.3f}" for share in np.mean(found, axis=0)))
    print(f"{'all':<25}" + "".join(f"{share:>8.3f}" for share in np.mean(every, axis=0)))


if __name__ == "__main__":
    main()
