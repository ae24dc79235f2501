"""Command `sfumato combine`: fuse releases of one table into one file, or add up those of disjoint tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli.query import MOST_CELLS
from sfumato.cli.shared import JSON, MANNER, QUIET

if TYPE_CHECKING:
    from sfumato.releases.file.manifest import Guarantee

FILES = typer.Argument(help="Release files, two or more.", show_default=False)
OUT = typer.Option(..., "-o", "--out", help="The release file to write.", show_default=False)
DISJOINT = typer.Option(
    False, "--disjoint", help="They are of tables without a common row, such as two offices': counts add up."
)


def combine(
    files: list[Path] = FILES,
    out: Path = OUT,
    disjoint: bool = DISJOINT,
    most_cells: int | None = MOST_CELLS,
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Fuse releases of one table into one with smaller errors than each. Reads no table and spends nothing."""
    from sfumato.cli.show import say, say_kept, working
    from sfumato.public.combination.combine import combine_into
    from sfumato.releases.parts import parts_in

    with working("opening the releases"):
        made, kept = combine_into(files, out, disjoint=disjoint, most_cells=most_cells)
    number = len(parts_in(made.receipt))
    if MANNER.json:
        from sfumato.cli.ledger import of_guarantee
        from sfumato.cli.shared import give

        give(
            {"combined": str(out), "releases": number, "disjoint": disjoint, "guarantee": of_guarantee(made.guarantee)}
        )
        return
    say(f": {made.content.about.extent}, of {number} releases by {made.mechanism}.", bold=str(out))
    say(made.guarantee.statement)
    say(tell_cost(made.guarantee, disjoint=disjoint, by_row=made.schema.privacy_unit.column is None))
    say_kept(kept)


def tell_cost(promise: Guarantee, *, disjoint: bool, by_row: bool) -> str:
    """Sentence on how the costs of the parts became that of the whole."""
    from sfumato.cli.show import exact

    amounts = f"epsilon {exact(promise.epsilon)}"
    if promise.delta:
        amounts += f" at delta {exact(promise.delta)}, rho {exact(promise.rho)}"
    if not disjoint:
        return f"Guarantee: {amounts}, what the ledger counts for all of them together. Nothing more was spent."
    if by_row:
        return f"Guarantee: {amounts}, the largest of the tables' costs, since a row lies in one of them."
    return f"Guarantee: {amounts}, the costs of all tables together, since one person may have rows in several."
