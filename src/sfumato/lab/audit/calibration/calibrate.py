"""Coverage of intervals, measured over many releases, and the list of known cases of low coverage.

A mechanism releases tables of several shapes many times and is asked questions of every kind. Questions on one release
share its noise, so the unit of observation is the release: the share of its intervals that hold the truth. The mean of
these shares is the coverage, and `betting` bounds it, whatever the dependence within a release.

Known low coverage: every mechanism has its list, and together they are the table of docs/known-limits.md. A listed case
does not count against a mechanism, but it has to be true: a listed figure that differs from the measured one is a
complaint too, so the list cannot rot.

Confidence bounds on the mean of numbers in [0, 1] by betting, and a test of all groups of a GROUP BY together.

Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting (JRSS B 2024). A bettor who stakes a
share of the capital, again and again, on the next number being below m wins nothing on average if the mean is at least
m. So the capital grows by a factor f with a probability of at most 1 / f (Markov), for every sample size. The numbers
must be independent; they need not have the same distribution: a product of means is largest where all are equal, so m
may be their average.

All groups together: the share of the intervals of a GROUP BY that hold is tested, which shows what no single question
does. If each holds with the confidence it promises, so does the mean share, however groups depend on each other.
Attributes and confidence of the groups are chosen on other releases, as those that would have won most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import isfinite, log

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from sfumato.answers.results import Estimate
from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import Entropy, SystemEntropy
from sfumato.lab.audit.calibration.tables import Case, wide_cases
from sfumato.models import MECHANISMS
from sfumato.models.base.mechanism import Limit
from sfumato.models.cells.cells import CELLS
from sfumato.planner.simulate import hashed
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

STAKES = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])  # money is split evenly over these shares
HALVINGS = 40


def evidence_below(shares: Floats, mean: float) -> Floats:
    """Log capital won by betting that the mean is below this, by sample.

    shares: numbers between 0 and 1 along the last axis; several samples may be stacked.

    >>> bool(evidence_below(np.full(10, 0.5), 0.95) > log(1e6)), bool(evidence_below(np.full(10, 0.9), 0.95) > log(1e6))
    (True, False)
    """
    odds = (mean - np.asarray(shares, dtype=np.float64)) / (1.0 - mean)
    won = np.stack([np.log1p(stake * odds).sum(axis=-1) for stake in STAKES])
    return np.asarray(np.logaddexp.reduce(won, axis=0) - log(len(STAKES)))


def mean_at_most(shares: Floats, alpha: float) -> float:
    """Upper confidence bound on the mean, wrong with probability at most alpha.

    >>> 0.5 < mean_at_most(np.full(100, 0.5), 1e-6) < 0.7
    True
    """
    low, high = float(np.mean(shares)), 1.0
    if low == 1.0:
        return 1.0
    for _ in range(HALVINGS):  # evidence grows with the mean that is bet against
        middle = (low + high) / 2
        low, high = (low, middle) if evidence_below(shares, middle) >= log(1 / alpha) else (middle, high)
    return high


def mean_at_least(shares: Floats, alpha: float) -> float:
    """Lower confidence bound on the mean, wrong with probability at most alpha."""
    return 1.0 - mean_at_most(1.0 - np.asarray(shares), alpha)


def shares_at(mean: float, releases: int, questions: int, alike: float, samples: int = 2000) -> Floats:
    """Beta-binomial samples of shares with a given mean, to compute the power of a test; deterministic.

    alike: the correlation of two hits on one release; at 1 a release holds all its questions or none.
    """
    places = np.arange(samples * releases, dtype=np.uint64)
    if alike >= 1:
        chances = (hashed(places, 301) < mean).astype(np.float64)
    elif alike <= 0:
        chances = np.full(len(places), mean)
    else:
        strength = 1.0 / alike - 1.0
        chances = betaincinv(mean * strength, (1.0 - mean) * strength, hashed(places, 301))
    hits = sum((hashed(places, 302 + question) < chances).astype(np.int64) for question in range(questions))
    return np.asarray(hits / questions, dtype=np.float64).reshape(samples, releases)


CONFIDENCES = 0.6, 0.8, 0.9, 0.95

By = tuple[int, ...]  # places of attributes
Shares = Callable[[Sequence[tuple[By, float]]], list[float]]  # of one release: how many intervals of each answer hold


@dataclass(frozen=True)
class AtOnce:
    """Result of a bet. held: the mean share of intervals that hold. evidence: log capital won."""

    by: By
    confidence: float
    releases: int
    held: float
    evidence: float


def bet_at_once(shares: Shares, axes: int, pilot: int, releases: int) -> AtOnce:
    """Choose groups and confidence on pilot releases, then bet on fresh ones."""
    every = tuple(range(axes))
    groups = list(dict.fromkeys([every, *((axis,) for axis in every), every[:2]]))
    choices = list(product(groups, CONFIDENCES))
    seen = np.array([shares(choices) for _ in range(pilot)])
    won = [float(evidence_below(seen[:, place], confidence)) for place, (_, confidence) in enumerate(choices)]
    by, confidence = choices[int(np.argmax(won))]
    found = np.array([shares([(by, confidence)])[0] for _ in range(releases)])
    return AtOnce(by, confidence, releases, float(found.mean()), float(evidence_below(found, confidence)))


# -- calibrate

NOMINAL = 0.95
LEAST, MOST = 0.93, 0.97  # what 95 % intervals may cover in the end; the upper end is for noise alone
NEARLY_EXACT = Fraction(10**5)


@dataclass(frozen=True)
class Answered:
    """Outcome of one interval. exact: it rests on the noise alone. release: number within its case."""

    case: str
    kind: str
    release: int
    held: bool
    exact: bool


@dataclass(frozen=True, eq=False)
class Pool:
    """Pooled outcomes. shares: of each release's intervals, those that held, (releases,). answers: number of all."""

    shares: Floats
    answers: int

    @property
    def covered(self) -> float:
        """Mean share of intervals that hold; 1 where nothing was asked."""
        return float(self.shares.mean()) if len(self.shares) else 1.0

    @property
    def questions(self) -> int:
        """Mean number of questions that one release answered."""
        return max(1, round(self.answers / max(1, len(self.shares))))

    def within(self, alpha: float) -> tuple[float, float]:
        """Bounds on the coverage, each wrong with a chance of at most alpha, whatever the table and the questions."""
        if not len(self.shares):
            return 0.0, 1.0
        return mean_at_least(self.shares, alpha), mean_at_most(self.shares, alpha)

    def too_few(self, alpha: float) -> bool:
        """Whether intervals hold too seldom: observed under 93 %, and a coverage of 95 % is rejected at level alpha."""
        return bool(_too_few(self.shares[None, :], alpha)[0]) if len(self.shares) else False

    def too_many(self, alpha: float) -> bool:
        """Whether intervals hold too often: a lower bound of their coverage, wrong with chance alpha, is above 97 %."""
        return bool(len(self.shares)) and mean_at_least(self.shares, alpha) > MOST

    @property
    def alike(self) -> float:
        """Intra-release correlation of two hits, by moments; 0 where every interval holds."""
        p, k = self.covered, self.questions
        if k == 1 or not 0 < p < 1:
            return 0.0
        return float(np.clip((k * self.shares.var() / (p * (1 - p)) - 1) / (k - 1), 0, 1))

    def power(self, alpha: float, truth: float = 0.85) -> float:
        """Probability of finding too low a coverage at this true coverage, with this correlation of hits."""
        made = shares_at(truth, len(self.shares), self.questions, self.alike)
        return float(_too_few(made, alpha).mean())


def _too_few(shares: Floats, alpha: float) -> NDArray[np.bool_]:
    return np.asarray((shares.mean(axis=-1) < LEAST) & (evidence_below(shares, NOMINAL) >= log(1 / alpha)))


def pooled(answers: Iterable[Answered]) -> Pool:
    """Pool the outcomes of all cases and kinds by release."""
    found: dict[tuple[str, int], list[bool]] = defaultdict(list)
    for one in answers:
        found[one.case, one.release].append(one.held)
    return Pool(np.array([np.mean(held) for held in found.values()]), sum(map(len, found.values())))


def calibrate(
    mechanism: str,
    cases: Sequence[Case],
    runs: Callable[[Case], int],
    entropy: Entropy,
    *,
    asked: int,
    progress: Callable[[str], None] = lambda case: None,
) -> list[Answered]:
    """Release every case `runs` times, ask each release `asked` questions in turn, and record which intervals held.

    A mechanism that refuses a case is not asked about it. An answer that is unknown promises nothing, and a question
    about no rows, such as their average, has no truth to miss: both are left out.
    """
    found = []
    for case in cases:
        if MECHANISMS[mechanism].why_not(case.schema) is not None:
            continue
        truths = true_answers(case)
        for run in range(runs(case)):
            release = release_of(mechanism, (case.counts, case.sums), case.epsilon, entropy, case.schema)
            for place in case.asked(run, asked):
                answer, question = _only(release, case.questions[place].sql), case.questions[place]
                if all(map(isfinite, (truths[place], answer.value, answer.low, answer.high))):
                    held = bool(answer.low <= truths[place] <= answer.high)
                    found.append(Answered(case.name, question.kind, run, held, answer.model == 0))
            progress(case.name)
    return found


@lru_cache(maxsize=32)
def true_answers(case: Case) -> tuple[float, ...]:
    """True answers of a case, from a release of `cells` with next to no noise."""
    nearly_exact = release_of(CELLS.name, (case.counts, case.sums), NEARLY_EXACT, SystemEntropy(), case.schema)
    return tuple(_only(nearly_exact, question.sql).value for question in case.questions)


def release_of(
    mechanism: str, table: tuple[Whole, Whole | None], epsilon: Fraction, entropy: Entropy, schema: Schema
) -> Release:
    """Release given counts, and sums of the schema's one measure, by a mechanism."""
    (counts, steps), budget = table, Budget.pure(epsilon)
    sums = dict.fromkeys(schema.measures, steps) if steps is not None else {}
    curator = over_counts(schema, counts, budget, entropy, sums)
    cube = MECHANISMS[mechanism].run(curator, schema, budget, None)
    return Release(cube, mechanism, describe_guarantee(budget, schema), entropy.private)


def _only(release: Release, sql: str) -> Estimate:
    ((answer,),) = release.query(sql).rows
    if not isinstance(answer, Estimate):
        raise TypeError("calibration asks for numbers")
    return answer


FALSE_ALARM = 1e-6  # for all mechanisms together, whose intervals hold 95 % everywhere
POOLS = 3  # all tables, those of few attributes, those of many
PARTS = 100  # looked at by themselves, at most: tables, kinds of question on each, listed figures
ROUNDED = 0.005  # figures are whole per cent


def unlisted(answers: Iterable[Answered], limits: Sequence[Limit]) -> list[Answered]:
    """Answers outside the listed cases of low coverage."""
    known = {(limit.table, limit.kind) for limit in limits}
    return [one for one in answers if (one.case, one.kind) not in known]


def pool_alpha() -> float:
    """False-alarm probability of the test of one pool; those of all pools add up to half of the allowed one."""
    return FALSE_ALARM / 2 / len(MECHANISMS) / POOLS


def part_alpha() -> float:
    """False-alarm probability of the test of one table or kind of question: half of the audit's, in equal parts."""
    return FALSE_ALARM / 2 / len(MECHANISMS) / PARTS


def complaints(mechanism: str, answers: Sequence[Answered], limits: Sequence[Limit]) -> list[str]:
    """Faults of a mechanism's intervals: in a pool, on one table, for one kind of question on one table."""
    clean, alpha = unlisted(answers, limits), part_alpha()
    many = {case.name for case in wide_cases()}
    pools = {
        "all tables": pooled(clean),
        "tables of few attributes": pooled(one for one in clean if one.case not in many),
        "tables of many attributes": pooled(one for one in clean if one.case in many),
    }
    found = [
        f"{mechanism}, {name}: 95 % intervals hold {pool.covered:.1%}"
        for name, pool in pools.items()
        if pool.too_few(pool_alpha())
    ]
    for part in sorted({(one.case, kind) for one in clean for kind in ("all", one.kind)}):
        case, kind = part
        pool = pooled(one for one in clean if one.case == case and kind in ("all", one.kind))
        if pool.too_few(alpha):
            found.append(f"{mechanism}, {case}, {kind}: 95 % intervals hold {pool.covered:.1%}")
    return found + _stale(mechanism, answers, limits)


def _stale(mechanism: str, answers: Sequence[Answered], limits: Sequence[Limit]) -> list[str]:
    found = []
    for limit in limits:
        pool = pooled(one for one in answers if (one.case, one.kind) == (limit.table, limit.kind))
        low, high = pool.within(part_alpha())
        if not low - ROUNDED <= limit.covered <= high + ROUNDED:
            said = f"{limit.covered:.0%} is listed and {pool.covered:.1%} measured"
            found.append(f"{mechanism}, {limit.table}, {limit.kind}: {said}")
    return found
