"""How a command is to speak: to a person, quietly, or as one JSON object for a script. The same options everywhere."""

from __future__ import annotations

import json
import sys
from typing import Any

import typer

from sfumato.frozen import dataclass


@dataclass
class Manner:
    """What is left out. One command runs at a time, so there is one of it, set by the options below.

    talk: sentences and tables on stdout. bars: progress. notes: remarks on an answer, on stderr. json: the answer is
    one JSON object, and so is a refusal. given: that object was printed.
    """

    talk: bool = True
    bars: bool = True
    notes: bool = True
    json: bool = False
    given: bool = False


MANNER = Manner()


def begin() -> None:
    """Forget what an earlier command was told."""
    MANNER.talk = MANNER.bars = MANNER.notes = True
    MANNER.json = MANNER.given = False


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
    False, "-q", "--quiet", help="Say nothing unless something is wrong.", callback=_hushed, is_eager=True
)
ANSWER_ONLY = typer.Option(
    False, "-q", "--quiet", help="Print the answer alone: no notes, no progress.", callback=_answer_only, is_eager=True
)
JSON = typer.Option(
    False, "--json", help="Print one JSON object instead of words, for scripts.", callback=_as_json, is_eager=True
)


def give(answer: dict[str, Any]) -> None:
    """Print the one object that a script reads; what is not a number in JSON, such as infinity, is null."""
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
        from sfumato.kernel.budget import readable

        return readable(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    return str(value) if isinstance(value, Path) else value
