"""Report of the whole audit: each mechanism's claim beside the strongest evidence against it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from time import process_time
from typing import Any, TypeVar

from sfumato.errors import MechanismError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.lab.audit.attacks.exact import ExactFinding, exact_findings
from sfumato.lab.audit.attacks.exact_counts import exact_count_findings
from sfumato.lab.audit.attacks.exact_values import running_findings, value_findings
from sfumato.lab.audit.attacks.exact_verbs import margin_findings, verb_findings
from sfumato.lab.audit.attacks.moving_people import PROMISES, series_finding
from sfumato.lab.audit.attacks.replay import ReplayFinding, descent_finding, replay_findings
from sfumato.lab.audit.attacks.sampling import Finding, audit
from sfumato.lab.audit.calibration.breaking import Search, SureFinding, sure_finding
from sfumato.lab.audit.calibration.calibrate import calibrate, complaints, part_alpha, pooled, unlisted
from sfumato.lab.audit.calibration.tables import small_cases
from sfumato.lab.audit.reading.attack import ReadingFinding, reading_finding, sources_here
from sfumato.lab.audit.subjects.registry import mechanism_subjects
from sfumato.lab.audit.subjects.subject import Subject, primitives
from sfumato.models import every_name, find_mechanism

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
Task = tuple[str, str]  # a kind of work, and the name of what it is set on
Tick = Callable[[str, float], None]  # what is being done, and which share of all is done

ONE_BY_ONE = "choose", "select", "first above", "margins", "best partition"  # subjects that make one run at a time
ASKED = 7  # questions of one release, in turn
SHORT = Search(steps=2, releases=3, questions=4, worst=1, confirmations=20, at_once=0)


@dataclass(frozen=True)
class Effort:
    """Numbers of runs: of primitives, of single choices, of whole releases, and of releases for coverage."""

    primitives: int
    choices: int
    releases: int
    coverage: int
    pairs: int  # of neighbouring tables, for each source that is read
    search: Search = SHORT  # for tables and questions that break guaranteed intervals
    seconds: float = inf  # of the processor, for the releases of one mechanism, and again its coverage; else fewer


QUICK = Effort(200_000, 5_000, 8_000, 100, 100, Search(seconds=4), seconds=6)
FULL = Effort(1_000_000, 100_000, 50_000, 2_000, 3_000, Search(400, 20, 20, 5, 2_000, 2_000))
# However slow a mechanism is. Of 200 releases, what shows on 98 % of those of one table and on 2 % of the other's is
# found with a chance above 0.999; what shows less plainly is left to the replay, which no noise blurs.
FEWEST_RELEASES, FEWEST_COVERAGE = 200, 10
PARTS = {"mechanism": 5}  # of the whole work, for the bar; all else is one


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
        """Sentence on the result of the audit, claiming no more than was found."""
        return "VIOLATION FOUND" if self.violated else "no violation found"


@dataclass(frozen=True)
class Report:
    """Findings of all attacks."""

    rows: tuple[Row, ...]
    exact: tuple[ExactFinding, ...]
    replayed: tuple[ReplayFinding, ...]
    read: tuple[ReadingFinding, ...] = ()
    sure: tuple[SureFinding, ...] = ()

    @property
    def violated(self) -> bool:
        findings: list[ExactFinding | ReplayFinding | ReadingFinding | SureFinding]
        findings = [*self.exact, *self.replayed, *self.read, *self.sure]
        return any(not found.sound for found in findings) or any(row.violated for row in self.rows)


def attack(names: Sequence[str] | None, effort: Effort, progress: Tick, *, workers: int = 1) -> Report:
    """Attack the mechanisms of these names, or everything there is; several at a time, if there are workers."""
    for name in names or ():
        if name not in every_name():
            raise MechanismError(f"no mechanism {name!r}; there are {', '.join(every_name())}")
    tasks = [("mechanism", name) for name in names or every_name()]  # first, as they take longest
    if not names:
        tasks += [("primitive", subject.name) for subject in primitives()] + [("exact", "distributions")]
        tasks += [("series", unit) for unit in PROMISES] + [("reading", source) for source in sources_here()]
    found: dict[Task, Any] = dict(_done(tasks, effort, progress, workers))

    def of(kind: str) -> list[Any]:
        return [found[task] for task in tasks if task[0] == kind]

    attacked = of("mechanism")
    rows = (*of("primitive"), *(row for row, _, _ in attacked))
    replayed = (*(finding for _, findings, _ in attacked for finding in findings), *of("series"))
    sure = tuple(broken for _, _, broken in attacked if broken is not None)
    progress("done", 1.0)
    return Report(rows, tuple(exact for every in of("exact") for exact in every), replayed, tuple(of("reading")), sure)


def _done(tasks: list[Task], effort: Effort, progress: Tick, workers: int) -> Iterator[tuple[Task, Any]]:
    """Run all tasks and yield their results, reporting progress."""
    steps, done = sum(PARTS.get(kind, 1) for kind, _ in tasks), 0
    if min(workers, len(tasks)) == 1:
        for task in tasks:
            say = partial(_say, progress, task, done, steps)
            say("", 0.0)
            yield task, _work(task, effort, say)
            done += PARTS.get(task[0], 1)
        return
    waiting = list(tasks)
    progress(_named(waiting[:workers]), 0.0)
    for task, found in side_by_side(_work, tasks, effort, workers):
        yield task, found
        waiting.remove(task)
        done += PARTS.get(task[0], 1)
        progress(_named(waiting[:workers]), done / steps)


def side_by_side(work: Callable[[T, A], B], tasks: Sequence[T], how: A, workers: int) -> Iterator[tuple[T, B]]:
    """Map `work` over tasks, yielding (task, result) as completed; in processes if workers > 1."""
    if workers == 1:
        yield from ((task, work(task, how)) for task in tasks)
        return
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import active_children, get_context

    # Fresh processes, not forks: a fork would draw the same random bits as its twin. On Ctrl-C they die without a word.
    die = (signal.SIGINT, signal.SIG_DFL)
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=signal.signal, initargs=die) as pool:
        try:
            futures = {pool.submit(work, task, how): task for task in tasks}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except KeyboardInterrupt:
            for child in active_children():
                child.terminate()
            raise


def _named(tasks: Sequence[Task]) -> str:
    return ", ".join(name if kind == "mechanism" else f"{kind} {name}" for kind, name in tasks)


def _say(progress: Tick, task: Task, before: int, steps: int, what: str, share: float) -> None:
    """Report progress within a task."""
    doing = f"{_named([task])}, {what}" if what else _named([task])
    progress(doing, (before + share * PARTS.get(task[0], 1)) / steps)


def _work(task: Task, effort: Effort, say: Tick = lambda what, share: None) -> Any:
    """Run one task of the audit and return its result."""
    kind, name = task
    if kind == "mechanism":
        return _attack_one(name, effort, say)
    if kind == "primitive":
        (subject,) = (one for one in primitives() if one.name == name)
        runs = effort.choices if name.startswith(ONE_BY_ONE) else effort.primitives
        return _row(name, [audit(subject, runs, SystemEntropy())])
    if kind == "series":
        return series_finding(name)
    if kind == "reading":
        return reading_finding(name, effort.pairs)
    exact = exact_findings() + exact_count_findings() + verb_findings() + margin_findings()
    return exact + running_findings() + value_findings()


def _attack_one(name: str, effort: Effort, say: Tick) -> tuple[Row, list[ReplayFinding], SureFinding | None]:
    """Audit a mechanism: sampled releases on worst cases, replays with frozen noise, and coverage of intervals."""
    entropy = SystemEntropy()
    say("whole releases", 0.0)
    runs = affordable_releases(subjects := mechanism_subjects(name), effort)
    findings = [audit(subject, runs, entropy) for subject in subjects]
    say("replayed", 0.4)
    replayed = replay_findings(name, seed=int.from_bytes(entropy.bytes(4)))
    mechanism = find_mechanism(name)
    if mechanism.special:  # it answers questions of its own, whose intervals its own tests and page speak of
        return _row(name, findings), replayed, None
    if mechanism.adaptive:
        replayed += [descent_finding(name, budget) for budget in (Budget.pure(1), Budget.zcdp(1))]
    say("guaranteed intervals", 0.7)
    sure = sure_finding(name, effort.search, entropy, seed=int.from_bytes(entropy.bytes(4)))
    say("typical intervals", 0.9)
    return with_coverage(_row(name, findings), name, effort), replayed, sure


def affordable_releases(subjects: Sequence[Subject], effort: Effort) -> int:
    """Number of releases per subject and table that the time allows, at least the fewest."""
    subjects[0].run(0, 1, SystemEntropy())  # what is worked out once, such as a strategy, does not count
    began = process_time()
    subjects[0].run(0, 20, SystemEntropy())
    each = (process_time() - began) / 20
    affordable = max(FEWEST_RELEASES, effort.seconds / (2 * len(subjects) * each))
    return int(min(effort.releases, affordable))


def _row(name: str, findings: Sequence[Finding]) -> Row:
    worst = max(findings, key=lambda finding: finding.bound)
    return Row(name, str(worst.claimed), worst.bound, worst.runs, any(finding.violated for finding in findings))


def with_coverage(row: Row, name: str, effort: Effort) -> Row:
    """Add the pooled coverage of intervals to a row, and a complaint if it is too low.

    Tables of two attributes only, which are quick. Intervals that rest on the noise alone must not be too wide either.
    """
    tables, entropy = small_cases(), SystemEntropy()
    began = process_time()
    calibrate(name, tables, lambda case: 1, entropy, asked=ASKED)
    runs = int(min(effort.coverage, max(FEWEST_COVERAGE, effort.seconds / (process_time() - began))))
    found = calibrate(name, tables, lambda case: runs, entropy, asked=ASKED)
    known = find_mechanism(name).lab.known_limits
    clean = unlisted(found, known)
    off = bool(complaints(name, found, known)) or pooled(one for one in clean if one.exact).too_many(part_alpha())
    partly = len(clean) < len(found)
    return replace(row, violated=row.violated or off, coverage=pooled(clean).covered, partly=partly)
