"""A question that only a person at a terminal can answer."""

from __future__ import annotations

import sys

from sfumato.cli.shared.manner import MANNER
from sfumato.plain_text import printable


def can_ask() -> bool:
    """Whether somebody sits there: scripts, pipes, JSON and --quiet get no question."""
    return MANNER.talk and sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str) -> bool:
    """Ask, on stderr; anything but a yes is a no, and Ctrl-C is Ctrl-C."""
    print(f"{printable(question)} [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
    return sys.stdin.readline().strip().lower() in ("y", "yes")
