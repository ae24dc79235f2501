"""How wide intervals of a learned distribution must be: coverage of mwem and pmw over a grid of allowances.

`python benchmarks/model_error.py [--runs 2] [--full]`

The misfit that a release measures is multiplied by an allowance (inference/model_error.py) before intervals are made
from it. Here it is chosen, on tables, sizes, workloads and epsilons that no test of the mechanisms uses. Every release
is made once; its intervals are then made again for each allowance. Printed, for each kind of table and in all, for the
queries of the workload and for others that a release is asked (boxes of cells and sums of an attribute): the part of
95 % intervals that hold the truth, and its standard error (queries of one release err together, so releases are
counted, not queries). Enough is what holds 95 % of both by two standard errors on every kind of table, for a user has
one kind and not the average.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from releasing import curator_of_counts
from sfumato.inference.model_error import COVERAGE, NORMAL_END, allow_for_noise, deviation_of_shape
from sfumato.kernel.budget import Budget
from sfumato.mechanisms import MECHANISMS
from sfumato.mechanisms.shared.multiplicative_weights import MOST_CHECKED, sampled
from sfumato.queries import Prefix, Ranges, Weighted, Workload, default_workload
from shapes import schema_of

ALLOWANCES = 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8
EPSILONS = Fraction(1, 5), Fraction(3, 4), Fraction(3)
MARGIN = 2  # standard errors above 95 %
SEED = 20


@dataclass(frozen=True, eq=False)
class Case:
    """A table and a workload; None is the default of its domain."""

    kind: str
    sizes: tuple[int, ...]
    counts: np.ndarray
    workload: Workload | None


def cases(stream: np.random.Generator) -> list[Case]:
    """Hills, decay, blocks, scattered power laws and a comb, on lines of three lengths and on two attributes."""
    found = []
    for sizes, rows in (((80,), 3_000), ((150,), 40_000), ((300,), 12_000), ((20, 13), 15_000)):
        cells = int(np.prod(sizes))
        along = np.arange(cells) / cells
        drawn = stream.random(cells)
        hills = sum(np.exp(-(((along - centre) / width) ** 2)) for centre, width in ((0.2, 0.05), (0.55, 0.15)))
        shapes = {
            "hills": hills + 0.02,
            "decay": np.exp(-6 * along),
            "blocks": stream.gamma(0.5, size=9)[np.minimum((along * 9).astype(int), 8)] + 0.01,
            "scattered": 1.0 / (1.0 + stream.permutation(cells)) ** 1.3,
            "comb": np.where(np.arange(cells) % 5 == 2, 1.0, 0.05) * (0.5 + drawn),
        }
        lows, highs = np.sort(stream.integers(0, cells, (2, 400)), axis=0)
        workloads = {"default": None}
        if len(sizes) == 1:
            workloads["ranges"] = Workload(("ranges",), (Ranges(cells, lows, highs),))
            workloads["prefixes"] = Workload(("prefixes",), (Prefix(cells),))
        for shape, weights in shapes.items():
            counts = stream.poisson(rows * weights / weights.sum())
            found += [Case(shape, sizes, counts, asked) for asked in workloads.values()]
    return found


def others(sizes: tuple[int, ...]) -> Weighted:
    """Sixty boxes of cells and the sum of every attribute's values."""
    stream, places = np.random.default_rng(SEED + 1), np.indices(sizes)
    rows = []
    for _ in range(60):
        ends = [np.sort(stream.integers(0, size, 2)) for size in sizes]
        inside = [(place >= low) & (place <= high) for place, (low, high) in zip(places, ends, strict=True)]
        rows.append(np.all(inside, axis=0))
    return Weighted(np.array([*rows, *places]).reshape(60 + len(sizes), -1).astype(np.int64))


def held(mechanism: str, case: Case, epsilon: Fraction, seed: int) -> np.ndarray:
    """For each allowance, the parts of the workload's and of other queries whose intervals hold in one release."""
    schema, budget = schema_of(case.sizes), Budget.pure(epsilon)
    curator = curator_of_counts(schema, case.counts, budget, seed)
    fit = MECHANISMS[mechanism].run(curator, schema, budget, case.workload).fits[0]
    asked = sampled(case.workload or default_workload(schema.domain), MOST_CHECKED)
    model, noise = fit.variances(asked)
    mean, scale = (float(part) / asked.rows for part in (fit.misfit.answers[0], fit.misfit.noise.scale))
    reckoned = allow_for_noise(mean, scale)
    spreads = [deviation_of_shape(allowance * reckoned, model, noise) for allowance in ALLOWANCES]
    parts = []
    for queries in (asked, others(case.sizes)):
        off, (model, noise) = np.abs(queries @ (fit.estimate - case.counts)), fit.variances(queries)
        parts.append([np.mean(off <= NORMAL_END * np.sqrt(s**2 * model + noise) + 0.5) for s in spreads])
    return np.array(parts)


def main() -> None:
    """Print the coverage for each allowance, and the smallest that is enough."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--runs", type=int, default=2)
    given.add_argument("--full", action="store_true", help="all cases, not every third of them")
    options = given.parse_args()
    everything = cases(np.random.default_rng(SEED))
    chosen = everything if options.full else everything[::3]
    parts = defaultdict(list)
    for mechanism in ("mwem", "pmw"):
        for place, case in enumerate(chosen):
            for epsilon in EPSILONS:
                runs = [held(mechanism, case, epsilon, 1000 * place + run) for run in range(options.runs)]
                parts[case.kind] += runs
                parts["all"] += runs
    print(f"{len(chosen)} tables and workloads, {len(EPSILONS)} epsilons, {options.runs} releases of each\n")
    print("| allowance |" + "".join(f" {kind} |" for kind in parts))
    print("|---" * (1 + len(parts)) + "|")
    enough = None
    for place, allowance in enumerate(ALLOWANCES):
        found = [np.array(each)[:, :, place] for each in parts.values()]
        means = [each.mean(axis=0) for each in found]
        errors = [each.std(axis=0) / np.sqrt(len(each)) for each in found]
        pairs = zip(means, errors, strict=True)
        shown = "".join(
            f" {100 * m[0]:.1f} +- {100 * e[0]:.1f}, {100 * m[1]:.1f} +- {100 * e[1]:.1f} |" for m, e in pairs
        )
        print(f"| {allowance} |{shown}")
        enough = enough or (allowance if np.min(np.subtract(means, np.multiply(MARGIN, errors))) >= COVERAGE else None)
    print(f"\nthe smallest that holds 95 % by {MARGIN} standard errors on every kind of table: {enough}")


if __name__ == "__main__":
    main()
