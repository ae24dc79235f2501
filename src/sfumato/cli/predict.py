"""Command `sfumato predict`: predict rows with a published model."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.query import MOST_CELLS, RELEASE, SIGNED
from sfumato.cli.shared import ANSWER_ONLY


def predict(
    release: Path = RELEASE,
    rows: Path = typer.Argument(help="Your own rows (.csv or .parquet), with the model's columns.", show_default=False),
    out: Path | None = typer.Option(
        None,
        "-o",
        "--out",
        help="Write the rows and their predictions to this .csv or .parquet file.",
        show_default=False,
    ),
    confidence: float = typer.Option(0.95, "--confidence", help="The confidence of the intervals, between 0 and 1."),
    most_cells: int | None = MOST_CELLS,
    require_signature: Path | None = SIGNED,
    quiet: bool = ANSWER_ONLY,
) -> None:
    """Predict your own rows with a published model. Reads no private data and spends no budget."""
    import pyarrow as pa
    from pyarrow import csv

    from sfumato.cli.show import say, say_kept
    from sfumato.releases.file.artifact import keep_earlier
    from sfumato.releases.release import open_release
    from sfumato.releases.rows.write import check_place, rows_file

    if out is not None:
        check_place(out)
    opened = open_release(release, most_cells=most_cells, require_signature=require_signature)
    judged = opened.predict(rows, confidence=confidence)
    if out is None:
        text = pa.BufferOutputStream()
        csv.write_csv(judged, text)
        typer.echo(text.getvalue().to_pybytes().decode(), nl=False)
        return
    with rows_file(out, judged.schema) as write:
        for batch in judged.to_batches():
            write(batch)
        kept = keep_earlier(out)
    say(f"{out}: {judged.num_rows:,} rows, with predictions of a published model.")
    say_kept(kept)
