"""The contract of DuckDB's sources (files, frames, databases), and conversion of Arrow values that no value can stop.

For privacy a value must mean the same whatever stands beside it, and no value may stop a reading. Values of any type
can be read as text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

import numpy as np

from sfumato.kernel.reading.engines import Column

SOURCE = "source"


class Origin(Protocol):
    """Interface of a source that DuckDB can read.

    Where a value can stop DuckDB's reader, the source has `mount_slowly` too: a mount that no value can stop.
    """

    @property
    def shown(self) -> str:
        """Name of the source for messages."""

    def describe(self, connection: Any) -> list[Column]:
        """Columns of the source, from names and types alone."""

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        """Register at least the used columns with DuckDB under a name."""


def mounted_columns(connection: Any) -> list[Column]:
    """Columns of the registered source, in order; no query is run."""
    empty = connection.sql(f"FROM {SOURCE}")
    return [Column(name, bare_type(str(kind)), name) for name, kind in zip(empty.columns, empty.types, strict=True)]


def bare_type(kind: str) -> str:
    """DuckDB type without parameters, save those of decimals; for privacy, because those of an enumeration are values.

    >>> bare_type("ENUM('Ann', 'Bob')"), bare_type("DECIMAL(9,2)"), bare_type("STRUCT(a INTEGER)[]")
    ('ENUM', 'DECIMAL(9,2)', 'STRUCT[]')
    """
    if re.fullmatch(r"DECIMAL\([0-9, ]+\)", kind):
        return kind
    return re.sub(r"\(.*\)", "", kind, flags=re.DOTALL).strip('"')


_WHOLE = 2.0**63  # a whole float below this is written as the whole number it is
_ANY = 2**63 - 1
# What microseconds can count, which is what DuckDB reads: a slower reader must not take for missing what it counts.
_READABLE = {"s": _ANY // 10**6, "ms": _ANY // 10**3, "us": _ANY, "ns": _ANY}
# As text: up to the end of the year 9999, which is all that Python's own times can be.
_WRITABLE = {"s": 253_402_300_799, "ms": 253_402_300_799_999, "us": 253_402_300_799_999_999, "ns": _ANY}


def harmless(values: Any) -> Any:
    """Arrow array with invalid UTF-8 and times beyond DuckDB's range made missing."""
    import pyarrow as pa

    if isinstance(values, pa.ChunkedArray):
        chunks = values.chunks or [pa.array([], values.type)]
        return pa.chunked_array([harmless(chunk) for chunk in chunks])
    kind = values.type
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(values.indices, harmless(values.dictionary))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _as_utf8(values)
    if pa.types.is_timestamp(kind):
        return _in_range(values, _READABLE)
    return values


def as_text(values: Any) -> Any:
    """Arrow values as text: integers without a point, true and false, dates and times by ISO 8601 in UTC."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_dictionary(kind):
        return as_text(values.dictionary).take(values.indices)
    if pa.types.is_floating(kind):
        floats = values.cast(pa.float64())
        whole = pc.and_(pc.equal(pc.floor(floats), floats), pc.less(pc.abs(floats), _WHOLE))
        known = pc.fill_null(whole, False)
        numbers = pc.if_else(known, floats, pa.scalar(None, pa.float64())).cast(pa.int64()).cast(pa.string())
        finite = pc.if_else(pc.is_nan(floats), pa.scalar(None, pa.float64()), floats)  # not a number: missing
        return pc.if_else(known, numbers, finite.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        return _in_range(values, _WRITABLE).cast(pa.timestamp("us"), safe=False).cast(pa.string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _as_utf8(values.cast(pa.string()))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_date(kind):
        return values.cast(pa.string())
    return pa.array([None if value is None else text_of(value) for value in values.to_pylist()], pa.string())


def text_of(value: object) -> str | None:
    """One Python value as text, as `as_text` would write it in a column of its kind.

    >>> text_of(3), text_of(3.0), text_of(2.5), text_of(True), text_of(float("nan"))
    ('3', '3', '2.5', 'true', None)
    """
    try:
        if isinstance(value, bool | np.bool_):
            return str(bool(value)).lower()
        if isinstance(value, float | np.floating):
            return _float_text(float(value))
        if isinstance(value, datetime):
            return (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(" ")
        if isinstance(value, date):
            return value.isoformat()
        text = str(value)
        text.encode()
        return text
    except Exception:  # for privacy, what has no text (a lone surrogate, a failing __str__) must not stop the reading
        return None


def identity_of(value: object) -> bytes | None:
    """Identity of the person that a value names, where values have types of their own: type and exact value.

    For privacy: 1 and "1" are two persons, for were they one, taking one of them away could let rows of the other in.
    The bytes hang on the value alone, not on the type of its column, which pandas takes from all values. Objects of
    other types name nobody: what `str` makes of them may be the same for two of them, or change from time to time.

    >>> identity_of(1), identity_of("1"), identity_of(1.0), identity_of(True), identity_of([1])
    (b'whole 1', b'text 1', b'float 1.0', b'boolean true', None)
    """
    try:
        if isinstance(value, str):
            return b"text " + value.encode("utf-8", "surrogatepass")
        if isinstance(value, bool | np.bool_):
            return b"boolean %s" % str(bool(value)).lower().encode()
        if isinstance(value, int | np.integer):
            return b"whole %d" % int(value)
        if isinstance(value, float | np.floating):
            return None if math.isnan(value) else f"float {float(value) + 0.0!r}".encode()  # 0.0 and -0.0 are equal
        # A time is a date too, and comes first.
        kinds = {datetime: "time", date: "date", Decimal: "decimal", UUID: "uuid", bytes: "bytes"}
        kind = next(word for known, word in kinds.items() if isinstance(value, known))
        return f"{kind} {text_of(value)}".encode()
    except Exception:  # for privacy: of another type, or of one that fails, which must not stop the reading
        return None


def _float_text(value: float) -> str | None:
    import pyarrow as pa

    if math.isnan(value):
        return None
    whole = value.is_integer() and abs(value) < _WHOLE
    return str(int(value)) if whole else str(pa.scalar(value, pa.float64()).cast(pa.string()).as_py())


def _as_utf8(values: Any) -> Any:
    import pyarrow as pa

    large = pa.types.is_large_string(values.type)
    raw = values.view(pa.large_binary() if large else pa.binary())
    try:
        return raw.cast(values.type)
    except pa.ArrowInvalid:
        return pa.array([_decoded(value) for value in raw.to_pylist()], values.type)


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _in_range(values: Any, most: dict[str, int]) -> Any:
    """Times in microseconds (nanoseconds stay); those beyond `most` of their unit are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    unit, zone = values.type.unit, values.type.tz
    counted = values.view(pa.int64())
    near = pc.and_(pc.greater_equal(counted, -most[unit]), pc.less_equal(counted, most[unit]))
    kept = values if most[unit] == _ANY else pc.if_else(near, values, pa.scalar(None, values.type))
    if unit in ("us", "ns") and zone is None:
        return kept
    micro = kept.cast(pa.timestamp("us", zone), safe=False)
    endless = pc.or_(pc.equal(counted, _ANY), pc.equal(counted, -_ANY))  # DuckDB's infinities, in every unit
    return micro if unit == "ns" else pc.if_else(endless, counted.view(micro.type), micro)
