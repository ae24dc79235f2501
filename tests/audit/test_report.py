"""The report over everything there is, with little effort; the command runs it with more."""

import pytest

from sfumato.audit.calibration import Coverage
from sfumato.audit.report import Effort, Row, attack
from sfumato.errors import MechanismError
from sfumato.mechanisms import MECHANISMS

LITTLE = Effort(primitives=4_000, choices=1_000, releases=200, coverage=10, pairs=6)
KINDS = "cells", "sparse-cells", "hierarchical"  # a kind of cube each; test_subjects and test_replay attack all


def test_every_mechanism_is_attacked_and_nothing_is_found(full, monkeypatch):
    """Those of three kinds, and all in full. Chance of a false alarm: 1e-6 for each of a few dozen rows."""
    attacked = tuple(MECHANISMS) if full else KINDS
    for name in set(MECHANISMS) - set(attacked):
        monkeypatch.delitem(MECHANISMS, name)
    seen: list[float] = []
    report = attack(None, LITTLE, lambda what, share: seen.append(share))
    assert {*attacked, "laplace"} <= {row.name for row in report.rows}
    assert not report.violated
    assert all(row.verdict == "no violation found" for row in report.rows)
    assert seen == sorted(seen) and 0.9 < seen[-1] <= 1
    mechanisms = [row for row in report.rows if row.name in attacked]
    assert len(mechanisms) >= len(attacked)
    assert all(row.coverage is None or row.coverage > 0.8 for row in mechanisms)
    assert all(row.coverage is not None for row in mechanisms if row.name in KINDS)
    assert report.exact and {finding.name.split(", ")[0] for finding in report.replayed} == set(attacked)


def test_a_mechanism_whose_every_answer_leans_on_a_model_has_a_report_too(monkeypatch):
    """As mwem's may, on all tables: coverage from noise alone is not known then; that of wide intervals is."""
    wide = [Coverage("smooth", "SELECT COUNT(*) FROM t", hits, 10, exact=False) for hits in (10, 9)]
    monkeypatch.setattr("sfumato.audit.report.calibrate", lambda *given: wide)
    monkeypatch.setattr("sfumato.audit.report.replay_findings", lambda name: [])
    little = Effort(primitives=100, choices=100, releases=100, coverage=10, pairs=6)
    (row,) = attack(["cells"], little, lambda what, share: None).rows
    assert row.coverage is None and row.wide == 0.9 and not row.violated


def test_one_mechanism_can_be_attacked_by_name():
    report = attack(["cells"], LITTLE, lambda what, share: None)
    assert [row.name for row in report.rows] == ["cells"] and not report.exact
    with pytest.raises(MechanismError, match="magic"):
        attack(["magic"], LITTLE, lambda what, share: None)


def test_a_violation_is_called_one():
    assert Row("x", "1", 2.0, 10, True).verdict == "VIOLATION FOUND"
