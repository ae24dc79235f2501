"""Opening of the report: summary, guarantee in plain words, and the odds of a membership guess.

Report sections on accuracy, rules of counting, limits, published models, how to query, and the certificate.
"""

from __future__ import annotations

import json
from shlex import quote
from typing import TYPE_CHECKING

from sfumato.answers.results import Estimate
from sfumato.errors import SfumatoError
from sfumato.plain_text import as_rows, readable
from sfumato.public.certificate.record import facts_of
from sfumato.public.report.markup import Inside, Markup, code, folded, listed, name_of, part, result_table, table, tag
from sfumato.public.report.pictures import scale, with_error
from sfumato.releases.contents.content import Content
from sfumato.releases.group_privacy import Odds, as_chance, beliefs_after, group_privacy, in_words
from sfumato.schema.columns import columns_of

if TYPE_CHECKING:
    from sfumato.public.certificate.record import Certificate
    from sfumato.releases.description import Description
    from sfumato.releases.release import Release

BELIEFS = (0.01, 0.1, 0.5)

PARTS = {
    "promise": "What it promises",
    "reading": "What you may conclude",
    "attributes": "What it shows",
    "pairs": "What goes together",
    "findings": "What it holds",
    "trust": "How far to trust it",
    "limits": "What it leaves out",
    "ask": "Ask it yourself",
    "certificate": "Certificate",
}


def opening(
    release: Release, about: Description, odds: tuple[Odds, ...], parts: list[str], periods: str | None = None
) -> Markup:
    """Head of the page: a sentence and six facts. parts: the anchors of what is on the page. periods: of a series."""
    rows = _rows(release)
    of_periods = "" if periods is None else f" ({periods})"
    counted = ["It counts ", tag("b", with_error(rows)), f" rows{of_periods}. "] if rows is not None else []
    behind = "The table behind it" if periods is None else "The table of each period"
    lede = tag(
        "p",
        counted,
        f"{behind} was measured once, with noise, and can now be asked for ever. ",
        _bounded(release, odds),
        class_="lede",
    )
    links = [tag("li", tag("a", PARTS[one], href=f"#{one}")) for one in parts]
    return tag(
        "header",
        tag("p", "A differentially private release", class_="over"),
        tag("h1", name_of(release.schema.dataset)),
        None if release.private else tag("p", NOT_PRIVATE, class_="warning"),
        lede,
        tag(
            "dl",
            [tag("div", tag("dt", name), tag("dd", value)) for name, value in _facts(release, about)],
            class_="facts",
        ),
        tag("nav", tag("ul", links), aria_label="Parts of this page"),
    )


def _bounded(release: Release, odds: tuple[Odds, ...]) -> Markup | str:
    if release.schema.invariants:
        return tag("b", f"Exact counts of {release.schema.exact_counts} are in it too, and nothing protects these.")
    return (
        "How much that gives away about any one in it is bounded: a guess whether they are in the table is right at "
        f"most about {odds[0].of_hundred} times of 100, where a coin is right 50 times."
    )


def _facts(release: Release, about: Description) -> list[tuple[str, Markup | str]]:
    promised, schema = release.guarantee, release.schema
    epsilon = readable(promised.epsilon)
    amount = f"ε\u00a0{epsilon}" if len(epsilon) < 9 else f"ε\u00a0{float(promised.epsilon):.4g}"
    amount += f", δ\u00a0{float(promised.delta):.2g}".replace("e-0", "e-") if promised.delta else ""
    unit, series = schema.privacy_unit.column, release.content.table_schema.series
    within = "" if series is None else " " + series.unit.partition(" ")[2]
    within += ", but not in exact counts" * bool(schema.invariants)
    measures = f", {len(schema.measures)} measure{'s' * (len(schema.measures) != 1)}" if schema.measures else ""
    facts: list[tuple[str, Markup | str]] = [
        ("Privacy", amount),
        ("Protects", f"any one row{within}" if unit is None else tag("span", "any one ", name_of(unit), within)),
        ("Holds", f"{len(schema.attributes)} attribute{'s' * (len(schema.attributes) != 1)}{measures}"),
        ("Made by", name_of(release.mechanism)),
    ]
    known = [one for one in about.typical if one.half_width is not None]
    if known:
        middle = known[min(1, len(known) - 1)]
        facts.append(("Typical error", f"± {as_rows(middle.half_width or 0.0)} rows"))
    return facts


def _rows(release: Release) -> Estimate | None:
    try:
        cell = release.query("SELECT COUNT(*) FROM release").rows[0][0]
    except SfumatoError:
        return None
    return cell if isinstance(cell, Estimate) and cell.high < float("inf") else None


NOT_PRIVATE = "NOT PRIVATE: made with a testing generator, whose noise can be undone."
LITTLE = 0.95  # a promise under which guesses are right as often as this is called weak
WEAK = "That is a weak promise: an epsilon as large as this one leaves a determined guesser little to be wrong about."
TOGETHER = {1: "one alone", 2: "two", 3: "three", 4: "four"}


def promise(release: Release, odds: tuple[Odds, ...]) -> Markup:
    """Section on the guarantee: statement, odds for one, odds for families, and prior beliefs."""
    promised, unit = release.guarantee, release.schema.privacy_unit
    if release.schema.invariants:  # the odds below are about whether a row is in the table, which these may tell
        groups = group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho)
        return part("promise", "What it promises", promised.statement, tag("p", in_words(groups, exact=True)))
    whom = "one row is" if unit.column is None else f"the rows of one {unit.column} are"
    right = odds[0].right
    first = tag(
        "div",
        tag("p", f"{odds[0].of_hundred}", tag("small", " of 100"), class_="big"),
        tag(
            "p",
            f"Somebody knows the whole table but for one thing: whether {whom} in it, which to them is as likely as "
            "not. Before they see this file they guess right 50 times of 100; with it, at most about "
            f"{odds[0].of_hundred} times.",
        ),
        tag("p", WEAK, class_="warning") if right >= LITTLE else None,
        _aside(release),
    )
    lines = []
    for one in odds:
        words = f"{one.of_hundred} of 100"
        drawn = scale(f"odds-{one.people}", one.right, f"{TOGETHER[one.people]}: right at most {words}")
        lines.append(tag("li", tag("span", TOGETHER[one.people]), drawn, tag("b", as_chance(one.right))))
    second = tag(
        "div",
        tag("h3", "For families"),
        tag(
            "p",
            "Who is left out together is easier to notice. How often a guess about all of them can be right:",
            class_="soft",
        ),
        tag("ul", lines, class_="families"),
        _beliefs(release),
    )
    return part("promise", "What it promises", promised.statement, tag("div", first, second, class_="odds"))


def _aside(release: Release) -> Markup | None:
    promised, unit = release.guarantee, release.schema.privacy_unit
    if unit.column is None:
        said = "The promise is about single rows: somebody with several rows is like a family of as many."
    elif unit.contributions > 1:
        said = (
            f"All rows of one {unit.column} are covered together; at most {unit.contributions:,} of them were counted."
        )
    else:
        said = f"All rows of one {unit.column} are covered together; at most one of them was counted."
    if promised.rho is not None:
        said += (
            f" The noise is Gaussian. It promises rho {float(promised.rho):.3g} of zero-concentrated privacy, of which "
            f"epsilon {float(promised.epsilon):.3g} with delta {float(promised.delta):.2g} is one summary; the odds "
            "follow from all of it."
        )
    return tag("p", said, class_="soft")


def _beliefs(release: Release) -> Markup | None:
    """Posterior beliefs from priors other than one half; under pure epsilon the bounds always hold."""
    promised = release.guarantee
    if promised.rho is not None:
        return None
    rows = []
    for before in BELIEFS:
        ends = beliefs_after(before, promised.epsilon)
        rows.append([f"{before * 100:.3g} %", *map(as_chance, ends)])
    said = "Whoever thought otherwise of one beforehand may change their mind this far, and no further:"
    headers = ["chance before", "at least", "at most"]
    return tag("div", tag("p", said, class_="soft"), table(headers, rows, numbers=(0, 1, 2)), class_="beliefs")


# -- accuracy, limits, questions


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
        *([] if schema.invariants else ["Anything about one person: that is what the noise is for."]),
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
