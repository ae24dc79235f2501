"""sfumato ledger: budgets and what was spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from sfumato.kernel.ledger import Account

app = typer.Typer(help="Show budgets and what was spent, or set a dataset's total.", no_args_is_help=True)
LEDGER = typer.Option(None, "--ledger", help="The ledger file; by default one for each user (or SFUMATO_LEDGER).")


@app.command()
def show(
    dataset: str | None = typer.Argument(None, help="Show every entry of this dataset."),
    ledger: Path | None = LEDGER,
) -> None:
    """What every dataset may spend, has spent and has left."""
    from sfumato.cli.show import exact, say, table
    from sfumato.errors import LedgerError
    from sfumato.kernel.ledger import Ledger

    book = Ledger(ledger)
    accounts = [account for account in book.show() if dataset in (None, account.dataset)]
    if dataset is not None and not accounts:
        raise LedgerError(f"no dataset {dataset!r} in the ledger {book.path}; see `sfumato ledger show`")
    if not accounts:
        say(f"Nothing has been spent (ledger {book.path}).")
        return
    entries = [] if dataset is None else book.entries(dataset)
    with_delta = any(account.spent_delta or account.total_delta for account in accounts)
    headers = ["dataset", "epsilon in all", "spent", "left", "releases", "reserved only"]
    rows = [
        [a.dataset, exact(a.total), exact(a.spent), exact(a.left), str(a.published), str(a.entries - a.published)]
        for a in accounts
    ]
    if with_delta:
        headers[4:4] = ["delta in all", "delta spent"]
        for row, a in zip(rows, accounts, strict=True):
            row[4:4] = ["not stated" if a.total_delta is None else exact(a.total_delta), exact(a.spent_delta)]
    table(headers, rows, left=[0])
    if dataset is not None:
        headers = ["entry", "reserved at (UTC)", "epsilon", "mechanism", "state"]
        rows = [[str(e.number), e.reserved_at, exact(e.epsilon), e.mechanism, e.state] for e in entries]
        if with_delta:
            headers.insert(3, "delta")
            for row, e in zip(rows, entries, strict=True):
                row.insert(3, exact(e.delta))
        table(headers, rows, left=[1, *(place for place, name in enumerate(headers) if name in ("mechanism", "state"))])
    if with_delta:
        say("Epsilons are added up, and so are deltas: releases together cost no more than the sums.")
    say(f"Ledger: {book.path}. What is reserved counts as spent, published or not.")


@app.command("set")
def set_total(
    dataset: str = typer.Argument(help="The dataset's name, as in its schema.", show_default=False),
    epsilon: str = typer.Option(..., "--epsilon", help="The total that may ever be spent on it.", show_default=False),
    delta: str | None = typer.Option(None, "--delta", help="The total delta, for mechanisms that need one."),
    ledger: Path | None = LEDGER,
) -> None:
    """State a dataset's total budget. It is a promise to the people in the data: raise it only with a reason."""
    from sfumato.cli.show import exact, say
    from sfumato.kernel.ledger import Ledger

    book = Ledger(ledger)
    book.set_budget(dataset, epsilon, delta)
    account = book.account(dataset)
    spent = f"epsilon {exact(account.total)} in all, {exact(account.spent)} spent, {exact(account.left)} left"
    say(f"{dataset}: {spent}{deltas(account)}.")


def deltas(account: Account) -> str:
    """What is known of a dataset's delta, to go behind its epsilon; nothing where no delta is in play."""
    from sfumato.cli.show import exact

    if account.total_delta is None or account.left_delta is None:
        return f"; delta {exact(account.spent_delta)} spent, no total stated" if account.spent_delta else ""
    return (
        f"; delta {exact(account.spent_delta)} of {exact(account.total_delta)} spent, {exact(account.left_delta)} left"
    )
