"""The types of columns by PostgreSQL's numbers, and which of them holds some values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime

BOOL, INT8, INT2, INT4, TEXT, OID = 16, 20, 21, 23, 25, 26
FLOAT4, FLOAT8, UNKNOWN, VARCHAR, BPCHAR, NAME = 700, 701, 705, 1043, 1042, 19
DATE, TIMESTAMP, TIMESTAMPTZ, NUMERIC = 1082, 1114, 1184, 1700
TEXTS, INT8S = 1009, 1016  # lists
ELEMENTS = {1000: BOOL, 1005: INT2, 1007: INT4, 1016: INT8, 1028: OID, 1009: TEXT, 1015: VARCHAR, 1003: NAME}
WHOLE = {INT2: "!h", INT4: "!i", INT8: "!q", OID: "!I"}  # in binary
REAL = {FLOAT4: "!f", FLOAT8: "!d"}
BEGINNING = datetime(2000, 1, 1)  # PostgreSQL counts days and microseconds from here
_LENGTHS = {BOOL: 1, INT8: 8, INT2: 2, INT4: 4, OID: 4, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIMESTAMP: 8, TIMESTAMPTZ: 8}
_DAY, _TIME = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d{4}-\d\d-\d\dT\d\d(:\d\d)?")

Value = str | int | float | bool | None | list["Value"]
Column = tuple[str, int]


def length_of(oid: int) -> int:
    """How many bytes a value has in binary; -1 where they differ."""
    return _LENGTHS.get(oid, -1)


def type_of(values: Sequence[object], *, dates: bool = True) -> int | None:
    """The type that holds all values of a column; None where there is none to tell it.

    dates: whether a text that looks like a day or a time is one.

    >>> type_of([1, None]), type_of([1, 2.5]), type_of(["2024-06-01"]), type_of(["a", None])
    (20, 701, 1082, 25)
    """
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return None
    if kinds == {int}:
        return INT8 if all(-(2**63) <= value < 2**63 for value in values if isinstance(value, int)) else TEXT
    if kinds <= {int, float}:
        return FLOAT8
    if dates and kinds == {str}:
        return _type_of_texts([value for value in values if isinstance(value, str)])
    return BOOL if kinds == {bool} else TEXT


def _type_of_texts(texts: list[str]) -> int:
    for oid, form in ((DATE, _DAY), (TIMESTAMP, _TIME)):
        if all(form.fullmatch(text) and _exists(text) for text in texts):
            return oid
    return TEXT


def _exists(text: str) -> bool:
    try:
        date.fromisoformat(text[:10])
    except ValueError:
        return False
    return True


def fits(value: object, oid: int) -> bool:
    """Whether a value can be sent as a type that was announced before."""
    return (
        oid == TEXT
        or isinstance(value, list)
        or type_of([value]) in (None, oid)
        or (oid == FLOAT8 and type_of([value]) == INT8)
    )
