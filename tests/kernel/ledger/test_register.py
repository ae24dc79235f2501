"""The register of a series: nobody is counted in more than k periods, whatever is killed, lost or damaged."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import stat
import sys
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from ledgers import raw, refusal

from sfumato.errors import LedgerError, NewLedgerWarning
from sfumato.kernel.budget import Cost
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.ledger.register import Register
from sfumato.kernel.opening import Terms, open_curator, rehearse, unit_of
from sfumato.kernel.reading.table import open_table
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.schema import Schema

pytestmark = pytest.mark.filterwarnings(f"ignore::{NewLedgerWarning.__module__}.{NewLedgerWarning.__name__}")


def schema(most=2, **more):
    return Schema(
        dataset="visits",
        privacy_unit={"column": "who", "contributions": 2},
        budget={"epsilon": 1000},
        attributes={"a": {"type": "category", "values": ["x", "y"]}},
        series={"period": "month", "unit": f"person in at most {most} months", **more},
    )


def counted(ledger, rows, period, stated=None, step=lambda _: None, kind="text"):
    """Counts of the two cells that a release of a table would measure."""
    names = [int(who) for who, _ in rows] if kind == "number" else [who for who, _ in rows]
    table = open_table(pa.table({"who": names, "a": [a for _, a in rows]}))
    terms = Terms(stated or schema(), Cost.stated("0.1"), "cells", period=period)
    nonce = secrets.token_hex(16)
    opened = open_curator(table, terms, ledger=ledger, entropy=TestingEntropy(1), step=step, nonce=nonce)
    return opened.curator._dense("count").tolist()


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger.sqlite")


def test_whoever_has_had_his_periods_is_left_out(ledger):
    assert counted(ledger, [("ann", "x"), ("bob", "y"), ("bob", "y")], "2026-01") == [1, 2]
    assert counted(ledger, [("ann", "x"), ("cid", "y")], "2026-02") == [1, 1]
    assert counted(ledger, [("ann", "x"), ("bob", "x"), ("cid", "y"), ("dan", "y")], "2026-03") == [1, 2]
    assert counted(ledger, [("ann", "x"), ("bob", "x"), ("cid", "y"), ("dan", "y")], "2026-04") == [0, 1]
    # A correction of a period in which somebody was counted uses up no other one.
    assert counted(ledger, [("ann", "y"), ("bob", "x"), ("dan", "x")], "2026-01") == [1, 1]


def test_only_rows_that_would_be_counted_use_up_a_period(ledger):
    for month in ("2026-01", "2026-02", "2026-03"):
        assert counted(ledger, [("ann", "z"), ("bob", "x")], month)[0] == (month < "2026-03")
    assert counted(ledger, [("ann", "x")], "2026-04") == [1, 0]


def test_a_person_is_known_by_the_same_text_in_tables_of_other_types(ledger):
    assert counted(ledger, [("7", "x"), ("8", "y")], "2026-01", kind="number") == [1, 1]
    assert counted(ledger, [("7", "x")], "2026-02") == [1, 0]
    assert counted(ledger, [("7", "x"), ("8", "y"), ("07", "y")], "2026-03", kind="text") == [0, 2]


def test_rows_of_other_periods_use_up_nothing(ledger):
    stated = Schema(
        dataset="visits",
        privacy_unit={"column": "who", "contributions": 1},
        budget={"epsilon": 1000},
        attributes={"a": {"type": "boolean"}},
        series={"period": "month", "unit": "person in at most 1 month", "column": "day"},
    )
    days = ["2026-01-31", "2026-02-01", "2026-02", None, "x"]
    table = {"who": ["ann", "bob", "ann", "ann", "ann"], "a": [True, True, False, True, True], "day": days}

    def seen(period):
        terms = Terms(stated, Cost.stated("0.1"), "cells", period=period)
        source = open_table(pa.table({**table, "a": pa.array(table["a"])}))
        nonce = secrets.token_hex(16)
        made = open_curator(source, terms, ledger=ledger, entropy=TestingEntropy(1), step=print, nonce=nonce)
        return made.curator._dense("count").tolist()

    # A column of text is compared as it is written; the days in it are none.
    assert seen("2026-01") == [0, 0] and seen("2026-02") == [1, 0] and seen("2026-03") == [0, 0]


def test_every_history_of_a_person_over_five_months(ledger):
    """Exhaustive, and without some of the others: each is counted in the first two months, whoever else is there."""
    histories = list(product([False, True], repeat=5))
    for kept, stated in ((1, schema()), (3, schema().model_copy(update={"dataset": "fewer"}))):
        register = Register(ledger, stated.dataset, unit_of(stated))
        for month in range(5):
            people = [number for number, here in enumerate(histories[::kept]) if here[month]]
            flags = register.admit(_receipt(ledger, stated), f"2026-0{month + 1}", [b"%d" % one for one in people])
            assert flags.tolist() == [sum(histories[::kept][one][:month]) < 2 for one in people]
        register.check()


def _receipt(ledger, stated=None):
    terms = Terms(stated or schema(), Cost.stated("0.01"), "cells", period="2026-01")
    return ledger.reserve(terms.wanted, secrets.token_hex(16))


def test_files_are_private_and_say_nothing_about_people(ledger, tmp_path):
    counted(ledger, [("a rather unusual name", "x")], "2026-01")
    register = Register(ledger, "visits", unit_of(schema()))
    assert stat.S_IMODE(register.path.stat().st_mode) == stat.S_IMODE(register.key_path.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "ledger.sqlite",
        "ledger.sqlite.register",
        "ledger.sqlite.register.key",
    ]
    assert b"unusual" not in register.path.read_bytes() + register.key_path.read_bytes() + ledger.path.read_bytes()


def test_the_order_is_reserve_read_register_count(ledger):
    steps = []

    def told(step):
        known = ledger.entries("visits")
        steps.append((step, len(known), known[-1].registered if known else None))

    counted(ledger, [("ann", "x")], "2026-01", step=told)
    assert [(step, many, mark) for step, many, mark in steps] == [
        ("check", 0, None),
        ("reserve", 0, None),
        ("read", 1, None),
        ("register", 1, None),
    ]
    assert len(ledger.entries("visits")[0].registered) == 64


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM counted",
        "DELETE FROM counted WHERE period = 1",
        "UPDATE counted SET period = 2 WHERE period = 1",
        "UPDATE counted SET period = 9 WHERE period = 1",
        "UPDATE counted SET person = zeroblob(32) WHERE period = 1",
        "UPDATE counted SET person = 'text' WHERE period = 1",
        "UPDATE periods SET label = '2025-12' WHERE number = 1",
        "UPDATE periods SET people = 7",
        "DELETE FROM periods",
        "DELETE FROM seals",
        "DELETE FROM seals WHERE number = 2",
        "UPDATE seals SET seal = ''",
        "DELETE FROM meta",
        "UPDATE meta SET ledger = ''",
        "UPDATE meta SET proof = zeroblob(32)",
        "DROP TABLE counted",
        "PRAGMA application_id = 1",
    ],
)
def test_a_damaged_register_refuses_and_nothing_is_spent(ledger, statement):
    counted(ledger, [("ann", "x")], "2026-01")
    counted(ledger, [("bob", "x")], "2026-02")
    register = Register(ledger, "visits", unit_of(schema()))
    raw(register.path, statement)
    said = refusal(LedgerError, counted, ledger, [("cid", "x")], "2026-03")
    assert "register" in said and "restore" in said and len(ledger.entries()) == 2
    table = open_table(pa.table({"who": ["ann"], "a": ["x"]}))
    refusal(LedgerError, rehearse, table, Terms(schema(), Cost.stated(1), "cells", period="2026-03"), ledger=ledger)


def test_a_lost_or_old_register_refuses(ledger, tmp_path):
    counted(ledger, [("ann", "x")], "2026-01")
    register = Register(ledger, "visits", unit_of(schema()))
    old = shutil.copy(register.path, tmp_path / "old")
    counted(ledger, [("bob", "x")], "2026-02")
    whole = register.path.read_bytes()
    shutil.copy(old, register.path)
    assert "an old copy" in refusal(LedgerError, counted, ledger, [("cid", "x")], "2026-03")
    register.path.unlink()
    assert "is missing" in refusal(LedgerError, counted, ledger, [("cid", "x")], "2026-03")
    register.path.write_bytes(b"")
    assert "register" in refusal(LedgerError, counted, ledger, [("cid", "x")], "2026-03")
    register.path.write_bytes(whole)
    key = register.key_path.read_bytes()
    for other, word in ((b"", "missing"), (b"short", "damaged"), (b"x" * 32, "another key")):
        register.key_path.write_bytes(other)
        assert word in refusal(LedgerError, counted, ledger, [("cid", "x")], "2026-03")
    register.key_path.unlink()
    assert "key" in refusal(LedgerError, counted, ledger, [("cid", "x")], "2026-03")
    assert len(ledger.entries()) == 2
    register.key_path.write_bytes(key)
    assert counted(ledger, [("cid", "x")], "2026-03") == [1, 0]


def test_flipped_bits_are_noticed_or_harmless(ledger):
    """Each of some bits: the register refuses, or admits exactly whom it would have admitted."""
    for month in ("2026-01", "2026-02"):
        counted(ledger, [("ann", "x"), ("bob", "x")], month)
    register, entries = Register(ledger, "visits", unit_of(schema())), ledger.path.read_bytes()
    whole, drawn = register.path.read_bytes(), random.Random(5)
    noticed = 0
    for _ in range(60):
        place, bit = drawn.randrange(len(whole)), 1 << drawn.randrange(8)
        register.path.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        try:
            register.check()
        except LedgerError:
            noticed += 1
        else:
            told = [row for rows in raw(register.path, "SELECT person, period FROM counted") for row in rows]
            assert len(told) == 4
    assert noticed < 60  # most of the file is empty
    register.path.write_bytes(whole)
    ledger.path.write_bytes(entries)
    assert counted(ledger, [("ann", "x"), ("cid", "y")], "2026-03") == [0, 1]


def test_series_of_one_ledger_do_not_know_each_others_people(ledger):
    one, two = schema(1), schema(1)
    two = two.model_copy(update={"dataset": "stays"})
    assert counted(ledger, [("ann", "x")], "2026-01", one) == [1, 0]
    assert counted(ledger, [("ann", "x")], "2026-02", two) == [1, 0]
    assert counted(ledger, [("ann", "x")], "2026-02", one) == [0, 0]
    assert counted(ledger, [("ann", "x")], "2026-03", two) == [0, 0]


def _traced(work, visit):
    """Run work, and visit each line of opening, ledger and register before it is run."""

    def trace(frame, event, _):
        name = frame.f_code.co_filename
        if "kernel/ledger" not in name and not name.endswith("kernel/opening.py"):
            return None
        if event == "line":
            visit((name, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)


def _killed_at(line, work):
    """Run work in a forked child that dies, without a word, before a line; whether it did."""
    child = os.fork()
    if child == 0:
        try:
            _traced(work, lambda at: os._exit(9) if at == line else None)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def _kill_again_and_again(tmp_path, kills, seed):
    """Kill parts of a series before random lines and go on; nobody may be counted in more than two periods."""
    drawn, ledger, killed, number = random.Random(seed), Ledger(tmp_path / "ledger.sqlite"), 0, 0
    counts, lines = {}, set()
    _traced(lambda: counted(Ledger(tmp_path / "other"), [("ann", "x")], "2026-01"), lines.add)
    while killed < kills:
        names = [f"{name}{number // 12}" for name in ("ann", "bob", "cid", "dan")]  # after a year, new people
        people, period = drawn.sample(names, 2), f"{2026 + number // 24}-{1 + number % 12:02}"
        number += 1

        def part(people=people, of=period):
            return counted(ledger, list(zip(people, "xy", strict=True)), of)

        if _killed_at(drawn.choice(sorted(lines)), part):
            killed += 1
            Register(ledger, "visits", unit_of(schema())).check()
            if drawn.random() < 0.5:
                continue  # a part that is never tried again
        for who, many in zip(people, part(), strict=True):
            if many:
                counts.setdefault(who, set()).add(period)
    assert max(map(len, counts.values())) <= 2 and len(counts) >= kills // 12
    return killed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process that can be forked")
def test_kills_leave_a_register_that_opens_and_admits_nobody_twice(tmp_path):
    assert _kill_again_and_again(tmp_path, 4, seed=3) == 4


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process that can be forked")
def test_two_hundred_kills_and_a_thousand_by_pytest_full(tmp_path, full):
    for seed in range(20 if full else 4):
        (tmp_path / str(seed)).mkdir()
        assert _kill_again_and_again(tmp_path / str(seed), 50, seed) == 50


def test_many_people_at_once(ledger):
    people = [f"p{number}" for number in range(20_000)]
    register = Register(ledger, "visits", unit_of(schema(1)))
    stated = [name.encode() for name in people]
    terms = Terms(schema(1), Cost.stated("0.01"), "cells", period="2026-01")
    first = ledger.reserve(terms.wanted, "d" * 32)
    assert register.admit(first, "2026-01", stated[:15_000]).all()
    second = ledger.reserve(terms.wanted, "e" * 32)
    flags = register.admit(second, "2026-02", stated[::-1])
    assert np.array_equal(flags, [number >= 15_000 for number in range(20_000)][::-1])
