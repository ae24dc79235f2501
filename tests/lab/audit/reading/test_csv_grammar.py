"""The slow grammar of CSV against Python's own reader, and the fast one against both, at every place of a cut."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
from random import Random

import pyarrow as pa
import pytest

from sfumato.kernel.reading.formats import csv_records
from sfumato.kernel.reading.formats.csv_records import CSV, batches, first_record
from sfumato.kernel.reading.formats.files import TextFile
from sfumato.lab.audit.reading.csv_tables import records, text

COMPRESSIONS = {
    ".csv": bytes,
    ".csv.gz": gzip.compress,
    ".csv.bz2": bz2.compress,
    ".csv.zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


def fast(path, width: int, block: int) -> list[tuple[str | None, ...]]:
    found = []
    for batch in batches([TextFile(path)], CSV, width, range(width), block=block):
        found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return found


def slow(data: bytes, width: int) -> list[tuple[str | None, ...]]:
    fitting = [record for record in records(data, ord(",")) if len(record.fields) == width]
    return [tuple(map(text, record.fields)) for record in fitting[1:]]


def pythons(data: bytes, width: int) -> list[tuple[str | None, ...]]:
    rows = csv.reader(io.StringIO(data.decode(), newline=""))
    return [tuple(field or None for field in row) for row in rows if len(row) == width][1:]


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_a_quoted_note_at_every_place_of_a_cut(tmp_path, ending):
    """A note in quotes, with line breaks, commas and quotes inside, slid over the end of a block byte by byte."""
    note = b'7,"a\n1,x\n""2"",y\r\n,\n"\n'
    block = 128
    path = tmp_path / f"t{ending}"
    for offset in range(block - len(note) - 4, block + 4):
        data = b"n,note\n" + b"5,p\n" * (offset // 4) + b"6," + b"q" * (offset % 4) + b"\n" + note + b"8,z\n" * 3
        path.write_bytes(COMPRESSIONS[ending](data))
        assert fast(path, 2, block) == slow(data, 2) == pythons(data, 2)


@pytest.mark.full
def test_a_note_at_the_real_end_of_a_block(tmp_path):
    """At the size of a block that is used, and at the one at which DuckDB cuts."""
    path = tmp_path / "t.csv"
    note = b'"' + b"F,abc\n" * 400 + b'"'
    for end in (csv_records.BLOCK, 8_000_000):
        for offset in (-2401, -1200, -1, 0, 1):
            before = (end + offset) // 6
            data = b"a,b\n" + b"F,abc\n" * before + b"M," + note + b"\n" + b"F,abc\n" * 5
            path.write_bytes(data)
            rows = fast(path, 2, csv_records.BLOCK)
            assert len(rows) == before + 6
            assert rows[before] == ("M", note[1:-1].decode())


@pytest.mark.full
def test_random_bytes_are_cut_alike_by_the_fast_and_the_slow_reader(tmp_path):
    random = Random(5)
    parts = [b'"', b'"', b",", b"\n", b"\r", b"a", b"b", b"\r\n", b" ", b"\xff", b"\xc3\xa9", b'""', b"0", b"\0"]
    path = tmp_path / "t.csv"
    for _ in range(3_000):
        width = random.choice([1, 2, 3])
        data = b",".join([b"h"] * width) + b"\n" + b"".join(random.choices(parts, k=random.randrange(40)))
        path.write_bytes(data)
        for block in (2**20, random.randrange(4, 30)):
            assert fast(path, width, block) == slow(data, width)


def test_taking_records_out_leaves_the_others():
    """The theorem about reading, on files that are anything but well-formed."""
    random = Random(6)
    parts = [b'"', b",", b"\n", b"\r", b"a", b"\r\n", b'"a"', b'""']
    for _ in range(500):
        data = b"h\n" + b"".join(random.choices(parts, k=30))
        found = records(data, ord(","))
        for gone in range(1, len(found)):
            kept = [*found[:gone], *found[gone + 1 :]]
            rest = b"".join(data[record.start : record.stop] for record in kept)
            assert [record.fields for record in records(rest, ord(","))] == [record.fields for record in kept]


def test_records_too_long_fall_out_alone_and_fill_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_records, "LONGEST", 100)
    path = tmp_path / "t.csv"
    quoted = b'"' + b"x\n,y" * 300 + b'",1', b'"' + b'""\n' * 300 + b'"z,1', b'1,"' + b'""' * 300 + b'"'
    for long in (b"x" * 1000 + b",1", *quoted):
        path.write_bytes(b"a,b\n1,2\n" + long + b"\n3,4\n")
        for block in (16, 17, 64):
            assert fast(path, 2, block) == [("1", "2"), ("3", "4")]


def test_what_is_too_long_does_not_depend_on_where_the_file_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_records, "LONGEST", 100)
    path = tmp_path / "t.csv"
    for size in (99, 100, 101):
        for before in range(70):
            path.write_bytes(b"a,b\n1," + b"p" * before + b"\n" + b"x" * (size - 2) + b",1\n3,4\n")
            assert len(fast(path, 2, 64)) == 2 + (size <= 100)


def test_the_header_is_the_first_record():
    assert first_record(b'\xef\xbb\xbfa,"b\nc","d ""e"""\r\n1,2,3\n', CSV) == [b"a", b"b\nc", b'd "e"']
    assert first_record(b"a,b", CSV) is None
