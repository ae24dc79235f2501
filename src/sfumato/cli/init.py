"""Command `sfumato init`: draft a schema from column names, types and the curator's answers on a terminal.

The questions are the type and bounds of each column, the privacy unit and the total budget.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli.shared import QUIET, Given, stated, takes_file_options

if TYPE_CHECKING:
    from sfumato.schema.draft import Answers


@takes_file_options
def init(
    table: str = typer.Argument(help="A path or glob, or a database URL with --table.", show_default=False),
    out: Path | None = typer.Option(None, "-o", "--out", help="Write the draft to this file instead of printing it."),
    name: str | None = typer.Option(None, "--table", help="The table's name inside a database."),
    no_questions: bool = typer.Option(False, "--no-questions", help="Ask no questions, even on a terminal."),
    quiet: bool = QUIET,
    file: Given = typer.Option({}),
) -> None:
    """Draft a schema from column names, types and your answers. Bounds and values are never read from the table."""
    from sfumato.cli.show import command, say, say_kept
    from sfumato.kernel.reading.table import open_table
    from sfumato.releases.file.artifact import write_text
    from sfumato.schema.draft import draft

    dataset = name or Path(table).name.split(".")[0].replace("*", "") or "table"
    with open_table(table, name=name, file=stated(table, file)) as opened:
        columns = opened.columns
    answers = None
    if not no_questions and sys.stdin.isatty() and sys.stdout.isatty():
        say("Enter takes what stands in brackets; nothing is read from the rows. --no-questions leaves all blank.")
        answers = asked(columns, lambda text, default: str(typer.prompt(text, default=default, show_default=False)))
    text = draft(dataset, columns, answers, {key: value for key, value in file.items() if value is not None})
    if out is None:
        typer.echo(text, nl=False)
        return
    kept = write_text(out, text)
    say_kept(kept)
    next_ = command("plan", "--schema", out, "--epsilon", "1")
    say(f"{out}: fill in the blanks, then see what a budget buys: {next_}")


Ask = Callable[[str, str], str]  # a question and the answer that Enter gives

_BOUNDS = {
    "integer": {"lower": "smallest value that the public knows", "upper": "largest"},
    "number": {"lower": "smallest value that the public knows", "upper": "largest", "bins": "how many cells"},
    "category": {"values": "values that the public knows, with commas between"},
    "boolean": {},
    "date": {
        "lower": "first day that the public knows, such as 2020-01-01",
        "upper": "last day",
        "by": "day, month or year",
    },
}


def asked(columns: Sequence[tuple[str, str | None]], ask: Ask) -> Answers:
    """Ask the curator at the terminal; an empty answer leaves a blank in the draft."""
    from sfumato.schema.draft import Answers, guessed_kind, suggested_units

    units = suggested_units(columns)
    said: dict[str, dict[str, str]] = {}
    for name, engine_type in columns:
        if name in units:
            continue
        kinds = ", ".join((*_BOUNDS, "skip"))
        kind = _one_of((*_BOUNDS, "skip"), f"{name}: {kinds}", guessed_kind(name, engine_type) or "skip", ask)
        said[name] = {"type": kind}
        for key, question in _BOUNDS.get(kind, {}).items():
            default = {"bins": "20", "by": "day"}.get(key, "")
            answer = ask(f"  {question} (Enter: {default or 'later'})", default).strip()
            said[name][key] = _listed(answer) if key == "values" and answer else answer
    names = [name for name, _ in columns]
    unit = _one_of(
        ("row", *names), "Whose presence is hidden: row, or the column that says who", (*units, "row")[0], ask
    )
    if unit != "row":
        most = _one_of(None, f"  how many rows of each {unit} are used", "1", ask)
        unit = f"{{column: {_spelled(unit)}, contributions: {most}}}"
    return Answers(unit, said, _epsilon(ask))


def _epsilon(ask: Ask) -> str:
    """Ask for the total epsilon, which a release requires; an empty answer leaves a blank."""
    from sfumato.errors import BudgetError
    from sfumato.kernel.budget import as_epsilon

    while answer := ask("Epsilon that may ever be spent on it, by all releases together (Enter: later)", "").strip():
        try:
            as_epsilon(answer)
        except BudgetError:
            continue
        return answer
    return ""


def _one_of(choices: Sequence[str] | None, question: str, default: str, ask: Ask) -> str:
    """Ask until the answer is usable: one of the choices, or a whole number from 1 where there are none."""
    while True:
        answer = ask(f"{question} (Enter: {default})", default).strip() or default
        if answer in choices if choices is not None else answer.isdecimal() and int(answer) > 0:
            return answer


def _listed(answer: str) -> str:
    return f"[{', '.join(_spelled(part.strip()) for part in answer.split(',') if part.strip())}]"


def _spelled(text: str) -> str:
    """Quote a text, if it must be, so that YAML reads it back."""
    import yaml

    try:
        plain = float(text)
    except ValueError:
        plain = None
    if plain is not None and text == text.strip():
        return text  # a number is meant as one
    flow: str = yaml.safe_dump([text], default_flow_style=True, allow_unicode=True, width=2**31)
    return flow.strip()[1:-1]
