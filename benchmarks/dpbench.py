"""Error and time on the data sets of DPBench. `python benchmarks/dpbench.py DATA_FOLDER [--runs 20]`

The five data sets of one attribute with their 2,000 ranges; dpbench_data.py says what the folder holds, and regret.py
compares mechanisms more widely. Epsilon is 0.1. Figures are the root mean squared error over the ranges, in counts, as
a mean over runs; the part of 200 of the ranges that 95 % intervals hold; and the seconds of one release. Targets, where
there are any, stand beside them.
"""

from __future__ import annotations

import argparse
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

from boxes import Boxes
from dpbench_data import CELLS, LINES, line, ranges
from releasing import release_counts
from sfumato.errors import SfumatoError
from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.planner.choose import choose_mechanism
from sfumato.queries import default_workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

EPSILON = Fraction(1, 10)
WANTED = ["auto", *(one.name for one in MECHANISMS.values() if one.answers == "everything" and not one.holds.sparse)]
TARGETS = {
    ("dawa", "NETTRACE"): 60,
    ("dawa", "ADULT"): 62,
    ("dawa", "SEARCHLOGS"): 165,
    **{("hierarchical", name): 195 for name in LINES},
}
SHOWN = 200  # ranges of which the intervals are looked at


def main() -> None:
    parser = argparse.ArgumentParser(description="Error and time on the data sets of DPBench.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--mechanisms", nargs="*", default=WANTED)
    given = parser.parse_args()
    asked = ranges(given.folder)
    print(f"{given.runs} runs, epsilon {EPSILON}, {len(asked)} ranges of {CELLS} cells")
    print(f"{'mechanism':14}{'data':12}{'rmse':>9}{'target':>8}{'held':>8}{'seconds':>9}")
    for mechanism in given.mechanisms:
        for name in LINES:
            counts = line(given.folder, name)
            schema = schema_of(int(counts.sum()))
            chosen = mechanism
            if mechanism == "auto":
                chosen = choose_mechanism(schema, Budget.pure(EPSILON)).name
            try:
                error, held, seconds = np.mean([one(chosen, schema, counts, asked) for _ in range(given.runs)], axis=0)
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


def one(mechanism: str, schema: Schema, counts: np.ndarray, asked: Boxes) -> tuple[float, float, float]:
    """Error, part of intervals that hold the truth, and seconds of one release."""
    began = time.perf_counter()
    cube = release_counts(mechanism, schema, counts, EPSILON, default_workload(schema.domain)).content
    seconds = time.perf_counter() - began
    estimate = cube.values["count"]
    off = estimate - counts
    some = asked.some(SHOWN)
    held = np.abs(some.sums(off)) <= widths(cube, some)
    return float(np.sqrt(np.mean(asked.sums(off) ** 2))), float(held.mean()), seconds


def widths(cube: Cube, asked: Boxes) -> np.ndarray:
    """Half of a 95 % interval, by the normal law: sums of this many noises are close to it."""
    place = np.arange(CELLS)[:, None]
    found = cube.fits[0].errors(((place >= asked.lows[:, 0]) & (place <= asked.highs[:, 0])).astype(np.float64))
    noise = (found.weights**2 * found.design.variances[:, None]).sum(axis=0)
    return 1.96 * np.sqrt(noise + np.diagonal(found.model))


if __name__ == "__main__":
    main()
