"""Fewer of the small tables that mechanisms are replayed on."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from sfumato.lab.audit.subjects.subject import neighbouring_tables

EVERY = 7  # it has no factor in common with the numbers of cells and rows, so that nothing is left out throughout


def every_seventh_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay on every seventh pair of small tables instead of all."""
    thinned = lambda *given: islice(neighbouring_tables(*given), 0, None, EVERY)  # noqa: E731
    monkeypatch.setattr("sfumato.lab.audit.attacks.replay.neighbouring_tables", thinned)


def every_97th_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay on a few pairs of small tables, others with every commit."""
    thinned = lambda *given: islice(neighbouring_tables(*given), of_this_commit() % 97, None, 97)  # noqa: E731
    monkeypatch.setattr("sfumato.lab.audit.attacks.replay.neighbouring_tables", thinned)


@cache
def of_this_commit() -> int:
    """A number that is another one with every commit, so that runs of successive commits walk through all there is.

    The same commit gives the same, so that what failed fails again; 0 where there is no history, and on a build server,
    as with conftest.py's examples: there a change is judged by what it changes.
    """
    command = ["git", "rev-parse", "HEAD"]
    if os.environ.get("CI"):
        return 0
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return int(found.stdout.strip()[:12], 16) if found.returncode == 0 else 0
