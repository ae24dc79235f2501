"""Tables of densely dependent columns: 3-way margins of `margins` beside independent margins, AIM and MST.

    python benchmarks/dense.py [--tables NAME ...] [--nist FILE] [--runs 1] [--epsilon 1] [--pure]
                               [--before FOLDER] [--peers-python PATH] [--peers mst aim] [--seconds 1200]

For each table: mean L1 distance of all 3-way margins as a share of the rows, of those with at most 10,000 cells and of
all (a subsample of 400 where there are more), and CPU seconds of the process. `pairs` joins the true pairs by maximum
entropy: without larger tables and without noise, nothing that knows pairs alone is better. Two tables are here to show
that nothing is lost where pairs tell all (chain) or where nothing depends (apart).

--nist names NIST's excerpt (national2019.csv), released with ten demographic columns (which also get the k-marginal
score of 2-way margins, (2 - L1) * 500, ages in twenty bins) and with all 22 columns but weights. --before names the
`src` folder of another state of the code, released beside this one. Peers are those of margins.py.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np

from dense_tables import DEMOGRAPHIC, MADE, SEED, nist
from margins_runs import NotDoneError, Run, Runs
from margins_tables import FEW, Estimate, Table

DELTA = "1e-9"
MOST_SETS = 400  # 3-way margins that are compared
AGES = 20  # bins of ages in the k-marginal score


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--tables", nargs="*", default=[*MADE, "nist ten", "nist"])
    asked.add_argument("--nist", type=Path)
    asked.add_argument("--runs", type=int, default=1)
    asked.add_argument("--epsilon", default="1")
    asked.add_argument("--pure", action="store_true")
    asked.add_argument("--before", type=Path)
    asked.add_argument("--peers-python")
    asked.add_argument("--peers", nargs="*", default=["mst", "aim"], choices=["mst", "aim"])
    asked.add_argument("--seconds", type=int, default=1200)
    given = asked.parse_args()
    print(f"epsilon {given.epsilon}, {'pure' if given.pure else 'delta ' + DELTA}; mean L1 of 3-way margins")
    print(f"{'':12}{'':14}{'<= 10,000':>10}{'all':>9}{'k-marginal':>12}{'CPU s':>9}{'runs':>6}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title in given.tables:
            table = made(title, folder, given.nist)
            if table is not None:
                compare(title, table, Runs(folder, given.peers_python, given.seconds), given)


def made(title: str, folder: Path, excerpt: Path | None) -> Table | None:
    """A table by its name, written to a folder; None where its file is not given."""
    if title in MADE:
        return MADE[title](np.random.default_rng([SEED, *title.encode()])).written(folder, title)
    if excerpt is None:
        print(f"{title}: left out; --nist names its file")
        return None
    return nist(excerpt, DEMOGRAPHIC if title == "nist ten" else None).written(folder, title.replace(" ", "_"))


def compare(title: str, table: Table, runs: Runs, given: argparse.Namespace) -> None:
    """A line for each way of estimating, as soon as it is known."""
    delta = None if given.pure else DELTA
    line(title, "pairs", table, [Run(joined_pairs(table))])
    line(title, "independent", table, [runs.independent(table, given.epsilon, delta)])
    if given.before is not None:  # with a ledger of its own, whose format may be older
        (runs.folder / "before").mkdir(exist_ok=True)
        earlier = Runs(runs.folder / "before", None, given.seconds)
        os.environ["PYTHONPATH"] = str(given.before.absolute())
        results = [earlier.ours(table, "margins", given.epsilon, delta) for _ in range(given.runs)]
        os.environ["PYTHONPATH"] = os.pathsep.join(each for each in sys.path if each)
        line(title, "before", table, results)
    line(title, "margins", table, [runs.ours(table, "margins", given.epsilon, delta) for _ in range(given.runs)])
    for peer in given.peers if given.peers_python and delta else []:
        try:
            line(title, peer, table, [runs.peer(table, peer, given.epsilon, delta)])
        except NotDoneError as failed:
            print(f"{title:12}{peer:14}{failed}", flush=True)


def line(title: str, kind: str, table: Table, results: list[Run]) -> None:
    """Print the mean figures of several runs."""
    found = np.array([[*distances(table, run.estimate), run.cpu or np.nan] for run in results]).mean(axis=0)
    score = np.mean([k_marginal(table, run.estimate) for run in results]) if "AGEP" in table.sizes else np.nan
    few, every, cpu = found.tolist()
    ends = f"{score:12.1f}" if score == score else f"{'':12}"
    ends += f"{cpu:9.1f}" if cpu == cpu else f"{'':9}"
    print(f"{title:12}{kind:14}{few:10.4f}{every:9.4f}{ends}{len(results):6}", flush=True)


def distances(table: Table, estimate: Estimate) -> tuple[float, float]:
    """Mean L1 distance of 3-way margins as a share of the rows: of those of few cells, and of all."""
    sets = list(table.sets(3))
    if len(sets) > MOST_SETS:
        chosen = np.random.default_rng(SEED).choice(len(sets), MOST_SETS, replace=False)
        sets = [sets[index] for index in np.sort(chosen)]
    off = {p: float(np.abs(estimate(p) - table.margin(p)).sum()) / len(table.codes) for p in sets}
    few = [each for places, each in off.items() if prod(table.shape(places)) <= FEW]
    return float(np.mean(few)) if few else float("nan"), float(np.mean(list(off.values())))


def k_marginal(table: Table, estimate: Estimate) -> float:
    """NIST's score of 2-way margins: the mean of (2 - L1) * 500, ages in twenty bins."""
    names, scores = list(table.sizes), []
    for places in combinations(range(len(names)), 2):
        sums = []
        for counts in (np.maximum(estimate(places), 0.0), table.margin(places).astype(np.float64)):
            binned = counts
            for axis, place in enumerate(places):
                if names[place] == "AGEP":
                    starts = np.arange(AGES) * counts.shape[axis] // AGES
                    binned = np.add.reduceat(binned, starts, axis=axis)
            sums.append(binned / max(float(binned.sum()), 1.0))
        scores.append(500.0 * (2.0 - float(np.abs(sums[0] - sums[1]).sum())))
    return float(np.mean(scores))


def joined_pairs(table: Table) -> Estimate:
    """Maximum-entropy join of the true pairs."""
    from sfumato.models.margins.joining import join_counts

    def estimate(places: tuple[int, ...]) -> np.ndarray:
        if len(places) < 3:
            return table.margin(places)
        one_way = [table.margin((place,)).astype(np.float64) for place in places]
        inside = list(combinations(range(len(places)), 2))
        known = {(a, b): table.margin((places[a], places[b])).astype(np.float64) for a, b in inside}
        return join_counts(one_way, known, 1e-4)

    return estimate


if __name__ == "__main__":
    main()
