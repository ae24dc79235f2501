"""sfumato ledger: budgets and what was spent."""

from __future__ import annotations

from pathlib import Path

import typer

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
    table(
        ["dataset", "epsilon in all", "spent", "left", "releases", "reserved only"],
        [
            [a.dataset, exact(a.total), exact(a.spent), exact(a.left), str(a.published), str(a.entries - a.published)]
            for a in accounts
        ],
        left=[0],
    )
    if dataset is not None:
        table(
            ["entry", "reserved at (UTC)", "epsilon", "mechanism", "state"],
            [[str(e.number), e.reserved_at, exact(e.epsilon), e.mechanism, e.state] for e in book.entries(dataset)],
            left=[1, 3, 4],
        )
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
    say(f"{dataset}: epsilon {exact(account.total)} in all, {exact(account.spent)} spent, {exact(account.left)} left.")
