"""Accounts of a series: by period, by the costliest periods, or all together; and promises that cannot change."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import pytest
from ledgers import old_ledger, raw, refusal, reserve

from sfumato.cli.show import left, left_in, periods_of
from sfumato.errors import BudgetError, BudgetExhausted, LedgerError, RepeatedRelease, SchemaError
from sfumato.kernel.budget import Cost, rho_for
from sfumato.kernel.ledger.book import Series, Unit, period_of
from sfumato.kernel.ledger.composition import Loss, composed, fits
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.opening import Terms, unit_of
from sfumato.schema import Schema

MONTH = Unit("person_id", Series("person in a month", 1, alone=True))
TWO = Unit("person_id", Series("person in at most 2 months", 2))
EVER = Unit("person_id", Series("person for ever", None, planned=3))


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


def part(ledger, period, epsilon="0.2", unit=MONTH, **more):
    return reserve(ledger, epsilon, unit=unit, period=period, **{"limit": "0.3", **more})


def test_each_period_has_an_account_of_its_own(ledger):
    for month in range(1, 13):
        part(ledger, f"2026-{month:02}")
    account = ledger.account("census")
    assert account.spent == Fraction(1, 5) and left(account) == Fraction(3, 10)  # of a month that is not there yet
    assert [left_in(account, period) for period in periods_of(account)] == [Fraction(1, 10)] * 12
    part(ledger, "2026-03", "0.1")  # a correction adds up with what it corrects
    assert ledger.account("census").spent == Fraction(3, 10)
    assert "0.3 of its total 0.3 is spent, 0 is left" in refusal(BudgetExhausted, part, ledger, "2026-03", "0.1")
    part(ledger, "2027-03", "0.3")


def test_spellings_of_a_name_are_one_period(ledger):
    part(ledger, "Spring", unit=MONTH, request="a" * 64)
    refusal(BudgetExhausted, part, ledger, "spring")
    refusal(RepeatedRelease, part, ledger, "spring", "0.1", request="a" * 64, again=False)


def test_the_costliest_periods_are_added_up(ledger):
    part(ledger, "2026-01", "0.1", TWO)
    part(ledger, "2026-02", "0.15", TWO)
    part(ledger, "2026-03", "0.05", TWO)
    assert ledger.account("census").spent == Fraction(1, 4)
    assert left(ledger.account("census")) == Fraction(3, 20)
    part(ledger, "2026-04", "0.15", TWO)
    refusal(BudgetExhausted, part, ledger, "2026-01", "0.1", TWO)
    part(ledger, "2026-01", "0.05", TWO)
    assert ledger.account("census").spent == Fraction(3, 10)


def test_for_ever_all_add_up_and_no_more_than_was_planned(ledger):
    for month in ("2026-01", "2026-02", "2026-03", "2026-02"):
        part(ledger, month, "0.05", EVER)
    assert ledger.account("census").spent == Fraction(1, 5)
    assert "no more than 3 periods" in refusal(BudgetExhausted, part, ledger, "2026-04", "0.05", EVER)
    assert "0.2 of its total 0.3 is spent" in refusal(BudgetExhausted, part, ledger, "2026-01", "0.2", EVER)


@pytest.mark.parametrize("other", [TWO, EVER, Unit("person_id"), Unit("household", MONTH.series), Unit(None)])
def test_another_promise_is_refused_and_adds_up_where_it_is_stated(ledger, other):
    for month in ("2026-01", "2026-02"):
        part(ledger, month, "0.1", MONTH)
    period = None if other.series is None else "2026-03"
    assert "another promise" in refusal(BudgetError, part, ledger, period, "0.1", other)
    part(ledger, period, "0.1", other, another_unit=True)
    assert ledger.account("census").spent == Fraction(3, 10) and not periods_of(ledger.account("census"))
    refusal(BudgetExhausted, part, ledger, "2026-04", "0.1", MONTH)  # and for all that comes later


def test_a_period_comes_with_a_series_and_no_other_way(ledger):
    refusal(LedgerError, part, ledger, "2026-01", unit=Unit("person_id"))
    refusal(LedgerError, part, ledger, None)
    assert "period must be" in refusal(LedgerError, part, ledger, " x")


@pytest.mark.parametrize("most", [1, 2, 3])
def test_what_is_told_bounds_every_choice_of_periods(most):
    """By brute force: whoever is in any `most` periods has lost no more than the account tells, and what fits."""
    tiny = Fraction(1, 10**9)
    unit = Unit("person_id", Series("person in at most some months", most))
    costs = [("a", "0.5", 0), ("a", 1, tiny), ("b", 1, tiny), ("b", "0.1", 0), ("c", 2, tiny), ("d", "0.9", 0)]
    losses = []
    for label, epsilon, delta in costs:
        exact = Fraction(epsilon)
        rho = rho_for(exact, delta) if delta else None
        losses.append(Loss(exact, Fraction(delta), rho, period_of(unit, label)))
    losses.append(Loss(Fraction(1, 4), tiny, None, period_of(unit, "d")))  # a threshold
    for delta in (None, Fraction(1, 10**6), Fraction(2, 10**9)):
        told = composed(losses, delta)
        for chosen in combinations("abcd", most):
            own = [Loss(x.epsilon, x.delta, x.rho) for x in losses if x.period.label in chosen]
            alone = composed(own, told.delta)
            assert alone.epsilon <= told.epsilon * Fraction(1001, 1000) and alone.delta <= told.delta
            for total in (Fraction(1), Fraction(2), told.epsilon):
                assert not fits(losses, total, delta or told.delta) or fits(own, total, delta or told.delta)


def test_a_period_is_part_of_the_chain(ledger):
    part(ledger, "2026-01")
    for change in ("period = '2026-02'", "series = NULL, period = NULL", "series = '[\"x\", 1, true, null]'"):
        was = ledger.path.read_bytes()
        raw(ledger.path, f"UPDATE entries SET {change}")
        assert "damaged" in refusal(LedgerError, ledger.show)
        ledger.path.write_bytes(was)
    assert ledger.entries()[0].period == "2026-01" and ledger.entries()[0].unit == MONTH


@pytest.mark.parametrize("form", [1, 3, 5])
def test_an_old_ledger_takes_no_series_without_a_word(tmp_path, form):
    ledger = Ledger(old_ledger(tmp_path, form))
    before = ledger.account("census").spent
    if form > 2:
        assert "another promise" in refusal(BudgetError, part, ledger, "2026-01", "0.1")
    part(ledger, "2026-01", "0.1", another_unit=True, limit=None)
    assert ledger.account("census").spent == before + Fraction(1, 10)


def schema(unit=None, **more):
    series = {} if unit is None else {"series": {"period": "month", "unit": unit, **more}}
    attributes = {"a": {"type": "boolean"}}
    whose = {"column": "person_id", "contributions": 1}
    return Schema(dataset="census", privacy_unit=whose, budget={"epsilon": 1}, attributes=attributes, **series)


def test_terms_name_the_period_of_a_series_and_no_other(ledger):
    cost = Cost.stated("0.5")
    wanted = Terms(schema("person in a month"), cost, "cells", period="2026-11").wanted
    assert wanted.period == "2026-11" and wanted.unit == MONTH
    assert unit_of(schema("person in at most 2 months")) == TWO
    assert unit_of(schema("person for ever", periods=3)) == EVER
    assert not MONTH.series.keeps_register and TWO.series.keeps_register and not EVER.series.keeps_register
    monthly = schema("person in a month")
    for stated, period in ((schema(), "2026-11"), (monthly, None), (monthly, "2026-1")):
        refusal(SchemaError, Terms, stated, cost, "cells", period=period)


YEARLY = Unit("person_id", Series("person in a month", 1, alone=True, per="year"))


def test_by_the_calendar_year_its_periods_add_up(ledger):
    for month, epsilon in (("2026-01", "0.1"), ("2026-12", "0.1"), ("2027-01", "0.2"), ("2026-12", "0.05")):
        part(ledger, month, epsilon, YEARLY)
    account = ledger.account("census")
    assert account.spent == Fraction(1, 4) and [period.label for period in periods_of(account)] == ["2026", "2027"]
    assert left(account) == Fraction(1, 10)  # of the latest year
    message = refusal(BudgetExhausted, part, ledger, "2026-05", "0.06", YEARLY)
    assert "0.25 of its total 0.3 is spent, 0.05 is left" in message
    part(ledger, "2026-05", "0.05", YEARLY)
    refusal(BudgetExhausted, part, ledger, "2027-11", "0.11", YEARLY)
    part(ledger, "2028-11", "0.3", YEARLY)
    assert account.promises[0].whom.endswith("in a calendar year")


def test_by_the_year_in_rho(ledger):
    def one(period, rho):
        cost = Cost.stated(None, "1e-9", rho)
        exact = {"delta": cost.delta, "rho": cost.rho, "limit": None, "limit_rho": "0.5"}
        return reserve(ledger, cost.epsilon, unit=YEARLY, period=period, **exact)

    for month in range(1, 6):
        one(f"2026-{month:02}", "0.1")
    assert "0.5 of its total rho 0.5 is spent, 0 is left" in refusal(BudgetExhausted, one, "2026-12", "1e-9")
    one("2027-01", "0.5")


def test_a_budget_by_the_year_is_another_promise_than_one_by_the_month(ledger):
    part(ledger, "2026-01", "0.1", MONTH)
    assert "another promise" in refusal(BudgetError, part, ledger, "2026-02", "0.1", YEARLY)
    part(ledger, "2027-02", "0.1", YEARLY, another_unit=True)
    assert ledger.account("census").spent == Fraction(1, 5)  # promises of two kinds add up, whatever the year


def test_whatever_has_no_year_counts_as_one():
    labels = {label: period_of(YEARLY, label).label for label in ("2026", "2026-W53", "2026-Q4", "20261", "spring", "")}
    assert labels == {"2026": "2026", "2026-W53": "2026", "2026-Q4": "2026", "20261": "", "spring": "", "": ""}


@pytest.mark.parametrize(
    "series",
    [
        None,
        {"period": "month", "unit": "person in at most 3 months"},
        {"period": "month", "unit": "person for ever", "periods": 12},
        {"period": "name", "unit": "person in a name"},
    ],
)
def test_a_budget_by_the_year_needs_a_person_within_a_dated_period(series):
    facts = {
        "dataset": "visits",
        "privacy_unit": {"column": "person_id", "contributions": 1},
        "budget": {"epsilon": 2, "per": "year"},
        "attributes": {"ill": {"type": "boolean"}},
    }
    with pytest.raises(SchemaError, match=r"budget\.per is year, which is for a series"):
        Schema.from_dict(facts if series is None else {**facts, "series": series})
    # A schema with a column called period is that of an open series; it is refused where a table is opened by it.
    odd = {**facts, "attributes": {"period": {"type": "boolean"}}}
    with pytest.raises(SchemaError, match=r"budget\.per is year"):
        Terms(Schema.from_dict(odd), Cost.stated(1), "cells")
    right = Schema.from_dict({**facts, "series": {"period": "month", "unit": "person in a month"}})
    assert unit_of(right) == YEARLY and Schema.from_dict(right.to_dict()).per == "year"
