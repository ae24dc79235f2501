"""The ledger's SQLite file: its tables, how it is created, read, upgraded and sealed, and how damage is reported.

It also holds the history of totals: who stated or changed one, when and why, chained like the entries. A total is a
promise to the people in the data. Raising it is allowed, and leaves a line here that cannot be removed without breaking
the ledger's seal. The history is not private: a name, a time, two totals and the curator's words.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sfumato.errors import BudgetError, LedgerError
from sfumato.kernel.ledger.book import (
    Book,
    Change,
    Entry,
    Unit,
    chained,
    is_count,
    is_digest,
    is_name,
    read_fraction,
    read_rho,
    read_total,
    same_dataset,
    write_total,
)
from sfumato.kernel.ledger.composition import Total

IN_THE_SCHEMA = "stated in the schema"
NOT_STATED = "not stated"

Totals = dict[str, Total]


def record_change(
    connection: sqlite3.Connection, book: Book, dataset: str, total: Total, *, now: str, reason: str
) -> None:
    """Write a dataset's total and its line in the history, both in the open transaction.

    Where totals are recorded under two spellings of its name, both become the new one: the smaller would hold.
    """
    new = write_total(total)
    chain = book.changes[-1].chain if book.changes else book.id
    for number, name in enumerate(book.spellings(dataset) or (dataset,), start=len(book.changes) + 1):
        known = book.totals.get(name)
        old = (None, None) if known is None else write_total(known)
        row = (number, name, *old, *new, user_name(), now, reason)
        chain = chained(chain, row)
        connection.execute("DELETE FROM budgets WHERE dataset = ?", (name,))
        connection.execute("INSERT INTO budgets VALUES (?, ?, ?)", (name, *new))
        connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, chain))


def read_changes(connection: sqlite3.Connection, identity: str, totals: Totals) -> tuple[Change, ...]:
    """Read the history of totals and check that it leads to `totals`; a TypeError or ValueError if it does not."""
    changes: list[Change] = []
    known: Totals = {}
    chain = identity
    for number, row in enumerate(connection.execute("SELECT * FROM changes ORDER BY number"), start=1):
        chain = chained(chain, row[:9])
        old, new = row[2:4], read_total(*row[4:6])
        before = None if old == (None, None) else read_total(*old)
        was = (None, None, None) if before is None else (before.epsilon, before.delta, before.rho)
        who, at, reason, recorded = row[6:]
        old_total, old_delta, old_rho = was
        told = (old_total, old_delta, new.epsilon, new.delta, who, at, reason, recorded)
        change = Change(row[0], row[1], *told, new.rho, old_rho)
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
    """Validate the reason for a change; return it as the history keeps it."""
    if reason is None:
        return NOT_STATED
    if not is_name(reason):
        raise LedgerError(
            "the reason must be 1 to 200 printable characters without blanks around them; shorten it, or leave it out",
            kind="input",
        )
    return reason


def user_name() -> str:
    """Name of the user by the operating system, whatever environment variables say."""
    try:
        if os.name == "posix":
            import pwd

            name = pwd.getpwuid(os.getuid()).pw_name
        else:
            name = os.getlogin()
    except (KeyError, OSError):  # such as a number without a name, in a container
        return "unknown"
    return name if is_name(name) else "unknown"


# Format 1 wrote a total delta of 0 where nobody had stated one. It cannot be told from a 0 that was meant, so it is
# kept as it is: too strict, and `sfumato ledger set` mends it. Format 2 says "unstated". Format 3 records the privacy
# unit and the contributions of each entry, and keeps a history of the totals. Format 4 records what was asked for. In
# format 5 the spellings of a dataset's name, p and P, are one account. Nothing that was written changes: what was spent
# under each is added up, and the smaller total holds, whenever a ledger is read (`Book.account`). So there is nothing
# that a crash could interrupt; the new number keeps older versions from giving each spelling a budget of its own.
# Format 6 records the rho of each release, by which releases are added up; for older entries it follows from epsilon
# and delta as it did when they were made. In format 7 a total may be a rho; it records the period and the promise of a
# release that is part of a series, and the digest of the register with everybody whom it counts. Format 8 names the
# tables that a release was to hand out exactly.
FORMAT = 8
APPLICATION = 0x5F0A702D  # marks the file as ours, so that no other database is ever written to
CHANGES = (
    "CREATE TABLE changes (number INTEGER PRIMARY KEY, dataset TEXT NOT NULL, old_epsilon TEXT, old_delta TEXT, "
    "epsilon TEXT NOT NULL, delta TEXT NOT NULL, who TEXT NOT NULL, changed_at TEXT NOT NULL, reason TEXT NOT NULL, "
    "chain TEXT NOT NULL)"
)
TABLES = (
    "CREATE TABLE meta (id TEXT NOT NULL, seal TEXT NOT NULL)",
    "CREATE TABLE budgets (dataset TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL)",
    "CREATE TABLE entries (number INTEGER PRIMARY KEY, dataset TEXT NOT NULL, epsilon TEXT NOT NULL, "
    "delta TEXT NOT NULL, mechanism TEXT NOT NULL, nonce TEXT NOT NULL, reserved_at TEXT NOT NULL, "
    "state TEXT NOT NULL, digest TEXT, chain TEXT NOT NULL, unit TEXT, contributions INTEGER, request TEXT, "
    "rho TEXT, period TEXT, series TEXT, registered TEXT, exact TEXT)",
    CHANGES,
)
UPGRADES = {  # to each format; the new columns of old entries are NULL: nobody knows what they would say
    3: ("ALTER TABLE entries ADD COLUMN unit TEXT", "ALTER TABLE entries ADD COLUMN contributions INTEGER", CHANGES),
    4: ("ALTER TABLE entries ADD COLUMN request TEXT",),
    6: ("ALTER TABLE entries ADD COLUMN rho TEXT",),
    7: tuple(f"ALTER TABLE entries ADD COLUMN {name} TEXT" for name in ("period", "series", "registered")),
    8: ("ALTER TABLE entries ADD COLUMN exact TEXT",),
}
LATER_COLUMNS = {3: 2, 4: 3, 5: 3, 6: 4, 7: 7, 8: 8}  # how many columns of an entry each format has beyond the first's
RESTORE = "restore it from a backup"
PERMIT = "make sure that you may write to it and to its folder, or name another file (--ledger)"
DAMAGED = f"is damaged; {RESTORE}"
NOT_OURS = f"is not a sfumato ledger, or is damaged; {RESTORE} or name another file (--ledger)"
PROBLEMS = {
    sqlite3.SQLITE_BUSY: "is locked by another process; wait until it is done and try again",
    sqlite3.SQLITE_LOCKED: "is locked by another process; wait until it is done and try again",
    sqlite3.SQLITE_NOTADB: NOT_OURS,
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_ERROR: DAMAGED,  # a table or a column is missing
    sqlite3.SQLITE_READONLY: f"is read-only; {PERMIT}",
    sqlite3.SQLITE_CANTOPEN: f"cannot be opened; {PERMIT}",
    sqlite3.SQLITE_FULL: "cannot grow because the disk is full; free some space and try again",
    sqlite3.SQLITE_IOERR: "cannot be read or written; check the disk, and keep the ledger on a local one",
}


def open_book(connection: sqlite3.Connection, path: Path) -> Book:
    """Read and check a whole ledger, so that no damage can make spent budget look unspent."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise LedgerError(f"{path} {NOT_OURS}", kind="damaged")
    if version > FORMAT:
        raise LedgerError(f"the ledger {path} is from a newer version of sfumato; upgrade sfumato")
    try:
        ((identity, seal),) = connection.execute("SELECT id, seal FROM meta")
        intact = version >= 1 and seal == seal_of(connection, version)
        totals = {
            dataset: read_total(amount, delta)
            for dataset, amount, delta in connection.execute("SELECT dataset, epsilon, delta FROM budgets")
        }
        known = {same_dataset(name) for name in totals}
        entries: list[Entry] = []
        chain = identity
        for number, row in enumerate(connection.execute("SELECT * FROM entries ORDER BY number"), start=1):
            entry = _entry(row, version)
            chain = chained(chain, (*row[:7], *(field for field in row[10:16] + row[17:] if field is not None)))
            intact = intact and entry.number == number and entry.chain == chain
            intact = intact and (entry.dataset in totals or same_dataset(entry.dataset) in known)
            # Once units are recorded they are recorded for good.
            intact = intact and (entry.unit is not None or not entries or entries[-1].unit is None)
            entries.append(entry)
        changes = read_changes(connection, identity, totals) if version >= 3 else ()
    except (TypeError, ValueError, RecursionError, BudgetError):  # BudgetError: a total that is no amount of privacy
        intact = False
    if not intact:
        raise LedgerError(
            f"the ledger {path} is damaged or was altered by hand (its seal is broken); {RESTORE}", kind="damaged"
        )
    return Book(identity, totals, tuple(entries), changes)


def _entry(row: tuple[Any, ...], version: int) -> Entry:
    """Parse an entry of the file; a TypeError or ValueError if it is none of this format."""
    number, dataset, epsilon, delta, mechanism, nonce, at, state, digest, chain, *later = row
    if len(later) != LATER_COLUMNS.get(version, 0):
        raise ValueError("columns of another format")
    unit, contributions, request, rho, period, series, registered, exact = [*later, *[None] * 8][:8]
    if (unit is None) != (contributions is None) or not (unit is None or is_count(contributions)):
        raise ValueError("half a privacy unit")
    if not (request is None or (unit is not None and is_digest(request))):
        raise ValueError("no request")
    if unit is None and (rho, exact) != (None, None):
        raise ValueError("a rho or exact counts without a privacy unit")
    if (period is None) != (series is None) or not (period is None or (unit is not None and is_name(period))):
        raise ValueError("half a period")
    marks = [] if registered is None else str(registered).split(" ")
    if not (period is not None and len(marks) <= 2 and all(map(is_digest, marks))) and marks:
        raise ValueError("no digest of a register")
    amounts, kept = (read_fraction(epsilon), read_fraction(delta)), None if unit is None else Unit.read(unit, series)
    told = mechanism, nonce, at, state, digest, chain
    own = read_rho(rho, *amounts)
    sets = tuple(map(tuple, json.loads(exact or "[]")))
    return Entry(number, dataset, *amounts, *told, kept, contributions, request, own, period, registered, sets)


def upgrade(connection: sqlite3.Connection) -> None:
    """Upgrade a ledger of an older format, within the transaction that first writes to it.

    SQLite changes tables and the version inside the transaction as well, so that a crash leaves the old file, whole.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < FORMAT:
        for form in range(version + 1, FORMAT + 1):
            for statement in UPGRADES.get(form, ()):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT}")  # an older sfumato must not misread what is new


def seal_of(connection: sqlite3.Connection, version: int = FORMAT) -> str:
    """Digest of all that the hash chains leave open: totals, states, and the last entry and change."""
    queries = [
        "SELECT id FROM meta",
        "SELECT dataset, epsilon, delta FROM budgets ORDER BY dataset",
        "SELECT number, state, digest, chain FROM entries ORDER BY number",
    ]
    if version >= 3:
        queries.append("SELECT number, chain FROM changes ORDER BY number")
    if version >= 7:
        queries.append("SELECT number, registered FROM entries WHERE registered IS NOT NULL ORDER BY number")
    parts = [connection.execute(query).fetchall() for query in queries]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def create_ledger(connection: sqlite3.Connection) -> None:
    """Write the tables of a new ledger."""
    for statement in TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("INSERT INTO meta VALUES (?, '')", (secrets.token_hex(16),))
    connection.execute("UPDATE meta SET seal = ?", (seal_of(connection),))


def create_file(path: Path, fill: Callable[[sqlite3.Connection], None] = create_ledger) -> None:
    """Create a database atomically: written beside its place and linked in, so that an empty file is always damage.

    Only its owner may read it. fill: writes what is in it at first.
    """
    for folder in reversed([folder for folder in path.parents if not folder.is_dir()]):
        folder.mkdir(mode=0o700, exist_ok=True)
        _sync(folder.parent)  # or a loss of power could take the new folder, and the ledger in it, away
    if Path(f"{path}-journal").exists() and not is_present(path):
        # SQLite would play the old journal into the new ledger.
        raise LedgerError(f"{path} is gone but {path}-journal is still there; {RESTORE}")
    with appearing(path) as name:
        connection = sqlite3.connect(name, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA journal_mode = MEMORY")  # nobody sees this file before it is complete
            connection.execute("BEGIN")
            fill(connection)
            connection.execute("COMMIT")
        finally:
            connection.close()


@contextmanager
def appearing(path: Path) -> Iterator[str]:
    """Context that yields the name of a new file, which only its owner may read, and links it to its place, whole."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    os.close(handle)
    try:
        yield name
        with suppress(FileExistsError):  # another process was first, and its file is the one
            path.hardlink_to(name)
        _sync(path.parent)
    finally:
        Path(name).unlink()


def _sync(folder: Path) -> None:
    """Sync a folder, so that new files in it survive a loss of power."""
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def is_present(path: Path, what: str = "ledger") -> bool:
    with explained(path, what):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            return False
    if not stat.S_ISREG(mode):
        raise LedgerError(f"the {what} {path} is a folder or a device, not a file; name another (--ledger)")
    return True


@contextmanager
def transaction(path: Path, begin: str, timeout: float, what: str = "ledger") -> Iterator[sqlite3.Connection]:
    """Context of one transaction, durable when it ends and rolled back if it fails."""
    with explained(path, what):
        # mode=rw never creates a file, and nothing but SQLite may open it: POSIX drops all locks a process holds
        # on a file as soon as it closes any descriptor of that file.
        connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=timeout, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")  # macOS: a plain fsync stops at the drive's cache
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()  # rolls back what was not committed


@contextmanager
def explained(path: Path, what: str = "ledger") -> Iterator[None]:
    """Context that turns errors of SQLite or the system into a LedgerError with a remedy."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:
        # The low byte is the kind of error; without a code, Python met bytes that are not text.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        problem = PROBLEMS.get(code, f"cannot be used ({error}); {RESTORE}")
        raise LedgerError(f"the {what} {path} {problem}", kind="damaged" if "damaged" in problem else None) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise LedgerError(f"the {what} {path} cannot be used ({reason}); {PERMIT}") from error
