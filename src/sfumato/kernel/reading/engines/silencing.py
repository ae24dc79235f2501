"""Keep an engine's messages inside the kernel, hear interrupts, and report progress to whoever waits at a terminal.

An engine's message can quote a value. It must not survive in the error that is raised in its place either: not as its
cause or context, and not in the variables of a frame that its traceback keeps alive. So the engine works inside a call
of its own, and what is raised is raised when that call, its frames and its errors are gone.

Progress is the engine's own estimate of the share that it has read: of files, row groups or tasks. It goes to the
curator, who holds the table and could watch the clock as well; it is not returned, kept or written anywhere.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeVar

from sfumato.errors import TableError

OFTEN = 0.2  # seconds between two looks
Watch = Callable[[float], None]
_WATCHING: list[Watch] = []  # one command runs at a time


@contextmanager
def watched(by: Watch) -> Iterator[None]:
    """Report the progress of readings in this block, as a share between 0 and 1, from a thread of its own."""
    _WATCHING.append(by)
    try:
        yield
    finally:
        _WATCHING.remove(by)


def is_watched() -> bool:
    """Whether a caller has asked to be told how much of the table is read."""
    return bool(_WATCHING)


def tell(share: float) -> None:
    """Tell the callers that asked what share of the table is read."""
    for watch in _WATCHING:
        watch(min(max(share, 0.0), 1.0))


@contextmanager
def followed(share: Callable[[], float | None]) -> Iterator[None]:
    """Ask an engine now and then for the share that it has done, if anybody wants to know. None: it cannot say."""
    if not is_watched():
        yield
        return
    over = threading.Event()

    def look() -> None:
        while not over.wait(OFTEN):
            with suppress(Exception):  # a connection that is closed in between; it is only for show
                found = share()
                if found is not None and not over.is_set():
                    tell(found)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(1)


T = TypeVar("T")


def silenced(work: Callable[[], T], otherwise: str) -> T:
    """Run work that touches private rows; let none of the engine's own errors out.

    A TableError, which the kernel itself worded, is raised anew; whatever else goes wrong is told as `otherwise`.
    """
    said = otherwise
    with _hearing_interrupts() as heard:
        try:
            outcome = work()
        except TableError as refused:
            said = str(refused)
        except KeyboardInterrupt:
            heard.append(True)
        except Exception:  # noqa: S110 (for privacy: nothing of it may be kept; an error is raised below)
            pass
        else:
            said = ""
    if heard:  # also where an engine made an error of its own of it, or nothing at all
        raise KeyboardInterrupt
    if said:
        raise TableError(said)
    return outcome


@contextmanager
def _hearing_interrupts() -> Iterator[list[bool]]:
    """Notice a Ctrl-C that an engine would turn into an error like any other, as DuckDB does inside a query."""
    heard: list[bool] = []
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield heard  # nobody is listening, or Python calls the handler elsewhere
        return

    def hear(number: int, frame: FrameType | None) -> None:
        try:
            before(number, frame)
        except BaseException:  # Spark's own handler asks Spark first, which can fail while it is asked something else
            heard.append(True)
            raise

    signal.signal(signal.SIGINT, hear)
    try:
        yield heard
    finally:
        signal.signal(signal.SIGINT, before)
