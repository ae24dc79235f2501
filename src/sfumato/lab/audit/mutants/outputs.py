"""NOT PRIVATE: broken outputs, file limits, error messages and interrupts, with the checks that catch them.

Text sent to a terminal or spreadsheet, memory claimed by a stranger's file, words kept in an error, a Ctrl-C taken for
another error: each was wrong once, and each fix is taken out again here. A check hands the broken code, or the real
code, an input that brings the fault to light, and complains in words.
"""

from __future__ import annotations

import csv
import hashlib
import io
import signal
import tempfile
import zlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from sfumato.answers.results import Result
from sfumato.errors import ReleaseFileError, TableError
from sfumato.releases.file.artifact import MANIFEST_FILE, Artifact, Entry, directory_of, read_artifact
from sfumato.releases.file.manifest import Manifest, MechanismRecord, Member, Statistic, guarantee_of, manifest_bytes
from sfumato.releases.file.records import LaplaceRecord

Show = Callable[[Result], str]
Open = Callable[[Path], Artifact]
Silence = Callable[[Callable[[], None], str], None]

STEERING = ("\x1b[2J", "a\rb", "\x9b31m", "\u202eb", "\x1b]8;;http://x\x07", "two\nlines")
RUNNING = ("=cmd|'/c calc'!A1", "@SUM(1)", "+1+1", " =1", "-1-1")
CANARY = "Zyqqert-Vauxhall"
CLAIMED = 100_000_000  # numbers, in a file of 2 MB


# -- what is printed


def steers(show: Show) -> str | None:
    """Check that a label, shown in a table, does not reach the terminal as a control sequence."""
    for label in STEERING:
        shown = show(Result((label,), ((label,),), 0.95)).replace("\n", "", 2)  # its own line breaks
        if not shown.isprintable():
            return f"the label {label!r} reaches the terminal as it is"
    return None


def runs(write: Show) -> str | None:
    """Check that a label, written for a spreadsheet, does not begin as a formula does."""
    for label in RUNNING:
        for row in csv.reader(io.StringIO(write(Result((label,), ((label,),), 0.95)))):
            if row[0].lstrip()[:1] in "=+-@":
                return f"the label {label!r} is a formula in a spreadsheet"
    return None


def raw_table(result: Result) -> str:
    """NOT PRIVATE: labels of a stranger's file are printed as they are, with what a terminal obeys."""
    return "\n".join(["  ".join(result.columns), "-", *("  ".join(map(str, row)) for row in result.rows)])


def raw_csv(result: Result) -> str:
    """NOT PRIVATE: labels of a stranger's file are written as they are, formulas and all."""
    text = io.StringIO()
    csv.writer(text).writerows([result.columns, *result.rows])
    return text.getvalue()


# -- what a file may ask for


def takes_all_memory(opens: Open) -> str | None:
    """Check that a small file that claims a gigabyte of equal numbers is refused before it is laid out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "claims.sfumato"
        path.write_bytes(_claiming())
        try:
            opens(path)
        except ReleaseFileError as error:
            if "most_cells" in str(error):
                return None
    return f"a file of 2 MB that claims {CLAIMED:,} numbers is not refused for that"


def open_unbounded(path: Path) -> Artifact:
    """NOT PRIVATE: whatever a file claims to hold is laid out, so that 3 MB take a gigabyte."""
    return read_artifact(path, most_cells=2**62)


def _claiming() -> bytes:
    """Bytes of a file with a consistent manifest that claims far more numbers than its body can hold."""
    side: dict[str, JsonValue] = {"type": "integer", "lower": 0, "upper": 9_999}
    body = bytes(2 * 10**6)
    manifest = Manifest(
        kind="cube",
        schema={"dataset": "claims", "privacy_unit": "row", "attributes": {"x": side, "y": side}},
        mechanism=MechanismRecord("cells"),
        guarantee=guarantee_of(Fraction(1), "any one row"),
        private=True,
        statistics=[Statistic("count", "cells", "count", LaplaceRecord(Fraction(1)))],
        members={"cells": Member("cells.parquet", hashlib.sha256(body).hexdigest(), len(body), CLAIMED, ["count"])},
    )
    raw, _ = manifest_bytes(manifest)
    first = Entry(MANIFEST_FILE, zlib.crc32(raw), len(raw), 0)
    second = Entry("cells.parquet", zlib.crc32(body), len(body), first.end)
    return first.local + raw + second.local + body + directory_of([first, second])


# -- what an error keeps, and what an interrupt is taken for


def keeps_words(silence: Silence) -> str | None:
    """Check that the engine's message, which can quote a value, is nowhere in the error raised in its place."""

    def failing() -> None:
        raise ValueError(f"Could not convert string '{CANARY}' to INT32")

    try:
        silence(failing, "the table could not be read")
    except TableError as error:
        kept = next((where for where, said in _pockets(error) if CANARY in said), None)
        return None if kept is None else f"the engine's message is found in {kept}"
    return "nothing was raised"


def mistakes_interrupt(silence: Silence) -> str | None:
    """Check that a Ctrl-C that the engine turns into an error of its own, as DuckDB does, is still an interrupt."""

    def interrupted() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("Query interrupted") from None

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored, as in the background
    try:
        silence(interrupted, "the table may be damaged")
    except KeyboardInterrupt:
        return None
    except TableError as error:
        return f"an interrupt is told as {str(error)!r}"
    finally:
        signal.signal(signal.SIGINT, before)
    return "an interrupt is told as nothing at all"


def silenced_from_none(work: Callable[[], None], otherwise: str) -> None:
    """NOT PRIVATE: the engine's error is left out of the traceback, and kept as the context of the one raised."""
    try:
        work()
    except Exception:
        raise TableError(otherwise) from None


def silenced_by_kind(work: Callable[[], None], otherwise: str) -> None:
    """NOT PRIVATE: every error of the engine is taken for damage, also the one that it makes of an interrupt."""
    failed = False
    try:
        work()
    except Exception:
        failed = True
    if failed:
        raise TableError(otherwise)


def _pockets(error: BaseException) -> Iterator[tuple[str, str]]:
    """Every text reachable from an error, with its place: message, causes, contexts, variables of frames."""
    seen: set[int] = set()
    todo: list[tuple[str, Any]] = [("the error", error)]
    while todo:
        where, thing = todo.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        yield where, str(thing)
        if isinstance(thing, BaseException):
            todo += [("its cause", thing.__cause__), ("its context", thing.__context__)]
            trace = thing.__traceback__
            while trace is not None:
                if trace.tb_frame.f_code.co_name != "failing":
                    name = f"a variable of {trace.tb_frame.f_code.co_name}"
                    todo += [(name, value) for value in trace.tb_frame.f_locals.values()]
                trace = trace.tb_next
