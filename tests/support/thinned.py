"""Fewer of the small tables that mechanisms are replayed on."""

from __future__ import annotations

from itertools import islice

import pytest

from sfumato.lab.audit.subjects.small_tables import neighbouring_tables

EVERY = 7  # it has no factor in common with the numbers of cells and rows, so that nothing is left out throughout


def every_seventh_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replay on every seventh pair of small tables instead of all."""
    thinned = lambda *given: islice(neighbouring_tables(*given), 0, None, EVERY)  # noqa: E731
    monkeypatch.setattr("sfumato.lab.audit.attacks.replay.neighbouring_tables", thinned)
