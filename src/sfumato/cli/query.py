"""Command `sfumato query`: answer SELECT statements from a release.

Statements come from the command line, from stdin, or from a file of several.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli.shared import ANSWER_ONLY, MANNER, VERBOSE
from sfumato.errors import QueryError
from sfumato.frozen import dataclass

if TYPE_CHECKING:
    from sfumato.answers.results import Result
    from sfumato.releases.file.manifest import Guarantee

RELEASE = typer.Argument(help="A release file.", show_default=False)
SQL = typer.Argument(
    help="SELECT ... FROM the dataset's name, or FROM release. - reads it from stdin, @FILE reads several from a file.",
    show_default=False,
)
FORMAT = typer.Option(
    None,
    "--format",
    help="The format of the answer. Default: table, or what the file name of -o says.",
    show_default=False,
)
OUT = typer.Option(
    None, "-o", "--out", help="Write the answer to this file instead of printing it.", show_default=False
)
TO_FILE = typer.Option(None, "-o", "--out", help="Write to this file instead of printing.", show_default=False)
MOST_CELLS = typer.Option(
    None, "--most-cells", min=1, help="Open files of up to this many numbers. A refusal says how many it needs."
)
SIGNED = typer.Option(
    None,
    "--require-signature",
    metavar="KEY",
    help="Refuse a release that this public key did not sign.",
    show_default=False,
)
INTERVAL = typer.Option(
    "typical",
    "--interval",
    help="typical (right on average over questions), guaranteed (right for every table) or both.",
)
POSSIBLE = typer.Option(False, "--possible", help="Cut intervals to possible values: no count below 0.")
SIMULTANEOUS = typer.Option(False, "--simultaneous", help="Make intervals hold for all rows of the answer together.")
SELECTED = typer.Option(
    True, "--selected/--no-selected", help="Widen intervals of rows that noisy values chose (LIMIT, HAVING, ranks)."
)
TABLE = typer.Option(None, "--table", help="Of linked tables: the one that is meant.", show_default=False)
AS_OF = typer.Option(
    None,
    "--as-of",
    help="Of a series: answer from its parts up to this period, estimates leaning on each other.",
    show_default=False,
    metavar="PERIOD",
)
WITH = typer.Option(
    None,
    "--with",
    metavar="FILE",
    help="A small public CSV file that the statement may join, called as the file is: --with chapters.csv, "
    "JOIN chapters ON ... May be repeated.",
    show_default=False,
)
MAPS = typer.Option(
    [],
    "--map",
    metavar="COLUMN=FILE",
    help="Draw a map of a column: FILE has the public boundaries of its values, as GeoJSON. May be repeated.",
    show_default=False,
)
UNBIASED = typer.Option(False, "--unbiased", help="Answer from the noisy measurements alone, without a model.")
POPULATION = typer.Option(
    False, "--population", help="Make intervals about the population that the rows were drawn from: sampling and noise."
)


class Format(StrEnum):
    """Output format of an answer."""

    table = "table"
    csv = "csv"
    json = "json"
    json_full = "json-full"


def query(
    release: Path = RELEASE,
    sql: str = SQL,
    form: Format | None = FORMAT,
    confidence: float = typer.Option(0.95, "--confidence", help="The confidence of the intervals, between 0 and 1."),
    interval: str = INTERVAL,
    possible: bool = POSSIBLE,
    simultaneous: bool = SIMULTANEOUS,
    selected: bool = SELECTED,
    unbiased: bool = UNBIASED,
    population: bool = POPULATION,
    as_of: str | None = AS_OF,
    tables: list[Path] | None = WITH,
    most_cells: int | None = MOST_CELLS,
    require_signature: Path | None = SIGNED,
    strict: bool = typer.Option(False, "--strict", help="Refuse conditions that cut through a bin."),
    notes: bool = typer.Option(False, "--notes", help='Print all notes; in CSV as last lines that begin with "# ".'),
    out: Path | None = OUT,
    quiet: bool = ANSWER_ONLY,
    verbose: bool = VERBOSE,
) -> None:
    """Answer a SELECT from a release, with an error bar on every number. Reads no private data, spends no budget."""
    from sfumato.cli.show import working
    from sfumato.releases.release import open_release

    form = form or _form_of(out)
    asked = statements_in(sql)
    results = []
    with working("opening the release") as step:
        opened = open_release(release, most_cells=most_cells, require_signature=require_signature)
        for place, statement in enumerate(asked.texts):
            step("finding the answers and their errors")
            with asked.named(place):
                results.append(
                    opened.query(
                        statement,
                        confidence=confidence,
                        strict=strict,
                        interval=interval,
                        possible=possible,
                        simultaneous=simultaneous,
                        selected=selected,
                        unbiased=unbiased,
                        population=population,
                        as_of=as_of,
                        tables={path.name.partition(".")[0]: path for path in tables or ()},
                    )
                )
    answers = list(zip(asked.texts, results, strict=True))
    show = partial(_print, answers, form, opened.guarantee, many=asked.many, notes=notes)
    if out is None:
        show()
    else:
        page = io.StringIO()
        with redirect_stdout(page):
            show()
        _write(out, page.getvalue(), len(answers))
    if MANNER.notes and (form is Format.table or (form is Format.csv and not notes)):
        from sfumato.cli.show import say

        every = notes or form is Format.csv
        remarks = dict.fromkeys(line for one in results for line in (one.remarks if every else _in_short(one)))
        for remark in sorted(remarks, key=lambda remark: remark.startswith("counted")):
            say(remark, stderr=True)


def maps_in(stated: list[str]) -> dict[str, Path]:
    """Parse the files stated by --map, by column."""
    maps: dict[str, Path] = {}
    for one in stated:
        column, _, file = one.partition("=")
        if not column.strip() or not file.strip():
            raise QueryError(f"--map takes COLUMN=FILE such as region=regions.geojson, not {one!r}")
        if column.strip() in maps:
            raise QueryError(f"--map names {column.strip()} twice; one file has all boundaries of a column")
        maps[column.strip()] = Path(file.strip())
    return maps


def _in_short(result: Result) -> list[str]:
    """One line with the most important note of an answer and the number of the others."""
    first, *others = result.decisive or ("",)
    more = f" ({len(others)} more by --notes)" if others else ""
    return [f"note: {first}{more}"] if first else []


def _form_of(out: Path | None) -> Format:
    by_ending = {".csv": Format.csv, ".json": Format.json}
    return Format.table if out is None else by_ending.get(out.suffix.lower(), Format.table)


def _write(out: Path, page: str, many: int) -> None:
    from sfumato.cli.show import say, say_kept
    from sfumato.releases.file.artifact import write_text

    kept = write_text(out, page)
    if MANNER.notes:
        say(f"{out}: {'the answer' if many == 1 else f'the answers to {many} statements'}.")
        say_kept(kept)


def _print(answers: list[tuple[str, Result]], form: Format, promise: Guarantee, *, many: bool, notes: bool) -> None:
    """Print the answers, each under its statement if there may be several."""
    if form in (Format.json, Format.json_full):
        from sfumato.answers.results import as_full_json, as_json

        full = form is Format.json_full
        objects = [
            (text, as_full_json(one, promise.record()) if full else as_json(one.records())) for text, one in answers
        ]
        typer.echo(beside_their_statements(objects) if many else objects[0][1])
        return
    from sfumato.cli.show import say

    for place, (text, result) in enumerate(answers):
        if many:
            if place:
                say()
            say(("# " if form is Format.csv else "") + " ".join(text.split()), dim=True)
        if form is Format.csv:
            typer.echo(result.to_csv(notes=notes), nl=False)
        else:
            _print_table(result)


def _print_table(result: Result) -> None:
    from sfumato.answers.results import Estimate
    from sfumato.cli.show import table

    headers, rows = result.texts()
    first = result.rows[0] if result.rows else ()
    keys, place = [], 0
    for cell in first:
        keys += [] if isinstance(cell, Estimate) else [place]
        place += 3 + result.both if isinstance(cell, Estimate) else 1
    table(headers, rows, left=keys)


@dataclass(frozen=True)
class Statements:
    """Statements to answer. many: from a file of possibly several; then an answer goes with its statement."""

    texts: list[str]
    many: bool = False
    where: str = ""

    @contextmanager
    def named(self, place: int) -> Iterator[None]:
        """Name the statement that a refusal is about, where there are several."""
        try:
            yield
        except QueryError as problem:
            if not self.many:
                raise
            raise type(problem)(f"{self.where}, statement {place + 1} of {len(self.texts)}: {problem}") from None


def statements_in(given: str) -> Statements:
    """Read statements: the text itself; `-` for one from stdin; `@FILE` for a file's, `@-` for several from stdin."""
    if given == "-":
        return Statements([_stdin()])
    if not given.startswith("@"):
        return Statements([given])
    from sfumato.sql import read_workload

    name = given.removeprefix("@")
    texts = read_workload(_stdin() if name == "-" else _file(Path(name)))
    where = "stdin" if name == "-" else name
    if not texts:
        raise QueryError(f"{where} holds no query; write SELECT statements, separated by semicolons")
    return Statements(texts, many=True, where=where)


def _stdin() -> str:
    try:
        return sys.stdin.read()
    except ValueError:
        raise QueryError("stdin is no UTF-8 text; pass SELECT statements") from None


def _file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it is no UTF-8 text"
        raise QueryError(
            f"{path} cannot be read ({reason}); name a text file of SELECT statements", kind="file"
        ) from None


def beside_their_statements(answers: list[tuple[str, str]]) -> str:
    """Merge JSON answers with their statements, one object each: a list as "rows", an object as it is."""
    import json

    def joined(text: str, answer: str) -> str:
        return f'{{"sql": {json.dumps(text)},\n' + (f'"rows": {answer}}}' if answer.startswith("[") else answer[1:])

    return "[" + ",\n".join(joined(*one) for one in answers) + "]"
