"""Frames of every library give the same cells, and none of their values can stop the reading."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from sfumato.errors import TableError
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

pl = pytest.importorskip("polars")

UNIT = {"column": "who", "contributions": 1}
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


def aggregated(table, **allowed) -> tuple:
    opened = open_table(table, **allowed)
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
        lambda: ARROW,
        lambda: ARROW.append_column("half", pa.array([1.5] * 3, pa.float16())),
        lambda: ARROW.set_column(2, "c", ARROW["c"].combine_chunks().dictionary_encode()),
        lambda: ARROW.to_batches()[0],
    ],
)
def test_frames(make):
    assert aggregated(make()) == WANTED


@pytest.mark.parametrize(
    "make",
    [
        lambda: pl.LazyFrame(PLAIN),
        lambda: ARROW.to_reader(max_chunksize=1),
        lambda: ds.dataset(ARROW),
        lambda: duckdb.sql("SELECT * FROM arrow_table", connection=shared()),
    ],
)
def test_what_is_worked_out_on_reading_is_refused_unless_allowed(make):
    with pytest.raises(TableError, match="the promise is then about the rows of the view"):
        aggregated(make())
    assert aggregated(make(), allow_views=True) == WANTED


def shared() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("arrow_table", ARROW)
    return connection


def test_a_dataset_on_disk(tmp_path):
    pq.write_table(ARROW, tmp_path / "t.parquet")
    assert aggregated(ds.dataset(tmp_path), allow_views=True) == WANTED


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


def persons(frame):
    """How many rows are counted where each person may have one."""
    public = {"n": {"type": "integer", "lower": 0, "upper": 9}}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": UNIT, "attributes": public})
    return open_table(frame).aggregate(schema, key=1).counts.tolist()


def test_a_person_in_a_column_of_objects_is_a_type_and_a_value():
    alike = [1, "1", 1.0, True, "true", dt.date(2020, 1, 1), "2020-01-01", dt.datetime(2020, 1, 1), b"1", "b'1'"]
    for who in (alike, ["\ud800", "?", "\ud801"]):
        objects = pd.Series(who + who, dtype=object)
        assert sum(persons(pd.DataFrame({"n": 0, "who": objects}))) == len(who)
    mixed = pd.DataFrame({"n": 0, "who": pd.Categorical([1, "1", 1, None], categories=[1, "1"])})
    assert sum(persons(mixed)) == 2
    assert persons(pd.DataFrame({"n": 0, "who": pd.Series([[1], {1}, None, pd.Period("2020")], dtype=object)})) == []


def test_who_somebody_is_does_not_depend_on_the_type_of_the_column():
    """Nor which of the rows are kept, which a pair of tables with and without another type of value would show."""
    rows = {"n": list(range(10)), "who": [7] * 5 + [8] * 5}
    wanted = persons(pd.DataFrame(rows))
    for kind in (object, "int8", "Int64", "category", "int64[pyarrow]", pd.SparseDtype("int64")):
        assert persons(pd.DataFrame(rows).astype({"who": kind})) == wanted
    words = pd.DataFrame({**rows, "who": ["p"] * 5 + ["q"] * 5})
    wanted = persons(words.astype({"who": object}))
    for kind in ("str", "category", "string[python]", "string[pyarrow]", pd.ArrowDtype(pa.string())):
        assert persons(words.astype({"who": kind})) == wanted
    days = pd.DataFrame({**rows, "who": [dt.datetime(2020, 1, 1)] * 5 + [dt.datetime(2021, 1, 1)] * 5})
    assert persons(days) == persons(days.astype({"who": object}))


def test_objects_and_unions_of_typed_frames_name_nobody():
    """Their columns are refused by their types, before anything is read."""
    objects = pl.DataFrame({"n": [0, 0], "who": pl.Series([1, "1"], dtype=pl.Object)})
    kinds, places = pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32())
    union = pa.UnionArray.from_dense(kinds, places, [pa.array([1]), pa.array(["1"])])
    for frame in (objects, pa.table({"n": [0, 0], "who": union})):
        with pytest.raises(TableError, match=r"is of type BLOB|cannot be opened"):
            persons(frame)


def test_what_a_pandas_value_means_depends_on_no_other_value():
    rows = [(1, "7", True, dt.datetime(2020, 1, 2, 5)), (2, "8", False, dt.datetime(2020, 1, 3))]
    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "attributes": {
                "x": {"type": "category", "values": ["1", "2"]},
                "n": {"type": "integer", "lower": 0, "upper": 9},
                "b": {"type": "boolean"},
                "d": {"type": "date", "lower": "2020-01-01", "upper": "2020-01-09"},
            },
        }
    )

    def cells(frame: pd.DataFrame) -> list[int]:
        table = open_table(frame)
        table.check(schema)
        return table.aggregate(schema, key=1).cells.tolist()

    frame = pd.DataFrame(rows, columns=["x", "n", "b", "d"])
    both = cells(frame)
    assert len(both) == 2
    # One more row changes the types of columns: whole numbers to floats, booleans and times to objects.
    for odd in [(None, None, None, None), ("?", 5, "?", "?"), (2.5, 2.5, 2.5, 2.5), (True, True, True, True)]:
        longer = pd.DataFrame([*rows, odd], columns=["x", "n", "b", "d"])
        assert cells(longer) == both


def test_identifiers_never_went_through_floats():
    frame = pd.DataFrame(PLAIN | {"who": [2**53, 2**53 + 1, 7]})
    assert aggregated(frame) == WANTED
    with pytest.raises(TableError, match="two large numbers can become one; turn it into text or into Int64"):
        aggregated(pd.DataFrame(PLAIN | {"who": [2**53, 2**53 + 1, None]}))
    whole = pd.DataFrame(PLAIN).assign(who=pd.array([2**53, 2**53 + 1, None], dtype="Int64"))
    assert aggregated(whole) == WANTED


@pytest.mark.parametrize("who", [[1.5, 2.5, float("nan")], [1.5, float("nan"), float("nan")]])
def test_nobody_is_called_nan(who):
    frame = ARROW.set_column(4, "who", pa.array(who)).set_column(0, "d", pa.array([dt.date(2020, 1, 1)] * 3))
    for table in (frame, pl.from_arrow(frame)):
        assert sum(aggregated(table)[1]) == sum(each == each for each in who)


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
    table = open_table(ARROW.to_reader(), allow_views=True)
    table.check(SCHEMA)
    assert len(table.aggregate(SCHEMA, key=1).cells) == 2
    with pytest.raises(TableError, match="used up"):
        table.aggregate(SCHEMA, key=1)


def test_a_column_that_the_engine_does_not_know_is_refused_only_if_used():
    half = pa.array(np.array([1, 2, 3], np.float16))
    wide = pa.array([1, 2, 3]).cast(pa.decimal256(50, 2))
    for values in (half, wide):
        with pytest.raises(TableError, match=r"attributes\.x needs numbers"):
            open_table(ARROW.set_column(3, "x", values)).check(SCHEMA)


def test_no_frame_library_is_imported_to_read_a_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n")
    code = f"""
import sys
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema
assert not {{"duckdb", "sqlglot", "pyarrow", "pandas", "polars"}} & set(sys.modules)
table = open_table({str(path)!r})
assert not {{"pyarrow", "pandas", "polars"}} & set(sys.modules)
x = {{"type": "integer", "lower": 0, "upper": 9}}
table.aggregate(Schema(dataset="t", privacy_unit="row", attributes={{"x": x}}), key=1)
assert not {{"pandas", "polars"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
