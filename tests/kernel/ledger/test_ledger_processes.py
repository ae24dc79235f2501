"""Several processes at one ledger: no race overspends, and no crash loses a receipt that was handed out."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from fractions import Fraction

import pytest
from ledgers import reserve
from waiting import PATIENCE

from sfumato.errors import BudgetExhausted, LedgerError
from sfumato.kernel.ledger.ledger import Ledger, Receipt

RESERVE_ONCE = """
import secrets, sys
from sfumato.errors import BudgetExhausted
from sfumato.kernel.ledger.ledger import ROW, Ledger
from sfumato.kernel.ledger.reservation import Wanted
print("ready", flush=True)
sys.stdin.readline()
try:
    wanted = Wanted("census", "0.1", limit="0.3", mechanism="cells", unit=ROW, contributions=1)
    Ledger(sys.argv[1]).reserve(wanted, secrets.token_hex(16))
    print("granted")
except BudgetExhausted:
    print("refused")
"""

RESERVE_FOR_EVER = """
import json, secrets, sys
from sfumato.kernel.ledger.ledger import ROW, Ledger
from sfumato.kernel.ledger.reservation import Wanted
ledger = Ledger(sys.argv[1])
print("ready", flush=True)
while True:
    wanted = Wanted("census", "1e-6", limit=1, mechanism="cells", unit=ROW, contributions=1)
    receipt = ledger.reserve(wanted, secrets.token_hex(16))
    print(json.dumps(receipt.to_dict()), flush=True)
"""


def start(script, path):
    command = [sys.executable, "-c", script, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ledger_of(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


def nonce(number):
    return f"{number:032x}"


@pytest.mark.parametrize("already_there", [False, True])
def test_eight_processes_race_for_a_budget_that_admits_three(tmp_path, already_there):
    ledger = ledger_of(tmp_path)
    if already_there:
        ledger.set_budget("census", "0.3")
    children = [start(RESERVE_ONCE, ledger.path) for _ in range(8)]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = sorted(child.communicate(timeout=PATIENCE)[0].strip() for child in children)
    assert answers == ["granted"] * 3 + ["refused"] * 5
    assert ledger.show()[0].spent == Fraction(3, 10)
    assert list(tmp_path.iterdir()) == [ledger.path]


def test_threads_race_for_the_same_budget(tmp_path):
    ledger, granted, failures = ledger_of(tmp_path), [], []

    def ask(number):
        try:
            granted.append(reserve(ledger, limit="0.3", nonce=nonce(number)))
        except BudgetExhausted:
            pass
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(receipt.entry for receipt in granted) == [1, 2, 3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is POSIX")
def test_a_forked_child_shares_nothing(tmp_path):
    ledger = ledger_of(tmp_path)
    reserve(ledger, limit="0.3", nonce=nonce(1))
    child = os.fork()
    if child == 0:
        try:
            reserve(ledger, limit="0.3", nonce=nonce(2))
        finally:
            os._exit(0)
    reserve(ledger, limit="0.3", nonce=nonce(3))
    os.waitpid(child, 0)
    assert sorted(entry.nonce for entry in ledger.entries()) == [nonce(1), nonce(2), nonce(3)]


@pytest.mark.parametrize("kills", [8, pytest.param(30, marks=pytest.mark.full)])
def test_a_killed_process_never_loses_a_receipt(tmp_path, kills):
    """SIGKILL at random moments; the first ones may fall while the ledger is being created."""
    ledger, printed, draw = ledger_of(tmp_path), [], random.Random(11)
    for kill in range(kills):
        child = start(RESERVE_FOR_EVER, ledger.path)
        assert child.stdout.readline() == "ready\n"
        lines = [child.stdout.readline() for _ in range(0 if kill < 5 else draw.randrange(1, 5))]
        time.sleep(draw.uniform(0, 0.008))  # about two reservations
        child.kill()
        lines += child.stdout.read().splitlines(keepends=True)
        child.communicate(timeout=PATIENCE)
        printed += [Receipt.from_dict(json.loads(line)) for line in lines if line.endswith("\n")]
        entries = ledger.entries()  # rolls a hot journal back
        assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
        kept = {entry.number: entry.nonce for entry in entries}
        assert all(kept.get(receipt.entry) == receipt.nonce for receipt in printed)
        # A kill between commit and print over-counts by one; none under-counts.
        assert len(printed) <= len(entries) <= len(printed) + kill + 1
        assert sum(account.spent for account in ledger.show()) == Fraction(len(entries), 10**6)
    assert len(printed) >= kills - 5


CRASH_IN_MID_COMMIT = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("PRAGMA cache_spill = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("DELETE FROM entries")
for number in range(200):  # more than the cache holds, so that changed pages reach the file before the commit
    connection.execute("INSERT INTO budgets VALUES (?, ?, ?)", ("x" * 3000, "1/1", "0/1"))
print("spilled", flush=True)
sys.stdin.readline()
"""


def test_a_half_written_file_is_rolled_back_from_its_hot_journal(tmp_path):
    ledger = ledger_of(tmp_path)
    receipt = reserve(ledger, limit="0.3", nonce=nonce(1))
    before = ledger.path.stat().st_size
    child = start(CRASH_IN_MID_COMMIT, ledger.path)
    assert child.stdout.readline() == "spilled\n"
    with pytest.raises(LedgerError, match="locked by another process"):
        Ledger(ledger.path, timeout=0.05).entries()
    child.kill()
    child.communicate(timeout=PATIENCE)
    assert ledger.path.stat().st_size > before and (tmp_path / "ledger.sqlite-journal").stat().st_size > 0
    assert [entry.nonce for entry in ledger.entries()] == [receipt.nonce]
    assert ledger.path.stat().st_size == before and not (tmp_path / "ledger.sqlite-journal").exists()


def test_a_writer_waits_its_turn(tmp_path):
    ledger = ledger_of(tmp_path)
    ledger.set_budget("census", 1)
    child = start(CRASH_IN_MID_COMMIT, ledger.path)
    assert child.stdout.readline() == "spilled\n"
    threading.Timer(0.3, child.kill).start()
    receipt = reserve(ledger, limit=1, nonce=nonce(1))
    assert child.wait(timeout=PATIENCE) != 0
    child.communicate()
    assert receipt.entry == 1 and [account.dataset for account in ledger.show()] == ["census"]
