"""The report over everything there is, with little effort; the command runs it with more."""

from fractions import Fraction

import numpy as np
import pytest
from registering import leave_only
from scipy.stats import binom
from thinned import every_seventh_pair

from sfumato.errors import MechanismError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.attacks.sampling import audit, epsilon_bound
from sfumato.lab.audit.calibration.calibrate import Answered
from sfumato.lab.audit.report import FEWEST_RELEASES, QUICK, Effort, Row, affordable_releases, attack, with_coverage
from sfumato.lab.audit.subjects.subject import Subject
from sfumato.models import MECHANISMS

LITTLE = Effort(primitives=4_000, choices=1_000, releases=200, coverage=10, pairs=2)
KINDS = "cells", "sparse-cells", "hierarchical"  # a kind of cube each; test_subjects and test_replay attack all


def test_every_mechanism_is_attacked_and_nothing_is_found(full, monkeypatch):
    """Those of three kinds, and all in full. Chance of a false alarm: 1e-6 for each of a few dozen rows.

    Replayed on every seventh pair of small tables unless in full; test_replay takes these three through all pairs.
    """
    attacked = tuple(MECHANISMS) if full else KINDS
    if not full:
        every_seventh_pair(monkeypatch)
    leave_only(monkeypatch, attacked)
    seen: list[float] = []
    report = attack(None, LITTLE, lambda what, share: seen.append(share))
    assert {*attacked, "laplace"} <= {row.name for row in report.rows}
    assert not report.violated
    assert all(row.verdict == "no violation found" for row in report.rows)
    assert seen == sorted(seen) and 0.9 < seen[-1] <= 1
    mechanisms = [row for row in report.rows if row.name in attacked]
    assert len(mechanisms) >= len(attacked)
    by_name = {row.name: row.coverage for row in mechanisms if row.coverage is not None}
    assert set(by_name) == set(attacked) and all(covered > 0.8 for covered in by_name.values())
    assert report.exact and {finding.name.split(", ")[0] for finding in report.replayed} == {*attacked, "a series"}


def coverage_of(monkeypatch, answers):
    """A clean row of mwem, to which these answers are all that its intervals have to show."""
    monkeypatch.setattr("sfumato.lab.audit.report.calibrate", lambda *given, **named: answers)
    return with_coverage(Row("mwem", "1", 0.5, 100, violated=False), "mwem", LITTLE)


def test_intervals_that_hold_too_seldom_are_reported_by_the_rule_of_the_contract_tests(monkeypatch):
    seldom = [Answered("smooth", "total", release, release % 10 < 8, exact=False) for release in range(2_000)]
    row = coverage_of(monkeypatch, seldom)
    assert row.coverage == pytest.approx(0.8) and row.violated and not row.partly


def test_intervals_of_noise_alone_must_not_be_too_wide(monkeypatch):
    for exact in (True, False):
        row = coverage_of(monkeypatch, [Answered("smooth", "total", run, True, exact) for run in range(2_000)])
        assert row.violated is exact and row.coverage == 1


def test_what_is_known_to_hold_too_seldom_is_left_out_and_marked(monkeypatch):
    known = MECHANISMS["mwem"].lab.known_limits[0]
    good = [Answered("smooth", "total", run, run % 20 > 0, exact=False) for run in range(400)]
    held = round(400 * known.covered)
    bad = [Answered(known.table, known.kind, run, run < held, exact=False) for run in range(400)]
    row = coverage_of(monkeypatch, good + bad)
    assert row.coverage == pytest.approx(0.95) and row.partly and not row.violated


@pytest.mark.full
def test_one_mechanism_can_be_attacked_by_name(monkeypatch):
    every_seventh_pair(monkeypatch)
    said: list[tuple[str, float]] = []
    report = attack(["cells"], LITTLE, lambda what, share: said.append((what, share)), workers=2)
    assert [row.name for row in report.rows] == ["cells"] and not report.exact
    assert {"cells, whole releases", "cells, replayed", "cells, typical intervals"} <= {what for what, _ in said}
    assert [share for _, share in said] == sorted(share for _, share in said) and len({share for _, share in said}) > 3
    with pytest.raises(MechanismError, match="magic"):
        attack(["magic"], LITTLE, lambda what, share: None)


def test_a_violation_is_called_one():
    assert Row("x", "1", 2.0, 10, True).verdict == "VIOLATION FOUND"


def test_a_slow_mechanism_is_released_a_bounded_number_of_times(monkeypatch):
    """However long one release takes: the clock here goes on by an hour whenever it is looked at."""
    clock = iter(range(0, 10**9, 3600))
    monkeypatch.setattr("sfumato.lab.audit.report.process_time", lambda: next(clock))
    ran: list[int] = []

    def run(which, runs, entropy):
        ran.append(runs)
        return np.zeros((runs, 1), dtype=np.int64)

    assert affordable_releases([Subject("slow", Fraction(1), run)] * 3, QUICK) == FEWEST_RELEASES == 200
    assert sum(ran) == 21  # to see how long they take


def shown_by(often):
    """A number that shows on each table with these chances."""

    def run(which, runs, entropy):
        return (entropy.words(runs) < np.uint64(often[which] * 2**64)).astype(np.int64)[:, None]

    return Subject("plain", Fraction(1), run)


def test_what_is_plain_is_found_in_the_fewest_releases():
    """Three quarters of them bound what the others chose: exactly, and 40 times, where 2,000 times had no miss."""
    bounding, (often, seldom) = FEWEST_RELEASES - FEWEST_RELEASES // 4, (0.98, 0.02)
    more, less = np.meshgrid(np.arange(bounding + 1), np.arange(bounding + 1), indexing="ij")
    found = epsilon_bound(more, less, bounding, 1e-6) > 1
    chances = binom.pmf(more, bounding, often) * binom.pmf(less, bounding, seldom)
    assert chances[found].sum() > 0.999
    caught = [audit(shown_by((often, seldom)), FEWEST_RELEASES, TestingEntropy(seed)).violated for seed in range(40)]
    assert all(caught)
    honest = audit(shown_by((0.5, 0.5 / np.e)), FEWEST_RELEASES, TestingEntropy(1))
    assert not honest.violated
