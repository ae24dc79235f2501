"""A release tells on a terminal how far the reading is; in a pipe, quietly or for a script it tells nothing."""

from __future__ import annotations

import io
import sys

import pytest
from waiting import wait_until

from sfumato.cli import shared as manner
from sfumato.cli import show
from sfumato.kernel.reading.engines import is_watched, tell


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def manners():
    yield
    manner.begin()


def terminal(monkeypatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def test_the_share_is_shown_while_the_table_is_read(monkeypatch):
    stream = terminal(monkeypatch)
    with show.progress() as step:
        step("plan")
        tell(0.3)  # the trial of a server: no table is read yet
        step("read")
        tell(0.41)
        wait_until(lambda: "41%" in stream.getvalue())  # a bar is drawn ten times a second
        step("measure")
        tell(0.9)
        wait_until(lambda: "adding noise" in stream.getvalue())
    assert "reading and counting, 41%" in stream.getvalue()
    assert "30%" not in stream.getvalue() and "90%" not in stream.getvalue()
    assert not is_watched()


@pytest.mark.parametrize("how", ["quiet", "json", "pipe"])
def test_silence(how, monkeypatch):
    stream = terminal(monkeypatch)
    if how == "pipe":
        monkeypatch.setattr(stream, "isatty", lambda: False)
    else:
        (manner.QUIET if how == "quiet" else manner.JSON).callback(True)
    with show.progress() as step:
        step("read")
        assert not is_watched()
    assert stream.getvalue() == ""
