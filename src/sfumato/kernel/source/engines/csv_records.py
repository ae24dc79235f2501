"""CSV, record by record: what one record means depends on no other record, wherever the file is cut into blocks.

The grammar, which privacy leans on (docs/privacy.md, the theorem about reading):

    file      header, record, record, ...; an empty line is no record
    record    fields between separators, ended by a line feed; a carriage return right before it belongs to the end
    field     plain bytes, or a quote, anything with quotes doubled, a quote, and whatever stands behind it as it is

It is an automaton that is back in its first state after each record, so taking records out of a file leaves exactly the
others. A quote inside a plain field and a carriage return inside a record are bytes like any others. A record that has
not as many fields as the header, or is longer than LONGEST, falls out by itself. Nothing is guessed and nothing fails.

DuckDB's own reader is not used: it cuts files every 8 MB and guesses where a line starts, ends records at bare carriage
returns, and has a longest line beyond which it depends on its mood what is lost. This one is not slower.
"""

from __future__ import annotations

import bz2
import gzip
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 2**23  # bytes that are looked at together; no result depends on it
LONGEST = 2**24  # bytes of a record
_BOM = b"\xef\xbb\xbf"
_QUOTE, _LINE_FEED, _RETURN = b'"\n\r'

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Block:
    """Whole records: their bytes, and the places of the separators and line feeds that end fields."""

    data: NDArray[np.uint8]
    ends: Places


def first_record(start: bytes, separator: str) -> list[bytes] | None:
    """The fields of the first record, which is the header; None if `start` does not hold all of it."""
    start = start.removeprefix(_BOM)
    ends = _field_ends(start, _field_of(separator))
    lines = [place for place in ends if start[place] == _LINE_FEED]
    if not lines:
        return None
    inside = [place for place in ends if place <= lines[0]]
    starts = [0, *(place + 1 for place in inside[:-1])]
    fields = [start[a:b] for a, b in zip(starts, inside, strict=True)]
    return [unquoted(field) for field in (*fields[:-1], fields[-1].removesuffix(b"\r"))]


def batches(
    paths: Iterable[Path], separator: str, width: int, places: Sequence[int], *, block: int = BLOCK
) -> Iterator[pa.RecordBatch]:
    """The columns at `places` of the records of some files, as text named c0, c1, ... by place.

    width: how many fields the header has. An empty field, and one that is not UTF-8, is missing.
    """
    import pyarrow as pa

    schema = pa.schema([pa.field(f"c{place}", pa.string()) for place in places])
    for path in paths:
        with opened(path) as file:
            first = True
            for whole in _blocks(file, separator, block):
                columns = _columns(whole, width, places, skip=first)
                first = False
                yield pa.record_batch(columns, schema=schema)


def opened(path: Path) -> Any:
    """A file's bytes, unpacked as its name says."""
    match path.suffix.lower():
        case ".gz":
            return gzip.open(path, "rb")
        case ".bz2":
            return bz2.open(path, "rb")
        case ".zst":
            import pyarrow as pa

            return pa.input_stream(str(path), compression="zstd")
    return path.open("rb")


def _blocks(file: IO[bytes], separator: str, size: int) -> Iterator[_Block]:
    """The file as blocks of whole records; the start of a record that is not complete waits for the next bytes."""
    field, mark = _field_of(separator), ord(separator)
    rest, long = b"", False  # long: what waits stands for the start of a record that is too long already
    start = True
    while True:
        read = file.read(size)
        data = rest + (read.removeprefix(_BOM) if start else read)
        start = False
        if not read and data:
            data += b"\n" if _state(data, field) != b'"' else b'"\n'  # the last record ends with the file
        ends = _structure(data, mark, field)
        values = np.frombuffer(data, dtype=np.uint8)
        lines = np.flatnonzero(values[ends] == _LINE_FEED)
        if len(lines):
            last = int(ends[lines[-1]])
            first = int(lines[0]) + 1 if long else 0
            begin = int(ends[first - 1]) + 1 if first else 0
            if begin <= last:
                yield _Block(values[begin : last + 1], ends[first : lines[-1] + 1] - begin)
            rest, long = data[last + 1 :], False
        else:
            rest = data
        if not read:
            return
        if len(rest) > LONGEST:  # only the state is kept, so that no record can fill the memory
            rest, long = _state(rest, field), True


def _structure(data: bytes, separator: int, field: re.Pattern[bytes]) -> Places:
    """The places of separators and line feeds that end fields.

    Where every quote opens or closes a field, or is one of a pair inside a quoted field, a place is inside quotes if an
    odd number of quotes stands before it. Otherwise fields are gone through one by one, which is slow and always right.
    """
    values = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero((values == separator) | (values == _LINE_FEED))
    if b'"' not in data:
        return ends
    quotes = np.flatnonzero(values == _QUOTE)
    padded = np.concatenate([np.array([_LINE_FEED], np.uint8), values, np.array([_LINE_FEED] * 2, np.uint8)])
    before, after, next_but_one = padded[quotes], padded[quotes + 2], padded[np.minimum(quotes + 3, len(padded) - 1)]
    opens = (before == separator) | (before == _LINE_FEED)
    closes = (after == separator) | (after == _LINE_FEED) | ((after == _RETURN) & (next_but_one == _LINE_FEED))
    paired = np.diff(quotes) == 1
    opens[2::2] |= paired[1::2]  # the second quote of a pair inside a quoted field
    closes[1:-1:2] |= paired[1::2][: len(closes[1:-1:2])]
    if not (opens[0::2].all() and closes[1::2].all()):
        return np.array(_field_ends(data, field), dtype=np.int64)
    odd = np.add.accumulate(values == _QUOTE, dtype=np.uint8)[ends] & 1
    return np.asarray(ends[odd == 0], dtype=np.int64)


def _field_of(separator: str) -> re.Pattern[bytes]:
    """One field: quoted with what stands behind it, quoted and not yet closed, or plain."""
    mark = re.escape(separator.encode())
    plain = rb"[^%s\n]*+" % mark
    return re.compile(rb'"[^"]*+(?:""[^"]*+)*+(?:"%s|\Z)|%s' % (plain, plain))


def _field_ends(data: bytes, field: re.Pattern[bytes]) -> list[int]:
    """The same places, found field by field."""
    ends, at = list[int](), 0
    while at < len(data):
        found = field.match(data, at)
        at = found.end() if found else len(data)
        if at < len(data):
            ends.append(at)
        at += 1
    return ends


def _state(data: bytes, field: re.Pattern[bytes]) -> bytes:
    """A short field that leaves the automaton where these bytes, of one record, leave it."""
    at = 0
    while True:
        found = field.match(data, at)
        end = found.end() if found else len(data)
        if end >= len(data):
            break
        at = end + 1
    last = data[at:]
    if not last.startswith(b'"'):
        return b"x" if last else b","
    inner = re.fullmatch(rb'"[^"]*+(?:""[^"]*+)*+("?)(.*)', last, re.DOTALL)
    if inner is None or not inner[1]:
        return b'"'
    return b"x" if inner[2] else b'""'


def _columns(block: _Block, width: int, places: Sequence[int], *, skip: bool) -> list[Any]:
    """Some columns of the records that have as many fields as the header."""
    data, ends = block.data, block.ends
    lines = np.flatnonzero(data[ends] == _LINE_FEED)
    firsts = np.concatenate([[0], lines[:-1] + 1])
    starts_of = np.concatenate([[0], ends[:-1] + 1])
    # By its own length, not by where the file was cut.
    good = (lines - firsts == width - 1) & (ends[lines] - starts_of[firsts] <= LONGEST)
    if skip:
        good[0] = False  # the header
    if width == 1:  # an empty line is no record
        size = ends[lines] - starts_of[firsts]
        good &= (size > 1) | ((size == 1) & (data[starts_of[firsts]] != _RETURN))
    firsts = firsts[good]
    quotes = np.flatnonzero(data == _QUOTE)
    found = []
    for place in places:
        fields = firsts + place
        start, stop = starts_of[fields], ends[fields]
        if place == width - 1:
            stop = stop - ((stop > start) & (data[np.maximum(stop - 1, 0)] == _RETURN))
        found.append(_texts(data, start, stop, quotes))
    return found


def _texts(data: NDArray[np.uint8], start: Places, stop: Places, quotes: Places) -> Any:
    """The text between places, missing where it is empty or not UTF-8."""
    import pyarrow as pa
    import pyarrow.compute as pc

    special = dict[int, bytes]()  # fields with quotes inside, or with something behind the closing quote
    if len(quotes):
        start, stop = start.copy(), stop.copy()
        opening = np.flatnonzero((stop > start) & (data[np.minimum(start, len(data) - 1)] == _QUOTE))
        closing = quotes[np.minimum(np.searchsorted(quotes, start[opening]) + 1, len(quotes) - 1)]
        simple = (closing == stop[opening] - 1) & (closing > start[opening])
        special = {int(at): unquoted(bytes(data[start[at] : stop[at]])) for at in opening[~simple]}
        start[opening[simple]] += 1
        stop[opening[simple]] -= 1
    # Texts and the gaps between them as one array over the bytes as they are, of which every second value is taken; a
    # missing place gives a missing value. From buffers, since pa.array imports pandas wherever that is installed.
    cuts = pa.py_buffer(np.column_stack([start, stop]).reshape(-1).astype(np.int32))
    every = pa.Array.from_buffers(pa.binary(), max(2 * len(start) - 1, 0), [None, cuts, pa.py_buffer(data)])
    shown = pa.py_buffer(np.packbits(stop > start, bitorder="little"))
    texts = pa.Array.from_buffers(pa.int64(), len(start), [shown, pa.py_buffer(2 * np.arange(len(start)))])
    raw = every.take(texts)
    if special:
        there = np.zeros(len(start), dtype=bool)
        there[list(special)] = True
        mask = pa.Array.from_buffers(
            pa.bool_(), len(there), [None, pa.py_buffer(np.packbits(there, bitorder="little"))]
        )
        raw = pc.replace_with_mask(raw, mask, pa.array([text or None for text in special.values()], pa.binary()))
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_decoded(value) for value in raw.to_pylist()], pa.string())


def unquoted(field: bytes) -> bytes:
    """What a field says: quotes around it taken off, doubled ones inside made single.

    >>> unquoted(b'"a ""b"" c"'), unquoted(b'"a"b"'), unquoted(b'5" pipe')
    (b'a "b" c', b'ab"', b'5" pipe')
    """
    found = re.fullmatch(rb'"([^"]*+(?:""[^"]*+)*+)(?:"(.*))?', field, re.DOTALL)
    return field if found is None else found[1].replace(b'""', b'"') + (found[2] or b"")


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
