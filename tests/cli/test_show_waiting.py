"""Whoever waits for longer than a second is told what for; a pipe and a short wait show nothing."""

from __future__ import annotations

import io
import sys
import threading

import pytest
from waiting import wait_until

from sfumato.cli import show


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("soon", "told"), [(0.05, True), (3600.0, False)])
def test_a_long_wait_says_what_for(soon, told, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(show, "SOON", soon)
    monkeypatch.setenv("TERM", "xterm")
    with show.working("weighing mechanisms") as step:
        step("cells")
        if told:  # rich takes a while to load
            wait_until(lambda: "cells" in stream.getvalue())
    assert ("weighing mechanisms: cells" in stream.getvalue()) is told


def test_a_pipe_is_silent(capsys):
    before = threading.active_count()
    with show.working("weighing mechanisms") as step:
        step("cells")
        assert threading.active_count() == before  # nobody is there who could say anything later
    assert capsys.readouterr().err == ""


def test_an_error_ends_the_line(monkeypatch):
    before, stream = threading.active_count(), Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(show, "SOON", 0.0)
    with pytest.raises(ValueError, match="no"), show.working("opening"):
        wait_until(lambda: "opening" in stream.getvalue())
        raise ValueError("no")
    ended = stream.getvalue()
    wait_until(lambda: threading.active_count() == before)  # nothing is left that could write
    assert stream.getvalue() == ended
