"""Broken lines are caught by the replay audit, and what is broken about them is what they say."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from curators import CENSUS, curator_of

from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.mutants.choices import FreeLinesCurator, below_the_median
from sfumato.lab.audit.mutants.registry import MUTANTS
from sfumato.schema import Schema


def test_both_are_caught_and_their_controls_are_not():
    found = {name: mutant for name, mutant in MUTANTS.items() if name.startswith("quantiles, ")}
    assert len(found) == 2
    for mutant in found.values():
        assert mutant.check() is not None and mutant.sound() is None


def test_lines_for_nothing_leave_the_charge_alone():
    schema = Schema.from_dict({**CENSUS, "measures": {}})
    plain = curator_of(schema, np.ones((100, 2)))
    free = FreeLinesCurator(plain.domain, plain._aggregate, {"count": 1}, plain.charge, TestingEntropy(1))
    free.lines(["age"], Budget.pure(1))
    assert free.charge.fullest == 0
    assert len(below_the_median(plain, schema, Budget.pure(1))) == 2
    assert isinstance(plain, Curator) and plain.charge.fullest == Fraction(1)
