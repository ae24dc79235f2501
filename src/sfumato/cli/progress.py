"""Progress on a terminal, for whoever waits, and with --verbose where the time went; silent in a pipe."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from sfumato.cli.shared import MANNER
from sfumato.cli.show import console, say

STEPS = {
    "plan": "choosing what to measure",
    "check": "checking names and types",
    "reserve": "reserving the budget in the ledger",
    "read": "reading and counting",
    "register": "registering who is counted",
    "measure": "adding noise",
    "write": "writing the release",
    "publish": "marking it published",
}
SOON = 1.0  # seconds after which whoever waits is told what for


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Progress bar over the steps of a release and the reading of its table; silent in a pipe."""
    with _bar(20, len(STEPS)) as (bar, task):
        if bar is None:
            yield lambda name: _note(STEPS.get(name, name))
            return
        from sfumato.kernel.reading.engines import watched

        at, furthest = list[str](), [0.0]

        def step(name: str) -> None:
            at.append(name)
            _note(STEPS.get(name, name))
            bar.update(task, completed=len(at), description=STEPS.get(name, name))

        def read(share: float) -> None:
            if at and at[-1] == "read":
                furthest[0] = max(furthest[0], share)  # where more turns out to be left, it stays where it is
                bar.update(task, completed=len(at) + furthest[0], description=f"{STEPS['read']}, {furthest[0]:.0%}")

        with watched(read):
            yield step


@contextmanager
def counting(what: str) -> Iterator[Callable[[str, float], None]]:
    """Progress bar with a description and the share that is done; silent in a pipe."""
    with _bar(30, 1.0, what) as (bar, task):
        yield lambda name, share: bar.update(task, completed=share, description=f"{what}: {name}") if bar else None


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Description and duration of a task, once it has taken a second, on a terminal; silent in a pipe."""
    if not (MANNER.bars and sys.stderr.isatty()):
        with _timed(what):
            yield lambda name: _note(f"{what}: {name}")
        return
    now, lines, over, one_at_a_time = [what], list[tuple[Any, Any]](), threading.Event(), threading.Lock()

    def show() -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        parts = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        line = Progress(*parts, console=console(stderr=True), transient=True)
        with one_at_a_time:
            if not over.is_set():
                lines.append((line, line.add_task(now[0], total=None)))
                line.start()

    def step(name: str) -> None:
        now[0] = f"{what}: {name}"
        _note(now[0])
        for line, task in lines:
            line.update(task, description=now[0])

    timer = threading.Timer(SOON, show)
    timer.daemon = True
    timer.start()
    try:
        with _timed(what):
            yield step
    finally:
        timer.cancel()
        with one_at_a_time:
            over.set()
            for line, _ in lines:
                line.stop()


@contextmanager
def _bar(width: int, total: float, what: str = "starting") -> Iterator[tuple[Any, Any]]:
    """Progress bar on a terminal and the task it shows; None in a pipe."""
    if not (MANNER.bars and sys.stderr.isatty()):
        with _timed(what):
            yield None, None
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    parts = (SpinnerColumn(), BarColumn(bar_width=width), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*parts, console=console(stderr=True), transient=True) as bar, _timed(what):
        yield bar, bar.add_task(what, total=total)


# -- where the time went

REST = "the rest"


@contextmanager
def _timed(what: str) -> Iterator[None]:
    """Count the time of a block for `what`, or for the steps noted in it."""
    _note(what)
    try:
        yield
    finally:
        _note(REST)


def _note(step: str) -> None:
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
        say(f"time: {seconds:8.2f} s  {step}", stderr=True)
    say(f"time: {sum(spent.values()):8.2f} s  in all", stderr=True)
