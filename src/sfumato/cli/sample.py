"""Command `sfumato sample`: draw synthetic rows from a release.

Command `sfumato predict`: predict rows with a published model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli.query import MOST_CELLS, RELEASE, SIGNED
from sfumato.cli.shared import ANSWER_ONLY, QUIET, VERBOSE
from sfumato.errors import QueryError

if TYPE_CHECKING:
    from sfumato.releases.release import Release
    from sfumato.releases.rows.write import Agreement

MOST_TABLES = 1000


def sample(
    release: Path = typer.Argument(help="A release file.", show_default=False),
    rows: int | None = typer.Option(
        None, "-n", "--rows", help="How many rows to draw; by default as many as there are.", show_default=False
    ),
    where: str | None = typer.Option(
        None, "--where", help="Condition on the rows, as in SQL: \"age < 30 AND sex = 'F'\".", show_default=False
    ),
    by: str | None = typer.Option(
        None, "--by", help="Attributes, A,B, whose groups get exactly the release's counts.", show_default=False
    ),
    most_cells: int | None = MOST_CELLS,
    require_signature: Path | None = SIGNED,
    out: Path = typer.Option(
        ...,
        "-o",
        "--out",
        help="The file to write: .csv or .parquet; rows-{}.csv for several. Of linked tables: a folder.",
        show_default=False,
    ),
    seed: int | None = typer.Option(None, "--seed", help="The same seed draws the same rows.", show_default=False),
    tables: int | None = typer.Option(
        None, "--tables", help="How many tables of rows to draw, each by itself.", show_default=False
    ),
    quiet: bool = QUIET,
    verbose: bool = VERBOSE,
) -> None:
    """Draw synthetic rows from a release. Spends no budget: the release's own guarantee covers the rows."""
    from sfumato.cli.show import say, say_kept, working
    from sfumato.releases.file.artifact import is_linked
    from sfumato.releases.release import open_release
    from sfumato.releases.rows.condition import check_number
    from sfumato.releases.rows.write import check_place

    if is_linked(release):
        if where is not None or by is not None or tables is not None:
            raise QueryError("of linked tables all rows are drawn together; leave out --where, --by and --tables")
        _of_tables(open_release(release, most_cells=most_cells, require_signature=require_signature), rows, out, seed)
        return
    paths = _paths(out, tables)
    check_place(paths[0])
    if rows is not None:
        check_number(rows)
    with working("drawing rows") as step:
        step("opening the release")
        opened = open_release(release, most_cells=most_cells, require_signature=require_signature)
    attributes = [] if by is None else [name.strip() for name in by.split(",")]
    every = []
    for number, path in enumerate(paths, 1):
        with working("drawing rows") as step:
            step(f"{path.name}, {number} of {len(paths)}" if len(paths) > 1 else path.name)
            drawn = opened.sample_to(path, rows, where=where, by=attributes, seed=seed, table=number)
        say(f"{path}: {drawn.rows:,} synthetic rows, drawn from the release alone.")
        say_kept(drawn.kept)
        every.append(drawn.agreements)
    say()
    which = "the release's own answers" + (" about this condition" if where is not None else "")
    of_all = ", the means and the largest of all tables" if len(paths) > 1 else ""
    say(f"How far their shares are from {which}, beside what chance alone would do{of_all}:")
    _agreements(every)


def _of_tables(opened: Release, rows: int | None, out: Path, seed: int | None) -> None:
    """Draw the rows of linked tables into files of a folder, or of a name with {} for the table's."""
    from sfumato.cli.show import say, say_kept
    from sfumato.releases.file.artifact import keep_earlier
    from sfumato.releases.linked import Linked
    from sfumato.releases.rows.from_parts import draw_linked
    from sfumato.releases.rows.write import check_place, rows_file

    assert isinstance(opened, Linked)  # noqa: S101 (its file is one)
    pattern = out if "{}" in out.name else out / "{}.csv"
    if "{}" not in out.name:
        if out.exists() and not out.is_dir():
            raise QueryError(
                f"{out} is a file, and linked tables are several; name a folder, or -o {out.stem}-{{}}.csv"
            )
        if out.suffix in (".csv", ".parquet"):
            raise QueryError(f"linked tables are several files; write -o {out.stem}-{{}}{out.suffix}, or name a folder")
        out.mkdir(parents=True, exist_ok=True)
    names = [link.name for link in opened.links]
    if odd := [name for name in names if Path(name).name != name or name.startswith(".")]:
        raise QueryError(f"a table is called {odd[0]!r}, which cannot be a file's name; draw the rows in Python")
    paths = {name: pattern.with_name(pattern.name.replace("{}", name)) for name in names}
    for path in paths.values():
        check_place(path)
    drawn = draw_linked(opened.tables, opened.links, rows, seed)
    for name, one in drawn.items():
        with rows_file(paths[name], one.rows.schema) as write:
            for batch in one.rows.to_batches():
                write(batch)
            kept = keep_earlier(paths[name])
        say(f"{paths[name]}: {one.rows.num_rows:,} synthetic rows, drawn from the release alone.")
        say_kept(kept)
    say()
    say(
        "How far the shares of each table's rows are from the release's own answers, beside what chance alone would do:"
    )
    for name, one in drawn.items():
        say(f"{name}:")
        _agreements([one.agreements])


def _agreements(every: Sequence[Sequence[Agreement]]) -> None:
    """Print how far rows agree with a release, of one or several drawn tables."""
    from sfumato.cli.show import table

    headers = ["shares by", "tables", "mean", "by chance", "largest", "by chance"]
    lines = [
        [
            of_tables[0].of,
            str(of_tables[0].tables),
            *map(
                _percent,
                (
                    sum(one.mean for one in of_tables) / len(of_tables),
                    sum(one.mean_by_chance for one in of_tables) / len(of_tables),
                    max(one.largest for one in of_tables),
                    max(one.largest_by_chance for one in of_tables),
                ),
            ),
        ]
        for of_tables in zip(*every, strict=True)
    ]
    table(headers, lines, left=[0])


def _paths(out: Path, tables: int | None) -> list[Path]:
    """Files of the tables of rows: {} in the name stands for the number of each."""
    if tables is None:
        return [out]
    if not 1 <= tables <= MOST_TABLES:
        raise QueryError(f"--tables is a whole number from 1 to {MOST_TABLES:,}")
    if "{}" not in out.name:
        raise QueryError(f"{out.name} would be the name of {tables} tables; write -o {out.stem}-{{}}{out.suffix}")
    return [out.with_name(out.name.replace("{}", str(number))) for number in range(1, tables + 1)]


def _percent(share: float) -> str:
    return f"{100 * share:.3f} %"


# -- predict


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
