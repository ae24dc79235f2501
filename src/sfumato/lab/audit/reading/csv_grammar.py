"""The grammar of CSV, byte by byte: what the fast reader must agree with, wherever it cuts a file into blocks."""

from __future__ import annotations

from sfumato.frozen import dataclass


@dataclass(frozen=True)
class Record:
    """One record: where it stands in the file, and its fields."""

    start: int
    stop: int
    fields: tuple[bytes, ...]


def records(data: bytes, separator: int, quote: int = ord('"'), *, header: bool = True) -> list[Record]:
    """All records of a file, the header first; empty lines are none. quote: -1 for none."""
    found: list[Record] = []
    fields: list[bytes] = []
    field = bytearray()
    state, start, first = "start", 0, 3 if header and data.startswith(b"\xef\xbb\xbf") else 0
    returned = False  # whether the last byte of the field is a carriage return outside quotes

    def end(stop: int) -> None:
        nonlocal field, fields, start, state, returned
        fields.append(bytes(field[:-1] if returned else field))
        if fields != [b""] or data[start:stop].strip(b"\r\n"):
            found.append(Record(start, stop, tuple(fields)))
        field, fields, start, state, returned = bytearray(), [], stop, "start", False

    for at in range(first, len(data)):
        byte = data[at]
        if state == "start" and byte == quote:
            state = "quoted"
        elif state == "quoted":
            if byte == quote:
                state = "closing"
            else:
                field.append(byte)
        elif state == "closing" and byte == quote:
            field.append(byte)
            state = "quoted"
        elif byte == separator:
            fields.append(bytes(field))
            field, state, returned = bytearray(), "start", False
        elif byte == ord("\n"):
            end(at + 1)
        else:
            field.append(byte)
            state, returned = "plain", byte == ord("\r")
    if start < len(data) and (first == 0 or start or len(data) > first):
        end(len(data))
    return found


def text(field: bytes) -> str | None:
    """What a field says; missing if it is empty or not UTF-8."""
    try:
        return field.decode() or None
    except UnicodeDecodeError:
        return None
