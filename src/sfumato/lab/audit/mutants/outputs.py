"""NOT PRIVATE: broken outputs, file limits, error messages and interrupts, with the checks that catch them.

Text sent to a terminal or spreadsheet, memory claimed by a stranger's file, words kept in an error, a Ctrl-C taken for
another error: each was wrong once, and each fix is taken out again here. A check hands the broken code, or the real
code, an input that brings the fault to light, and complains in words.

NOT PRIVATE: mechanisms whose measurements are honest and whose published fit leaks.

Everything that the curator hands out to them is charged and noisy, so an audit of the measurements alone, as the
sampling audit once was, finds nothing wrong. The leak is in the fitted cells, which the file holds besides.

NOT PRIVATE is what other mutants are; these are NOT GUARANTEED: intervals that hold less often than they promise.

Their measurements are as noisy as they should be: every cell is measured a few times, with shares of the budget. Their
intervals are wrong. They are kept so that the audit can be seen to break them.
"""

from __future__ import annotations

import csv
import hashlib
import io
import signal
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import JsonValue

from sfumato.answers.fit import NoisyCells
from sfumato.answers.guaranteed_columns import FromFits
from sfumato.answers.noise_sum import Ends, Find, reach
from sfumato.answers.question import Kinds
from sfumato.answers.results import Result
from sfumato.arrays import Floats
from sfumato.errors import ReleaseFileError, TableError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.calibration.breaking import Search, break_intervals
from sfumato.lab.audit.mutants.noise import Run
from sfumato.lab.audit.subjects.registry import EMPTY_CELL, subject_of
from sfumato.lab.audit.subjects.subject import Counts
from sfumato.measurement import Design, Measurement, Noise
from sfumato.models.base.measure_and_fit import plain_cells
from sfumato.models.base.mechanism import Lab, Mechanism
from sfumato.models.base.mechanism import Run as Make
from sfumato.models.linear.fit import LinearFit
from sfumato.models.weights.fit import ScaledShape
from sfumato.models.weights.measure import even_start, measure_total, misfit_of
from sfumato.queries import Identity, Workload
from sfumato.releases.contents.cube import Cube
from sfumato.releases.file.artifact import MANIFEST_FILE, Artifact, Entry, directory_of, read_artifact
from sfumato.releases.file.manifest import Manifest, MechanismRecord, Member, Statistic, guarantee_of, manifest_bytes
from sfumato.releases.file.records import LaplaceRecord
from sfumato.schema import Schema

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


# -- fits


def fitted_to_the_table(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
    """NOT PRIVATE: the last estimate of a multiplicative-weights mechanism is the private table itself.

    Total, misfit and measures are measured as they should be, and an audit of the measurements alone (the layout that
    the sampling audit had before it looked at the whole file) does not catch it. The shape that is published does.
    """
    return _shaped(curator, schema, budget, lambda total: (1 + curator._dense("count")).astype(np.float64))


def fitted_evenly(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
    """Control, private, which the audit must pass: a multiplicative-weights release with a uniform estimate."""
    return _shaped(curator, schema, budget, lambda total: even_start(total, schema.domain.size))


def _shaped(curator: Curator, schema: Schema, budget: Budget, estimate: Callable[[LinearFit], Floats]) -> Cube:
    for_count, *for_measures = budget.evenly(len(curator.statistics))
    for_total, for_misfit = for_count.evenly(2)
    total = measure_total(curator, for_total)
    count = ScaledShape.like(total, estimate(total))
    misfit = curator.measure_misfit(misfit_of(Identity(schema.domain.size), count.estimate), for_misfit)
    return Cube(schema, fits=(count.with_spread(1.0, misfit), *plain_cells(curator, for_measures)))


def told_beside_the_fit(curator: Curator, schema: Schema, budget: Budget) -> Cube:
    """NOT PRIVATE: the private counts are put in the place of the estimate that follows from an honest fit.

    It reaches past the recorder of the replay audit, and every field of the fit is as it should be: who compares the
    fields alone does not catch it. What is written into the file is the estimate.
    """
    cube = fitted_evenly(curator, schema, budget)
    counts = getattr(curator, "_Recorder__inner", curator)._dense("count")
    vars(cube.fits[0])["estimate"] = counts.astype(np.float64)
    return cube


def released(run: Make, example: Callable[[int], Schema] | None = None, before: Counts = EMPTY_CELL) -> Run:
    """Sampler of release files as rows of integers. example: the schema, if not that of all audits."""
    return subject_of(Mechanism("mutant", "", run, lab=Lab(example=example)), before=before).run


# -- intervals

TIMES = 6  # that the same cells are measured
SEARCH = Search(steps=3, releases=6, questions=6, worst=2, confirmations=300, at_once=0)
MANY_BOUNDS = Search(steps=2, releases=2, questions=4, worst=1, confirmations=10, at_once=96)

Bound = Callable[[Sequence[Measurement], Floats, Floats, float], Ends]
Order = Callable[[Sequence[Measurement]], Sequence[Measurement]]


@dataclass(frozen=True, eq=False)
class Repeated(Cube):
    """Cube of cells that were measured several times. bound: function from all measurements to an interval."""

    measured: tuple[Measurement, ...] = ()
    bound: Bound | None = None

    def exact_at(self, confidence: float) -> float | None:
        return None

    def sure(self, kinds: Kinds) -> FromFits:
        bound = self.bound
        assert bound is not None  # noqa: S101 (made below)
        find: Find = lambda low, high, tail: bound(self.measured, low, high, tail)  # noqa: E731 (what it is)
        return FromFits(self.domain, {"count": find}, kinds)


def first_believed(measured: Sequence[Measurement], low: Floats, high: Floats, tail: float) -> Ends:
    """Interval of a weighted sum from the first measurement alone."""
    ((noise,), answers) = measured[0].noises, measured[0].answers
    below, above = (_reach(noise, tuple(np.sort(weights[weights != 0]).tolist()), tail) for weights in (low, high))
    return Ends(float(low @ answers) - below, float(high @ answers) + above)


def largest_first(measured: Sequence[Measurement]) -> Sequence[Measurement]:
    """NOT GUARANTEED: sorts measurements by noisy total, largest first, and bounds as if the order were fixed."""
    return sorted(measured, key=lambda one: -int(one.answers.sum()))


def as_asked(measured: Sequence[Measurement]) -> Sequence[Measurement]:
    """Control: the first measurement in the order asked, which does not depend on the noise."""
    return measured


def half_the_noise(measured: Sequence[Measurement], low: Floats, high: Floats, tail: float) -> Ends:
    """NOT GUARANTEED: takes the noise as half as large as it is."""
    found = first_believed(measured, low, high, tail)
    return Ends(found.low + (found.high - found.low) / 4.0, found.high - (found.high - found.low) / 4.0)


def none_split(measured: Sequence[Measurement], low: Floats, high: Floats, tail: float) -> Ends:
    """NOT GUARANTEED: takes the tightest of several bounds, each with all of the tail."""
    first = first_believed(measured, low, high, tail)  # all have the same noise, so that ends differ as the answers do
    apart = [(one.answers - measured[0].answers).astype(np.float64) for one in measured]
    above, below = max(float(low @ one) for one in apart), min(float(high @ one) for one in apart)
    return Ends(first.low + above, first.high + below)


def all_split(measured: Sequence[Measurement], low: Floats, high: Floats, tail: float) -> Ends:
    """Control: the tightest of several bounds, with the tail split over them."""
    return none_split(measured, low, high, tail / len(measured))


def broken(bound: Bound, order: Order = as_asked, search: Search = SEARCH) -> str | None:
    """Verdict of the search on intervals by `bound`, with fixed seeds; None if it finds no breach."""

    def run(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Repeated:
        every = Identity(schema.domain.size)
        measured = tuple(order([curator.measure(every, share) for share in budget.evenly(TIMES)]))
        return Repeated(schema, (NoisyCells(measured[0]),), measured, bound)

    found = break_intervals("mutant", run, search, TestingEntropy(17), seed=2)
    return None if found is None or found.sound else found.verdict


@lru_cache(maxsize=1024)
def _reach(noise: Noise, weights: tuple[float, ...], tail: float) -> float:
    """Noise quantile of a sum with these weights at a tail, cached by the sorted weights."""
    if not weights:
        return 0.0
    rows = np.arange(len(weights))
    return reach(Design(Identity(len(weights)), (noise,), None), rows, np.array(weights), tail)
