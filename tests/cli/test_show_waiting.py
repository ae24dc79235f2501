"""Whoever waits for longer than a second is told what for; a pipe and a short wait show nothing."""

from __future__ import annotations

import io
import sys
import time

import pytest

from sfumato.cli import show


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("wait", "told"), [(0.4, True), (0.0, False)])
def test_a_long_wait_says_what_for(wait, told, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(show, "SOON", 0.05)
    monkeypatch.setenv("TERM", "xterm")
    with show.working("weighing mechanisms") as step:
        step("cells")
        time.sleep(wait)
        if told:  # rich takes a while to load
            deadline = time.monotonic() + 20.0
            while "cells" not in stream.getvalue() and time.monotonic() < deadline:
                time.sleep(0.05)
    assert ("weighing mechanisms: cells" in stream.getvalue()) is told


def test_a_pipe_is_silent(capsys, monkeypatch):
    monkeypatch.setattr(show, "SOON", 0.0)
    with show.working("weighing mechanisms") as step:
        step("cells")
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


def test_an_error_ends_the_line(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(show, "SOON", 0.0)
    with pytest.raises(ValueError, match="no"), show.working("opening"):
        time.sleep(0.05)
        raise ValueError("no")
    ended = stream.getvalue()
    time.sleep(0.3)
    assert stream.getvalue() == ended
