"""Linked tables on the command line: `release` and `check` where the schema describes several tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.cli.ledger import of_account
from sfumato.cli.shared import MANNER, give
from sfumato.cli.show import balance, command, exact, say, say_kept
from sfumato.cli.show import table as show_table

if TYPE_CHECKING:
    from sfumato.kernel.ledger.ledger import Account, Ledger
    from sfumato.publishing.linked import PreparedTables, PublishedTables


def tell_published(published: PublishedTables, book: Ledger) -> None:
    """Print the summary of linked tables that were released."""
    from sfumato.releases.release import open_release

    was, made = published.prepared, open_release(published.path, allow_not_private=True)
    account = book.account(was.linked.dataset)
    if MANNER.json:
        facts = _facts("released", was, published.path, account)
        give({**facts, "kept": published.kept, "guarantee": made.guarantee.statement})
        return
    say(f": {len(was.tables)} linked tables.", bold=str(published.path))
    _tell_tables(was)
    say(made.guarantee.statement)
    say(f"Budget of {was.linked.dataset}: {balance(account)} (ledger {book.path}).")
    say_kept(published.kept)
    say(f"Try: {command('query', published.path, f'SELECT COUNT(*) FROM {list(was.tables)[-1]}')}")


def tell_rehearsal(was: PreparedTables, path: Path, account: Account, book: Ledger) -> None:
    """Print the summary of a dry run."""
    if MANNER.json:
        give({**_facts("dry run", was, path, account), "ledger": book.path})
        return
    say(f": {len(was.tables)} linked tables. A dry run: no row was read, nothing was spent.", bold=str(path))
    _tell_tables(was)
    what = f"epsilon {exact(was.cost.epsilon)}" + (f" and delta {exact(was.cost.delta)}" if was.cost.delta else "")
    left = account.after(was.cost).left
    say(f"It would charge {what} to {was.linked.dataset}: {balance(account)}; {exact(left)} would be left then.")


def _facts(done: str, was: PreparedTables, path: Path, account: Account) -> dict[str, object]:
    parts = {
        name: {
            "mechanism": one.mechanism.name,
            "epsilon": one.cost.epsilon,
            "delta": one.cost.delta,
            "rho": one.cost.rho,
        }
        for name, one in was.tables.items()
    }
    links = was.linked.to_dict()
    tables = {name: {**links[name], **part} for name, part in parts.items()}
    facts: dict[str, object] = {"done": done, "file": path, "dataset": was.linked.dataset, "tables": tables}
    return {**facts, "epsilon": was.cost.epsilon, "delta": was.cost.delta, "budget": of_account(account)}


def _tell_tables(was: PreparedTables) -> None:
    headers = ("table", "of one unit at most", "epsilon" if was.cost.pure else "rho", "mechanism")
    rows = []
    for name, one in was.tables.items():
        budget, limit = one.cost.budget, was.linked.tables[name].limit
        rows.append(
            (name, "1 row" if limit == 1 else f"{limit:,} rows", f"{float(budget.amount):.3g}", one.mechanism.name)
        )
    show_table(headers, rows, left=(0, 3))
