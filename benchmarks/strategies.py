"""Strategies for ranges: expected error per query beside the figures to reach, and what they cost to find.

`python benchmarks/strategies.py`: expected root mean squared error at epsilon = 1, pure, one row per person, noise of
variance 2 b^2 (the papers' convention), of the rounded strategy as it is measured. Takes about a minute of CPU time.
"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np

from sfumato.domain import Axis, Domain
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.least_squares.expected_error import expected_errors
from sfumato.models.linear.measure import HIERARCHICAL, WAVELET
from sfumato.models.linear.strategies.hdmm import best_strategy
from sfumato.models.linear.strategies.hierarchies import tree_strategy, wavelet_strategy
from sfumato.queries import AllRanges, Kron, Prefix, Queries, Workload
from sfumato.schema import Schema

CASES: list[tuple[str, Queries, tuple[int, ...], float, float | None]] = [
    ("all ranges, n = 256", AllRanges(256), (256,), 8.09, None),
    ("all ranges, n = 1024", AllRanges(1024), (1024,), 11.2, 20),
    ("all ranges, n = 4096", AllRanges(4096), (4096,), 15.5, 120),
    ("prefixes, n = 1024", Prefix(1024), (1024,), 9.7, 20),
    ("prefixes, n = 4096", Prefix(4096), (4096,), 14.0, 120),
    ("all 2-D ranges, 64 x 64", Kron(AllRanges(64), AllRanges(64)), (64, 64), 21.8, None),
]


def main() -> None:
    print(f"{'workload':26}{'matrix':>9}{'to reach':>10}{'CPU':>9}{'allowed':>9}{'trees':>9}{'wavelet':>9}")
    for name, queries, sizes, reach, allowed in CASES:
        domain = Domain(tuple(Axis(f"a{i}", "integer", np.arange(n + 1.0)) for i, n in enumerate(sizes)))
        workload = Workload((name,), (queries,))
        start = time.process_time()
        best = best_strategy(domain, workload, True)
        spent = time.process_time() - start
        ours, trees, haar = (
            float(expected_errors(strategy, workload, True)[0])
            for strategy in (best, tree_strategy(domain, workload, True), wavelet_strategy(domain, workload, True))
        )
        limit = f"{allowed:.0f} s" if allowed else ""
        print(f"{name:26}{ours:9.4f}{reach:10}{spent:7.1f} s{limit:>9}{trees:9.2f}{haar:9.2f}")
    for mechanism, cells, allowed in ((HIERARCHICAL.run, 4096, 0.02), (WAVELET.run, 4096, 0.01)):
        run_mechanism(mechanism, cells, allowed)
    for mechanism in (HIERARCHICAL.run, WAVELET.run):
        run_mechanism(mechanism, 10**6, 2.0)


def run_mechanism(mechanism, cells: int, allowed: float) -> None:
    """Choose, measure and fit; the error over 2,000 random ranges at epsilon = 0.1, mean of some runs."""
    schema = Schema.from_dict(
        {
            "dataset": "made_up",
            "privacy_unit": "row",
            "budget": {"epsilon": 1},
            "attributes": {"a": {"type": "integer", "lower": 0, "upper": cells - 1}},
        }
    )
    stream, epsilon = np.random.default_rng(7), Fraction(1, 10)
    counts = stream.poisson(5, cells)
    ends = np.sort(stream.integers(0, cells + 1, (2, 2000)), axis=0)
    squares, times = [], []
    for _ in range(20 if cells < 10**5 else 3):
        filled = np.flatnonzero(counts)
        charge = Charge(Budget.pure(epsilon), 1, cells)
        curator = Curator(schema.domain, Aggregate(filled, counts[filled], {}), {"count": 1}, charge, SystemEntropy())
        start = time.process_time()
        cube = mechanism(curator, schema, Budget.pure(epsilon))
        times.append(time.process_time() - start)
        running = np.concatenate([[0.0], np.cumsum(cube.fits[0].estimate - counts)])
        squares.append(np.mean((running[ends[1]] - running[ends[0]]) ** 2))
    print(
        f"{mechanism.__name__}, n = {cells}, epsilon = 0.1: root mean squared error {np.sqrt(np.mean(squares)):.0f} "
        f"over 2,000 ranges; {times[0]:.3f} s CPU the first time, {np.median(times[1:]):.3f} s afterwards "
        f"({allowed} s allowed)"
    )


if __name__ == "__main__":
    main()
