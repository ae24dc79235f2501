"""Epsilons for two privacy units are two promises: never added up by accident, always bounded together."""

import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest
from ledgers import raw, refusal, reserve

from sfumato.cli.show import left, left_rho
from sfumato.errors import BudgetError, BudgetExhausted, LedgerError
from sfumato.kernel.budget import Cost
from sfumato.kernel.ledger.file import FORMAT, seal_of
from sfumato.kernel.ledger.ledger import ROW, Ledger, Promise, Unit

PERSON, HOUSE = Unit("person_id"), Unit("house_id")


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


@pytest.mark.parametrize(("first", "second"), [(PERSON, ROW), (ROW, PERSON), (PERSON, HOUSE), (ROW, Unit("row"))])
def test_another_unit_is_refused_and_nothing_is_spent(ledger, first, second):
    reserve(ledger, unit=first, contributions=1)
    message = refusal(BudgetError, reserve, ledger, unit=second, contributions=1)
    assert f"asked to protect {second.in_words(1)}" in message
    assert f"dataset 'census' has spent epsilon 0.1 to {first.in_words(1)}" in message
    assert "do not add up to one" in message and "--another-unit (another_unit=True)" in message
    assert ledger.account("census").spent == Fraction(1, 10) and len(ledger.entries()) == 1


def test_each_dataset_has_a_unit_of_its_own(ledger):
    reserve(ledger, unit=PERSON)
    assert reserve(ledger, dataset="other", unit=ROW).entry == 2


def test_a_second_promise_that_is_stated_is_kept_and_known_from_then_on(ledger):
    reserve(ledger, unit=PERSON, contributions=3, limit=3)
    reserve(ledger, "0.2", unit=ROW, another_unit=True, limit=3)
    reserve(ledger, unit=ROW, limit=3)
    reserve(ledger, unit=PERSON, contributions=3, limit=3)
    account = ledger.account("census")
    assert account.promises == (
        Promise(PERSON, (3,), Fraction(2, 10), Fraction(0)),
        Promise(ROW, (1,), Fraction(3, 10), Fraction(0)),
    )
    message = refusal(BudgetError, reserve, ledger, unit=HOUSE, limit=3)
    assert f"epsilon 0.2 to {PERSON.in_words(3)} and epsilon 0.3 to any one row" in message
    assert account.spent == Fraction(5, 10)


def test_to_state_another_unit_where_there_is_none_is_harmless(ledger):
    reserve(ledger, unit=PERSON, another_unit=True)
    reserve(ledger, unit=PERSON, another_unit=True)
    assert [promise.unit for promise in ledger.account("census").promises] == [PERSON]


def test_the_total_bounds_all_promises_together(ledger):
    """The sum is the epsilon of nobody, but to hold it to the total can only count too much."""
    reserve(ledger, "0.2", unit=PERSON)
    message = refusal(BudgetExhausted, reserve, ledger, "0.2", unit=ROW, another_unit=True)
    assert "0.2 of its total 0.3 is spent, 0.1 is left" in message
    reserve(ledger, "0.1", unit=ROW, another_unit=True)
    assert left(ledger.account("census")) == 0


def test_deltas_are_told_by_promise_too(ledger):
    reserve(ledger, unit=PERSON, delta="1e-6")
    reserve(ledger, unit=ROW, delta="2e-6", another_unit=True)
    account = ledger.account("census")
    assert [promise.spent_delta for promise in account.promises] == [Fraction(1, 10**6), Fraction(2, 10**6)]
    assert account.spent_delta == Fraction(3, 10**6)


def test_another_cap_on_the_rows_of_the_same_column_is_the_same_promise(ledger):
    """Neighbours differ by all rows of one unit whatever the cap, so the epsilons add up; the caps are told."""
    for contributions in (3, 1, 3):
        reserve(ledger, unit=PERSON, contributions=contributions)
    (promise,) = ledger.account("census").promises
    assert promise == Promise(PERSON, (1, 3), Fraction(3, 10), Fraction(0))
    assert promise.whom == "the rows of any one person_id (at most 1 or 3 rows each)"
    assert [entry.contributions for entry in ledger.entries()] == [3, 1, 3]


@pytest.mark.parametrize(
    "wrong", [{"unit": "person_id"}, {"unit": None}, {"contributions": 0}, {"contributions": True}]
)
def test_a_reservation_without_a_unit_is_refused_before_anything_is_made(ledger, wrong):
    assert "needs a unit" in refusal(LedgerError, reserve, ledger, **wrong)
    assert "needs a unit" in refusal(LedgerError, reserve, ledger, contributions=2**63)
    assert not ledger.path.exists()


def in_rho(ledger, rho, **more):
    cost = Cost.stated(None, "1e-9", rho)
    return reserve(ledger, cost.epsilon, delta=cost.delta, rho=cost.rho, limit=None, **more)


def test_a_total_in_rho_is_recorded_kept_and_refused_beyond(ledger):
    for _ in range(3):
        in_rho(ledger, "0.1", limit_rho="0.5")
    reserve(ledger, "0.6", limit=None)  # pure, which counts 0.18
    account = ledger.account("census")
    assert (account.total_rho, account.spent_rho, left_rho(account)) == tuple(Fraction(x, 100) for x in (50, 48, 2))
    message = refusal(BudgetExhausted, in_rho, ledger, "0.03", limit_rho="0.5")
    assert "asked for rho 0.03 on dataset 'census': 0.48 of its total rho 0.5 is spent, 0.02 is left" in message
    assert "`sfumato ledger set census --rho 0.51`" in message or "--rho 0.51 --ledger" in message
    assert "budget: {rho: 0.51} in the schema" in message
    in_rho(ledger, "0.02")
    assert left_rho(ledger.account("census")) == 0
    assert "0 is left" in refusal(BudgetExhausted, in_rho, ledger, "1e-9")
    assert "--rho" in refusal(BudgetExhausted, reserve, ledger, "0.01", limit=None)
    (change,) = ledger.changes("census")
    assert (change.rho, change.old_rho) == (Fraction(1, 2), None)


def test_totals_in_rho_and_in_epsilon_hold_both(ledger):
    ledger.set_budget("census", rho="0.5")
    assert "of its total 0.3 is spent" in refusal(BudgetExhausted, reserve, ledger, "0.4", limit="0.3")
    reserve(ledger, "0.3", limit="0.3")
    ledger.set_budget("other", epsilon=1)
    refusal(BudgetExhausted, reserve, ledger, "0.9", dataset="other", limit=None, limit_rho="0.4")
    reserve(ledger, "0.8", dataset="other", limit=None, limit_rho="0.4")


def test_a_threshold_has_no_place_in_a_total_in_rho(ledger):
    asked = {"delta": Fraction(1, 10**9), "limit": None, "limit_rho": "0.5"}
    assert "a threshold" in refusal(BudgetExhausted, reserve, ledger, "0.1", **asked)
    assert ledger.entries() == []


def test_a_total_becomes_a_rho_and_an_epsilon_again_with_a_history(ledger):
    ledger.set_budget("census", 3, "1e-6")
    ledger.set_budget("census", rho="1/3")
    assert ledger.account("census").total_rho == Fraction(1, 3)
    assert ledger.account("census").total_delta == Fraction(1, 10**6)
    ledger.set_budget("census", 2)
    account = ledger.account("census")
    assert (account.total, account.total_rho) == (2, None)
    assert [(change.old_rho, change.rho) for change in ledger.changes("census")] == [
        (None, None),
        (None, Fraction(1, 3)),
        (Fraction(1, 3), None),
    ]
    for wrong in ({}, {"epsilon": 1, "rho": 1}):
        assert "an epsilon or a rho" in refusal(BudgetError, ledger.set_budget, "census", **wrong)


def test_a_ledger_of_format_six_opens_and_is_brought_up_to_date(ledger):
    reserve(ledger)
    later = (f"ALTER TABLE entries DROP COLUMN {name}" for name in ("period", "series", "registered", "exact"))
    raw(ledger.path, *later, "PRAGMA user_version = 6")
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET seal = ?", (seal_of(connection, 6),))
    assert ledger.account("census").spent == Fraction(1, 10)
    ledger.set_budget("census", rho="0.5")
    assert raw(ledger.path, "PRAGMA user_version")[0] == [(FORMAT,)]


def test_a_ledger_of_format_seven_opens_and_names_no_exact_counts(ledger):
    reserve(ledger)
    ledger.set_budget("census", 1)
    raw(ledger.path, "ALTER TABLE entries DROP COLUMN exact", "PRAGMA user_version = 7")
    with closing(sqlite3.connect(ledger.path, isolation_level=None)) as connection:
        connection.execute("UPDATE meta SET seal = ?", (seal_of(connection, 7),))
    before = ledger.path.read_bytes()
    assert [entry.exact for entry in ledger.entries()] == [()]
    assert ledger.path.read_bytes() == before  # reading upgrades nothing
    reserve(ledger, limit=None, exact=((), ("region", "sex")))
    assert [entry.exact for entry in ledger.entries()] == [(), ((), ("region", "sex"))]
    assert raw(ledger.path, "PRAGMA user_version")[0] == [(FORMAT,)]


def test_named_exact_counts_cannot_be_taken_back(ledger):
    reserve(ledger, exact=((), ("region",)))
    kept = ledger.path.read_bytes()
    endless = f"'{'[' * 100_000}'"
    for text in ("NULL", "'[[]]'", "'[]'", '\'[[], ["region"], ["sex"]]\'', "''", "'{'", "x'00'", "7", endless):
        raw(ledger.path, f"UPDATE entries SET exact = {text}")
        assert "damaged or was altered" in refusal(LedgerError, ledger.entries), text
        ledger.path.write_bytes(kept)
    raw(ledger.path, "UPDATE entries SET exact = NULL, request = exact")
    assert "damaged or was altered" in refusal(LedgerError, ledger.entries)


def test_an_altered_rho_breaks_the_seal(ledger):
    ledger.set_budget("census", rho="0.5")
    for text in ("rho 3/4", "rho 0/1", "rho -1/2", "1/2", "rho", "rho 1/2 "):
        raw(ledger.path, f"UPDATE budgets SET epsilon = '{text}'")
        assert "damaged or was altered" in refusal(LedgerError, ledger.show)
