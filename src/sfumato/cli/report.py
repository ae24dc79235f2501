"""Command `sfumato report`: write the HTML report of a release."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.certificate import STATED, facts_in
from sfumato.cli.query import MOST_CELLS, RELEASE, SIGNED, TABLE
from sfumato.cli.shared import QUIET

OUT = typer.Option(..., "-o", "--out", help="The .html file to write. It needs no other file.", show_default=False)


def report(
    release: Path = RELEASE,
    out: Path = OUT,
    table: str | None = TABLE,
    confidence: float = typer.Option(0.95, "--confidence", help="The confidence of the intervals, between 0 and 1."),
    stated: list[str] = STATED,
    require_signature: Path | None = SIGNED,
    most_cells: int | None = MOST_CELLS,
    quiet: bool = QUIET,
) -> None:
    """Write an HTML page about a release: its guarantee, its numbers and their errors. The page works offline."""
    from sfumato.cli.show import say, say_kept, working
    from sfumato.public.report.report import report as report_of
    from sfumato.releases.file.artifact import write_text

    with working("writing a report") as step:
        page = report_of(
            release,
            table=table,
            confidence=confidence,
            require_signature=require_signature,
            most_cells=most_cells,
            facts=facts_in(stated),
            step=step,
        )
    kept = write_text(out, page)
    say(f"{out}: {len(page.encode()) / 1e6:.2f} MB, one file. Open it in a browser, or send it to somebody.")
    say_kept(kept)
