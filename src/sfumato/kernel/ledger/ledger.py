"""The ledger: the budget spent on each dataset, across processes and for ever.

One SQLite file. Order of work: reserve here (committed and fsynced), then read the table, then draw, then publish. A
reservation counts as spent from the moment it is committed, whatever comes of it, so a crash can only over-count.

- One connection per call, so a forked process shares nothing; every change is one BEGIN IMMEDIATE transaction, so two
  writers queue up and the second one sees what the first one spent.
- A rollback journal rather than WAL: one plain file is what people back up. After a SIGKILL the next connection rolls
  the half-made change back. synchronous=EXTRA also fsyncs the folder, so a commit survives a loss of power.
- Each entry is chained to the one before it and a seal covers the rest, so damage and edited rows are noticed. The key
  is not secret: whoever owns the file can rebuild it all, put back an old copy or delete it. That shows as soon as a
  published release is checked, because its receipt names the ledger, the entry and a random nonce.
- A ledger that is lost, or another user's, cannot be told from one that never was. So whoever writes the first line of
  a new one is warned, and a curator can require that there is one, or name its identity in the schema.
- Locking is the file system's: on NFS and other network drives it may be missing, so keep the ledger on a local disk.
  Symbolic links are followed; a hard link is not safe, because SQLite seeks the journal beside the name it is given.
- Entries are ordered by number; the time is for people and may jump with the clock. Nothing private is in here.
"""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from sfumato.errors import BudgetError, LedgerError, NewLedgerWarning
from sfumato.kernel.budget import Amount, as_epsilon
from sfumato.kernel.ledger.book import (
    ROW,
    Account,
    Book,
    Change,
    Entry,
    Promise,
    Receipt,
    Unit,
    chained,
    check_name,
    is_hex,
    same_dataset,
    write_rho,
)
from sfumato.kernel.ledger.composition import Total
from sfumato.kernel.ledger.file import (
    IN_THE_SCHEMA,
    check_reason,
    create_file,
    explained,
    is_present,
    open_book,
    record_change,
    seal_of,
    transaction,
    upgrade,
)
from sfumato.kernel.ledger.reservation import Wanted, delta_of, refuse_missing, refuse_other_ledger
from sfumato.plain_text import write_fraction

__all__ = ["ROW", "Account", "Change", "Entry", "Ledger", "Promise", "Receipt", "Unit", "default_path"]


class Ledger:
    """The ledger at a path, in SFUMATO_LEDGER or in the platform's data directory; created when first written to."""

    def __init__(self, path: Path | str | None = None, *, timeout: float = 10.0, required: bool = False) -> None:
        """Name a ledger; nothing is read or made yet.

        timeout: seconds to wait for another process that is writing.
        required: refuse, rather than make a new ledger, where there is none that has ever recorded anything.
        """
        named = default_path() if path is None else Path(path)
        try:
            # The file behind any symbolic links, so that all its names share one journal and one lock.
            self.path = named.expanduser().resolve()
        except (OSError, RuntimeError, ValueError):
            raise LedgerError(f"{str(named)!r} is no usable path for a ledger; name a file (--ledger)") from None
        self.where = "" if path is None else f" --ledger {shlex.quote(str(self.path))}"
        self.timeout = timeout
        self.required = required

    def reserve(self, wanted: Wanted, nonce: str) -> Receipt:
        """Reserve budget before any row is read: committed and fsynced on return, else an error and nothing is spent.

        nonce: 32 hexadecimal digits, new for each reservation, so that no retry can draw on an old debit.
        """
        if not is_hex(nonce):
            raise LedgerError("a reservation needs a nonce of 32 hexadecimal digits, such as secrets.token_hex(16)")
        wanted, dataset, request = replace(wanted, where=self.where), wanted.dataset, wanted.request
        with self._writing(identity=wanted.identity) as (connection, book):
            now, total = _now(), wanted.total_in(book)
            if book.total(dataset) is None:
                record_change(connection, book, dataset, total, now=now, reason=IN_THE_SCHEMA)
                book.totals[dataset] = total
            wanted.refuse_in(book)
            if any(entry.nonce == nonce for entry in book.entries):
                raise LedgerError("this nonce has been used for another reservation; draw a new one for each")
            number, amounts = len(book.entries) + 1, (write_fraction(wanted.epsilon), write_fraction(wanted.delta))
            row = (number, dataset, *amounts, wanted.mechanism, nonce, now)
            protected = (wanted.unit.written(), wanted.contributions)
            exact = json.dumps(wanted.exact) if wanted.exact else None
            told = (*protected, request, write_rho(wanted.rho), wanted.period, wanted.unit.promised(), exact)
            chain = chained(book.chain, (*row, *(field for field in told if field is not None)))
            connection.execute(
                "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, 'reserved', NULL, ?, ?, ?, ?, ?, ?, ?, NULL, ?)",
                (*row, chain, *told),
            )
        return Receipt(book.id, number, dataset, wanted.epsilon, wanted.delta, nonce)

    def foresee(self, wanted: Wanted) -> Account:
        """Validate a request as `reserve` would, without writing; return the dataset's account."""
        book, wanted = self._book(), replace(wanted, where=self.where)
        if book is None:
            if wanted.identity is not None:
                refuse_missing(self.path, wanted.identity)
            book = Book("", {}, (), ())
        else:
            refuse_other_ledger(book, self.path, required=self.required, identity=wanted.identity)
        book.totals[wanted.dataset] = wanted.total_in(book)
        return wanted.refuse_in(book)

    def publish(self, receipt: Receipt, digest: str) -> None:
        """Mark a reservation as published, once, with the digest of the manifest that carries its receipt."""
        check_name(digest, "digest")
        with self._writing(create=False) as (connection, book):
            entry = _matching(book, receipt)
            if entry.state != "reserved":
                raise LedgerError(f"entry {entry.number} has been published before; reserve anew for another release")
            change = "UPDATE entries SET state = 'published', digest = ? WHERE number = ?"
            connection.execute(change, (digest, entry.number))

    def registered(self, receipt: Receipt, seal: str, place: int = 0) -> None:
        """Record the digest of a private file (register, noise) that a reserved release updates before it counts.

        place: index of the digest in `Entry.marks`; the register's, where one is kept, is before that of the noise.
        """
        with self._writing(create=False) as (connection, book):
            entry = _matching(book, receipt)
            before = entry.marks[:place]
            if len(before) < place:
                raise LedgerError("the register has nobody yet whom this release may count", kind="damaged")
            told = " ".join([*before, seal])
            connection.execute("UPDATE entries SET registered = ? WHERE number = ?", (told, entry.number))

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

    def set_budget(
        self,
        dataset: str,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        *,
        rho: Amount | None = None,
        reason: str | None = None,
    ) -> None:
        """Record the total for a dataset, an epsilon or a rho, and in its history who did so and why.

        delta: one that is not named stays as it was, unstated at first.
        reason: one line for whoever reads the history; it is kept for ever, so nothing private belongs in it.
        """
        check_name(dataset, "dataset")
        why = check_reason(reason)
        if (epsilon is None) == (rho is None):
            raise BudgetError("a total is an epsilon or a rho; give one of them, such as --epsilon 3 or --rho 0.5")
        amount = as_epsilon(epsilon) if rho is None and epsilon is not None else as_epsilon(rho or 0, "rho")
        at = None if delta is None else delta_of(delta)
        with self._writing() as (connection, book):
            known = book.total(dataset)
            at = known.delta if at is None and known is not None else at
            total = Total(amount, at) if rho is None else Total.in_rho(amount, at or None)
            record_change(connection, book, dataset, total, now=_now(), reason=why)

    def show(self) -> list[Account]:
        """Accounts of all datasets, sorted by name; spellings of one name share an account."""
        book = self._book()
        names = {same_dataset(name): name for name in sorted(book.totals, reverse=True)} if book else {}
        return [book.account(name) for name in sorted(names.values())] if book else []

    def account(self, dataset: str) -> Account:
        """The account of one dataset; nothing is spent on a dataset that the ledger does not know."""
        book = self._book()
        return (book or Book("", {}, (), ())).account(dataset)

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """The reservations, of one dataset or of all, in the order they were made."""
        book = self._book()
        return [entry for entry in book.entries if _is_about(entry, dataset)] if book else []

    def changes(self, dataset: str) -> list[Change]:
        """The history of a dataset's total, in the order it was made."""
        book = self._book()
        return [change for change in book.changes if _is_about(change, dataset)] if book else []

    def identity(self) -> str | None:
        """The ledger's own name for itself, drawn at random when it was made; None where there is no ledger."""
        book = self._book()
        return book.id if book else None

    def _book(self) -> Book | None:
        if not is_present(self.path):
            if self.required:
                refuse_missing(self.path, None)
            return None
        with transaction(self.path, "BEGIN", self.timeout) as connection:
            return open_book(connection, self.path)

    @contextmanager
    def _writing(
        self, *, create: bool = True, identity: str | None = None
    ) -> Iterator[tuple[sqlite3.Connection, Book]]:
        if not is_present(self.path):
            if self.required or identity is not None:
                refuse_missing(self.path, identity)
            if not create:
                raise LedgerError(f"no ledger at {self.path}; name the one the reservation was made in (--ledger)")
            with explained(self.path):
                create_file(self.path)
        with transaction(self.path, "BEGIN IMMEDIATE", self.timeout) as connection:
            book = open_book(connection, self.path)
            refuse_other_ledger(book, self.path, required=self.required, identity=identity)
            blank = book.is_blank
            upgrade(connection)
            yield connection, book
            connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))
            if blank:
                # Before the commit: whoever makes an error of this warning has spent nothing. And whoever was refused
                # or killed with the file made but nothing in it is still told the next time.
                _warn_of_new_ledger(book.id, self.path)


def default_path() -> Path:
    """The default path of the ledger: SFUMATO_LEDGER, or one per user in the platform's data directory."""
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


def _warn_of_new_ledger(identity: str, path: Path) -> None:
    # The identity is new each time, so that Python does not take the text for one that it has shown before.
    warnings.warn(
        f"a NEW ledger was made at {path} (identity {identity}); it knows of no earlier release. If the dataset was "
        "released before, by another user, on another machine or with a ledger that was deleted, what was spent then "
        "is not counted: restore that ledger in its place, or name it with --ledger (SFUMATO_LEDGER)",
        NewLedgerWarning,
        stacklevel=2,
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


def _is_about(line: Entry | Change, dataset: str | None) -> bool:
    return dataset is None or same_dataset(line.dataset) == same_dataset(dataset)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
