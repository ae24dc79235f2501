"""The ledger under fire: killed, crowded, out of room, damaged, cut, put back, lost, and under a clock that is wrong.

What must hold every time: whatever was handed out is counted, nothing is granted twice, no total is exceeded, and a
ledger that was tampered with contradicts the receipt in some release.

The killing is done by a process of its own, which forks writers: run as a script this file is that process,
`python test_fire_ledger.py kills|spenders FOLDER NUMBER`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from sfumato.cli.show import left
from sfumato.errors import BudgetExhausted, LedgerError, ReleaseFileError
from sfumato.kernel.ledger import ledger as ledger_module
from sfumato.kernel.ledger.ledger import ROW, Ledger, Receipt
from sfumato.kernel.ledger.reservation import Wanted
from sfumato.publishing.prepare import Request
from sfumato.publishing.publish import publish
from sfumato.releases.file.artifact import read_artifact
from sfumato.schema import Schema

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork and SIGKILL are POSIX")

EPSILON = Fraction(1, 100)
SCHEMA = {
    "dataset": "fire",
    "privacy_unit": "row",
    "budget": {"epsilon": "0.4"},  # forty releases, so that the writers meet the end of the budget as well
    "attributes": {"x": {"type": "integer", "lower": 0, "upper": 9}},
}
PLAIN = {"mechanism": "cells", "unit": ROW, "contributions": 1}
STEPS = ("check", "reserve", "read", "measure", "write", "publish", "done")
# Beginnings of the statements of one change, in order; a writer is killed just before one of them is run.
STATEMENTS = (
    "PRAGMA synchronous",
    "BEGIN IMMEDIATE",
    "SELECT id, seal",
    "INSERT INTO changes",
    "INSERT INTO entries",
    "UPDATE entries",
    "UPDATE meta",
    "COMMIT",
)
PLANS = [*STEPS, *STATEMENTS, "random", "random", "random"]
ROUNDS_PER_LEDGER = 12


def table() -> pa.Table:
    return pa.table({"x": pa.array([n % 10 for n in range(50)], pa.int64())})


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def write_releases(folder: Path, path: Path, name: str, plan: str, after: int, said: int) -> None:
    """One writer: release after release until killed or refused; every step is told through the pipe `said`."""
    met = 0

    def meet(what: str) -> None:
        nonlocal met
        if what.startswith(plan):
            met += 1
            if met > after:
                die()

    def step(what: str) -> None:
        os.write(said, f"{what}\n".encode())  # a short write to a pipe is whole or not at all
        meet(what)

    if plan in STATEMENTS:
        connect = sqlite3.connect

        def traced(*arguments: object, **named: object) -> sqlite3.Connection:
            connection = connect(*arguments, **named)
            connection.set_trace_callback(meet)
            return connection

        ledger_module.sqlite3.connect = traced
    schema, rows = Schema.from_dict(SCHEMA), table()
    number = 0
    try:
        while True:
            number += 1
            out = folder / f"{name}-{number}.sfumato"
            asked = Request(schema, EPSILON, ledger=Ledger(path, timeout=60), again=True)
            publish(rows, asked, out, step=step)
    except BudgetExhausted:
        os.write(said, b"exhausted\n")
    os._exit(0)


def fork(work: Callable[[int], None]) -> tuple[int, int]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            work(writer)
        except BaseException as error:
            os.write(writer, f"error {type(error).__name__}: {error}\n"[:2000].encode())
        finally:
            os._exit(1)
    os.close(writer)
    return child, reader


def load_modules() -> None:
    """Import what a release needs before forking, as a child finds out: imports cost more than all else together."""

    def work(said: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            where = Path(folder)
            asked = Request(Schema.from_dict(SCHEMA), EPSILON, ledger=Ledger(where / "l"))
            publish(table(), asked, where / "r", step=lambda what: None)
        os.write(said, "\n".join(sys.modules).encode())
        os._exit(0)

    child, reader = fork(work)
    for name in told(reader):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    assert os.waitpid(child, 0)[1] == 0


def told(reader: int) -> list[str]:
    with os.fdopen(reader, "rb") as pipe:
        return pipe.read().decode().splitlines()


def check_ledger(folder: Path, path: Path, steps: Counter[str]) -> tuple[int, int]:
    """What must hold after any number of kills; steps: how often each step began, since the ledger was new."""
    ledger = Ledger(path)
    entries = ledger.entries()  # rolls a hot journal back
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    assert len({entry.nonce for entry in entries}) == len(entries)
    # "reserve" is told before the ledger is asked, "read" after it granted: never under-counted.
    assert steps["read"] <= len(entries) <= steps["reserve"], (steps, len(entries))
    account = ledger.account("fire")
    assert account.spent == EPSILON * len(entries) <= Fraction(2, 5)
    seen, unmarked = set(), 0
    for file in folder.glob("*.sfumato"):
        artifact = read_artifact(file)  # whole, whatever happened
        assert artifact.manifest.receipt is not None
        receipt = Receipt.from_dict(artifact.manifest.receipt)
        assert receipt.entry not in seen, "two releases on one debit"
        seen.add(receipt.entry)
        assert entries[receipt.entry - 1].nonce == receipt.nonce
        try:
            ledger.verify(receipt, artifact.digest)
        except LedgerError as error:
            assert "never marked as published" in str(error), error
            unmarked += 1
    assert sum(entry.state == "published" for entry in entries) == len(seen) - unmarked
    assert unmarked <= steps["killed"]
    return len(entries), len(seen)


def kill_writers(folder: Path, kills: int) -> None:
    """Rounds of two writers at one ledger, both killed, each in its own way; everything is checked after each round."""
    draw, done, total, ways = random.Random(41), 0, Counter[str](), Counter[str]()
    load_modules()
    round_number, queue, fresh = 0, deque(PLANS), True
    while done < kills:
        if fresh:
            place = folder / f"book-{round_number}"
            place.mkdir()
            path, steps = place / "ledger.sqlite", Counter[str]()
        children = []
        for which in "ab":
            plan = queue.popleft()
            name, after = f"{round_number}{which}", draw.randrange(3)
            children.append((*fork(partial(write_releases, place, path, name, plan, after)), plan))
        if any(plan == "random" for _, _, plan in children):
            time.sleep(draw.uniform(0, 0.25))
        for child, _, plan in children:
            if plan == "random":
                os.kill(child, signal.SIGKILL)
        for child, reader, plan in children:
            lines = told(reader)
            _, status = os.waitpid(child, 0)
            assert not any(line.startswith("error") for line in lines), lines
            steps.update(lines)
            if os.WIFSIGNALED(status):
                assert os.WTERMSIG(status) == signal.SIGKILL
                done += 1
                ways[plan] += 1
                steps["killed"] += 1
                queue.append(plan)
            else:
                assert "exhausted" in lines, (plan, lines)
                queue.appendleft(plan)  # it was not met before the budget was used up
        if path.exists():
            entries, files = check_ledger(place, path, steps)
        else:
            assert steps["read"] == 0
            entries = files = 0
        round_number += 1
        fresh = round_number % ROUNDS_PER_LEDGER == 0 or steps["exhausted"] > 0 or done >= kills
        if fresh:
            total["entries"] += entries
            total["files"] += files
            total["ledgers"] += 1
            shutil.rmtree(place)
    print(json.dumps({"kills": done, **total, "ways": ways}))


def spend_at_once(folder: Path, spenders: int) -> None:
    """Spenders that ask for amounts of many sizes on two datasets until they are refused twice in a row on each."""
    path = folder / "ledger.sqlite"
    gate, opened = os.pipe()
    children = []
    for number in range(spenders):

        def work(said: int, number: int = number) -> None:
            os.close(opened)
            os.read(gate, 1)
            draw, refused = random.Random(number), Counter[str]()
            ledger = Ledger(path, timeout=120)
            while min(refused["one"], refused["two"]) < 2:
                dataset, amount = draw.choice(["one", "two"]), Fraction(draw.randrange(1, 30), 700)
                nonce = f"{draw.getrandbits(128):032x}"
                try:
                    receipt = ledger.reserve(Wanted(dataset, amount, limit=1, **PLAIN), nonce)
                    os.write(said, (json.dumps(receipt.to_dict()) + "\n").encode())
                except BudgetExhausted:
                    refused[dataset] += 1
            os._exit(0)

        children.append(fork(work))
    os.close(opened)  # now all of them start
    granted = []
    for child, reader in children:
        lines = told(reader)
        assert os.waitpid(child, 0)[1] == 0, lines
        granted += [Receipt.from_dict(json.loads(line)) for line in lines]
    ledger = Ledger(path)
    entries = {entry.number: entry for entry in ledger.entries()}
    assert len(granted) == len(entries) == len({receipt.entry for receipt in granted})
    for receipt in granted:
        entry = entries[receipt.entry]
        assert (entry.nonce, entry.epsilon, entry.dataset) == (receipt.nonce, receipt.epsilon, receipt.dataset)
    for account in ledger.show():
        assert account.spent == sum(r.epsilon for r in granted if r.dataset == account.dataset) <= 1
        assert left(account) < Fraction(30, 700)  # the budget is used up, not lost
    print(json.dumps({"spenders": spenders, "granted": len(granted)}))


def run_script(what: str, folder: Path, number: int) -> dict:
    command = [sys.executable, __file__, what, str(folder), str(number)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3000, env=environment)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


def test_kills_at_every_step_and_at_random_with_two_writers(tmp_path, full):
    """34 kills; 1,000 in full. Three of seventeen fall at a random moment, the others at a step or an SQL statement."""
    kills = 1000 if full else 34
    found = run_script("kills", tmp_path, kills)
    if full:
        print(f"\nledger: {found}")
    assert found["kills"] >= kills and found["entries"] > kills / 8 and found["files"] > 0
    assert set(found["ways"]) == set(PLANS)


def test_many_spenders_at_once(tmp_path, full):
    """6 processes; 16 in full, five times."""
    for trial in range(5 if full else 1):
        folder = tmp_path / str(trial)
        folder.mkdir()
        found = run_script("spenders", folder, 16 if full else 6)
        if full:
            print(f"\nledger: {found}")
        assert found["granted"] > 50


# Disks


@pytest.fixture
def schema() -> Schema:
    return Schema.from_dict({**SCHEMA, "budget": {"epsilon": 3}})


def released(folder: Path, schema: Schema, name: str = "r", epsilon: object = 1) -> Path:
    out = folder / f"{name}.sfumato"
    asked = Request(schema, epsilon, ledger=Ledger(folder / "ledger.sqlite"), again=True)
    publish(table(), asked, out, step=lambda what: None)
    return out


def proof(release: Path) -> tuple[Receipt, str]:
    artifact = read_artifact(release)
    assert artifact.manifest.receipt is not None
    return Receipt.from_dict(artifact.manifest.receipt), artifact.digest


def test_a_disk_that_fills_up_at_any_byte(tmp_path, schema, full):
    """A limit on file sizes stands in for the full disk; it meets the journal, the ledger, the member or the file."""
    released(tmp_path, schema, "first", "0.001")
    ledger = Ledger(tmp_path / "ledger.sqlite")
    size = ledger.path.stat().st_size
    outcomes = Counter[str]()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    rooms = [0, 1, 300, 511, 512, 513, 700, 900, 1100, 1500, 2000, 3000, 4096, 4097, 8192, size - 1, size, size + 4096]
    for number, room in enumerate(rooms if not full else range(0, size + 8192, 97)):
        spent, out = ledger.account("fire").spent, tmp_path / f"{number}.sfumato"
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            publish(table(), Request(schema, "0.001", ledger=ledger, again=True), out, step=lambda what: None)
            outcomes["published"] += 1
        except (LedgerError, ReleaseFileError) as error:
            outcomes[type(error).__name__] += 1
            assert "\n" not in str(error)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        now = ledger.account("fire").spent
        assert now - spent in (0, Fraction(1, 1000))
        if out.exists():
            assert now > spent
            receipt, _ = proof(out)
            assert ledger.entries()[receipt.entry - 1].nonce == receipt.nonce
    signal.signal(signal.SIGXFSZ, handler)
    if full:
        print(f"\nledger: disk full at {sum(outcomes.values())} sizes: {dict(outcomes)}")
    assert outcomes["published"] > 0 and outcomes["LedgerError"] > 0
    assert [path.name for path in tmp_path.glob("*.partial")] == []


def test_a_read_only_ledger_stops_a_release_before_the_table_is_read(schema):
    """Root lends its effective user id, for root may write anywhere."""
    folder = Path(tempfile.mkdtemp())
    superuser = os.geteuid() == 0
    try:
        folder.chmod(0o777)
        if superuser:
            try:
                os.seteuid(65534)
            except OSError:
                pytest.skip("root cannot become another user here")
        place = folder / "books"
        ledger = Ledger(place / "ledger.sqlite")
        ledger.set_budget("fire", 3)
        for make_so in (lambda: ledger.path.chmod(0o400), lambda: place.chmod(0o500), lambda: ledger.path.chmod(0)):
            make_so()
            steps: list[str] = []
            with pytest.raises(LedgerError):
                publish(table(), Request(schema, 1, ledger=ledger), folder / "r.sfumato", step=steps.append)
            assert steps == ["plan", "check", "reserve"] and not (folder / "r.sfumato").exists()
        place.chmod(0o700)
        ledger.path.chmod(0o600)
        assert ledger.entries() == []
    finally:
        if superuser:
            os.seteuid(0)
        shutil.rmtree(folder)


# Damage


def test_flipped_bits_never_free_budget_or_pass_for_the_truth(tmp_path, full):
    """Every 301st bit; all of them in full. The ledger is spent to the last, so any grant is a fault."""
    schema = Schema.from_dict({**SCHEMA, "budget": {"epsilon": 2}})
    proofs = [proof(released(tmp_path, schema, name)) for name in ("one", "two")]
    ledger = Ledger(tmp_path / "ledger.sqlite", timeout=0.1)
    whole, truth = ledger.path.read_bytes(), ledger.entries()
    caught = unnoticed = 0
    for bit in range(0, 8 * len(whole), 1 if full else 301):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        for left_over in tmp_path.glob("ledger.sqlite-*"):
            left_over.unlink()
        ledger.path.write_bytes(damaged)
        try:
            ledger.reserve(Wanted("fire", "1e-9", limit=2, **PLAIN), f"{bit:032x}")
            pytest.fail(f"overspent after bit {bit} was flipped")
        except BudgetExhausted:
            assert ledger.entries() == truth
            for receipt, digest in proofs:
                ledger.verify(receipt, digest)
            unnoticed += 1  # in a page or a field that says nothing
        except LedgerError as error:
            assert "\n" not in str(error)
            caught += 1
    if full:
        print(f"\nledger: {caught:,} flipped bits refused, {unnoticed:,} without any meaning")
    assert caught > 0.02 * (caught + unnoticed)


def test_flipped_bits_in_a_hot_journal(tmp_path, full):
    """A crash leaves a journal, and the journal is damaged as well: the truth before, the truth after, or a refusal."""
    schema = Schema.from_dict({**SCHEMA, "budget": {"epsilon": 2}})
    held = proof(released(tmp_path, schema, "one"))
    path = tmp_path / "ledger.sqlite"
    before = Ledger(path).entries()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("DELETE FROM entries")
    for _ in range(20):  # more than the cache holds, so that changed pages reach the file
        connection.execute("INSERT INTO budgets VALUES (?, '1/1', '0/1')", ("x" * 3000,))
    half, journal = path.read_bytes(), Path(f"{path}-journal").read_bytes()
    connection.close()
    place = tmp_path / "crash"
    outcomes = Counter[str]()
    for bit in [None, *range(0, 8 * len(journal), 23 if full else 997)]:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        damaged = bytearray(journal)
        if bit is not None:
            damaged[bit // 8] ^= 1 << bit % 8
        (place / "ledger.sqlite").write_bytes(half)
        (place / "ledger.sqlite-journal").write_bytes(damaged)
        ledger = Ledger(place / "ledger.sqlite", timeout=0.1)
        try:
            assert ledger.entries() == before, bit
            ledger.verify(*held)
            with pytest.raises(BudgetExhausted):
                ledger.reserve(Wanted("fire", "1.5", limit=2, **PLAIN), "0" * 32)
            outcomes["rolled back"] += 1
        except LedgerError:
            outcomes["refused"] += 1
            assert bit is not None
    if full:
        print(f"\nledger: damaged journals: {dict(outcomes)}")
    assert outcomes["rolled back"] > 0 and outcomes["refused"] > 0


# Tampering by someone who knows the format


def rewrite(path: Path, change: Callable[[list[list[object]]], None]) -> None:
    """Change the entries and make number, chain and seal fit again; written anew, not with the ledger's own code."""
    connection = sqlite3.connect(path)
    rows = [list(row) for row in connection.execute("SELECT * FROM entries ORDER BY number")]
    (identity,) = connection.execute("SELECT id FROM meta").fetchone()
    change(rows)
    connection.execute("DELETE FROM entries")
    chain = identity
    for number, row in enumerate(rows, start=1):
        row[0], later = number, [field for field in row[10:] if field is not None]
        chain = row[9] = hashlib.sha256(json.dumps([chain, *row[:7], *later]).encode()).hexdigest()
        connection.execute(f"INSERT INTO entries VALUES ({','.join('?' * len(row))})", row)
    parts = [
        [[identity]],
        [list(row) for row in connection.execute("SELECT dataset, epsilon, delta FROM budgets ORDER BY dataset")],
        [[row[0], row[7], row[8], row[9]] for row in rows],
        [list(row) for row in connection.execute("SELECT number, chain FROM changes ORDER BY number")],
        [[row[0], row[16]] for row in rows if row[16] is not None],
    ]
    connection.execute("UPDATE meta SET seal = ?", (hashlib.sha256(json.dumps(parts).encode()).hexdigest(),))
    connection.commit()
    connection.close()


def cut(*places: int) -> Callable[[list[list[object]]], None]:
    return lambda rows: [rows.pop(place) for place in sorted(places, reverse=True)] and None


def put(place: int, column: int, value: object) -> Callable[[list[list[object]]], None]:
    def change(rows: list[list[object]]) -> None:
        rows[place][column] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        cut(0),
        cut(1),
        cut(2),
        cut(0, 1, 2),
        put(1, 2, "1/1000"),
        put(1, 1, "other"),
        put(2, 5, "0" * 32),
        put(0, 7, "reserved"),
        put(0, 8, "0" * 64),
        lambda rows: rows.reverse(),
        lambda rows: rows.insert(0, [*rows[0][:5], "1" * 32, *rows[0][6:]]),
    ],
)
def test_a_ledger_rebuilt_with_care_contradicts_some_release(change, tmp_path, schema):
    proofs = [proof(released(tmp_path, schema, name)) for name in ("one", "two", "three")]
    ledger = Ledger(tmp_path / "ledger.sqlite")
    rewrite(ledger.path, lambda rows: None)
    for receipt, digest in proofs:
        ledger.verify(receipt, digest)  # the forger's hand is good enough to go unnoticed where nothing changed
    rewrite(ledger.path, change)
    contradicted = 0
    for receipt, digest in proofs:
        try:
            ledger.verify(receipt, digest)
        except LedgerError as error:
            assert "\n" not in str(error)
            contradicted += 1
    assert contradicted >= 1


def test_an_old_backup_put_back_is_found_by_the_releases_made_since(tmp_path, schema):
    """At once, after a new release on the old copy, and after as many as before; the older releases still agree."""
    ledger = Ledger(tmp_path / "ledger.sqlite")
    first = proof(released(tmp_path, schema, "first"))
    shutil.copy(ledger.path, tmp_path / "backup")
    lost = proof(released(tmp_path, schema, "lost"))
    shutil.copy(tmp_path / "backup", ledger.path)
    for name in (None, "again", "once-more"):
        if name is not None:
            proof(released(tmp_path, schema, name))
        ledger.verify(*first)
        with pytest.raises(LedgerError, match="restore the latest backup"):
            ledger.verify(*lost)


def test_a_ledger_deleted_while_a_receipt_exists(tmp_path, schema):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    old = proof(released(tmp_path, schema, "old", 3))
    ledger.path.unlink()
    with pytest.raises(LedgerError, match="no ledger"):
        ledger.verify(*old)
    assert not ledger.path.exists()
    new = proof(released(tmp_path, schema, "new", 3))  # whoever deletes the ledger can spend again, and is found out
    ledger.verify(*new)
    with pytest.raises(LedgerError, match="another ledger"):
        ledger.verify(*old)


def test_a_clock_that_is_wrong_changes_nothing_but_the_dates(tmp_path, schema, monkeypatch):
    """Back by a century, ahead, standing still: what is spent stays spent and the order stays that of the entries."""
    now = datetime(2031, 5, 5, tzinfo=UTC)

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return now

    monkeypatch.setattr(ledger_module, "datetime", Clock)
    proofs = []
    for number, jump in enumerate([0, -36500, 0, 36500, -1, -20000]):
        now += timedelta(days=jump)
        proofs.append(proof(released(tmp_path, schema, str(number), "0.5")))
    ledger = Ledger(tmp_path / "ledger.sqlite")
    now -= timedelta(days=10000)
    with pytest.raises(BudgetExhausted):
        released(tmp_path, schema, "more", "1e-6")
    entries = ledger.entries()
    dates = [entry.reserved_at for entry in entries]
    assert dates != sorted(dates) and [entry.number for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert ledger.account("fire").spent == 3
    for receipt, digest in proofs:
        ledger.verify(receipt, digest)


if __name__ == "__main__":
    {"kills": kill_writers, "spenders": spend_at_once}[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]))
