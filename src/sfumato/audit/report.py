"""The whole audit as a table: what every mechanism claims, and what could be shown against it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf
from time import perf_counter
from typing import TypeVar

from sfumato.audit.attacks.descents import descent_finding
from sfumato.audit.attacks.exact import ExactFinding, exact_findings
from sfumato.audit.attacks.exact_margins import margin_findings
from sfumato.audit.attacks.exact_verbs import verb_findings
from sfumato.audit.attacks.replay import ReplayFinding, replay_findings
from sfumato.audit.attacks.sampling import Finding, audit
from sfumato.audit.calibration.breaking import Search, SureFinding, sure_finding
from sfumato.audit.calibration.calibrate import calibrate, pooled
from sfumato.audit.calibration.known_coverage import complaints, part_alpha, unlisted
from sfumato.audit.calibration.tables import small_cases
from sfumato.audit.reading.attack import ReadingFinding, reading_finding, sources_here
from sfumato.audit.subjects.registry import all_subjects, mechanism_subjects
from sfumato.audit.subjects.subject import Subject
from sfumato.errors import MechanismError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.mechanisms import every_name, find_mechanism

A = TypeVar("A")
B = TypeVar("B")
N = TypeVar("N", str, int)
Tick = Callable[[str, float], None]  # what is being done, and which share of all is done

ONE_BY_ONE = "choose", "select", "first above", "margins", "best partition"  # subjects that make one run at a time
ASKED = 7  # questions of one release, in turn


SHORT = Search(steps=2, releases=3, questions=4, worst=1, confirmations=20, at_once=0)


@dataclass(frozen=True)
class Effort:
    """How often things are run: primitives, choices (one at a time), whole releases, releases for coverage."""

    primitives: int
    choices: int
    releases: int
    coverage: int
    pairs: int  # of neighbouring tables, for each source that is read
    search: Search = SHORT  # for tables and questions that break guaranteed intervals
    seconds: float = inf  # that the releases of one mechanism, and again its coverage, may take; then there are fewer


QUICK = Effort(200_000, 10_000, 8_000, 100, 100, Search(seconds=5), seconds=10)
FULL = Effort(1_000_000, 100_000, 50_000, 2_000, 3_000, Search(400, 20, 20, 5, 2_000, 2_000))
FEWEST_RELEASES, FEWEST_COVERAGE = 400, 10


@dataclass(frozen=True)
class Row:
    """One line of the report.

    bound: epsilon is at least this, but for a chance of 1e-6. coverage: of 95 % intervals, pooled over tables and kinds
    of question; partly: without those that are known to hold too seldom.
    """

    name: str
    claimed: str
    bound: float
    runs: int
    violated: bool
    coverage: float | None = None
    partly: bool = False

    @property
    def verdict(self) -> str:
        """What was found; never more than that."""
        return "VIOLATION FOUND" if self.violated else "no violation found"


@dataclass(frozen=True)
class Report:
    """What all the attacks together showed."""

    rows: tuple[Row, ...]
    exact: tuple[ExactFinding, ...]
    replayed: tuple[ReplayFinding, ...]
    read: tuple[ReadingFinding, ...] = ()
    sure: tuple[SureFinding, ...] = ()

    @property
    def violated(self) -> bool:
        findings: list[ExactFinding | ReplayFinding | ReadingFinding | SureFinding]
        findings = [*self.exact, *self.replayed, *self.read, *self.sure]
        if not all(found.sound for found in findings):
            return True
        return any(row.violated for row in self.rows)


def attack(names: Sequence[str] | None, effort: Effort, progress: Tick, *, workers: int = 1) -> Report:
    """Attack the mechanisms of these names, or everything there is; several at a time, if there are workers."""
    for name in names or ():
        if name not in every_name():
            raise MechanismError(f"no mechanism {name!r}; there are {', '.join(every_name())}")
    chosen = list(names or every_name())
    taken = {subject.name for name in chosen for subject in mechanism_subjects(name)}
    primitives = [] if names else [subject for subject in all_subjects() if subject.name not in taken]
    sources = [] if names else sources_here()
    steps = len(primitives) + 5 * len(chosen) + len(sources) + 1
    done = 0

    def tick(what: str, parts: int = 1) -> None:
        nonlocal done
        progress(what, done / steps)
        done += parts

    rows = []
    for subject in primitives:
        tick(subject.name)
        rows.append(_row(subject.name, [_sampled(subject, _runs(subject, effort))]))
    tick("exact distributions")
    exact = () if names else tuple(exact_findings() + verb_findings() + margin_findings())
    replayed: list[ReplayFinding] = []
    sure: list[SureFinding] = []
    for name, (row, findings, broken) in zip(chosen, side_by_side(_attack_one, chosen, effort, workers), strict=True):
        tick(name, 5)
        rows.append(row)
        replayed += findings
        sure += [] if broken is None else [broken]
    read = []
    for found in side_by_side(reading_finding, sources, effort.pairs, workers):
        tick(f"reading {found.source}")
        read.append(found)
    progress("done", 1.0)
    return Report(tuple(rows), exact, tuple(replayed), tuple(read), tuple(sure))


def side_by_side(work: Callable[[N, A], B], names: Sequence[N], how: A, workers: int) -> Iterator[B]:
    """The same work for each of some names or numbers, several at a time if there are workers."""
    if workers == 1 or not names:
        yield from (work(name, how) for name in names)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    # Fresh processes, not forks: a fork would draw the same random bits as its twin. On Ctrl-C they die without a word.
    die = (signal.SIGINT, signal.SIG_DFL)
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=signal.signal, initargs=die) as pool:
        try:
            yield from pool.map(work, names, [how] * len(names))
        except KeyboardInterrupt:
            for child in active_children():
                child.terminate()
            raise


def _attack_one(name: str, effort: Effort) -> tuple[Row, list[ReplayFinding], SureFinding | None]:
    """A whole mechanism: its releases sampled on its worst cases, replayed with frozen noise, and its intervals."""
    subjects = mechanism_subjects(name)
    subjects[0].run(0, 1, SystemEntropy())  # what is worked out once, such as a strategy, does not count
    began = perf_counter()
    subjects[0].run(0, 20, SystemEntropy())
    each = (perf_counter() - began) / 20
    affordable = max(FEWEST_RELEASES, effort.seconds / (2 * len(subjects) * each))
    runs = int(min(effort.releases, affordable))
    findings = [_sampled(subject, runs) for subject in subjects]
    replayed = replay_findings(name)
    mechanism = find_mechanism(name)
    if mechanism.special:  # it answers questions of its own, whose intervals its own tests and page speak of
        return _row(name, findings), replayed, None
    if mechanism.adaptive:
        replayed += [descent_finding(name, budget) for budget in (Budget.pure(1), Budget.zcdp(1))]
    entropy = SystemEntropy()
    sure = sure_finding(name, effort.search, entropy, seed=int.from_bytes(entropy.bytes(4)))
    return with_coverage(_row(name, findings), name, effort), replayed, sure


def _runs(subject: Subject, effort: Effort) -> int:
    return effort.choices if subject.name.startswith(ONE_BY_ONE) else effort.primitives


def _sampled(subject: Subject, runs: int) -> Finding:
    return audit(subject, runs, SystemEntropy())


def _row(name: str, findings: Sequence[Finding]) -> Row:
    worst = max(findings, key=lambda finding: finding.bound)
    return Row(name, str(worst.claimed), worst.bound, worst.runs, any(finding.violated for finding in findings))


def with_coverage(row: Row, name: str, effort: Effort) -> Row:
    """The pooled coverage, and a complaint if it is too low by the rule of the contract tests.

    Tables of two attributes only, which are quick. Intervals that rest on the noise alone must not be too wide either.
    """
    tables, entropy = small_cases(), SystemEntropy()
    began = perf_counter()
    calibrate(name, tables, lambda case: 1, entropy, asked=ASKED)
    runs = int(min(effort.coverage, max(FEWEST_COVERAGE, effort.seconds / (perf_counter() - began))))
    found = calibrate(name, tables, lambda case: runs, entropy, asked=ASKED)
    known = find_mechanism(name).known_limits
    clean = unlisted(found, known)
    off = bool(complaints(name, found, known)) or pooled(one for one in clean if one.exact).too_many(part_alpha())
    partly = len(clean) < len(found)
    return replace(row, violated=row.violated or off, coverage=pooled(clean).covered, partly=partly)
