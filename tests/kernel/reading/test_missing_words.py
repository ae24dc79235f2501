"""Words for missing values and units around numbers, as the schema states them: the same in every source."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import SchemaError, TableError
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

KEEP = {"missing": "keep"}
PARTS = {
    "dataset": "t",
    "privacy_unit": {"column": "who", "contributions": 9},
    "attributes": {
        "sex": {"type": "category", "values": ["F", "M"], "other": True, **KEEP},
        "age": {"type": "integer", "lower": 0, "upper": 9, **KEEP},
    },
    "measures": {"pay": {"lower": 0, "upper": 10, "step": 1}},
}
SCHEMA = Schema.from_dict({**PARTS, "file": {"missing": ["NA", "-", -9]}})
# Persons, sexes, ages and pays; then how many rows each column must miss, with the words and without them.
ROWS = [("p", "F", 1, 5), ("q", "NA", 2, -9), ("r", " - ", -9, 4), ("NA", "M", 3, 3), ("s", "na", -9, 10)]
COLUMNS = ("who", "sex", "age", "pay")


def files(tmp_path) -> dict[str, object]:
    """The same rows in every kind of source that is read without a server."""
    import pandas as pd

    arrow = pa.table([pa.array(column) for column in zip(*ROWS, strict=True)], names=list(COLUMNS))
    pq.write_table(arrow, tmp_path / "t.parquet")
    lines = [",".join(map(str, row)) for row in (COLUMNS, *ROWS)]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    records = [json.dumps(dict(zip(COLUMNS, row, strict=True))) for row in ROWS]
    (tmp_path / "t.jsonl").write_text("\n".join(records) + "\n")
    with duckdb.connect(tmp_path / "t.duckdb") as connection:
        connection.register("given", arrow)
        connection.execute("CREATE TABLE t AS FROM given")
    with sqlite3.connect(tmp_path / "t.sqlite") as connection:
        connection.execute("CREATE TABLE t (who, sex, age, pay)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS)
    connection.close()
    frame = pd.DataFrame(ROWS, columns=list(COLUMNS))
    named = {"t.duckdb": "t", "t.sqlite": "t"}
    paths = {name: (tmp_path / name, named.get(name)) for name in ("t.csv", "t.parquet", "t.jsonl", *named)}
    return {**paths, "arrow": (arrow, None), "pandas": (frame, None)}


@pytest.mark.parametrize("source", ["t.csv", "t.parquet", "t.jsonl", "t.duckdb", "t.sqlite", "arrow", "pandas"])
def test_words_are_missing_in_every_source(tmp_path, source):
    table, name = files(tmp_path)[source]
    if name:
        table = f"{'duckdb' if source == 't.duckdb' else 'sqlite'}:///{table}"
    found = open_table(table, name=name, schema=SCHEMA).aggregate(SCHEMA, 7)
    cube = np.zeros(SCHEMA.domain.shape, dtype=int)
    cube.flat[found.cells] = found.counts
    # The row of NA is nobody's. Sex: F, two that are missing, and na, which is no word and so is another value.
    assert cube.sum(axis=1).tolist() == [1, 0, 1, 2]
    assert cube.sum(axis=0).tolist() == [0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 2]
    assert found.sums["missing pay"].sum() == 1
    plain = Schema.from_dict(PARTS)
    with open_table(table, name=name, schema=plain) as opened:
        before = opened.aggregate(plain, 7)
    assert before.counts.sum() == 5 and before.sums["missing pay"].sum() == 0


def test_a_day_can_stand_for_no_day_whatever_holds_it(tmp_path):
    day = {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31", "by": "month", **KEEP}
    parts = {"dataset": "t", "privacy_unit": "row", "attributes": {"d": day}, "file": {"missing": ["9999-12-31"]}}
    schema = Schema.from_dict(parts)
    days = [dt.date(2020, 2, 1), dt.date(9999, 12, 31)]
    import pandas as pd

    times = [dt.datetime(2020, 2, 1), dt.datetime(9999, 12, 31)]
    frames = [pa.table({"d": days}), pa.table({"d": pa.array(times, pa.timestamp("us"))}), pd.DataFrame({"d": days})]
    for frame in [*frames, pd.DataFrame({"d": times}, dtype=object)]:
        assert open_table(frame).aggregate(schema, 7).cells.tolist() == [1, 12]


def pays(tmp_path, texts: list[str], **file: object) -> list[float | None]:
    """Each text as the pay that it is read as, None where it is not."""
    part = {"type": "number", "lower": -100, "upper": 2000, "width": "0.5", **KEEP}
    parts = {"dataset": "t", "privacy_unit": "row", "attributes": {"pay": part}, "file": {"quote": "|", **file}}
    schema = Schema.from_dict(parts)
    edges, found = schema.domain["pay"].edges, list[float | None]()
    for text in texts:
        (tmp_path / "t.csv").write_text(f"pay,x\n|{text}|,1\n")
        (cell,) = open_table(tmp_path / "t.csv", schema=schema).aggregate(schema, 7).cells
        found.append(float(edges[cell]) if cell < len(edges) - 1 else None)
    return found


def test_units_are_dropped_on_either_side_and_nowhere_else(tmp_path):
    texts = ["12 EUR", "EUR 12", "12EUR", "-€ 5", "€-5", "12.5\u00a0%", "EUR 12 %", " 12 EUR ", "+ EUR 7"]
    read = [12.0, 12.0, 12.0, -5.0, -5.0, 12.5, 12.0, 12.0, 7.0]
    assert pays(tmp_path, texts, strip=["EUR", "€", "%"]) == read
    odd = ["12 eur", "EUR", "1 EUR 2", "12 EUR EUR", "USD 12", "-€-5", "%%12", "1e3 EUR"]
    assert pays(tmp_path, odd, strip=["EUR", "€", "%"]) == [None, None, None, None, None, None, None, 1000.0]
    assert pays(tmp_path, ["12 EUR", "12"]) == [None, 12.0]
    assert pays(tmp_path, ["1.234,50 EUR", "1.234,5", "12.5 EUR"], strip="EUR", decimal=",", thousands=".") == [
        1234.5,
        1234.5,
        None,
    ]
    assert pays(tmp_path, ["5 a.b", "5 aXb", "5 (x"], strip=["a*b", "(x"]) == [None, None, 5.0]  # taken literally


def test_by_column(tmp_path):
    (tmp_path / "t.csv").write_text("Sex,age\nNA,NA\nNA,5\n")
    attributes = {"sex": {"type": "category", "values": ["NA", "M"]}, "age": PARTS["attributes"]["age"]}
    parts = {"dataset": "t", "privacy_unit": "row", "attributes": attributes}
    schema = Schema.from_dict({**parts, "file": {"missing": {"AGE": ["NA"]}}})
    assert open_table(tmp_path / "t.csv", schema=schema).aggregate(schema, 7).cells.tolist() == [5, 10]
    with pytest.raises(SchemaError, match=r"attributes.sex lists 'NA', which file.missing says is no value"):
        Schema.from_dict({**parts, "file": {"missing": ["NA"]}})
    with pytest.raises(SchemaError, match=r"file.missing names the column 'aeg', which nothing here reads"):
        Schema.from_dict({**parts, "file": {"missing": {"aeg": ["NA"]}}})


def test_numbers_that_are_text_in_a_typed_column_are_refused_with_units_too():
    schema = Schema.from_dict({**PARTS, "privacy_unit": "row", "measures": {}, "file": {"strip": ["EUR"]}})
    with pytest.raises(TableError, match=r"attributes.age needs numbers, but the column 'age' holds text"):
        open_table(pa.table({"sex": ["F"], "age": ["1 EUR"]})).check(schema)
