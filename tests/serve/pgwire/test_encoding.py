"""Values in bytes: what psycopg reads from ours, and what we read from psycopg's."""

from __future__ import annotations

import datetime
from decimal import Decimal

import psycopg
import pytest
from psycopg.adapt import PyFormat, Transformer

from sfumato.serve.pgwire.protocol import (
    BOOL,
    DATE,
    FLOAT8,
    INT8,
    INT8S,
    NUMERIC,
    TEXT,
    TEXTS,
    TIMESTAMP,
    Failure,
    Given,
    as_binary,
    as_text,
    decoded,
    type_of,
)

DAY, TIME = datetime.date(1999, 12, 31), datetime.datetime(2024, 6, 1, 13, 59)
SENT = [
    *((True, BOOL, True), (False, BOOL, False), (-5, INT8, -5), (12.5, FLOAT8, 12.5), (12.0, FLOAT8, 12.0)),
    *(("a'\"\\b", TEXT, "a'\"\\b"), ("1999-12-31", DATE, DAY), ("2024-06-01T13:59", TIMESTAMP, TIME)),
    *((["a,\"b", None], TEXTS, ["a,\"b", None]), ([1, 2], INT8S, [1, 2]), ([], TEXTS, []), (None, INT8, None)),
]  # fmt: skip


@pytest.mark.parametrize(("value", "oid", "expected"), SENT)
def test_what_is_sent_is_what_is_read(value, oid, expected):
    for form, write in ((psycopg.pq.Format.TEXT, as_text), (psycopg.pq.Format.BINARY, as_binary)):
        written = write(value, oid)
        found = None if written is None else Transformer().get_loader(oid, form).load(written)
        assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("value", "oid", "expected"),
    [
        *((True, BOOL, True), (30, INT8, 30), (-2.5, FLOAT8, -2.5), ("é", TEXT, "é"), (DAY, DATE, "1999-12-31")),
        *((TIME, TIMESTAMP, "2024-06-01 13:59:00"), (Decimal("-12345.25"), NUMERIC, -12345.25)),
        *((["a b", 'c"d'], TEXTS, ["a b", 'c"d']), ([1, 2**40], INT8S, [1, 2**40]), (Decimal(70000), NUMERIC, 70000)),
    ],
)
def test_what_a_driver_sends_is_read(value, oid, expected):
    for form in (PyFormat.TEXT, PyFormat.BINARY):
        dumper = Transformer().get_dumper(value, form)
        found = decoded(Given(bytes(dumper.dump(value)), form is PyFormat.BINARY), dumper.oid or oid)
        assert found == expected, (form, found)


@pytest.mark.parametrize("oid", [BOOL, INT8, FLOAT8, DATE, TIMESTAMP, NUMERIC, TEXTS, TEXT, 600])
def test_bytes_that_are_no_value_are_refused(oid):
    with pytest.raises(Failure) as refused:
        decoded(Given(b"\xff\xfe\xfd", True), oid) if oid != BOOL else decoded(Given(b"maybe", False), oid)
    assert refused.value.code in ("22P02", "0A000")


def test_types_are_those_that_hold_every_value():
    assert type_of([]) is None and type_of([None]) is None
    assert [type_of(some) for some in ([2**63], [True, None], ["2024-02-30"], ["2024-06-01T13"], [1, "a"])] == [
        *(TEXT, BOOL, TEXT, TIMESTAMP, TEXT)
    ]
    assert type_of(["2024-06-01"], dates=False) == TEXT
