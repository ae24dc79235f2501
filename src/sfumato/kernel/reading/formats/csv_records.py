"""CSV parser, record by record: a record's meaning depends on no other record, wherever the file is cut into blocks.

The grammar, which privacy leans on (docs/privacy.md, the theorem about reading):

    file      header, record, record, ...; an empty line is no record
    record    fields between separators, ended by a line feed; a carriage return right before it belongs to the end
    field     plain bytes, or a quote, anything with quotes doubled, a quote, and whatever stands behind it as it is

Delimiter and quote character are stated (`Grammar`), and so is whether there is a header; other encodings are turned
into UTF-8 on the way in, character by character (`files.py`).

It is an automaton that is back in its first state after each record, so taking records out of a file leaves exactly the
others. A quote inside a plain field and a carriage return inside a record are bytes like any others. A record that has
not as many fields as the header, or is longer than LONGEST, falls out by itself. Nothing is guessed and nothing fails.

DuckDB's own reader is not used: it cuts files every 8 MB and guesses where a line starts, ends records at bare carriage
returns, and has a longest line beyond which it is unpredictable which rows are lost. This one is not slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.frozen import dataclass
from sfumato.kernel.reading.formats.files import TextFile

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Grammar:
    """Delimiter and quote character, one ASCII character each; with quote "" there are no quotes."""

    separator: str = ","
    quote: str = '"'

    @property
    def mark(self) -> int:
        """Byte of the separator."""
        return ord(self.separator)

    @property
    def around(self) -> int:
        """Byte of the quote; 256, which no byte is, without quotes."""
        return ord(self.quote) if self.quote else 256

    @cached_property
    def field(self) -> re.Pattern[bytes]:
        """Pattern of one field: quoted with a remainder, quoted and unclosed, or plain."""
        plain = rb"[^%s\n]*+" % re.escape(self.separator.encode())
        if not self.quote:
            return re.compile(plain)
        return re.compile(rb"%s(?:%s%s|\Z)|%s" % (self._opened, self._escaped, plain, plain))

    @cached_property
    def quoted(self) -> re.Pattern[bytes]:
        """Pattern of a quoted field: its content, the closing quote if any, and the remainder."""
        return re.compile(rb"%s(?:(%s)(.*))?" % (self._opened, self._escaped), re.DOTALL)

    @property
    def _escaped(self) -> bytes:
        return re.escape(self.quote.encode())

    @property
    def _opened(self) -> bytes:
        """Pattern of an opening quote and the content up to the closing one."""
        q = self._escaped
        return rb"%s([^%s]*+(?:%s%s[^%s]*+)*+)" % (q, q, q, q, q)

    def unquoted(self, field: bytes) -> bytes:
        """Strip the quotes around a field, and halve doubled quotes inside.

        >>> plain = Grammar()
        >>> plain.unquoted(b'"a ""b"" c"'), plain.unquoted(b'"a"b"'), plain.unquoted(b'5" pipe')
        (b'a "b" c', b'ab"', b'5" pipe')
        """
        found = self.quoted.fullmatch(field) if self.quote else None
        if found is None:
            return field
        quote = self.quote.encode()
        return bytes(found[1].replace(quote + quote, quote) + (found[3] or b""))

    def state(self, data: bytes) -> bytes:
        """Short field that leaves the automaton in the same state as these bytes of one record."""
        at = 0
        while True:
            found = self.field.match(data, at)
            end = found.end() if found else len(data)
            if end >= len(data):
                break
            at = end + 1
        last, quote = data[at:], self.quote.encode()
        if not quote or not last.startswith(quote):
            return b"x" if last else self.separator.encode()
        inner = self.quoted.fullmatch(last)
        if inner is None or not inner[2]:
            return quote
        return b"x" if inner[3] else quote + quote


CSV = Grammar()


BLOCK = 2**23  # bytes that are looked at together; no result depends on it
LONGEST = 2**24  # bytes of a record
_BOM = b"\xef\xbb\xbf"
_LINE_FEED, _RETURN = b"\n\r"

Places = NDArray[np.int64]


@dataclass
class Tally:
    """Numbers of records and of those that fit the header; for the curator's own check alone."""

    records: int = 0
    fitting: int = 0


@dataclass(frozen=True, eq=False)
class _Block:
    """Whole records: their bytes, and offsets of the separators and line feeds that end fields."""

    data: NDArray[np.uint8]
    ends: Places


def first_record(start: bytes, grammar: Grammar) -> list[bytes] | None:
    """The fields of the first record, which is the header; None if `start` does not hold all of it."""
    start = start.removeprefix(_BOM)
    inside = list[int]()
    for end in _field_ends(start, grammar.field):  # no further than the header: `start` may be megabytes of records
        inside.append(end)
        if start[end] == _LINE_FEED:
            break
    else:
        return None
    starts = [0, *(place + 1 for place in inside[:-1])]
    fields = [start[a:b] for a, b in zip(starts, inside, strict=True)]
    return [grammar.unquoted(field) for field in (*fields[:-1], fields[-1].removesuffix(b"\r"))]


def batches(
    files: Iterable[TextFile],
    grammar: Grammar,
    width: int,
    places: Sequence[int],
    *,
    header: bool = True,
    block: int = BLOCK,
    tally: Tally | None = None,
) -> Iterator[pa.RecordBatch]:
    """Record batches of the columns at `places`, as text named c0, c1, ... by place.

    width: how many fields the header has. An empty field, and one that is not UTF-8, is missing.
    header: whether the first record of each file is one.
    """
    import pyarrow as pa

    schema = pa.schema([pa.field(f"c{place}", pa.string()) for place in places])
    for each in files:
        with each.opened() as file:
            skip = header
            for whole in _blocks(file, grammar, block, header=header):
                good = _fitting(whole, width, skip=skip, tally=tally)
                skip = False
                columns = _columns(whole, grammar, good, width, places)
                if not header:
                    columns = _unmarked(columns, places)
                yield pa.record_batch(columns, schema=schema)


def _blocks(file: IO[bytes], grammar: Grammar, size: int, *, header: bool) -> Iterator[_Block]:
    """Blocks of whole records of a file; an incomplete record waits for the next bytes."""
    quote = grammar.quote.encode()
    rest, long = b"", False  # long: what waits stands for the start of a record that is too long already
    start = header  # a byte order mark is the header's; without one it would be that of whoever comes first
    while True:
        read = file.read(size)
        data = rest + (read.removeprefix(_BOM) if start else read)
        start = False
        if not read and data:
            unclosed = bool(quote) and grammar.state(data) == quote
            data += quote + b"\n" if unclosed else b"\n"  # the last record ends with the file
        ends = _structure(data, grammar)
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
            rest, long = grammar.state(rest), True


def _structure(data: bytes, grammar: Grammar) -> Places:
    """Offsets of the separators and line feeds that end fields.

    Where every quote opens or closes a field, or is one of a pair inside a quoted field, a place is inside quotes if an
    odd number of quotes stands before it. Otherwise fields are gone through one by one, which is slow and always right.
    """
    values, separator, quote = np.frombuffer(data, dtype=np.uint8), grammar.mark, grammar.around
    ends = np.flatnonzero((values == separator) | (values == _LINE_FEED))
    if not grammar.quote or grammar.quote.encode() not in data:
        return ends
    quotes = np.flatnonzero(values == quote)
    padded = np.concatenate([np.array([_LINE_FEED], np.uint8), values, np.array([_LINE_FEED] * 2, np.uint8)])
    before, after, next_but_one = padded[quotes], padded[quotes + 2], padded[np.minimum(quotes + 3, len(padded) - 1)]
    opens = (before == separator) | (before == _LINE_FEED)
    closes = (after == separator) | (after == _LINE_FEED) | ((after == _RETURN) & (next_but_one == _LINE_FEED))
    paired = np.diff(quotes) == 1
    opens[2::2] |= paired[1::2]  # the second quote of a pair inside a quoted field
    closes[1:-1:2] |= paired[1::2][: len(closes[1:-1:2])]
    if not (opens[0::2].all() and closes[1::2].all()):
        return np.fromiter(_field_ends(data, grammar.field), dtype=np.int64)
    odd = np.add.accumulate(values == quote, dtype=np.uint8)[ends] & 1
    return np.asarray(ends[odd == 0], dtype=np.int64)


def _field_ends(data: bytes, field: re.Pattern[bytes]) -> Iterator[int]:
    """Offsets of the separators and line feeds that end fields, by matching field after field."""
    at = 0
    while at < len(data):
        found = field.match(data, at)
        at = found.end() if found else len(data)
        if at < len(data):
            yield at
        at += 1


def _fitting(block: _Block, width: int, *, skip: bool, tally: Tally | None) -> NDArray[np.int64]:
    """Indices of the first fields of records as wide as the header. skip: leave out the first record, the header."""
    data, ends = block.data, block.ends
    lines = np.flatnonzero(data[ends] == _LINE_FEED)
    firsts = np.concatenate([[0], lines[:-1] + 1])
    starts_of = np.concatenate([[0], ends[:-1] + 1])
    size = ends[lines] - starts_of[firsts]
    there = (size > 1) | ((size == 1) & (data[starts_of[firsts]] != _RETURN))  # an empty line is no record
    # By its own length, not by where the file was cut.
    good = there & (lines - firsts == width - 1) & (size <= LONGEST)
    if skip:
        there[0] = good[0] = False
    if tally is not None:
        tally.records += int(there.sum())
        tally.fitting += int(good.sum())
    return np.asarray(firsts[good], dtype=np.int64)


def _columns(
    block: _Block, grammar: Grammar, firsts: NDArray[np.int64], width: int, places: Sequence[int]
) -> list[Any]:
    """Arrow text columns at `places` of the records with these first fields."""
    data, ends = block.data, block.ends
    starts_of = np.concatenate([[0], ends[:-1] + 1])
    quotes = np.flatnonzero(data == grammar.around)
    found = []
    for place in places:
        fields = firsts + place
        start, stop = starts_of[fields], ends[fields]
        if place == width - 1:
            stop = stop - ((stop > start) & (data[np.maximum(stop - 1, 0)] == _RETURN))
        found.append(_texts(data, start, stop, quotes, grammar))
    return found


def _unmarked(columns: list[Any], places: Sequence[int]) -> list[Any]:
    """Strip a byte order mark from the first column of every record, where there is no header."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def bare(texts: Any) -> Any:
        texts = pc.utf8_ltrim(texts, characters="\ufeff")
        return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)

    return [bare(texts) if place == 0 else texts for place, texts in zip(places, columns, strict=True)]


def _texts(data: NDArray[np.uint8], start: Places, stop: Places, quotes: Places, grammar: Grammar) -> Any:
    """Text fields by start and stop offset; missing where empty or not UTF-8."""
    import pyarrow as pa
    import pyarrow.compute as pc

    special = dict[int, bytes]()  # fields with quotes inside, or with something behind the closing quote
    if len(quotes):
        start, stop = start.copy(), stop.copy()
        opening = np.flatnonzero((stop > start) & (data[np.minimum(start, len(data) - 1)] == grammar.around))
        closing = quotes[np.minimum(np.searchsorted(quotes, start[opening]) + 1, len(quotes) - 1)]
        simple = (closing == stop[opening] - 1) & (closing > start[opening])
        special = {int(at): grammar.unquoted(bytes(data[start[at] : stop[at]])) for at in opening[~simple]}
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


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
