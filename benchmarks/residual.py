"""Expected error of unbiased margins beside the least there can be, from sizes alone, and what a release takes.

`python benchmarks/residual.py`: root mean squared error per cell, over the cells of all margins of some orders, on the
sizes of the Adult table (no data), at rho 0.5 and at pure epsilon 1. `least` is the optimum of the closed form, `plan`
what is measured is expected to have before rows are rounded to whole multiples, `to reach` the figures of the paper's
code. Below, releases of random rows: time, memory and file. Takes about two minutes of CPU time.
"""

from __future__ import annotations

import resource
import tempfile
import time
from itertools import combinations
from math import prod, sqrt
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.models.linear.strategies.residual_basis import ResidualBasis, least_error, residual_basis
from sfumato.schema import Schema

ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
ORDERS = {"1-way": ((1,), 3.047), "2-way": ((2,), 6.359), "3-way": ((3,), 10.515), "up to 3-way": ((1, 2, 3), 10.665)}


def error(basis: ResidualBasis, wanted: dict[tuple[int, ...], float], amount: float) -> float:
    """Over the cells of all margins that are wanted, each weighed by its cells."""
    precisions, sizes, total = basis.precisions(amount), basis.sizes, 0.0
    for places, cells in wanted.items():
        for part in (part for order in range(len(places) + 1) for part in combinations(places, order)):
            rest = prod(sizes[place] ** 2 for place in places if place not in part)
            total += cells * prod(1 - 1 / sizes[place] for place in part) / rest / precisions[part]
    return sqrt(total / sum(wanted.values()))


def errors() -> None:
    print(f"{'Adult sizes':14}{'to reach':>10}{'least':>9}{'plan':>9}{'epsilon 1':>11}{'plain':>9}{'CPU':>8}")
    for name, (orders, figure) in ORDERS.items():
        places = [part for order in orders for part in combinations(range(len(ADULT)), order)]
        wanted = {part: float(prod(ADULT[place] for place in part)) for part in places}
        start = time.process_time()
        plan = error(residual_basis(ADULT, wanted, pure=False), wanted, 0.5)
        took = time.process_time() - start
        least = sqrt(least_error(ADULT, wanted, 0.5) / sum(wanted.values()))
        pure = error(residual_basis(ADULT, wanted, pure=True), wanted, 1.0)
        plain = sqrt(2) * len(places)  # every margin with an even share of epsilon, and nothing pooled
        print(f"{name:14}{figure:10.3f}{least:9.3f}{plan:9.3f}{pure:11.1f}{plain:9.1f}{took:7.2f}s")


def release(sizes: tuple[int, ...], rows: int, delta: str | None) -> None:
    names = [f"a{place}" for place in range(len(sizes))]
    generator = np.random.default_rng(1)
    table = pa.table({name: generator.integers(0, size, rows) for name, size in zip(names, sizes, strict=True)})
    attributes = {
        name: {"type": "integer", "lower": 0, "upper": size - 1} for name, size in zip(names, sizes, strict=True)
    }
    budget = {"epsilon": 1, "delta": "1e-9"}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "budget": budget, "attributes": attributes})
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        made = sf.release(table, schema, 1, delta=delta, mechanism="residual", ledger=Path(folder) / "ledger.db")
        took = time.process_time() - start
        made.save(path := Path(folder) / "r.sfumato")
        start = time.process_time()
        sf.open(path).query("SELECT a0, a1, COUNT(*) AS n FROM t GROUP BY a0, a1")
        asked, memory = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{len(sizes):>4} attributes, {rows:>9,} rows, {'delta ' + delta if delta else 'pure':12}: "
            f"release {took:6.1f} s CPU, open and ask {asked:4.1f} s, {path.stat().st_size / 1e6:5.1f} MB, "
            f"memory {memory:.2f} GB"
        )


def main() -> None:
    errors()
    for delta in ("1e-9", None):
        release(ADULT, 48_842, delta)
    release((10,) * 100, 100_000, "1e-9")


if __name__ == "__main__":
    main()
