"""Parquet members of a release file: integer columns written, and read back from untrusted bytes.

A column `cell` holds cell indices. A column `parts of X` adds 1024ths to column X. The member `numbers` holds arrays
one after the other, with their lengths in the manifest.

Columns are delta encoded and not compressed. Measured on ten million noisy counts this is faster than zstd or snappy
and about as small, and it excludes decompression bombs: without a codec no page is larger in memory than in the file.

pyarrow decodes, but some of its accessors abort the process on unknown footer values. So the footer and every page
header are parsed here first, and only a file laid out exactly as `write_columns` does, without gaps, is passed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Whole
from sfumato.errors import ReleaseFileError
from sfumato.measurement import Noise
from sfumato.releases.file.manifest import Manifest, Member, Statistic
from sfumato.releases.file.records import noise_record, refusal
from sfumato.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, Whole]

CELLS, CELL = "cells", "cell"
NUMBERS, VALUE = "numbers", "value"


def statistic(of: str, schema: Schema, noise: Noise | None) -> Statistic:
    """Manifest entry of a statistic that is kept with the cells."""
    written = None if noise is None else noise_record(noise)
    if of == "count":
        return Statistic(of, CELLS, "count", written)
    if of not in schema.summed:
        return Statistic(of, CELLS, of, written)
    measure = schema.summed[of]
    return Statistic(of, CELLS, f"sum of {of}", written, measure.step, measure.centre)


def parts_column(column: str) -> str:
    """Name of the column that adds 1024ths to another; no statistic's own column can have it."""
    return f"parts of {column}"


def arrays_in(manifest: Manifest, numbers: Whole) -> list[Whole]:
    """Split the concatenated arrays of the member `numbers`."""
    return np.split(numbers, list(accumulate(manifest.arrays))[:-1]) if manifest.arrays else []


def check_columns(
    manifest: Manifest, besides: Sequence[tuple[str, str]], statistics: Sequence[Statistic] | None = None
) -> None:
    """Refuse members that do not hold exactly the columns of all or some statistics and those `besides`.

    besides: member and column each.
    """
    kept_by = manifest.statistics if statistics is None else statistics
    wanted = [(one.member, one.column) for one in kept_by] + list(besides)
    kept = [(name, column) for name, member in manifest.members.items() for column in member.columns]
    if sorted(wanted) != sorted(kept):
        raise refusal("its statistics are not the columns of its members, one each")


def check_rows(manifest: Manifest, rows: Mapping[str, int], *, at_most: bool = False) -> None:
    """Refuse a member whose number of rows is not `rows`; at_most: or exceeds it."""
    for name, member in manifest.members.items():
        if member.rows > rows[name] or (member.rows < rows[name] and not at_most):
            raise refusal(f"its member {name} does not have a row for each cell of its schema, or number of its arrays")


ROWS_PER_GROUP = 2**20  # bounds what writing and reading need beside the columns themselves: 8 MB each
MOST_BYTES = 2**32 - 2**23  # of all columns together, in memory or in the file, which a plain zip can then hold
MOST_FOOTER_BYTES = 2**20
MOST_VALUES_PER_BYTE = 64  # equal values take a byte for every 48; fewer bytes than this are a bomb

_MAGIC = b"PAR1"

# Numbers that Parquet's specification gives to things.
_INT64, _REQUIRED, _UNCOMPRESSED, _DATA_PAGE, _RLE, _DELTA = 2, 0, 0, 0, 3, 5


def write_columns(sink: IO[bytes], columns: Mapping[str, Whole]) -> None:
    """Write integer columns of equal length as Parquet, with little memory beside them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # Wrapped, not converted: pa.array and to_numpy import pandas where it is installed, a third of a second.
    arrays = [
        pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
        for values in columns.values()
    ]
    table = pa.table(arrays, schema=arrow_schema(columns))
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="none",
        use_dictionary=False,
        column_encoding="DELTA_BINARY_PACKED",
        write_statistics=False,
        store_schema=False,
    ) as writer:
        if len(table):
            writer.write_table(table, row_group_size=ROWS_PER_GROUP)


def check_sizes(members: Iterable[Member]) -> None:
    """Refuse members whose size in bytes contradicts their claimed rows and columns, before any is read."""
    decoded = encoded = 0
    for member in members:
        values = member.rows * len(member.columns)
        if values > MOST_VALUES_PER_BYTE * member.bytes or member.bytes > 10 * values + MOST_FOOTER_BYTES:
            raise refusal("the size of a member does not match the rows it claims to hold")
        decoded, encoded = decoded + 8 * values, encoded + member.bytes
    if max(decoded, encoded) > MOST_BYTES:
        raise refusal("it claims to hold more than 4 GB of values", "a release that large cannot be opened")


def read_columns(data: bytes, names: Sequence[str], rows: int) -> dict[str, Whole]:
    """Decode the columns of untrusted Parquet bytes, which must have the stated names and rows."""
    check_parquet(data, names, rows)

    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        columns = {name: np.empty(rows, dtype=np.int64) for name in names}
        file, start = pq.ParquetFile(pa.BufferReader(data)), 0
        for group in range(file.num_row_groups):
            group_columns = file.read_row_group(group, use_threads=False)
            if not group_columns.schema.equals(arrow_schema(names)):
                raise refusal("a member does not have the columns its manifest names")
            for values, column in zip(columns.values(), group_columns.columns, strict=True):
                _fill(values[start : start + len(group_columns)], column)
            start += len(group_columns)
            del group_columns, column  # before the next, or there are two at a time
            pa.default_memory_pool().release_unused()
    except MemoryError:
        raise ReleaseFileError("its values do not fit in memory; open it on a larger machine") from None
    except (pa.ArrowException, OSError, ValueError, TypeError, LookupError, RuntimeError):
        raise refusal("a member cannot be read as Parquet") from None
    if start != rows:
        raise refusal("a member does not hold the values its footer claims")
    for values in columns.values():
        values.setflags(write=False)
    return columns


def _fill(values: Whole, column: Any) -> None:
    """Copy a decoded integer column without nulls into an array."""
    if len(values) != len(column) or column.null_count:
        raise refusal("a member does not hold the values its footer claims")
    start = 0
    for chunk in column.chunks:
        if len(chunk):
            decoded = np.frombuffer(chunk.buffers()[1], dtype=np.int64, count=len(chunk), offset=8 * chunk.offset)
            values[start : start + len(chunk)] = decoded
        start += len(chunk)


def arrow_schema(names: Iterable[str]) -> pa.Schema:
    """Arrow schema of required int64 columns."""
    import pyarrow as pa

    return pa.schema([pa.field(name, pa.int64(), nullable=False) for name in names])


def check_parquet(data: bytes, names: Sequence[str], rows: int) -> None:
    """Refuse Parquet bytes that `write_columns` would not have written; decodes no values."""
    footer_size = int.from_bytes(data[-8:-4], "little")
    footer_start = len(data) - 8 - footer_size
    if len(data) < 12 or data[:4] != _MAGIC or data[-4:] != _MAGIC or footer_start < 4:
        raise refusal("a member is not a Parquet file")
    try:
        reader = _Compact(data, footer_start, len(data) - 8)
        footer = reader.struct() if footer_size <= MOST_FOOTER_BYTES else {}
        if reader.at != len(data) - 8:
            raise refusal("a member is not Parquet as Sfumato writes it")
        _check_footer(data, footer, names, rows, footer_start)
    except (LookupError, ValueError, TypeError):
        raise refusal("a member is not Parquet as Sfumato writes it") from None


def _check_footer(data: bytes, footer: dict[int, Any], names: Sequence[str], rows: int, footer_start: int) -> None:
    """Check columns, bounded row groups, and that the pages lie end to end without overlap."""
    named = [name.encode("utf-8") for name in names]
    # 5 would be notes, among them an Arrow schema, which could ask for Python types: never written, never parsed.
    root, *columns = _fields(footer, {1, 2, 3, 4, 6, 7})[2]
    if _fields(root, {3, 4, 5})[5] != len(named) or columns != [{1: _INT64, 3: _REQUIRED, 4: name} for name in named]:
        raise refusal("a member does not have the columns its manifest names")
    at, counted = 4, 0
    for group in footer[4]:
        count = _fields(group, {1, 2, 3, 5, 6, 7})[3]
        if not 0 < count <= ROWS_PER_GROUP or len(group[1]) != len(named):
            raise refusal("a member is not Parquet as Sfumato writes it")
        counted += count
        for name, chunk in zip(named, group[1], strict=True):
            about = _fields(_fields(chunk, {2, 3})[3], {1, 2, 3, 4, 5, 6, 7, 9, 13})
            size = about[7]
            ours = [about[field] for field in (1, 3, 4, 5, 6)] == [_INT64, [name], _UNCOMPRESSED, count, size]
            if not ours or not set(about[2]) <= {_RLE, _DELTA}:
                raise refusal("a member is not Parquet as Sfumato writes it")
            if about[9] != at or not 0 < size <= 10 * count + 2**10:
                raise refusal("a member has columns that overlap or leave gaps")
            _check_pages(data, at, at + size, count)
            at += size
            if chunk[2] == at:  # older versions of pyarrow repeat here what the footer says of the column
                reader = _Compact(data, at, footer_start)
                if reader.struct() != chunk:
                    raise refusal("a member is not Parquet as Sfumato writes it")
                at = reader.at
    if counted != rows or footer[3] != rows or at != footer_start:
        raise refusal("a member does not hold the rows its manifest names")


def _check_pages(data: bytes, at: int, end: int, rows: int) -> None:
    """Check the page headers of one column chunk and count their values."""
    pages = counted = 0
    while at < end:
        reader = _Compact(data, at, end)
        header = _fields(reader.struct(), {1, 2, 3, 5})
        about = _fields(header[5], {1, 2, 3, 4, 5})
        at, count = reader.at + header[3], about[1]
        blocks = [reader.varint() for _ in range(3)]  # values in a block, parts of a block, values in the page
        ours = [header[1], header[2], about[2], about[3], about[4]] == [_DATA_PAGE, header[3], _DELTA, _RLE, _RLE]
        if (
            not ours
            or about.get(5)
            or reader.at > at
            or not 0 < count == blocks[2]
            or not 0 < blocks[1] <= blocks[0] <= 2**10
        ):
            raise refusal("a member is not Parquet as Sfumato writes it")
        pages, counted = pages + 1, counted + count
        if pages > 8 + rows // 2**10:  # more would only serve to keep the reader busy
            raise refusal("a member is not Parquet as Sfumato writes it")
    if at != end or counted != rows:
        raise refusal("a member does not hold the values its footer claims")


def _fields(struct: Any, allowed: set[int]) -> dict[int, Any]:
    """Thrift struct with only known field numbers, or a refusal."""
    if not isinstance(struct, dict) or not struct.keys() <= allowed:
        raise refusal("a member is not Parquet as Sfumato writes it")
    return struct


class _Compact:
    """Parser of the subset of Thrift's compact protocol used by Parquet footers and page headers.

    A struct becomes a dictionary by field number. Malformed input raises ValueError or IndexError.
    """

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data, self.at, self.end = data, at, end

    def byte(self) -> int:
        if self.at >= self.end:
            raise IndexError
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError

    def struct(self, depth: int = 0) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (head := self.byte()) != 0:
            if head >> 4 == 0:  # a field number that is not a small step from the last, which ours always are
                raise ValueError
            number += head >> 4
            fields[number] = self.value(head & 0x0F, depth)
        return fields

    def value(self, kind: int, depth: int) -> Any:
        match kind:
            case 4 | 5 | 6:  # whole numbers of 16, 32 and 64 bits
                number = self.varint()
                return (number >> 1) ^ -(number & 1)
            case 8:  # text
                size = self.varint()
                if size > self.end - self.at:
                    raise IndexError
                self.at += size
                return self.data[self.at - size : self.at]
            case 9 if depth < 8:  # a list
                head = self.byte()
                size = head >> 4 if head >> 4 < 15 else self.varint()
                return [self.value(head & 0x0F, depth + 1) for _ in range(size)]
            case 12 if depth < 8:
                return self.struct(depth + 1)
        raise ValueError
