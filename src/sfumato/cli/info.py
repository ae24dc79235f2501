"""sfumato info: what a release holds, what it promises, what was left out, how good it is, and what to ask it."""

from __future__ import annotations

from pathlib import Path

import typer

from sfumato.cli.query import MOST_CELLS, RELEASE


def info(
    release: Path = RELEASE,
    json: bool = typer.Option(False, "--json", help="Print one JSON object."),
    confidence: float = typer.Option(0.95, "--confidence", help="How sure the typical intervals are."),
    most_cells: int | None = MOST_CELLS,
) -> None:
    """Describe a release: columns, guarantee, what is counted by rule, typical errors, queries to begin with."""
    from sfumato.publishing.publish import open_release

    about = open_release(release, most_cells=most_cells).describe(confidence=confidence)
    if json:
        from sfumato.releases.answers.full_json import as_text

        typer.echo(as_text(about.to_dict()))
        return
    from shlex import quote

    from sfumato.cli.show import say, table
    from sfumato.schema.columns import HEADERS

    say(f": {about.extent}, mechanism {about.mechanism}, {about.promise}.", bold=about.schema.dataset)
    say(about.guarantee.statement)
    say()
    table(HEADERS, about.column_rows, left=(0, 1, 2, 4))
    say()
    if about.counted:
        say("Counted by rule:")
        for rule in about.counted:
            say(f"  {rule}")
        say()
    say(f"Errors: {about.errors}. Typically:")
    table(about.error_headers, about.typical_rows, left=(0,))
    say()
    for place, example in enumerate(about.examples):
        say(f"{'Try: ' if place == 0 else '     '}sfumato query {quote(str(release))} {_shell(example)}")


def _shell(sql: str) -> str:
    """A statement as an argument, in the quotes that read best."""
    from shlex import quote

    return f'"{sql}"' if not set('"$`\\!') & set(sql) else quote(sql)
