"""The register of a series: in which periods each person was counted, where nobody may be counted in more than k.

One SQLite file beside the ledger, and a key beside that; both are private. People are known by a hash of their name
under the key, so neither file alone says anything about anybody. Order of work: reserve in the ledger, read, record
here who would be counted (committed and fsynced), tell the ledger that this was done, and only then use a count.

- A crash can leave people recorded who were not counted, never the other way round. Whoever is recorded in a period
  already uses up no further one when it is published again; the cost adds up in the ledger.
- Whether a person is admitted follows from that person's own rows, in this table and in those of before, and from the
  public order of releases: theorem 12 in docs/privacy.md. Nothing tells how many were left out.
- The ledger keeps the digest of the register as it was before each release was counted. A register that is missing,
  damaged or older than that refuses every further part of its series. One that is newer was left by a crash.
- Time: one pass over the register for each check of it, some seconds for ten million people and periods.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import LedgerError
from sfumato.kernel.ledger.book import Receipt, Unit, same_dataset
from sfumato.kernel.ledger.file import appearing, create_file, explained, is_present, transaction
from sfumato.kernel.ledger.ledger import Ledger

TABLES = (
    "CREATE TABLE meta (ledger TEXT NOT NULL, proof BLOB NOT NULL)",
    "CREATE TABLE periods (number INTEGER PRIMARY KEY, series TEXT NOT NULL, label TEXT NOT NULL, "
    "people INTEGER NOT NULL, digest TEXT NOT NULL)",
    "CREATE TABLE counted (person BLOB NOT NULL, period INTEGER NOT NULL, PRIMARY KEY (person, period)) WITHOUT ROWID",
    "CREATE TABLE seals (number INTEGER PRIMARY KEY, series TEXT NOT NULL, seal TEXT NOT NULL)",
)
KEY = 32  # bytes, as those of a person's hash: of all people on earth no two share one, but for a chance of 1e-57


class Beside:
    """Private SQLite file next to the ledger, required to continue a series; the ledger records its digests.

    what: its name, in messages and at the end of its path. purpose, besides: for messages, its contents and further
    files to restore with it.
    """

    what: ClassVar[str]
    purpose: ClassVar[str]
    besides: ClassVar[str] = ""
    application: ClassVar[int]

    def __init__(self, ledger: Ledger, dataset: str, unit: Unit) -> None:
        """Name such a file; nothing is read or made yet."""
        self.ledger, self.dataset, self.unit = ledger, dataset, unit
        self.path = Path(f"{ledger.path}.{self.what}")
        self.series = json.dumps([same_dataset(dataset), unit.written(), unit.promised()])

    @property
    def place(self) -> int:
        """Index of this file's digest in `Entry.marks` of a ledger entry."""
        return 0

    def _marks(self) -> list[str]:
        """Digests of this private file in the ledger: one for each reservation of the series that counted people."""
        entries = (entry for entry in self.ledger.entries(self.dataset) if entry.unit == self.unit)
        return [mark for entry in entries for mark in entry.marks[self.place : self.place + 1]]

    def _is_there(self, marks: Sequence[str]) -> bool:
        if is_present(self.path, self.what):
            return True
        if marks:
            self._refuse("is missing")
        return False

    def _head(self, connection: sqlite3.Connection, identity: str | None) -> tuple[object, ...]:
        """Read the first row of the file; refuse a file of another kind or of another ledger."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        about = connection.execute("SELECT * FROM meta").fetchall() if application == self.application else []
        if len(about) != 1:
            self._refuse(f"is damaged, or no {self.what}")
        if about[0][0] != identity:
            self._refuse("belongs to another ledger")
        return tuple(about[0][1:])

    def _make(self, tables: Sequence[str], *head: object) -> None:
        """Make an empty file."""

        def fill(connection: sqlite3.Connection) -> None:
            for statement in tables:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {self.application}")
            connection.execute(f"INSERT INTO meta VALUES ({', '.join('?' * len(head))})", head)

        with explained(self.path, self.what):
            create_file(self.path, fill)

    def _refuse(self, problem: str) -> NoReturn:
        raise LedgerError(
            f"the {self.what} {self.path}, {self.purpose}, {problem}; without it no further part of dataset "
            f"{self.dataset!r} can keep its promise: restore {self.what}{self.besides} and ledger from the latest "
            "backup",
            kind="damaged",
        )


class Register(Beside):
    """The register of one series: a dataset with a privacy unit and what is promised about it."""

    what, application = "register", 0x5F0A7EC0
    purpose, besides = "which says who was counted in which period", ", key"

    def __init__(self, ledger: Ledger, dataset: str, unit: Unit) -> None:
        """Name a register; nothing is read or made yet."""
        if unit.series is None or unit.series.most is None:
            raise LedgerError("a register is kept where a person is counted in at most some number of periods")
        super().__init__(ledger, dataset, unit)
        self.most, self.key_path = unit.series.most, Path(f"{ledger.path}.register.key")

    def check(self) -> None:
        """Refuse to go on without the register that the ledger knows of; nothing is written."""
        marks = self._marks()
        if self._is_there(marks):
            key = self._key()
            with transaction(self.path, "BEGIN", self.ledger.timeout, self.what) as connection:
                self._verify(connection, key, marks, self.ledger.identity())

    def admit(self, receipt: Receipt, period: str, people: Sequence[bytes]) -> NDArray[np.bool_]:
        """Record people as counted in a period, nobody in more than `most` periods; return a flag for each person.

        On return all is on disk. people: everybody with a row that would be counted, once each.
        """
        marks, flags = self._marks(), np.zeros(len(people), dtype=bool)
        if not self._is_there(marks):
            self._create(receipt.ledger)
        key, place = self._key(), (self.series, same_dataset(period))
        with transaction(self.path, "BEGIN IMMEDIATE", self.ledger.timeout, self.what) as connection:
            self._verify(connection, key, marks, receipt.ledger)
            known = "SELECT number, people, digest FROM periods WHERE series = ? AND label = ?"
            number, many, digest = connection.execute(known, place).fetchone() or (None, 0, "0")
            if number is None:
                number = connection.execute("INSERT INTO periods VALUES (NULL, ?, ?, 0, '0')", place).lastrowid
            connection.execute("CREATE TEMP TABLE came (person BLOB PRIMARY KEY, place INTEGER) WITHOUT ROWID")
            rows = ((self._hashed(key, name), at) for at, name in enumerate(people))
            connection.executemany("INSERT INTO came VALUES (?, ?)", rows)
            connection.execute(
                "CREATE TEMP TABLE fresh AS SELECT person FROM came "
                "WHERE (SELECT COUNT(*) FROM counted WHERE counted.person = came.person) < ? "
                "AND NOT EXISTS (SELECT 1 FROM counted WHERE counted.person = came.person AND period = ?)",
                (self.most, number),
            )
            added, total = _summed(connection.execute("SELECT person FROM fresh"))
            connection.execute("INSERT INTO counted SELECT person, ? FROM fresh", (number,))
            told = (many + added, f"{(int(digest, 16) + total) % 256**KEY:x}", number)
            connection.execute("UPDATE periods SET people = ?, digest = ? WHERE number = ?", told)
            among = "EXISTS (SELECT 1 FROM counted WHERE counted.person = came.person AND period = ?)"
            for (at,) in connection.execute(f"SELECT place FROM came WHERE {among}", (number,)):
                flags[at] = True
            seal = _seal(connection, self.series)
            connection.execute("INSERT INTO seals VALUES (NULL, ?, ?)", (self.series, seal))
        self.ledger.registered(receipt, seal)
        return flags

    def _key(self) -> bytes:
        with explained(self.key_path, "register's key"):
            key = self.key_path.read_bytes() if is_present(self.key_path, "register's key") else b""
        if len(key) != KEY:
            self._refuse(f"has lost its key, {self.key_path}, which is {'damaged' if key else 'missing'}")
        return key

    def _create(self, identity: str) -> None:
        """Make a key, unless a crash has left one, and an empty register."""
        with explained(self.key_path, "register's key"):
            if not is_present(self.key_path):
                with appearing(self.key_path) as name, Path(name).open("wb") as file:
                    file.write(secrets.token_bytes(KEY))
                    file.flush()
                    os.fsync(file.fileno())
        self._make(TABLES, identity, _proof(self._key()))

    def _hashed(self, key: bytes, name: bytes) -> bytes:
        """Hash of a person's name within this series, for one register may serve several."""
        return hashlib.blake2b(self.series.encode() + b"\0" + name, digest_size=KEY, key=key).digest()

    def _verify(self, connection: sqlite3.Connection, key: bytes, marks: Sequence[str], identity: str | None) -> None:
        """Refuse a register that is damaged, another ledger's, or older than what the ledger knows of it."""
        (proof,) = self._head(connection, identity)
        if proof != _proof(key):
            self._refuse(f"was made with another key than {self.key_path}")
        seals = [seal for (seal,) in connection.execute("SELECT seal FROM seals WHERE series = ?", (self.series,))]
        if not set(marks) <= set(seals):
            self._refuse("is an old copy, in which people are missing who were counted since")
        told = {number: rest for number, *rest in connection.execute("SELECT number, people, digest FROM periods")}
        sums = {number: [0, 0] for number in told}
        with suppress(KeyError, TypeError):
            for person, period in connection.execute("SELECT person, period FROM counted"):
                sums[period][0] += 1
                sums[period][1] += int.from_bytes(person)
            same = told == {number: [many, f"{total % 256**KEY:x}"] for number, (many, total) in sums.items()}
            if same and (not seals or seals[-1] == _seal(connection, self.series, again=True)):
                return
        self._refuse("is damaged or was altered")


def _proof(key: bytes) -> bytes:
    """Digest of the hashing key, to recognise a wrong key."""
    return hashlib.blake2b(digest_size=KEY, key=key).digest()


def _summed(people: sqlite3.Cursor) -> tuple[int, int]:
    many = total = 0
    for (person,) in people:
        many, total = many + 1, total + int.from_bytes(person)
    return many, total


def _seal(connection: sqlite3.Connection, series: str, *, again: bool = False) -> str:
    """Digest of a series' periods and of the seal before it. again: recompute the last seal, to verify it."""
    before = connection.execute("SELECT seal FROM seals WHERE series = ? ORDER BY number", (series,)).fetchall()
    told = "SELECT label, people, digest FROM periods WHERE series = ? ORDER BY label"
    parts = [before[-2:-1] if again else before[-1:], series, connection.execute(told, (series,)).fetchall()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
