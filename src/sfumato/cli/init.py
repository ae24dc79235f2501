"""Command `sfumato init`: draft a schema from column names, types and the curator's answers on a terminal.

The questions are the type and bounds of each column, the privacy unit and the total budget.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli.shared import QUIET, Given, stated, takes_file_options
from sfumato.errors import SchemaError, TableError

if TYPE_CHECKING:
    from sfumato.kernel.reading.table import Table
    from sfumato.schema.draft import Answers


@takes_file_options
def init(
    table: str = typer.Argument(help="A path or glob, or a database URL with --table.", show_default=False),
    out: Path | None = typer.Option(None, "-o", "--out", help="Write the draft to this file instead of printing it."),
    name: str | None = typer.Option(None, "--table", help="The table's name inside a database."),
    codebook: Path | None = typer.Option(
        None,
        "--codebook",
        help="A public list of columns and values: CSV, datapackage.json, DDI (.xml), SQL, SPSS or Stata.",
        show_default=False,
    ),
    from_declarations: bool = typer.Option(
        False, "--from-declarations", help="Take ENUM types and CHECK constraints from the database."
    ),
    unit: str | None = typer.Option(
        None, "--unit", help="Whose presence is hidden: row, or the column that says who.", show_default=False
    ),
    contributions: int = typer.Option(1, "--contributions", min=1, help="Rows of each person that are used."),
    epsilon: str | None = typer.Option(None, "--epsilon", help="The most that may ever be spent.", show_default=False),
    measures: str | None = typer.Option(
        None, "--measures", help="Columns to SUM and AVG, with commas between.", show_default=False
    ),
    no_questions: bool = typer.Option(False, "--no-questions", help="Ask no questions, even on a terminal."),
    quiet: bool = QUIET,
    file: Given = typer.Option({}),
) -> None:
    """Draft a schema from column names, types and your answers. Bounds and values are never read from the table.

    Beside a draft that is written to a file stands sfumato.schema.json, by which editors complete and check it.

    With --codebook they are taken from there: it must be public by itself, and not made from the table. The same
    goes for what a database declares (--from-declarations).
    """
    from sfumato.cli.schema import help_editors
    from sfumato.cli.show import command, say, say_kept
    from sfumato.kernel.reading.table import open_table
    from sfumato.releases.file.artifact import write_text
    from sfumato.schema.draft import Answers, draft

    dataset = name or Path(table).name.split(".")[0].replace("*", "") or "table"
    with open_table(table, name=name, file=stated(table, file)) as opened:
        columns = opened.columns
        declared = declared_by(opened, dataset) if from_declarations else {}
    written = {key: value for key, value in file.items() if value is not None}
    book = {} if codebook is None else described(codebook, dataset, columns, written)
    known = declared | book
    answers = Answers(columns=known)
    stated_answers = _stated(columns, unit, contributions, epsilon, measures)
    if not no_questions and sys.stdin.isatty() and sys.stdout.isatty():
        say("Enter takes what stands in brackets; nothing is read from the rows. --no-questions leaves all blank.")
        answers = asked(
            columns,
            lambda text, default: str(typer.prompt(text, default=default, show_default=False)),
            known,
            stated_answers,
        )
    answers = replace(
        answers, codebook=codebook.name if codebook else "", declared=declared.keys() - book, **stated_answers
    )
    text = draft(dataset, columns, answers, written)
    _refuse_unreadable(columns, text)
    if out is None:
        typer.echo(text, nl=False)
        return
    say_kept(write_text(out, text))
    help_editors(out)
    if codebook is not None:
        say(f"{len(book)} of {len(columns)} columns are as {codebook.name} describes them.")
    if from_declarations:
        say(f"{len(declared)} of {len(columns)} columns have a list or bounds in the database: are they public?")
    next_, blank = command("plan", "--schema", out, "--epsilon", "1"), _has_blanks(out)
    first = "fill in the blanks, then" if blank else "no blank is left;"
    say(f"{out}: {first} see what a budget buys: {next_}")
    if blank:
        look = command("discover", table, "--schema", out, "--epsilon", "0.2", "--delta", "1e-9", "--dry-run")
        say(f"What nobody knows in public can be bought from the table, for a part of the budget: {look}")
    if "column" in answers.unit:
        say("If questions are about people who have many rows, per_person makes one row of each (docs/schema.md).")


def _refuse_unreadable(columns: Sequence[tuple[str, str | None]], text: str) -> None:
    """Refuse a draft that could not be read as a schema, before anything is written."""
    from sfumato.schema.file import MOST_BYTES

    twice = [name for name, many in Counter(name for name, _ in columns).items() if many > 1]
    if twice:
        raise TableError(
            f"the table has {len(columns):,} columns, several of them called {twice[0]!r}; rename all but one"
        )
    if len(text.encode()) > MOST_BYTES:
        raise TableError(
            f"a draft for {len(columns):,} columns is larger than 1 MB, and no schema may be; make it from an extract "
            "or a view with the columns to publish"
        )


def _has_blanks(path: Path) -> bool:
    from sfumato.schema.file import read_yaml
    from sfumato.schema.remedies import blanks_of

    found = read_yaml(path) if path.is_file() else None
    return not isinstance(found, Mapping) or bool(blanks_of(found))


def _stated(
    columns: Sequence[tuple[str, str | None]],
    unit: str | None,
    contributions: int,
    epsilon: str | None,
    measures: str | None,
) -> dict[str, Any]:
    """Answers that options give, which are not asked for."""
    from sfumato.kernel.budget import as_epsilon

    names, found = [name for name, _ in columns], dict[str, Any]()
    wanted = [name.strip() for name in (measures or "").split(",") if name.strip()]
    unknown = [name for name in (*wanted, *([unit] if unit not in (None, "row") else [])) if name not in names]
    if unknown:
        raise SchemaError(f"the table has no column {unknown[0]!r}; it has {', '.join(names[:20])}")
    if unit is not None:
        found["unit"] = "row" if unit == "row" else _unit(unit, contributions)
    if epsilon is not None:
        as_epsilon(epsilon)
        found["budget"] = epsilon
    return {**found, "measures": wanted} if measures is not None else found


def _unit(column: str, contributions: int | str) -> str:
    return f"{{column: {_spelled(column)}, contributions: {contributions}}}"


def declared_by(table: Table, dataset: str) -> dict[str, dict[str, str]]:
    """Keys of the columns for which a database declares a list of values or bounds."""
    from sfumato.schema.codebooks import keys_of_columns
    from sfumato.schema.codebooks.plain_text import variables_in
    from sfumato.schema.draft import suggested_units

    text, dialect = table.declarations()
    known = keys_of_columns(variables_in(text, dataset, dialect), [name for name, _ in table.columns])
    people = suggested_units(table.columns)
    wanted = {name: {"values", "upper"} if name in people else {"values", "lower", "upper"} for name in known}
    return _binned({name: keys for name, keys in known.items() if wanted[name] & keys.keys()})


def _binned(known: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Keys of columns, with a number of bins for those that need one."""
    for keys in known.values():
        if keys["type"] == "number" and {"lower", "upper"} <= keys.keys():
            keys.setdefault("bins", BINS)
    return known


def described(
    codebook: Path, dataset: str, columns: Sequence[tuple[str, str | None]], file: dict[str, Any]
) -> dict[str, dict[str, str]]:
    """Keys of columns as a codebook has them; its codes for missing values are put into `file`, how files are read."""
    from sfumato.schema.codebooks import keys_of_columns, missing_words, read_codebook
    from sfumato.schema.draft import suggested_units

    variables, people = read_codebook(codebook, dataset), suggested_units(columns)
    names = [name for name, _ in columns]
    known = keys_of_columns(variables, names)
    for name in people:  # a household is a person's, unless it is described as a number of people, say
        if not {"values", "upper"} & known.get(name, {}).keys():
            known.pop(name, None)
    if not known:
        there, here = ", ".join(one.name for one in variables[:8]), ", ".join(names[:8])
        raise SchemaError(f"{codebook} describes {there}, and the table has {here}; name the same columns in both")
    if words := missing_words(variables, list(known)):
        file["missing"] = words
    return _binned(known)


BINS = "20"  # cells of a number, unless the curator says otherwise
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


def asked(
    columns: Sequence[tuple[str, str | None]],
    ask: Ask,
    known: Mapping[str, Mapping[str, str]] | None = None,
    stated: Mapping[str, Any] | None = None,
) -> Answers:
    """Ask the curator at the terminal; an empty answer leaves a blank in the draft.

    known, stated: what a codebook and options have said already, which is not asked for.
    """
    from sfumato.schema.draft import Answers, guessed_kind, suggested_units

    units = suggested_units(columns)
    said: dict[str, dict[str, str]] = {name: dict(keys) for name, keys in (known or {}).items()}
    for name, engine_type in columns:
        if name in units and name not in said:
            continue
        kinds = ", ".join((*_BOUNDS, "skip"))
        if name not in said:
            kind = _one_of((*_BOUNDS, "skip"), f"{name}: {kinds}", guessed_kind(name, engine_type) or "skip", ask)
            said[name] = {"type": kind}
        missing = [(key, text) for key, text in _BOUNDS.get(said[name]["type"], {}).items() if key not in said[name]]
        of = f" of {name}" if name in (known or {}) else ""  # its name was not asked about just before
        for key, question in missing:
            default = {"bins": BINS, "by": "day"}.get(key, "")
            answer = ask(f"  {question}{of} (Enter: {default or 'later'})", default).strip()
            said[name][key] = _listed(answer) if key == "values" and answer else answer
    names = [name for name, _ in columns]
    stated = stated or {}
    numbers = [name for name in names if said.get(name, {}).get("type") in ("integer", "number")]
    measures = [] if "measures" in stated else _measures(numbers, ask)
    unit = "row"
    if "unit" not in stated:
        likely = (*units, "row")[0]
        unit = _one_of(("row", *names), "Whose presence is hidden: row, or the column that says who", likely, ask)
    if unit != "row":
        unit = _unit(unit, _one_of(None, f"  how many rows of each {unit} are used", "1", ask))
    return Answers(unit, said, "" if "budget" in stated else _epsilon(ask), measures)


def _measures(numbers: Sequence[str], ask: Ask) -> list[str]:
    """Ask which numbers are to be summed and averaged; counts and filters need none of them."""
    if not numbers:
        return []
    question = f"Columns to SUM and AVG, of {', '.join(numbers)}, with commas between (Enter: none)"
    while True:
        names = [name.strip() for name in ask(question, "").split(",") if name.strip()]
        if all(name in numbers for name in names):
            return names


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
