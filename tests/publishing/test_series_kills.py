"""Kills at every step of appending a part: the series opens, nothing is charged twice, nobody is counted too often.

A person lies in one cell, and the noise is next to none (epsilon 50: a count is off with probability below 1e-20), so a
published count tells who was counted.
"""

from __future__ import annotations

import gc
import inspect
import linecache
import os
import random
import sys
import warnings
from collections import Counter
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from ledgers import raw
from months import MONTHS, months_of

from sfumato.cli.several import add
from sfumato.errors import NewLedgerWarning, SfumatoError
from sfumato.kernel.ledger.ledger import Ledger, Receipt
from sfumato.publishing import publish
from sfumato.publishing.publish import release
from sfumato.queries.ranges import GRID
from sfumato.releases.file.series import append_part, open_series
from sfumato.releases.release import release_in
from sfumato.schema import Schema

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{NewLedgerWarning.__module__}.{NewLedgerWarning.__name__}"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="a process that can be forked"),
]

CELLS, MOST, GENERATION = 10, 2, 5  # after as many months, other people
STATED = Schema(
    dataset="visits",
    privacy_unit={"column": "who", "contributions": 1},
    budget={"epsilon": 100_000},
    attributes={"cell": {"type": "integer", "lower": 0, "upper": CELLS - 1}},
    series={"period": "month", "unit": f"person in at most {MOST} months"},
)
RUNNING = Schema(
    dataset="visits",
    privacy_unit={"column": "who", "contributions": 1},
    budget={"epsilon": 100_000},
    attributes={"cell": {"type": "integer", "lower": 0, "upper": CELLS - 1}},
    series={"period": "month", "unit": "person in a month", "periods": 7, "running": True},
)
SEVERAL = Schema(
    **{**RUNNING.to_dict(), "series": {**RUNNING.to_dict()["series"], "unit": "person in at most 3 months"}}
)
ROOMS = (
    "publishing/publish.py",
    "releases/file/series.py",
    "releases/file/artifact.py",
    "kernel/opening.py",
    "kernel/curator.py",
)


@pytest.fixture(scope="module", autouse=True)
def _nothing_older_is_looked_through():
    """What other tests left is neither searched for files left open, some hundred times, nor copied by children."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Killed(BaseException):
    """What nothing catches."""


def _traced(work, visit):
    """Run work, and visit each line of publishing, files, opening, ledger and register before it is run."""

    def trace(frame, event, _):
        name = frame.f_code.co_filename
        if "kernel/ledger/" not in name and not name.endswith(ROOMS):
            return None
        if event == "line":
            visit((name, frame.f_lineno))
        return trace

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(earlier)


def _killed_at(line, visits, work, *, outright):
    """Whether work came to its nth visit of a line and died there.

    outright: in a process that ends without a word, as by SIGKILL; else by an exception, as by Ctrl-C. Between the body
    of a `with` and its end Python lets no Ctrl-C through, a trace does: a file that is left open there is no fault.
    """
    left = [visits]

    def visit(at):
        if at == line:
            left[0] -= 1
            if left[0] == 0:
                if outright:
                    os._exit(9)
                raise Killed

    if not outright:
        with warnings.catch_warnings():
            if linecache.getline(*line).lstrip().startswith("with "):
                warnings.simplefilter("ignore", ResourceWarning)
            try:
                _traced(work, visit)
            except Killed:
                return True
            finally:
                gc.collect()  # what was left open shows here
        return False
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _traced(work, visit)
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


class Clinic:
    """A series of months in a folder, and what must be true of it at every moment."""

    def __init__(self, folder, drawn):
        self.path, self.ledger, self.drawn = folder / "visits.sfumato", Ledger(folder / "ledger.sqlite"), drawn
        self.month, self.entries, self.parts, self.records, self.artifacts = 0, 0, [], [], []

    @property
    def period(self):
        return f"{2026 + self.month // 12}-{1 + self.month % 12:02}"

    def append(self, *, again=True, correct=False):
        cells = sorted(self.drawn.sample(range(CELLS), 6))
        table = pa.table({"who": [f"{cell} of {self.month // GENERATION}" for cell in cells], "cell": cells})
        kept = {"ledger": self.ledger, "series": self.path, "period": self.period}
        release(table, STATED, 50, mechanism="cells", again=again, correct=correct, **kept)

    def left(self):
        return sorted(self.path.parent.glob("visits.sfumato.*.part"))

    def check(self, new):
        """Check every byte and entry; new: how many parts, and entries of the ledger, may have come."""
        file = open_series(self.path) if self.path.exists() else None
        self.records = file.head.parts if file else []
        self.artifacts = [file.artifact(part) for part in self.records]  # refused where a byte is another
        parts = [part.sha256 for part in self.records]
        assert parts[: len(self.parts)] == self.parts and len(parts) <= len(self.parts) + new
        entries = self.ledger.entries("visits")
        assert len(parts) <= len(entries) <= self.entries + new
        receipts = [artifact.manifest.receipt for artifact in self.artifacts]
        paid = Counter(entry.nonce for entry in entries)
        assert all(paid[one["nonce"]] == 1 and entries[one["entry"] - 1].nonce == one["nonce"] for one in receipts)
        assert len({one["nonce"] for one in receipts}) == len(receipts)
        assert all(entries[one["entry"] - 1].state == "published" for one in receipts)
        self.parts, self.entries = parts, len(entries)

    def refused(self, *words, **how):
        """A clean attempt that is refused in one line and costs nothing."""
        with pytest.raises(SfumatoError) as caught:
            self.append(**how)
        said = str(caught.value)
        assert "\n" not in said and all(word in said for word in words), said
        self.check(new=0)

    def go_on(self, *, correct):
        """What a person does after a kill: the same again, and then what a refusal says."""
        there = any(part.period == self.period for part in self.records)
        if left := self.left():
            (part,), entries = left, self.entries
            self.refused(str(part), "sfumato series add", correct=correct)
            add(self.path, part, self.period, correct=correct, ledger=self.ledger.path, quiet=True)
            self.check(new=1)
            assert not self.left() and self.entries == entries
            assert self.ledger.entries("visits")[-1].state == "published"
        elif there and not correct:
            self.refused("--correct")
        else:
            try:
                self.append(again=False, correct=correct)
            except SfumatoError as problem:
                assert "--again" in str(problem) and "\n" not in str(problem)
                self.check(new=0)
                self.append(correct=correct)
            self.check(new=1)
        assert self.records[-1].period == self.period

    def counted(self):
        """In how many periods each person was counted, over all parts, corrected ones too."""
        found = set()
        for part, artifact in zip(self.records, self.artifacts, strict=True):
            year, month = map(int, part.period.split("-"))
            generation = (12 * (year - 2026) + month - 1) // GENERATION
            for cell, many in release_in(artifact).marginal("cell").rows:
                if many.value > 0.5:
                    found.add((cell, generation, part.period))
        return Counter(person[:2] for person in found)


class RunningClinic(Clinic):
    """The same with noise that is spread over time: every part has errors of its own, whatever was killed before."""

    stated = RUNNING

    @staticmethod
    def _cells(period):
        return sorted(random.Random(period).sample(range(CELLS), 6))

    def append(self, *, again=True, correct=False):
        people = [f"{self.period} {cell}" for cell in range(6)]
        table = pa.table({"who": people, "cell": self._cells(self.period)})
        kept = {"ledger": self.ledger, "series": self.path, "period": self.period}
        release(table, self.stated, 50, delta="1e-9", again=again, correct=correct, **kept)

    def check(self, new):
        super().check(new)
        past, seen = f"{self.ledger.path}.noise", set()
        for part, artifact in zip(self.records, self.artifacts, strict=True):
            (fit,) = release_in(artifact).content.fits
            place = fit.trail.run, len(fit.trail.weights)
            assert place not in seen  # errors are used once
            seen.add(place)
            ((noise,),) = raw(past, f"SELECT noise FROM parts WHERE run = '{place[0]}' AND place = {place[1]}")[0]
            counts = np.bincount(self._cells(part.period), minlength=CELLS)
            assert (fit.measurement.answers == GRID * counts + np.frombuffer(noise, dtype="<i8")).all()

    def counted(self):
        return Counter()


class SeveralClinic(RunningClinic):
    """The same where a person may be in three of seven periods: with a register, and corrections by themselves."""

    stated = SEVERAL


def _line_of(text):
    """The one line of publishing that has a text."""
    (number,) = [at for at, line in enumerate(inspect.getsource(publish).splitlines(), 1) if line.strip() == text]
    return publish.__file__, number


@cache
def _steps(kind):
    """Visits of each line by a further part, by number: those of each room, and those since the part is paid for."""
    first = _line_of("made.save(place)")
    visits, late, begun = {}, {}, set()

    def visit(at):
        visits.setdefault(at, []).append(len(visits.get(at, ())) + 1)
        if begun or at == first:
            begun.add(at)
            late.setdefault(at, []).append(len(visits[at]))

    with TemporaryDirectory() as folder:
        clinic = kind(Path(folder), random.Random(0))
        clinic.append()
        clinic.month = 1
        _traced(clinic.append, visit)
    rooms = {name: {at: visits[at] for at in visits if at[0] == name} for name, _ in visits}
    return [rooms[name] for name in sorted(rooms)], late


def _kill_again_and_again(folder, kills, seed, kind=Clinic):
    """Kill appending before random lines and go on; how often a part was left beside the series, or came into it."""
    folder.mkdir()
    drawn, (rooms, late), seen = random.Random(seed), _steps(kind), Counter()
    clinic = kind(folder, drawn)
    while seen["killed"] < kills:
        correct = bool(clinic.parts) and clinic.records[-1].period == clinic.period and drawn.random() < 0.3
        clinic.month += not correct
        outright, before = drawn.random() < 0.5, len(clinic.parts)
        lines = late if drawn.random() < 0.4 else drawn.choice(rooms)
        line = drawn.choice(sorted(lines))
        killed = _killed_at(line, drawn.choice(lines[line]), partial(clinic.append, correct=correct), outright=outright)
        clinic.check(new=1)
        if killed:
            seen.update(["killed", "outright" if outright else "interrupted"])
            seen.update([(bool(clinic.left()), len(clinic.parts) > before)])
            if clinic.left() or drawn.random() < 0.5:  # else a part that is never tried again
                clinic.go_on(correct=correct)
    assert max(clinic.counted().values(), default=0) <= MOST
    return seen


@pytest.mark.parametrize("kind", [Clinic, RunningClinic, SeveralClinic])
def test_kills_at_steps_of_appending(tmp_path, kind):
    assert _kill_again_and_again(tmp_path / "visits", 3, 1, kind)["killed"] == 3


def test_forty_kills_of_adding_alone(tmp_path):
    """The file is the old one or the new one, byte for byte, and adding once more makes it the new one."""
    drawn, path, seen = random.Random(3), tmp_path / "visits.sfumato", Counter()
    parts = [
        replace(one, published=None).save(tmp_path / month)
        for one, month in zip(months_of("cells"), MONTHS, strict=True)
    ]
    append_part(path, parts[0], MONTHS[0])
    before, visits = path.read_bytes(), Counter()
    adding = partial(append_part, path, parts[1], MONTHS[1])
    _traced(adding, lambda at: visits.update([at]))
    after = path.read_bytes()
    while seen["killed"] < 40:
        path.write_bytes(before)
        line = drawn.choice(sorted(visits))
        seen["killed"] += _killed_at(line, drawn.randint(1, visits[line]), adding, outright=drawn.random() < 0.25)
        assert path.read_bytes() in (before, after)
        adding()
        assert path.read_bytes() == after


def test_a_part_that_the_ledger_was_not_told_of_is_published_when_it_is_added(tmp_path):
    """Killed between the part's own file and the ledger's mark: it counts as spent before and after, once."""
    clinic = Clinic(tmp_path, random.Random(4))
    assert _killed_at(_line_of("ledger.publish(receipt, digest)"), 1, clinic.append, outright=True)
    clinic.check(new=1)
    (part,), (entry,) = clinic.left(), clinic.ledger.entries("visits")
    assert entry.state == "reserved" and not clinic.parts
    with pytest.raises(SfumatoError, match="of 2026-01, not of 2026-02"):
        publish.add_part(clinic.path, part, "2026-02", clinic.ledger)
    assert publish.add_part(tmp_path / "copy.sfumato", part, "2026-01", Ledger(tmp_path / "other.sqlite")) is None
    assert clinic.ledger.entries("visits")[0].state == "reserved"
    spent = clinic.ledger.account("visits").spent
    clinic.go_on(correct=False)
    (entry,) = clinic.ledger.entries("visits")
    assert entry.state == "published" and clinic.ledger.account("visits").spent == spent
    clinic.ledger.verify(Receipt.from_dict(clinic.artifacts[0].manifest.receipt), clinic.artifacts[0].digest)


@pytest.mark.parametrize("correct", [False, True])
def test_a_part_that_is_in_the_series_and_still_beside_it_is_not_added_twice(tmp_path, correct):
    """Killed between the two last steps: the new file is there, and the part of its own too."""
    clinic = Clinic(tmp_path, random.Random(2))
    if correct:
        clinic.append()
        clinic.check(new=1)
    work = partial(clinic.append, correct=correct)
    assert _killed_at(_line_of("place.unlink()"), 1, work, outright=True)
    clinic.check(new=1)
    assert len(clinic.left()) == 1 and len(clinic.parts) == 1 + correct
    clinic.go_on(correct=correct)
    assert not clinic.left() and len(clinic.parts) == clinic.entries == 1 + correct


KINDS = (Clinic, Clinic, SeveralClinic, RunningClinic)


@pytest.mark.full
def test_two_hundred_kills_at_steps_of_appending_and_a_thousand_by_pytest_full(tmp_path, full):
    """200 kills and more, until one left a part beside the series or not, and in it or not, in all four ways."""
    seen, kills = Counter(), 0
    each = [(beside, within) for beside in (False, True) for within in (False, True)]
    for seed in range(2, 102):
        seen.update(_kill_again_and_again(tmp_path / str(seed), 10, seed, KINDS[seed % 4]))
        kills += 10
        if not full and kills >= 200 and all(seen[one] for one in each):
            break
    assert seen["killed"] == kills and seen["outright"] > 0.4 * kills < seen["interrupted"]
    assert all(seen[one] for one in each), seen
