"""The release file: written whole or not at all, and refused when a single byte is not as it should be."""

import base64
import contextlib
import hashlib
import io
import os
import resource
import stat
import struct
import subprocess
import sys
import zipfile
import zlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sfumato.errors import ReleaseFileError
from sfumato.releases.file import artifact
from sfumato.releases.file import members as columns
from sfumato.releases.file.artifact import Entry, directory_of, read_artifact, write_artifact
from sfumato.releases.file.manifest import (
    Manifest,
    MechanismRecord,
    Member,
    Statistic,
    Total,
    guarantee_of,
    manifest_bytes,
)
from sfumato.releases.file.records import LaplaceRecord
from sfumato.schema import Schema

# The attributes stand in an order that no sorting would give: it is the order in which cells are numbered.
SCHEMA = Schema.from_dict(
    {
        "dataset": "census",
        "privacy_unit": {"column": "person_id", "contributions": 2},
        "attributes": {
            "sex": {"type": "category", "values": ["F", "M"]},
            "age": {"type": "integer", "lower": 0, "upper": 9},
        },
        "measures": {"charge": {"lower": 0, "upper": 100, "step": "0.5", "missing": "drop"}},
    }
)
NOISE = LaplaceRecord(Fraction(7, 2))
STATISTICS = [
    Statistic("count", "cells", "count", NOISE),
    Statistic("charge", "cells", "charge", NOISE, Fraction(1, 2), Fraction(50)),
]
DENSE = Manifest(
    kind="cube",
    schema=SCHEMA.to_dict(),
    mechanism=MechanismRecord("cells"),
    guarantee=guarantee_of(Fraction(1, 2), "the rows of any one person_id (at most 2 rows each)"),
    private=True,
    statistics=STATISTICS,
)
SPARSE = replace(DENSE, kind="sparse-cube", threshold=5, totals=[Total("count", 90, NOISE), Total("charge", 7, NOISE)])
DENSE_CELLS = {"count": np.arange(-10, 10), "charge": np.arange(20) * -(2**40)}
SPARSE_CELLS = {
    "cell": np.array([0, 3, 19]),
    "count": np.array([5, 9, 2**62]),
    "charge": np.array([-(2**63), 0, 2**63 - 1]),
}


# Three values as pyarrow 15 writes them: it repeats part of the footer after the pages.
FROM_PYARROW_15 = base64.b64decode(
    "UEFSMRUAFRQVFCwVBhUKFQYVBhwAAACAAgQDCRQAAAAAJkIcFQQZJQYKGRgFY291bnQVABYGFjoWOiYISRwVABUKFQIAAAAVBBks"
    "NQAYBnNjaGVtYRUCABUEJQAYBWNvdW50ABYGGRwZHCZCHBUEGSUGChkYBWNvdW50FQAWBhY6FjomCEkcFQAVChUCAAAAFjoWBiYI"
    "FjoUAAAoIHBhcnF1ZXQtY3BwLWFycm93IHZlcnNpb24gMTUuMC4yGRwcAAAAfAAAAFBBUjE="
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "census.sfumato"


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """The bytes of a small valid file."""
    path = tmp_path_factory.mktemp("valid") / "census.sfumato"
    write_artifact(path, SPARSE, {"cells": SPARSE_CELLS})
    return path.read_bytes()


def refused(path, words, data=None):
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(ReleaseFileError, match=words) as caught:
        opened = read_artifact(path)
        for member in opened.manifest.members:
            opened.read(member)
    assert str(caught.value).isprintable() and "Traceback" not in str(caught.value)


def parquet(columns, **options):
    """Parquet as Sfumato writes it, but for the options given."""
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    table = table.cast(pa.schema([pa.field(f.name, f.type, nullable=f.type != pa.int64()) for f in table.schema]))
    ours = {"compression": "none", "use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"}
    sink = io.BytesIO()
    pq.write_table(table, sink, **{**ours, "write_statistics": False, "store_schema": False, **options})
    return sink.getvalue()


def pack(*members):
    """A zip laid out as Sfumato does it, with any content."""
    entries, data = [], b""
    for name, body in members:
        entries.append(Entry(name, zlib.crc32(body), len(body), len(data)))
        data += entries[-1].local + body
    return data + directory_of(entries)


def described(manifest, bodies, rows, names):
    """The manifest with hashes that fit `bodies`, as a forger would write it."""
    members = {
        name: Member(f"{name}.parquet", hashlib.sha256(body).hexdigest(), len(body), rows, list(names))
        for name, body in bodies.items()
    }
    return replace(manifest, members=members)


def forged(manifest, body, rows, names):
    """A file in which every hash fits, around any Parquet member."""
    return pack(
        ("manifest.json", manifest_bytes(described(manifest, {"cells": body}, rows, names))[0]), ("cells.parquet", body)
    )


def take_apart(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


# Writing


@pytest.mark.parametrize(("manifest", "cells"), [(DENSE, DENSE_CELLS), (SPARSE, SPARSE_CELLS)])
def test_reads_back_what_it_wrote(path, manifest, cells):
    digest = write_artifact(path, manifest, {"cells": cells})
    opened = read_artifact(str(path))
    path.unlink()  # an opened release does not need its file
    assert opened.digest == digest and len(digest) == 64
    assert replace(opened.manifest, members={}) == manifest
    assert opened.schema == SCHEMA and opened.schema.domain.names == ("sex", "age")
    found = opened.read("cells")
    assert list(found) == list(cells)
    for name in cells:
        np.testing.assert_array_equal(found[name], cells[name])
        assert found[name].dtype == np.int64 and not found[name].flags.writeable
    with pytest.raises(ReleaseFileError, match="it has cells"):
        opened.read("others")


def test_a_sparse_cube_may_be_empty(path):
    empty = {name: values[:0] for name, values in SPARSE_CELLS.items()}
    write_artifact(path, SPARSE, {"cells": empty})
    assert [len(values) for values in read_artifact(path).read("cells").values()] == [0, 0, 0]


def test_several_members(path):
    parts = [replace(statistic, member=statistic.of) for statistic in STATISTICS]
    write_artifact(path, replace(DENSE, statistics=parts), {name: {name: v} for name, v in DENSE_CELLS.items()})
    opened = read_artifact(path)
    np.testing.assert_array_equal(opened.read("charge")["charge"], DENSE_CELLS["charge"])
    assert list(take_apart(path.read_bytes())) == ["manifest.json", "charge.parquet", "count.parquet"]


@given(hnp.arrays(np.int64, st.integers(0, 50)))
def test_any_whole_numbers_survive(values):
    sink = io.BytesIO()
    columns.write_columns(sink, {"a": values, "b": values[::-1]})
    found = columns.read_columns(sink.getvalue(), ["a", "b"], len(values))
    np.testing.assert_array_equal(found["a"], values)
    np.testing.assert_array_equal(found["b"], values[::-1])


def test_many_row_groups(monkeypatch):
    monkeypatch.setattr(columns, "ROWS_PER_GROUP", 7)
    sink, values = io.BytesIO(), np.arange(30)
    columns.write_columns(sink, {"a": values})
    assert pq.ParquetFile(pa.BufferReader(sink.getvalue())).num_row_groups == 5
    np.testing.assert_array_equal(columns.read_columns(sink.getvalue(), ["a"], 30)["a"], values)
    monkeypatch.setattr(columns, "ROWS_PER_GROUP", 6)
    with pytest.raises(ReleaseFileError, match="as Sfumato writes it"):
        columns.read_columns(sink.getvalue(), ["a"], 30)


def test_files_of_older_pyarrow_open():
    assert columns.read_columns(FROM_PYARROW_15, ["count"], 3)["count"].tolist() == [-5, 5, 15]
    lying = FROM_PYARROW_15.replace(b"count", b"c0unt", 1)  # the repetition must say what the footer says
    with pytest.raises(ReleaseFileError, match="as Sfumato writes it"):
        columns.read_columns(lying, ["count"], 3)


def test_the_same_release_gives_the_same_bytes(path, tmp_path, valid):
    digests = {write_artifact(place, SPARSE, {"cells": SPARSE_CELLS}) for place in (path, tmp_path / "b")}
    assert len(digests) == 1 and path.read_bytes() == (tmp_path / "b").read_bytes() == valid


def test_any_zip_tool_can_look_inside(path, valid):
    path.write_bytes(valid)
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None and file.namelist() == ["manifest.json", "cells.parquet"]
        for entry in file.infolist():
            assert entry.date_time == (1980, 1, 1, 0, 0, 0) and entry.compress_type == zipfile.ZIP_STORED
            assert stat.filemode(entry.external_attr >> 16) == "-rw-r--r--"
        table = pq.read_table(pa.BufferReader(file.read("cells.parquet")))
    assert table["cell"].to_pylist() == [0, 3, 19] and table.schema.metadata is None


def test_an_earlier_file_is_replaced_and_readable_by_others(path):
    path.write_text("earlier")
    before = os.umask(0o022)
    try:
        write_artifact(path, DENSE, {"cells": DENSE_CELLS})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert list(path.parent.iterdir()) == [path]
    read_artifact(path)


@pytest.mark.parametrize("room", [0, 100, 1500])
def test_a_full_disk_leaves_the_earlier_file_and_nothing_else(path, room):
    """The limit on file sizes stands in for a full disk: it is met in a member, in the manifest and in between."""
    path.write_text("earlier")
    noisy = {name: np.frombuffer(hashlib.shake_128(b"noise").digest(8 * 20), np.int64) for name in DENSE_CELLS}
    size = len(parquet(noisy)) if room else 0
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, hard))
    try:
        with pytest.raises(ReleaseFileError, match="File too large; name a folder that exists and has room"):
            write_artifact(path, DENSE, {"cells": noisy})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_text() == "earlier" and list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace", "directory_of", "write_columns"])
def test_a_failure_or_an_interrupt_at_any_step_leaves_nothing(path, monkeypatch, step):
    path.write_text("earlier")
    for failure, seen in ((OSError(28, "No space left on device"), ReleaseFileError), (KeyboardInterrupt(),) * 2):

        def fail(*_args, failure=failure, **_keywords):
            raise failure

        place = {"fsync": artifact.os, "replace": artifact.Path}.get(step, artifact)
        with monkeypatch.context() as patch, pytest.raises(seen if isinstance(seen, type) else type(seen)):
            patch.setattr(place, step, fail)
            write_artifact(path, DENSE, {"cells": DENSE_CELLS})
        assert path.read_text() == "earlier" and list(path.parent.iterdir()) == [path]


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing/x.sfumato", "file/x.sfumato", "folder", "pipe", "x" * 300, "nul\0l", "nul\0l/x", "."):
        with pytest.raises(ReleaseFileError, match=r"^cannot write .*; ") as caught:
            write_artifact(tmp_path / name, DENSE, {"cells": DENSE_CELLS})
        assert "\n" not in str(caught.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder", "pipe"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(tmp_path, valid):
    (tmp_path / "x.sfumato").write_bytes(valid)
    (tmp_path / "x.sfumato").chmod(0)
    refused(tmp_path / "x.sfumato", "Permission denied")
    tmp_path.chmod(0o500)
    with pytest.raises(ReleaseFileError, match="Permission denied"):
        write_artifact(tmp_path / "y.sfumato", DENSE, {"cells": DENSE_CELLS})


@pytest.mark.parametrize(
    ("manifest", "members", "words"),
    [
        (DENSE, {"../x": DENSE_CELLS}, "cannot name a member"),
        (DENSE, {"cells": {}}, "int64"),
        (DENSE, {"cells": {**DENSE_CELLS, "count": np.zeros(20)}}, "int64"),
        (DENSE, {"cells": {**DENSE_CELLS, "count": np.zeros((20, 1), np.int64)}}, "int64"),
        (DENSE, {"cells": {**DENSE_CELLS, "count": np.arange(19)}}, "equally long"),
        (DENSE, {"cells": {"count": DENSE_CELLS["count"]}}, "one each"),
        (DENSE, {"cells": {n: v[1:] for n, v in DENSE_CELLS.items()}}, "each cell of its schema"),
        (SPARSE, {"cells": {**SPARSE_CELLS, "cell": np.array([3, 0, 19])}}, "in order"),
        (SPARSE, {"cells": SPARSE_CELLS, "more": SPARSE_CELLS}, "exactly one member"),
    ],
)
def test_what_could_not_be_opened_again_is_not_written(path, manifest, members, words):
    with pytest.raises(ReleaseFileError, match=words):
        write_artifact(path, manifest, members)
    assert not list(path.parent.iterdir())


# Reading: the zip


def test_places_that_cannot_be_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "missing.sfumato", "^cannot open .*: No such file or directory; check the name")
    refused(tmp_path, "it is not a file")
    refused(tmp_path / "pipe", "it is not a file")
    refused(tmp_path / "nul\0l", "cannot be read")


@pytest.mark.parametrize("data", [b"", b"P", b"name,age\n1,2\n", b"PK\5\6" + bytes(18), b"PAR1" + bytes(40)])
def test_other_files_are_refused(path, data):
    refused(path, "not a Sfumato release", data)


def test_cut_short_anywhere(path, valid):
    for size in [*range(4, len(valid), 11), *range(len(valid) - 150, len(valid))]:
        refused(path, "cut short|not a Sfumato release", valid[:size])


def test_bytes_before_after_or_within(path, valid):
    refused(path, "put before it", b"#!/bin/sh\n" + valid)
    refused(path, "added to it", valid + b"\n")
    refused(path, "added to it", valid + valid)
    directory = valid.rindex(b"PK\5\6")
    start = struct.unpack_from("<L", valid, directory + 16)[0]
    shifted = valid[: directory + 16] + struct.pack("<L", start + 5) + valid[directory + 20 :]
    refused(path, "not laid out", shifted[:start] + b"extra" + shifted[start:])
    refused(path, "cut short, or something was added", valid[:-2] + b"\3\0abc")  # a zip comment
    refused(path, "not laid out", valid[:4] + b"\xff" + valid[5:])  # a local header unlike the directory's


NAMES = ["../cells.parquet", "/cells.parquet", "C:cells.parquet", "a\\b.parquet", "a/b.parquet", "cells.parquet/"]
NAMES += ["cells.PARQUET", "..", "", "cells\n.parquet", "cells.parquet\0.txt", "manifest.json ", "run.py", "é.parquet"]


@pytest.mark.parametrize("name", NAMES)
def test_unsafe_and_unknown_names(path, valid, name):
    inside = take_apart(valid)
    entry = Entry("manifest.json", zlib.crc32(inside["manifest.json"]), len(inside["manifest.json"]), 0)
    other = Entry("x" * len(name.encode()), zlib.crc32(b""), 0, entry.end)
    data = entry.local + inside["manifest.json"] + other.local + directory_of([entry, other])
    data = data.replace(b"x" * len(name.encode()), name.encode()) if name else data
    refused(path, "unknown or unsafe name", data)


def test_members_missing_doubled_unknown_or_out_of_order(path, valid):
    manifest, cells = take_apart(valid).items()
    refused(path, "as many members", pack(manifest))
    refused(path, "a member twice", pack(manifest, cells, cells))
    refused(path, "a member twice", pack(manifest, manifest, cells))
    refused(path, "start with its manifest", pack(cells, manifest))
    refused(path, "not those its manifest names", pack(manifest, ("other.parquet", cells[1])))
    refused(path, "not those its manifest names", pack(manifest, cells, ("other.parquet", b"")))
    refused(path, "as many members", pack(manifest, *((f"m{i}.parquet", b"") for i in range(65))))


@pytest.mark.parametrize(
    ("record", "offset", "value"),
    [
        ("central", 4, b"\x14\x00"),  # made on another system
        ("central", 8, b"\x01\x00"),  # encrypted
        ("central", 8, b"\x08\x00"),  # sizes follow the data
        ("central", 10, b"\x08\x00"),  # deflated
        ("central", 12, b"\x01\x00"),  # another time
        ("central", 20, b"\x01\x00\x00\x00"),  # compressed size
        ("central", 24, b"\xff\xff\xff\xff"),  # size left to zip64
        ("central", 30, b"\x04\x00"),  # an extra field
        ("central", 34, b"\x01\x00"),  # another disk
        ("central", 38, struct.pack("<L", (stat.S_IFLNK | 0o777) << 16)),  # a symbolic link
        ("central", 42, b"\x00\x00\x00\x00"),  # the same bytes as the manifest: overlapping
        ("central", 42, b"\xff\xff\xff\xff"),  # an offset left to zip64
        ("local", 6, b"\x01\x00"),
        ("local", 8, b"\x08\x00"),
        ("local", 14, b"\x00\x00\x00\x00"),
        ("local", 22, b"\x00\x00\x00\x00"),
        ("local", 30, b"sells"),  # another name than in the directory
    ],
)
def test_headers_that_sfumato_does_not_write(path, valid, record, offset, value):
    start = valid.rindex(b"PK\1\2") if record == "central" else valid.index(b"PK\3\4", 4)
    at = start + offset
    assert valid[at : at + len(value)] != value
    refused(path, "not laid out as Sfumato does it", valid[:at] + value + valid[at + len(value) :])


def test_zips_of_other_tools(path, valid):
    for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", compression) as file:
            for name, body in take_apart(valid).items():
                file.writestr(name, body)
        refused(path, "not laid out", sink.getvalue())


def test_a_zip64_ending_is_refused(path, valid):
    ending = valid.rindex(b"PK\5\6")
    sixty_four = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, 0, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, ending, 1)
    lies = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    refused(path, "added to it", valid[:ending] + sixty_four + locator + lies)


def test_huge_files_and_manifests_are_refused_unread(path, valid):
    cells = take_apart(valid)["cells.parquet"]
    refused(
        path,
        "manifest is larger than 16,777,216 bytes",
        pack(("manifest.json", b" " * (2**24 + 1)), ("cells.parquet", cells)),
    )
    path.write_bytes(valid)
    os.truncate(path, 2**32)  # sparse: takes no room
    refused(path, "larger than 4 GB")


# Reading: the manifest against the members


def test_a_changed_member_is_noticed(path, valid):
    manifest, (name, body) = take_apart(valid).items()
    changed = body[:20] + bytes([body[20] ^ 1]) + body[21:]
    refused(path, "does not match its sha256", pack(manifest, (name, changed)))
    refused(path, "the size its manifest names", pack(manifest, (name, body + b" ")))
    refused(path, "damaged", valid.replace(body, changed))
    refused(path, "damaged", valid.replace(b'"private": true', b'"private":false'))
    untrue = manifest[1].replace(b'"private": true', b'"private": false')
    refused(path, "changed after publication", pack(("manifest.json", untrue), (name, body)))


COUNT, CHARGE = STATISTICS


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": {**SCHEMA.to_dict(), "dataset": "no word"}}, "schema is not valid: dataset"),
        ({"schema": {}}, "schema is not valid"),
        ({"schema": {**SCHEMA.to_dict(), "attributes": [1]}}, "schema is not valid"),
        ({"schema": {**SCHEMA.to_dict(), "measures": {}}}, "not those of its schema"),
        ({"kind": "cube"}, "do not go with its kind"),
        ({"threshold": None}, "do not go with its kind"),
        ({"kind": "cube", "threshold": None}, "do not go with its kind"),
        ({"threshold": 6}, "below its own threshold"),
        ({"statistics": [COUNT]}, "one each"),
        ({"statistics": [COUNT, COUNT]}, "not those of its schema"),
        ({"statistics": [CHARGE]}, "not those of its schema"),
        ({"statistics": [COUNT, replace(CHARGE, of="wage")]}, "not those of its schema"),
        ({"statistics": [COUNT, replace(CHARGE, column="count")]}, "one each"),
        ({"statistics": [COUNT, replace(CHARGE, column="cell")]}, "one each"),
        ({"statistics": [COUNT, replace(CHARGE, member="other")]}, "one each"),
        ({"statistics": [COUNT, replace(CHARGE, step=Fraction(1))]}, "a step or a centre"),
        ({"statistics": [replace(COUNT, centre=Fraction(1)), CHARGE]}, "a step or a centre"),
        ({"totals": [Total("wage", 1, NOISE)]}, "not those of its schema"),
        ({"totals": [Total("count", 1, NOISE)] * 2}, "not those of its schema"),
    ],
)
def test_manifests_that_contradict_themselves(path, valid, change, words):
    body = take_apart(valid)["cells.parquet"]
    assert forged(SPARSE, body, 3, SPARSE_CELLS) == valid  # so that the refusal is for the change itself
    refused(path, words, forged(replace(SPARSE, **change), body, 3, SPARSE_CELLS))


def test_a_member_kept_under_another_name(path, valid):
    body = take_apart(valid)["cells.parquet"]
    manifest = described(SPARSE, {"cells": body}, 3, SPARSE_CELLS)
    manifest = replace(manifest, members={"cells": replace(manifest.members["cells"], file="others.parquet")})
    refused(path, "not kept in", pack(("manifest.json", manifest_bytes(manifest)[0]), ("others.parquet", body)))


@pytest.mark.parametrize("rows", [0, 2, 4, 20])
def test_rows_other_than_claimed(path, valid, rows):
    words = "does not hold the rows its manifest names"
    refused(path, words, forged(SPARSE, take_apart(valid)["cells.parquet"], rows, SPARSE_CELLS))


def test_a_dense_cube_has_every_cell_and_a_sparse_one_no_more(path):
    for manifest, cells, rows in ((DENSE, DENSE_CELLS, 19), (DENSE, DENSE_CELLS, 21), (SPARSE, SPARSE_CELLS, 21)):
        some = {name: np.resize(values, rows) for name, values in cells.items()}
        refused(path, "a row for each cell", forged(manifest, parquet(some), rows, some))


@pytest.mark.parametrize("cells", [[3, 0, 19], [0, 0, 19], [-1, 3, 19], [0, 3, 20], [0, 3, 2**62]])
def test_cells_out_of_order_doubled_or_outside(path, cells):
    some = {**SPARSE_CELLS, "cell": np.array(cells)}
    refused(path, "not in order, or lie outside", forged(SPARSE, parquet(some), 3, some))


# Reading: Parquet in which every hash fits


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "zstd"},
        {"compression": "gzip"},
        {"use_dictionary": True, "column_encoding": None},
        {"column_encoding": "PLAIN"},
        {"store_schema": True},
        {"write_statistics": True},
        {"write_page_index": True},
        {"write_page_checksum": True},
        {"data_page_version": "2.0"},
        {"row_group_size": 1, "write_batch_size": 1, "version": "1.0", "compression": "snappy"},
    ],
)
def test_parquet_that_sfumato_does_not_write(path, options):
    assert pq.read_table(pa.BufferReader(parquet(DENSE_CELLS, **options))).num_rows == 20  # as Parquet it is fine
    refused(path, "not Parquet as Sfumato writes it", forged(DENSE, parquet(DENSE_CELLS, **options), 20, DENSE_CELLS))


def test_columns_other_than_claimed(path):
    count, charge = DENSE_CELLS.values()
    nulls = pa.array([None, *range(19)])
    for other in (
        {"count": count},
        {"charge": charge, "count": count},
        {"count": count, "charge": charge, "more": count},
        {"count": count, "Charge": charge},
        {"count": count.astype(np.int32), "charge": charge},
        {"count": count.astype(np.float64), "charge": charge},
        {"count": nulls.cast(pa.int32()), "charge": charge},
        {"count": pa.array([{"charge": 1}] * 20), "charge": charge},
    ):
        body = parquet(other, column_encoding=None)
        refused(path, "the columns its manifest names", forged(DENSE, body, 20, DENSE_CELLS))
    for options in ({}, {"store_schema": False}):  # as it comes, with room for nulls
        pq.write_table(pa.table({"count": nulls, "charge": charge}), sink := io.BytesIO(), **options)
        words = "the columns its manifest names|as Sfumato writes it"
        refused(path, words, forged(DENSE, sink.getvalue(), 20, DENSE_CELLS))
    with pq.ParquetWriter(
        sink := io.BytesIO(), columns.arrow_schema(["count", "charge"]), store_schema=False
    ) as writer:
        writer.add_key_value_metadata({"note": "x"})
    refused(path, "as Sfumato writes it", forged(DENSE, sink.getvalue(), 20, DENSE_CELLS))


@pytest.mark.parametrize(
    "body", [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + bytes(4) + b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1", bytes(100)]
)
def test_members_that_are_no_parquet(path, body):
    words = "not a Parquet file|as Sfumato writes it|does not match the rows"
    refused(path, words, forged(DENSE, body, 20, DENSE_CELLS))


def test_bombs_are_refused_before_anything_is_unpacked(path):
    """A million cells in a few hundred bytes, and more cells than any reader has memory for."""
    attributes = {name: {"type": "integer", "lower": 0, "upper": 999} for name in "ab"}
    one = replace(DENSE, schema={**SCHEMA.to_dict(), "attributes": attributes, "measures": {}}, statistics=[COUNT])
    body = parquet({"count": np.zeros(10**6, np.int64)}, compression="zstd", column_encoding=None)
    assert len(body) < 10**4
    refused(path, "size of a member does not match the rows", forged(one, body, 10**6, ["count"]))
    huge = replace(one, schema={**one.schema, "attributes": {**attributes, "c": attributes["a"]}})
    refused(path, "more than 4 GB", forged(huge, bytes(16 * 10**6), 10**9, ["count"]))
    padded = parquet(DENSE_CELLS) + bytes(5 * 10**6)
    refused(path, "size of a member does not match the rows", forged(DENSE, padded, 20, DENSE_CELLS))


def with_footer(body, metadata):
    sink = io.BytesIO()
    metadata.write_metadata_file(sink)
    start = len(body) - 8 - int.from_bytes(body[-8:-4], "little")
    return body[:start] + sink.getvalue()[4:]


def test_footers_that_count_pages_twice_or_point_elsewhere(path):
    half = {name: values[:10] for name, values in DENSE_CELLS.items()}
    body = parquet(half)
    metadata = pq.read_metadata(pa.BufferReader(body))
    assert with_footer(body, metadata) == body
    metadata.append_row_groups(pq.read_metadata(pa.BufferReader(body)))
    assert pq.read_table(pa.BufferReader(with_footer(body, metadata))).num_rows == 20  # pyarrow itself would read it
    refused(path, "overlap or leave gaps", forged(DENSE, with_footer(body, metadata), 20, DENSE_CELLS))
    body = parquet(DENSE_CELLS)
    metadata = pq.read_metadata(pa.BufferReader(body))
    metadata.set_file_path("../elsewhere.parquet")
    refused(path, "as Sfumato writes it", forged(DENSE, with_footer(body, metadata), 20, DENSE_CELLS))


def test_opening_does_not_import_pandas(path, valid):
    """It is not needed, and would take longer than everything else together."""
    path.write_bytes(valid)
    code = "import sys; from sfumato.releases.file.artifact import read_artifact as r; r(sys.argv[1]).read('cells')"
    code += "; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, path], check=False).returncode == 0


# Fuzzing


def mutations(data, count, salt):
    """`count` changed copies: bytes flipped, cut out, put in, or a piece copied elsewhere; always the same ones."""
    for number in range(count):
        draw = np.frombuffer(hashlib.shake_128(f"{salt} {number}".encode()).digest(64), np.uint32).tolist()
        changed = bytearray(data)
        for kind, a, b, c in zip(*[iter(draw[1 : 1 + 4 * (1 + draw[0] % 3)])] * 4, strict=True):
            at, to = a % (len(changed) + 1), b % (len(changed) + 1)
            if kind % 5 < 2:
                changed[at : at + 1] = bytes([c % 256])
            elif kind % 5 == 2:
                del changed[at : at + 1 + c % 8]
            elif kind % 5 == 3:
                changed[at:at] = c.to_bytes(4, "little")[: 1 + c % 4]
            else:
                changed[at : at + c % 40] = changed[to : to + c % 40]
        yield bytes(changed)


@pytest.mark.full
def test_two_thousand_damaged_files(path, valid):
    refusals = 0
    for data in mutations(valid, 2000, "file"):
        path.write_bytes(data)
        try:
            read_artifact(path).read("cells")
            assert data == valid
        except ReleaseFileError:
            refusals += 1
    assert refusals > 1900


@pytest.mark.full
def test_damaged_parquet_in_which_every_hash_fits(path, valid):
    """Nobody vouches for a digest: the Parquet reader itself meets whatever a forger writes."""
    refusals = 0
    for body in mutations(take_apart(valid)["cells.parquet"], 500, "parquet"):
        path.write_bytes(forged(SPARSE, body, 3, SPARSE_CELLS))
        try:
            found = read_artifact(path).read("cells")
            assert [len(values) for values in found.values()] == [3, 3, 3]
        except ReleaseFileError:
            refusals += 1
    assert refusals > 250


@pytest.mark.parametrize("body", [parquet({"count": np.arange(3)}), FROM_PYARROW_15])
def test_every_byte_of_headers_and_footer_may_lie(body):
    """Among these are codecs and types that do not exist, on which pyarrow's own accessors end the process."""
    for place in range(len(body)):
        for value in (0, 1, 2, 15, 0x7F, 0x80, 0xFF, body[place] ^ 2):
            changed = body[:place] + bytes([value]) + body[place + 1 :]
            with contextlib.suppress(ReleaseFileError):
                assert len(columns.read_columns(changed, ["count"], 3)["count"]) == 3


UNIT = "the rows of any one person_id (at most 2 rows each)"


@pytest.mark.parametrize(
    "guarantee",
    [
        replace(DENSE.guarantee, epsilon=Fraction(1, 100)),
        replace(DENSE.guarantee, statement=guarantee_of(Fraction(1, 100), UNIT).statement),
        replace(DENSE.guarantee, statement="Nothing about anybody can be learnt from this file."),
        replace(DENSE.guarantee, neighbours="no two tables are neighbours"),
        guarantee_of(Fraction(1, 2), "the rows of any one person_id (at most 1 row each)"),
        guarantee_of(Fraction(1, 2), "the rows of any one household (at most 2 rows each)"),
        guarantee_of(Fraction(1, 2), "any one row"),
    ],
)
def test_a_guarantee_that_contradicts_itself_or_its_schema_is_refused(path, guarantee):
    """It is neither written nor read."""
    with pytest.raises(ReleaseFileError, match="the words of its guarantee contradict its epsilon, its delta or its"):
        write_artifact(path, replace(DENSE, guarantee=guarantee), {"cells": DENSE_CELLS})
    assert not path.exists()


def test_a_slack_that_is_not_the_delta_is_refused(path):
    delta, rho = Fraction(1, 10**6), Fraction(1, 100)
    found = guarantee_of(Fraction(1), UNIT, delta=delta, rho=rho)
    assert "give or take a chance of 0.000001, if" in found.statement
    write_artifact(path, replace(DENSE, guarantee=found), {"cells": DENSE_CELLS})
    assert read_artifact(path).manifest.guarantee == found
    other = replace(found, delta=Fraction(1, 10**3))
    with pytest.raises(ReleaseFileError, match="the words of its guarantee contradict"):
        write_artifact(path, replace(DENSE, guarantee=other), {"cells": DENSE_CELLS})


def test_a_promise_about_a_view_is_kept(path):
    found = guarantee_of(Fraction(1, 2), UNIT, derived=True)
    write_artifact(path, replace(DENSE, guarantee=found), {"cells": DENSE_CELLS})
    assert "what the view gave" in read_artifact(path).manifest.guarantee.statement


@pytest.mark.parametrize("fact", [{"epsilon": "1/100"}, {"delta": "1/1000000"}, {"dataset": "survey"}])
def test_a_receipt_of_another_cost_or_dataset_is_refused(path, fact):
    receipt = {"ledger": "0" * 32, "entry": 1, "dataset": "census", "epsilon": "1/2", "delta": "0/1", "nonce": "f" * 32}
    write_artifact(path, replace(DENSE, receipt=receipt), {"cells": DENSE_CELLS})
    with pytest.raises(ReleaseFileError, match="its ledger receipt contradicts its guarantee or its dataset"):
        write_artifact(path, replace(DENSE, receipt=receipt | fact), {"cells": DENSE_CELLS})
