"""What the release holds besides counts, and how to ask it."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.public.report.markup import Markup, code, tag
from sfumato.public.report.sections.pieces import listed, part, result_table

if TYPE_CHECKING:
    from sfumato.releases.description.description import Description
    from sfumato.releases.release import Release

MOST_ROWS = 12
MOST_EXAMPLES = 5


def findings(release: Release, about: Description) -> Markup | None:
    """What a published model has learnt, a sentence each; and where counts have no answers, what does."""
    own = not release.content.answers_counts
    if not about.findings and not own:
        return None
    said = f"It holds {about.extent}."
    found = listed(f"{one}." for one in about.findings)
    return part("findings", "What it holds", said, found, _answered(release, about) if own else None)


def ask(release: Release, about: Description, file: str) -> Markup:
    """Commands, Python, and questions with their answers."""
    first = about.examples[0] if about.examples else f"SELECT COUNT(*) FROM {release.schema.dataset}"
    shell = [f"sfumato info {quote(file)}", f"sfumato query {quote(file)} {_quoted(first)}"]
    python = ["import sfumato as sf", "", f"release = sf.open({file!r})", f"release.query({_literal(first)})"]
    answered = _answered(release, about) if release.content.answers_counts else []
    return part(
        "ask",
        "Ask it yourself",
        "In SQL or Python, as often as you like: no budget is spent, and nobody hears what you ask.",
        tag(
            "div",
            tag("div", tag("h3", "On a terminal"), code(shell)),
            tag("div", tag("h3", "In Python"), code(python)),
            class_="two",
        ),
        [tag("h3", "Questions, with this release's answers", class_="spaced"), *answered] if answered else None,
    )


def _answered(release: Release, about: Description) -> list[Markup]:
    """The questions to begin with, and what the release says."""
    found = []
    for text in about.examples[:MOST_EXAMPLES]:
        try:
            found += [code([text]), result_table(release.query(text), MOST_ROWS)]
        except SfumatoError:
            continue
    return found


def _quoted(sql: str) -> str:
    """A statement for a shell: in double quotes where nothing in it would be looked at there."""
    return quote(sql) if set(sql) & set('"$`\\!') else f'"{sql}"'


def _literal(sql: str) -> str:
    """A statement for Python, in double quotes where it has none."""
    return repr(sql) if '"' in sql or "\\" in sql else f'"{sql}"'
