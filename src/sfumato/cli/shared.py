"""Conventions and options that commands share: --quiet, --json, --verbose, confirmation, exit codes, a file's format.

Output is for a person, quiet, or one JSON object for a script. Only a person at a terminal is asked for confirmation. A
few exit codes are the same for every command, with finer ones for scripts that ask for them. An interrupt is one line,
with an exit code of its own. Options for the format of a table's file override the schema's `file`.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, Any, get_type_hints

import typer
from typer.core import TyperGroup

from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.plain_text import printable

if TYPE_CHECKING:
    from sfumato.schema import Schema
    from sfumato.schema.dialect import Dialect


@dataclass
class Manner:
    """Output mode of the running command. One command runs at a time, so there is one instance, set by the options.

    talk: sentences and tables on stdout. bars: progress. notes: remarks on an answer, on stderr. json: the answer is
    one JSON object, and so is a refusal. given: that object was printed. times: of steps, when each began, if asked.
    """

    talk: bool = True
    bars: bool = True
    notes: bool = True
    json: bool = False
    given: bool = False
    times: list[tuple[str, float]] | None = None


MANNER = Manner()


def version(wanted: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True)) -> None:
    """Answer `sfumato --version`."""
    if wanted:
        from sfumato.version import __version__

        typer.echo(f"sfumato {__version__}")
        raise typer.Exit


def begin() -> None:
    """Reset the output mode."""
    MANNER.talk = MANNER.bars = MANNER.notes = True
    MANNER.json = MANNER.given = False
    MANNER.times = None


def _time_it(wanted: bool) -> bool:
    if wanted:
        MANNER.times = [("starting", monotonic())]
    return wanted


def _hushed(quiet: bool) -> bool:
    if quiet:
        MANNER.talk = MANNER.bars = MANNER.notes = False
    return quiet


def _answer_only(quiet: bool) -> bool:
    if quiet:
        MANNER.bars = MANNER.notes = False
    return quiet


def _as_json(wanted: bool) -> bool:
    if wanted:
        MANNER.json, MANNER.talk, MANNER.bars = True, False, False
    return wanted


# Commands take these as parameters and need not look at them: `say`, `table` and the bars ask MANNER.
QUIET = typer.Option(
    False, "-q", "--quiet", help="Print nothing unless something is wrong.", callback=_hushed, is_eager=True
)
ANSWER_ONLY = typer.Option(
    False,
    "-q",
    "--quiet",
    help="Print only the answer, without notes and progress.",
    callback=_answer_only,
    is_eager=True,
)
VERBOSE = typer.Option(False, "--verbose", help="Say on stderr where the time went.", callback=_time_it, is_eager=True)
JSON = typer.Option(False, "--json", help="Print one JSON object, for scripts.", callback=_as_json, is_eager=True)


def give(answer: dict[str, Any]) -> None:
    """Print the JSON object of an answer; infinity and nan, which JSON lacks, become null."""
    MANNER.given = True
    print(json.dumps(_plain(answer), indent=2, ensure_ascii=True, allow_nan=False), file=sys.stdout)  # noqa: T201


def _plain(value: Any) -> Any:
    from fractions import Fraction
    from math import isfinite
    from pathlib import Path

    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Fraction):  # exact, as --epsilon takes it
        from sfumato.plain_text import readable

        return readable(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def can_ask() -> bool:
    """Whether a person can be asked: scripts, pipes, JSON and --quiet get no question."""
    return MANNER.talk and sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask for confirmation on stderr; anything but a yes is a no, and Ctrl-C is Ctrl-C."""
    print(f"{printable(question)} [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
    return sys.stdin.readline().strip().lower() in ("y", "yes")


DONE, REFUSED, USAGE, INTERRUPTED = 0, 1, 2, 130
# A script that tests for 1 must go on working, so the finer codes are given only where this variable asks for them.
VARIABLE, DISTINCT = "SFUMATO_EXIT_CODES", "distinct"
BY_KIND = {"budget": 3, "input": 4, "file": 5, "damaged": 6, "signature": 7}

HELP = (
    "Exit codes: 0 done, 1 refused for a reason that you can mend, 2 wrong usage, 130 interrupted. With "
    f"{VARIABLE}={DISTINCT} in the environment, 1 is told apart: 3 refused to spend budget, 4 makes no sense (schema, "
    "query, amount), 5 a file cannot be read or written, 6 a file is damaged, 7 a signature "
    "is missing or wrong."
)


def code_of(error: SfumatoError) -> int:
    """Exit code of a refusal."""
    return BY_KIND.get(error.kind, REFUSED) if os.environ.get(VARIABLE) == DISTINCT else REFUSED


EXIT_CODE = 130  # what shells give to a program that was interrupted


class Interrupted(Exception):
    """The user interrupted a command; the text says what that leaves behind, if anything.

    It is no KeyboardInterrupt any more, because versions of Typer differ in what they make of one.
    """

    def __init__(self, what_stays: str = "") -> None:
        super().__init__(f"interrupted; {what_stays}" if what_stays else "interrupted")


def left_behind(stop: KeyboardInterrupt) -> str:
    """Notes added to an interrupt on its way up."""
    return "; ".join(getattr(stop, "__notes__", ()))


class Shell(StrEnum):
    """Shells that complete commands."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Shell = typer.Argument(help="Your shell.", show_default=False)) -> None:
    """Print a script that makes your shell complete commands.

    In ~/.bashrc or ~/.zshrc: eval "$(sfumato completion bash)" (or zsh). In fish: sfumato completion fish | source.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    typer.echo(get_completion_script(prog_name="sfumato", complete_var="_SFUMATO_COMPLETE", shell=shell.value))


class Stoppable(TyperGroup):
    """Command group (Typer) in which Ctrl-C ends any command with one line (`Interrupted`)."""

    def make_context(self, *given: Any, **named: Any) -> Any:
        """Parse the arguments as the base class does; Ctrl-C raises `Interrupted`."""
        try:
            return super().make_context(*given, **named)
        except KeyboardInterrupt as stop:
            raise Interrupted(left_behind(stop)) from None

    def invoke(self, *given: Any, **named: Any) -> Any:
        """Run the command as the base class does; Ctrl-C raises `Interrupted`."""
        try:
            return super().invoke(*given, **named)
        except KeyboardInterrupt as stop:
            raise Interrupted(left_behind(stop)) from None


Given = dict[str, Any]

_OPTIONS = {
    "delimiter": ("--delimiter", "CSV: the character between fields, such as ';', or tab."),
    "decimal": ("--decimal", "The decimal sign in numbers that are text: . or ,"),
    "thousands": ("--thousands", "The thousands separator in numbers that are text: , . ' or space."),
    "encoding": ("--encoding", "CSV, JSON: latin-1, cp1252, utf-16, ... Default: utf-8."),
    "quote": ("--quote", "CSV: the quote character around fields, or none."),
    "columns": ("--columns", "The column names in order, separated by commas, if the file has no header line."),
    "dates": ("--dates", "The format of dates, such as %d.%m.%Y."),
    "sheet": ("--sheet", "Excel: the sheet. Default: the first."),
    "format": ("--file-format", "csv, tsv, jsonl, parquet, arrow or xlsx, if the file name does not tell."),
}


_TEXT = ("decimal", "thousands", "columns", "dates")
_OF = {  # which options say something of a kind of file
    "csv": ("delimiter", "quote", "encoding", *_TEXT),
    "tsv": ("delimiter", "quote", "encoding", *_TEXT),
    "jsonl": ("encoding", *_TEXT),
    "xlsx": ("sheet", *_TEXT),
}
_WORDS = {
    "csv": "CSV",
    "tsv": "CSV with tabs",
    "jsonl": "JSON lines",
    "xlsx": "Excel",
    "parquet": "a Parquet file",
    "arrow": "an Arrow file",
}


def takes_file_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator: add these options to a command, which receives their values as `file`."""

    @wraps(command)
    def run(**given: Any) -> None:
        command(
            **{key: given[key] for key in given if key not in names}, file={names[key]: given[key] for key in names}
        )

    names = {f"file_{key}": key for key in _OPTIONS}
    own = inspect.signature(command)
    hints = get_type_hints(command)
    kept = [part.replace(annotation=hints[name]) for name, part in own.parameters.items() if name != "file"]
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=typer.Option(None, _OPTIONS[key][0], help=_OPTIONS[key][1], show_default=False),
            annotation=str | None,
        )
        for name, key in names.items()
    ]
    plain = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in kept]
    run.__signature__ = inspect.Signature([*plain, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {part.name: part.annotation for part in (*plain, *added)} | {"return": None}
    del run.__wrapped__  # or its own signature would be looked at
    return run


def written(schema: Schema, file: Given, table: str) -> Schema:
    """Return the schema with its file format overridden by options."""
    return schema.model_copy(update={"file": stated(table, file, schema.file)})


def stated(table: str, file: Given, dialect: Dialect | None = None) -> Dialect | None:
    """File format by options, or else by the schema. Options that do not concern the kind of file are refused.

    A schema may say more than concerns the file, for the same one serves a CSV and the Parquet that is made of it.
    """
    from sfumato.errors import TableError
    from sfumato.kernel.reading.formats.files import format_of
    from sfumato.schema.dialect import PLAIN, overridden

    found = overridden(dialect, file)
    kind = "a database" if table.startswith("duckdb:") or "://" in table else format_of(table, found or PLAIN)
    without = {"format"} if kind != "a database" else set()
    for key, given in file.items():
        if given is not None and kind is not None and key not in _OF.get(kind, ()) and key not in without:
            what = _WORDS.get(kind, kind)
            raise TableError(f"{_OPTIONS[key][0]} says nothing about {what}; leave it out{_hint(key)}")
    return found


def _hint(key: str) -> str:
    kinds = [_WORDS[kind] for kind, keys in _OF.items() if key in keys and kind != "tsv"]
    return f" (it is for {', '.join(kinds)})" if kinds else ""


def one_amount(epsilon: str | None, rho: str | None) -> None:
    """Refuse a budget that is stated neither as an epsilon nor as a rho, or as both."""
    if epsilon is None and rho is None:
        raise typer.BadParameter("give --epsilon or --rho")
    if epsilon is not None and rho is not None:
        raise typer.BadParameter("--epsilon and --rho say the same in two ways; give one of them")


# -- where the time went

REST = "the rest"


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Count the time of a block for `what`, or for the steps noted in it."""
    note_step(what)
    try:
        yield
    finally:
        note_step(REST)


def note_step(step: str) -> None:
    """Note that a step begins; the one before has ended."""
    if MANNER.times is not None:
        MANNER.times.append((step, monotonic()))


def tell_times() -> None:
    """Print on stderr how long each step took, in the order in which they began."""
    if MANNER.times is None:
        return
    end, spent = monotonic(), dict[str, float]()
    for (step, began), (_, ended) in zip(MANNER.times, [*MANNER.times[1:], ("", end)], strict=True):
        spent[step] = spent.get(step, 0.0) + ended - began
    spent[REST] = spent.pop(REST, 0.0)
    for step, seconds in ((step, seconds) for step, seconds in spent.items() if seconds >= 0.005):
        print(f"time: {seconds:8.2f} s  {step}", file=sys.stderr)  # noqa: T201
    print(f"time: {sum(spent.values()):8.2f} s  in all", file=sys.stderr)  # noqa: T201
