"""Margins of tables with many attributes: how far off, at what cost, beside other mechanisms and other people's.

    python benchmarks/margins.py FOLDER [--runs 2] [--epsilons 0.1 1 10] [--pure 1] [--tables NAME ...]
                                 [--peers-python PATH] [--peers mst aim] [--seconds 600]

FOLDER has tables of codes: NAME.csv with a header, NAME-domain.json ({attribute: number of values}) and, where some
attributes have an order, NAME-ordered.json (a list of them). Three tables are printed:

1   mean L1 distance of all 3-way margins as a share of the rows, of those with at most 10,000 cells and of all; CPU
    seconds and peak memory of the whole process (reading the file and start-up included); epsilon with delta 1e-9, and
    pure. `independent` multiplies one-way margins; `residual` is cut at zero, margin by margin, with the total kept
2   six attributes of Adult, 38,080 cells, pure epsilon 0.5: root mean square error over all cells of all 1-, 2- and
    3-way margins, beside the figures to reach
3   five attributes of Adult, 640 cells, pure epsilon 1: the same, where measuring every cell is hard to beat

Peers are SmartNoise's MST and AIM (margins_peers.py says with which settings), run once each if --peers-python names
the Python of an environment that has them: `pip install --no-deps smartnoise-synth==1.0.8`, then `pip install "mbi<2"
"disjoint-set<0.10" "pandas<3" Faker smartnoise-sql`. A plain `pip install smartnoise-synth` also wants pac-synth, which
has no wheel for every platform and is built from Rust sources, and opacus; neither mechanism uses them. Private-PGM's
own scripts for AIM and MST are not on the package index (its library is: mbi). DPSynth is not on it under that name; no
figures of its authors for these tables, domains and scores were at hand, so there are none to set beside ours.

For CPU seconds that mean something: OPENBLAS_NUM_THREADS=1. What a process may use is limited, and if it fails its line
says why.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from margins_runs import NotDoneError, Run, Runs
from margins_tables import Table, five_of_adult, six_of_adult, tables_in
from sfumato.models import MECHANISMS

DELTA = "1e-9"
TARGETS = "33 / 28 / 18"  # of six attributes of Adult: 1-, 2- and 3-way


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("folder", type=Path)
    asked.add_argument("--runs", type=int, default=2, help="of ours; 0 for peers alone")
    asked.add_argument("--epsilons", nargs="*", default=["0.1", "1", "10"])
    asked.add_argument("--pure", nargs="*", default=["1"])
    asked.add_argument("--tables", nargs="*", default=[])
    asked.add_argument("--peers-python")
    asked.add_argument("--peers", nargs="*", default=["mst", "aim"], choices=["mst", "aim"])
    asked.add_argument("--seconds", type=int, default=600, help="of CPU, for one process")
    given = asked.parse_args()
    tables = tables_in(given.folder, given.tables)
    if not tables:
        raise SystemExit(f"no NAME-domain.json of these names in {given.folder}")
    prices = [(epsilon, DELTA) for epsilon in given.epsilons] + [(epsilon, None) for epsilon in given.pure]
    peers = given.peers if given.peers_python else []
    with tempfile.TemporaryDirectory() as name:
        runs = Runs(Path(name), given.peers_python, given.seconds)
        for title, table in tables.items():
            print(f"\n{title}: {len(table.codes):,} rows, {len(table.sizes)} attributes, mean L1 of all 3-way margins")
            print(f"{'epsilon':>10} {'':13}{'<= 10,000':>10}{'all':>9}{'CPU s':>9}{'MB':>8}{'runs':>6}")
            for epsilon, delta in prices:
                distances(runs, table, epsilon, delta, given.runs, peers)
        if "adult" in tables and given.runs:
            six, five = six_of_adult(tables["adult"], Path(name)), five_of_adult(tables["adult"], Path(name))
            print(f"\nsix attributes of Adult, 38,080 cells, pure epsilon 0.5: RMSE, to reach {TARGETS}")
            errors(runs, six, "0.5", given.runs, ["hierarchical", "sfumato", "margins", "cells"])
            print("\nfive attributes of Adult, 640 cells, pure epsilon 1: RMSE")
            errors(runs, five, "1", given.runs, ["cells", "margins"])


def distances(runs: Runs, table: Table, epsilon: str, delta: str | None, times: int, peers: list[str]) -> None:
    """A line for each, as soon as it is known."""
    price = f"{epsilon} {'' if delta else 'pure'}"
    kinds: dict[str, Callable[[], Run]] = {
        "margins": lambda: runs.ours(table, "margins", epsilon, delta),
        "independent": lambda: runs.independent(table, epsilon, delta),
    }
    kinds["bayes"] = lambda: runs.ours(table, "bayes", epsilon, delta)
    if "residual" in MECHANISMS:
        kinds["residual"] = lambda: runs.ours(table, "residual", epsilon, delta, cut=True)
    for kind, make in kinds.items():
        line(price, kind, table, make, times)
    for peer in peers if delta else []:
        line(price, peer, table, lambda peer=peer: runs.peer(table, peer, epsilon, delta), 1)


def line(price: str, kind: str, table: Table, make: Callable[[], Run], times: int) -> None:
    found = []
    if not times:
        return
    try:
        for _ in range(times):
            run = make()
            found.append([*table.distances(run.estimate), run.cpu or np.nan, run.megabytes or np.nan])
    except NotDoneError as failed:
        print(f"{price:>10} {kind:13}{failed}", flush=True)
        return
    few, every, cpu, megabytes = np.mean(found, axis=0)
    cost = f"{cpu:9.1f}{megabytes:8,.0f}" if cpu == cpu else f"{'':17}"
    print(f"{price:>10} {kind:13}{few:10.3f}{every:9.3f}{cost}{times:6}", flush=True)


def errors(runs: Runs, table: Table, epsilon: str, times: int, mechanisms: list[str]) -> None:
    print(f"{'':14}{'1-way':>8}{'2-way':>8}{'3-way':>8}{'CPU s':>9}{'MB':>8}{'runs':>6}")
    for mechanism in mechanisms:
        found = []
        for _ in range(times):
            run = runs.ours(table, mechanism, epsilon, None)
            found.append([*table.errors(run.estimate), run.cpu, run.megabytes])
        one, two, three, cpu, megabytes = np.mean(found, axis=0)
        print(f"{mechanism:14}{one:8.1f}{two:8.1f}{three:8.1f}{cpu:9.1f}{megabytes:8,.0f}{times:6}", flush=True)


if __name__ == "__main__":
    main()
