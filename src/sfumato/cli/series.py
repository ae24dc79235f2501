"""Commands `sfumato series`: list the parts of a series, take one out, and add one that lies beside it."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.ledger import LEDGER
from sfumato.cli.shared import JSON, MANNER, QUIET, give

app = typer.Typer()
FILE = typer.Argument(help="The file of the series, as --series made it.", show_default=False, metavar="SERIES")
PERIOD = typer.Option(..., "--period", help="The period, such as 2026-11.", show_default=False)


@app.command("list")
def list_parts(series: Path = FILE, quiet: bool = QUIET, as_json: bool = JSON) -> None:
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
    series: Path = FILE,
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
    series: Path = FILE,
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
