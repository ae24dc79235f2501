"""Ledgers of older formats: files that older versions wrote open, show, reserve, and survive being upgraded."""

import os
import signal
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest
from ledgers import old_ledger, raw, refusal, reserve

from sfumato.cli.show import left
from sfumato.errors import BudgetError, BudgetExhausted, LedgerError, RepeatedRelease
from sfumato.kernel.budget import rho_for
from sfumato.kernel.ledger import ledger as module
from sfumato.kernel.ledger.book import chained
from sfumato.kernel.ledger.composition import Loss, composed
from sfumato.kernel.ledger.file import FORMAT, UPGRADES, seal_of
from sfumato.kernel.ledger.ledger import ROW, Ledger, Promise, Receipt, Unit

PERSON = Unit("person_id")
DELTA = Fraction(1, 10**5)  # the total of `census`
QUARTER = Fraction(1, 4), Fraction(1, 10**6)
OLD = Loss(Fraction(1, 2)), Loss(*QUARTER, rho_for(*QUARTER))  # what was spent on it; the rho was not written
forms = pytest.mark.parametrize("form", [1, 2])


def version(path):
    return raw(path, "PRAGMA user_version")[0][0][0]


@forms
def test_an_old_ledger_is_read_as_it_is(tmp_path, form):
    path = old_ledger(tmp_path, form)
    before, ledger = path.read_bytes(), Ledger(path)
    census, survey = ledger.show()
    assert (census.dataset, census.total, census.losses) == ("census", 3, OLD)
    assert (census.spent, census.spent_delta) == (composed(OLD, DELTA).epsilon, DELTA) and census.spent < Fraction(3, 4)
    assert census.promises == (Promise(None, (), census.spent, DELTA),)
    assert census.promises[0].whom == "a unit that was not recorded"
    assert (survey.total, survey.spent, survey.promises) == (1, 0, ())
    assert [(e.state, e.unit, e.contributions) for e in ledger.entries()] == [
        ("published", None, None),
        ("reserved", None, None),
    ]
    assert ledger.changes("census") == []
    receipt = Receipt(ledger.identity(), 1, "census", Fraction(1, 2), Fraction(0), f"{1:032x}")
    ledger.verify(receipt, "d" * 64)
    assert path.read_bytes() == before and version(path) == form


@forms
def test_an_old_ledger_is_upgraded_by_the_first_change_and_keeps_what_it_knew(tmp_path, form):
    path = old_ledger(tmp_path, form)
    ledger = Ledger(path)
    identity, old = ledger.identity(), ledger.entries()
    assert reserve(ledger, 1, limit=None, unit=PERSON, contributions=2).entry == 3
    assert version(path) == FORMAT and ledger.identity() == identity and ledger.entries()[:2] == old
    assert ledger.account("census").promises == (
        Promise(None, (), composed(OLD, DELTA).epsilon, DELTA),
        Promise(PERSON, (2,), Fraction(1), Fraction(0)),
    )
    refusal(BudgetError, reserve, ledger, limit=None, unit=ROW)
    assert "1.717 of its total 3 is spent" in refusal(BudgetExhausted, reserve, ledger, 2, limit=None, unit=PERSON)
    ledger.set_budget("census", 4, reason="more is allowed")
    (change,) = ledger.changes("census")
    assert (change.old_total, change.total, change.reason) == (3, 4, "more is allowed")
    receipt = Receipt(identity, 2, "census", Fraction(1, 4), Fraction(1, 10**6), f"{2:032x}")
    ledger.publish(receipt, "e" * 64)
    ledger.verify(receipt, "e" * 64)
    assert [entry.number for entry in ledger.entries()] == [1, 2, 3]


@forms
def test_publishing_and_setting_upgrade_as_well(tmp_path, form):
    path = old_ledger(tmp_path, form)
    ledger = Ledger(path)
    ledger.publish(Receipt(ledger.identity(), 2, "census", Fraction(1, 4), Fraction(1, 10**6), f"{2:032x}"), "e" * 64)
    assert version(path) == FORMAT and ledger.entries()[1].digest == "e" * 64
    path = old_ledger(tmp_path, form)
    Ledger(path).set_budget("new", 1)
    assert version(path) == FORMAT
    assert [account.dataset for account in Ledger(path).show()] == ["census", "new", "survey"]


@forms
def test_a_refusal_leaves_an_old_ledger_byte_for_byte(tmp_path, form):
    path = old_ledger(tmp_path, form)
    before = path.read_bytes()
    refusal(BudgetExhausted, reserve, Ledger(path), 9, limit=None)
    assert path.read_bytes() == before


def test_the_first_formats_nil_delta_stands(tmp_path):
    """There a total delta of 0 could also mean that nobody had stated one; it is held to until someone does."""
    first, second = (Ledger(old_ledger(tmp_path, form)) for form in (1, 2))
    assert (first.account("survey").total_delta, second.account("survey").total_delta) == (0, None)
    message = refusal(BudgetExhausted, reserve, first, dataset="survey", limit=None, delta="1e-6")
    assert "`sfumato ledger set survey --epsilon 1 --delta 0.000001 --ledger " in message
    reserve(second, dataset="survey", limit=None, delta="1e-6")
    first.set_budget("survey", 1, "1e-6")
    reserve(first, dataset="survey", limit=None, delta="1e-6")


STATEMENTS = [statement for form in (3, 4, 6, 7, 8) for statement in UPGRADES[form]]
STATEMENTS += [f"PRAGMA user_version = {FORMAT}", "INSERT INTO entries", "UPDATE meta", "COMMIT"]


KILLS = [
    (form, fatal)
    for form in (1, 2, 3, 4, 5)
    for fatal in STATEMENTS
    if not any(fatal in UPGRADES[done] for done in (3, 4, 6, 7, 8) if done <= form)
]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork and SIGKILL are POSIX")
@pytest.mark.parametrize(("form", "fatal"), KILLS, ids=lambda value: str(value)[:36])
def test_killed_while_it_is_upgraded_a_ledger_is_the_old_one(tmp_path, form, fatal):
    """Killed just before a statement, with a cache so small that changed pages have reached the file."""
    path = old_ledger(tmp_path, form)
    before = Ledger(path).show(), Ledger(path).entries()
    child = os.fork()
    if child == 0:
        try:
            connect = sqlite3.connect

            def meet(statement: str) -> None:
                if statement.startswith(fatal):
                    os.kill(os.getpid(), signal.SIGKILL)

            def traced(*arguments, **named):
                connection = connect(*arguments, **named)
                connection.execute("PRAGMA cache_size = 1")
                connection.set_trace_callback(meet)
                return connection

            module.sqlite3.connect = traced
            reserve(Ledger(path), limit=None, unit=PERSON)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert (Ledger(path).show(), Ledger(path).entries()) == before  # a hot journal is rolled back
    assert version(path) == form
    assert reserve(Ledger(path), limit=None, unit=PERSON).entry == 3 and version(path) == FORMAT


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET unit = NULL, contributions = NULL WHERE number = 3",
        "UPDATE entries SET unit = NULL, contributions = NULL WHERE number = 4",
        "UPDATE entries SET unit = 'row', contributions = 1 WHERE number = 2",
        "UPDATE entries SET unit = 'row' WHERE number = 3",
        "UPDATE entries SET contributions = 1 WHERE number = 3",
    ],
)
def test_a_unit_that_was_altered_breaks_the_chain_even_under_a_new_seal(tmp_path, statement):
    """A recorded unit made to look like one that was never recorded is the case that would let anything be added."""
    ledger = Ledger(old_ledger(tmp_path, 2))
    for _ in range(2):
        reserve(ledger, limit=None, unit=PERSON, contributions=2)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))
    assert len(ledger.entries()) == 4  # a new seal alone breaks nothing
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute(statement)
        connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))
    assert "altered by hand" in refusal(LedgerError, reserve, ledger, limit=None, unit=ROW)


def test_an_old_entry_is_chained_as_before(tmp_path):
    """After an upgrade the chain of formats 1 and 2 still holds, field by field."""
    path = old_ledger(tmp_path, 1)
    before = raw(path, "SELECT number, chain FROM entries")
    reserve(Ledger(path), limit=None)
    assert raw(path, "SELECT number, chain FROM entries WHERE number < 3") == before


def test_no_entry_without_a_unit_follows_one_that_has_it(tmp_path):
    """Even where chain and seal were made to fit: units are recorded for good once they are."""
    ledger = Ledger(old_ledger(tmp_path, 2))
    for _ in range(2):
        reserve(ledger, limit=None, unit=PERSON, contributions=2)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        row = connection.execute("SELECT * FROM entries WHERE number = 4").fetchone()
        chain = chained(ledger.entries()[2].chain, row[:7])  # as formats 1 and 2 chained it
        connection.execute("UPDATE entries SET unit = NULL, contributions = NULL, chain = ? WHERE number = 4", (chain,))
        connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))
    assert "altered by hand" in refusal(LedgerError, ledger.entries)


def test_a_ledger_from_before_requests_were_recorded(tmp_path):
    """Read as it is; upgraded by the first change; its entries keep their chain and are never taken for a request."""
    path = old_ledger(tmp_path, 3)
    before, ledger = path.read_bytes(), Ledger(path)
    (promise,) = ledger.account("census").promises
    assert promise == Promise(PERSON, (2,), composed(OLD, DELTA).epsilon, DELTA)
    assert [entry.request for entry in ledger.entries()] == [None, None]
    assert [change.total for change in ledger.changes("census")] == [3]
    assert path.read_bytes() == before and version(path) == 3
    chains = raw(path, "SELECT number, chain FROM entries")
    refusal(BudgetExhausted, reserve, ledger, 9, limit=None, unit=PERSON)
    assert path.read_bytes() == before
    receipt = reserve(ledger, "0.25", limit=None, unit=PERSON, request="a" * 64, again=False)
    assert receipt.entry == 3 and version(path) == FORMAT
    assert raw(path, "SELECT number, chain FROM entries WHERE number < 3") == chains
    assert [entry.request for entry in ledger.entries()] == [None, None, "a" * 64]
    assert ledger.account("census").losses == (*OLD, Loss(Fraction(1, 4)))
    refusal(RepeatedRelease, reserve, ledger, "0.25", limit=None, unit=PERSON, request="a" * 64, again=False)
    assert ledger.account("census").losses == (*OLD, Loss(Fraction(1, 4)))


@pytest.mark.parametrize("value", ["NULL", "'" + "b" * 64 + "'", "'short'"])
def test_a_request_that_was_altered_breaks_the_chain_even_under_a_new_seal(tmp_path, value):
    ledger = Ledger(old_ledger(tmp_path, 3))
    reserve(ledger, limit=None, unit=PERSON, request="a" * 64)
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE entries SET request = {value} WHERE number = 3")
        connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))
    assert "altered by hand" in refusal(LedgerError, reserve, ledger, limit=None, unit=PERSON)


def test_two_spellings_of_an_old_ledger_become_one_account_that_counts_both(tmp_path):
    """p may spend 3 and has spent 0.5, P may spend 2 and has spent 0.25: together 0.75 of 2."""
    path = old_ledger(tmp_path, 4)
    before, ledger = path.read_bytes(), Ledger(path)
    for name in ("p", "P"):
        account = ledger.account(name)
        assert (account.total, account.losses, account.published) == (2, OLD, 1)
        assert (account.total_delta, account.spent) == (DELTA, composed(OLD, DELTA).epsilon)
        assert account.spellings == ("P", "p") and len(account.promises) == 1
        assert [entry.number for entry in ledger.entries(name)] == [1, 2]
        assert [change.dataset for change in ledger.changes(name)] == ["p", "P"]
    assert [account.dataset for account in ledger.show()] == ["P", "census"]
    assert path.read_bytes() == before and version(path) == 4  # nothing is written until something is spent
    said = refusal(BudgetExhausted, reserve, ledger, "1.9", dataset="p", limit=3, unit=PERSON)
    assert "on dataset 'p' (one account with 'P'): 0.7163 of its total 2 is spent, 1.2" in said
    again = {"dataset": "p", "limit": None, "unit": PERSON, "request": "e" * 64, "again": False}
    refusal(RepeatedRelease, reserve, ledger, "0.25", **again)
    assert path.read_bytes() == before
    reserve(ledger, "1.25", dataset="p", limit=3, unit=PERSON)
    assert version(path) == FORMAT and left(ledger.account("P")) < Fraction(1, 10)


def test_a_new_total_holds_for_every_spelling(tmp_path):
    ledger = Ledger(old_ledger(tmp_path, 4))
    ledger.set_budget("p", 5, reason="one dataset after all")
    for name in ("p", "P"):
        assert (ledger.account(name).total, ledger.account(name).total_delta) == (5, Fraction(1, 10**5))
    assert [(change.dataset, change.old_total) for change in ledger.changes("p")[2:]] == [("P", 2), ("p", 3)]
    reserve(ledger, "4.25", dataset="P", limit=None, unit=PERSON)
    assert left(ledger.account("p")) < Fraction(1, 10)


def test_a_ledger_from_before_rhos_were_recorded(tmp_path):
    """Releases with a delta were given `rho_for` to spend; what is told of them can only become less."""
    path = old_ledger(tmp_path, 5)
    before, ledger = path.read_bytes(), Ledger(path)
    assert ledger.account("census").losses == OLD and path.read_bytes() == before
    chains = raw(path, "SELECT number, chain FROM entries")
    reserve(ledger, "0.25", limit=None, unit=PERSON, delta="1e-6", rho=rho_for(*QUARTER))
    assert raw(path, "SELECT number, chain FROM entries WHERE number < 3") == chains
    assert ledger.account("census").losses == (*OLD, OLD[1]) and version(path) == FORMAT
    assert [entry.rho for entry in ledger.entries()] == [None, OLD[1].rho, OLD[1].rho]
    assert ledger.account("census").spent < 1


def test_a_rho_that_was_altered_breaks_the_chain_even_under_a_new_seal(tmp_path):
    ledger = Ledger(old_ledger(tmp_path, 5))
    reserve(ledger, "0.25", limit=None, unit=PERSON, delta="1e-6", rho=rho_for(*QUARTER))
    for rho in ("NULL", "'none'", "'1/1000000'"):
        with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
            connection.execute(f"UPDATE entries SET rho = {rho} WHERE number = 3")
            connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))
        assert "altered by hand" in refusal(LedgerError, ledger.entries)


def test_a_rho_from_which_epsilon_and_delta_do_not_follow_is_refused(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    refusal(LedgerError, reserve, ledger, "0.25", delta="1e-6", rho=2 * rho_for(*QUARTER))
    refusal(LedgerError, reserve, ledger, "0.25", rho=rho_for(*QUARTER))
