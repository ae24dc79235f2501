"""What the release holds besides counts, and how to ask it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.reports.markup import Markup, tag
from sfumato.reports.sections.pieces import listed, part, result_table

if TYPE_CHECKING:
    from sfumato.releases.description.description import Description
    from sfumato.releases.release import Release

MOST_ROWS = 12
MOST_EXAMPLES = 5


def findings(about: Description) -> Markup | None:
    """What a model that is published has learnt, a sentence each."""
    if not about.findings:
        return None
    said = "What this release was made to find out."
    return part("findings", "What it holds", said, listed(f"{one[:1].upper()}{one[1:]}." for one in about.findings))


def ask(release: Release, about: Description, file: str) -> Markup:
    """Commands, Python, and questions with their answers."""
    first = about.examples[0] if about.examples else f"SELECT COUNT(*) FROM {release.schema.dataset}"
    shell = f'sfumato query {file} "{first}"\nsfumato info {file}'
    python = f"import sfumato as sf\n\nrelease = sf.open({file!r})\nrelease.query({first!r})"
    answered = []
    for text in about.examples[:MOST_EXAMPLES]:
        try:
            found = release.query(text)
        except SfumatoError:
            continue
        answered += [tag("pre", tag("code", text)), result_table(found, MOST_ROWS)]
    return part(
        "ask",
        "Ask it yourself",
        "In SQL or Python, as often as you like: no budget is spent, and nobody hears what you ask.",
        tag(
            "div",
            tag("div", tag("h3", "On a terminal"), tag("pre", tag("code", shell))),
            tag("div", tag("h3", "In Python"), tag("pre", tag("code", python))),
            class_="two",
        ),
        [tag("h3", "Questions, with this release's answers"), *answered] if answered else None,
    )


def file_name(path: Path) -> str:
    """The file as a command names it, quoted where a shell needs it."""
    from shlex import quote

    return quote(path.name)
