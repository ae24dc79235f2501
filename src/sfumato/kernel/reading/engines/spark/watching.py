"""How long a server of Spark Connect is waited for, once it was heard and then is gone.

Left to itself the client tries each call for ten minutes, and there are several: the statement, and each goodbye after
it. Here all of them together have a minute.

Spark at work: nothing that it says reaches the terminal, and whoever stops waiting for it stops it.
"""

from __future__ import annotations

import os
import secrets
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sfumato.kernel.reading.engines.silencing import followed, is_watched, tell
from sfumato.kernel.reading.engines.spark import is_connect

TOGETHER = 45.0  # seconds from the first failure, after which nothing is tried again
RECOVERED = 120.0  # seconds without a failure, after which the next is a first one
LONGEST = 5_000  # milliseconds between two tries


def patient() -> Any | None:
    """A policy for the client; None for Spark 3.5, which has none."""
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
    except ImportError:
        return None
    allowed = Allowance()

    class Patient(DefaultPolicy):  # type: ignore[misc,unused-ignore]
        """Spark's own, for as long as there is time."""

        def can_retry(self, error: BaseException) -> bool:
            return bool(super().can_retry(error)) and allowed.more()

    return Patient(max_backoff=LONGEST)


class Allowance:
    """Whether there is time for another try, over all calls."""

    def __init__(self) -> None:
        self._first = self._last = -RECOVERED

    def more(self) -> bool:
        """Note a failure, and say whether to go on."""
        now = time.monotonic()
        if now - self._last >= RECOVERED:
            self._first = now
        self._last = now
        return now - self._first < TOGETHER


@contextmanager
def deaf() -> Iterator[None]:
    """What is started meanwhile has no terminal. For privacy: Spark's log can quote a value."""
    kept = [os.dup(stream) for stream in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        yield
    finally:
        for stream, before in zip((1, 2), kept, strict=True):
            os.dup2(before, stream)
            os.close(before)
        os.close(nowhere)


@contextmanager
def speechless() -> Iterator[None]:
    """For privacy: Spark's own Python notes every error of a statement, with what it quotes, on the terminal."""
    loggers = list[Any]()
    with suppress(ImportError):  # of Spark 4; the kind matters, so that it is not made here as a plain one
        from pyspark.logger import PySparkLogger

        loggers = [PySparkLogger.getLogger(f"{part}QueryContextLogger") for part in ("SQL", "DataFrame")]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


@contextmanager
def tagged(session: Any) -> Iterator[None]:
    """Whatever ends this early, such as Ctrl-C, ends Spark's work on it."""
    tag = f"sfumato-{secrets.token_hex(8)}"
    if is_connect(session):
        put, take, end = session.addTag, session.removeTag, session.interruptTag
    else:
        context = session.sparkContext
        put, take, end = context.addJobTag, context.removeJobTag, context.cancelJobsWithTag
    put(tag)
    try:
        yield
    except BaseException:
        with suppress(Exception):
            end(tag)
        raise
    finally:
        with suppress(Exception):
            take(tag)


@contextmanager
def followed_tasks(session: Any) -> Iterator[None]:
    """Tell whoever waits which share of the tasks that are known is done; Spark finds more of them as it goes on."""
    if not is_connect(session):
        seen: dict[int, tuple[int, int]] = {}
        with followed(lambda: share_of_tasks(session.sparkContext.statusTracker(), seen)):
            yield
        return
    if not is_watched() or not hasattr(session, "registerProgressHandler"):  # Spark 3.5
        yield
        return

    def handle(stages: Any, *_: object, **__: object) -> None:
        known = sum(stage.num_tasks for stage in stages or ())
        if known:
            tell(sum(stage.num_completed_tasks for stage in stages) / known)

    session.registerProgressHandler(handle)
    try:
        yield
    finally:
        session.removeProgressHandler(handle)


def share_of_tasks(tracker: Any, seen: dict[int, tuple[int, int]]) -> float | None:
    """Tasks done over tasks known. seen: the stages so far, done and known tasks of each; one that is over is done."""
    active = {number: tracker.getStageInfo(number) for number in tracker.getActiveStageIds()}
    for number, (_, known) in seen.items():
        seen[number] = known, known
    seen.update({number: (one.numCompletedTasks, one.numTasks) for number, one in active.items() if one is not None})
    known = sum(tasks for _, tasks in seen.values())
    return sum(done for done, _ in seen.values()) / known if known else None
