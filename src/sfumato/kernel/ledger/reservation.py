"""Requests for a reservation, and their refusals: overspending, a mixed privacy unit, an accidental repetition.

`Wanted` checks amounts and names by themselves, then against the ledger: the right one, with enough budget left. When a
refusal is raised nothing has been written, so nothing is spent.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

from sfumato.errors import BudgetError, BudgetExhausted, LedgerError, RepeatedRelease
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Amount, as_delta, as_epsilon, epsilon_for, rounded
from sfumato.kernel.ledger.book import (
    NOTHING,
    Account,
    Book,
    Entry,
    Unit,
    check_name,
    is_count,
    is_digest,
    period_of,
    same_dataset,
)
from sfumato.kernel.ledger.composition import Composed, Loss, Total, composed, fits, largest_next, rho_left, sum_of_rho
from sfumato.plain_text import in_short, readable

LOST = "restore it, or name the one that holds what was spent before (--ledger)"


def refuse_overspending(
    account: Account,
    asked: Loss,
    stated: Fraction | None,
    stated_delta: Fraction | None,
    where: str = "",
    stated_rho: Fraction | None = None,
) -> None:
    """Refuse a release with which all releases of the dataset together would exceed its total (composition.py).

    stated, stated_delta, stated_rho: the schema's total. It and the ledger's total both hold, in epsilon or in rho.
    """
    _refuse_beyond_rho(account, asked, stated_rho, where)
    if account.total_rho is not None:
        if stated is None:
            return
        account = replace(account, total=stated, total_delta=stated_delta, total_rho=None)
    total = account.total if stated is None else min(account.total, stated)
    deltas = [delta for delta in (account.total_delta, stated_delta) if delta is not None]
    whole = min(deltas, default=None)
    needed = composed([*account.losses, asked], whole)
    beyond = whole is not None and asked.delta > whole
    if not beyond and fits([*account.losses, asked], total, whole):
        return
    name, set_total = _called(account), f"sfumato ledger set {shlex.quote(account.dataset)} --epsilon"
    cost = f"epsilon {readable(asked.epsilon)}" + (f" and delta {readable(asked.delta)}" if asked.delta else "")
    if asked.delta and (needed.delta >= 1 if whole is None else beyond or needed.delta > whole):
        limit = readable(Fraction(1) if whole is None else whole)
        state = f"its total is {limit}" if beyond else f"{readable(account.spent_delta)} of its total {limit} is spent"
        raise BudgetExhausted(
            f"asked for delta {readable(asked.delta)} on dataset {name}: {state}; use pure epsilon (no --delta), a "
            f"smaller --delta or, if the data owner agrees, raise the total: `{set_total} {readable(account.total)} "
            f"--delta {readable(max(asked.delta, needed.delta))}{where}`"
            + (" and budget: {delta: ...} in the schema" if stated_delta is not None else "")
        )
    note = ""
    if stated is not None and stated > account.total:
        note = f" (the schema says {readable(stated)}, but the total recorded in the ledger is smaller and holds)"
    elif stated is not None and stated < account.total:
        note = f" (the ledger says {readable(account.total)}, but the schema's total is smaller and holds)"
    enough = _enough([*account.losses, asked], needed, whole)
    places = [f"`{set_total} {readable(enough)}{where}`"] if account.total < enough else []
    if stated is not None and stated < enough:
        places.append(f"budget: {{epsilon: {readable(enough)}}} in the schema")
    left = largest_next(account.losses, total, whole, asked.delta, period=asked.period)
    raise BudgetExhausted(
        f"asked for {cost} on dataset {name}: {in_short(account.spent)} of its total {readable(total)} is spent, "
        f"{readable(left)} is left for such a release{note}; ask for a smaller --epsilon or, if the data owner agrees, "
        f"raise the total: {' and '.join(places)}"
    )


def _refuse_beyond_rho(account: Account, asked: Loss, stated: Fraction | None, where: str) -> None:
    """Refuse a release that goes beyond a total in rho, of the ledger or of the schema."""
    totals = [rho for rho in (account.total_rho, stated) if rho is not None]
    if not totals or fits([*account.losses, asked], account.total, account.total_delta, min(totals)):
        return
    total, spent, cost, name = min(totals), account.spent_rho, asked.concentrated, _called(account)
    if cost is None or spent is None:
        whose = "this release" if cost is None else "an earlier release"
        raise BudgetExhausted(
            f"the total of dataset {name} is a rho, and {whose} has a delta that follows from none (a threshold); "
            "state the total as an epsilon and a delta, or release by a mechanism without a threshold"
        )
    together = sum_of_rho([*account.losses, asked]) or NOTHING
    needed = rounded(together, Context(prec=4, rounding=ROUND_CEILING))
    places = []
    if account.total_rho is not None and account.total_rho < needed:
        places.append(f"`sfumato ledger set {shlex.quote(account.dataset)} --rho {readable(needed)}{where}`")
    if stated is not None and stated < needed:
        places.append(f"budget: {{rho: {readable(needed)}}} in the schema")
    left = rounded(rho_left(account.losses, total, asked.period), Context(prec=4, rounding=ROUND_FLOOR))
    raise BudgetExhausted(
        f"asked for rho {in_short(cost)} on dataset {name}: {in_short(spent)} of its total rho {readable(total)} is "
        f"spent, {readable(left)} is left; ask for a smaller --rho or, if the data owner agrees, raise the total: "
        f"{' and '.join(places)}"
    )


def _enough(losses: list[Loss], needed: Composed, delta: Fraction | None) -> Fraction:
    """Smallest sufficient total: the sum where sums count, else the composed epsilon rounded up."""
    total = needed.epsilon
    if needed.rho is not None:
        total = rounded(total, Context(prec=4, rounding=ROUND_CEILING))
        while not fits(losses, total, delta):
            total = rounded(total * Fraction(101, 100), Context(prec=4, rounding=ROUND_CEILING))
    return total


def _called(account: Account) -> str:
    """Name of a dataset for messages, with other spellings that share its account."""
    others = [repr(name) for name in account.spellings if name != account.dataset]
    return repr(account.dataset) + (f" (one account with {' and '.join(others)})" if others else "")


def refuse_another_unit(account: Account, unit: Unit, contributions: int) -> None:
    """Refuse to add an epsilon for one privacy unit to epsilons for another: their sum would promise nothing.

    What protects any one row protects a person with ten rows ten times less, so the two are not the same epsilon.
    Entries without a recorded unit fit any: what they promised is not known.
    """
    known = [promise for promise in account.promises if promise.unit is not None]
    if not known or any(promise.unit == unit for promise in known):
        return
    before = " and ".join(f"epsilon {readable(promise.spent)} to {promise.whom}" for promise in known)
    raise BudgetError(
        f"asked to protect {unit.in_words(contributions)}, but dataset {_called(account)} has spent {before}: that is "
        "another promise, and the epsilons do not add up to one; keep to the privacy_unit of before or, if the data "
        "owner agrees to both promises, say so: --another-unit (another_unit=True)",
        kind="budget",
    )


def refuse_more_periods(entries: Sequence[Entry], unit: Unit, period: str | None) -> None:
    """Refuse a new period of a series beyond the planned number, where that number bounds a person's loss."""
    planned = unit.series.planned if unit.series is not None else None
    known = {same_dataset(entry.period) for entry in entries if entry.period is not None}
    if planned is not None and period is not None and len(known | {same_dataset(period)}) > planned:
        raise BudgetExhausted(
            f"the series promises {unit.in_words(1)} no more than {planned} periods, and all of them have releases; "
            "correct one of these, or begin another series, of people who were asked again"
        )


def refuse_repetition(book: Book, dataset: str, request: str | None, period: str | None = None) -> None:
    """Refuse an accidental repetition: a request equal to the last one of the dataset and the period.

    Only what is public is compared: the table by its name, the schema, the mechanism, the cost and the workload.
    """
    mine = [entry for entry in book.of(dataset) if _spelled(entry.period) == _spelled(period)]
    last = mine[-1] if mine else None
    if request is None or last is None or last.request != request:
        return
    when = last.reserved_at.removesuffix("+00:00").replace("T", " ")
    cost = f"epsilon {readable(last.epsilon)}" + (f" and delta {readable(last.delta)}" if last.delta else "")
    became = "published" if last.state == "published" else "reserved, and spent, but never published"
    raise RepeatedRelease(
        f"the last release of dataset {dataset!r} was of the same table (by name; tables in memory count as one), with "
        f"the same schema, mechanism and epsilon (entry {last.number} of {when} UTC, {became}); another one costs "
        f"{cost} once more; use the file that there is, or say that it is meant: --again (again=True)"
    )


def _spelled(period: str | None) -> str | None:
    """Spelling under which periods are compared."""
    return None if period is None else same_dataset(period)


def refuse_missing(path: Path, identity: str | None) -> NoReturn:
    """Refuse to go on without a ledger where one is required, by the curator or by the schema."""
    which = "a ledger is required" if identity is None else f"the schema requires the ledger {identity}"
    raise LedgerError(f"{which}, but there is none at {path}; {LOST}")


def refuse_other_ledger(book: Book, path: Path, *, required: bool, identity: str | None) -> None:
    """Refuse a ledger other than the one the schema names, and a blank one where one is required."""
    if identity is not None and book.id != identity:
        raise LedgerError(
            f"the schema requires the ledger {identity}, but the one at {path} is {book.id}; restore the former, name "
            "it (--ledger), or correct `ledger` in the schema"
        )
    if required and book.is_blank:  # such as one that a refused release has left behind
        raise LedgerError(f"a ledger is required, but the one at {path} is new and knows of no dataset; {LOST}")


@dataclass(frozen=True)
class Wanted:
    """Request for a reservation; each field is validated on its own before any ledger is read.

    limit, limit_delta, limit_rho: the schema's totals. The smaller of each and the ledger's recorded total holds. Where
    nobody has stated a total delta, deltas are counted and may add up to anything below 1.
    rho: what the release may spend, where it is zCDP; without one, its epsilon and delta are added as they are.
    unit, contributions: whom the epsilon protects, and how many rows of each are used. A unit other than those
    recorded for the dataset is refused, unless `another_unit` states that a further promise is meant.
    period: of a release that is part of a series, as it is written in files; the unit then says what is promised.
    identity: the ledger that the schema requires; any other, and a new one, is refused.
    request: a digest of what is asked for, by which it is known again; `again`: it may be what was asked for last.
    exact: attributes of each table that is to be handed out exactly; the entry names them for ever.
    where: what a command needs in order to reach the same ledger, so that one that is proposed can be pasted.
    """

    dataset: str
    epsilon: Fraction
    limit: Fraction | None
    mechanism: str
    unit: Unit
    contributions: int
    another_unit: bool = False
    delta: Fraction = NOTHING
    rho: Fraction | None = None
    limit_delta: Fraction | None = None
    identity: str | None = None
    request: str | None = None
    again: bool = True
    where: str = ""
    limit_rho: Fraction | None = None
    period: str | None = None
    exact: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        check_name(self.dataset, "dataset")
        check_name(self.mechanism, "mechanism")
        exact = {"epsilon": as_epsilon(self.epsilon), "delta": delta_of(self.delta)}
        if self.limit is not None:
            exact["limit"] = as_epsilon(self.limit, "the budget's epsilon")
        if self.limit_delta is not None:
            exact["limit_delta"] = delta_of(self.limit_delta)
        if self.limit_rho is not None:
            exact["limit_rho"] = as_epsilon(self.limit_rho, "the budget's rho")
        if self.rho is not None:
            exact["rho"] = as_epsilon(self.rho, "rho")
            if not exact["delta"] or epsilon_for(exact["rho"], exact["delta"]) > exact["epsilon"]:
                raise LedgerError("a reservation names a rho from which its epsilon and delta do not follow")
        for name, amount in exact.items():
            object.__setattr__(self, name, amount)
        if type(self.unit) is not Unit or not is_count(self.contributions) or self.contributions >= 2**63:
            raise LedgerError("a reservation needs a unit, ROW or Unit('person_id'), and its contributions, such as 1")
        if (self.period is None) != (self.unit.series is None):
            raise LedgerError("a reservation in a series names its period, and one outside of a series none")
        if self.period is not None:
            check_name(self.period, "period")
        if not (self.request is None or is_digest(self.request)):
            raise LedgerError("a request is told by its SHA-256 digest, 64 hexadecimal digits, or not at all")

    def total_in(self, book: Book) -> Total:
        """Total of the dataset: the recorded one, or else the schema's, which will be recorded."""
        if (known := book.total(self.dataset)) is not None:
            return known
        if self.limit_rho is not None:
            return Total.in_rho(self.limit_rho, self.limit_delta)
        if self.limit is None:
            raise BudgetError(
                f"dataset {self.dataset!r} has no total budget yet; state the total once: budget: {{epsilon: 3}} in "
                f"the schema, or `sfumato ledger set {shlex.quote(self.dataset)} --epsilon 3{self.where}`",
                kind="budget",
            )
        return Total(self.limit, self.limit_delta)

    def refuse_in(self, book: Book) -> Account:
        """Validate the request against a ledger; return the dataset's account or raise."""
        account = book.account(self.dataset)
        if not self.another_unit:
            refuse_another_unit(account, self.unit, self.contributions)
        refuse_more_periods(book.of(self.dataset), self.unit, self.period)
        period = period_of(self.unit, self.period)
        asked = Loss(self.epsilon, self.delta, self.rho, period)
        mine = account.within(period)
        refuse_overspending(mine, asked, self.limit, self.limit_delta, self.where, self.limit_rho)
        if not self.again:
            refuse_repetition(book, self.dataset, self.request, self.period)
        return account


def delta_of(value: Amount) -> Fraction:
    return NOTHING if value == 0 and not isinstance(value, bool) else as_delta(value)
