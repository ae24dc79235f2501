"""The ledger's file: its tables, how it is created, read, sealed, and what can be wrong with it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sfumato.errors import LedgerError
from sfumato.kernel.ledger_book import Book, Entry, read_fraction, read_total

# Format 1 wrote a total delta of 0 where nobody had stated one. It cannot be told from a 0 that was meant, so it is
# kept as it is: too strict, and `sfumato ledger set` mends it. Format 2 says "unstated".
FORMAT = 2
APPLICATION = 0x5F0A702D  # marks the file as ours, so that no other database is ever written to
TABLES = (
    "CREATE TABLE meta (id TEXT NOT NULL, seal TEXT NOT NULL)",
    "CREATE TABLE budgets (dataset TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL)",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, dataset TEXT NOT NULL, epsilon TEXT NOT NULL, "
    "delta TEXT NOT NULL, mechanism TEXT NOT NULL, nonce TEXT NOT NULL, reserved_at TEXT NOT NULL, "
    "state TEXT NOT NULL, digest TEXT, chain TEXT NOT NULL)",
)
RESTORE = "restore it from a backup"
PERMIT = "make sure that you may write to it and to its folder, or name another file (--ledger)"
DAMAGED = f"is damaged; {RESTORE}"
PROBLEMS = {
    sqlite3.SQLITE_BUSY: "is locked by another process; wait until it is done and try again",
    sqlite3.SQLITE_LOCKED: "is locked by another process; wait until it is done and try again",
    sqlite3.SQLITE_NOTADB: f"is not a sfumato ledger, or is damaged; {RESTORE} or name another file (--ledger)",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_ERROR: DAMAGED,  # a table or a column is missing
    sqlite3.SQLITE_READONLY: f"is read-only; {PERMIT}",
    sqlite3.SQLITE_CANTOPEN: f"cannot be opened; {PERMIT}",
    sqlite3.SQLITE_FULL: "cannot grow because the disk is full; free some space and try again",
    sqlite3.SQLITE_IOERR: "cannot be read or written; check the disk, and keep the ledger on a local one",
}


def open_book(connection: sqlite3.Connection, path: Path) -> Book:
    """Read everything and check it: a few microseconds an entry, and no damage can make spent budget look unspent."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise LedgerError(f"{path} is not a sfumato ledger, or is damaged; {RESTORE} or name another file (--ledger)")
    if version > FORMAT:
        raise LedgerError(f"the ledger {path} is from a newer version of sfumato; upgrade sfumato")
    try:
        ((identity, seal),) = connection.execute("SELECT id, seal FROM meta")
        intact = version >= 1 and seal == seal_of(connection)
        totals = {
            dataset: (read_fraction(epsilon), read_total(delta))
            for dataset, epsilon, delta in connection.execute("SELECT dataset, epsilon, delta FROM budgets")
        }
        entries: list[Entry] = []
        chain = identity
        for number, row in enumerate(connection.execute("SELECT * FROM entries ORDER BY number"), start=1):
            chain = chained(chain, row[:7])
            entry = Entry(row[0], row[1], read_fraction(row[2]), read_fraction(row[3]), *row[4:])
            intact = intact and entry.number == number and entry.chain == chain and entry.dataset in totals
            entries.append(entry)
    except (TypeError, ValueError):
        intact = False
    if not intact:
        raise LedgerError(f"the ledger {path} is damaged or was altered by hand (its seal is broken); {RESTORE}")
    return Book(identity, totals, tuple(entries))


def chained(previous: str, row: tuple[object, ...]) -> str:
    """A digest over the immutable fields of an entry and, through the chain, of every entry before it."""
    return hashlib.sha256(json.dumps([previous, *row]).encode()).hexdigest()


def seal_of(connection: sqlite3.Connection) -> str:
    """A digest over what the chain leaves open: the totals, the states, and which entry is the last."""
    parts = [
        connection.execute(query).fetchall()
        for query in (
            "SELECT id FROM meta",
            "SELECT dataset, epsilon, delta FROM budgets ORDER BY dataset",
            "SELECT number, state, digest, chain FROM entries ORDER BY number",
        )
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def create_file(path: Path) -> None:
    """Write a new ledger beside its place and link it in whole, so that an empty file can only mean damage."""
    for folder in reversed([folder for folder in path.parents if not folder.is_dir()]):
        folder.mkdir(mode=0o700, exist_ok=True)
        _sync(folder.parent)  # or a loss of power could take the new folder, and the ledger in it, away
    if Path(f"{path}-journal").exists() and not is_present(path):
        # SQLite would play the old journal into the new ledger.
        raise LedgerError(f"the ledger {path} is gone but {path}-journal is still there; {RESTORE}")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    os.close(handle)
    try:
        connection = sqlite3.connect(name, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA journal_mode = MEMORY")  # nobody sees this file before it is complete
            connection.execute("BEGIN")
            for statement in TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            connection.execute("INSERT INTO meta VALUES (?, '')", (secrets.token_hex(16),))
            connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))
            connection.execute("COMMIT")
        finally:
            connection.close()
        with suppress(FileExistsError):  # another process was first, and its ledger is the one
            path.hardlink_to(name)
    finally:
        Path(name).unlink()


def _sync(folder: Path) -> None:
    """Make sure that what was created in a folder is still there after a loss of power."""
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def is_present(path: Path) -> bool:
    with explained(path):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            return False
    if not stat.S_ISREG(mode):
        raise LedgerError(f"the ledger {path} is a folder or a device, not a file; name another (--ledger)")
    return True


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Whatever SQLite or the system says, as one line with a remedy."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        # The low byte is the kind of error; without a code, Python met bytes that are not text.
        kind = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        raise LedgerError(f"the ledger {path} {PROBLEMS.get(kind, f'cannot be used ({error}); {RESTORE}')}") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise LedgerError(f"the ledger {path} cannot be used ({reason}); {PERMIT}") from error
