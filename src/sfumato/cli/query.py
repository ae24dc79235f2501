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
    json_full = "json-full"


def query(
    release: Path = RELEASE,
    sql: str = SQL,
    form: Format = typer.Option(Format.table, "--format", help="How to print the answer."),
    confidence: float = typer.Option(0.95, "--confidence", help="How sure the intervals are, between 0 and 1."),
    most_cells: int | None = MOST_CELLS,
    strict: bool = typer.Option(False, "--strict", help="Refuse answers that depend on the spread inside a bin."),
    notes: bool = typer.Option(False, "--notes", help='Put notes into CSV too, as lines that begin with "# ".'),
) -> None:
    """Answer a SELECT from a release, with an error bar on every number. Reads no private data, costs nothing."""
    from sfumato.publishing.publish import open_release

    opened = open_release(release, most_cells=most_cells)
    result = opened.query(sql, confidence=confidence, strict=strict)
    if form is Format.json:
        from sfumato.releases.answers.result import as_json

        typer.echo(as_json(result.records()))
    elif form is Format.json_full:
        from sfumato.releases.answers.full_json import as_full_json

        typer.echo(as_full_json(result, opened.guarantee))
    elif form is Format.csv:
        typer.echo(result.to_csv(notes=notes), nl=False)
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
    if form is Format.table or (form is Format.csv and not notes):
        from sfumato.cli.show import say

        for remark in result.remarks:
            say(remark, stderr=True)
