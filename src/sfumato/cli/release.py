"""sfumato release: publish a table."""

from __future__ import annotations

from pathlib import Path

import typer

TABLE = typer.Argument(help="A path or glob (csv, parquet), or a database URL with --table.", show_default=False)
SCHEMA = typer.Option(..., "--schema", help="The public schema (YAML).", show_default=False)
EPSILON = typer.Option(..., "--epsilon", help="What this release costs, such as 0.5 or 1/3.", show_default=False)
OUT = typer.Option(..., "-o", "--out", help="The release file to write.", show_default=False)
DELTA = typer.Option(None, "--delta", help="Only for mechanisms that need it; the present ones are pure epsilon.")
MECHANISM = typer.Option("auto", "--mechanism", help="auto, cells or sparse-cells.")
WORKLOAD = typer.Option(None, "--workload", help="SQL queries that matter most, for mechanisms that adapt to them.")
LEDGER = typer.Option(None, "--ledger", help="The ledger file; by default one for each user (or SFUMATO_LEDGER).")
NAME = typer.Option(None, "--table", help="The table's name inside a database.")


def release(
    table: str = TABLE,
    schema: Path = SCHEMA,
    epsilon: str = EPSILON,
    out: Path = OUT,
    delta: str | None = DELTA,
    mechanism: str = MECHANISM,
    workload: Path | None = WORKLOAD,
    ledger: Path | None = LEDGER,
    name: str | None = NAME,
) -> None:
    """Publish a table: reserve the budget, read once, add noise, write one file that anyone may query."""
    from sfumato.cli.show import exact, progress, say
    from sfumato.errors import SfumatoError
    from sfumato.kernel.budget import as_delta
    from sfumato.kernel.ledger import Ledger
    from sfumato.publish import check_workload, publish
    from sfumato.schema import Schema

    public = Schema.load(schema)
    if delta is not None:
        as_delta(delta)
    if workload is not None:
        check_workload(workload, public)
    book = Ledger(ledger)
    try:
        with progress() as step:
            published = publish(
                table, public, epsilon, out, mechanism=mechanism, ledger=book, table_name=name, step=step
            )
    except KeyboardInterrupt:
        raise SfumatoError("interrupted; if the budget was reserved already, it stays charged") from None
    made, cube = published.release, published.release.cube
    cells = f"{cube.published:,} of {cube.domain.size:,} cells" if cube.sparse else f"{cube.domain.size:,} cells"
    say(f"[bold]{published.path}[/bold]: {cells}, mechanism {made.mechanism}.")
    say(made.guarantee.statement)
    account = book.account(public.dataset)
    say(
        f"Budget of {public.dataset}: epsilon {exact(account.spent)} of {exact(account.total)} spent, "
        f"{exact(account.left)} left (ledger {book.path})."
    )
    if delta is not None:
        say("No delta was needed: the guarantee is pure epsilon.")
    if published.kept is not None:
        say(f"An earlier file of that name was kept as {published.kept}.")
    say(f'Try: sfumato query {published.path} "SELECT COUNT(*) FROM {public.dataset}"')
