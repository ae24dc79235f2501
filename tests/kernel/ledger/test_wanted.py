"""What a ledger says to a reservation: to one that repeats the last, and to one that is only thought of."""

import pytest
from ledgers import refusal, reserve

from sfumato.cli.show import left
from sfumato.errors import BudgetError, BudgetExhausted, LedgerError, RepeatedRelease
from sfumato.kernel.ledger.ledger import ROW, Ledger, Unit
from sfumato.kernel.ledger.reservation import Wanted

ONE, OTHER = "1" * 64, "2" * 64


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


def wanted(epsilon="0.1", dataset="census", **more):
    usual = {"limit": "0.3", "mechanism": "cells", "unit": ROW, "contributions": 1}
    return Wanted(dataset, epsilon, **{**usual, **more})


def test_the_last_request_of_a_dataset_is_known_again(ledger):
    reserve(ledger, request=ONE)
    message = refusal(RepeatedRelease, reserve, ledger, request=ONE, again=False)
    assert "dataset 'census'" in message and "entry 1" in message and "costs epsilon 0.1 once more" in message
    assert "never published" in message and "--again (again=True)" in message
    assert len(ledger.entries()) == 1
    reserve(ledger, request=ONE, dataset="other", again=False)
    reserve(ledger, request=OTHER, again=False)
    reserve(ledger, request=ONE, again=False)  # not the last one any more
    assert [entry.request for entry in ledger.entries("census")] == [ONE, OTHER, ONE]


def test_what_is_meant_is_granted_and_what_is_not_there_is_not_said_to_be_left(ledger):
    for _ in range(3):
        reserve(ledger, request=ONE)
    assert "0 is left" in refusal(BudgetExhausted, reserve, ledger, request=ONE, again=False)


def test_requests_that_nobody_recorded_are_not_alike(ledger):
    reserve(ledger)
    assert reserve(ledger, again=False).entry == 2


@pytest.mark.parametrize("request_", ["", "f" * 63, "F" * 64, 7])
def test_a_request_is_a_digest(ledger, request_):
    assert "SHA-256" in refusal(LedgerError, reserve, ledger, request=request_)
    assert not ledger.path.exists()


def test_to_foresee_is_to_refuse_the_same_and_to_write_nothing(ledger):
    assert left(ledger.foresee(wanted())) == wanted().limit and not ledger.path.exists()
    assert "no total budget" in refusal(BudgetError, ledger.foresee, wanted(limit=None))
    refusal(BudgetExhausted, ledger.foresee, wanted("0.4"))
    refusal(LedgerError, Ledger(ledger.path, required=True).foresee, wanted())
    refusal(LedgerError, ledger.foresee, wanted(identity="0" * 32))
    assert not ledger.path.exists()
    reserve(ledger, request=ONE)
    before = ledger.path.read_bytes()
    refusal(RepeatedRelease, ledger.foresee, wanted(request=ONE, again=False))
    refusal(BudgetExhausted, ledger.foresee, wanted("0.3"))
    refusal(BudgetError, ledger.foresee, wanted(unit=Unit("person_id")))
    refusal(LedgerError, ledger.foresee, wanted(identity="0" * 32))
    account = ledger.foresee(wanted("0.2", request=OTHER, again=False))
    assert (account.spent, account.entries) == (wanted().epsilon, 1) and ledger.path.read_bytes() == before
