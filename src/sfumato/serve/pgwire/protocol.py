"""PostgreSQL's types, the encoding of values in text and binary, and errors with SQLSTATE codes.

An error is one line, a hint, and a code that programs can tell apart. The text of an unforeseen error is never sent: it
may hold whatever a client sent.

Decode the values that a client sends for $1, $2, ..., in text and in binary.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from math import isfinite, isnan
from struct import pack
from typing import NamedTuple

from sfumato.effort import MOST_CHARACTERS, at_most
from sfumato.errors import QueryError, SfumatoError, UnsupportedSQL
from sfumato.serve.web.requests import Refusal

# SQLSTATE codes
PROTOCOL, UNSUPPORTED, BAD_VALUE, READ_ONLY, FAILED_TRANSACTION = "08P01", "0A000", "22P02", "25006", "25P02"
NO_STATEMENT, NO_PORTAL = "26000", "34000"
SYNTAX, NO_TABLE, NO_FUNCTION, AMBIGUOUS = "42601", "42P01", "42883", "42P09"
TOO_MANY_CONNECTIONS, TOO_LARGE, CANCELLED, IDLE, INTERNAL = "53300", "54000", "57014", "57P05", "XX000"

_BY_KIND = {
    "malformed": SYNTAX,
    "not_found": NO_TABLE,
    "too_long": TOO_LARGE,
    "invalid": "22023",
    "unanswerable": "42000",
    "too_large": TOO_LARGE,
    "internal": INTERNAL,
    "busy": "53000",
    "too_slow": CANCELLED,
}
_BY_WORDS = {"no column ": "42703", "no table ": NO_TABLE, "this SQL cannot be read": SYNTAX}


class Failure(Exception):
    """Error to be sent to the client. fatal: the connection ends with it."""

    def __init__(self, code: str, message: str, hint: str = "", *, fatal: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.fatal = code, message, hint, fatal

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Translate any error; of an unforeseen one nothing is told, for its text is whatever a client sent.

        >>> Failure.of(UnsupportedSQL("a join is not supported; ask one table")).code
        '0A000'
        """
        if isinstance(error, Failure):
            return error
        if isinstance(error, Refusal):
            return cls(_BY_KIND[error.kind], error.error, error.what_to_do)
        if isinstance(error, SfumatoError):
            said = Refusal.of(error)
            return cls(_code(error), said.error, said.what_to_do)
        return cls(INTERNAL, "this went wrong on the server's side", "ask another way, and report it")


def malformed(what: str, *, fatal: bool = False) -> Failure:
    """Error for a message that violates the protocol."""
    return Failure(PROTOCOL, what, "speak version 3 of PostgreSQL's protocol", fatal=fatal)


def _code(error: SfumatoError) -> str:
    if isinstance(error, UnsupportedSQL):
        return UNSUPPORTED
    known = (code for words, code in _BY_WORDS.items() if str(error).startswith(words))
    return next(known, "42000") if isinstance(error, QueryError) else "42000"


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
    """Length of a type's binary values in bytes; -1 where it varies."""
    return _LENGTHS.get(oid, -1)


def type_of(values: Sequence[object], *, dates: bool = True) -> int | None:
    """Infer the type that holds all values of a column; None if all are NULL.

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
        for oid, form in ((DATE, _DAY), (TIMESTAMP, _TIME)):
            if all(form.fullmatch(text) and _exists(text) for text in values if isinstance(text, str)):
                return oid
    return BOOL if kinds == {bool} else TEXT


def _exists(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text[:10]))
    except ValueError:
        return False


def fits(value: object, oid: int) -> bool:
    """Whether a value can be sent as a type that was announced before."""
    known = type_of([value])
    return oid == TEXT or isinstance(value, list) or known in (None, oid) or (oid, known) == (FLOAT8, INT8)


def as_text(value: object, oid: int) -> bytes | None:
    """Encode a value in PostgreSQL's text format.

    >>> as_text(12.0, FLOAT8), as_text(True, BOOL), as_text("2024-06-01T13:59", TIMESTAMP)
    (b'12', b't', b'2024-06-01 13:59:00')
    """
    return None if value is None else _written(value, oid).encode("utf-8", "replace")


def as_binary(value: object, oid: int) -> bytes | None:
    """Encode a value in PostgreSQL's binary format."""
    packed: bytes | None = None
    if isinstance(value, int | float) and oid == BOOL:
        packed = pack("!?", value)
    elif isinstance(value, int | float) and oid in WHOLE:
        packed = pack(WHOLE[oid], int(value))
    elif isinstance(value, int | float) and oid in REAL:
        packed = pack(REAL[oid], value)
    elif isinstance(value, str) and oid in (DATE, TIMESTAMP):
        since = datetime.fromisoformat(value) - BEGINNING
        packed = pack("!i", since.days) if oid == DATE else pack("!q", round(since.total_seconds()) * 10**6)
    elif isinstance(value, list) and oid in ELEMENTS:
        packed = _packed_list(value, ELEMENTS[oid])
    return as_text(value, oid) if packed is None else packed


def _written(value: object, oid: int) -> str:
    if isinstance(value, bool):
        return str(value).lower()[: 1 if oid == BOOL else None]
    if isinstance(value, float):
        if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return str(int(value) if value.is_integer() and abs(value) < 1e15 else value)
    if isinstance(value, list):
        return "{" + ",".join(map(_element, value)) + "}"
    if oid == TIMESTAMP:
        return datetime.fromisoformat(str(value)).isoformat(" ")
    return str(value)


def _element(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "NULL" if value is None else _written(value, BOOL)


def _packed_list(values: Sequence[object], element: int) -> bytes:
    if not values:
        return pack("!iiI", 0, 0, element)
    cells = [as_binary(value, element) for value in values]
    body = b"".join(pack("!i", -1) if cell is None else pack("!i", len(cell)) + cell for cell in cells)
    return pack("!iiIii", 1, int(None in cells), element, len(values), 1) + body


# -- parameters

_TEXTS = (TEXT, VARCHAR, BPCHAR, NAME, UNKNOWN, 0)


class Given(NamedTuple):
    """Value that a client sent for one parameter, undecoded. value: None is NULL. binary: its format."""

    value: bytes | None
    binary: bool


def decoded(given: Given, oid: int) -> Value:
    """Decode a parameter's value by its type.

    >>> from sfumato.serve.pgwire.protocol import INT8
    >>> decoded(Given(b"30", False), INT8), decoded(Given(bytes(7) + bytes([2]), True), INT8)
    (30, 2)
    """
    if given.value is None:
        return None
    try:
        return _from_binary(given.value, oid) if given.binary else _from_text(given.value.decode(), oid)
    except (ValueError, OverflowError, KeyError, struct.error):
        what = "a parameter has a value that is none of its type"
        raise Failure(BAD_VALUE, what, "give a value of that type") from None


def _from_text(text: str, oid: int) -> Value:
    if oid in WHOLE:
        return int(text)
    if oid in REAL or oid == NUMERIC:
        return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else float(text)
    if oid == BOOL:
        return {"t": True, "1": True, "f": False, "0": False}[text[:1].lower()]
    if oid in ELEMENTS:
        return [_from_text(one, ELEMENTS[oid]) for one in _listed(text)]
    return text


def _listed(text: str) -> list[str]:
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError
    at_most(len(text), MOST_CHARACTERS, "characters are in a list of values", "give fewer")
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^",{}]+)', text[1:-1])
    return [re.sub(r"\\(.)", r"\1", quoted) or plain for quoted, plain in found]


def _from_binary(data: bytes, oid: int) -> Value:
    if oid in WHOLE or oid in REAL:
        (found,) = struct.unpack(WHOLE.get(oid) or REAL[oid], data)
        return int(found) if oid in WHOLE else float(found)
    if oid == DATE:
        return (BEGINNING + timedelta(days=struct.unpack("!i", data)[0])).date().isoformat()
    if oid in (TIMESTAMP, TIMESTAMPTZ):
        return (BEGINNING + timedelta(microseconds=struct.unpack("!q", data)[0])).isoformat(" ")
    if oid in ELEMENTS:
        return _from_packed_list(data)
    if oid in _TEXTS:
        return data.decode()
    if oid not in (BOOL, NUMERIC):
        raise Failure(UNSUPPORTED, "a parameter in binary is of a type that is not known here", "send it as text")
    return data != b"\0" if oid == BOOL else _numeric(data)


def _numeric(data: bytes) -> int | float:
    """Decode PostgreSQL's binary NUMERIC: digits to the base of 10,000."""
    many, weight, sign, _ = struct.unpack_from("!hhHh", data)
    if sign not in (0, 0x4000) or not 0 <= many <= 100 or abs(weight) > 100:
        raise ValueError
    whole = 0
    for digit in struct.unpack_from(f"!{many}h", data, 8):
        whole = whole * 10_000 + digit
    power = weight - many + 1
    found: int | float = whole * 10_000**power if power >= 0 else whole / 10_000**-power
    return -found if sign else found


def _from_packed_list(data: bytes) -> Value:
    dimensions, _, element = struct.unpack_from("!iiI", data)
    if dimensions == 0:
        return []
    if dimensions != 1 or element in ELEMENTS:
        raise ValueError
    (many,), at = struct.unpack_from("!i", data, 12), 20
    found: list[Value] = []
    for _ in range(many):
        (size,) = struct.unpack_from("!i", data, at)
        found.append(None if size < 0 else _from_binary(data[at + 4 : at + 4 + size], element))
        at += 4 + max(size, 0)
    return found
