"""sfumato sample: synthetic rows from a release."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.query import MOST_CELLS


def sample(
    release: Path = typer.Argument(help="A release file.", show_default=False),
    rows: int = typer.Option(..., "--rows", help="How many rows to draw.", show_default=False),
    most_cells: int | None = MOST_CELLS,
    out: Path = typer.Option(..., "-o", "--out", help="The file to write: .csv or .parquet.", show_default=False),
) -> None:
    """Draw synthetic microdata from a release. Costs no budget; carries the release's own guarantee."""
    from sfumato.cli.show import say
    from sfumato.publishing.publish import open_release
    from sfumato.releases.rows import write_rows

    write_rows(open_release(release, most_cells=most_cells).sample(rows), out)
    say(f"{out}: {rows:,} synthetic rows, drawn from the release alone.")
