"""NOT PRIVATE: broken choices of rules, kept so that the audit can be seen to catch them.

The proof says: a score that moves one way has twice the usual rate, once, and the rows that a rule gets wrong are
counted with noise. Each forgets one half of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.rows_right import RowsRight
from sfumato.lab.audit.attacks.exact import Distribution, Law, exponential
from sfumato.lab.audit.mutants.choices import exactly
from sfumato.lab.audit.mutants.noise import Run
from sfumato.lab.audit.subjects.registry import subject_of
from sfumato.lab.papers.pac.content import Rule
from sfumato.lab.papers.pac.measure import example, pac
from sfumato.models.base.mechanism import Lab, Mechanism
from sfumato.models.base.mechanism import Run as Make
from sfumato.queries import Workload
from sfumato.schema import Schema

EVERY_RULE = np.array([[code >> cell & 1 for cell in range(4)] for code in range(16)]) == 1  # on four cells


def rule_law(rate: Fraction) -> Law:
    """With which chances each of all rules on four cells is chosen."""
    score = RowsRight(EVERY_RULE)

    def distribution(counts: Sequence[int], last: int) -> Sequence[Distribution]:
        return [exponential(score.scores(np.array(counts, dtype=np.int64)).tolist(), rate)]

    return distribution


def saved_twice() -> str | None:
    """NOT PRIVATE: the rate is doubled once more, as if a rule's errors did not count besides what it gets right."""
    return exactly(rule_law(Fraction(2)))()


def saved_once() -> str | None:
    """The rate of `select`: nothing is wrong here."""
    return exactly(rule_law(Fraction(1)))()


def counted_exactly(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Rule:
    """NOT PRIVATE: the rows that the chosen rule gets right and wrong are published as they are."""
    made = pac(curator, schema, budget)
    ill, well = curator._dense("count").reshape(-1, 2).sum(axis=0)[::-1]
    return replace(made, counted=replace(made.counted, answers=np.array([ill, well, 0, 0])))


def released(run: Make) -> Run:
    """What the files of many releases show."""
    return subject_of(Mechanism("mutant", "", run, lab=Lab(example=example))).run
