"""Command `sfumato sample`: draw synthetic rows from a release."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.query import MOST_CELLS, SIGNED
from sfumato.cli.shared import QUIET
from sfumato.errors import QueryError

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
        ..., "-o", "--out", help="The file to write: .csv or .parquet; rows-{}.csv for several.", show_default=False
    ),
    seed: int | None = typer.Option(None, "--seed", help="The same seed draws the same rows.", show_default=False),
    tables: int | None = typer.Option(
        None, "--tables", help="How many tables of rows to draw, each by itself.", show_default=False
    ),
    quiet: bool = QUIET,
) -> None:
    """Draw synthetic rows from a release. Spends no budget: the release's own guarantee covers the rows."""
    from sfumato.cli.show import say, say_kept, table
    from sfumato.releases.release import open_release
    from sfumato.releases.rows.wish import check_number
    from sfumato.releases.rows.write import check_place

    paths = _paths(out, tables)
    check_place(paths[0])
    if rows is not None:
        check_number(rows)
    opened = open_release(release, most_cells=most_cells, require_signature=require_signature)
    attributes = [] if by is None else [name.strip() for name in by.split(",")]
    every = []
    for number, path in enumerate(paths, 1):
        drawn = opened.sample_to(path, rows, where=where, by=attributes, seed=seed, table=number)
        say(f"{path}: {drawn.rows:,} synthetic rows, drawn from the release alone.")
        say_kept(drawn.kept)
        every.append(drawn.agreements)
    say()
    which = "the release's own answers" + (" about this condition" if where is not None else "")
    of_all = ", the means and the largest of all tables" if len(paths) > 1 else ""
    say(f"How far their shares are from {which}, beside what chance alone would do{of_all}:")
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
