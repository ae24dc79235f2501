"""Messages to a client, as bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack

from sfumato.explorer.wire.failures import Failure
from sfumato.explorer.wire.types import Column, length_of
from sfumato.plain_text import printable

AUTHENTICATED = b"R" + pack("!ii", 8, 0)
PARSED, BOUND, CLOSED, NOTHING, SUSPENDED, EMPTY = (
    kind + pack("!i", 4) for kind in (b"1", b"2", b"3", b"n", b"s", b"I")
)
NO_ENCRYPTION = b"N"


def message(kind: bytes, body: bytes) -> bytes:
    """A message with its length."""
    return kind + pack("!i", len(body) + 4) + body


def cstring(text: str) -> bytes:
    """A text that ends with a zero, which it therefore cannot have inside."""
    return text.replace("\0", "\\x00").encode("utf-8", "replace") + b"\0"


def parameter(name: str, value: str) -> bytes:
    """A setting that clients want to know of."""
    return message(b"S", cstring(name) + cstring(value))


def cancel_key(process: int, secret: int) -> bytes:
    """By which a question can be given up."""
    return message(b"K", pack("!iI", process, secret))


def versions(newest: int, unknown: Sequence[str]) -> bytes:
    """Which version is spoken, to a client that asked for a newer one or for options that nobody knows."""
    return message(b"v", pack("!ii", newest, len(unknown)) + b"".join(map(cstring, unknown)))


def ready(status: str) -> bytes:
    """More may be asked. status: I outside a transaction, T inside, E inside one that failed."""
    return message(b"Z", status.encode())


def complete(tag: str) -> bytes:
    """A statement is done."""
    return message(b"C", cstring(tag))


def parameter_types(oids: Sequence[int]) -> bytes:
    """What the $1, $2, ... of a statement are."""
    return message(b"t", pack("!h", len(oids)) + b"".join(pack("!I", oid) for oid in oids))


def row_description(columns: Sequence[Column], formats: Sequence[int]) -> bytes:
    """Names and types of the columns of an answer. formats: 0 for text and 1 for binary, one for each column."""
    body = [pack("!h", len(columns))]
    for (name, oid), form in zip(columns, formats, strict=True):
        body.append(cstring(name) + pack("!IhIhih", 0, 0, oid, length_of(oid), -1, form))
    return message(b"T", b"".join(body))


def data_row(values: Sequence[bytes | None]) -> bytes:
    """One row."""
    cells = [pack("!i", -1) if value is None else pack("!i", len(value)) + value for value in values]
    return message(b"D", pack("!h", len(values)) + b"".join(cells))


def error(failure: Failure) -> bytes:
    """A refusal."""
    severity = "FATAL" if failure.fatal else "ERROR"
    said = {"S": severity, "V": severity, "C": failure.code, "M": printable(failure.message)}
    return message(b"E", _fields(said | ({"H": printable(failure.hint)} if failure.hint else {})))


def notice(text: str) -> bytes:
    """Something to know about an answer."""
    return message(b"N", _fields({"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": printable(text)}))


def _fields(said: Mapping[str, str]) -> bytes:
    return b"".join(letter.encode() + cstring(text) for letter, text in said.items()) + b"\0"
