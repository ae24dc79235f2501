"""Rows that are written are read back by the same schema into the cells that they were drawn for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato.kernel.counts import Rows
from sfumato.kernel.reading.table import open_table
from sfumato.releases.rows.coding import Decoder, codes_in, read_rows
from sfumato.releases.rows.from_cells import RowsOfCells
from sfumato.releases.rows.model import Block, RandomNumbers
from sfumato.releases.rows.ordered_values import Numbers
from sfumato.releases.rows.write import draw_to_file, rows_file
from sfumato.schema import Schema
from sfumato.schema.dialect import PLAIN

ROWS = 3000
TOWNS = ["=Bonn", "Ulm; a/d", 'the "Nest"', "Köln", "-", "a\u200bb"]
ATTRIBUTES = {
    "hour": {"type": "date", "by": "hour", "lower": "2024-02-28", "upper": "2024-03-01"},
    "day": {"type": "date", "by": "day", "lower": "1923-02-26", "upper": "1923-03-03"},
    "week": {"type": "date", "by": "week", "lower": "2024-02-01", "upper": "2024-03-20"},
    "month": {"type": "date", "by": "month", "lower": "2023-12-24", "upper": "2024-03-20", "missing": "keep"},
    "quarter": {"type": "date", "by": "quarter", "lower": "1950-05-05", "upper": "1951-03-20"},
    "year": {"type": "date", "by": "year", "lower": "2020-05-05", "upper": "2024-03-20"},
    "weekday": {"type": "date", "by": "weekday", "missing": "keep"},
    "hour_of_day": {"type": "date", "by": "hour_of_day", "column": "at"},
    "sex": {"type": "category", "values": ["F", "M"], "map": {"w": "F"}, "fold": "case", "missing": "keep"},
    "town": {
        "type": "category",
        "values": TOWNS,
        "other": True,
        "groups": {"land": {"NRW": [TOWNS[0], *TOWNS[3:]], "BW": TOWNS[1:3]}},
        "labels": {"Köln": "Cologne"},
    },
    "grade": {"type": "category", "values": [1, 2.5], "other": True, "missing": "keep"},
    "stars": {"type": "category", "values": [0.5, 1.5], "other": True},
    "level": {"type": "category", "values": [7, 8], "labels": {7: "low", 8: "high"}, "missing": "keep"},
    "word": {"type": "category", "values": ["a", "b"], "map": {"Other": "a"}, "fold": "case", "other": True},
    "urgent": {"type": "boolean", "map": {"ja": True, "nein": False}, "missing": "keep"},
    "upside": {"type": "boolean", "map": {"false": True, "true": False}},
    "size": {"type": "number", "lower": -1, "upper": 1, "width": "0.3", "missing": "keep"},
    "tiny": {"type": "number", "lower": "1e-7", "upper": "2e-7", "bins": 7},
    "age": {"type": "integer", "lower": 0, "upper": 99, "cuts": [18, 65], "missing": "keep"},
}
MEASURES = {
    "cost": {"lower": 0, "upper": 10, "step": "0.25"},
    "points": {"lower": -5000, "upper": 5000, "step": 1, "missing": "drop"},
}
STATED = {"delimiter": ";", "decimal": ",", "thousands": ".", "encoding": "utf-16", "quote": "'"}
STATED |= {"dates": {"day": "%d.%m.%Y", "at": "%H:%M:%S %d.%m.%Y"}}
COLUMNS = ["at", "unused", "person", *(name for name in ATTRIBUTES if name != "hour_of_day"), *MEASURES]
FILES = {"plain": {}, "stated": STATED, "no header": {"columns": COLUMNS}, "decimal alone": {"decimal": ","}}


def schema_of(attributes, measures=MEASURES, file=None):
    unit = {"column": "person", "contributions": 3}
    whole = {"dataset": "t", "privacy_unit": unit, "attributes": attributes, "measures": measures}
    return Schema.from_dict(whole | ({"file": file} if file else {}))


def block_of(schema, codes):
    rows, means = len(next(iter(codes.values()))), {}
    for name, measure in schema.measures.items():
        means[name] = np.full(rows, float(measure.lower + (measure.upper - measure.lower) / 3))
        if measure.missing == "keep":
            means[f"missing {name}"] = np.full(rows, 0.25)
    return Block(codes, means)


def written(schema, codes, path):
    """The rows that were drawn for these cells, in a file."""
    decoder, file = Decoder.of(schema), schema.published().file or PLAIN
    (batch,) = decoder.rows(iter([block_of(schema, codes)]), RandomNumbers(4))
    with rows_file(path, decoder.types, file) as write:
        write(batch)
    return batch


def read(schema, path):
    """Cells by attribute and steps by measure, as the kernel reads them, in an order that is the same for all."""
    rows = open_table(path, schema=schema).read(schema, 7, for_margins=True)
    if isinstance(rows, Rows):
        assert len(rows) == ROWS
        return {name: rows.codes(name, slice(None)) for name in schema.attributes}, rows.steps
    assert rows.counts.sum() == ROWS
    codes = np.unravel_index(np.repeat(rows.cells, rows.counts), schema.domain.shape)
    return dict(zip(schema.attributes, codes, strict=True)), rows.sums


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("file", FILES)
def test_rows_of_every_kind_are_read_into_their_cells(tmp_path, file, ending):
    schema, at = schema_of(ATTRIBUTES, file=FILES[file]), np.random.default_rng(1)
    codes = {axis.name: at.integers(0, axis.size, ROWS) for axis in schema.domain}
    batch = written(schema, codes, tmp_path / f"rows.{ending}")
    found, steps = read(schema, tmp_path / f"rows.{ending}")
    assert sorted(zip(*found.values(), strict=True)) == sorted(zip(*codes.values(), strict=True))
    there = [value for value in batch["cost"].to_pylist() if value is not None]
    assert steps["cost"].sum() == sum((value - 5) / 0.25 for value in there) and len(there) < ROWS
    assert steps["missing cost"].sum() == ROWS - len(there)
    assert steps["points"].sum() == sum(batch["points"].to_pylist())


SHARED = {
    "day": {"type": "date", "by": "day", "lower": "2024-02-26", "upper": "2024-03-03", "column": "at"},
    "month": {"type": "date", "by": "month", "lower": "2024-01-01", "upper": "2024-12-31", "column": "at"},
    "weekday": {"type": "date", "by": "weekday", "column": "at"},
    "hour": {"type": "date", "by": "hour_of_day", "column": "at"},
    "income": {"type": "number", "lower": 0, "upper": 5, "bins": 10, "missing": "keep"},
    "rich": {"type": "number", "lower": 0, "upper": 8, "cuts": [4], "column": "income", "missing": "keep"},
    "code": {"type": "category", "values": ["A1", "A2", "B1"]},
    "letter": {"type": "category", "values": ["A"], "map": {"A1": "A", "A2": "A"}, "other": True, "column": "code"},
    "rating": {"type": "category", "values": [1, 2, 3], "other": True},
}
SHARED_MEASURES = {"income": {"lower": 0, "upper": 9, "step": "0.001"}, "rating": {"lower": 0, "upper": 5, "step": 1}}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_read_from_one_column_is_written_as_one(tmp_path, ending):
    """Cells that go together, as those of a table do: here such as a first reading found."""
    schema, at = schema_of(SHARED, SHARED_MEASURES), np.random.default_rng(2)
    single = {name: part for name, part in SHARED.items() if name in ("code", "income", "rating")}
    single |= {"at": {"type": "date", "by": "hour", "lower": "2024-02-20", "upper": "2024-03-09"}}
    first = schema_of(single, SHARED_MEASURES)
    written(first, {axis.name: at.integers(0, axis.size, ROWS) for axis in first.domain}, tmp_path / f"1.{ending}")
    codes, steps = read(schema, tmp_path / f"1.{ending}")
    batch = written(schema, codes, tmp_path / f"2.{ending}")
    assert batch.schema.names == ["person", "at", "income", "code", "rating"]
    found, again = read(schema, tmp_path / f"2.{ending}")
    assert sorted(zip(*found.values(), strict=True)) == sorted(zip(*codes.values(), strict=True))
    assert again["missing income"].sum() == steps["missing income"].sum() > 0


def test_a_measure_beside_an_attribute_keeps_its_mean(tmp_path):
    """The mean by cell is what the release knows; 3000 values of one cell average it to a tenth of the cell's width."""
    income = {"type": "number", "lower": 0, "upper": 5, "cuts": [2, 4]}
    schema = schema_of({"income": income}, {"income": {"lower": 0, "upper": 9, "step": "0.01", "missing": "drop"}})
    for cell, mean in ((0, 0.5), (1, 3.5), (2, 8.0)):
        block = Block({"income": np.full(ROWS, cell)}, {"income": np.full(ROWS, mean)})
        (batch,) = Decoder.of(schema).rows(iter([block]), RandomNumbers(4))
        assert abs(np.mean(batch["income"].to_numpy()) - mean) < 0.1


BOTH = {  # every column is read by an attribute, or two, and by a measure, in steps that are no whole numbers
    "childs": {"type": "integer", "lower": 0, "upper": 8, "missing": "keep"},
    "age": {"type": "integer", "lower": 0, "upper": 99, "cuts": [18, 65]},
    "rate": {"type": "number", "lower": 0, "upper": 5, "width": "0.5", "missing": "keep"},
    "band": {"type": "integer", "lower": 0, "upper": 40, "cuts": [10, 25]},
    "part": {"type": "number", "lower": 0, "upper": 40, "cuts": ["0.25", "0.75", 30], "column": "band"},
    "day": {"type": "date", "by": "day", "lower": "2024-02-28", "upper": "2024-03-02", "missing": "keep"},
}
SUMMED = {
    "childs": {"lower": 0, "upper": 8, "step": "0.03", "missing": "drop"},
    "age": {"lower": 0, "upper": 90, "step": "0.4"},
    "rate": {"lower": 0, "upper": 5, "step": "0.3", "missing": "drop"},
    "band": {"lower": 1, "upper": 39, "step": "0.7"},
}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_what_is_both_attribute_and_measure_stays_in_its_cell_and_whole(tmp_path, form):
    schema, path, at = schema_of(BOTH, SUMMED), tmp_path / f"rows.{form}", np.random.default_rng(3)
    wanted = {axis.name: at.integers(0, axis.size, ROWS) for axis in schema.domain}
    batch = written(schema, wanted, path)
    table = read_rows(path, schema)
    assert batch.schema.field("day").type == pa.date32()
    for name in ("childs", "age", "band"):
        assert table.schema.field(name).type == pa.int64()
    assert set(table.column("childs").to_pylist()) == {None, *range(9)}
    codes = codes_in(table, schema, schema.domain.names, whole=True)
    for name in ("childs", "age", "rate", "band", "day"):
        assert np.array_equal(codes[name], wanted[name])
    # Between 0.25 and 0.75 there is no whole number; where the cells of both have one, it is in both.
    assert (codes["part"] == wanted["part"])[(wanted["part"] == 2) & (wanted["band"] == 1)].all()


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_check_looks_at_the_rows_as_written(tmp_path, form, monkeypatch):
    """Numbers a little below the next whole one, as once were written, are seen; and so are values of other cells."""
    schema = schema_of({"childs": BOTH["childs"]}, {"childs": SUMMED["childs"]})
    cells = RowsOfCells(schema, {"count": np.full(10, 50.0), "childs": np.zeros(10)}, {"childs": 1.0})
    honest = draw_to_file(cells, schema, ROWS, tmp_path / f"rows.{form}", seed=1)
    assert honest.agreements[0].largest < 0.01

    draw = Numbers.draw
    monkeypatch.setattr(Numbers, "type", pa.float64())
    monkeypatch.setattr(Numbers, "draw", lambda *all_: pc.add(draw(*all_).cast(pa.float64()), 0.999999992549419))
    spoiled = draw_to_file(cells, schema, ROWS, tmp_path / f"spoiled.{form}", seed=1)
    assert spoiled.agreements[0].largest > 0.09  # every value is lost

    monkeypatch.setattr(Numbers, "draw", lambda *all_: pc.add(draw(*all_), 1).cast(pa.float64()))
    moved = draw_to_file(cells, schema, ROWS, tmp_path / f"moved.{form}", seed=1)
    assert moved.agreements[0].largest > 0.09  # nobody has none
