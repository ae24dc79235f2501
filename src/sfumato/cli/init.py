"""sfumato init: draft a schema."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.shared.manner import QUIET


def init(
    table: str = typer.Argument(help="A path or glob (csv, parquet), or a database URL with --table."),
    out: Path | None = typer.Option(None, "-o", "--out", help="Write the draft here instead of printing it."),
    name: str | None = typer.Option(None, "--table", help="The table's name inside a database."),
    quiet: bool = QUIET,
) -> None:
    """Draft a schema from column names and types. Bounds and values are left blank for you: they are never read."""
    from sfumato.cli.shared.pasting import command
    from sfumato.cli.shared.writing import write_text
    from sfumato.cli.show import say
    from sfumato.kernel.source.table import open_table
    from sfumato.schema.draft import draft

    dataset = name or Path(table).name.split(".")[0].replace("*", "") or "table"
    text = draft(dataset, open_table(table, name=name).columns)
    if out is None:
        typer.echo(text, nl=False)
        return
    kept = write_text(out, text)
    if kept is not None:
        say(f"An earlier file of that name was kept as {kept}.")
    next_ = command("plan", "--schema", out, "--epsilon", "1")
    say(f"{out}: fill in the blanks, then see what a budget buys: {next_}")
