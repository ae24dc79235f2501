"""Report sections on accuracy, rules of counting, limits, published models, how to query, and the certificate."""

from __future__ import annotations

import json
from shlex import quote
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.public.certificate.record import facts_of
from sfumato.public.report.markup import Inside, Markup, code, folded, listed, part, result_table, table, tag
from sfumato.releases.contents.content import Content
from sfumato.schema.columns import columns_of

if TYPE_CHECKING:
    from sfumato.public.certificate.record import Certificate
    from sfumato.releases.description import Description
    from sfumato.releases.release import Release


def trust(release: Release, about: Description) -> Markup:
    """Section on accuracy: typical errors, where they come from, and which intervals there are."""
    shown = table(about.error_headers, about.typical_rows, numbers=(1,)) if about.typical else None
    if _has_guaranteed(release):
        kinds: list[Inside] = [
            "Two kinds of intervals can be asked for: typical ones, right on average over questions, and guaranteed ",
            "ones (",
            tag("code", "--interval guaranteed"),
            "), which hold for every table and every question.",
        ]
    else:
        kinds = ["Intervals are typical ones: right on average over questions. This release has no guaranteed ones."]
    many = [
        "At 95 %, about one interval in twenty does not hold the truth. Who picks the most striking of many numbers "
        "should ask for intervals that hold for all of them together (",
        tag("code", "--simultaneous"),
        ").",
    ]
    return part("trust", "How far to trust it", f"Errors: {about.errors}.", shown, tag("p", kinds), tag("p", many))


def limits(release: Release, about: Description) -> Markup:
    """Section on rules of counting, and on questions that this file cannot answer."""
    left = tag(
        "div",
        tag("h3", "Left out by rule"),
        tag("p", "From the public schema alone; how often a rule struck is private.", class_="soft"),
        listed(about.counted) or tag("p", "Nothing."),
    )
    right = tag(
        "div",
        tag("h3", "What it cannot tell"),
        tag("p", "Whatever is asked of it.", class_="soft"),
        listed(cannot(release)),
    )
    return part("limits", "What it leaves out", None, tag("div", left, right, class_="two"))


def cannot(release: Release) -> list[str]:
    """List questions that this release has no answer to, by its content."""
    schema, content = release.schema, release.content
    columns = columns_of(schema)
    found = [
        "Anything about one person: that is what the noise is for.",
        "Columns that the schema does not name. It names "
        f"{', '.join(one.name for one in columns[:30])}{' and others' * (len(columns) > 30)}.",
    ]
    listless = [axis for axis in schema.domain if not axis.values]
    binned = [axis.name for axis in listless if axis.kind == "number" or axis.places < axis.edges[-1] - axis.edges[0]]
    if binned:
        found.append(
            f"Anything finer than a cell of {', '.join(binned[:12])}: a condition inside a bin is answered by its "
            "share, and the interval allows for it."
        )
    if not content.answers_counts:
        found.append("Counts by any attributes you like: it answers the questions it was made for.")
    elif schema.measures:
        found.append(f"Sums and averages of columns other than {', '.join(schema.measures)}, but for middles of cells.")
    else:
        found.append("Sums and averages of amounts, but for middles of cells: no measure was published.")
    if content.threshold is not None:
        found.append(f"Which cells hold few rows: none with a noisy count under {content.threshold:,} was published.")
    if not _draws_rows(content):
        found.append("Synthetic rows: there is nothing to draw them from.")
    found.append("What changed after it was made. A new release costs new budget.")
    return found


def _draws_rows(content: Content) -> bool:
    try:
        return content.row_model is not None
    except SfumatoError:
        return False


def _has_guaranteed(release: Release) -> bool:
    try:
        release.query("SELECT COUNT(*) FROM release", interval="guaranteed")
    except SfumatoError:
        return False
    return True


MOST_ROWS = 12
MOST_EXAMPLES = 5


def findings(release: Release, about: Description) -> Markup | None:
    """Section on a published model: its findings, a sentence each, and example queries if it answers no counts."""
    own = not release.content.answers_counts
    if not about.findings and not own:
        return None
    said = f"It holds {about.extent}."
    found = listed(f"{one}." for one in about.findings)
    return part("findings", "What it holds", said, found, _answered(release, about) if own else None)


def ask(release: Release, about: Description, file: str) -> Markup:
    """Section on how to query: commands, Python, and example queries with their answers."""
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
    """Example queries, and the release's answers."""
    found = []
    for text in about.examples[:MOST_EXAMPLES]:
        try:
            found += [code([text]), result_table(release.query(text), MOST_ROWS)]
        except SfumatoError:
            continue
    return found


def _quoted(sql: str) -> str:
    """Quote a statement for a shell: in double quotes where nothing in it would be expanded there."""
    return quote(sql) if set(sql) & set('"$`\\!') else f'"{sql}"'


def _literal(sql: str) -> str:
    """Quote a statement for Python, in double quotes where it has none."""
    return repr(sql) if '"' in sql or "\\" in sql else f'"{sql}"'


def certified(found: Certificate) -> Markup:
    """Section on the certificate: what can be checked, and the record for programs."""
    record = json.dumps(found.to_dict(), indent=2, ensure_ascii=True).split("\n")
    about = [
        "What the file itself says, checked in every byte. ",
        tag("code", "sfumato certificate"),
        " prints it for programs.",
    ]
    rows = [list(fact) for fact in facts_of(found)]
    return part(
        "certificate", "Certificate", about, table(["", ""], rows, kind="hash"), folded("As JSON", code(record))
    )
