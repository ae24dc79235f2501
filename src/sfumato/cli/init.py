"""sfumato init: draft a schema."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from sfumato.cli.input.file_options import Given, takes_file_options
from sfumato.cli.shared.manner import QUIET


@takes_file_options
def init(
    table: str = typer.Argument(help="A path or glob, or a database URL with --table.", show_default=False),
    out: Path | None = typer.Option(None, "-o", "--out", help="Write the draft here instead of printing it."),
    name: str | None = typer.Option(None, "--table", help="The table's name inside a database."),
    no_questions: bool = typer.Option(False, "--no-questions", help="Ask nothing, on a terminal either."),
    quiet: bool = QUIET,
    file: Given = typer.Option({}),
) -> None:
    """Draft a schema from column names, types and your answers. Bounds and values are never read from the table."""
    from sfumato.cli.input.file_options import stated
    from sfumato.cli.shared.pasting import command
    from sfumato.cli.shared.writing import write_text
    from sfumato.cli.show import say
    from sfumato.kernel.reading.table import open_table
    from sfumato.schema.draft import draft

    dataset = name or Path(table).name.split(".")[0].replace("*", "") or "table"
    with open_table(table, name=name, file=stated(table, file)) as opened:
        columns = opened.columns
    answers = None
    if not no_questions and sys.stdin.isatty() and sys.stdout.isatty():
        from sfumato.cli.input.questions import asked

        say("Enter takes what stands in brackets; nothing is read from the rows. --no-questions leaves all blank.")
        answers = asked(columns, lambda text, default: str(typer.prompt(text, default=default, show_default=False)))
    text = draft(dataset, columns, answers, {key: value for key, value in file.items() if value is not None})
    if out is None:
        typer.echo(text, nl=False)
        return
    kept = write_text(out, text)
    if kept is not None:
        say(f"An earlier file of that name was kept as {kept}.")
    next_ = command("plan", "--schema", out, "--epsilon", "1")
    say(f"{out}: fill in the blanks, then see what a budget buys: {next_}")
