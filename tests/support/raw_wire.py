"""PostgreSQL's protocol, byte by byte, for tests that send what no well-behaved client would."""

from __future__ import annotations

import socket
from struct import pack, unpack
from typing import Self

from waiting import PATIENCE

SYNC, EXECUTE = (b"S", b""), (b"E", b"\0" + bytes(4))


class Raw:
    """A connection that sends whatever it is told."""

    def __init__(self, port: int, *, begin: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.key = b""
        if begin:
            self.start()
            for kind, body in self.until(b"Z"):
                self.key = body if kind == b"K" else self.key

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def start(self, code: int = 3 << 16, body: bytes = b"user\0me\0database\0db\0\0") -> None:
        self.socket.sendall(pack("!ii", len(body) + 8, code) + body)

    def send(self, *messages: tuple[bytes, bytes]) -> None:
        self.socket.sendall(b"".join(kind + pack("!i", len(body) + 4) + body for kind, body in messages))

    def ask(self, text: str) -> list[tuple[bytes, bytes]]:
        self.send((b"Q", text.encode() + b"\0"))
        return self.until(b"Z")

    def until(self, last: bytes) -> list[tuple[bytes, bytes]]:
        """Messages up to one of a kind, or to the end of the connection."""
        found = []
        while (kind := self.exactly(1)) != b"":
            (length,) = unpack("!i", self.exactly(4))
            found.append((kind, self.exactly(length - 4)))
            if kind == last:
                break
        return found

    def exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size and (more := self.socket.recv(size - len(found))):
            found += more
        return found


def code(messages: list[tuple[bytes, bytes]]) -> str:
    """The SQLSTATE of the first error."""
    (body, *_) = [body for kind, body in messages if kind == b"E"]
    fields = {field[:1]: field[1:] for field in body.split(b"\0")}
    assert b"Traceback" not in body and b"\n" not in fields[b"M"]
    return fields[b"C"].decode()


def kinds(messages: list[tuple[bytes, bytes]]) -> bytes:
    """The letters of messages."""
    return b"".join(kind for kind, _ in messages)


def parse(text: str, name: bytes = b"") -> tuple[bytes, bytes]:
    """Parse: prepare a statement."""
    return b"P", name + b"\0" + text.encode() + b"\0" + bytes(2)


def bind(*values: bytes, form: int = 0) -> tuple[bytes, bytes]:
    """Bind: values for the unnamed statement, whose answer is to come as text."""
    cells = b"".join(pack("!i", len(value)) + value for value in values)
    return b"B", b"\0\0" + pack("!hh", 1, form) + pack("!h", len(values)) + cells + pack("!hh", 1, 0)
