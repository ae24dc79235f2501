"""Rules that make columns: what they say, what is refused, and what they make of rows."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from sfumato.errors import SchemaError, TableError
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema
from sfumato.schema.file import with_values_from_files
from sfumato.schema.schema import what_is_counted

AREAS = {"type": "category", "values": ["in", "out"], "missing": "keep"}


def schema(attributes, **parts) -> Schema:
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes, **parts})


def counted(text: str, of: Schema, tmp_path) -> list[int]:
    """How many rows of a CSV file fall into each cell."""
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    with open_table(tmp_path / "t.csv", schema=of) as table:
        table.check(of)
        found = table.aggregate(of, 3)
    cells = np.zeros(of.domain.size, dtype=int)
    cells[found.cells] = found.counts
    return cells.tolist()


def test_the_first_word_or_pattern_that_is_found_names_a_text(tmp_path):
    rule = {"match": "note", "first_of": {"cough": ["cough", "Husten"], "fever": ["%FEVER%"]}, "otherwise": "none"}
    kinds = {"type": "category", "values": ["cough", "fever", "none"], "missing": "keep"}
    of = schema({"kind": kinds}, recode={"kind": rule})
    notes = ["Cough.", "bad,cough,fever", "HUSTEN", "feverish", "coughing", "-", "", "x"]
    lines = "\n".join(f'{n},"{note}"' for n, note in enumerate(notes))
    assert counted(f"n,note\n{lines}\n", of, tmp_path) == [3, 1, 3, 1]


def test_points_fall_into_boxes_polygons_and_grids(tmp_path):
    points = "x,y\n1,1\n3,3\n0,0\n-1,2\n3.9,0.5\n,1\nabc,2\n1e400,1\n"
    boxes = {"point": ["x", "y"], "boxes": {"in": [0, 0, 3, 3]}, "otherwise": "out"}
    wedge = {"point": ["x", "y"], "polygons": {"in": [[-0.5, -0.5], [5, -0.5], [-0.5, 5]]}, "otherwise": "out"}
    assert counted(points, schema({"a": AREAS}, recode={"a": boxes}), tmp_path) == [3, 3, 2]
    assert counted(points, schema({"a": AREAS}, recode={"a": wedge}), tmp_path) == [3, 3, 2]
    grid = {"point": ["x", "y"], "grid": {"west": 0, "south": 0, "east": 4, "north": 4, "columns": 2, "rows": 2}}
    cell = {"type": "integer", "lower": 0, "upper": 3, "missing": "keep"}
    assert counted(points, schema({"c": cell}, recode={"c": grid}), tmp_path) == [2, 1, 0, 1, 4]


def areas(*features) -> str:
    shapes = [
        {"type": "Feature", "properties": {"title": name}, "geometry": {"type": kind, "coordinates": corners}}
        for name, kind, corners in features
    ]
    return json.dumps({"type": "FeatureCollection", "features": shapes})


def square(west, south, side):
    return [[west, south], [west + side, south], [west + side, south + side], [west, south + side], [west, south]]


def test_areas_come_from_a_geojson_file_with_holes_and_parts(tmp_path):
    ring = ("in", "Polygon", [square(0, 0, 4), square(1, 1, 2)])
    parts = ("in", "MultiPolygon", [[square(10, 0, 1)], [[[*one, 7.0] for one in square(20, 0, 1)]]])
    (tmp_path / "a.geojson").write_text(areas(ring, parts, ("out", "Point", [0, 0])))
    rule = {"point": ["x", "y"], "geojson": {"file": "a.geojson", "name": "title"}, "otherwise": "out"}
    draft = {"dataset": "t", "privacy_unit": "row", "attributes": {"a": AREAS}, "recode": {"a": rule}}
    of = Schema.from_dict(with_values_from_files(draft, tmp_path))
    points = "x,y\n0.5,0.5\n2,2\n3.5,2\n10.5,0.5\n20.5,0.5\n15,0.5\n,1\n"
    assert counted(points, of, tmp_path) == [4, 2, 1]
    assert Schema.from_dict(json.loads(json.dumps(of.to_dict()))) == of  # the release carries the areas


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no FeatureCollection"),
        ("[" * 100_000, "no FeatureCollection"),
        ('{"features": [1]}', "no FeatureCollection"),
        ('{"features": []}', "without a polygon"),
        (areas(("a", "Polygon", [[["x", 1], [2, 3], [4, 5], ["x", 1]]])), "corners"),
        (areas(("a", "Polygon", [[[0, 1]]])), "three corners"),
        (areas(("a", "Polygon", [[[k % 7, k] for k in range(600)]])), "simplify"),
        (areas(("a\0", "Polygon", [square(0, 0, 1)])), "cannot hold"),
        (areas(("a", "Polygon", [square(0, 0, 1e300)])), "another unit"),
    ],
)
def test_a_file_of_areas_that_cannot_be_used_is_refused_in_one_line(text, said, tmp_path):
    (tmp_path / "a.geojson").write_text(text)
    rule = {"point": ["x", "y"], "geojson": {"file": "a.geojson", "name": "title"}}
    draft = {"dataset": "t", "privacy_unit": "row", "attributes": {"a": AREAS}, "recode": {"a": rule}}
    with pytest.raises(SchemaError, match=said) as refused:
        Schema.from_dict(with_values_from_files(draft, tmp_path))
    assert len(str(refused.value)) < 400


def test_rules_use_one_another_and_by_their_own_name_the_table(tmp_path):
    rules = {"night": "hour < 6", "hour": "EXTRACT(HOUR FROM at)", "city": "TRIM(LOWER(City))"}
    of = schema({"night": {"type": "boolean"}, "city": {"type": "category", "values": ["bonn", "köln"]}}, recode=rules)
    assert list(of.made) == ["hour", "city", "night"]
    rows = "at,City\n2026-01-01 05:59, Bonn\n2026-01-01 06:00,KöLN\nno time,bonn\n2026-01-01,BONN\n"
    assert counted(rows, of, tmp_path) == [0, 1, 2, 0]


def test_values_are_looked_up_in_a_public_file(tmp_path):
    (tmp_path / "codes.csv").write_text("code;region;people\n01;North;5\n02;South;0\n03;;7\n", encoding="utf-8")
    (tmp_path / "t.yaml").write_text(
        "dataset: t\nprivacy_unit: row\nwith: [{file: codes.csv, key: code, column: plz}]\n"
        "attributes:\n  region: {type: category, values: [North, South], missing: keep}\n"
        "  people: {type: integer, lower: 0, upper: 9, width: 5, missing: keep}\n"
    )
    of = Schema.load(tmp_path / "t.yaml")
    assert of.with_[0]["table"]["region"] == ("North", "South", "")
    again = Schema.from_dict(of.to_dict())
    assert again == of and list(again.made) == ["region", "people"]
    # North with 5, South with 0 twice, nothing with 7, and nothing at all for 1 and for 04.
    assert counted("plz\n01\n02\n02\n03\n1\n04\n", of, tmp_path) == [0, 1, 0, 2, 0, 0, 0, 1, 2]
    assert "region, people: looked up by plz in a public list of 3" in what_is_counted(of)


def test_long_lists_are_looked_up_too(tmp_path):
    table = {"code": [f"c{n}" for n in range(3000)], "even": ["yes" if n % 2 == 0 else "no" for n in range(3000)]}
    of = schema({"even": {"type": "category", "values": ["no", "yes"]}}, **{"with": {"key": "code", "table": table}})
    assert counted("code\n" + "".join(f"c{n}\n" for n in range(0, 3100, 5)), of, tmp_path) == [300, 300]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"recode": {"a": "SUM(x)"}}, "recode has a, in which SUM looks at several rows"),
        ({"recode": {"a": "b + 1", "b": "a + 1"}}, "made of each other: a, b"),
        ({"recode": {"a": "LOWER(x)", "b": "a + 1"}}, "reads a as a number, but its rule makes text"),
        ({"recode": {"n": "LOWER(x)"}}, "recode.n: an expression has text"),
        ({"recode": {"who": "LOWER(x)"}, "privacy_unit": {"column": "who", "contributions": 1}}, "which a rule makes"),
        ({"recode": {"a": {"match": "x"}}}, "match needs first_of"),
        ({"recode": {"a": {"match": "x", "first_of": {"b": ["..."]}}}}, "no letter"),
        ({"recode": {"a": {"point": ["x", "y"]}}}, "none that is known"),
        ({"recode": {"a": {"point": ["x", "y"], "boxes": {"b": [3, 0, 1, 1]}}}}, "ends before it begins"),
        ({"recode": {"a": {"match": "x", "first_of": {"b": ["w"] * 10**6}}}}, "5,000 words"),
        ({"recode": {"a": {"point": ["x", "y"], "polygons": {"b": [[[[1]]]]}}}}, "three corners"),
        ({"recode": {"a": {"point": ["x", "y"], "polygons": {"b": [[0, 0], [1, 0], [2, 0]]}}}}, "no height"),
        ({"recode": {"a": {"point": ["x", "y"], "grid": {"west": 0}}}}, "grid needs west, south"),
        ({"recode": {}}, "must give each new column a rule"),
        ({"recode": {"a": "x", "A": "y"}}, "twice"),
        ({"with": {"key": "k", "table": {"k": ["a", "a"], "v": ["1", "2"]}}}, "'a' twice in the column 'k'"),
        ({"with": {"key": "k", "table": {"k": ["a"]}}}, "another column"),
        ({"with": {"key": "k", "table": {"k": ["a"], "v": []}}}, "columns of one length"),
        ({"with": {"key": "k", "table": {"k": ["a"], "v": ["b"]}}, "recode": {"v": "LOWER(x)"}}, "twice"),
        ({"with": []}, "must list tables"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(parts, said):
    with pytest.raises(SchemaError, match=re.escape(said)) as refused:
        schema({"n": {"type": "integer", "lower": 0, "upper": 9}}, **parts)
    assert "\n" not in str(refused.value)


def test_a_column_that_a_rule_reads_must_be_there(tmp_path):
    of = schema({"n": {"type": "integer", "lower": 0, "upper": 9}}, recode={"n": "x + 1"})
    (tmp_path / "t.csv").write_text("y,n\n1,2\n")
    with open_table(tmp_path / "t.csv") as table, pytest.raises(TableError, match=r"the rule for n asks for .* 'x'"):
        table.check(of)


def test_a_database_that_was_not_tried_refuses(tmp_path):
    from sfumato.kernel.reading.recoding import with_made_columns

    class Other:
        dialect = "mysql"

    with pytest.raises(TableError, match="not tried on this database"):
        with_made_columns(Other(), {}, [], lambda *_: None)


def test_the_published_schema_keeps_the_rules_and_how_their_columns_are_written():
    of = schema(
        {"n": {"type": "integer", "lower": 0, "upper": 9}},
        recode={"n": "x + 1"},
        file={"missing": {"x": ["NA"]}, "delimiter": ";", "columns": ["x", "secret"]},
    )
    kept = of.published().to_dict()
    assert kept["recode"] == {"n": "x + 1"} and kept["file"]["missing"] == {"x": ["NA"]}
    assert kept["file"]["columns"][0] == "x" and "secret" not in str(kept)


def test_words_for_missing_values_are_those_of_the_table_not_of_what_is_made(tmp_path):
    number = {"type": "integer", "lower": -1, "upper": 1, "missing": "keep"}
    of = schema({"n": number}, recode={"n": "x - 1"}, file={"missing": ["-1"]})
    assert counted("x\n0\n-1\n2\n", of, tmp_path) == [1, 0, 1, 1]
