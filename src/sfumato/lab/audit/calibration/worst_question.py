"""The search for the question whose typical intervals hold least often, on one table.

Questions of every kind are drawn (kinds_of_question.py) and asked of a few releases. Whatever held least there was
partly bad luck (the winner's curse), so the worst are asked again of new releases, and these alone are judged: the
share of groups that held, release by release, bounds the true share by betting, which needs no law of how groups hang
together. A question is broken if its share is below the floor beyond doubt: with intervals that keep the floor, a
false alarm has a chance of 1e-6 over all questions that are confirmed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from random import Random

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.lab.audit.calibration.betting import mean_at_least, mean_at_most
from sfumato.lab.audit.calibration.kinds_of_question import AT_ONCE, Answer, Ground, Question
from sfumato.releases.release import Release

FLOOR = 0.85  # of single questions; 95 % is promised on average over questions of a kind
FALSE_ALARM = 1e-6  # over all questions that one search confirms
DOUBT = 0.025  # that one of the two bounds which are shown is wrong


@dataclass(frozen=True)
class Search:
    """How long to look: questions drawn, about how many sets of attributes; releases; how many are confirmed."""

    questions: int = 200
    sets: int = 8
    pilot: int = 10
    worst: int = 5
    confirmations: int = 20


@dataclass(frozen=True, eq=False)
class WorstQuestion:
    """One of the worst questions of the pilot, on new releases. shares: of the groups that held, by release."""

    kind: str
    sql: str
    pilot: float
    shares: Floats  # (releases,)
    alpha: float

    @property
    def held(self) -> float:
        return float(self.shares.mean())

    @property
    def between(self) -> tuple[float, float]:
        """Bounds on the share that holds, each wrong with a chance of 2.5 %."""
        return mean_at_least(self.shares, DOUBT), mean_at_most(self.shares, DOUBT)

    @property
    def broken(self) -> bool:
        """Whether it holds less often than the floor, beyond doubt."""
        return mean_at_most(self.shares, self.alpha) < FLOOR

    def __str__(self) -> str:
        low, high = self.between
        told = f"held {self.held:.1%} of {len(self.shares)} new releases ({low:.0%} to {high:.0%})"
        return f"{'BROKEN: ' if self.broken else ''}{told}, {self.pilot:.1%} of the pilot: {self.kind}: {self.sql}"


def worst_questions(
    ground: Ground,
    release: Callable[[], Release],
    search: Search | None = None,
    *,
    seed: int = 1,
    kinds: Iterable[str] | None = None,
) -> list[WorstQuestion]:
    """Search one table. release: makes a release of it with fresh noise, each time it is called."""
    search = search or Search()
    questions = ground.draw(Random(f"worst {seed}"), search.questions, sets=search.sets, kinds=kinds)  # noqa: S311
    pilot = _shares(ground, release, questions, search.pilot)
    worst = sorted(pilot, key=lambda one: float(pilot[one].mean()))[: search.worst]
    again, alpha = _shares(ground, release, worst, search.confirmations), FALSE_ALARM / max(1, len(worst))
    found = (WorstQuestion(one.kind, ground.sql([one]), float(pilot[one].mean()), again[one], alpha) for one in again)
    return sorted(found, key=lambda one: one.held)


def share_held(answers: Sequence[Answer]) -> float:
    """Of one question and one release: the share of groups that held; all groups at once hold or do not."""
    held = [answer.held for answer in answers]
    return float(all(held)) if answers[0].question.kind == AT_ONCE else sum(held) / len(held)


def _shares(
    ground: Ground, release: Callable[[], Release], questions: list[Question], releases: int
) -> dict[Question, Floats]:
    """Shares held by question and release."""
    found: dict[Question, list[float]] = defaultdict(list)
    for _ in range(releases):
        by_question: dict[Question, list[Answer]] = defaultdict(list)
        for answer in ground.ask(release(), questions):
            by_question[answer.question].append(answer)
        for question, answers in by_question.items():
            found[question].append(share_held(answers))
    return {question: np.array(each) for question, each in found.items()}
