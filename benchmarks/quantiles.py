"""Quantiles in numbers: nine deciles at once and one by one, up to 999, the largest value beside the paper's, coverage.

    python benchmarks/quantiles.py [--runs 50] [--parts largest deciles many coverage]

`many` has 9, 99 and 999 evenly spaced quantiles beside a sketch of Imola et al. (Differentially Private Quantiles with
Smaller Error, NeurIPS 2025, arXiv 2505.13662), which is kinder to it than its own assumptions: in floating point, with
the number of rows known, a tree of the best fan-out for the noise of ranks, half of the budget for ranks and half for
choices, and a choice even where its slices overlap, for which nothing is proved.

Times are of the processor, so that what else a machine does leaves them alone. Rank errors are distances from the
wanted rank to the ranks that the chosen value holds.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from fractions import Fraction
from time import process_time

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.audit.mutants.choices import limited_domain_loss
from sfumato.lab.reproduce.tr_2010_003.parity_and_largest import ALPHA, PRINTED, outcome
from sfumato.models import find_mechanism
from sfumato.schema import Schema

ROWS, VALUES, FINE = 1_000_000, 100_000, 2**16
EPSILON = Fraction(1, 10)  # of nine deciles
DECILES = [Fraction(k, 10) for k in range(1, 10)]


def schema_of(values: int) -> Schema:
    attributes = {"x": {"type": "integer", "lower": 0, "upper": values - 1}}
    return Schema.from_dict(
        {"dataset": "x", "privacy_unit": "row", "budget": {"epsilon": 10}, "attributes": attributes}
    )


def tables(rows: int, values: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(14)
    gamma = rng.gamma(3, values / 20, rows)
    drawn = {
        "normal": rng.normal(values / 2, values / 10, rows),
        "skewed": values / 60 * np.exp(rng.normal(0, 1, rows)),
        "two humps": np.where(rng.random(rows) < 0.3, rng.normal(0.2, 1 / 60, rows), rng.normal(0.7, 0.05, rows))
        * values,
        "heaped": np.where(rng.random(rows) < 0.5, np.rint(gamma * 2000 / values) * (values / 2000), gamma),
        "tall heaps": np.where(rng.random(rows) < 0.5, np.rint(gamma * 80 / values) * (values / 80), gamma),
    }
    return {n: np.bincount(np.clip(v, 0, values - 1).astype(int), minlength=values) for n, v in drawn.items()}


def rank_error(counts: np.ndarray, cell: int, quantile: Fraction) -> float:
    up_to, target = counts[: cell + 1].sum(), float(quantile) * counts.sum()
    return max(0.0, target - up_to, up_to - counts[cell] - target)


@dataclass(frozen=True)
class Deciles:
    """Rank errors of nine deciles, a row for each run, chosen one by one and at once; CPU seconds of the latter."""

    apart: np.ndarray
    together: np.ndarray
    seconds: float


def deciles_of(counts: np.ndarray, runs: int) -> Deciles:
    """Choose nine deciles in both ways, with the same budget."""
    schema, budget, entropy = schema_of(len(counts)), Budget.pure(EPSILON), SystemEntropy()
    mechanism = find_mechanism("quantiles").with_options({"quantiles": ",".join(str(float(q)) for q in DECILES)})
    apart, together, seconds = [], [], []
    for _ in range(runs):
        curator = over_counts(schema, counts, budget, entropy)
        parts = zip(DECILES, budget.evenly(len(DECILES)), strict=True)
        apart.append([rank_error(counts, curator.select(Rank(q), part), q) for q, part in parts])
        curator = over_counts(schema, counts, budget, entropy)
        start = process_time()
        (line,) = mechanism.run(curator, schema, budget, None).lines
        seconds.append(process_time() - start)
        cells = [(int(cut) - 1) // line.pieces for cut in line.cuts[0]]
        together.append([rank_error(counts, cell, q) for cell, q in zip(cells, DECILES, strict=True)])
    return Deciles(np.array(apart), np.array(together), float(np.mean(seconds)))


def deciles(runs: int) -> None:
    print(f"nine deciles of {ROWS:,} values of {VALUES:,}, epsilon {float(EPSILON):g}: mean rank error")
    for name, counts in tables(ROWS, VALUES).items():
        found = deciles_of(counts, runs)
        apart, together = found.apart.mean(), found.together.mean()
        print(
            f"  {name:10} one by one {apart:6.1f}, at once {together:6.1f}, "
            f"ratio {together / apart:.2f}, {found.seconds:.2f} s"
        )


def slices(
    counts: np.ndarray, wanted: list[Fraction], epsilon: float, rng: np.random.Generator
) -> tuple[list[int], bool]:
    """Cells by Imola et al., and whether its slices are apart, as its proof needs.

    Target ranks carry the noise of a continual counter, so that all quantiles together cost one shift of the ranks and
    one choice in one slice.
    """
    rows, to_rank, to_choose = counts.sum(), epsilon / 2.0, epsilon / 2.0
    ranks = np.array([float(q) for q in wanted]) * rows + continual_noise(len(wanted), to_rank, rng)
    half = 2.0 / to_choose * np.log(2.0 * len(counts) * (len(wanted) + 1) / 0.05)
    apart = bool((np.diff(ranks) > 2.0 * half).all() and ranks[0] > half and ranks[-1] < rows - half)
    up_to = counts.cumsum()
    cells = []
    for rank in ranks:
        first, last = np.searchsorted(up_to, [rank - half, rank + half])
        after = up_to[first : min(last + 1, len(counts) - 1) + 1].astype(float)
        off = np.maximum(0.0, np.maximum(rank - after, after - counts[first : first + len(after)] - rank))
        chances = np.exp(-np.minimum(off - off.min(), half) * to_choose / 2.0)
        cells.append(int(first + rng.choice(len(chances), p=chances / chances.sum())))
    return cells, apart


def continual_noise(number: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Noise of all prefix sums of a tree with the fan-out of least variance."""
    depths = {fan: int(np.ceil(np.log(number + 1) / np.log(fan) - 1e-9)) for fan in range(2, number + 2)}
    fan = min(depths, key=lambda each: (each - 1) * depths[each] ** 3)
    noise, ends = np.zeros(number), np.arange(1, number + 1)
    for level in range(depths[fan]):
        nodes = ends // fan**level
        sums = np.concatenate([[0.0], rng.laplace(0.0, depths[fan] / epsilon, nodes.max() + 1).cumsum()])
        noise += sums[nodes] - sums[nodes - nodes % fan]
    return noise


def many(runs: int) -> None:
    """Mean and largest rank errors of many quantiles at once; each number of quantiles of a million rows."""
    schema, entropy, rng = schema_of(VALUES), SystemEntropy(), np.random.default_rng()
    print(f"quantiles of {ROWS:,} rows on {VALUES:,} values: rank errors, mean (largest), and beside Imola et al. 2025")
    for number in (9, 99, 999):
        wanted = [Fraction(k, number + 1) for k in range(1, number + 1)]
        options = {"quantiles": ",".join(f"{float(q):.3f}" for q in wanted)}
        mechanism = find_mechanism("quantiles").with_options(options)
        for epsilon in (Fraction(1, 10), Fraction(1)):
            for name, counts in tables(ROWS, VALUES).items():
                errors, others, apart = [], [], True
                start = process_time()
                for _ in range(runs):
                    curator = over_counts(schema, counts, Budget.pure(epsilon), entropy)
                    (line,) = mechanism.run(curator, schema, Budget.pure(epsilon), None).lines
                    cells = [(int(cut) - 1) // line.pieces for cut in line.cuts[0]]
                    errors.append([rank_error(counts, *each) for each in zip(cells, wanted, strict=True)])
                seconds = (process_time() - start) / runs
                for _ in range(runs):
                    cells, proved = slices(counts, wanted, float(epsilon), rng)
                    others.append([rank_error(counts, *each) for each in zip(cells, wanted, strict=True)])
                    apart &= proved
                ours, theirs = (np.array(each) for each in (errors, others))
                most = [each.max(axis=1).mean() for each in (ours, theirs)]
                print(
                    f"  {number:3} epsilon {float(epsilon):3g} {name:10} {ours.mean():6.1f} ({most[0]:5.0f}), theirs "
                    f"{theirs.mean():6.1f} ({most[1]:5.0f}){'' if apart else ' without proof'}, "
                    f"ratio {ours.mean() / theirs.mean():.2f}, {seconds:.2f} s"
                )


def largest() -> None:
    """At the loss that the exact audit measures for the paper's algorithm."""
    measured = limited_domain_loss(1, cells=4, rows=3)
    epsilon = ALPHA * Fraction(measured).limit_denominator(1000)
    hits = []
    for seed in range(1, 11):
        found = outcome(10_000, 20.0, seed, epsilon=epsilon)
        hits.append((found.hits(found.paper), found.hits(found.ours)))
    paper, ours = np.mean(hits, axis=0)
    print(f"greatest of 10,000 rows, alpha 0.05, measured loss of the paper's {measured:.2f} alpha: [Max-4, Max]")
    print(f"  printed {PRINTED[10_000]}, its algorithm {paper:.4f}, ours at epsilon {float(epsilon):.4f} {ours:.4f}")


def coverage(runs: int) -> None:
    print("95 % intervals: share that holds the true value")
    schema, entropy, pooled = schema_of(FINE), SystemEntropy(), []
    for rows, epsilon in ((10_000, Fraction(1)), (100_000, Fraction(1, 10))):
        for wanted in ("0,0.25,0.5,0.75,1", ",".join(str(float(q)) for q in DECILES)):
            mechanism = find_mechanism("quantiles").with_options({"quantiles": wanted})
            for name, counts in tables(rows, FINE).items():
                held, up_to, there = [], counts.cumsum(), np.flatnonzero(counts)
                for _ in range(runs):
                    curator = over_counts(schema, counts, Budget.pure(epsilon), entropy)
                    content = mechanism.run(curator, schema, Budget.pure(epsilon), None)
                    for quantile in content.quantiles:
                        found = content.value_of("x", 0, quantile, 0.95)
                        truth = int(np.searchsorted(up_to, float(quantile) * rows)) if 0 < quantile < 1 else None
                        truth = (there[0] if quantile == 0 else there[-1]) if truth is None else truth
                        held.append(found.low <= truth <= found.high)
                pooled += held
                words = f"{rows:7,} rows, epsilon {float(epsilon):g}, {len(content.quantiles)} of {name}"
                print(f"  {words}: {np.mean(held):.3f}")
    print(f"  pooled {np.mean(pooled):.3f} of {len(pooled):,}")


PARTS = {
    "largest": lambda runs: largest(),
    "deciles": deciles,
    "many": lambda runs: many(max(1, runs // 5)),
    "coverage": lambda runs: coverage(max(1, runs // 2)),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    asked = parser.parse_args()
    for part in asked.parts:
        PARTS[part](asked.runs)
