"""The report over everything there is, with little effort; the command runs it with more."""

import pytest

from sfumato.audit.report import Effort, Row, attack
from sfumato.errors import MechanismError
from sfumato.mechanisms import MECHANISMS

LITTLE = Effort(primitives=4_000, choices=1_000, releases=400, coverage=10)


def test_every_mechanism_is_attacked_and_nothing_is_found():
    """Chance of a false alarm: 1e-6 for each of a dozen rows."""
    seen: list[float] = []
    report = attack(None, LITTLE, lambda what, share: seen.append(share))
    assert {*MECHANISMS, "laplace"} <= {row.name for row in report.rows}
    assert not report.violated
    assert all(row.verdict == "no violation found" for row in report.rows)
    assert seen == sorted(seen) and 0.9 < seen[-1] <= 1
    mechanisms = [row for row in report.rows if row.name in MECHANISMS]
    assert all(row.coverage is not None and row.coverage > 0.8 for row in mechanisms)
    assert report.exact and report.replayed


def test_one_mechanism_can_be_attacked_by_name():
    report = attack(["cells"], LITTLE, lambda what, share: None)
    assert [row.name for row in report.rows] == ["cells"] and not report.exact
    with pytest.raises(MechanismError, match="magic"):
        attack(["magic"], LITTLE, lambda what, share: None)


def test_a_violation_is_called_one():
    assert Row("x", "1", 2.0, 10, True).verdict == "VIOLATION FOUND"
