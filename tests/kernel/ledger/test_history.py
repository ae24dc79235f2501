"""The history of totals: who, when, why, from what to what; and nobody takes a line out."""

import hashlib
import json
import os
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest
from ledgers import raw, refusal, reserve

from sfumato.errors import BudgetExhausted, LedgerError
from sfumato.kernel.ledger import file as ledger_history
from sfumato.kernel.ledger.file import seal_of, user_name
from sfumato.kernel.ledger.ledger import Ledger


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


def lines(ledger, dataset="census"):
    return [
        (change.old_total, change.old_delta, change.total, change.total_delta, change.reason)
        for change in ledger.changes(dataset)
    ]


def test_every_statement_of_a_total_is_a_line(ledger):
    reserve(ledger, limit="0.3")
    reserve(ledger, limit="0.2")  # the schema's smaller total holds, but is not recorded
    ledger.set_budget("other", 1)
    ledger.set_budget("census", 2, "1e-6", reason="the board agreed on 3 May")
    ledger.set_budget("census", 1)
    three_tenths, small = Fraction(3, 10), Fraction(1, 10**6)
    assert lines(ledger) == [
        (None, None, three_tenths, None, "stated in the schema"),
        (three_tenths, None, 2, small, "the board agreed on 3 May"),
        (2, small, 1, small, "not stated"),
    ]
    assert lines(ledger, "other") == [(None, None, 1, None, "not stated")]
    assert [change.number for change in ledger.changes("census")] == [1, 3, 4]
    assert {change.who for change in ledger.changes("census")} == {user_name()}
    assert all(change.changed_at.endswith("+00:00") for change in ledger.changes("census"))


def test_a_total_is_stated_once_by_a_schema(ledger):
    for _ in range(2):
        reserve(ledger)
    assert len(ledger.changes("census")) == 1
    refusal(BudgetExhausted, reserve, ledger, 5, dataset="new")
    assert ledger.changes("new") == []  # a refusal records nothing


@pytest.mark.parametrize("reason", ["", " padded", "two\nlines", "x" * 201, "\ud800", 7])
def test_a_reason_is_one_line(ledger, reason):
    assert "the reason must be 1 to 200" in refusal(LedgerError, ledger.set_budget, "census", 1, reason=reason)
    assert not ledger.path.exists()
    ledger.set_budget("census", 1, reason="x" * 200)
    assert len(ledger.changes("census")[0].reason) == 200


@pytest.mark.skipif(os.name != "posix", reason="user ids are POSIX")
def test_the_name_is_the_systems_and_no_variable_can_change_it(ledger, monkeypatch):
    import pwd

    for variable in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.setenv(variable, "somebody-else")
    monkeypatch.setattr(pwd, "getpwuid", lambda number: pwd.struct_passwd(("ada", "x", number, 0, "", "/", "")))
    ledger.set_budget("census", 1)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)  # a number that has no name
    ledger.set_budget("census", 2)
    monkeypatch.setattr(pwd, "getpwuid", lambda number: pwd.struct_passwd(("a\nb", "x", number, 0, "", "/", "")))
    ledger.set_budget("census", 3)
    assert [change.who for change in ledger.changes("census")] == ["ada", "unknown", "unknown"]


@pytest.mark.parametrize("place", ["who", "reason", "changed_at"])
def test_a_line_that_was_altered_breaks_the_chain_even_under_a_new_seal(ledger, place):
    ledger.set_budget("census", 1, reason="first")
    ledger.set_budget("census", 2, reason="second")
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE changes SET {place} = 'altered' WHERE number = 1")
        connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))
    assert "altered by hand" in refusal(LedgerError, ledger.show)


def test_a_total_must_be_the_one_its_history_leads_to(ledger):
    ledger.set_budget("census", 1)
    raw(ledger.path, "UPDATE budgets SET epsilon = '9/1'")
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))
    assert "altered by hand" in refusal(LedgerError, reserve, ledger)


def test_a_line_left_out_in_the_middle_shows_in_the_totals(ledger):
    """Chain and seal are made to fit again; the old total of the line that follows still tells."""
    for total in (1, 2, 3):
        ledger.set_budget("census", total)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM changes WHERE number = 2")
        connection.execute("UPDATE changes SET number = 2 WHERE number = 3")
        (chain,) = connection.execute("SELECT id FROM meta").fetchone()
        for row in connection.execute("SELECT * FROM changes ORDER BY number").fetchall():
            chain = hashlib.sha256(json.dumps([chain, *row[:9]]).encode()).hexdigest()
            connection.execute("UPDATE changes SET chain = ? WHERE number = ?", (chain, row[0]))
        connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))
    assert "altered by hand" in refusal(LedgerError, ledger.show)


def test_total_and_line_are_written_together_or_not_at_all(ledger, monkeypatch):
    ledger.set_budget("census", 1)
    monkeypatch.setattr(ledger_history, "user_name", lambda: None)  # the table refuses the line, after the total
    refusal(LedgerError, ledger.set_budget, "census", 2)
    monkeypatch.undo()
    assert lines(ledger) == [(None, None, 1, None, "not stated")] and ledger.show()[0].total == 1
