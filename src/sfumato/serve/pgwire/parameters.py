"""Decode the values that a client sends for $1, $2, ..., in text and in binary."""

from __future__ import annotations

import re
import struct
from datetime import timedelta
from typing import NamedTuple

from sfumato.effort import MOST_CHARACTERS, at_most
from sfumato.serve.pgwire import protocol as pg
from sfumato.serve.pgwire.protocol import Failure, Value

_TEXTS = (pg.TEXT, pg.VARCHAR, pg.BPCHAR, pg.NAME, pg.UNKNOWN, 0)


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
        raise Failure(pg.BAD_VALUE, what, "give a value of that type") from None


def _from_text(text: str, oid: int) -> Value:
    if oid in pg.WHOLE:
        return int(text)
    if oid in pg.REAL or oid == pg.NUMERIC:
        return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else float(text)
    if oid == pg.BOOL:
        return {"t": True, "1": True, "f": False, "0": False}[text[:1].lower()]
    if oid in pg.ELEMENTS:
        return [_from_text(one, pg.ELEMENTS[oid]) for one in _listed(text)]
    return text


def _listed(text: str) -> list[str]:
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError
    at_most(len(text), MOST_CHARACTERS, "characters are in a list of values", "give fewer")
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|([^",{}]+)', text[1:-1])
    return [re.sub(r"\\(.)", r"\1", quoted) or plain for quoted, plain in found]


def _from_binary(data: bytes, oid: int) -> Value:
    if oid in pg.WHOLE or oid in pg.REAL:
        (found,) = struct.unpack(pg.WHOLE.get(oid) or pg.REAL[oid], data)
        return int(found) if oid in pg.WHOLE else float(found)
    if oid == pg.DATE:
        return (pg.BEGINNING + timedelta(days=struct.unpack("!i", data)[0])).date().isoformat()
    if oid in (pg.TIMESTAMP, pg.TIMESTAMPTZ):
        return (pg.BEGINNING + timedelta(microseconds=struct.unpack("!q", data)[0])).isoformat(" ")
    if oid in pg.ELEMENTS:
        return _from_packed_list(data)
    if oid in _TEXTS:
        return data.decode()
    if oid not in (pg.BOOL, pg.NUMERIC):
        raise Failure(pg.UNSUPPORTED, "a parameter in binary is of a type that is not known here", "send it as text")
    return data != b"\0" if oid == pg.BOOL else _numeric(data)


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
    if dimensions != 1 or element in pg.ELEMENTS:
        raise ValueError
    (many,), at = struct.unpack_from("!i", data, 12), 20
    found: list[Value] = []
    for _ in range(many):
        (size,) = struct.unpack_from("!i", data, at)
        found.append(None if size < 0 else _from_binary(data[at + 4 : at + 4 + size], element))
        at += 4 + max(size, 0)
    return found
