"""Encode and decode the messages of PostgreSQL's wire protocol.

Reading is suspicious: messages have a largest length and a time limit, and one that departs from the protocol is
refused, never guessed at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from struct import pack, unpack, unpack_from
from typing import NamedTuple

from sfumato.plain_text import printable
from sfumato.serve.pgwire.protocol import IDLE, PROTOCOL, TOO_LARGE, Column, Failure, length_of, malformed
from sfumato.serve.web.requests import IDLE_SECONDS, MESSAGE_SECONDS, MOST_MESSAGE, MOST_STARTUP


async def first_message(reader: asyncio.StreamReader) -> bytes:
    """Read a message before the handshake, which has a length and no type letter."""
    (length,) = unpack("!i", await reader.readexactly(4))
    if not 8 <= length <= MOST_STARTUP:
        raise malformed("the first message is not one of PostgreSQL's protocol", fatal=True)
    return await reader.readexactly(length - 4)


async def next_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read a message: its type letter and its body."""
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            kind = await reader.readexactly(1)
    except TimeoutError:
        raise Failure(IDLE, "nothing was asked for a long time", "connect again", fatal=True) from None
    try:
        async with asyncio.timeout(MESSAGE_SECONDS):
            (length,) = unpack("!i", await reader.readexactly(4))
            if length < 4:
                raise malformed("a message is shorter than its own length", fatal=True)
            if length > MOST_MESSAGE:
                raise Failure(TOO_LARGE, f"a message has at most {MOST_MESSAGE:,} bytes", "ask in parts", fatal=True)
            return kind, await reader.readexactly(length - 4)
    except TimeoutError:
        raise Failure(PROTOCOL, "the message took too long to arrive", "send it at once", fatal=True) from None


MOST_PARAMETERS = 1000


class Parse(NamedTuple):
    """Prepare a statement. oids: the types of its parameters, as far as the client says them (0: it does not)."""

    name: str
    text: str
    oids: tuple[int, ...]


class Bind(NamedTuple):
    """Bind values to a statement. formats, results: 0 for text and 1 for binary; none, one for all, or one for each."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


class Named(NamedTuple):
    """Name of a statement (S) or a portal (P)."""

    kind: str
    name: str


class Execute(NamedTuple):
    """Run a portal. most: rows at once; 0 for all."""

    portal: str
    most: int


class Body:
    """The bytes of one message, read from left to right."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.data):
            raise malformed("a message ends too early")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form: str) -> int:
        """Read an integer. h: two bytes; i: four; I: four, never negative."""
        (found,) = unpack_from(f"!{form}", self.take(2 if form == "h" else 4))
        return int(found)

    def text(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise malformed("a text in a message does not end")
        found = self.take(end - self.at)
        self.at += 1
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise malformed("a text in a message is not UTF-8") from None

    def numbers(self, form: str, most: int = MOST_PARAMETERS) -> tuple[int, ...]:
        return tuple(self.number(form) for _ in range(self.count(most)))

    def count(self, most: int = MOST_PARAMETERS) -> int:
        found = self.number("h")
        if not 0 <= found <= most:
            raise malformed(f"a message lists {found} things, {most} is the most")
        return found

    def value(self) -> bytes | None:
        size = self.number("i")
        return None if size == -1 else self.take(size)

    def end(self) -> None:
        if self.at != len(self.data):
            raise malformed("a message is longer than what it says")


def read_query(data: bytes) -> str:
    body = Body(data)
    found = body.text()
    body.end()
    return found


def read_parse(data: bytes) -> Parse:
    body = Body(data)
    found = Parse(body.text(), body.text(), body.numbers("I"))
    body.end()
    return found


def read_bind(data: bytes) -> Bind:
    body = Body(data)
    portal, statement, formats = body.text(), body.text(), body.numbers("h")
    values = tuple(body.value() for _ in range(body.count()))
    found = Bind(portal, statement, formats, values, body.numbers("h", 32_767))
    body.end()
    if {*found.formats, *found.results} - {0, 1} or len(formats) not in (0, 1, len(values)):
        raise malformed("formats are 0 or 1, none, one for all, or one for each")
    return found


def read_named(data: bytes) -> Named:
    body = Body(data)
    found = Named(body.take(1).decode("latin-1"), body.text())
    body.end()
    if found.kind not in ("S", "P"):
        raise malformed("what is described or closed is a statement (S) or a portal (P)")
    return found


def read_execute(data: bytes) -> Execute:
    body = Body(data)
    found = Execute(body.text(), body.number("i"))
    body.end()
    return found


def read_startup(data: bytes) -> dict[str, str]:
    """Read the settings of a startup message, after the version."""
    body, found = Body(data), {}
    while (name := body.text()) != "":
        found[name] = body.text()
        if len(found) > 100:
            raise malformed("the first message has too many settings", fatal=True)
    body.end()
    return found


AUTHENTICATED = b"R" + pack("!ii", 8, 0)
PARSED, BOUND, CLOSED, NOTHING, SUSPENDED, EMPTY = (
    kind + pack("!i", 4) for kind in (b"1", b"2", b"3", b"n", b"s", b"I")
)
COPY_DONE = b"c" + pack("!i", 4)
NO_ENCRYPTION = b"N"


def message(kind: bytes, body: bytes) -> bytes:
    """Encode a message with its length."""
    return kind + pack("!i", len(body) + 4) + body


def cstring(text: str) -> bytes:
    """Encode a zero-terminated text, which therefore cannot hold a zero."""
    return text.replace("\0", "\\x00").encode("utf-8", "replace") + b"\0"


def parameter(name: str, value: str) -> bytes:
    """ParameterStatus: a setting that clients are told of."""
    return message(b"S", cstring(name) + cstring(value))


def cancel_key(process: int, secret: int) -> bytes:
    """BackendKeyData: the key with which a query can be cancelled."""
    return message(b"K", pack("!iI", process, secret))


def versions(newest: int, unknown: Sequence[str]) -> bytes:
    """NegotiateProtocolVersion: answer to a client that asked for a newer version or unknown options."""
    return message(b"v", pack("!ii", newest, len(unknown)) + b"".join(map(cstring, unknown)))


def ready(status: str) -> bytes:
    """ReadyForQuery. status: I outside a transaction, T inside, E inside one that failed."""
    return message(b"Z", status.encode())


def complete(tag: str) -> bytes:
    """CommandComplete: a statement is done."""
    return message(b"C", cstring(tag))


def parameter_types(oids: Sequence[int]) -> bytes:
    """ParameterDescription: the types of $1, $2, ... of a statement."""
    return message(b"t", pack("!h", len(oids)) + b"".join(pack("!I", oid) for oid in oids))


def row_description(columns: Sequence[Column], formats: Sequence[int]) -> bytes:
    """RowDescription: names and types of columns. formats: 0 for text and 1 for binary, one for each column."""
    body = [pack("!h", len(columns))]
    for (name, oid), form in zip(columns, formats, strict=True):
        body.append(cstring(name) + pack("!IhIhih", 0, 0, oid, length_of(oid), -1, form))
    return message(b"T", b"".join(body))


def data_row(values: Sequence[bytes | None]) -> bytes:
    """DataRow: one row."""
    cells = [pack("!i", -1) if value is None else pack("!i", len(value)) + value for value in values]
    return message(b"D", pack("!h", len(values)) + b"".join(cells))


def copy_begins(columns: int, form: int) -> bytes:
    """CopyOutResponse: rows follow as CopyData. form: 0 for text, 1 for binary, of the whole and of each column."""
    return message(b"H", pack("!bh", form, columns) + pack("!h", form) * columns)


def error(failure: Failure) -> bytes:
    """ErrorResponse: a refusal."""
    severity = "FATAL" if failure.fatal else "ERROR"
    said = {"S": severity, "V": severity, "C": failure.code, "M": printable(failure.message)}
    return message(b"E", _fields(said | ({"H": printable(failure.hint)} if failure.hint else {})))


def notice(text: str) -> bytes:
    """NoticeResponse: a note on an answer."""
    return message(b"N", _fields({"S": "NOTICE", "V": "NOTICE", "C": "00000", "M": printable(text)}))


def _fields(said: Mapping[str, str]) -> bytes:
    return b"".join(letter.encode() + cstring(text) for letter, text in said.items()) + b"\0"
