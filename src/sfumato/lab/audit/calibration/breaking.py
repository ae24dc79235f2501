"""Search for tables and questions that break guaranteed intervals.

Guaranteed intervals promise to hold with their confidence for every table and every question, so one that holds less
often breaks them. The search is a hill climb on misses: it begins with shapes on which models are known to be wrong,
and takes small steps from the worst. Its result was chosen because it missed, so it is then released afresh, and misses
are tested by the exact binomial distribution: a false alarm has a probability of 1e-6 over all mechanisms.

Intervals of 50 and 80 % promise as much as those of 95 %, and a breach shows in far fewer releases; and all groups
together show breaches that no single question does (calibrate.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from math import exp, inf, isnan, log
from random import Random
from time import process_time

import numpy as np
from scipy.stats import binom

from sfumato.answers.question import Manner
from sfumato.answers.results import Estimate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.audit.calibration.adversary import Table, beginnings, rich
from sfumato.lab.audit.calibration.calibrate import By, bet_at_once
from sfumato.models import MECHANISMS, find_mechanism
from sfumato.models.base.mechanism import Run
from sfumato.releases.contents.content import Content
from sfumato.sql import Select

CONFIDENCES = 0.5, 0.8, 0.95
FALSE_ALARM = 1e-6  # over all mechanisms, and all that one search has confirmed
SURE = Manner("guaranteed")
ROUNDED = 1e-6  # of the truth, which is not a miss


@dataclass(frozen=True)
class Search:
    """Effort of a search: steps, releases and questions per step, worst cases to confirm, releases for each.

    seconds: of the processor, after which the search, and again its confirmation, ends with what it has: the worst is
    confirmed in any case, by FEWEST releases at least, the next ones while there is time.
    """

    steps: int = 60
    releases: int = 8
    questions: int = 9
    worst: int = 3
    confirmations: int = 300
    at_once: int = 60  # releases of two tables more, which are asked for all groups at once
    seconds: float = inf


AS_PROMISED = 2  # releases that are added to those of a step
HILLS = 4  # tables from which the search goes on, and questions whose misses make a hill
PILOT_CONFIDENCE = 0.8  # of those that are asked to see how long it takes
FEWEST_AT_ONCE = 16  # releases of a bet
FEWEST = 60  # releases that confirm, so that the grossest failures are found however slow a mechanism is


@dataclass(frozen=True)
class SureFinding:
    """Worst coverage found of a mechanism's guaranteed intervals, on fresh releases. alpha: of a false alarm."""

    mechanism: str
    tried: int
    where: str
    confidence: float
    releases: int
    missed: float
    alpha: float
    evidence: float | None = None  # the logarithm of what a bet on all groups at once has won

    @property
    def held(self) -> float:
        return 1.0 - self.missed / max(1, self.releases)

    @property
    def sound(self) -> bool:
        return self.chance > self.alpha

    @property
    def chance(self) -> float:
        """p-value of the misses under the promised coverage: binomial, or for a bet 1 / capital (Markov)."""
        if self.evidence is not None:
            return exp(-max(self.evidence, 0.0))
        return float(binom.sf(self.missed - 1, self.releases, 1.0 - self.confidence))

    @property
    def verdict(self) -> str:
        """Sentence on the result of the search, claiming no more than was found."""
        if self.sound:
            return "no violation found"
        return f"VIOLATION: {self.confidence:.0%} intervals held {self.held:.1%} of {self.releases:,}: {self.where}"


def sure_finding(name: str, search: Search, entropy: Entropy, *, seed: int = 1) -> SureFinding | None:
    """Search for missed guaranteed intervals of one mechanism of the registry; None where it has no such intervals."""
    mechanism = find_mechanism(name)
    if mechanism.special:
        return None
    return break_intervals(name, mechanism.run, search, entropy, gaussian=mechanism.gaussian, seed=seed)


def break_intervals(
    name: str, run: Run, search: Search, entropy: Entropy, *, gaussian: bool = False, seed: int = 1
) -> SureFinding | None:
    """Hill climb for the most missed table and question, then a test on fresh releases. gaussian: zCDP budgets too."""
    chance, began, tried = Random(seed), process_time(), 0  # noqa: S311 (not noise)
    waiting = beginnings(chance, search.questions, gaussian=gaussian)
    kinds = _answered(run, waiting[0], entropy)
    if not kinds:
        return None
    hills: list[tuple[float, Table]] = []
    worst: list[tuple[float, Table, int]] = []
    while tried < search.steps and (tried < 2 or process_time() - began < search.seconds):
        fresh = waiting and (tried % 2 == 0 or len(hills) < HILLS)
        table = waiting.pop() if fresh else chance.choice(hills)[1].changed(chance)
        tried += 1
        scores = _Asking(run, table, entropy, kinds).scores(search.releases)
        order = sorted(scores, key=lambda place: -scores[place])
        hill = float(np.mean(sorted(scores.values())[-HILLS:])), replace(table, asked=tuple(order))
        hills = sorted([*hills, hill], key=lambda one: -one[0])[:HILLS]
        worst = sorted([*worst, *((scores[place], table, place) for place in order)], key=lambda one: -one[0])
        worst = worst[: search.worst]
    found = _confirmed(name, run, worst, search, entropy, tried)
    if search.at_once:
        for table in (max(hills, key=lambda hill: hill[0])[1], rich(seed)):
            found.append(_at_once(name, run, table, search, entropy, tried))
    return min(found, key=lambda one: one.chance)


def _confidence(place: int) -> float:
    """Confidence at which question number `place` is asked."""
    return CONFIDENCES[place % len(CONFIDENCES)]


@dataclass(frozen=True, eq=False)
class _Asking:
    """Repeated releases of one table, asked the same questions each time."""

    run: Run
    table: Table
    entropy: Entropy
    kinds: frozenset[str]

    @cached_property
    def plans(self) -> list[tuple[float, tuple[int, ...], Select]]:
        """Answerable questions, compiled to one SELECT per confidence: (confidence, question numbers, SELECT)."""
        ground, found = self.table.ground, []
        answered = [place for place in self.table.asked if ground.questions[place].kind in self.kinds]
        for confidence in CONFIDENCES:
            places = tuple(place for place in answered if _confidence(place) == confidence)
            if places:
                found.append((confidence, places, ground.plan(places)))
        return found

    def scores(self, releases: int) -> dict[int, float]:
        """Score of each question: Kullback-Leibler divergence of its miss rate from the promised; negative if below.

        A few pseudo-releases at the promised rate are added, so that bad luck in few releases does not stand out.
        """
        missed = [self.misses() for _ in range(releases)]
        found = {}
        for place in missed[0]:
            tail = 1.0 - _confidence(place)
            rate = (sum(one[place] for one in missed) + AS_PROMISED * tail) / (releases + AS_PROMISED)
            told = rate * log(rate / tail) + (1.0 - rate) * log((1.0 - rate) / (1.0 - tail))
            found[place] = told if rate > tail else -told
        return found

    def shares(self, asked: Sequence[tuple[By, float]]) -> list[float]:
        """Release once; share of the groups of each GROUP BY whose intervals hold, by (attributes, confidence)."""
        content, counts = self.released(), self.table.counts.reshape(self.table.ground.shape)
        found = []
        for by, confidence in asked:
            rows = content.select_as(self.table.ground.grouped(by), confidence, SURE).rows
            truths = counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in by)).reshape(-1)
            held = [_holds(row[-1], float(truth)) for row, truth in zip(rows, truths, strict=True)]
            found.append(sum(held) / len(held))
        return found

    def misses(self) -> dict[int, bool]:
        """Release once; whether the interval of each question misses the truth, by question number."""
        found, counts = dict[int, bool](), self.table.counts
        content = self.released()
        for confidence, places, plan in self.plans:
            (row,) = content.select_as(plan, confidence, SURE).rows
            for place, answer in zip(places, row, strict=True):
                found[place] = not _holds(answer, self.table.ground.questions[place].truth(counts))
        return found

    def released(self) -> Content:
        schema, budget = self.table.ground.schema, self.table.budget
        return self.run(over_counts(schema, self.table.counts, budget, self.entropy), schema, budget, None)


def _holds(answer: object, truth: float) -> bool:
    assert isinstance(answer, Estimate)  # noqa: S101 (every column is a number)
    slack = ROUNDED * (1.0 + abs(truth))
    return isnan(truth) or answer.low - slack <= truth <= answer.high + slack


def _answered(run: Run, table: Table, entropy: Entropy) -> frozenset[str]:
    """Kinds of question with guaranteed intervals; a refusal depends on the question alone, so one release tells."""
    content, questions = _Asking(run, table, entropy, frozenset()).released(), table.ground.questions
    found = set()
    for place, kind in {one.kind: (place, one.kind) for place, one in enumerate(questions)}.values():
        try:
            content.select_as(table.ground.plan([place]), CONFIDENCES[0], SURE)
        except QueryError:
            continue
        found.add(kind)
    return frozenset(found)


def _confirmed(
    name: str, run: Run, worst: Sequence[tuple[float, Table, int]], search: Search, entropy: Entropy, tried: int
) -> list[SureFinding]:
    """Test the worst questions on fresh releases, in number fixed by `search` or by time, never by misses."""
    alpha, found, start = _alpha(search), list[SureFinding](), process_time()
    for _, table, place in worst:
        if found and process_time() - start > search.seconds:
            break
        kind = frozenset({table.ground.questions[place].kind})
        asking = _Asking(run, replace(table, asked=(place,)), entropy, kind)
        affordable = search.seconds / search.worst / _seconds(asking.misses)
        releases = min(search.confirmations, max(FEWEST, int(min(affordable, 1e9))))
        missed = sum(asking.misses()[place] for _ in range(releases))
        where = f"{table.ground.questions[place].column} on {_described(table)}"
        found.append(SureFinding(name, tried, where, _confidence(place), releases, missed, alpha))
    return found


def _seconds(work: Callable[[], object]) -> float:
    """Processor seconds that `work` takes on its second call."""
    work()
    began = process_time()
    work()
    return max(process_time() - began, 1e-9)


def _alpha(search: Search) -> float:
    """False-alarm probability of one of the final tests of a search (Bonferroni)."""
    return FALSE_ALARM / len(MECHANISMS) / (search.worst + 2 * bool(search.at_once))


def _described(table: Table) -> str:
    pure = table.budget.epsilon
    spent = f"rho {table.budget.rho}" if pure is None else f"epsilon {pure}"
    return f"{table.told}, {spent}: {table.counts.tolist()}"


def _at_once(name: str, run: Run, table: Table, search: Search, entropy: Entropy, tried: int) -> SureFinding:
    """Test all groups of one table together by betting; fewer releases where these take long."""
    asking, axes = _Asking(run, table, entropy, frozenset()), len(table.ground.shape)
    every = tuple(range(axes)), PILOT_CONFIDENCE
    affordable = search.seconds / _seconds(lambda: asking.shares([every])) / 4.0
    releases = max(FEWEST_AT_ONCE, int(min(search.at_once, affordable)))
    found = bet_at_once(asking.shares, axes, max(2, releases // 8), releases)
    by = ", ".join(table.ground.schema.domain.names[place] for place in found.by)
    missed = (1.0 - found.held) * releases
    where = f"COUNT(*) by {by} on {_described(table)}"
    return SureFinding(name, tried, where, found.confidence, releases, missed, _alpha(search), found.evidence)
