"""The ledger: what has been spent on each dataset, across processes and for ever.

One SQLite file. Order of work: reserve here (committed and fsynced), then read the table, then draw, then publish. A
reservation counts as spent from the moment it is committed, whatever comes of it, so a crash can only over-count.

- One connection per call, so a forked process shares nothing; every change is one BEGIN IMMEDIATE transaction, so two
  writers queue up and the second one sees what the first one spent.
- A rollback journal rather than WAL: writes are rare, and one plain file is what people back up. After a SIGKILL the
  next connection finds the hot journal and rolls the half-made change back. synchronous=EXTRA also fsyncs the folder,
  so a commit survives a loss of power.
- Each entry is chained to the one before it and a seal covers the rest, so damage and edited rows are noticed. The key
  is not secret: whoever owns the file can rebuild it all, put back an old copy or delete it. That shows as soon as a
  published release is checked, because its receipt names the ledger, the entry and a random nonce.
- Locking is the file system's: on NFS and other network drives it may be missing, so keep the ledger on a local disk.
  Symbolic links are followed; a hard link is not safe, because SQLite seeks the journal beside the name it is given.
- Entries are ordered by number; the time is for people and may jump with the clock. Nothing private is in here.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from sfumato.errors import BudgetError, BudgetExhausted, LedgerError
from sfumato.kernel.budget import Amount, as_delta, as_epsilon, readable
from sfumato.kernel.ledger_book import (
    NOTHING,
    Account,
    Book,
    Entry,
    Receipt,
    check_name,
    is_hex,
    write_fraction,
    write_total,
)
from sfumato.kernel.ledger_file import FORMAT, chained, create_file, explained, is_present, open_book, seal_of

__all__ = ["Account", "Entry", "Ledger", "Receipt", "default_path"]


class Ledger:
    """The ledger at a path, in SFUMATO_LEDGER or in the platform's data directory; created when first written to."""

    def __init__(self, path: Path | str | None = None, *, timeout: float = 10.0) -> None:
        """timeout: seconds to wait for another process that is writing."""
        named = default_path() if path is None else Path(path)
        try:
            # The file behind any symbolic links, so that all its names share one journal and one lock.
            self.path = named.expanduser().resolve()
        except (OSError, RuntimeError, ValueError):
            raise LedgerError(f"{str(named)!r} is no usable path for a ledger; name a file (--ledger)") from None
        self.timeout = timeout

    def reserve(
        self,
        dataset: str,
        epsilon: Amount,
        *,
        limit: Amount | None,
        mechanism: str,
        nonce: str,
        delta: Amount = 0,
        limit_delta: Amount | None = None,
    ) -> Receipt:
        """Spend before anything is read; committed and fsynced on return, or nothing is spent and an error says why.

        limit, limit_delta: the schema's totals. The smaller of each and the ledger's recorded total holds. Where nobody
        has stated a total delta, deltas are counted and may add up to anything below 1.
        nonce: 32 hexadecimal digits, new for each reservation, so that no retry can draw on an old debit.
        """
        check_name(dataset, "dataset")
        check_name(mechanism, "mechanism")
        if not is_hex(nonce):
            raise LedgerError("a reservation needs a nonce of 32 hexadecimal digits, such as secrets.token_hex(16)")
        asked, asked_delta = as_epsilon(epsilon), _delta(delta)
        stated = None if limit is None else as_epsilon(limit, "the budget's epsilon")
        stated_delta = None if limit_delta is None else _delta(limit_delta)
        with self._writing() as (connection, book):
            if dataset not in book.totals:
                if stated is None:
                    raise BudgetError(
                        f"dataset {dataset!r} has no total budget yet; state the total once: budget: {{epsilon: 3}} "
                        f"in the schema, or `sfumato ledger set {shlex.quote(dataset)} --epsilon 3`"
                    )
                book.totals[dataset] = stated, stated_delta
                connection.execute(
                    "INSERT INTO budgets VALUES (?, ?, ?)", (dataset, write_fraction(stated), write_total(stated_delta))
                )
            _refuse_overspending(book.account(dataset), asked, asked_delta, stated, stated_delta)
            if any(entry.nonce == nonce for entry in book.entries):
                raise LedgerError("this nonce has been used for another reservation; draw a new one for each")
            now = datetime.now(UTC).isoformat(timespec="seconds")
            row = (
                len(book.entries) + 1,
                dataset,
                write_fraction(asked),
                write_fraction(asked_delta),
                mechanism,
                nonce,
                now,
            )
            chain = chained(book.chain, row)
            connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, 'reserved', NULL, ?)", (*row, chain))
        return Receipt(book.id, row[0], dataset, asked, asked_delta, nonce)

    def publish(self, receipt: Receipt, digest: str) -> None:
        """Mark a reservation as published, once, with the digest of the manifest that carries its receipt."""
        check_name(digest, "digest")
        with self._writing(create=False) as (connection, book):
            entry = _matching(book, receipt)
            if entry.state != "reserved":
                raise LedgerError(f"entry {entry.number} has been published before; reserve anew for another release")
            change = "UPDATE entries SET state = 'published', digest = ? WHERE number = ?"
            connection.execute(change, (digest, entry.number))

    def verify(self, receipt: Receipt, digest: str) -> None:
        """Check a release against the ledger; silent when they agree."""
        book = self._book()
        if book is None:
            raise LedgerError(f"no ledger at {self.path}; name the one the release was made with (--ledger)")
        entry = _matching(book, receipt)
        if entry.state == "reserved":
            raise LedgerError(f"entry {entry.number} was reserved but never marked as published; ask the curator")
        if entry.digest != digest:
            raise LedgerError(f"entry {entry.number} was published with other contents; use the original release")

    def set_budget(self, dataset: str, epsilon: Amount, delta: Amount | None = None) -> None:
        """Record the total for a dataset; a delta that is not named stays as it was, unstated at first."""
        check_name(dataset, "dataset")
        total, total_delta = as_epsilon(epsilon), None if delta is None else _delta(delta)
        with self._writing() as (connection, book):
            if total_delta is None:
                total_delta = book.totals.get(dataset, (NOTHING, None))[1]
            connection.execute("DELETE FROM budgets WHERE dataset = ?", (dataset,))
            connection.execute(
                "INSERT INTO budgets VALUES (?, ?, ?)", (dataset, write_fraction(total), write_total(total_delta))
            )

    def show(self) -> list[Account]:
        """Every dataset with its total and what is spent, by name."""
        book = self._book()
        return [book.account(dataset) for dataset in sorted(book.totals)] if book else []

    def account(self, dataset: str) -> Account:
        """Where one dataset stands; nothing is spent on a dataset that the ledger does not know."""
        book = self._book()
        return (book or Book("", {}, ())).account(dataset)

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """The reservations, of one dataset or of all, in the order they were made."""
        book = self._book()
        return [entry for entry in book.entries if dataset in (None, entry.dataset)] if book else []

    def _book(self) -> Book | None:
        if not is_present(self.path):
            return None
        with self._transaction("BEGIN") as connection:
            return open_book(connection, self.path)

    @contextmanager
    def _writing(self, *, create: bool = True) -> Iterator[tuple[sqlite3.Connection, Book]]:
        if not is_present(self.path):
            if not create:
                raise LedgerError(f"no ledger at {self.path}; name the one the reservation was made in (--ledger)")
            with explained(self.path):
                create_file(self.path)
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection, open_book(connection, self.path)
            connection.execute(f"PRAGMA user_version = {FORMAT}")  # an older sfumato must not misread what is new
            connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with explained(self.path):
            # mode=rw never creates a file, and nothing but SQLite may open it: POSIX drops all locks a process holds
            # on a file as soon as it closes any descriptor of that file.
            where = f"{self.path.as_uri()}?mode=rw"
            connection = sqlite3.connect(where, uri=True, timeout=self.timeout, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA fullfsync = ON")  # macOS: a plain fsync stops at the drive's cache
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
            finally:
                connection.close()  # rolls back what was not committed


def default_path() -> Path:
    """Where the ledger is when nobody says: SFUMATO_LEDGER, or one per user in the platform's data directory."""
    named = os.environ.get("SFUMATO_LEDGER")
    if named:
        return Path(named)
    if sys.platform == "win32":
        data = Path(os.environ.get("APPDATA") or "~/AppData/Roaming")
    elif sys.platform == "darwin":
        data = Path("~/Library/Application Support")
    else:
        data = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share")
        if not data.is_absolute():  # the XDG specification: a relative path is to be ignored
            data = Path("~/.local/share")
    return data / "sfumato" / "ledger.sqlite"


def _refuse_overspending(
    account: Account, asked: Fraction, asked_delta: Fraction, stated: Fraction | None, stated_delta: Fraction | None
) -> None:
    """Exact comparisons, no tolerance: the privacy of the dataset rests on these lines."""
    total = account.total if stated is None else min(account.total, stated)
    totals_delta = [delta for delta in (account.total_delta, stated_delta) if delta is not None]
    needed, needed_delta = account.spent + asked, account.spent_delta + asked_delta
    enough_delta = needed_delta <= min(totals_delta) if totals_delta else needed_delta < 1
    if needed <= total and (enough_delta or asked_delta == 0):
        return
    name, set_total = repr(account.dataset), f"sfumato ledger set {shlex.quote(account.dataset)} --epsilon"
    if needed <= total:
        whole = min(totals_delta, default=Fraction(1))
        raise BudgetExhausted(
            f"asked for delta {readable(asked_delta)} on dataset {name}: {readable(account.spent_delta)} of its total "
            f"{readable(whole)} is spent, {readable(max(NOTHING, whole - account.spent_delta))} is left; use pure "
            f"epsilon (no --delta), or, if the data owner agrees, raise the total: `{set_total} "
            f"{readable(account.total)} --delta {readable(needed_delta)}`"
            + (" and budget: {delta: ...} in the schema" if stated_delta is not None else "")
        )
    note = ""
    if stated is not None and stated > account.total:
        note = f" (the schema says {readable(stated)}, but the total recorded in the ledger is smaller and holds)"
    elif stated is not None and stated < account.total:
        note = f" (the ledger says {readable(account.total)}, but the schema's total is smaller and holds)"
    places = [f"`{set_total} {readable(needed)}`"] if account.total < needed else []
    if stated is not None and stated < needed:
        places.append(f"budget: {{epsilon: {readable(needed)}}} in the schema")
    raise BudgetExhausted(
        f"asked for epsilon {readable(asked)} on dataset {name}: {readable(account.spent)} of its total "
        f"{readable(total)} is spent, {readable(max(NOTHING, total - account.spent))} is left{note}; ask for a smaller "
        f"--epsilon or, if the data owner agrees, raise the total: {' and '.join(places)}"
    )


def _matching(book: Book, receipt: Receipt) -> Entry:
    if receipt.ledger != book.id:
        raise LedgerError("the receipt was issued by another ledger; name the one the release was made with (--ledger)")
    if not 1 <= receipt.entry <= len(book.entries):
        raise LedgerError(
            f"the ledger has no entry {receipt.entry}, which the receipt names: entries were deleted or an old copy "
            "was put back; restore the latest backup"
        )
    entry = book.entries[receipt.entry - 1]
    recorded = Receipt(book.id, entry.number, entry.dataset, entry.epsilon, entry.delta, entry.nonce)
    if recorded != receipt:
        raise LedgerError(
            f"entry {receipt.entry} of the ledger is not the one on the receipt: the receipt was altered, or an old "
            "copy of the ledger was put back and written to; restore the latest backup"
        )
    return entry


def _delta(value: Amount) -> Fraction:
    return NOTHING if value == 0 and not isinstance(value, bool) else as_delta(value)
