"""The noise of earlier parts of a series with running totals, which the noise of later parts partly takes back.

One private SQLite file beside the ledger; whoever has it can undo the published noise. A part is one release of the
series. Part number m of a run has the error E_m = Z_m - round(sum over earlier parts j of c_(m-j) E_j) in every cell,
in whole GRID-ths of a row, where Z_m is fresh noise and c are the coefficients of queries/ranges.py: theorem 13 in
docs/privacy.md. A run is the parts of one series with one schema, one noise and one number of planned parts; when these
are used up, another one begins.

Order of work: reserve in the ledger, read, draw, write E_m here (committed and fsynced), tell the ledger the digest of
this file, and only then use E_m on a count. So no error is ever used twice, and no number of a run is ever given to two
parts: both would tell more of earlier periods than was charged for them. A file that is missing, damaged, another
ledger's, or older than the ledger knows, refuses every further part. One that is newer was left by a crash.

Of the parts of one period only the newest is taken back: what a period was corrected to then stands in no measurement
beside what it was corrected from, and each part of a period has been charged in full. Where a person may be in several
periods (theorem 14), a second part of a period has noise of its own, as a run of one part.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Sequence

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.errors import PrivacyError, SchemaError
from sfumato.frozen import dataclass
from sfumato.kernel.ledger.book import Receipt, same_dataset
from sfumato.kernel.ledger.file import transaction
from sfumato.kernel.ledger.register import Beside
from sfumato.measurement import Noise, Trail
from sfumato.plain_text import write_fraction
from sfumato.queries.ranges import GRID, on_grid
from sfumato.schema import Schema

TABLES = (
    "CREATE TABLE meta (ledger TEXT NOT NULL)",
    "CREATE TABLE parts (number INTEGER PRIMARY KEY, series TEXT NOT NULL, run TEXT NOT NULL, design TEXT NOT NULL, "
    "place INTEGER NOT NULL, period TEXT NOT NULL, trail BLOB NOT NULL, noise BLOB NOT NULL, seal TEXT NOT NULL)",
)
NOT_COUNTED = "budget", "ledger", "expected_rows", "file"  # parts of a schema that say nothing of what is counted
LARGEST = 2**44  # of an error, in GRID-ths; sums of 4,096 of them, each times GRID at most, then stay below 2^63


class PastNoise(Beside):
    """The noise of the parts of one series: a dataset with a privacy unit and what is promised about it."""

    what, application = "noise", 0x5F0A7EC1
    purpose = "which has the noise of earlier periods"

    @property
    def place(self) -> int:
        """Index of this file's digest in `Entry.marks`: behind the register's, where one is kept."""
        return int(self.unit.series is not None and self.unit.series.keeps_register)

    def check(self) -> None:
        """Refuse to go on without the file that the ledger knows of; nothing is written."""
        marks = self._marks()
        if self._is_there(marks):
            with transaction(self.path, "BEGIN", self.ledger.timeout, self.what) as connection:
                self._verify(connection, marks, self.ledger.identity())

    def carried(self, receipt: Receipt, schema: Schema, period: str | None) -> Carried:
        """Past noise for one part: that of earlier parts whose schema counts the same, whatever its budget or file."""
        series = schema.series
        if series is None or series.periods is None or period is None:
            raise SchemaError("running totals are for a series that states how many periods are planned")
        counted = {key: part for key, part in schema.to_dict().items() if key not in NOT_COUNTED}
        about = hashlib.sha256(json.dumps(counted).encode()).hexdigest()
        return Carried(self, receipt, period, series.periods, about, schema.together)

    def errors(
        self, receipt: Receipt, period: str, design: str, planned: int, drawn: Callable[[], Whole], together: int = 1
    ) -> tuple[Trail, Whole]:
        """Errors of the next part of a run, in GRID-ths of a row; on return they are on disk, for this part alone.

        design: schema and noise, as text; another one begins another run. drawn: draws the fresh noise. together:
        number of periods in which one person may be.
        """
        marks, label = self._marks(), same_dataset(period)
        if not self._is_there(marks):
            self._make(TABLES, receipt.ledger)
        with transaction(self.path, "BEGIN IMMEDIATE", self.ledger.timeout, self.what) as connection:
            seal = self._verify(connection, marks, receipt.ledger)
            run, places = self._run(connection, design, planned)
            if self._apart(places, label, together):
                design, run, places = f"{design} again", None, []
            if run is None:  # known by the nonce of its first part
                run = receipt.nonce
            place, coefficients = len(places) + 1, on_grid(planned)
            taken, weights = None, np.zeros(place)
            weights[-1] = 1.0
            for earlier in self._standing(places, label):
                trail, noise = self._part(connection, run, earlier)
                step = coefficients[place - earlier]
                weights[:earlier] -= step / GRID * trail
                taken = step * noise if taken is None else taken + step * noise
            errors = drawn()
            if taken is not None:
                errors = errors - (2 * taken + GRID) // (2 * GRID)  # rounded: the same for taken + whole GRIDs
            if np.abs(errors).max(initial=0) > LARGEST:  # whatever is in the table: errors know nothing of it
                raise PrivacyError("The noise drawn does not fit 64 bits, so nothing was published; ask again")
            blobs = weights.astype("<f8").tobytes(), errors.astype("<i8").tobytes()
            row = (self.series, run, design, place, label, *blobs)
            seal = _sealed(seal, row)
            connection.execute("INSERT INTO parts VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, seal))
        self.ledger.registered(receipt, seal, self.place)
        return Trail(run, weights), errors

    def _run(self, connection: sqlite3.Connection, design: str, planned: int) -> tuple[str | None, list[str]]:
        """Run that the next part of this design continues, with the periods of its parts; None if a new run begins."""
        last = "SELECT run FROM parts WHERE series = ? AND design = ? ORDER BY number DESC LIMIT 1"
        run = connection.execute(last, (self.series, design)).fetchone()
        if run is None:
            return None, []
        told = "SELECT period FROM parts WHERE series = ? AND run = ? ORDER BY place"
        periods = [period for (period,) in connection.execute(told, (self.series, *run))]
        return (run[0], periods) if len(periods) < planned else (None, [])

    def _apart(self, periods: Sequence[str], label: str, together: int) -> bool:
        """Whether a part takes back no noise: its period has a part already, and a person may be in several periods."""
        return together > 1 and label in periods

    def _standing(self, periods: Sequence[str], label: str) -> list[int]:
        """Numbers of the parts whose errors are taken back: the newest of each other period."""
        newest = {period: place for place, period in enumerate(periods, start=1)}
        return sorted(place for period, place in newest.items() if period != label)

    def _part(self, connection: sqlite3.Connection, run: str, place: int) -> tuple[Floats, Whole]:
        told = "SELECT trail, noise FROM parts WHERE series = ? AND run = ? AND place = ?"
        trail, noise = connection.execute(told, (self.series, run, place)).fetchone()
        return np.frombuffer(trail, dtype="<f8"), np.frombuffer(noise, dtype="<i8").astype(np.int64)

    def _verify(self, connection: sqlite3.Connection, marks: Sequence[str], identity: str | None) -> str:
        """Last seal of the series; refuse a file that is damaged, another ledger's, or older than the ledger knows."""
        self._head(connection, identity)
        told = (
            "SELECT series, run, design, place, period, trail, noise, seal FROM parts WHERE series = ? ORDER BY number"
        )
        last, seals = "", set()
        for *row, seal in connection.execute(told, (self.series,)):
            if _sealed(last, row) != seal:
                self._refuse("is damaged or was altered")
            last = seal
            seals.add(seal)
        if not set(marks) <= seals:
            self._refuse("is an old copy, in which noise is missing that was used since")
        return last


def _sealed(before: str, row: Sequence[object]) -> str:
    """Digest of a part and of the seal before it."""
    parts = [hashlib.sha256(each).hexdigest() if isinstance(each, bytes) else each for each in row]
    return hashlib.sha256(json.dumps([before, *parts]).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Carried:
    """Past noise of a series for one part of it. planned: parts of a run. about: digest of the schema.

    together: number of periods in which one person may be.
    """

    past: PastNoise
    receipt: Receipt
    period: str
    planned: int
    about: str
    together: int = 1

    def errors(self, noises: Sequence[Noise], drawn: Callable[[], Whole]) -> tuple[Trail, Whole]:
        """Errors of this part, from fresh noise of these sizes; on return they are on disk, for this part alone."""
        sizes = [write_fraction(noise.parameter) for noise in noises]
        design = json.dumps([self.about, self.planned, GRID, sizes])
        return self.past.errors(self.receipt, self.period, design, self.planned, drawn, self.together)
