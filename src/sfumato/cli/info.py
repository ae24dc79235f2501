"""Command `sfumato info`: describe a release's columns, guarantee, rules of counting and typical errors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli.query import MOST_CELLS, RELEASE, SIGNED
from sfumato.cli.shared import JSON, MANNER, give

if TYPE_CHECKING:
    from sfumato.releases.description import Description
    from sfumato.releases.release import Release


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
    from sfumato.releases.file.artifact import is_linked
    from sfumato.releases.release import open_release

    opened = open_release(release, most_cells=most_cells, require_signature=require_signature)
    if is_linked(release):
        _of_tables(opened, release, confidence)
        return
    about = opened.describe(confidence=confidence)
    if as_json:
        give(about.to_dict())
        return
    from sfumato.cli.show import say
    from sfumato.releases.group_privacy import in_words

    say(f": {about.extent}, mechanism {about.mechanism}, {about.promise}.", bold=about.schema.dataset)
    say(about.guarantee.statement)
    say(in_words(about.groups))
    say()
    _say(about, release)


def _of_tables(opened: Release, release: Path, confidence: float) -> None:
    """Describe linked tables: what they promise together and how they are linked, then each table."""
    from sfumato.cli.show import say, table
    from sfumato.releases.group_privacy import group_privacy, in_words
    from sfumato.releases.linked import Linked

    assert isinstance(opened, Linked)  # noqa: S101 (its file is one)
    every = {name: one.describe(confidence=confidence) for name, one in opened.tables.items()}
    promised, links = opened.guarantee, opened.query("SHOW TABLES")
    if MANNER.json:
        told = {name: about.to_dict() for name, about in every.items()}
        give(
            {"dataset": opened.schema.dataset, "guarantee": promised.record(), "links": links.records(), "tables": told}
        )
        return
    say(f": {len(every)} linked tables, epsilon {float(promised.epsilon):g}.", bold=opened.schema.dataset)
    say(promised.statement)
    say(in_words(group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho)))
    say()
    table(*links.texts(), left=range(len(links.columns)))
    for about in every.values():
        say()
        say(f": {about.extent}, mechanism {about.mechanism}, {about.promise}.", bold=about.schema.dataset)
        _say(about, release)


def _say(about: Description, release: Path) -> None:
    from sfumato.cli.show import command, say, table
    from sfumato.schema.columns import HEADERS

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
