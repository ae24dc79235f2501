"""Wait for what a test means instead of for a time, and let a test be interrupted however its runner was started."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 120.0  # seconds: stops a test that hangs, and says nothing about speed


def wait_until(true: Callable[[], object], patience: float = PATIENCE) -> None:
    """Return as soon as it is true; a test in which that never happens fails."""
    end, pause = time.monotonic() + patience, threading.Event()
    while not true():
        assert time.monotonic() < end, "what was waited for did not happen"
        pause.wait(0.01)


@contextmanager
def interruptible() -> Iterator[None]:
    """Meanwhile Ctrl-C interrupts this process and those that it starts.

    A shell starts what it puts into the background with SIGINT ignored, and children inherit that. A handler is not
    inherited: a child begins with the default.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
