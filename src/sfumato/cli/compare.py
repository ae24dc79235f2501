"""Command `sfumato compare`: differences between two releases that noise does not explain."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path

import typer

from sfumato.cli.query import MOST_CELLS, SIGNED, TABLE
from sfumato.cli.shared import ANSWER_ONLY, MANNER

BEFORE = typer.Argument(help="A release file.", show_default=False)
AFTER = typer.Argument(
    help="Another release file. Differences are its numbers minus those of the first.", show_default=False
)
BY = typer.Option(
    [], "--by", metavar="ATTRIBUTE", help="Compare counts by this attribute. Repeat for a table of several."
)
OUT = typer.Option(None, "-o", "--out", help="Write to this file instead of printing.", show_default=False)


class Form(StrEnum):
    """Output format of a comparison."""

    table = "table"
    csv = "csv"
    json = "json"


def compare(
    before: Path = BEFORE,
    after: Path = AFTER,
    by: list[str] = BY,
    of: str | None = TABLE,
    form: Form = typer.Option(Form.table, "--format", help="The format of the output."),
    confidence: float = typer.Option(
        0.95, "--confidence", help="The confidence of all intervals together, between 0 and 1."
    ),
    interval: str = typer.Option(
        "typical", "--interval", help="typical (right on average) or guaranteed (right for every table)."
    ),
    every: bool = typer.Option(False, "--all", help="Print all differences, not only the clearest 20."),
    require_signature: Path | None = SIGNED,
    most_cells: int | None = MOST_CELLS,
    out: Path | None = OUT,
    quiet: bool = ANSWER_ONLY,
) -> None:
    """Compare two releases, such as those of two years, and show the differences that noise cannot explain."""
    from sfumato.cli.show import say, say_kept, table, working
    from sfumato.public.comparison.compare import compare as compare_releases
    from sfumato.public.comparison.comparison import LEFT, SHOWN
    from sfumato.releases.linked import one_table
    from sfumato.releases.release import open_release

    with working("opening the releases") as step:
        first, second = (
            one_table(open_release(one, most_cells=most_cells, require_signature=require_signature), of)
            for one in (before, after)
        )
        step("finding the differences and their errors")
        alike = before.stem == after.stem
        names = (f"{before} (before)", f"{after} (after)") if alike else (before.stem, after.stem)
        found = compare_releases(first, second, by=by, confidence=confidence, interval=interval, names=names)
    if form is Form.table and out is None:
        say(found.statement)
        say()
        headers, rows = found.texts(None if every else SHOWN)
        table(headers, rows, left=LEFT)
        if len(rows) < found.together:
            say(f"... and {found.together - len(rows):,} less clear ones; --all prints them, --format csv or json too.")
        for note in found.notes if MANNER.notes else ():
            say(f"note: {note}", stderr=True)
        return
    if form is Form.json:
        text = json.dumps(found.to_dict(), indent=2, ensure_ascii=True, allow_nan=False) + "\n"
    else:
        text = found.to_csv() if form is Form.csv else f"{found!r}\n"
    if out is None:
        typer.echo(text, nl=False)
        return
    from sfumato.releases.file.artifact import write_text

    kept = write_text(out, text)
    say(f"{out}: {found.statement}")
    say_kept(kept)
