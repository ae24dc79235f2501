"""A new ledger is told of aloud, and where one is required none is made."""

import threading
import warnings
from pathlib import Path

import pytest
from ledgers import refusal, reserve

from sfumato.errors import BudgetExhausted, LedgerError, NewLedgerWarning
from sfumato.kernel.ledger.file import create_file
from sfumato.kernel.ledger.ledger import Ledger

OTHER = "0" * 32


@pytest.fixture
def path(tmp_path):
    return tmp_path / "books" / "ledger.sqlite"


def told(call, *arguments, **named) -> list[str]:
    """What is said of new ledgers while something is done; once shown is not enough for Python to keep quiet."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default", NewLedgerWarning)
        call(*arguments, **named)
    assert all(warning.category is NewLedgerWarning for warning in said)
    return [str(warning.message) for warning in said]


@pytest.mark.parametrize("make", [reserve, lambda ledger: ledger.set_budget("census", 1)])
def test_whoever_makes_a_ledger_is_told_once(path, make):
    (said,) = told(make, Ledger(path))
    assert f"a NEW ledger was made at {path} (identity {Ledger(path).identity()})" in said
    assert "knows of no earlier release" in said and "another user, on another machine" in said
    assert "restore that ledger" in said and "--ledger" in said and "\n" not in said
    for again in (reserve, lambda ledger: ledger.set_budget("census", 1), Ledger.show):
        assert told(again, Ledger(path)) == []


def test_a_ledger_that_was_deleted_is_told_of_each_time(path):
    for _ in range(3):
        assert len(told(reserve, Ledger(path))) == 1
        path.unlink()


def test_a_refusal_that_leaves_a_file_with_nothing_in_it_does_not_use_up_the_warning(path):
    assert told(refusal, BudgetExhausted, reserve, Ledger(path), 9) == []
    assert path.exists() and Ledger(path).show() == []
    assert len(told(reserve, Ledger(path))) == 1


def test_whoever_makes_errors_of_warnings_has_spent_nothing(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", NewLedgerWarning)
        for _ in range(2):
            with pytest.raises(NewLedgerWarning):
                reserve(Ledger(path))
    assert Ledger(path).entries() == [] and Ledger(path).show() == []


def test_of_many_threads_that_make_a_ledger_one_is_told(path):
    def race() -> None:
        threads = [threading.Thread(target=reserve, args=(Ledger(path), "0.01")) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(told(race)) == 1 and len(Ledger(path).entries()) == 6


# Required


def test_where_a_ledger_is_required_none_is_made(path):
    ledger = Ledger(path, required=True)
    for call in (reserve, lambda ledger: ledger.set_budget("census", 1), Ledger.show, Ledger.entries, Ledger.identity):
        message = refusal(LedgerError, call, ledger)
        assert f"a ledger is required, but there is none at {path}" in message
        assert "restore it" in message and "--ledger" in message
    assert not path.parent.exists()


def test_a_required_ledger_that_is_there_is_used(path):
    Ledger(path).set_budget("census", 1)
    ledger = Ledger(path, required=True)
    receipt = reserve(ledger)
    ledger.publish(receipt, "d" * 64)
    ledger.verify(receipt, "d" * 64)


def test_a_file_that_knows_nothing_does_not_pass_for_a_required_ledger(path):
    path.parent.mkdir()
    create_file(path)
    before = path.read_bytes()
    assert "knows of no dataset" in refusal(LedgerError, reserve, Ledger(path, required=True))
    assert path.read_bytes() == before


def test_the_ledger_that_a_schema_names_must_be_there(path):
    message = refusal(LedgerError, reserve, Ledger(path), identity=OTHER)
    assert f"the schema requires the ledger {OTHER}, but there is none at {path}" in message
    assert not path.parent.exists()


def test_the_ledger_that_a_schema_names_must_be_the_one(path):
    ledger = Ledger(path)
    ledger.set_budget("census", 1)
    message = refusal(LedgerError, reserve, ledger, identity=OTHER)
    assert f"requires the ledger {OTHER}, but the one at {path} is {ledger.identity()}" in message
    assert ledger.entries() == []
    assert reserve(ledger, identity=ledger.identity()).ledger == ledger.identity()


def test_the_identity_is_the_one_on_the_receipts_and_stays(path):
    assert Ledger(path).identity() is None
    receipt = reserve(Ledger(path))
    assert Ledger(path).identity() == receipt.ledger == reserve(Ledger(path)).ledger
    moved = path.rename(Path(f"{path}.moved"))
    assert Ledger(moved).identity() == receipt.ledger
