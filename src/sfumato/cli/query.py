"""sfumato query: ask a release."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import typer

RELEASE = typer.Argument(help="A release file.", show_default=False)
SQL = typer.Argument(help="SELECT ... FROM the dataset's name, or FROM release.", show_default=False)
MOST_CELLS = typer.Option(
    None, "--most-cells", min=1, help="Open a file that lays out up to so many numbers; it says how many it needs."
)


class Format(StrEnum):
    """How to print an answer."""

    table = "table"
    csv = "csv"
    json = "json"


def query(
    release: Path = RELEASE,
    sql: str = SQL,
    form: Format = typer.Option(Format.table, "--format", help="How to print the answer."),
    confidence: float = typer.Option(0.95, "--confidence", help="How sure the intervals are, between 0 and 1."),
    most_cells: int | None = MOST_CELLS,
    strict: bool = typer.Option(False, "--strict", help="Refuse answers that depend on the spread inside a bin."),
) -> None:
    """Answer a SELECT from a release, with an error bar on every number. Reads no private data, costs nothing."""
    from sfumato.cli.show import working
    from sfumato.publishing.publish import open_release

    with working("opening the release") as step:
        opened = open_release(release, most_cells=most_cells)
        step("finding the answers and their errors")
        result = opened.query(sql, confidence=confidence, strict=strict)
    if form is Format.json:
        from sfumato.releases.answers.result import as_json

        typer.echo(as_json(result.records()))
    elif form is Format.csv:
        typer.echo(result.to_csv(), nl=False)
    else:
        from sfumato.cli.show import table
        from sfumato.releases.answers.estimate import Estimate

        headers, rows = result.texts()
        first = result.rows[0] if result.rows else ()
        keys, place = [], 0
        for cell in first:
            keys += [] if isinstance(cell, Estimate) else [place]
            place += 3 if isinstance(cell, Estimate) else 1
        table(headers, rows, left=keys)
    if form is not Format.json:
        from sfumato.cli.show import say

        for note in result.notes:
            say(f"note: {note}", stderr=True)
