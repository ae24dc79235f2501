"""Commands `sfumato ledger`: show budgets and expenses, and set totals.

For scripts, accounts, entries and promises become JSON values; amounts of privacy stay exact fractions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli.shared import ANSWER_ONLY, JSON, MANNER, QUIET, one_amount

if TYPE_CHECKING:
    from fractions import Fraction

    from sfumato.kernel.ledger.book import Series
    from sfumato.kernel.ledger.ledger import Account, Change, Entry, Ledger
    from sfumato.releases.file.manifest import Guarantee

app = typer.Typer()
LEDGER = typer.Option(None, "--ledger", help="The ledger file. Default: SFUMATO_LEDGER, or one per user.")


@app.command()
def show(
    dataset: str | None = typer.Argument(None, help="Show every entry of this dataset."),
    ledger: Path | None = LEDGER,
    quiet: bool = ANSWER_ONLY,
    as_json: bool = JSON,
) -> None:
    """Show what each dataset may spend, has spent and has left."""
    from sfumato.cli.show import exact, say, table
    from sfumato.errors import LedgerError
    from sfumato.kernel.ledger.book import same_dataset
    from sfumato.kernel.ledger.ledger import Ledger
    from sfumato.schema.invariants import tables_in_words

    book = Ledger(ledger)
    accounts = [a for a in book.show() if dataset is None or same_dataset(a.dataset) == same_dataset(dataset)]
    if dataset is not None and not accounts:
        raise LedgerError(f"no dataset {dataset!r} in the ledger {book.path}; see `sfumato ledger show`", kind="input")
    identity = book.identity()
    if MANNER.json:
        _give(book, accounts, dataset)
        return
    if not accounts:
        which = "not made yet" if identity is None else f"identity {identity}"
        say(f"Nothing has been spent (ledger {book.path}, {which}).")
        return
    with_delta = any(account.spent_delta or account.total_delta for account in accounts)
    headers = ["dataset", "epsilon in all", "spent", "left", "releases", "reserved only"]
    rows = [[a.dataset, *_amounts(a), str(a.published), str(a.entries - a.published)] for a in accounts]
    if with_delta:
        headers[4:4] = ["delta in all", "at delta"]
        for row, a in zip(rows, accounts, strict=True):
            row[4:4] = ["not stated" if a.total_delta is None else exact(a.total_delta), exact(a.spent_delta)]
    table(headers, rows, left=[0])
    for account in accounts:
        _describe(account)
    for entry in book.entries(dataset):
        if entry.exact:
            exactly = tables_in_words(entry.exact)
            say(f"{entry.dataset}: entry {entry.number} has exact counts of {exactly} beside it, protected by nothing.")
    if dataset is not None:
        _show_periods(accounts[0])
        _show_entries(book.entries(dataset), with_delta=with_delta)
        _show_changes(book.changes(dataset))
    if with_delta:
        say("Releases are added up as epsilons or in rho, whichever tells less (docs: privacy, section 13).")
    say(f"Ledger: {book.path}. What is reserved counts as spent, published or not.")
    say(f'Its identity: {identity} (`ledger: "{identity}"` in a schema requires this one).')


def _describe(account: Account) -> None:
    """Print how an account is added up, and what is left of it."""
    from sfumato.cli.show import left_for_next, left_gaussian, say, way_of_adding

    if account.promises:
        say(f"{account.dataset}: {promises(account)}.")
    if account.entries > 1 or left_gaussian(account)[0] is not None:
        say(f"{account.dataset}: spent is {way_of_adding(account)}; {left_for_next(account)}.")
    if _series_of(account) is not None:
        say(f"{account.dataset}: {_over_periods(account)}.")
    if len(account.spellings) > 1:
        say(f"{', '.join(account.spellings)}: spellings of one name, with one budget between them.")


def _show_periods(account: Account) -> None:
    from sfumato.cli.show import exact, periods_of, table
    from sfumato.plain_text import in_short

    rows = [
        [one["period"], str(one["parts"]), in_short(one["spent"]), exact(one["left"])] for one in by_period(account)
    ]
    if rows:
        span = "year" if periods_of(account)[0].span else "period"
        table([span, "parts", "epsilon spent", "left for one more part"], rows, left=[0])


def _over_periods(account: Account) -> str:
    """Describe how the periods of a series are added up, and what a new one may cost."""
    from sfumato.cli.show import exact, left, left_in, next_period, periods_of

    series, rest = _series_of(account), f"a period without a part may spend epsilon {exact(left(account))}"
    if (latest := next_period(account)) is not None and latest.span:
        another = replace(latest, label="")
        return (
            f"each calendar year is an account of its own, to which its periods add up, and spent is that of the "
            f"costliest; {latest.label or 'the latest'} may spend epsilon {exact(left(account))} more, a year without "
            f"a part {exact(left_in(account, another))}"
        )
    if series is None or series.most is None:
        planned = "" if series is None or series.planned is None else f" of {series.planned} planned"
        number = len({label for label in account.labels if label is not None})
        return f"a person may be in all periods, so all parts add up; {number}{planned} periods have parts"
    if series.alone:
        return f"each period is an account of its own, and spent is that of the costliest; {rest}"
    return (
        f"a person is counted in at most {series.most} periods, the first ones he or she is in, so spent is the sum of "
        f"the {series.most} costliest of {len(periods_of(account))}; {rest}"
    )


def _series_of(account: Account) -> Series | None:
    """The series' promise; None without a series, or where the account has another promise too."""
    (unit,) = {promise.unit for promise in account.promises} if len(account.promises) == 1 else (None,)
    return None if unit is None else unit.series


def by_period(account: Account) -> list[dict[str, Any]]:
    """Budget spent in each period of a series, or each year, and the largest cost of one more part."""
    from sfumato.cli.show import left_in, periods_of

    found = []
    for period in periods_of(account):
        losses = tuple(loss for loss in account.losses if loss.period == period)
        mine, labels = replace(account, losses=losses), zip(account.labels, account.losses, strict=True)
        label = period.label if period.span else next(label for label, loss in labels if loss.period == period)
        found.append({"period": label, "parts": mine.entries, "spent": mine.spent, "left": left_in(account, period)})
    return found


def _amounts(account: Account) -> tuple[str, str, str]:
    """Total, spent and left of an account, in epsilon; in rho where the total is one."""
    from sfumato.cli.show import exact, left, left_in_short, left_rho
    from sfumato.plain_text import in_short

    if account.total_rho is None:
        return exact(account.total), in_short(account.spent), exact(left(account))
    spent, rest = account.spent_rho, left_rho(account)
    return (
        f"rho {exact(account.total_rho)}",
        in_short(account.spent) if spent is None else f"rho {in_short(spent)}",
        f"rho {left_in_short(rest)}" if rest else "nothing",
    )


def _give(book: Ledger, accounts: list[Account], dataset: str | None) -> None:
    from sfumato.cli.shared import give

    changes = [change for account in accounts for change in book.changes(account.dataset)]
    give(
        {
            "ledger": {"path": book.path, "identity": book.identity()},
            "datasets": [of_account(account) for account in accounts],
            "entries": [of_entry(entry) for entry in book.entries(dataset)],
            "history": [of_change(change) for change in sorted(changes, key=lambda change: change.number)],
        }
    )


def _show_entries(entries: list[Entry], *, with_delta: bool) -> None:
    from sfumato.cli.show import exact, table

    headers = ["entry", "reserved at (UTC)", "epsilon", "mechanism", "state", "unit", "rows"]
    rows = [[str(e.number), _time(e.reserved_at), exact(e.epsilon), e.mechanism, e.state, *_unit(e)] for e in entries]
    if any(e.period for e in entries):
        headers.append("period")
        for row, e in zip(rows, entries, strict=True):
            row.append(e.period or "")
    if with_delta:
        headers.insert(3, "delta")
        for row, e in zip(rows, entries, strict=True):
            row.insert(3, exact(e.delta))
    table(headers, rows, left=[1, *range(headers.index("mechanism"), headers.index("rows"))])


def _time(recorded: str) -> str:
    return recorded.removesuffix("+00:00").replace("T", " ")


def _unit(entry: Entry) -> tuple[str, str]:
    if entry.unit is None:
        return "not recorded", ""
    return entry.unit.column or "row", str(entry.contributions)


def _show_changes(changes: list[Change]) -> None:
    """Print the history of a total; an older ledger has none until the total is set again."""
    from sfumato.cli.show import say

    for change in changes:
        old, new = "", _total(change.total, change.total_delta, change.rho)
        if change.old_total is not None:
            old = f" instead of {_total(change.old_total, change.old_delta, change.old_rho)}"
        say(f"Total {new}{old}: by {change.who} at {_time(change.changed_at)} UTC, reason: {change.reason}.")


def _total(epsilon: Fraction, delta: Fraction | None, rho: Fraction | None) -> str:
    from sfumato.cli.show import exact

    amount = f"epsilon {exact(epsilon)}" if rho is None else f"rho {exact(rho)}"
    return amount + ("" if delta is None else f" and delta {exact(delta)}")


def promises(account: Account) -> str:
    """Composed guarantee of a dataset's releases, for each privacy unit separately.

    An epsilon to any one row and one to any one person are about different neighbours. Their sum is held to the total,
    which counts too much rather than too little, but it is the epsilon of nobody.
    """
    from sfumato.cli.show import exact
    from sfumato.plain_text import in_short

    spent = [
        f"epsilon {in_short(p.spent)}{f' and delta {exact(p.spent_delta)}' if p.spent_delta else ''} to {p.whom}"
        for p in account.promises
    ]
    known = sum(promise.unit is not None for promise in account.promises)
    notes = ""
    if known > 1:
        number = "two" if known == 2 else str(known)
        notes += f"; these are {number} promises and do not add up to one (the total bounds their sum all the same)"
    if 0 < known < len(spent):
        notes += "; what has no recorded unit may be part of any promise"
    return ", ".join(spent) + notes


@app.command("set")
def set_total(
    dataset: str = typer.Argument(help="The dataset's name, as in its schema.", show_default=False),
    epsilon: str | None = typer.Option(
        None, "--epsilon", help="The most that may ever be spent on it.", show_default=False
    ),
    rho: str | None = typer.Option(
        None, "--rho", help="The same in rho of zero-concentrated privacy, in place of --epsilon."
    ),
    delta: str | None = typer.Option(None, "--delta", help="The total delta, for mechanisms that need one."),
    reason: str | None = typer.Option(
        None, "--reason", help="The reason, in one line. It is kept for ever, so write nothing private."
    ),
    ledger: Path | None = LEDGER,
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """State a dataset's total budget. It is a promise to the people in the data: raise it only with a reason."""
    from sfumato.cli.show import balance, notes, say
    from sfumato.kernel.ledger.ledger import Ledger

    one_amount(epsilon, rho)
    book = Ledger(ledger)
    with notes():
        book.set_budget(dataset, epsilon, delta, rho=rho, reason=reason)
    account = book.account(dataset)
    if MANNER.json:
        _give(book, [account], dataset)
    say(f"{dataset}: {balance(account)}.")


def of_account(account: Account) -> dict[str, Any]:
    """Convert an account to JSON values."""
    from sfumato.cli.show import left, left_delta, left_gaussian, left_rho

    gaussian, at = left_gaussian(account)
    return {
        "dataset": account.dataset,
        "spellings": list(account.spellings),
        "epsilon": {"total": account.total, "spent": account.spent, "left": left(account)},
        "delta": {"total": account.total_delta, "spent": account.spent_delta, "left": left_delta(account)},
        "rho": account.together.rho if account.total_rho is None else account.spent_rho,
        "rho_total": account.total_rho,
        "rho_left": left_rho(account),
        "next": {"pure": left(account), "with_delta": gaussian, "delta": at},
        "periods": by_period(account),
        "releases": account.published,
        "reserved_only": account.entries - account.published,
        "promises": [
            {"to": one.whom, "unit": _unit_name(one.unit), "epsilon": one.spent, "delta": one.spent_delta}
            for one in account.promises
        ],
    }


def of_entry(entry: Entry) -> dict[str, Any]:
    """Convert a reservation to JSON values."""
    return {
        "entry": entry.number,
        "dataset": entry.dataset,
        "reserved_at": entry.reserved_at,
        "epsilon": entry.epsilon,
        "delta": entry.delta,
        "rho": entry.rho,
        "mechanism": entry.mechanism,
        "period": entry.period,
        "state": entry.state,
        "unit": _unit_name(entry.unit),
        "contributions": entry.contributions,
        "exact_counts": [[*names] for names in entry.exact],
        "request": entry.request,
        "digest": entry.digest,
    }


def of_change(change: Change) -> dict[str, Any]:
    """Convert a stated or changed total to JSON values."""
    return {
        "dataset": change.dataset,
        "changed_at": change.changed_at,
        "who": change.who,
        "reason": change.reason,
        "epsilon": {"before": change.old_total, "after": change.total},
        "delta": {"before": change.old_delta, "after": change.total_delta},
        "rho": {"before": change.old_rho, "after": change.rho},
    }


def of_guarantee(promise: Guarantee) -> dict[str, Any]:
    """Convert a file's guarantee to JSON values."""
    parts = {"definition": promise.definition, "epsilon": promise.epsilon, "delta": promise.delta, "rho": promise.rho}
    return {**parts, "unit": promise.unit, "neighbours": promise.neighbours, "statement": promise.statement}


def _unit_name(unit: Any) -> str | None:
    return None if unit is None else unit.column or "row"
