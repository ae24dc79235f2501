"""The ledger: exact sums, refusals with a remedy, and every kind of damage noticed."""

import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from ledgers import raw, refusal, reserve

from sfumato.cli.show import left, left_delta
from sfumato.errors import BudgetError, BudgetExhausted, LedgerError
from sfumato.kernel.ledger import ledger as module
from sfumato.kernel.ledger.book import same_dataset
from sfumato.kernel.ledger.composition import Loss
from sfumato.kernel.ledger.file import FORMAT, create_file
from sfumato.kernel.ledger.ledger import ROW, Account, Ledger, Promise, Receipt, default_path

DIGEST = "d" * 64
posix = pytest.mark.skipif(os.name != "posix", reason="file modes and user ids are POSIX")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.sqlite"


# Spending


def test_three_tenths_fit_into_0_3_and_not_a_hair_more(path):
    ledger = Ledger(path)
    for _ in range(3):
        reserve(ledger, 0.1, limit=0.3)
    message = refusal(BudgetExhausted, reserve, ledger, "1e-30")
    assert "asked for epsilon 1e-30 on dataset 'census': 0.3 of its total 0.3 is spent, 0 is left" in message
    assert "smaller --epsilon" in message and "sfumato ledger set census --epsilon 0.3" in message
    assert ledger.show()[0].spent == Fraction(3, 10)


def test_a_refusal_spends_and_records_nothing(path):
    ledger = Ledger(path)
    refusal(BudgetExhausted, reserve, ledger, "0.4")
    assert ledger.show() == [] and ledger.entries() == []


def test_a_total_must_be_stated_once(path):
    ledger = Ledger(path)
    message = refusal(BudgetError, reserve, ledger, limit=None)
    assert (
        "budget: {epsilon: 3} in the schema" in message
        and "`sfumato ledger set census --epsilon 3 --ledger " in message
    )
    ledger.set_budget("census", 3)
    assert reserve(ledger, limit=None).entry == 1


def test_the_first_schema_total_is_remembered(path):
    ledger = Ledger(path)
    reserve(ledger, "0.1", limit="0.3")
    assert ledger.show()[0].total == Fraction(3, 10)
    message = refusal(BudgetExhausted, reserve, ledger, "0.5", limit=None)
    assert "0.1 of its total 0.3 is spent, 0.2 is left for such a release;" in message


def test_the_smaller_total_holds(path):
    ledger = Ledger(path)
    ledger.set_budget("census", 1)
    message = refusal(BudgetExhausted, reserve, ledger, 2, limit=5)
    assert "the schema says 5, but the total recorded in the ledger is smaller and holds" in message
    assert "in the schema" not in message.split("raise the total")[1]  # raising it there would not help
    message = refusal(BudgetExhausted, reserve, ledger, "0.7", limit="0.5")
    assert "of its total 0.5" in message and "budget: {epsilon: 0.7} in the schema" in message
    assert "ledger set" not in message  # the ledger already allows it
    assert ledger.show()[0].total == 1


def test_a_raised_total_gives_room_and_a_lowered_one_takes_it(path):
    ledger = Ledger(path)
    reserve(ledger, "0.3")
    ledger.set_budget("census", "0.4")
    reserve(ledger, "0.1", limit=None)
    ledger.set_budget("census", "0.2")
    assert left(ledger.show()[0]) == 0
    refusal(BudgetExhausted, reserve, ledger, "1e-9", limit=None)


def test_datasets_have_budgets_of_their_own(path):
    ledger = Ledger(path)
    for dataset in ("zoo", "a b", "Åland"):
        assert reserve(ledger, "0.3", dataset=dataset).dataset == dataset
    assert [account.dataset for account in ledger.show()] == ["a b", "zoo", "Åland"]
    assert "ledger set 'a b' --epsilon" in refusal(BudgetExhausted, reserve, ledger, 1, dataset="a b")
    assert [entry.number for entry in ledger.entries("zoo")] == [1]
    assert [entry.number for entry in ledger.entries()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("first", "other"), [("p", "P"), ("Straße", "STRASSE"), ("caf\u00e9", "CAFE\u0301"), ("\u212a", "k"), ("ΑΣ", "ας")]
)
def test_names_that_sql_takes_for_one_have_one_budget(path, first, other):
    ledger = Ledger(path)
    reserve(ledger, "0.2", dataset=first)
    receipt = reserve(ledger, "0.1", dataset=other, limit=5)
    assert receipt.dataset == other  # as its schema writes it
    ledger.publish(receipt, "d" * 64)
    ledger.verify(receipt, "d" * 64)
    assert "0.3 of its total 0.3 is spent" in refusal(BudgetExhausted, reserve, ledger, "1e-9", dataset=other)
    assert "0.3 of its total 0.3 is spent" in refusal(BudgetExhausted, reserve, ledger, "1e-9", dataset=first)
    assert [account.spellings for account in Ledger(path).show()] == [tuple(sorted((first, other)))]
    assert len(ledger.changes(other)) == 1  # the total was stated once
    ledger.set_budget(other, 1)
    assert (ledger.account(first).total, ledger.account(first).spent) == (1, Fraction(3, 10))


def test_accounts_are_at_least_as_coarse_as_the_comparison_of_sql():
    """FROM compares by `str.lower`: whatever that takes for one has one account, every character by itself."""
    for point in range(0x110000):
        if not 0xD800 <= point < 0xE000:
            letter = chr(point)
            assert same_dataset(letter) == same_dataset(letter.lower())


def test_delta_is_counted_and_held_to_the_total_where_one_is_stated(path):
    ledger = Ledger(path)
    reserve(ledger, delta="1e-6")
    reserve(ledger, delta="2e-6")
    account = ledger.account("census")
    assert (account.total_delta, account.spent_delta, left_delta(account)) == (None, Fraction(3, 10**6), None)
    ledger.set_budget("census", 1, "4e-6")
    message = refusal(BudgetExhausted, reserve, ledger, limit=None, delta="2e-6")
    assert "asked for delta 0.000002" in message and "0.000003 of its total 0.000004 is spent" in message
    assert "--epsilon 1 --delta 0.000005 --ledger " in message
    reserve(ledger, limit=None, delta=1e-6)
    ledger.set_budget("census", 2)  # the delta stays
    refusal(BudgetExhausted, reserve, ledger, limit=None, delta="1e-20")
    account = ledger.show()[0]
    assert (account.total_delta, account.spent_delta, left_delta(account)) == (Fraction(4, 10**6),) * 2 + (0,)
    reserve(ledger, limit=None)  # pure epsilon needs none


def test_the_smaller_total_delta_holds_and_the_first_is_remembered(path):
    ledger = Ledger(path)
    reserve(ledger, delta="1e-6", limit_delta="3e-6")
    assert ledger.account("census").total_delta == Fraction(3, 10**6)
    message = refusal(BudgetExhausted, reserve, ledger, delta="1e-6", limit_delta="1e-6")
    assert "of its total 0.000001" in message and "in the schema" in message
    refusal(BudgetExhausted, reserve, ledger, delta="3e-6", limit_delta="1e-3")
    reserve(ledger, delta="2e-6", limit_delta=None)
    assert left_delta(ledger.account("census")) == 0


def test_deltas_never_add_up_to_one(path):
    ledger = Ledger(path)
    reserve(ledger, delta="0.5")
    assert "0.5 of its total 1 is spent" in refusal(BudgetExhausted, reserve, ledger, delta="0.5")
    reserve(ledger, delta="0.49")


@pytest.mark.parametrize("epsilon", [0, -1, "nan", True, "much", 10**7])
def test_senseless_amounts_are_refused_before_anything_is_created(path, epsilon):
    refusal(BudgetError, reserve, Ledger(path), epsilon)
    refusal(BudgetError, reserve, Ledger(path), limit=epsilon)
    refusal(BudgetError, Ledger(path).set_budget, "census", epsilon)
    assert not path.exists()


@pytest.mark.parametrize("name", ["", " census", "cen\nsus", "x" * 201, "\ud800", None])
def test_senseless_names_are_refused(path, name):
    refusal(LedgerError, reserve, Ledger(path), dataset=name)
    refusal(LedgerError, Ledger(path).set_budget, name, 1)
    assert not path.exists()


@pytest.mark.parametrize("nonce", ["f" * 31, "F" * 32, "g" * 32, 7])
def test_a_nonce_is_128_bits(path, nonce):
    assert "nonce" in refusal(LedgerError, reserve, Ledger(path), nonce=nonce)


def test_a_retry_cannot_draw_on_an_old_debit(path):
    ledger = Ledger(path)
    reserve(ledger, nonce="a" * 32)
    assert "nonce" in refusal(LedgerError, reserve, ledger, nonce="a" * 32)
    assert ledger.show()[0].entries == 1


def test_reservations_count_whether_or_not_they_are_published(path):
    ledger = Ledger(path)
    first, _ = reserve(ledger), reserve(ledger)
    ledger.publish(first, DIGEST)
    promises = (Promise(ROW, (1,), Fraction(1, 5), Fraction(0)),)
    spent = ("census", Fraction(3, 10), None, (Loss(Fraction(1, 10)),) * 2, 1, promises, ("census",))
    assert ledger.show() == [Account(*spent, labels=(None, None))]
    assert [(entry.state, entry.digest) for entry in ledger.entries()] == [("published", DIGEST), ("reserved", None)]


def test_the_order_is_by_number_even_when_the_clock_goes_back(path, monkeypatch):
    class Clock:
        years = iter((2030, 2020, 2025))

        @classmethod
        def now(cls, zone):
            return module_datetime(next(cls.years), 1, 1, tzinfo=zone)

    module_datetime = module.datetime
    monkeypatch.setattr(module, "datetime", Clock)
    ledger = Ledger(path)
    receipts = [reserve(ledger) for _ in range(3)]
    assert [receipt.entry for receipt in receipts] == [1, 2, 3]
    assert [entry.number for entry in ledger.entries()] == [1, 2, 3]
    assert [entry.reserved_at[:4] for entry in ledger.entries()] == ["2030", "2020", "2025"]
    assert ledger.entries()[0].reserved_at == "2030-01-01T00:00:00+00:00"


# Receipts


def test_receipts_survive_json_and_nothing_else_passes(path):
    receipt = reserve(Ledger(path), "1/3", limit=1)
    fields = receipt.to_dict()
    assert Receipt.from_dict(fields) == receipt and fields["epsilon"] == "1/3" and fields["delta"] == "0/1"
    wrong = [
        {},
        {**fields, "extra": 1},
        {key: value for key, value in fields.items() if key != "nonce"},
        *({**fields, "epsilon": text} for text in ("2/6", "1/0", "0/1", "-1/3", "1", 0.5, None, "1/3\n", "١/3")),
        *({**fields, "delta": text} for text in ("1/1", "-0/1", "", 0)),
        *({**fields, "entry": number} for number in (0, -1, True, "1", 1.0)),
        *({**fields, "nonce": nonce} for nonce in ("", "F" * 32, "f" * 33, 5)),
        {**fields, "ledger": "x"},
        {**fields, "dataset": 5},
    ]
    for case in wrong:
        assert "malformed" in refusal(LedgerError, Receipt.from_dict, case)


def test_publishing_happens_once_and_only_with_the_right_receipt(path, tmp_path):
    ledger = Ledger(path)
    receipt = reserve(ledger)
    for wrong in (replace(receipt, nonce="0" * 32), replace(receipt, entry=2), replace(receipt, entry=0)):
        refusal(LedgerError, ledger.publish, wrong, DIGEST)
    assert "another ledger" in refusal(LedgerError, ledger.publish, replace(receipt, ledger="0" * 32), DIGEST)
    refusal(LedgerError, ledger.publish, receipt, "")
    assert ledger.entries()[0].state == "reserved"
    ledger.publish(receipt, DIGEST)
    assert "before" in refusal(LedgerError, ledger.publish, receipt, "e" * 64)
    assert ledger.entries()[0].digest == DIGEST
    elsewhere = tmp_path / "elsewhere.sqlite"
    assert "no ledger" in refusal(LedgerError, Ledger(elsewhere).publish, receipt, DIGEST)
    assert not elsewhere.exists()


def test_verify_tells_a_release_that_is_not_in_the_ledger(path, tmp_path):
    ledger = Ledger(path)
    receipt = reserve(ledger)
    assert "never marked as published" in refusal(LedgerError, ledger.verify, receipt, DIGEST)
    ledger.publish(receipt, DIGEST)
    ledger.verify(receipt, DIGEST)
    assert "other contents" in refusal(LedgerError, ledger.verify, receipt, "e" * 64)
    altered = (
        replace(receipt, nonce="0" * 32),
        replace(receipt, epsilon=Fraction(1, 100)),
        replace(receipt, dataset="other"),
        replace(receipt, delta=Fraction(1, 9)),
    )
    for wrong in altered:
        assert "not the one on the receipt" in refusal(LedgerError, ledger.verify, wrong, DIGEST)
    other = Ledger(tmp_path / "other.sqlite")
    assert "no ledger" in refusal(LedgerError, other.verify, receipt, DIGEST)
    reserve(other)
    assert "another ledger" in refusal(LedgerError, other.verify, receipt, DIGEST)


def test_an_old_copy_put_back_is_found_through_the_receipts(path, tmp_path):
    ledger = Ledger(path)
    reserve(ledger)
    shutil.copy(path, tmp_path / "backup")
    receipt = reserve(ledger)
    ledger.publish(receipt, DIGEST)
    shutil.copy(tmp_path / "backup", path)
    assert "no entry 2" in refusal(LedgerError, ledger.verify, receipt, DIGEST)
    again = reserve(ledger)  # the same number now belongs to another reservation
    ledger.publish(again, DIGEST)
    assert "an old copy of the ledger was put back" in refusal(LedgerError, ledger.verify, receipt, DIGEST)


# Tampering and damage


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET epsilon = '1/1000' WHERE number = 2",
        "UPDATE entries SET delta = '1/2' WHERE number = 1",
        "UPDATE entries SET dataset = 'other' WHERE number = 3",
        "UPDATE entries SET nonce = '00' WHERE number = 3",
        "UPDATE entries SET reserved_at = '' WHERE number = 3",
        "UPDATE entries SET state = 'reserved', digest = NULL WHERE number = 1",
        "UPDATE entries SET digest = 'e' WHERE number = 1",
        "UPDATE entries SET number = 4 WHERE number = 3",
        "UPDATE entries SET epsilon = x'00' WHERE number = 3",
        "UPDATE entries SET chain = 'x' WHERE number = 3",
        "DELETE FROM entries WHERE number = 1",
        "DELETE FROM entries WHERE number = 3",
        "DELETE FROM entries",
        "INSERT INTO entries SELECT 4, 'x', epsilon, delta, 'm', nonce, '', state, digest, chain, unit, contributions, "
        "request, rho, period, series, registered, exact FROM entries LIMIT 1",
        "UPDATE entries SET exact = '[[]]' WHERE number = 2",
        "UPDATE entries SET exact = 'x' WHERE number = 2",
        "UPDATE entries SET exact = '0' WHERE number = 2",
        "UPDATE entries SET period = '2026-11' WHERE number = 2",
        "UPDATE entries SET period = '2026-11', series = '[\"person in a month\", 1, true, null]' WHERE number = 2",
        f"UPDATE entries SET registered = '{'0' * 64}' WHERE number = 2",
        f"UPDATE entries SET request = '{'0' * 64}'",
        "UPDATE entries SET rho = NULL",
        "UPDATE entries SET rho = '1/1000'",
        "UPDATE entries SET unit = NULL, contributions = NULL",
        "UPDATE entries SET unit = NULL, contributions = NULL WHERE number = 1",
        "UPDATE entries SET unit = NULL, contributions = NULL WHERE number = 3",
        "UPDATE entries SET unit = NULL WHERE number = 3",
        "UPDATE entries SET contributions = NULL WHERE number = 3",
        "UPDATE entries SET contributions = 2 WHERE number = 2",
        "UPDATE entries SET contributions = 0 WHERE number = 2",
        "UPDATE entries SET unit = 'column \"person_id\"' WHERE number = 2",
        "UPDATE entries SET unit = 'column' WHERE number = 2",
        "UPDATE changes SET who = 'somebody'",
        "UPDATE changes SET reason = 'agreed'",
        "UPDATE changes SET changed_at = ''",
        "UPDATE changes SET epsilon = '9/1'",
        "UPDATE changes SET old_epsilon = '3/10'",
        "UPDATE changes SET number = 2",
        "UPDATE changes SET chain = ''",
        "DELETE FROM changes",
        "INSERT INTO changes SELECT 2, dataset, epsilon, delta, epsilon, delta, who, '', reason, chain FROM changes",
        "ALTER TABLE changes ADD COLUMN more TEXT",
        "DROP TABLE changes",
        "UPDATE budgets SET epsilon = '100/1'",
        "UPDATE budgets SET delta = '1/2'",
        "DELETE FROM budgets",
        "INSERT INTO budgets SELECT dataset, '100/1', delta FROM budgets",
        "UPDATE meta SET id = '00'",
        "UPDATE meta SET seal = ''",
        "DELETE FROM meta",
        "INSERT INTO meta SELECT * FROM meta",
        "DROP TABLE budgets",
        "DROP TABLE meta",
        "ALTER TABLE entries RENAME COLUMN chain TO chains",
        "ALTER TABLE entries ADD COLUMN more TEXT",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 2",
        "PRAGMA user_version = 3",
    ],
)
def test_an_edited_ledger_is_refused(path, statement):
    ledger = Ledger(path)
    receipts = [reserve(ledger) for _ in range(3)]
    ledger.publish(receipts[0], DIGEST)
    assert len(ledger.entries()) == 3
    raw(path, statement)
    calls = (
        ledger.show,
        ledger.entries,
        lambda: reserve(ledger, "1e-9"),
        lambda: ledger.set_budget("census", 9),
        lambda: ledger.verify(receipts[0], DIGEST),
        lambda: ledger.publish(receipts[1], DIGEST),
    )
    for call in calls:
        message = refusal(LedgerError, call)
        assert "damaged" in message and "restore it from a backup" in message


def test_no_flipped_byte_changes_what_the_ledger_says(path):
    ledger = Ledger(path)
    for _ in range(2):
        ledger.publish(reserve(ledger), DIGEST)
    reserve(ledger)
    before, whole = (ledger.show(), ledger.entries()), path.read_bytes()
    used = [place for place, byte in enumerate(whole) if byte] + list(range(100))
    draw = random.Random(7)  # which bytes are flipped: no noise, no privacy
    caught = 0
    for place in draw.sample(used, 200):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << draw.randrange(8)
        for left_over in path.parent.glob("ledger.sqlite-*"):
            left_over.unlink()
        path.write_bytes(damaged)
        try:
            assert (ledger.show(), ledger.entries()) == before
        except LedgerError as error:
            assert "\n" not in str(error)
            caught += 1
        try:
            reserve(ledger, "1/1000000")
        except (LedgerError, BudgetExhausted):
            continue
        pytest.fail(f"overspent after byte {place} was flipped")
    assert caught > 120


@pytest.mark.parametrize("length", [0, 1, 50, 99, 100, 1000, 4096, 8192, -1])
def test_a_truncated_ledger_is_refused(path, length):
    ledger = Ledger(path)
    reserve(ledger)
    os.truncate(path, length if length >= 0 else path.stat().st_size - 1)
    left = path.read_bytes()
    for call in (ledger.show, lambda: reserve(ledger), lambda: ledger.set_budget("census", 1)):
        assert "backup" in refusal(LedgerError, call)
    assert path.read_bytes() == left


@pytest.mark.parametrize("content", [b"", b"hello\n" * 500, b"\0" * 8192, os.urandom(5000)])
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(path, content):
    path.write_bytes(content)
    for call in (Ledger(path).show, lambda: reserve(Ledger(path))):
        assert "is not a sfumato ledger" in refusal(LedgerError, call)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_left_alone(path):
    raw(path, "CREATE TABLE entries (number INTEGER PRIMARY KEY)", "PRAGMA application_id = 12")
    content = path.read_bytes()
    assert "is not a sfumato ledger" in refusal(LedgerError, reserve, Ledger(path))
    assert path.read_bytes() == content


def test_a_ledger_from_a_newer_version_is_refused(path):
    reserve(Ledger(path))
    raw(path, f"PRAGMA user_version = {FORMAT + 1}")
    for call in (Ledger(path).show, lambda: reserve(Ledger(path))):
        assert "upgrade sfumato" in refusal(LedgerError, call)


def test_a_lost_ledger_with_a_journal_left_behind_is_not_started_afresh(path):
    Path(f"{path}-journal").write_bytes(b"something")
    message = refusal(LedgerError, reserve, Ledger(path))
    assert "is gone" in message and "backup" in message
    assert not path.exists()


# The file


def test_reading_creates_nothing(tmp_path):
    ledger = Ledger(tmp_path / "new" / "ledger.sqlite")
    assert ledger.show() == [] and ledger.entries("census") == []
    assert list(tmp_path.iterdir()) == []


@posix
def test_the_file_and_its_folders_belong_to_the_user_alone(tmp_path):
    path = tmp_path / "one" / "two" / "ledger.sqlite"
    old = os.umask(0)
    try:
        Ledger(path).set_budget("census", 1)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)] == [0o700, 0o700]
    assert list(path.parent.iterdir()) == [path]  # nothing half-made is left beside it


def test_commits_are_synced_and_journalled(path, monkeypatch):
    """Looked at in the very connection that writes, just before it commits; the file is there already."""
    reserve(Ledger(path), "0.1")
    seen = []

    class Watched(sqlite3.Connection):
        def execute(self, statement, *values):
            if statement.startswith("UPDATE meta"):
                asked = (super(Watched, self).execute(f"PRAGMA {of}") for of in ("synchronous", "journal_mode"))
                seen.append([found.fetchone() for found in asked])
            return super().execute(statement, *values)

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: real(*given, factory=Watched, **named))
    reserve(Ledger(path), "0.1")
    assert seen == [[(3,), ("delete",)]]


@posix
def test_a_symbolic_link_means_the_same_ledger(path, tmp_path):
    (tmp_path / "deep").mkdir()
    link = tmp_path / "deep" / "link"
    link.symlink_to(path)
    first = reserve(Ledger(link), "0.2")  # a dangling link creates the file it points to
    assert path.is_file() and link.is_symlink()
    refusal(BudgetExhausted, reserve, Ledger(path), "0.2")
    assert Ledger(path).entries()[0].nonce == first.nonce


def test_a_relative_path_does_not_move_with_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("ledger.sqlite")
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    reserve(ledger)
    assert (tmp_path / "ledger.sqlite").is_file()


def test_a_folder_is_no_ledger(tmp_path):
    for call in (Ledger(tmp_path).show, lambda: reserve(Ledger(tmp_path))):
        assert "is a folder" in refusal(LedgerError, call)


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    for call in (Ledger(tmp_path / "file" / "l").show, lambda: reserve(Ledger(tmp_path / "file" / "l"))):
        assert "cannot be used" in refusal(LedgerError, call)


def test_an_impossible_path_is_refused():
    assert "no usable path" in refusal(LedgerError, Ledger, "a\0b")


def test_a_locked_ledger_says_so(path):
    reserve(Ledger(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        ledger = Ledger(path, timeout=0.05)
        for call in (ledger.show, lambda: reserve(ledger), lambda: ledger.set_budget("census", 1)):
            assert "locked by another process" in refusal(LedgerError, call)
    assert reserve(Ledger(path, timeout=0.05)).entry == 2


def test_a_reader_that_lingers_past_the_commit_leaves_nothing_half_done(path):
    reserve(Ledger(path))
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM entries").fetchall()
        assert "locked" in refusal(LedgerError, reserve, Ledger(path, timeout=0.05))
    assert Ledger(path).show()[0].entries == 1


@pytest.fixture
def mortal():
    """A folder, and no right to override file modes: root lends its effective user id for the test."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    superuser = os.geteuid() == 0
    if superuser:
        try:
            os.seteuid(65534)
        except OSError:
            pytest.skip("root cannot become another user here")
    yield folder
    if superuser:
        os.seteuid(0)
    folder.chmod(0o777)
    shutil.rmtree(folder)


@posix
def test_a_read_only_file_can_be_read_but_not_written(mortal):
    ledger = Ledger(mortal / "ledger.sqlite")
    receipt = reserve(ledger)
    ledger.path.chmod(0o400)
    for call in (lambda: reserve(ledger), lambda: ledger.publish(receipt, DIGEST), lambda: ledger.set_budget("a", 1)):
        assert "is read-only; make sure that you may write" in refusal(LedgerError, call)
    assert ledger.show()[0].entries == 1
    ledger.path.chmod(0)
    for call in (ledger.show, lambda: reserve(ledger)):
        assert "cannot be opened; make sure" in refusal(LedgerError, call)


@posix
def test_a_read_only_folder_can_be_read_but_not_written(mortal):
    folder = mortal / "folder"
    ledger = Ledger(folder / "ledger.sqlite")
    reserve(ledger)
    folder.chmod(0o500)
    assert "make sure that you may write" in refusal(LedgerError, reserve, ledger)
    assert "make sure that you may write" in refusal(LedgerError, reserve, Ledger(folder / "new" / "other.sqlite"))
    assert ledger.show()[0].entries == 1
    folder.chmod(0)
    for call in (ledger.show, lambda: reserve(ledger)):
        assert "make sure that you may write" in refusal(LedgerError, call)
    folder.chmod(0o700)


def test_a_full_disk_grants_nothing_it_does_not_keep(path, monkeypatch):
    ledger = Ledger(path)
    granted = [reserve(ledger, "1/1000")]
    connect = sqlite3.connect

    def connect_with_little_room(*arguments, **named):
        connection = connect(*arguments, **named)
        connection.execute("PRAGMA max_page_count = 6")
        return connection

    monkeypatch.setattr(module.sqlite3, "connect", connect_with_little_room)
    with pytest.raises(LedgerError, match="disk is full; free some space"):
        while len(granted) < 200:
            granted.append(reserve(ledger, "1/1000"))
    assert [entry.nonce for entry in ledger.entries()] == [receipt.nonce for receipt in granted]
    monkeypatch.undo()
    assert reserve(ledger, "1/1000").entry == len(granted) + 1


def test_a_full_disk_leaves_no_half_made_ledger(path, monkeypatch):
    connect = sqlite3.connect

    def connect_without_room(*arguments, **named):
        connection = connect(*arguments, **named)
        connection.execute("PRAGMA max_page_count = 2")
        return connection

    monkeypatch.setattr(module.sqlite3, "connect", connect_without_room)
    assert "disk is full" in refusal(LedgerError, reserve, Ledger(path))
    assert list(path.parent.iterdir()) == []


def test_the_loser_of_a_race_to_create_uses_the_winners_ledger(path):
    winner = reserve(Ledger(path))
    create_file(path)  # as if the file had appeared just after this process looked for it
    assert Ledger(path).entries()[0].nonce == winner.nonce
    assert list(path.parent.iterdir()) == [path]


def test_a_ledger_that_vanishes_is_not_started_afresh(path, monkeypatch):
    monkeypatch.setattr(module, "is_present", lambda where: True)  # it was there a moment ago
    assert "cannot be opened" in refusal(LedgerError, reserve, Ledger(path))
    assert not path.exists()


# Where it is


def test_the_default_place_by_platform(monkeypatch, tmp_path):
    for name in ("SFUMATO_LEDGER", "XDG_DATA_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    home = tmp_path.resolve()
    tail = Path("sfumato") / "ledger.sqlite"

    monkeypatch.setattr(sys, "platform", "linux")
    assert Ledger().path == home / ".local" / "share" / tail
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert Ledger().path == home / "data" / tail
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert Ledger().path == home / ".local" / "share" / tail

    monkeypatch.setattr(sys, "platform", "darwin")
    assert Ledger().path == home / "Library" / "Application Support" / tail

    monkeypatch.setattr(sys, "platform", "win32")
    assert Ledger().path == home / "AppData" / "Roaming" / tail
    monkeypatch.setenv("APPDATA", str(tmp_path / "roaming"))
    assert Ledger().path == home / "roaming" / tail

    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "mine.sqlite"))
    assert default_path() == tmp_path / "mine.sqlite"
    assert Ledger().path == home / "mine.sqlite"
    assert Ledger("~/other").path == home / "other"


def test_importing_the_ledger_is_light():
    heavy = "{'numpy', 'pandas', 'duckdb', 'scipy', 'pyarrow', 'rich', 'sqlglot'}"
    check = f"import sys, sfumato.kernel.ledger.ledger; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
