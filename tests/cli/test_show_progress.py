"""A release tells on a terminal how far the reading is; in a pipe, quietly or for a script it tells nothing."""

from __future__ import annotations

import io
import sys

import pytest
from waiting import wait_until

from sfumato.cli import application, show
from sfumato.cli import shared as manner
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


LONG = ("release", "plan", "sample", "report", "check", "discover", "audit", "reproduce", "combine", "compare")


def test_where_the_time_went_is_said_in_a_pipe_too_if_asked(capfd):
    for wanted in (True, False):
        manner.begin()
        manner.VERBOSE.callback(wanted)
        with show.working("writing") as step:
            step("one")
            step("two")
            step("one")
        manner.tell_times()
        lines = capfd.readouterr().err.splitlines()
        assert not lines or all(line.startswith("time: ") for line in lines)
        assert bool(lines) == wanted and (not wanted or lines[-1].endswith(" s  in all"))


def test_steps_add_up_to_all_of_the_time(capfd):
    manner.MANNER.times = [("starting", 10.0), ("a", 12.0), ("b", 15.0), ("a", 16.0), (manner.REST, 18.5)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(manner, "monotonic", lambda: 19.0)
        manner.tell_times()
    said = [line.split(maxsplit=3)[1:] for line in capfd.readouterr().err.splitlines()]
    assert [(float(seconds), step) for seconds, _, step in said] == [
        (2.0, "starting"),
        (5.5, "a"),
        (1.0, "b"),
        (0.5, "the rest"),
        (9.0, "in all"),
    ]


@pytest.mark.parametrize("name", LONG)
def test_every_command_that_may_take_long_can_say_where_the_time_went(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        application([name])([name, "--help"])
    assert "--verbose" in capsys.readouterr().out
