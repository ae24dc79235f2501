"""Replay audit of a series: publish every period of two neighbouring histories, and compare every call.

A history says in which months a person has a row. Each is published in full, by the kernel's own way in: the terms, the
ledger, the register, the reading of a table of all months, and then a mechanism whose noise is frozen (replay.py). One
month is published twice, as a correction is. What neighbours are follows from the promise: where it is about a person
in a month, histories differ by that person's row of one month, and what all parts lose together must be covered by what
the ledger says of that month. Else they differ by all rows of a person, and the ledger's account is the claim. Other
people move too: that somebody comes or goes must change nothing about them.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from sfumato.errors import NewLedgerWarning, SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel import opening
from sfumato.kernel.budget import Budget, Cost
from sfumato.kernel.ledger import register as register_module
from sfumato.kernel.ledger.book import Account, period_of
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.ledger.register import Register
from sfumato.kernel.reading.table import Table, open_table
from sfumato.lab.audit.attacks.exact import TOLERANCE
from sfumato.lab.audit.attacks.replay import Complaint, Recorded, ReplayFinding, compared, taped_on
from sfumato.lab.audit.attacks.tape import Tape, Watched
from sfumato.lab.audit.subjects.subject import Row
from sfumato.models.cells.cells import CELLS, cells
from sfumato.schema import Schema

MONTHS = ("2026-01", "2026-02", "2026-03", "2026-04")
PARTS = ("2026-01", "2026-02", "2026-03", "2026-02", "2026-04")  # in the order of publication
PROMISES = ("person in a month", "person in at most 2 months", "person for ever")
OTHERS = ((1, 1, 1, 0), (0, 1, 0, 1), (1, 0, 1, 1))  # months in which three other people are
ONE = Budget.pure(1)

History = tuple[int, ...]  # for each month, whether the person who comes and goes has a row in it
HISTORIES: tuple[History, ...] = tuple(product((0, 1), repeat=len(MONTHS)))


@dataclass(frozen=True, eq=False)
class _Published:
    """A whole series: the recorded run of each part, and what the ledger then says of the dataset."""

    parts: tuple[Recorded, ...]
    account: Account


@dataclass(frozen=True, eq=False)
class _Office:
    """Publisher of a series: its schema, and the classes of ledger, register and table that it uses."""

    schema: Schema
    ledger: type[Ledger] = Ledger
    register: type[Register] = Register
    table: type[Table] = Table

    def publish(self, history: History, heard: Sequence[Tape] | None = None) -> _Published:
        """Publish all parts of a history; with `heard`, what these tapes published is replayed to each."""
        parts = list[Recorded]()
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", NewLedgerWarning)
            ledger = self.ledger(Path(folder) / "ledger.sqlite")
            for number, period in enumerate(PARTS):
                opened = open_table(_rows(history), schema=self.schema)
                entropy, terms = Watched(number), opening.Terms(self.schema, Cost.of(ONE), CELLS.name, period=period)
                with patch.object(register_module, "Register", self.register):
                    held = opening.open_curator(
                        self.table(opened.engine),
                        terms,
                        ledger=ledger,
                        entropy=entropy,
                        step=lambda name: None,
                        nonce=f"{number:032x}",
                    )
                entropy.loose = 0  # the key by which rows are kept is the opening's, not the mechanism's
                tape = Tape(None if heard is None else heard[number])
                parts.append(taped_on(held.curator, cells, self.schema, ONE, entropy, tape))
            return _Published(tuple(parts), ledger.account(self.schema.dataset))


def series_schema(unit: str) -> Schema:
    """Schema of a monthly series: two cells, one row of each person. unit: the promise."""
    return Schema.from_dict(
        {
            "dataset": "audit",
            "privacy_unit": {"column": "person", "contributions": 1},
            "budget": {"epsilon": 100},
            "series": {"period": "month", "unit": unit, "periods": len(MONTHS), "column": "month"},
            "attributes": {"cell": {"type": "integer", "lower": 0, "upper": 1}},
        }
    )


def _rows(history: History) -> pa.Table:
    """The table of all months. The person of the history is 0; a person's cell changes from month to month."""
    people = [history, *OTHERS]
    rows = [
        (f"p{person}", (person + at) % 2, month)
        for person, months in enumerate(people)
        for at, month in enumerate(MONTHS)
        if months[at]
    ]
    names, types = ("person", "cell", "month"), (pa.string(), pa.int64(), pa.string())
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table({name: pa.array(each, kind) for name, kind, each in zip(names, types, columns, strict=True)})


def series_finding(
    unit: str,
    histories: Sequence[History] = HISTORIES,
    *,
    ledger: type[Ledger] = Ledger,
    register: type[Register] = Register,
    table: type[Table] = Table,
) -> ReplayFinding:
    """Replay a series on these histories and their neighbours. unit: the promise. The others: classes to audit."""
    office = _Office(series_schema(unit), ledger, register, table)
    silent = (0,) * len(MONTHS)
    try:
        first = office.publish(silent)
    except SfumatoError as refused:
        return ReplayFinding(
            f"a series, {unit}", Fraction(1), 0.0, 0, [Complaint(f"it was refused: {refused}", None, (), ())]
        )
    known, heard = {silent: first}, [part.tape for part in first.parts]
    pairs, worst, complaints = 0, 0.0, list[Complaint]()
    for history in histories:
        for other in _neighbours(unit, history):
            for each in (history, other):
                if each not in known:
                    known[each] = office.publish(each, heard)
            loss, said = _over_all(office.schema, (history, known[history]), (other, known[other]))
            pairs, worst = pairs + 1, max(worst, loss)
            complaints += [Complaint(what, None, _own(history), _own(other)) for what in said]
    return ReplayFinding(f"a series, {unit}", Fraction(1), worst, pairs, complaints)


def _neighbours(unit: str, history: History) -> list[History]:
    """Histories without the person; where the promise is about a month, without one of that person's months."""
    if unit != PROMISES[0]:
        return [(0,) * len(history)] if any(history) else []
    return [(*history[:at], 0, *history[at + 1 :]) for at, there in enumerate(history) if there]


def _own(history: History) -> tuple[Row, ...]:
    return tuple(Row(0, at % 2) for at, there in enumerate(history) if there)


def _over_all(
    schema: Schema, one: tuple[History, _Published], other: tuple[History, _Published]
) -> tuple[float, list[str]]:
    """Loss between two histories over all parts, relative to what the ledger says of them, and complaints."""
    (history, mine), (without, its), said, total = one, other, list[str](), 0.0
    moved = [at for at, month in enumerate(MONTHS) if history[at] != without[at]]
    for period, first, second in zip(PARTS, mine.parts, its.parts, strict=True):
        person = [Row(0, at % 2) for at in moved if MONTHS[at] == period]
        loss, faults = compared(first, second, person, ONE, 1)
        total += loss
        said += [f"{period}: {what}" for what, _ in faults]
    unit = opening.unit_of(schema)
    alone = unit.series is not None and unit.series.alone
    mark = period_of(unit, MONTHS[moved[0]]) if alone else None
    losses = tuple(loss for loss in mine.account.losses if mark is None or loss.period == mark)
    claimed = replace(mine.account, losses=losses).spent
    if total > claimed + TOLERANCE:
        said.append(f"all parts together lose {total:g} about one person, and the ledger says {float(claimed):g}")
    return total / float(claimed or 1), said


def first_fault(
    *, ledger: type[Ledger] = Ledger, register: type[Register] = Register, table: type[Table] = Table
) -> str | None:
    """First complaint of a few histories under each promise."""
    for unit, few in zip(PROMISES, (((0, 1, 1, 0),), ((1, 1, 1, 1), (0, 0, 1, 0)), ((1, 1, 1, 1),)), strict=True):
        for complaint in series_finding(unit, few, ledger=ledger, register=register, table=table).complaints:
            return complaint.what
    return None
