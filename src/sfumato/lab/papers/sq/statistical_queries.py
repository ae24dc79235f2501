"""Statistical-query oracle under privacy: its tolerance, and the number of rows that a tolerance takes; see docs/sq.md.

Dwork's survey, 5.1, after Blum, Dwork, McSherry, Nissim 2005. Corrected: the number of rows is private, so it is one
more question; and one question may be about many predicates that no row meets twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, exp, inf, log, log1p

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Partition
from sfumato.errors import BudgetError, QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget, as_epsilon
from sfumato.kernel.curator import Curator
from sfumato.measurement import Laplace, Measurement
from sfumato.queries import Identity, Queries, Total

Number = int | float | Fraction


class Questions:
    """Budget for a number of adaptive questions, each with an equal share."""

    def __init__(self, curator: Curator, budget: Budget, number: int) -> None:
        self.curator = curator
        self._shares = [*budget.evenly(number)]

    @property
    def rest(self) -> Budget | None:
        """Budget of the questions not yet asked; None if there are none."""
        left = sum((share.amount for share in self._shares), Fraction(0))
        return Budget.pure(left) if left else None

    def counts(self, names: Sequence[str], labels: Codes | None = None, groups: int = 0) -> Measurement:
        """Measure the rows in each cell that some attributes span, or in each group of these cells.

        labels: the group of each cell, -1 for none. groups: how many there are, also of those that no cell belongs to.
        """
        seen = self.curator.margin(names)
        if labels is None:
            return seen.measure(Identity(seen.domain.size), self._next())
        found = seen.reduce(Partition(seen.domain, labels))
        measured = found.measure(Identity(found.domain.size), self._next())
        answers = np.zeros(max(groups, found.domain.size), dtype=np.int64)
        answers[: len(measured.answers)] = measured.answers
        return Measurement("count", Identity(len(answers)), answers, measured.noises)

    def sums(self, names: Sequence[str], weights: Queries) -> Measurement:
        """Weighted sums over the rows, with weights for each cell that some attributes span."""
        return self.curator.margin(names).measure(weights, self._next())

    def _next(self) -> Budget:
        if not self._shares:
            raise BudgetError("all questions have been asked; say how many there will be when you begin")
        return self._shares.pop(0)


@dataclass(frozen=True, eq=False)
class Reply:
    """Estimated shares of rows. tolerance: bound on the error of all; fails with the oracle's probability delta."""

    shares: Floats
    tolerance: float


class Oracle:
    """Answers statistical queries: shares of rows within a tolerance that it states.

    With probability 1 - delta all of its replies keep their tolerances. These follow from the noises and the noisy
    number of rows, for a share (a + z) / (n + w) is off by |z n - a w| / (n (n + w)) <= (|z| + |w|) / (n + w).
    """

    def __init__(self, curator: Curator, budget: Budget, questions: int, *, delta: float = 0.05) -> None:
        self._number = questions + 1
        shares = budget.split(1, questions) if questions > 0 else ()
        if not shares or not 0.0 < delta < 1.0:
            raise QueryError("an oracle answers 1, 2, 3, ... questions, and fails with a delta between 0 and 1")
        self._curator, self._delta = curator, delta / self._number
        self._shares = [*shares[1].evenly(questions)]
        self.total = curator.measure(Total(curator.domain.size), shares[0])

    def ask(self, queries: Queries) -> Reply:
        """Estimate the share of rows that satisfy each predicate; the cost follows from how many a row can satisfy."""
        if not self._shares:
            raise BudgetError("all questions have been asked; say how many there will be when you begin")
        measured = self._curator.measure(queries, self._shares.pop(0))
        rows = int(self.total.answers[0])
        off = [noise_bound(one, number, self._delta) for one, number in ((measured, queries.rows), (self.total, 1))]
        if rows <= 0:
            return Reply(np.full(queries.rows, np.nan), inf)
        return Reply(measured.answers / rows, min(1.0, sum(off) / rows))


def noise_bound(measured: Measurement, number: int, delta: float) -> int:
    """Bound on the size of all of so many independent noises, with probability 1 - delta."""
    noise = measured.noise
    if not isinstance(noise, Laplace):
        raise QueryError("a tolerance is stated for pure epsilon")
    return largest_noise(float(noise.scale), number, delta)


def largest_noise(scale: float, number: int, delta: float) -> int:
    """The smallest t with P(any of so many discrete Laplace noises is larger than t in size) <= delta.

    >>> largest_noise(10.0, 1, 0.05), largest_noise(10.0, 20, 0.05)
    (30, 60)
    """
    each = -np.expm1(log1p(-delta) / number)  # the chance that one of them may exceed it
    # P(|Z| > t) = 2 q^(t + 1) / (1 + q), where q = exp(-1 / scale)
    return max(0, ceil(-scale * log(each * (1.0 + exp(-1.0 / scale)) / 2.0) - 1.0 - 1e-9))


def paper_rows(questions: int, epsilon: Number, tolerance: float, delta: float) -> int:
    """The survey's sample size: n > (k / epsilon) ln(k / delta) / tolerance, with n known."""
    scale = float(questions / as_epsilon(epsilon))
    return ceil(scale * log(questions / delta) / _checked(tolerance, delta))


def exact_rows(questions: int, epsilon: Number, tolerance: float, delta: float) -> int:
    """Sample size for a tolerance, from the distribution of the noise drawn, with n known."""
    scale = float(questions / as_epsilon(epsilon))
    return ceil(largest_noise(scale, questions, delta) / _checked(tolerance, delta))


def rows_needed(questions: int, epsilon: Number, tolerance: float, delta: float, *, at_once: int = 1) -> int:
    """Sample size for which an `Oracle` keeps a tolerance, the number of rows being one more question.

    at_once: predicates of one question, of which a row meets one.
    """
    scale, share = float((questions + 1) / as_epsilon(epsilon)), delta / (questions + 1)
    of_counts, of_total = (largest_noise(scale, number, share) for number in (at_once, 1))
    return ceil((of_counts + of_total) / _checked(tolerance, delta)) + of_total


def _checked(tolerance: float, delta: float) -> float:
    if not 0.0 < tolerance < 1.0 or not 0.0 < delta < 1.0:
        raise QueryError("a tolerance and a delta lie between 0 and 1, such as 0.01 and 0.05")
    return tolerance
