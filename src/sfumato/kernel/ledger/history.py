"""The history of the totals: who stated or changed one, when and why, chained like the entries.

A total is a promise to the people in the data. Raising it is allowed and leaves a line here that cannot be taken out
again without breaking the ledger's seal. Nothing private is in it: a name, a time, two totals and the curator's words.
"""

from __future__ import annotations

import os
import sqlite3
from fractions import Fraction

from sfumato.errors import LedgerError
from sfumato.kernel.ledger.book import (
    Book,
    Change,
    chained,
    is_name,
    read_fraction,
    read_total,
    write_fraction,
    write_total,
)

IN_THE_SCHEMA = "stated in the schema"
NOT_STATED = "not stated"

Totals = dict[str, tuple[Fraction, Fraction | None]]


def record_change(
    connection: sqlite3.Connection,
    book: Book,
    dataset: str,
    total: Fraction,
    total_delta: Fraction | None,
    *,
    now: str,
    reason: str,
) -> None:
    """Write a dataset's total, and beside it the line that tells of it; both or neither, in the open transaction.

    Where totals are recorded under two spellings of its name, both become the new one: the smaller would hold.
    """
    new = write_fraction(total), write_total(total_delta)
    chain = book.changes[-1].chain if book.changes else book.id
    for number, name in enumerate(book.spellings(dataset) or (dataset,), start=len(book.changes) + 1):
        known = book.totals.get(name)
        old = (None, None) if known is None else (write_fraction(known[0]), write_total(known[1]))
        row = (number, name, *old, *new, user_name(), now, reason)
        chain = chained(chain, row)
        connection.execute("DELETE FROM budgets WHERE dataset = ?", (name,))
        connection.execute("INSERT INTO budgets VALUES (?, ?, ?)", (name, *new))
        connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, chain))


def read_changes(connection: sqlite3.Connection, identity: str, totals: Totals) -> tuple[Change, ...]:
    """The history, if it is whole and leads to the totals; a TypeError or ValueError says that it does not."""
    changes: list[Change] = []
    known: Totals = {}
    chain = identity
    for number, row in enumerate(connection.execute("SELECT * FROM changes ORDER BY number"), start=1):
        chain = chained(chain, row[:9])
        old, new = row[2:4], (read_fraction(row[4]), read_total(row[5]))
        before = None if old == (None, None) else (read_fraction(old[0]), read_total(old[1]))
        old_total, old_delta = before or (None, None)
        who, at, reason, recorded = row[6:]
        change = Change(row[0], row[1], old_total, old_delta, *new, who, at, reason, recorded)
        # A total of before the history was kept (formats 1 and 2) shows as the old total of its first change.
        follows = change.dataset not in known or known[change.dataset] == before
        if change.number != number or change.chain != chain or not follows:
            raise ValueError("a history that was altered")
        known[change.dataset] = new
        changes.append(change)
    if any(totals.get(dataset) != total for dataset, total in known.items()):
        raise ValueError("a total that its history does not lead to")
    return tuple(changes)


def check_reason(reason: str | None) -> str:
    """The reason for a change, as the history keeps it."""
    if reason is None:
        return NOT_STATED
    if not is_name(reason):
        raise LedgerError(
            "the reason must be 1 to 200 printable characters without blanks around them; shorten it, or leave it out",
            kind="input",
        )
    return reason


def user_name() -> str:
    """Whom the operating system takes for the one who runs this; no environment variable can say otherwise."""
    try:
        if os.name == "posix":
            import pwd

            name = pwd.getpwuid(os.getuid()).pw_name
        else:
            name = os.getlogin()
    except (KeyError, OSError):  # such as a number without a name, in a container
        return "unknown"
    return name if is_name(name) else "unknown"
