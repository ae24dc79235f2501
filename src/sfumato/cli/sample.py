"""Command `sfumato sample`: draw synthetic rows from a release."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.query import MOST_CELLS, SIGNED
from sfumato.cli.shared import QUIET


def sample(
    release: Path = typer.Argument(help="A release file.", show_default=False),
    rows: int = typer.Option(..., "--rows", help="How many rows to draw.", show_default=False),
    most_cells: int | None = MOST_CELLS,
    require_signature: Path | None = SIGNED,
    out: Path = typer.Option(..., "-o", "--out", help="The file to write: .csv or .parquet.", show_default=False),
    seed: int | None = typer.Option(None, "--seed", help="The same seed draws the same rows.", show_default=False),
    quiet: bool = QUIET,
) -> None:
    """Draw synthetic rows from a release. Spends no budget: the release's own guarantee covers the rows."""
    from sfumato.cli.show import say, say_kept, table
    from sfumato.releases.release import open_release
    from sfumato.releases.rows.decode import check_number
    from sfumato.releases.rows.write import check_place

    check_place(out)
    check_number(rows)
    opened = open_release(release, most_cells=most_cells, require_signature=require_signature)
    drawn = opened.sample_to(out, rows, seed=seed)
    say(f"{out}: {rows:,} synthetic rows, drawn from the release alone.")
    say_kept(drawn.kept)
    say()
    say("How far their shares are from the release's own answers, beside what chance alone would do:")
    headers = ["shares by", "tables", "mean", "by chance", "largest", "by chance"]
    lines = [
        [one.of, str(one.tables), *map(_percent, (one.mean, one.mean_by_chance, one.largest, one.largest_by_chance))]
        for one in drawn.agreements
    ]
    table(headers, lines, left=[0])


def _percent(share: float) -> str:
    return f"{100 * share:.3f} %"
