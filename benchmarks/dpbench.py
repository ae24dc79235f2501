"""Error and time on the data sets of DPBench. `python benchmarks/dpbench.py DATA_FOLDER [--runs 20]`

DATA_FOLDER holds NAME.n4096.npy (4,096 counts each) and ranges1d_n4096_q2000_seed9001.npy (2,000 ranges, both ends
included), as used by DPBench (Hay, Machanavajjhala, Miklau, Chen, Zhang, SIGMOD 2016). Epsilon is 0.1. Figures are the
root mean squared error over the ranges, in counts, as a mean over runs; the part of 200 of the ranges that 95 %
intervals hold; and the seconds of one release. Targets, where there are any, stand beside them.
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.entropy import SystemEntropy
from sfumato.mechanisms import MECHANISMS
from sfumato.planner.choose import choose_mechanism
from sfumato.queries import default_workload
from sfumato.schema import Schema

CELLS = 4096
EPSILON = Fraction(1, 10)
NAMES = ("NETTRACE", "ADULTFRANK", "SEARCHLOGS", "INCOME", "PATENT")
WANTED = ("auto", "cells", "hierarchical", "wavelet", "matrix", "dawa", "kdtree", "ispe", "mwem", "pmw")
TARGETS = {
    ("dawa", "NETTRACE"): 60,
    ("dawa", "ADULTFRANK"): 62,
    ("dawa", "SEARCHLOGS"): 165,
    **{("hierarchical", name): 195 for name in NAMES},
}
SHOWN = 200  # ranges of which the intervals are looked at


def main() -> None:
    parser = argparse.ArgumentParser(description="Error and time on the data sets of DPBench.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--mechanisms", nargs="*", default=WANTED)
    given = parser.parse_args()
    ranges = np.load(given.folder / "ranges1d_n4096_q2000_seed9001.npy")
    print(f"{given.runs} runs, epsilon {EPSILON}, {len(ranges)} ranges of {CELLS} cells")
    print(f"{'mechanism':14}{'data':12}{'rmse':>9}{'target':>8}{'held':>8}{'seconds':>9}")
    for mechanism in given.mechanisms:
        for name in NAMES:
            counts = np.load(given.folder / f"{name}.n4096.npy").astype(np.int64)
            schema = schema_of(int(counts.sum()))
            chosen = mechanism
            if mechanism == "auto":
                chosen = choose_mechanism(schema, Budget.pure(EPSILON)).name
            try:
                error, held, seconds = np.mean([one(chosen, schema, counts, ranges) for _ in range(given.runs)], axis=0)
            except SfumatoError as refused:
                print(f"{mechanism:14}{name:12}{refused}")
                continue
            target = TARGETS.get((mechanism, name), "")
            shown = f"{mechanism:14}{name:12}{error:9.1f}{target:>8}{held:8.3f}{seconds:9.3f}"
            print(shown + (f"  ({chosen})" if chosen != mechanism else ""), flush=True)


def schema_of(rows: int) -> Schema:
    """One attribute, and roughly how many rows there are, which is public."""
    attributes = {"x": {"type": "integer", "lower": 0, "upper": CELLS - 1}}
    about = {"privacy_unit": "row", "expected_rows": rows}
    return Schema.from_dict({"dataset": "dpbench", "attributes": attributes, **about})


def one(mechanism: str, schema: Schema, counts: np.ndarray, ranges: np.ndarray) -> tuple[float, float, float]:
    """Error, part of intervals that hold the truth, and seconds of one release."""
    cells = np.flatnonzero(counts)
    charge = Charge(Budget.pure(EPSILON), 1, schema.domain.size)
    curator = Curator(schema.domain, Aggregate(cells, counts[cells], {}), {"count": 1}, charge, SystemEntropy())
    began = time.perf_counter()
    cube = MECHANISMS[mechanism].run(curator, schema, Budget.pure(EPSILON), default_workload(schema.domain))
    seconds = time.perf_counter() - began
    estimate = cube.values["count"]
    off = np.append(0.0, np.cumsum(estimate - counts))
    errors = off[ranges[:, 1] + 1] - off[ranges[:, 0]]
    chosen = np.linspace(0, len(ranges) - 1, SHOWN).astype(np.int64)
    return (
        float(np.sqrt(np.mean(errors**2))),
        float(np.mean(np.abs(errors[chosen]) <= widths(cube, ranges[chosen]))),
        seconds,
    )


def widths(cube: object, ranges: np.ndarray) -> np.ndarray:
    """Half of a 95 % interval, by the normal law: sums of this many noises are close to it."""
    fits = getattr(cube, "fits", ())
    if not fits:  # noise on every cell
        return 1.96 * np.sqrt(cube.noise("count").variance * (ranges[:, 1] - ranges[:, 0] + 1))  # type: ignore[attr-defined]
    place = np.arange(CELLS)[:, None]
    found = fits[0].errors(((place >= ranges[:, 0]) & (place <= ranges[:, 1])).astype(np.float64))
    noise = (found.weights**2 * found.design.variances[:, None]).sum(axis=0)
    return 1.96 * np.sqrt(noise + np.diagonal(found.model))


if __name__ == "__main__":
    main()
