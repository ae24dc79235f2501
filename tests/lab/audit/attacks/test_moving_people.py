"""The replay audit of a series: what all parts lose about a person who moves is what the ledger says, and no more."""

from __future__ import annotations

import pytest

from sfumato.lab.audit.attacks.moving_people import HISTORIES, PARTS, PROMISES, first_fault, series_finding
from sfumato.lab.audit.mutants import ledgers


def test_a_few_histories_lose_exactly_what_the_ledger_says():
    """A person in all months, of whom two count, one of them published twice: 3 of 3."""
    found = series_finding(PROMISES[1], [(1, 1, 0, 1)])
    assert found.sound and found.pairs == 1 and found.loss == 1


@pytest.mark.full
@pytest.mark.parametrize(("unit", "pairs"), [(PROMISES[0], 32), (PROMISES[1], 15), (PROMISES[2], 15)])
def test_every_history_under_every_promise(unit, pairs):
    found = series_finding(unit)
    assert found.sound, found.complaints[:3]
    assert found.pairs == pairs and found.loss == 1 and len(HISTORIES) == 16 and len(PARTS) == 5


@pytest.mark.full
def test_broken_registers_are_caught_in_words():
    assert "lose 4 about one person, and the ledger says 3" in str(first_fault(register=ledgers.OneMoreRegister))
    assert "refused" in str(first_fault(register=ledgers.NamelessRegister))
