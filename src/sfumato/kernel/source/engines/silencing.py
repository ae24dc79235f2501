"""Nothing that an engine says leaves the kernel, and whoever interrupts it is heard.

An engine's message can quote a value. It must not survive in the error that is raised in its place either: not as its
cause or context, and not in the variables of a frame that its traceback keeps alive. So the engine works inside a call
of its own, and what is raised is raised when that call, its frames and its errors are gone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from sfumato.errors import TableError

T = TypeVar("T")


def silenced(work: Callable[[], T], otherwise: str) -> T:
    """The outcome of work that touches private rows.

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
