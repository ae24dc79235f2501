"""Public yardsticks by one command: our figures, and beside each those of others. Writes RESULTS.md.

    python benchmarks/yardsticks.py DATA_FOLDER [--peers-python PATH] [--quick] [--only WORD ...] [--out FILE]

DATA_FOLDER holds dpbench/ (dpbench_data.py says what), adult.csv with adult-domain.json (margins.py) and
nist/national2019.csv. Figures come from the benchmarks that are named with each. Peers are run from their packages with
the Python of peers.py; without it, and with --quick for those that take minutes, their figures of an earlier run are
cited from cited.yaml, with the date. DPBench's nine algorithms are always cited (dpbench_data.py).
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from math import nan
from pathlib import Path

import numpy as np
import yaml

import dense
import quantiles
import regret
import series
from dpbench_data import TARGETS
from margins_runs import NotDoneError, Runs
from margins_tables import Table, tables_in
from quantiles import DECILES, rank_error
from results_page import Case, Peer, Yardstick, page

HERE = Path(__file__).parent
DELTA = "1e-9"
PACKAGES = ("smartnoise-synth", "opendp", "diffprivlib", "jax-privacy")
DPBENCH = Yardstick(
    "Ranges of DPBench",
    "Root mean square error of 2,000 ranges or rectangles, in rows, pure epsilon; mechanism `sfumato`.",
    "python benchmarks/regret.py FOLDER --mechanisms sfumato --runs 24",
    "The peer is the best of DPBench's nine algorithms for that case, which nobody knows beforehand.",
)
MARGINS = Yardstick(
    "3-way tables of Adult",
    "Mean L1 distance of all 364 tables of three of 14 columns, as a share of the rows; mechanism `margins`.",
    "python benchmarks/margins.py FOLDER --peers-python PATH",
)
SURVEY = Yardstick(
    "NIST's excerpt",
    "Mean L1 distance of 3-way tables, and the k-marginal score of pairs (1000 is perfect; ratios are of distances "
    "from it); epsilon 1, delta 1e-9, `margins`.",
    "python benchmarks/dense.py --nist FILE --peers-python PATH",
)
QUANTILES = Yardstick(
    "Nine deciles",
    "Mean rank error of nine deciles of a million rows on 100,000 values, epsilon 0.1 in all; mechanism `quantiles`.",
    "python benchmarks/quantiles.py",
    "Peers choose one quantile at a time, each for a ninth of epsilon.",
)
TOTALS = Yardstick(
    "Running totals",
    "Root mean square error of all running totals over so many periods, for noise of size 1 in a release of one "
    "period; Gaussian noise.",
    "python benchmarks/series.py --running",
    "Ours is measured on releases. The peer is the matrix with the least mean error, computed without a release; it "
    "knows the number of periods, as ours does.",
)
YARDSTICKS = (DPBENCH, MARGINS, SURVEY, QUANTILES, TOTALS)


@dataclass
class Try:
    """What is run, with which peers, and what had to be left out."""

    data: Path
    folder: Path
    peers_python: str | None
    quick: bool
    left_out: list[str] = field(default_factory=list)
    today: str = field(default_factory=lambda: datetime.now(UTC).date().isoformat())

    def versions(self) -> dict[str, str]:
        """Of the peers' packages."""
        if self.peers_python is None:
            return {}
        asked = f"from importlib.metadata import version\nfor each in {PACKAGES}: print(each, version(each))"
        told = subprocess.run([self.peers_python, "-c", asked], check=True, capture_output=True, text=True).stdout
        return dict(line.split() for line in told.splitlines())

    def asked(self, name: str, *stated: str | Path) -> np.ndarray | None:
        """What a package chooses, by asked_peers.py; None where there is no environment of peers, or it fails."""
        if self.peers_python is None:
            return None
        out = self.folder / "asked.npy"
        arguments = [str(each) if each != "OUT" else str(out) for each in stated]
        command = [self.peers_python, str(HERE / "asked_peers.py"), name, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            self.left_out.append(f"{name}: {(done.stderr.strip().splitlines() or ['failed'])[-1][:150]}")
            return None
        return np.load(out)

    def cited(self, case: str, but: frozenset[str] = frozenset()) -> Iterator[Peer]:
        """Figures of an earlier run, but of those peers that have been run today."""
        for line in yaml.safe_load((HERE / "cited.yaml").read_text()):
            if line["case"] == case and line["peer"] not in but:
                yield Peer(line["peer"], float(line["figure"]), f"{line['source']}, run {line['date']}", line["cpu"])


def dpbench(what: Try) -> Iterator[Case]:
    epsilons, runs = (Fraction(1, 10), Fraction(1)), 24 if what.quick else 50
    for name in dict.fromkeys(name for name, _ in TARGETS):
        job = regret.Job(what.data / "dpbench", name, "sfumato", epsilons, runs, 0, 60.0)
        _, found, why = regret.work(job)
        if why is not None:
            what.left_out.append(f"{name}: {why}")
        for row in found:
            peer = Peer("best of nine", TARGETS[name, row.epsilon].peer, "their own code, recorded 2026-11-15")
            case = f"{name}, epsilon {float(row.epsilon):g}"
            yield Case(DPBENCH.title, case, row.rmse, row.spread, runs, row.seconds, (peer,))


def tables(what: Try) -> Iterator[Case]:
    """Three-way tables of Adult, and of NIST's excerpt with its score of pairs."""
    runs = Runs(what.folder, what.peers_python, seconds=4000)
    adult = tables_in(what.data, ["adult"]).get("adult")
    if adult is None:
        what.left_out.append("Adult: no adult-domain.json in the folder")
    else:
        for epsilon in ("1",) if what.quick else ("0.1", "1", "10"):
            case = f"Adult, epsilon {epsilon}, delta {DELTA}"
            peers = () if what.quick else ("MST", "AIM")
            yield from of_table(what, runs, adult, epsilon, {case: (MARGINS, distance, 0.0)}, peers, 4)
    file = what.data / "nist" / "national2019.csv"
    for title, columns in (("nist ten", "ten"), *(() if what.quick else (("nist", "22"),))):
        table = dense.made(title, what.folder, file) if file.exists() else None
        if table is None:
            what.left_out.append("NIST's excerpt: no nist/national2019.csv in the folder")
            return
        cases = {
            f"NIST, 3-way tables of {columns} columns": (SURVEY, sampled_distance, 0.0),
            f"NIST, k-marginal of {columns} columns": (SURVEY, dense.k_marginal, 1000.0),
        }
        yield from of_table(what, runs, table, "1", cases, ("MST",) if what.quick else ("MST", "AIM"), 4)


def distance(table: Table, estimate: dense.Estimate) -> float:
    return table.distances(estimate)[1]


def sampled_distance(table: Table, estimate: dense.Estimate) -> float:
    return dense.distances(table, estimate)[1]


def of_table(
    what: Try, runs: Runs, table: Table, epsilon: str, cases: dict, peers: tuple[str, ...], times: int
) -> Iterator[Case]:
    """All figures of the same releases of a table."""
    ours = [runs.ours(table, "margins", epsilon, DELTA) for _ in range(times)]
    theirs = {}
    for peer in peers if what.peers_python else ():
        try:
            theirs[peer] = runs.peer(table, peer.lower(), epsilon, DELTA)
        except NotDoneError as failed:
            what.left_out.append(f"{peer} on {next(iter(cases))}: {failed}")
    cpu = float(np.mean([run.cpu for run in ours]))
    for case, (yardstick, score, perfect) in cases.items():
        figures = [score(table, run.estimate) for run in ours]
        source = f"smartnoise-synth {what.versions().get('smartnoise-synth')}, run {what.today}"
        run_today = [Peer(name, score(table, run.estimate), source, run.cpu) for name, run in theirs.items()]
        beside = (*run_today, *what.cited(case, frozenset(theirs)))
        if beside:
            yield Case(yardstick.title, case, *mean(figures), times, cpu, beside, perfect)


def deciles(what: Try) -> Iterator[Case]:
    runs, theirs = (10, 3) if what.quick else (50, 10)
    for name, counts in quantiles.tables(quantiles.ROWS, quantiles.VALUES).items():
        if what.quick and name not in ("skewed", "heaped"):
            continue
        np.save(what.folder / "counts.npy", counts)
        wanted = [str(float(each)) for each in DECILES]
        peers = []
        for package in ("opendp", "diffprivlib"):
            stated = (what.folder / "counts.npy", "OUT", str(float(quantiles.EPSILON)), str(theirs), *wanted)
            chosen = what.asked(package, *stated)
            if chosen is not None:
                errors = [
                    np.mean([rank_error(counts, int(value), each) for value, each in zip(run, DECILES, strict=True)])
                    for run in chosen
                ]
                figure, error = mean([float(each) for each in errors])
                source = f"{package} {what.versions()[package]}, run {what.today}, {theirs} runs"
                peers.append(Peer(package, figure, source, error=error))
        if peers:
            found = quantiles.deciles_of(counts, runs)
            figure, error = mean(found.together.mean(axis=1).tolist())
            yield Case(QUANTILES.title, name, figure, error, runs, found.seconds, tuple(peers))


def totals(what: Try) -> Iterator[Case]:
    for periods in (12, 60, 120) if what.quick else (12, 60, 120, 365):
        matrix = what.asked("jax-privacy", "OUT", str(periods))
        if matrix is None:
            continue
        decoded = np.linalg.solve(matrix.T, np.tril(np.ones((periods, periods))).T).T
        least = float(np.linalg.norm(matrix, axis=0).max() * np.linalg.norm(decoded) / np.sqrt(periods))
        source = f"jax-privacy {what.versions()['jax-privacy']}, run {what.today}"
        found = series.running_errors(periods).measured
        yield Case(TOTALS.title, f"{periods} periods", found, nan, 1, nan, (Peer("dense matrix", least, source),))


def mean(figures: list[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    return float(np.mean(figures)), float(np.std(figures, ddof=1) / np.sqrt(len(figures))) if len(figures) > 1 else nan


PARTS = {"dpbench": dpbench, "tables": tables, "quantiles": deciles, "totals": totals}


def made_by(form: str) -> str:
    """What made the page: command, day, commit, machine, and CPU seconds."""

    def git(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=HERE, capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "--short=10", "HEAD") or "unknown"
    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no", "--", "../src") else ""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(used.ru_utime + used.ru_stime for used in spent)
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    chip = names[0].split(":")[1].strip() if names else platform.processor()
    return (
        f"*Made by `python benchmarks/yardsticks.py FOLDER{form}` on {datetime.now(UTC):%Y-%m-%d}, commit {commit}"
        f"{changed}, on {os.cpu_count()} cores of {chip}, Python {platform.python_version()}; {seconds:,.0f} s of CPU. "
        "Smaller figures are better, except for scores. Nothing here is edited by hand.*"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers-python")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--out", type=Path, default=HERE / "RESULTS.md")
    given = parser.parse_args()
    cases = []
    with tempfile.TemporaryDirectory() as name:
        what = Try(given.folder, Path(name), given.peers_python, given.quick)
        for part in given.only:
            for case in PARTS[part](what):
                best = case.best
                print(f"{case.yardstick}, {case.name}: {case.figure:.4g}, {best.name} {best.figure:.4g}", flush=True)
                cases.append(case)
    form = " --peers-python PATH" * bool(given.peers_python) + " --quick" * given.quick
    form += f" --only {' '.join(given.only)}" * (given.only != list(PARTS))
    given.out.write_text(page(made_by(form), YARDSTICKS, cases, what.left_out), encoding="utf-8")


if __name__ == "__main__":
    main()
