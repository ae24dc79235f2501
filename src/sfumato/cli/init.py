"""sfumato init: draft a schema."""

from __future__ import annotations

from pathlib import Path

import typer


def init(
    table: str = typer.Argument(help="A path or glob (csv, parquet), or a database URL with --table."),
    out: Path | None = typer.Option(None, "-o", "--out", help="Write the draft here instead of printing it."),
    name: str | None = typer.Option(None, "--table", help="The table's name inside a database."),
) -> None:
    """Draft a schema from column names and types. Bounds and values are left blank for you: they are never read."""
    from sfumato.cli.show import say
    from sfumato.errors import SchemaError
    from sfumato.kernel.source.table import open_table
    from sfumato.schema.draft import draft

    dataset = name or Path(table).name.split(".")[0].replace("*", "") or "table"
    text = draft(dataset, open_table(table, name=name).columns)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SchemaError(f"{out} exists already; choose another name with -o") from None
    except OSError as error:
        raise SchemaError(f"{out} cannot be written ({error.strerror}); choose another place with -o") from None
    say(f"{out}: fill in the blanks, then see what a budget buys: sfumato plan --schema {out} --epsilon 1")
