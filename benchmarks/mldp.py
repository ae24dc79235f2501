"""A learned model against Laplace noise on the queries and against a table of cells: 1,000 fresh ranges at epsilon 1.

Run from the project's folder: python benchmarks/mldp.py [--runs 5] [--cells 1024] [--models]
Tables are made up: smooth, heavy-tailed, sparse, without shape. Laplace on the workload has noise of scale
1,000 / epsilon by the plainest reckoning, and of the true joint sensitivity of the 1,000 ranges (about half) by ours.
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction

import numpy as np

from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.lab.papers.mldp.measure import Options, mldp
from sfumato.lab.papers.mldp.training import MODELS
from sfumato.lab.reproduce.mldp.figures import laplace_error, random_ranges
from sfumato.lab.reproduce.synthetic import curator_of, released, schema_of
from sfumato.models import find_mechanism

EPSILON, QUERIES = 1, 1000
CUBES = ("hierarchical", "sfumato")  # what `auto` takes for one attribute, by the size of the table


def tables(cells: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    place = np.arange(cells)
    hill = np.exp(-(((place - 0.4 * cells) / (0.15 * cells)) ** 2))
    heavy = rng.pareto(1.2, cells)
    sparse = rng.random(cells) ** 6 * (rng.random(cells) < 0.1) + 1e-9
    masses = {"smooth": hill, "heavy-tailed": heavy, "sparse": sparse, "without shape": np.ones(cells)}
    rows = {"smooth": 20_000, "heavy-tailed": 50_000, "sparse": 3_000, "without shape": 20_000}
    return {name: rng.multinomial(rows[name], mass / mass.sum()) for name, mass in masses.items()}


def learnt(counts: np.ndarray, asked: np.ndarray, model: str) -> tuple[float, float, float]:
    """Mean absolute error, share of 95 % intervals that hold, and seconds."""
    from sfumato.lab.papers.mldp.error_bars import parts_of

    began = time.perf_counter()
    curator = curator_of(counts, Fraction(EPSILON), SystemEntropy())
    content = mldp(curator, schema_of(counts.shape), curator.charge.budget, options=Options(model=model))
    seconds = time.perf_counter() - began
    rows = np.array([content.blocks.of_boxes([[row]]) for row in asked])
    off = np.abs(content.running.predict(rows) - asked @ counts)
    reach = content.error_bars.quantile(0.95) * content.error_bars.errors(parts_of(rows, content.blocks.size))
    return float(off.mean()), float((off <= reach).mean()), seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cells", type=int, default=1024)
    parser.add_argument("--models", action="store_true", help="all models, not ridge regression alone")
    given = parser.parse_args()
    rng = np.random.default_rng(14)
    asked = random_ranges(QUERIES, given.cells, seed=9)
    true_scale = laplace_error(asked, EPSILON)
    print(f"{QUERIES:,} fresh ranges over {given.cells:,} cells, epsilon {EPSILON}, {given.runs} releases each")
    print(f"Laplace on the workload: {QUERIES / EPSILON:,.0f} (plain), {true_scale:,.0f} (joint sensitivity)\n")
    print(f"{'table':<16}{'model':<10}{'error':>8}{'held':>7}{'times better':>14}{'s':>6}  cube mechanisms")
    for name, counts in tables(given.cells, rng).items():
        cubes = []
        for cube in CUBES:
            run = find_mechanism(cube).run
            made = (released(run, counts, Fraction(EPSILON), SystemEntropy()) for _ in range(given.runs))
            cubes.append(f"{cube} {np.mean([np.abs(asked @ each - asked @ counts).mean() for each in made]):.1f}")
        for model in MODELS if given.models else ("ridge",):
            error, held, seconds = np.mean([learnt(counts, asked, model) for _ in range(given.runs)], axis=0)
            times = f"{true_scale / error:.0f} ({QUERIES / EPSILON / error:.0f})"
            print(f"{name:<16}{model:<10}{error:>8.1f}{held:>7.1%}{times:>14}{seconds:>6.1f}  {', '.join(cubes)}")


if __name__ == "__main__":
    main()
