"""How far an engine is, for whoever waits at a terminal, and nobody else.

What is told is the engine's own estimate of the share that it has read: of files, row groups or tasks. It goes to the
curator, who holds the table and could watch the clock as well; it is not returned, kept or written anywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

OFTEN = 0.2  # seconds between two looks
Watch = Callable[[float], None]
_WATCHING: list[Watch] = []  # one command runs at a time


@contextmanager
def watched(by: Watch) -> Iterator[None]:
    """Whatever is read meanwhile is told to somebody, as a share between 0 and 1, from a thread of its own."""
    _WATCHING.append(by)
    try:
        yield
    finally:
        _WATCHING.remove(by)


def is_watched() -> bool:
    """Whether anybody wants to know."""
    return bool(_WATCHING)


def tell(share: float) -> None:
    """Tell whoever watches."""
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
