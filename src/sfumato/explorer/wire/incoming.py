"""Messages of a client, taken apart. Whatever is not as the protocol has it is refused, never guessed at."""

from __future__ import annotations

from struct import unpack_from
from typing import NamedTuple

from sfumato.explorer.wire.failures import malformed

MOST_PARAMETERS = 1000


class Parse(NamedTuple):
    """A statement to keep. oids: the types of its parameters, as far as the client says them (0: it does not)."""

    name: str
    text: str
    oids: tuple[int, ...]


class Bind(NamedTuple):
    """A statement with values. formats, results: 0 for text and 1 for binary; none, one for all, or one for each."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]


class Named(NamedTuple):
    """A statement (S) or a portal (P) by its name."""

    kind: str
    name: str


class Execute(NamedTuple):
    """A portal to run. most: rows at once; 0 for all."""

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
        """h: of two bytes; i: of four; I: of four, never negative."""
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
    """Settings of a first message, after the version."""
    body, found = Body(data), {}
    while (name := body.text()) != "":
        found[name] = body.text()
        if len(found) > 100:
            raise malformed("the first message has too many settings", fatal=True)
    body.end()
    return found
