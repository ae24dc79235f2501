"""Frames of every library give the same cells, and none of their values can stop the reading."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from sfumato.errors import TableError
from sfumato.kernel.source import open_table
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": {"column": "who", "contributions": 1},
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 9},
            "c": {"type": "category", "values": ["a", "b"]},
            "d": {"type": "date", "lower": "2020-01-01", "upper": "2020-01-09"},
        },
        "measures": {"m": {"lower": -4, "upper": 4, "step": 1}},
    }
)
COLUMNS = {
    "unused": [object, object, object],
    "d": [dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 3), None],
    "m": [1.0, float("nan"), 2.0],
    "c": ["a", "b", "a"],
    "x": [1, 2, 3],
    "who": ["p", "q", "r"],
}
PLAIN = {name: values for name, values in COLUMNS.items() if name != "unused"}
ARROW = pa.table(PLAIN)


def aggregated(table) -> tuple:
    opened = open_table(table)
    opened.check(SCHEMA)
    found = opened.aggregate(SCHEMA, key=1)
    return found.cells.tolist(), found.counts.tolist(), found.sums["m"].tolist()


WANTED = ([(1 * 2 + 0) * 9 + 1, (2 * 2 + 1) * 9 + 2], [1, 1], [1, 0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: pd.DataFrame(COLUMNS),
        lambda: pd.DataFrame(PLAIN).astype({"x": "Int64", "c": "category", "m": "float32"}),
        lambda: pd.DataFrame(PLAIN).astype({"c": object, "who": object}),
        lambda: ARROW.to_pandas(types_mapper=pd.ArrowDtype),
        lambda: pd.DataFrame(PLAIN).assign(d=lambda f: f["d"].dt.tz_localize("UTC")),
        lambda: pl.DataFrame(PLAIN),
        lambda: pl.DataFrame(PLAIN).with_columns(pl.col("c").cast(pl.Categorical), o=pl.Series([object()] * 3)),
        lambda: pl.LazyFrame(PLAIN),
        lambda: ARROW,
        lambda: ARROW.append_column("half", pa.array([1.5] * 3, pa.float16())),
        lambda: ARROW.set_column(2, "c", ARROW["c"].combine_chunks().dictionary_encode()),
        lambda: ARROW.to_batches()[0],
        lambda: ARROW.to_reader(max_chunksize=1),
        lambda: ds.dataset(ARROW),
        lambda: duckdb.sql("SELECT * FROM arrow_table", connection=shared()),
    ],
)
def test_frames(make):
    assert aggregated(make()) == WANTED


def shared() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("arrow_table", ARROW)
    return connection


def test_a_dataset_on_disk(tmp_path):
    pq.write_table(ARROW, tmp_path / "t.parquet")
    assert aggregated(ds.dataset(tmp_path)) == WANTED


def test_columns_of_the_same_name_are_told_apart_by_place():
    frame = pd.DataFrame(PLAIN)
    frame.columns = pd.Index(["d", "m", "c", "x", "who"])
    doubled = pd.concat([frame, frame[["m"]].rename(columns={"m": "M"})], axis=1)
    assert aggregated(doubled) == WANTED
    with pytest.raises(TableError, match="rename all but one"):
        aggregated(pd.concat([frame, frame[["m"]]], axis=1))


def test_objects_without_text_do_not_stop_the_reading():
    class Mute:
        def __str__(self) -> str:
            raise ValueError("K4n4rienvogel")

    frame = pd.DataFrame(PLAIN)
    frame["c"] = pd.Series([Mute(), "\ud800", "a"], dtype=object)
    frame["d"] = dt.datetime(2020, 1, 1)
    assert aggregated(frame)[0] == [3 * 2 * 9]


def test_python_objects_are_text_whatever_they_hold():
    numbers = pd.DataFrame(PLAIN).astype({"x": object})
    with pytest.raises(TableError, match="'x' holds text"):
        open_table(numbers).check(SCHEMA)


def test_numbers_in_any_width_and_missing_ones():
    for kind in ("int8", "uint64", "float32", "Int8", "Float64", "boolean"):
        frame = pd.DataFrame(PLAIN | {"d": [dt.datetime(2020, 1, 1)] * 3, "x": [1, 1, 1]}).astype({"x": kind})
        assert aggregated(frame)[0] == [1 * 2 * 9, (1 * 2 + 1) * 9]
    gaps = pd.DataFrame(PLAIN | {"d": [dt.datetime(2020, 1, 1)] * 3, "x": pd.array([1, None, None], dtype="Int64")})
    assert aggregated(gaps)[0] == [1 * 2 * 9]


def test_bytes_that_are_no_text_do_not_stop_the_reading():
    offsets = pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]
    wrong = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"\xff\xfea")])
    frame = ARROW.set_column(2, "c", wrong).set_column(0, "d", pa.array([dt.date(2020, 1, 1)] * 3))
    assert aggregated(frame)[0] == [3 * 2 * 9]


def test_a_stream_is_read_once():
    table = open_table(ARROW.to_reader())
    table.check(SCHEMA)
    assert len(table.aggregate(SCHEMA, key=1).cells) == 2
    with pytest.raises(TableError, match="used up"):
        table.aggregate(SCHEMA, key=1)


def test_a_column_that_the_engine_does_not_know_is_refused_only_if_used():
    half = ARROW.set_column(3, "x", pa.array(np.array([1, 2, 3], np.float16)))
    with pytest.raises(TableError, match=r"attributes\.x needs numbers"):
        open_table(half).check(SCHEMA)


def test_no_frame_library_is_imported_to_read_a_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n")
    code = f"""
import sys
from sfumato.kernel.source import open_table
from sfumato.schema import Schema
assert not {{"duckdb", "sqlglot", "pyarrow", "pandas", "polars"}} & set(sys.modules)
table = open_table({str(path)!r})
assert not {{"pyarrow", "pandas", "polars"}} & set(sys.modules)
x = {{"type": "integer", "lower": 0, "upper": 9}}
table.aggregate(Schema(dataset="t", privacy_unit="row", attributes={{"x": x}}), key=1)
assert not {{"pandas", "polars"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
