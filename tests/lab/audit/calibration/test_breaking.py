"""The search that tries to break guaranteed intervals; what it must break is among the mutants."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.calibration.adversary import QUESTIONS, beginnings, grounds
from sfumato.lab.audit.calibration.breaking import FEWEST, Search, SureFinding, sure_finding

SHORT = Search(steps=3, releases=2, questions=4, worst=2, confirmations=FEWEST, at_once=0)


@pytest.mark.parametrize("name", ["sfumato", "sparse-cells", "residual"])
def test_what_is_guaranteed_is_not_broken(name):
    """A seeded glance, confirmed on 60 fresh releases; a false alarm has a chance of 1e-6 over all mechanisms.

    Intervals of 95 % that hold half of the time are found in all but 2 of 10,000 runs, of 60 % in 98 of 100, of 75 %
    in a third. The command looks for longer, with fresh noise, and finds those too.
    """
    found = sure_finding(name, SHORT, TestingEntropy(5), seed=3)
    assert found.mechanism == name and found.tried == 3 and found.releases == FEWEST
    assert found.sound and found.verdict == "no violation found" and found.where


def test_what_has_no_guaranteed_intervals_is_not_searched():
    assert sure_finding("pmw", SHORT, TestingEntropy(5)) is None
    assert sure_finding("parity", SHORT, TestingEntropy(5)) is None


def test_time_ends_the_search_but_not_before_gross_failures_would_show():
    hurried = Search(steps=50, releases=1, questions=2, worst=1, confirmations=FEWEST + 5, at_once=0, seconds=0.0)
    found = sure_finding("cells", hurried, TestingEntropy(6))
    assert found.tried == 2 and found.releases == FEWEST


def test_misses_are_judged_by_the_exact_binomial_distribution():
    """Of 100 intervals of 95 %, 25 or more miss with a chance of 4e-11 (scipy), 9 or more with one of 0.063."""
    broken, sound = (SureFinding("x", 5, "COUNT(*)", 0.95, 100, missed, 1e-8) for missed in (25, 9))
    assert broken.chance < 1e-10 and not broken.sound and "held 75.0% of 100: COUNT(*)" in broken.verdict
    assert sound.chance == pytest.approx(0.0631, abs=1e-4) and sound.sound


def test_a_bet_is_judged_by_what_it_has_won():
    """Money grows a millionfold with a chance of 1e-6 at most."""
    lost, won = (SureFinding("x", 5, "COUNT(*) by x0", 0.9, 40, 12.0, 1e-7, evidence) for evidence in (-3.0, 20.0))
    assert lost.chance == 1.0 and lost.sound
    assert won.chance == pytest.approx(2.06e-9, rel=1e-2) and "held 70.0% of 40" in won.verdict


def test_tables_begin_with_known_bad_shapes_and_change_by_steps():
    chance = Random(1)
    tables = beginnings(chance, 5, gaussian=True)
    assert {table.told for table in tables} >= {"checkerboard", "one spike", "nothing"}
    assert {table.budget.is_pure for table in tables} == {True, False}
    for table in tables[:8]:
        other = table.changed(chance)
        assert other.ground is table.ground and other.budget == table.budget and len(other.asked) == 5
        assert (other.counts >= 0).all() and other.counts.shape == table.counts.shape
        assert set(table.asked[:2]) <= set(other.asked)


def test_truths_are_those_of_the_cells():
    for ground in grounds():
        counts = np.arange(ground.schema.domain.size)
        assert len(ground.questions) == QUESTIONS and ground.questions[0].truth(counts) == counts.sum()
        assert {question.kind for question in ground.questions} == {"count", "share", "average"}
        shares = [question.truth(counts) for question in ground.questions if question.kind == "share"]
        assert all(np.isnan(share) or 0 <= share <= 1 for share in shares)
