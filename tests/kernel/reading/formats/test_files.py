"""Finding and reading files."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import TableError
from sfumato.kernel.reading.engines.duckdb import find_files, over_origin
from sfumato.kernel.reading.formats.columnar import ParquetFiles
from sfumato.kernel.reading.table import Table, open_table
from sfumato.lab.audit.reading.sources import SlowParquetFiles
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 9}}}
)


def counts(table, name: str | None = None, schema: Schema = SCHEMA) -> dict[int, int]:
    found = open_table(table, name=name).aggregate(schema, key=1)
    return dict(zip(found.cells.tolist(), found.counts.tolist(), strict=True))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.csv", b"x,y\n1,a\n2,b\n"),
        ("t.CSV", b"x,y\r\n1,a\r\n2,b"),
        ("t.tsv", b'x\ty\n1\t"a,\tb"\n2\tb\n'),
        ("bom.csv", b"\xef\xbb\xbfx,y\n1,a\n2,b\n"),
        ("quoted.csv", b'" x ","y ""z"""\n1,a\n2,b\n'),
        ("return.csv", b"x,y\n1,a\rb\n2,b\n"),
        ("t.csv.bz2", bz2.compress(b"x,y\n1,a\n2,b\n")),
        ("t.csv.zst", pa.compress(b"x,y\n1,a\n2,b\n", "zstd", asbytes=True)),
        ("parts.csv.gz", gzip.compress(b"x,y\n1,a", mtime=0) + gzip.compress(b"\n2,b\n", mtime=0)),
        ("t.csv.gz", gzip.compress(b"x,y\n1,a\n2,b\n", mtime=0)),
        ("t.tsv.gz", gzip.compress(b"x\ty\n1\ta\n2\tb\n", mtime=0)),
    ],
)
def test_text_files(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    assert counts(tmp_path / name) == {1: 1, 2: 1}


@pytest.mark.parametrize(
    "name",
    ["it's.csv", 'dou"ble.csv', "star*.csv", "a[1].csv", "what?.csv", "{b}.csv", "é 😀.csv", "--x;.csv", "%s$1.csv"],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_of_files_are_taken_literally(tmp_path, name, suffix):
    folder = tmp_path / "it's [a] *folder*"
    folder.mkdir()
    path = folder / (name.removesuffix(".csv") + suffix)
    decoys = [folder / f"{decoy}{suffix}" for decoy in ("starry", "a1", "whats", "b")]
    for place, file in enumerate([path, *decoys]):
        if suffix == ".csv":
            file.write_text(f"x\n{place}\n")
        else:
            pq.write_table(pa.table({"x": [place]}), file)
    assert counts(path) == counts(str(path)) == {0: 1}


def test_a_backslash_is_a_letter_and_refused_where_the_engine_would_escape_with_it(tmp_path):
    (tmp_path / "b\\s.csv").write_text("x\n1\n")
    assert counts(tmp_path / "b\\s.csv") == {1: 1}
    (tmp_path / "b\\s*.csv").write_text("x\n1\n")
    assert counts(tmp_path / "b\\s*.csv") == {1: 1}
    pq.write_table(pa.table({"x": [1]}), tmp_path / "b\\s*.parquet")
    assert "backslash" in refusal(tmp_path / "b\\s*.parquet")


def test_names_of_columns_are_taken_literally(tmp_path):
    names = ['"; DROP TABLE source; --', "a b", "x'y", "é😀", "select", "`tick`", "back\\slash", "{x}", "c0", "cell"]
    attributes = {name: {"type": "integer", "lower": 0, "upper": 9} for name in names}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})
    quoted = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    (tmp_path / "t.csv").write_text(f"{quoted}\n{','.join(str(i) for i in range(10))}\n", encoding="utf-8")
    pq.write_table(pa.table({name: [place] for place, name in enumerate(names)}), tmp_path / "t.parquet")
    for table in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        assert counts(table, schema=schema) == {123456789: 1}


def test_patterns_gather_files(tmp_path):
    for place in range(3):
        (tmp_path / f"p{place}.csv").write_text(f"x,y\n{place},1\n")
        (tmp_path / f"d{place}").mkdir()
        pq.write_table(pa.table({"x": [place], "y": [1]}), tmp_path / f"d{place}" / "q.parquet")
    assert counts(str(tmp_path / "p*.csv")) == counts(tmp_path / "p?.csv") == {0: 1, 1: 1, 2: 1}
    assert counts(str(tmp_path / "**" / "*.parquet")) == {0: 1, 1: 1, 2: 1}


def test_folders_named_like_values_add_no_columns(tmp_path):
    (tmp_path / "x=7").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x=7" / "q.parquet")
    assert counts(str(tmp_path / "*" / "*.parquet")) == {1: 1}


def refusal(table: object) -> str:
    with pytest.raises(TableError) as caught:
        open_table(table)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_not_a_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("folder.csv").mkdir()
    Path("t.ods").write_text("x")
    Path("zero.csv").write_text("")
    Path("blank.csv").write_text("\nx,y\n")
    Path("utf16.csv").write_bytes("x,y\n1,2\n".encode("utf-16"))
    Path("mac.csv").write_text("x,y\r1,2\r")
    Path("open.csv").write_text('x,"y\n1,2\n')
    Path("bad.csv.gz").write_bytes(gzip.compress(b"x,y\n" * 999)[:-20])
    Path("worse.csv.gz").write_bytes(b"x,y\n1,2\n")
    Path("bad.parquet").write_text("x,y\n")
    Path("empty.parquet").write_text("")
    assert refusal("none.csv") == "there is no file none.csv; check the path"
    assert refusal("none*.csv") == "no file matches none*.csv; check the pattern"
    assert "is a folder; name the files in it, such as folder.csv/*.parquet" in refusal("folder.csv")
    assert "is a folder" in refusal(tmp_path)
    assert "use .csv, .tsv, .jsonl, .ndjson, .parquet, .feather, .arrow, .ipc, .xlsx" in refusal("t.ods")
    assert "zero.csv has no header; the first line must name the columns, or" in refusal("zero.csv")
    assert "has no header" in refusal("blank.csv")
    assert "UTF-16" in refusal("utf16.csv")
    assert "open.csv" in refusal("open.csv")
    assert "bare carriage returns; save it with line feeds" in refusal("mac.csv")
    assert "bad.csv.gz cannot be opened" in refusal("bad.csv.gz")
    assert "worse.csv.gz cannot be opened" in refusal("worse.csv.gz")
    assert refusal("bad.parquet") == refusal("empty.parquet").replace("empty", "bad")
    assert "not a path" in refusal("a\0b.csv")
    assert "not a path" in refusal("a\nb.csv")
    assert "not a path" in refusal("n" * 5000 + ".csv")
    assert "cannot be read" in refusal("oracle://localhost/db")
    assert "cannot be a list" in refusal([1, 2])
    with pytest.raises(TableError, match="leave it out"):
        open_table("zero.csv", name="t")


def test_files_that_differ_are_refused_before_they_are_read(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "b.csv").write_text("y,x\n1,2\n")
    assert "a.csv, b.csv do not all have the same header line" in refusal(tmp_path / "*.csv")
    pq.write_table(pa.table({"x": [1], "y": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"y": [2], "x": [2]}), tmp_path / "b.parquet")
    assert counts(tmp_path / "*.parquet") == {1: 1, 2: 1}  # by name, whatever the order
    pq.write_table(pa.table({"x": ["1"], "y": [1]}), tmp_path / "b.parquet")
    assert "do not all have the same columns and types" in refusal(tmp_path / "*.parquet")
    for name, order in (("a", "Aa"), ("b", "aA")):
        pq.write_table(pa.table({each: [place] for place, each in enumerate(order)}), tmp_path / f"{name}.parquet")
    assert "differ only in case; rename all but one" in refusal(tmp_path / "*.parquet")
    (tmp_path / "c.csv").write_text("x,y\n1,2\n")
    assert "more than one kind" in refusal(tmp_path / "?.*")


def test_only_the_first_line_is_looked_at_when_opening(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"x,y\n\xff\xfe,2\n")
    assert find_files(path).header == ("x", "y")


def test_parquet_columns_with_fields_inside_keep_their_places(tmp_path):
    inner = [{"p": 1, "q": {"r": 2}}]
    pq.write_table(pa.table({"s": inner, "X": [4], "l": [[1, 2]], "x": [5], "m": [1]}), tmp_path / "t.parquet")
    assert [name for name, _ in open_table(tmp_path / "t.parquet").columns] == ["s", "X", "l", "x", "m"]
    assert counts(tmp_path / "t.parquet") == {5: 1}


def test_values_that_stop_the_engines_reader_are_missing(tmp_path):
    """Text in Parquet that is not UTF-8, and a time beyond the engine's range: the other rows are read as ever."""
    offsets = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]
    texts = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xffb")])
    times = pa.array([0, 10**18, 86_400], pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp("ms"), safe=False)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"c": texts, "t": times}), path)
    listed = {"type": "category", "values": ["a", "b"]}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"c": listed}})
    assert counts(path, schema=schema) == {0: 1, 1: 1}
    days = {"type": "date", "lower": "1970-01-01", "upper": "1970-01-02"}
    both = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"c": listed, "t": days}})
    assert counts(path, schema=both) == {0: 1, 3: 1}


@pytest.mark.full
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_the_slow_reader_of_parquet_means_what_the_fast_one_means(tmp_path, unit):
    """Or one value that stops the fast one would change what the times of others mean."""
    most, path = 2**63 - 1, tmp_path / "t.parquet"
    edges = [most, most - 1, most // 1000, most // 1000 + 1, 2**62, 10**15, 10**18, 0]
    days = {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31"}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"d": days}})
    for value in (*edges, *(-edge for edge in edges), -(2**63)):
        pq.write_table(pa.table({"d": pa.array([value], pa.int64()).cast(pa.timestamp(unit))}), path)
        fast, slow = (Table(over_origin(kind((path,)))) for kind in (ParquetFiles, SlowParquetFiles))
        assert fast.aggregate(schema, key=1).cells.tolist() == slow.aggregate(schema, key=1).cells.tolist(), value
