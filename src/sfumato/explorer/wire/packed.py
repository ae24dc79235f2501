"""An answer as bytes: what it is, in JSON, and its rows as they go to the client. So it is kept, for all who ask."""

from __future__ import annotations

import json
from collections.abc import Sequence
from struct import unpack_from

from sfumato.explorer.wire.encoding import as_binary, as_text
from sfumato.explorer.wire.failures import UNSUPPORTED, Failure
from sfumato.explorer.wire.outgoing import data_row
from sfumato.explorer.wire.types import Column, fits
from sfumato.frozen import dataclass


@dataclass(frozen=True)
class Answer:
    """Columns, how many rows, notes, the types of the statement's parameters, and all rows as messages."""

    columns: tuple[Column, ...]
    count: int
    notes: tuple[str, ...]
    parameters: tuple[int, ...]
    rows: bytes

    @classmethod
    def unpacked(cls, packed: bytes) -> Answer:
        """The answer that `pack_answer` made."""
        head, _, rows = packed.partition(b"\n")
        about = json.loads(head)
        columns = tuple((str(name), int(oid)) for name, oid in about["columns"])
        return cls(columns, about["count"], tuple(about["notes"]), tuple(about["parameters"]), rows)

    def part(self, start: int, most: int) -> tuple[bytes, int, int]:
        """Rows from a place on, at most so many (0: all): the bytes, where the next one starts, and how many."""
        end, count = start, 0
        if most <= 0 and start == 0:
            return self.rows, len(self.rows), self.count
        while end < len(self.rows) and (most <= 0 or count < most):
            (length,) = unpack_from("!i", self.rows, end + 1)
            end, count = end + 1 + length, count + 1
        return self.rows[start:end], end, count


def pack_answer(
    columns: Sequence[Column],
    rows: Sequence[Sequence[object]],
    *,
    formats: Sequence[int] = (),
    notes: Sequence[str] = (),
    parameters: Sequence[int] = (),
) -> bytes:
    """An answer as bytes. formats: 0 for text and 1 for binary; none, one for all, or one for each column."""
    writers = [as_binary if form else as_text for form in spread(formats, len(columns))]
    lines = []
    for row in rows:
        cells = zip(writers, row, columns, strict=True)
        lines.append(data_row([write(value, oid) for write, value, (_, oid) in cells]))
    about = {"columns": list(columns), "count": len(rows), "notes": list(notes), "parameters": list(parameters)}
    return json.dumps(about).encode() + b"\n" + b"".join(lines)


def spread(formats: Sequence[int], many: int) -> tuple[int, ...]:
    """A format for each of so many values."""
    if len(formats) in (0, 1):
        return tuple(formats or (0,)) * many
    if len(formats) != many:
        raise Failure(
            "08P01", f"{len(formats)} formats were given for {many} columns", "give none, one, or one for each"
        )
    return tuple(formats)


def as_announced(columns: Sequence[Column], rows: Sequence[Sequence[object]], announced: Sequence[Column]) -> None:
    """Refuse an answer whose columns are not those which the client was told of; in PostgreSQL's own words."""
    same = [name for name, _ in columns] == [name for name, _ in announced]
    if not same or not all(fits(value, oid) for row in rows for value, (_, oid) in zip(row, announced, strict=True)):
        raise Failure(UNSUPPORTED, "cached plan must not change result type", "prepare the statement again")
