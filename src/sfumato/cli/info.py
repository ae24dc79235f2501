"""Command `sfumato info`: describe a release's columns, guarantee, rules of counting and typical errors."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.query import MOST_CELLS, RELEASE, SIGNED
from sfumato.cli.shared import JSON, give


def info(
    release: Path = RELEASE,
    confidence: float = typer.Option(
        0.95, "--confidence", help="The confidence of the typical intervals, between 0 and 1."
    ),
    most_cells: int | None = MOST_CELLS,
    require_signature: Path | None = SIGNED,
    as_json: bool = JSON,
) -> None:
    """Describe a release: its columns, guarantee, rules of counting and typical errors, with queries to try first."""
    from sfumato.releases.release import open_release

    opened = open_release(release, most_cells=most_cells, require_signature=require_signature)
    about = opened.describe(confidence=confidence)
    if as_json:
        give(about.to_dict())
        return
    from sfumato.cli.show import command, say, table
    from sfumato.releases.group_privacy import in_words
    from sfumato.schema.columns import HEADERS

    say(f": {about.extent}, mechanism {about.mechanism}, {about.promise}.", bold=about.schema.dataset)
    say(about.guarantee.statement)
    say(in_words(about.groups))
    say()
    table(HEADERS, about.column_rows, left=(0, 1, 2, 4))
    say()
    if about.counted:
        say("Counted by rule:")
        for rule in about.counted:
            say(f"  {rule}")
        say()
    say(f"Errors: {about.errors}.{' Typically:' * bool(about.typical)}")
    if about.typical:
        table(about.error_headers, about.typical_rows, left=(0,))
    say()
    if about.findings:
        say("Found:")
        for finding in about.findings:
            say(f"  {finding}")
        say()
    for place, example in enumerate(about.examples):
        say(f"{'Try: ' if place == 0 else '     '}{command('query', release, example)}")
