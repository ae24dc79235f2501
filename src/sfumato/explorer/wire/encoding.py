"""Values as bytes, in text and in binary."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from math import isfinite, isnan
from struct import pack

from sfumato.explorer.wire.types import BEGINNING, BOOL, DATE, ELEMENTS, REAL, TIMESTAMP, WHOLE


def as_text(value: object, oid: int) -> bytes | None:
    """A value as PostgreSQL writes it.

    >>> from sfumato.explorer.wire.types import FLOAT8
    >>> as_text(12.0, FLOAT8), as_text(True, BOOL), as_text("2024-06-01T13:59", TIMESTAMP)
    (b'12', b't', b'2024-06-01 13:59:00')
    """
    return None if value is None else _written(value, oid).encode("utf-8", "replace")


def as_binary(value: object, oid: int) -> bytes | None:
    """A value as PostgreSQL packs it."""
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
