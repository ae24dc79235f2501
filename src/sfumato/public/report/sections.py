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
from sfumato.public.report.markup import (
    Inside,
    Markup,
    code,
    folded,
    joined,
    listed,
    name_of,
    part,
    result_table,
    said,
    table,
    tag,
    told,
)
from sfumato.public.report.pictures import scale, with_error
from sfumato.public.report.tongue import figure, figures, many, retold, share, t
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
    counted: Inside = None
    if rows is not None:
        which = None if periods is None else [" (", told(periods), ")"]
        counted = said("It counts {0} rows{1}.", tag("b", with_error(rows)), which)
    behind = (
        t("The table behind it was measured once, with noise, and can now be asked for ever.")
        if periods is None
        else t("The table of each period was measured once, with noise, and can now be asked for ever.")
    )
    lede = tag("p", counted, " " if counted else None, behind, " ", _bounded(release, odds), class_="lede")
    links = [tag("li", tag("a", t(PARTS[one]), href=f"#{one}")) for one in parts]
    return tag(
        "header",
        tag("p", t("A differentially private release"), class_="over"),
        tag("h1", name_of(release.schema.dataset)),
        None if release.private else tag("p", t(NOT_PRIVATE), class_="warning"),
        lede,
        tag(
            "dl",
            [tag("div", tag("dt", name), tag("dd", value)) for name, value in _facts(release, about)],
            class_="facts",
        ),
        tag("nav", tag("ul", links), aria_label=t("Parts of this page")),
    )


def _bounded(release: Release, odds: tuple[Odds, ...]) -> Inside:
    """Sentence on how often a guess about one person is right at most; or that nothing protects exact counts."""
    if release.schema.invariants:
        said_first = f"Exact counts of {release.schema.exact_counts} are in it too, and nothing protects these."
        return tag("b", told(said_first))
    return t(
        "How much that gives away about any one in it is bounded: a guess whether they are in the table is right at "
        "most about {0} times of 100, where a coin is right 50 times.",
        odds[0].of_hundred,
    )


def _facts(release: Release, about: Description) -> list[tuple[str, Markup | str]]:
    promised, schema = release.guarantee, release.schema
    epsilon = readable(promised.epsilon)
    amount = f"ε\u00a0{figures(epsilon) if len(epsilon) < 9 else figure(float(promised.epsilon), '.4g')}"
    amount += f", δ\u00a0{figure(float(promised.delta), '.2g')}".replace("e-0", "e-") if promised.delta else ""
    unit, series = schema.privacy_unit.column, release.content.table_schema.series
    within = None if series is None else [" ", told(series.unit.partition(" ")[2])]
    if schema.invariants:
        within = [within, ", ", told("but not in exact counts")]
    one = t("any one row") if unit is None else said("any one {0}", name_of(unit))
    holds = many(len(schema.attributes), "1 attribute", "{0} attributes")
    holds += f", {many(len(schema.measures), '1 measure', '{0} measures')}" if schema.measures else ""
    facts: list[tuple[str, Markup | str]] = [
        (t("Privacy"), amount),
        (t("Protects"), tag("span", one, within)),
        (t("Holds"), holds),
        (t("Made by"), name_of(release.mechanism)),
    ]
    known = [one for one in about.typical if one.half_width is not None]
    if known:
        middle = known[min(1, len(known) - 1)]
        facts.append((t("Typical error"), f"± {t('{0} rows', figures(as_rows(middle.half_width or 0.0)))}"))
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
        return part(
            "promise", t("What it promises"), told(promised.statement), tag("p", told(in_words(groups, exact=True)))
        )
    known = (
        t("Somebody knows the whole table but for one thing: whether one row is in it.")
        if unit.column is None
        else said(
            "Somebody knows the whole table but for one thing: whether the rows of one {0} are in it.",
            name_of(unit.column),
        )
    )
    right = odds[0].right
    first = tag(
        "div",
        tag("p", f"{odds[0].of_hundred}", tag("small", " ", t("of 100")), class_="big"),
        tag(
            "p",
            known,
            " ",
            t(
                "To them that is as likely as not. Before they see this file they guess right 50 times of 100; with "
                "it, at most about {0} times.",
                odds[0].of_hundred,
            ),
        ),
        tag("p", t(WEAK), class_="warning") if right >= LITTLE else None,
        _aside(release),
    )
    lines = []
    for one in odds:
        people = t(TOGETHER[one.people])
        drawn = scale(f"odds-{one.people}", one.right, t("{0}: right at most {1} of 100", people, one.of_hundred))
        lines.append(tag("li", tag("span", people), drawn, tag("b", figures(as_chance(one.right)))))
    second = tag(
        "div",
        tag("h3", t("For families")),
        tag(
            "p",
            t("Who is left out together is easier to notice. How often a guess about all of them can be right:"),
            class_="soft",
        ),
        tag("ul", lines, class_="families"),
        _beliefs(release),
    )
    return part("promise", t("What it promises"), told(promised.statement), tag("div", first, second, class_="odds"))


def _aside(release: Release) -> Markup | None:
    promised, unit = release.guarantee, release.schema.privacy_unit
    if unit.column is None:
        about = said("The promise is about single rows: somebody with several rows is like a family of as many.")
    elif unit.contributions > 1:
        words = "All rows of one {0} are covered together; at most {1} of them were counted."
        about = said(words, name_of(unit.column), figure(unit.contributions))
    else:
        words = "All rows of one {0} are covered together; at most one of them was counted."
        about = said(words, name_of(unit.column))
    noise = None
    if promised.rho is not None:
        noise = t(
            "The noise is Gaussian. It promises rho {0} of zero-concentrated privacy, of which epsilon {1} with delta "
            "{2} is one summary; the odds follow from all of it.",
            figure(float(promised.rho), ".3g"),
            figure(float(promised.epsilon), ".3g"),
            figure(float(promised.delta), ".2g"),
        )
    return tag("p", about, " " if noise else None, noise, class_="soft")


def _beliefs(release: Release) -> Markup | None:
    """Posterior beliefs from priors other than one half; under pure epsilon the bounds always hold."""
    promised = release.guarantee
    if promised.rho is not None:
        return None
    rows = []
    for before in BELIEFS:
        ends = beliefs_after(before, promised.epsilon)
        rows.append([share(before), *(figures(as_chance(end)) for end in ends)])
    words = t("Whoever thought otherwise of one beforehand may change their mind this far, and no further:")
    headers = [t("chance before"), t("at least"), t("at most")]
    return tag("div", tag("p", words, class_="soft"), table(headers, rows, numbers=(0, 1, 2)), class_="beliefs")


# -- accuracy, limits, questions


def trust(release: Release, about: Description) -> Markup:
    """Section on accuracy: typical errors, where they come from, and which intervals there are."""
    rows = [[_part_of(cell) for cell in row] for row in about.typical_rows]
    headers = [t("counts of"), t("{0} interval", share(about.confidence))]
    shown = table(headers, rows, numbers=(1,)) if about.typical else None
    if _has_guaranteed(release):
        kinds = said(
            "Two kinds of intervals can be asked for: typical ones, right on average over questions, and guaranteed "
            "ones ({0}), which hold for every table and every question.",
            tag("code", "--interval guaranteed"),
        )
    else:
        kinds = said(
            "Intervals are typical ones: right on average over questions. This release has no guaranteed ones."
        )
    striking = said(
        "At 95 %, about one interval in twenty does not hold the truth. Who picks the most striking of many numbers "
        "should ask for intervals that hold for all of them together ({0}).",
        tag("code", "--simultaneous"),
    )
    errors = said("Errors: {0}.", told(about.errors))
    return part("trust", t("How far to trust it"), errors, shown, tag("p", kinds), tag("p", striking))


def _part_of(cell: str) -> str:
    """Translate a cell of the table of typical errors: a kind of count, or the size of its error."""
    return retold(cell) or t(figures(cell))


def limits(release: Release, about: Description) -> Markup:
    """Section on rules of counting, and on questions that this file cannot answer."""
    left = tag(
        "div",
        tag("h3", t("Left out by rule")),
        tag("p", t("From the public schema alone; how often a rule struck is private."), class_="soft"),
        listed(map(told, about.counted)) or tag("p", t("Nothing.")),
    )
    right = tag(
        "div",
        tag("h3", t("What it cannot tell")),
        tag("p", t("Whatever is asked of it."), class_="soft"),
        listed(cannot(release)),
    )
    return part("limits", t("What it leaves out"), None, tag("div", left, right, class_="two"))


def cannot(release: Release) -> list[str]:
    """List questions that this release has no answer to, by its content."""
    schema, content = release.schema, release.content
    columns = columns_of(schema)
    names = ", ".join(one.name for one in columns[:30])
    found = [
        *([] if schema.invariants else [t("Anything about one person: that is what the noise is for.")]),
        t("Columns that the schema does not name. It names {0} and others.", names)
        if len(columns) > 30
        else t("Columns that the schema does not name. It names {0}.", names),
    ]
    listless = [axis for axis in schema.domain if not axis.values]
    binned = [axis.name for axis in listless if axis.kind == "number" or axis.places < axis.edges[-1] - axis.edges[0]]
    if binned:
        found.append(
            t(
                "Anything finer than a cell of {0}: a condition inside a bin is answered by its share, and the "
                "interval allows for it.",
                ", ".join(binned[:12]),
            )
        )
    if not content.answers_counts:
        found.append(t("Counts by any attributes you like: it answers the questions it was made for."))
    elif schema.measures:
        listed_names = ", ".join(schema.measures)
        found.append(t("Sums and averages of columns other than {0}, but for middles of cells.", listed_names))
    else:
        found.append(t("Sums and averages of amounts, but for middles of cells: no measure was published."))
    if content.threshold is not None:
        words = "Which cells hold few rows: none with a noisy count under {0} was published."
        found.append(t(words, figure(content.threshold)))
    if not _draws_rows(content):
        found.append(t("Synthetic rows: there is nothing to draw them from."))
    found.append(t("What changed after it was made. A new release costs new budget."))
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
    extent = said("It holds {0}.", told(about.extent))
    found = listed([told(one), "."] for one in about.findings)
    return part("findings", t("What it holds"), extent, found, _answered(release, about) if own else None)


def ask(release: Release, about: Description, file: str) -> Markup:
    """Section on how to query: commands, Python, and example queries with their answers."""
    first = about.examples[0] if about.examples else f"SELECT COUNT(*) FROM {release.schema.dataset}"
    shell = [f"sfumato info {quote(file)}", f"sfumato query {quote(file)} {_quoted(first)}"]
    python = ["import sfumato as sf", "", f"release = sf.open({file!r})", f"release.query({_literal(first)})"]
    answered = _answered(release, about) if release.content.answers_counts else []
    return part(
        "ask",
        t("Ask it yourself"),
        t("In SQL or Python, as often as you like: no budget is spent, and nobody hears what you ask."),
        tag(
            "div",
            tag("div", tag("h3", t("On a terminal")), code(shell)),
            tag("div", tag("h3", t("In Python")), code(python)),
            class_="two",
        ),
        [tag("h3", t("Questions, with this release's answers"), class_="spaced"), *answered] if answered else None,
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


IN_WORDS = {  # facts of a certificate that are not names, hashes or amounts
    *("definition", "privacy unit", "neighbours", "rows of each unit", "mechanism", "noise", "holds", "total budget"),
    *("ledger", "bought before", "file", "signature", "parts", "NOT PRIVATE"),
}


def certified(found: Certificate) -> Markup:
    """Section on the certificate: what can be checked, and the record for programs."""
    record = json.dumps(found.to_dict(), indent=2, ensure_ascii=True).split("\n")
    about = said(
        "What the file itself says, checked in every byte. {0} prints it for programs.",
        tag("code", "sfumato certificate"),
    )
    facts = facts_of(found)
    rows = [[retold(name) or name, joined(told(value)) if name in IN_WORDS else value] for name, value in facts]
    shown = table(["", ""], rows, kind="hash")
    return part("certificate", t("Certificate"), about, shown, folded(t("As JSON"), code(record)))
