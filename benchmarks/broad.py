"""How often 95 % intervals of the questions that people ask hold, and how wide they are, by kind, table and mechanism.

`python benchmarks/broad.py [--data FOLDER] [--tables adult classes ...] [--mechanisms auto sfumato ...] [--epsilon 1]
[--pure] [--releases 10] [--kinds "two ranges" ...] [--questions 110] [--sets 3] [--json FILE] [--before FILE]
[--search]`

Whole releases with fresh noise; the same questions of each, by the same SQL as DuckDB, which has the truth. For each
kind: the share of typical intervals that held, with its standard error (over releases or over questions, the larger
one: questions are drawn at random, and what is off in one release is off in the next); the lowest share of a single
question, over releases and groups; width over spread, which is the mean width / 3.92 over the root mean squared error,
of all questions and as the median over questions (1: as wide as normal errors need; 2.5 is the most wanted); the same
of guaranteed intervals, which the first releases are asked for besides. "All groups at once" holds if all groups do.
Last come the worst single questions. `auto` is asked of wide tables, what needs a cube of small ones. A table's name
that ends in .csv is a file of your own, whose schema is made from its values.

With --search the questions that held least in so many releases are asked again of twice as many new ones, and told with
their SQL and bounds of 95 %: the search of the audit (src/sfumato/lab/audit/calibration/worst_question.py).
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import nan
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np

import sfumato as sf
from broad_tables import SMALL, WIDE, grounds, named
from interval_pools import CONFIDENCE, Pool
from sfumato.errors import NewLedgerWarning
from sfumato.lab.audit.calibration.worst_question import (
    KINDS,
    OF_BINS,
    Answer,
    Ground,
    Question,
    Search,
    share_held,
    worst_questions,
)
from sfumato.models import find_mechanism
from sfumato.releases.release import Release

NORMAL = 3.92  # widths of a 95 % interval in standard errors
WORST = 12  # single questions that are told
ALL_KINDS = [kind + more for kind in KINDS for more in ("", OF_BINS)]
CUBES = "sfumato", "dawa", "kdtree", "ispe", "mwem", "pmw", "residual", "bayes"


@dataclass(frozen=True)
class Figure:
    """What was found of a kind of question, or of one question: shares, and widths over the spread of errors."""

    table: str
    mechanism: str
    kind: str
    held: float
    error: float  # standard, over releases or over questions, the larger
    lowest: float
    ratio: float
    median_ratio: float
    questions: int
    answers: int
    sure_held: float
    sure_ratio: float
    sql: str = ""  # of the lowest


class Heard:
    """Answers of several releases, by question."""

    def __init__(self) -> None:
        self.by_question: dict[Question, list[list[Answer]]] = defaultdict(list)

    def add(self, answers: Sequence[Answer]) -> None:
        """One release."""
        found: dict[Question, list[Answer]] = defaultdict(list)
        for answer in answers:
            found[answer.question].append(answer)
        for question, each in found.items():
            self.by_question[question].append(each)

    def figure(self, table: str, mechanism: str, kind: str, ground: Ground) -> Figure:
        """One kind of question, or all."""
        chosen = {one: each for one, each in self.by_question.items() if kind in (one.kind, "all")}
        shares = {one: np.array([share_held(answers) for answers in each]) for one, each in chosen.items()}
        lowest = min(shares, key=lambda one: float(shares[one].mean()))
        releases = max(map(len, shares.values()))
        by_release = np.array(
            [np.mean([each[k] for each in shares.values() if k < len(each)]) for k in range(releases)]
        )
        pool = Pool((by_release,), (by_release,))
        by_question = np.array([each.mean() for each in shares.values()])
        error = max(pool.error, float(by_question.std()) / max(len(by_question) - 1, 1) ** 0.5)
        answers = [answer for each in chosen.values() for release in each for answer in release]
        sure = [one.surely_held for one in answers if one.surely_held is not None]
        width, sure_width = (nan, nan) if kind == "all" else (ratio(answers), ratio(answers, sure=True))  # other units
        own = [ratio([answer for release in each for answer in release]) for each in chosen.values()]
        return Figure(
            *(table, mechanism, kind, pool.coverage, error, float(shares[lowest].mean()), width),
            *(
                float(np.median([one for one in own if np.isfinite(one)] or [np.nan])),
                len(chosen),
                len(answers),
                float(np.mean(sure)) if sure else float("nan"),
            ),
            *(sure_width, ground.sql([lowest])),
        )


def ratio(answers: Sequence[Answer], *, sure: bool = False) -> float:
    """Mean width / 3.92 over the root mean squared error; where ends are not known, widths are left out."""
    chosen = [one for one in answers if not sure or one.estimate.sure is not None]
    ends = [one.estimate.sure if sure else (one.estimate.low, one.estimate.high) for one in chosen]
    widths = np.array([high - low for low, high in ends], dtype=np.float64)
    errors = np.array([one.estimate.value - one.truth for one in chosen], dtype=np.float64)
    known = np.isfinite(widths)
    spread = float(np.sqrt(np.mean(errors[known] ** 2))) if known.any() else 0.0
    return float(widths[known].mean() / NORMAL / spread) if spread > 0 else float("nan")


def releases(ground: Ground, mechanism: str, epsilon: str, delta: str | None, number: int) -> Iterator[Release]:
    """Whole releases of a table, with a ledger of their own."""
    rows = ground.rows.select([*ground.schema.domain.names, *ground.schema.measures])
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", NewLedgerWarning)
        for _ in range(number):
            how = {"mechanism": mechanism, "ledger": Path(folder) / "ledger.db", "again": True, "even_if_useless": True}
            yield sf.release(rows, ground.schema, epsilon, delta=delta, **how)


def delta_of(mechanism: str, given: argparse.Namespace) -> str | None:
    """What is spent besides, by mechanisms that can use it."""
    return None if given.pure or not (mechanism == "auto" or find_mechanism(mechanism).gaussian) else "1e-9"


def measure(name: str, ground: Ground, mechanism: str, given: argparse.Namespace) -> list[Figure]:
    """All kinds of question of one table by one mechanism, printed as they are found."""
    began, heard = process_time(), Heard()
    drawn = ground.draw(Random(f"broad {name}"), given.questions, sets=given.sets, kinds=given.kinds)
    questions = [*drawn, *(one for one in named(name) if not given.kinds or one.kind in given.kinds)]
    delta = delta_of(mechanism, given)
    for number, release in enumerate(releases(ground, mechanism, given.epsilon, delta, given.releases)):
        heard.add(ground.ask(release, questions, interval="both" if number < given.guaranteed else "typical"))
    there = {one.kind for one in heard.by_question}
    made = [
        heard.figure(name, mechanism, kind, ground) for kind in [*(one for one in ALL_KINDS if one in there), "all"]
    ]
    spent = f"epsilon {given.epsilon}" + (f", delta {delta}" if delta else "")
    took = f"{process_time() - began:.0f} s of CPU"
    print(f"\n{name} by {mechanism}, {spent}: {ground.rows.num_rows:,} rows, {given.releases} releases, {took}")
    print_kinds(made, given.before_figures)
    return made


HEADING = (
    f"{'kind':34}{'held %':>14}{'lowest':>8}{'width/spread':>14}{'median':>8}{'sure %':>8}{'width':>7}{'asked':>7}"
)


def print_kinds(figures: Sequence[Figure], before: dict[tuple[str, str, str], dict]) -> None:
    """A line for each kind; figures of another run, where there are any, stand before an arrow."""
    print(HEADING + f"{'answers':>9}" + ("   before: held, lowest, width" if before else ""))
    for one in figures:
        line = f"{one.kind:34}{100 * one.held:7.1f} +-{100 * one.error:4.1f}{100 * one.lowest:8.0f}{one.ratio:14.2f}"
        line += (
            f"{one.median_ratio:8.2f}{100 * one.sure_held:8.1f}{one.sure_ratio:7.1f}{one.questions:7}{one.answers:9,}"
        )
        was = before.get((one.table, one.mechanism, one.kind))
        if was is not None:
            line += f"   {100 * was['held']:5.1f} {100 * was['lowest']:4.0f} {was['ratio']:6.2f}"
        print(line.replace("nan", "  -"), flush=True)


def search(name: str, ground: Ground, mechanism: str, given: argparse.Namespace) -> None:
    """The questions of a table that hold least often, by the search of the audit; 20 new releases judge them."""
    wanted = Search(questions=given.questions, pilot=given.releases, confirmations=2 * given.releases)
    made = releases(ground, mechanism, given.epsilon, delta_of(mechanism, given), wanted.pilot + wanted.confirmations)
    began = process_time()
    found = worst_questions(ground, lambda: next(made), wanted, kinds=given.kinds)
    asked = f"{wanted.questions} questions, {wanted.pilot} releases"
    print(
        f"\nthe worst of {asked}: {name} by {mechanism}, {process_time() - began:.0f} s of CPU; 95 % bounds", flush=True
    )
    for one in found:
        print(f"  {one}", flush=True)


def print_all(figures: Sequence[Figure]) -> None:
    """A line a table, kinds over tables that count alike, what is not as wanted, and the worst single questions."""
    print("\nall kinds, a line a table")
    print_kinds([one for one in figures if one.kind == "all"], {})
    single = [one for one in figures if one.kind != "all"]
    for mechanism in dict.fromkeys(one.mechanism for one in single):
        print(f"\n{mechanism}, tables alike: held %, least on a table, lowest single question, median width/spread")
        for kind in ALL_KINDS:
            of = [one for one in single if one.kind == kind and one.mechanism == mechanism]
            if of:
                held, lowest = [100 * one.held for one in of], 100 * min(one.lowest for one in of)
                width = np.median([one.ratio for one in of if np.isfinite(one.ratio)] or [np.nan])
                print(f"{kind:34}{np.mean(held):8.1f}{min(held):8.1f}{lowest:8.0f}{width:8.2f}")
    print("\nlowest single questions, share held over releases and groups")
    for one in sorted(single, key=lambda one: one.lowest)[:WORST]:
        print(f"{100 * one.lowest:5.0f} %  {one.table} by {one.mechanism}: {one.sql}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with adult.csv, adult-domain.json, national2019.csv")
    parser.add_argument("--tables", nargs="+", help=f"adult, nist, {', '.join([*WIDE, *SMALL])}, or CSV files")
    parser.add_argument("--mechanisms", nargs="+", help=f"auto on wide tables and {', '.join(CUBES)} by default")
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--pure", action="store_true", help="without a delta, where a mechanism could use one")
    parser.add_argument("--releases", type=int, default=10)
    parser.add_argument("--guaranteed", type=int, default=1, help="releases asked for guaranteed intervals besides")
    parser.add_argument("--questions", type=int, default=110, help="of each table")
    parser.add_argument("--sets", type=int, default=3, help="of attributes that the questions of a table are about")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS))
    parser.add_argument("--json", type=Path, help="keep the figures")
    parser.add_argument("--before", type=Path, help="figures of another run, to be shown beside")
    parser.add_argument("--search", action="store_true", help="look for the worst question: 200 is a good --questions")
    return parser.parse_args()


def main() -> None:
    given = parse()
    kept = json.loads(given.before.read_text())["figures"] if given.before else []
    given.before_figures = {(one["table"], one["mechanism"], one["kind"]): one for one in kept}
    figures: list[Figure] = []
    print(f"{CONFIDENCE:.0%} intervals, {given.questions} questions of each table; width/spread: 1 is as needed")
    for name, ground in grounds(given.tables or ["adult", "nist", *WIDE, *SMALL], given.data):
        for mechanism in given.mechanisms or (CUBES if name in SMALL else ("auto",)):
            if mechanism != "auto" and (why := find_mechanism(mechanism).why_not(ground.schema)):
                print(f"\n{name} by {mechanism}: left out, {why}")
                continue
            if given.search:
                search(name, ground, mechanism, given)
                continue
            figures += measure(name, ground, mechanism, given)
            if given.json:
                settings = {key: getattr(given, key) for key in ("epsilon", "pure", "releases", "questions")}
                given.json.write_text(json.dumps({**settings, "figures": [asdict(one) for one in figures]}, indent=1))
    if figures:
        print_all(figures)


if __name__ == "__main__":
    main()
