"""How often a hidden parity is learnt from a release, and how long it takes.

    python benchmarks/parity.py [--releases 1000]

First the example of TR-2010-003, section 8.2 (10^5 rows, 8 attributes, alpha 0.01), and the same with less budget,
where the paper's elimination fails; then 16 attributes and a million rows, read from a file, at epsilon 1.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

import sfumato as sf
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.lab.reproduce.tr_2010_003.parity_and_largest import HIDDEN, parity, release_of

ALPHAS = Fraction(1, 100), Fraction(1, 400), Fraction(1, 800), Fraction(1, 1600)
BY_ELIMINATION = 20  # releases on which the paper's learner is tried, which takes long
VECTOR = f"{HIDDEN:07b}"
ATTRIBUTES, ROWS = 16, 10**6


def example(releases: int) -> None:
    print(f"TR-2010-003, 8.2: vector 0000011, {releases:,} releases; elimination on {BY_ELIMINATION}, 200 repetitions")
    print(f"{'alpha':>9}{'learnt':>10}{'claimed (95 %)':>16}{'claimed wrongly':>17}{'elimination':>13}")
    entropy = SystemEntropy()
    for alpha in ALPHAS:
        found = [release_of(entropy, alpha) for _ in range(releases)]
        right = sum(one.vector == VECTOR and not one.learnt.opposite for one in found)
        sure = [one for one in found if one.doubt <= 0.05]
        wrong = sum(one.vector != VECTOR or one.learnt.opposite for one in sure)
        tries = [parity(entropy, repetitions=200, seed=seed, alpha=alpha) for seed in range(BY_ELIMINATION)]
        theirs = sum(one.learnt == HIDDEN for one in tries) / BY_ELIMINATION
        shares = (right / releases, len(sure) / releases, wrong / releases, theirs)
        print(
            f"{float(alpha):>9g}"
            + "".join(f"{100 * s:>{w - 2}.1f} %" for s, w in zip(shares, (10, 16, 17, 13), strict=True))
        )


def large(folder: Path) -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, (ROWS, ATTRIBUTES), dtype=np.int8)
    hidden = [2, 3, 7, 11]
    bits[:, -1] = (bits[:, hidden].sum(axis=1) % 2) ^ (rng.random(ROWS) < 0.1)
    names = [f"x{place}" for place in range(ATTRIBUTES)]
    parquet.write_table(
        pa.table({name: bits[:, place] == 1 for place, name in enumerate(names)}), folder / "bits.parquet"
    )
    attributes = {name: {"type": "boolean"} for name in names}
    schema = sf.Schema.from_dict(
        {"dataset": "bits", "privacy_unit": "row", "budget": {"epsilon": 10}, "attributes": attributes}
    )
    start = time.perf_counter()
    release = sf.release(folder / "bits.parquet", schema, epsilon=1, mechanism="parity", ledger=folder / "ledger.db")
    told = release.describe().findings
    print(
        f"\n{ATTRIBUTES} attributes, {ROWS:,} rows, epsilon 1, a tenth of the labels wrong: "
        f"{time.perf_counter() - start:.2f} s in all"
    )
    print("\n".join(told))


def main() -> None:
    stated = argparse.ArgumentParser(description=__doc__)
    stated.add_argument("--releases", type=int, default=1000)
    example(stated.parse_args().releases)
    with tempfile.TemporaryDirectory() as folder:
        large(Path(folder))


if __name__ == "__main__":
    main()
