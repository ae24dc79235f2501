"""Every cube mechanism on many tables, and its regret: how many times the error of the best mechanism for that table.

    python benchmarks/regret.py [DATA_FOLDER] [--runs 10] [--mechanisms NAME ...] [--data WORD ...] [--epsilons 0.1 1]
                                [--workers 2] [--patience 5] [--looks 5] [--out FILE]

Tables are those of shapes.py and, with DATA_FOLDER, the data sets of DPBench (dpbench_data.py says what the folder
holds); --data takes those whose name holds one of the words. Every release is a real one with fresh noise. Errors are
the root mean square over 2,000 boxes of cells, as a mean over runs. In the first few runs (--looks) it is also counted
how many 95 % intervals hold the truth: of boxes, of the total, of cells, and of cells that are not empty. Seconds are
CPU seconds of a release, the first one of a table aside.

Left out, and said so: mechanisms that refuse, those that answer a workload's queries and nothing else, and those that
take more than --patience CPU seconds for a release (the first one, so with any search for a strategy).
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np

from boxes import Boxes
from dpbench_data import dpbench_cases
from regret_tables import Row, print_tables
from releasing import release_counts
from sfumato.errors import SfumatoError
from sfumato.models import MECHANISMS
from sfumato.queries import default_workload
from sfumato.releases.release import Release
from shapes import Case, own_cases

BOXES, CELLS = 40, 20  # of which intervals are looked at


@dataclass(frozen=True)
class Job:
    """All runs of a mechanism on a table, at every epsilon."""

    folder: Path | None
    case: str
    mechanism: str
    epsilons: tuple[Fraction, ...]
    runs: int
    looks: int
    patience: float


class TooSlow(Exception):
    """A release took more than the patience there is."""


_too_slow: set[tuple[str, tuple[int, ...]]] = set()  # what this process need not try again, by the domain's shape


@cache
def cases_by_name(folder: Path | None) -> dict[str, tuple[str, Case]]:
    """All tables, each with the suite it belongs to. Made once in each process, so that strategies are found once."""
    found = {case.name: ("own shapes", case) for case in own_cases()}
    if folder is not None:
        found |= {case.name: ("DPBench", case) for case in dpbench_cases(folder)}
    return found


def work(job: Job) -> tuple[Job, list[Row], str | None]:
    """The rows of a job, or why there are none."""
    suite, case = cases_by_name(job.folder)[job.case]
    slow = f"takes more than {job.patience:g} CPU seconds for a release"
    if MECHANISMS[job.mechanism].answers == "its workload":
        return job, [], "answers the queries of a workload and nothing else"
    if refused := MECHANISMS[job.mechanism].why_not(case.schema, default_workload(case.schema.domain)):
        return job, [], refused
    place = job.mechanism, case.schema.domain.shape
    if place in _too_slow:
        return job, [], slow
    try:
        return job, [measured(job, suite, case, epsilon) for epsilon in job.epsilons], None
    except TooSlow:
        _too_slow.add(place)
        return job, [], slow
    except SfumatoError as refusal:
        return job, [], str(refusal)


def measured(job: Job, suite: str, case: Case, epsilon: Fraction) -> Row:
    """Error, intervals and time, over all runs."""
    errors, seconds, held = [], [], []
    for run in range(job.runs):
        with at_most(job.patience):
            began = time.process_time()
            release = release_counts(
                job.mechanism, case.schema, case.counts, epsilon, default_workload(case.schema.domain)
            )
            seconds.append(time.process_time() - began)
        off = release.content.cells().reshape(case.counts.shape) - case.counts
        errors.append(float(np.sqrt(np.mean(case.boxes.sums(off) ** 2))))
        if run < job.looks:
            held.append(parts_held(release, case, seed=run))
    ranges, totals, cells, filled = np.mean(held, axis=0) if held else [float("nan")] * 4
    return Row(
        suite=suite,
        data=case.name,
        epsilon=epsilon,
        mechanism=job.mechanism,
        runs=job.runs,
        rmse=float(np.mean(errors)),
        spread=float(np.std(errors, ddof=1) / job.runs**0.5) if job.runs > 1 else float("nan"),
        ranges=float(ranges),
        totals=float(totals),
        cells=float(cells),
        filled=float(filled),
        seconds=float(np.mean(seconds[1:] or seconds)),
    )


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Stop what takes more CPU time; CPU and not the clock's, so that a busy machine does not count."""

    def stop(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def parts_held(release: Release, case: Case, seed: int) -> list[float]:
    """Which part of 95 % intervals hold the truth: of boxes, the total, any cells, cells that are not empty."""
    stream, flat = np.random.default_rng(seed), case.counts.reshape(-1)
    filled = np.flatnonzero(flat)
    some = stream.choice(len(flat), CELLS, replace=False)
    some_filled = stream.choice(filled, CELLS) if len(filled) else some[:0]
    kinds = [
        case.boxes.some(BOXES),
        Boxes.everything(case.schema),
        Boxes.single(case.schema, some),
        Boxes.single(case.schema, some_filled),
    ]
    asked = Boxes(np.concatenate([kind.lows for kind in kinds]), np.concatenate([kind.highs for kind in kinds]))
    ((*found,),) = release.query(asked.sql(case.schema)).rows
    truth = asked.sums(case.counts)
    inside = np.array([answer.low <= value <= answer.high for answer, value in zip(found, truth, strict=True)])
    parts = np.split(inside, np.cumsum([len(kind) for kind in kinds])[:-1])
    return [float(part.mean()) if len(part) else float("nan") for part in parts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--mechanisms", nargs="*", choices=MECHANISMS, default=list(MECHANISMS), metavar="NAME")
    parser.add_argument("--data", nargs="*", default=[""], metavar="WORD")
    parser.add_argument("--epsilons", nargs="*", type=Fraction, default=[Fraction(1, 10), Fraction(1)])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--patience", type=float, default=5.0)
    parser.add_argument("--looks", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    names = [name for name in cases_by_name(given.folder) if any(word.lower() in name.lower() for word in given.data)]
    about = tuple(given.epsilons), given.runs, given.looks, given.patience
    rows, skipped = [], {}
    # Mechanism by mechanism, so that a strategy is found once and used while it is remembered.
    jobs = [Job(given.folder, name, mechanism, *about) for mechanism in given.mechanisms for name in names]
    for done, (job, found, why) in enumerate(finished(jobs, given.workers), start=1):
        rows += found
        if why is not None:
            skipped[job.mechanism, job.case] = why
        if given.out:
            append(given.out, found, new=done == 1)
        print(f"{done} of {len(jobs)}: {job.mechanism}, {job.case}" + (" (left out)" if why else ""), file=sys.stderr)
    print_tables(rows, skipped, names, given.mechanisms)


def finished(jobs: list[Job], workers: int) -> Iterator[tuple[Job, list[Row], str | None]]:
    """Jobs as they are done. Workers are fresh processes with one thread each, so that they do not get in the way."""
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(work, jobs)


def append(path: Path, rows: list[Row], *, new: bool) -> None:
    """Add rows to a CSV file as they come, so that a run that is stopped leaves what it has."""
    with path.open("w" if new else "a", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        if new:
            writer.writeheader()
        writer.writerows({**asdict(row), "epsilon": float(row.epsilon)} for row in rows)


if __name__ == "__main__":
    main()
