"""Commands about several releases: `compare`, `combine`, and `series`, which lists, takes out and adds parts.

`compare` shows the differences between two releases that noise does not explain; `combine` fuses releases of one table
into one file, or adds up those of disjoint tables.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli.ledger import LEDGER
from sfumato.cli.query import MOST_CELLS, SIGNED, TABLE, TO_FILE
from sfumato.cli.shared import ANSWER_ONLY, JSON, MANNER, QUIET, VERBOSE, give

if TYPE_CHECKING:
    from sfumato.releases.file.manifest import Guarantee

BEFORE = typer.Argument(help="A release file.", show_default=False)
AFTER = typer.Argument(
    help="Another release file. Differences are its numbers minus those of the first.", show_default=False
)
BY = typer.Option(
    [], "--by", metavar="ATTRIBUTE", help="Compare counts by this attribute. Repeat for a table of several."
)


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
    out: Path | None = TO_FILE,
    quiet: bool = ANSWER_ONLY,
    verbose: bool = VERBOSE,
) -> None:
    """Compare two releases, such as those of two years, and show the differences that noise cannot explain."""
    from sfumato.cli.show import say, say_kept, table, working
    from sfumato.public.comparison import LEFT, SHOWN
    from sfumato.public.comparison import compare as compare_releases
    from sfumato.releases.linked import one_table
    from sfumato.releases.release import open_release

    with working("comparing") as step:
        step("opening the releases")
        first, second = (
            one_table(open_release(one, most_cells=most_cells, require_signature=require_signature), of)
            for one in (before, after)
        )
        alike = before.stem == after.stem
        names = (f"{before} (before)", f"{after} (after)") if alike else (before.stem, after.stem)
        found = compare_releases(first, second, by=by, confidence=confidence, interval=interval, names=names, step=step)
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


# -- combine

FILES = typer.Argument(help="Release files, two or more.", show_default=False)
COMBINED = typer.Option(..., "-o", "--out", help="The release file to write.", show_default=False)
DISJOINT = typer.Option(
    False, "--disjoint", help="They are of tables without a common row, such as two offices': counts add up."
)


def combine(
    files: list[Path] = FILES,
    out: Path = COMBINED,
    disjoint: bool = DISJOINT,
    most_cells: int | None = MOST_CELLS,
    quiet: bool = QUIET,
    verbose: bool = VERBOSE,
    as_json: bool = JSON,
) -> None:
    """Fuse releases of one table into one with smaller errors than each. Reads no table and spends nothing."""
    from sfumato.cli.show import say, say_kept, working
    from sfumato.public.combination import combine_into
    from sfumato.releases.parts import parts_in

    with working("fusing the releases"):
        made, kept = combine_into(files, out, disjoint=disjoint, most_cells=most_cells)
    number = len(parts_in(made.receipt))
    if MANNER.json:
        from sfumato.cli.ledger import of_guarantee

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


# -- series

app = typer.Typer()
SERIES = typer.Argument(help="The file of the series, as --series made it.", show_default=False, metavar="SERIES")
PERIOD = typer.Option(..., "--period", help="The period, such as 2026-11.", show_default=False)


@app.command("list")
def list_parts(series: Path = SERIES, quiet: bool = QUIET, as_json: bool = JSON) -> None:
    """List the parts of a series in the order of publication, after checking every byte of them."""
    from sfumato.cli.show import exact, say, table
    from sfumato.releases.signature import checked_series, checked_signature, signed_parts

    opened = checked_series(series)
    last = opened.head.newest
    if MANNER.json:
        listed = [
            {
                "number": part.number,
                "period": part.period,
                "mechanism": part.mechanism,
                "epsilon": exact(part.epsilon),
                "delta": exact(part.delta),
                "bytes": part.bytes,
                "sha256": part.sha256,
                "chain": part.chain,
                "corrects": part.corrects,
                "answers": last[part.period] is part,
                "signed_by": None if (signature := checked_signature(part)) is None else signature.by,
            }
            for part in opened.head.parts
        ]
        give({"series": str(series), "dataset": opened.head.dataset, "digest": opened.digest, "parts": listed})
        return
    rows = [
        (
            str(part.number),
            part.period,
            part.mechanism,
            exact(part.epsilon) + (f", delta {exact(part.delta)}" if part.delta else ""),
            f"{part.bytes:,}",
            "corrected since" if last[part.period] is not part else "a correction" if part.corrects else "",
        )
        for part in opened.head.parts
    ]
    say(f": {len(rows)} parts of {opened.head.dataset}, {opened.series.unit}.", bold=str(series))
    table(("part", "period", "mechanism", "epsilon", "bytes", ""), rows, left=(1, 2, 3, 5))
    if signed := signed_parts(opened.head.parts):
        say(f"{signed[:1].upper()}{signed[1:]}.")


@app.command()
def extract(
    series: Path = SERIES,
    period: str = PERIOD,
    out: Path = typer.Option(..., "-o", "--out", help="The release file to write.", show_default=False),
    number: int | None = typer.Option(None, "--part", help="The number of a part that was corrected since."),
    quiet: bool = QUIET,
) -> None:
    """Write the part of one period to a file of its own: the release that was published then, byte for byte."""
    from sfumato.cli.show import command, say, say_kept
    from sfumato.releases.file.artifact import keep_earlier, replaced_when_written, write_text
    from sfumato.releases.series import extracted
    from sfumato.releases.signature import signature_beside

    body, signature = extracted(series, period, number)
    with replaced_when_written(out) as beside:
        beside.write_bytes(body)
        kept = keep_earlier(out)
    say(f": the part of {period}, a release by itself.", bold=str(out))
    say_kept(kept)
    if signature is not None:
        kept = write_text(signature_beside(out), signature.text)
        say(f"{signature_beside(out)}: its signature by {signature.by}.")
        say_kept(kept)
    say(f"Try: {command('info', out)}")


@app.command()
def add(
    series: Path = SERIES,
    part: Path = typer.Argument(help="The release file of one period.", show_default=False),
    period: str = PERIOD,
    correct: bool = typer.Option(False, "--correct", help="It takes the place of the part that the series has."),
    ledger: Path | None = LEDGER,
    quiet: bool = QUIET,
) -> None:
    """Add a release that was made already as the next part, such as one that an interrupted release left behind."""
    from sfumato.cli.show import say
    from sfumato.kernel.ledger.ledger import Ledger
    from sfumato.publishing.publish import add_part
    from sfumato.releases.signature import signature_beside

    marked = add_part(series, part, period, Ledger(ledger), correct=correct)
    say(f": has a part of {period} now.", bold=str(series))
    if marked:
        say(f"Entry {marked} of the ledger was reserved for it, and is marked as published now.")
    if part.name.startswith(series.name) and part.suffix == ".part":
        part.unlink()
        signature_beside(part).unlink(missing_ok=True)
