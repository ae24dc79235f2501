from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa

from sfumato.releases.rows.coding import Decoder, column_types
from sfumato.releases.rows.model import Block, RandomNumbers
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "day": {"type": "date", "lower": "2024-01-15", "upper": "2024-03-20", "by": "month"},
            "grade": {"type": "category", "values": [1, 2, 3]},
            "size": {"type": "category", "values": [0.5, 1.5]},
            "code": {"type": "category", "values": [7, 8], "other": True},
            "urgent": {"type": "boolean"},
            "height": {"type": "number", "lower": 0, "upper": 1, "width": 0.1},
            "age": {"type": "integer", "lower": 0, "upper": 99, "cuts": [18, 65], "column": "years"},
        },
        "measures": {
            "age": {"lower": 0, "upper": 10},
            "cost": {"lower": 0, "upper": 10, "step": "0.25", "missing": "drop"},
        },
    }
)


def test_columns_have_the_types_and_the_order_of_the_schema():
    assert list(zip(column_types(SCHEMA).names, column_types(SCHEMA).types, strict=True)) == [
        ("day", pa.date32()),
        ("grade", pa.int64()),
        ("size", pa.float64()),
        ("code", pa.string()),
        ("urgent", pa.bool_()),
        ("height", pa.float64()),
        ("years", pa.int64()),
        ("age", pa.float64()),
        ("cost", pa.float64()),
    ]


def test_values_lie_in_their_cells_and_differ_in_them():
    rows, at = 5000, np.random.default_rng(1)
    codes = {axis.name: at.integers(0, axis.size, rows) for axis in SCHEMA.domain}
    block = Block(codes, {name: np.full(rows, 4.0) for name in SCHEMA.measures})
    (batch,) = Decoder.of(SCHEMA).rows(iter([block]), RandomNumbers(2))
    assert [value == label for value, label in zip(batch["grade"].to_pylist(), codes["grade"] + 1, strict=True)]
    assert set(batch["code"].to_pylist()) == {"7", "8", "other"}
    assert np.array_equal(np.array(batch["urgent"]), codes["urgent"] == 1)
    heights = np.array(batch["height"])
    edges = SCHEMA.domain["height"].edges
    assert (edges[codes["height"]] <= heights).all() and (heights < edges[codes["height"] + 1]).all()
    assert len(set(heights)) == rows
    ages = np.array(batch["years"])
    assert np.array_equal(np.searchsorted([18, 65], ages, side="right"), codes["age"])
    assert ages.min() >= 0 and ages.max() <= 99 and len(set(ages)) == 100
    days = batch["day"].to_pylist()
    assert min(days) == datetime.date(2024, 1, 15) and max(days) == datetime.date(2024, 3, 20)
    assert [day.month - 1 for day in days] == codes["day"].tolist()
    assert np.allclose(np.array(batch["cost"]) % 0.25, 0) and len(set(batch["cost"].to_pylist())) > 10


def test_whole_steps_beyond_what_an_integer_holds_are_floats():
    attributes = {"x": {"type": "integer", "lower": 0, "upper": 9}}
    measures = {"m": {"lower": -1e100, "upper": 1e100, "step": 1e95}, "k": {"lower": 0, "upper": 10, "step": 1}}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes, "measures": measures})
    assert [str(field.type) for field in column_types(schema)] == ["int64", "double", "int64"]
