"""Command `sfumato check`: count what a schema would drop, clip or misread of a table; NOT PRIVATE, curator only."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli.shared import VERBOSE, Given, takes_file_options, written
from sfumato.plain_text import counted

if TYPE_CHECKING:
    from sfumato.kernel.reading.checking import Checked, Part
    from sfumato.schema import Schema
    from sfumato.schema.linked import LinkedSchema

MARK = "FOR YOUR EYES ONLY: exact figures and values of private rows. Do not publish, send or keep them."
WHY = (
    "Why: none of this is protected by noise. One exact count before and one after somebody joined tell whether "
    "they did, and no epsilon pays for it. Nothing was spent and nothing was written."
)


@takes_file_options
def check(
    table: str = typer.Argument(help="A path or glob, or a database URL with --table.", show_default=False),
    schema: Path = typer.Option(..., "--schema", help="The public schema (YAML).", show_default=False),
    name: str | None = typer.Option(None, "--table", help="The table's name inside a database."),
    allow_views: bool = typer.Option(False, "--allow-views", help="Allow a view in place of a table."),
    period: str | None = typer.Option(None, "--period", help="Of a series: look at the rows of this period alone."),
    even_if_not_a_terminal: bool = typer.Option(
        False, "--even-if-not-a-terminal", help="Allow exact private figures to go into a pipe or file."
    ),
    verbose: bool = VERBOSE,
    file: Given = typer.Option({}),
) -> None:
    """Count the rows and values that the schema would drop, clip or not read.

    The figures are exact and NOT PRIVATE: only the curator may see them.
    """
    from sfumato.cli.show import counting, load_any
    from sfumato.errors import TableError
    from sfumato.kernel.reading.engines import watched
    from sfumato.kernel.reading.table import open_table
    from sfumato.releases.file.manifest import check_description
    from sfumato.schema.linked import LinkedSchema

    if not sys.stdout.isatty() and not even_if_not_a_terminal:
        raise TableError(
            "a check shows exact private figures and is for a terminal only; if this pipe or file is as well guarded "
            "as the table, add --even-if-not-a-terminal"
        )
    found = load_any(schema)
    if isinstance(found, LinkedSchema):
        return _check_linked(table, found, allow_views=allow_views)
    public = written(found, file, table)
    check_description(public.published())
    with open_table(table, name=name, allow_views=allow_views, schema=public) as opened:
        label = _label(public, period)
        with counting("counting what would be left out") as tick, watched(lambda share: tick(f"{share:.0%}", share)):
            found_rows = opened.look(public, label)
        show(found_rows, public, label)


def _check_linked(table: str, linked: LinkedSchema, *, allow_views: bool) -> None:
    """Show what the schema of each linked table would drop, clip or not read."""
    from sfumato.cli.show import say
    from sfumato.publishing.linked import open_tables
    from sfumato.schema import PrivacyUnit

    for name, opened in open_tables(table, linked, allow_views=allow_views).items():
        own = linked.tables[name]
        what = "" if own.by is None else f", rows that hang on a row of {own.belongs_to} that counts"
        say(what, bold=name)
        unit = PrivacyUnit(column=own.unit or own.by, contributions=own.at_most)
        show(opened.look(own.schema), own.schema.model_copy(update={"privacy_unit": unit}))


def _label(schema: Schema, period: str | None) -> str | None:
    """The period as the schema writes it."""
    from sfumato.errors import SchemaError

    if period is not None and schema.series is None:
        raise SchemaError("a period is named, but the schema states no series; add `series`, or leave out --period")
    return None if period is None or schema.series is None else schema.series.label(period)


def _of_period(found: Checked, schema: Schema, period: str | None) -> str:
    """Describe which rows were looked at, of a table of a series."""
    series = schema.series
    if series is None:
        return ""
    if series.column is None:
        return f" The schema names no column of periods: a release of a {series.period} counts all of them."
    if period is None:
        return f" They are of all periods, by {series.column}; --period looks at one, as a release does."
    have = "has" if found.elsewhere == 1 else "have"
    others = counted(found.elsewhere, "row")
    return f" They are of {period}; {others} {have} another {series.column}, or none that can be read."


def show(found: Checked, schema: Schema, period: str | None = None) -> None:
    """Print the findings between marks that say what they are."""
    from sfumato.cli.show import say, table

    say(bold=MARK)
    say()
    if found.unfit:
        say(f"{counted(found.unfit, 'record')} could not be read as rows: other columns than the header, or malformed.")
    each = "" if schema.per_person is None else f", one of each {schema.privacy_unit.column}, made of all its rows"
    say(f"{counted(found.rows, 'row')} read{each}.{_of_period(found, schema, period)}")
    rows = [
        (part.name, part.kind, *(f"{n:,}" if n else "-" for n in (part.missing, part.unreadable, part.outside)), odd)
        for part in found.parts
        for odd in [f"{part.unlisted:,}" if part.unlisted else "-"]
    ]
    table(("column", "type", "missing", "unreadable", "out of bounds", "not listed"), rows, left=(0, 1))
    for part in found.parts:
        if part.odd:
            what = "not listed" if part.unlisted else "unreadable"
            spelled = ", ".join(f"{text!r} ({n:,})" for text, n in part.odd)
            say(f"{part.name}, {what}, the most frequent: {spelled}{_hint(part)}")
    if found.nobody:
        have = "has" if found.nobody == 1 else "have"
        say(f"{counted(found.nobody, 'row')} {have} no {schema.privacy_unit.column}.")
    for rule, rows_against in found.impossible:
        if rows_against:
            say(f"{counted(rows_against, 'row')} the schema calls impossible: {rule}.")
    reason = ", not listed or impossible" if found.impossible else " or not listed"
    left_out = counted(found.rows - found.placed, "row")
    say(f"Left out, for something that is missing, unreadable{reason}: {left_out}.")
    if schema.privacy_unit.column is not None:
        unit, most = schema.privacy_unit.column, schema.privacy_unit.contributions
        say(
            f"Of {counted(found.units, unit, '')} in the rest, {found.over:,} with more than {counted(most, 'row')}: "
            f"{counted(found.placed - found.counted, 'row')} over the limit not counted."
        )
    promise = None if schema.series is None else schema.series.promise
    if promise is None or promise.alone or promise.most is None:
        say(f"A release would count {counted(found.counted, 'row')}.")
    else:
        others = f"none of whoever was in {promise.most} others"
        say(f"A release would count at most {counted(found.counted, 'row')}: {others}.")
    if schema.known and (stated := round(schema.known[0].counts.sum())) != found.counted:
        say(f"The schema's facts say {counted(stated, 'row')}: {abs(stated - found.counted):,} off.")
    for name, many, value, stated, rows_found in found.against_facts:
        differ = f"{counted(many, 'value')} of the schema's facts on {name} {'differs' if many == 1 else 'differ'}"
        say(f"{differ}, most of all {value!r}: stated {stated:,}, found {rows_found:,}.")
    say()
    say(bold=MARK)
    say(WHY)


_NO_VALUES = r"n\.?\s*/?\s*a\.?|#n/a|k\.\s*a\.|keine angabe|[-–—.?*]+|null|none|nil|missing|unknown|-?9{1,4}"
_NUMBER = r"[+-]?\s*\d[\d.,'’ \u00a0]*"
_UNIT = r"[^\W\d_]{1,10}|[^\w\s+.,'-]{1,3}"
_WITH_UNIT = rf"\s*(?:[+-]?\s*(?P<before>{_UNIT})\s*{_NUMBER}|{_NUMBER}?(?P<after>{_UNIT}))\s*"


def _hint(part: Part) -> str:
    """Suggest a schema change by which unreadable values can be read, or count as missing."""
    texts = [text for text, _ in part.odd]
    hints = [_in_file("missing", [text.strip() for text in texts if re.fullmatch(_NO_VALUES, text.strip(), re.I)])]
    if part.unreadable and part.kind not in ("date", "boolean"):
        units = [found[1] or found[2] for text in texts if (found := re.fullmatch(_WITH_UNIT, text))]
        hints.append(_in_file("strip", units))
    return "".join(hints) + _hint_of_form(
        part, [text for text in texts if not re.fullmatch(_NO_VALUES, text.strip(), re.I)]
    )


def _in_file(key: str, words: list[str]) -> str:
    """Suggest a key of the schema's `file`, with words that were met."""
    if not words:
        return ""
    from sfumato.schema.codebooks import flow

    means = "stand for no value" if key == "missing" else "are units"
    return f"; if these {means}, write into the schema: file: {flow({key: list(dict.fromkeys(words))})}"


_TRUE, _FALSE = ("ja", "j", "oui", "si", "sì", "sí", "wahr", "vrai", "on"), ("nein", "non", "falsch", "faux", "off")


def _hint_of_form(part: Part, texts: list[str]) -> str:
    """Suggest how dates, numbers and truth values are written, from texts that stand for a value."""
    if not part.unreadable or not texts:
        return ""
    if part.kind == "date":
        return f"; if dates are written so, state the form, such as --dates {shlex.quote(_form(texts))}"
    if part.kind == "boolean":
        from sfumato.schema.codebooks import flow

        means = {text: text.strip().lower() in _TRUE for text in texts if text.strip().lower() in (*_TRUE, *_FALSE)}
        words = flow({"map": means or dict(zip(texts, (True, False), strict=False))})
        return f"; if these mean true and false, say which in the schema: {part.name.partition('.')[2]}: {words}"
    if any(re.search(r"\d[,' \u00a0]\d|\d\.\d+[.,]", text) for text in texts):
        english = all(re.search(r",\d{3}(\D|$)", text) for text in texts if "," in text)
        form = "--thousands ," if english and any("," in text for text in texts) else "--decimal , --thousands ."
        return f"; if numbers are written so, state it, such as {form}"
    return ""


def _form(texts: list[str]) -> str:
    """Guess the format of dates: American if some month would be beyond 12, with a time if they have one."""
    found = [match for text in texts if (match := re.match(r"(\d+)([./-])(\d+)\2(\d+)(.*)", text.strip()))]
    if not found:
        return "%d.%m.%Y"
    _, mark, _, last, rest = found[0].groups()
    american = any(int(match[3]) > 12 for match in found) or (mark == "/" and all(int(m[1]) <= 12 for m in found))
    day = mark.join(("%m", "%d") if american else ("%d", "%m")) + mark + ("%Y" if len(last) == 4 else "%y")
    clock = re.fullmatch(r"( |T)\d+:\d+(:\d+)?( ?[AaPp][Mm])?", rest)
    if len(found[0][1]) == 4 or clock is None:
        return day if len(found[0][1]) < 4 else f"%Y{mark}%m{mark}%d"
    blank, seconds, half = clock.groups()
    return f"{day}{blank}{'%I' if half else '%H'}:%M{':%S' if seconds else ''}{' %p' if half else ''}"
