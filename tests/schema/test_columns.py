"""Columns in words: values, bins, groups, and NULL where missing values are kept."""

from __future__ import annotations

import pytest

from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.columns import column_records, columns_as_html, columns_of

SCHEMA = Schema.from_dict(
    {
        "dataset": "visits",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 99, "missing": "keep"},
            "rate": {"type": "number", "lower": 0, "upper": 1, "width": 0.25},
            "town": {
                "type": "category",
                "values": ["a", "b", "c", "d", "e", "f", "g", "<i>"],
                "groups": {"region": {"north": ["a", "b", "c", "d"], "south": ["e", "f", "g", "<i>"]}},
            },
            "ill": {"type": "boolean"},
            "month": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31", "by": "month"},
            "weekday": {"type": "date", "by": "weekday", "column": "month"},
            "hour": {"type": "date", "by": "hour_of_day", "column": "month"},
        },
        "measures": {"charge": {"lower": 0, "upper": 2.5}},
    }
)


def test_every_kind_of_column_in_words():
    assert {column.name: (column.cells, column.values) for column in columns_of(SCHEMA)} == {
        "age": (101, "0 to 99; NULL where there is no value"),
        "rate": (4, "0 to 1 in 4 bins: [0, 0.25), [0.25, 0.5), [0.5, 0.75), [0.75, 1]"),
        "town": (8, "a, b, c, d, e, f, ... (8 values)"),
        "ill": (2, "false, true"),
        "month": (12, "2024-01-01 to 2024-12-31 by month"),
        "weekday": (7, "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, ... (7 values)"),
        "hour": (24, "0 to 23"),
        "region": (2, "north, south; groups of town"),
        "charge": (0, "0 to 2.5, for SUM and AVG"),
    }


def test_records_name_all_cells_and_html_escapes_them():
    records = {record["column"]: record for record in column_records(SCHEMA)}
    assert records["town"]["labels"][-1] == "<i>" and records["region"]["labels"] == ["north", "south"]
    assert records["age"]["labels"][-2:] == [99, None] and "labels" not in records["charge"]
    assert "<i>" not in columns_as_html(SCHEMA)


def test_names_and_units_for_readers_are_listed_and_written_back():
    stated = {
        "dataset": "visits",
        "privacy_unit": "row",
        "attributes": {
            "agevis": {"type": "integer", "lower": 0, "upper": 99, "label": "Age at visit", "unit": "years"},
            "ward": {"type": "category", "values": ["A", "B"]},
        },
        "measures": {"cost": {"lower": 0, "upper": 5, "unit": "EUR", "description": "As it was\x1b paid"}},
    }
    schema = Schema.from_dict(stated)
    assert Schema.from_dict(schema.to_dict()) == schema
    age, ward, cost = columns_of(schema)
    assert age.row[-1] == "0 to 99; Age at visit; in years" and ward.row[-1] == "A, B"
    assert cost.row[-1] == "0 to 5, for SUM and AVG; in EUR; As it was\\x1b paid"
    first, second, third = column_records(schema)
    assert (first["label"], first["unit"], first["values"]) == ("Age at visit", "years", "0 to 99")
    assert "label" not in second and third["description"] == "As it was\x1b paid"


@pytest.mark.parametrize("wrong", ["", "  ", 3, ["years"]])
def test_a_name_for_readers_is_text(wrong):
    age = {"type": "integer", "lower": 0, "upper": 9, "unit": wrong}
    with pytest.raises(SchemaError, match=r"attributes.age.unit is .*; write a few words, in quotes"):
        Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"age": age}})
