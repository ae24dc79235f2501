"""Lists of values from files beside the schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.errors import SchemaError
from sfumato.schema import Schema


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "towns.txt").write_text("\ufeffAa\n  Bergen \r\n\nCalw\n", encoding="utf-8")
    (tmp_path / "lists" / "towns.csv").write_text(
        'code;name;region\n"01";Aa;North\n02;Bergen;North\n03;"Calw; old";South\n'
    )
    return tmp_path


def load(folder: Path, town: str) -> Schema:
    file = folder / "s.yaml"
    file.write_text(f"dataset: t\nprivacy_unit: row\nattributes:\n  town: {town}\n")
    return Schema.load(file)


def test_one_value_on_a_line(folder, monkeypatch):
    monkeypatch.chdir("/")  # the file is looked for beside the schema
    schema = load(folder, "{type: category, values: lists/towns.txt, other: true}")
    assert schema.domain["town"].labels() == ["Aa", "Bergen", "Calw", "other"]
    assert schema.to_dict()["attributes"]["town"]["values"] == ["Aa", "Bergen", "Calw"]  # what is published


def test_a_column_of_a_table_with_labels_and_groups(folder):
    schema = load(
        folder, "{type: category, values: {file: lists/towns.csv, column: code, labels: name, groups: [region]}}"
    )
    assert schema.attributes["town"].listed == ("01", "02", "03")
    assert schema.domain["town"].labels() == ["Aa", "Bergen", "Calw; old"]
    assert schema.group_columns["region"][1] == ("North", "North", "South")
    assert Schema.from_dict(schema.to_dict()) == schema


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("none.txt", "attributes.town.values names the file 'none.txt', which cannot be read (No such file"),
        ("{file: lists/towns.csv}", "attributes.town.values must name a file and one of its columns"),
        ("{file: lists/towns.csv, column: kode}", "attributes.town.values asks for the column 'kode', which the file"),
        ("{file: lists/towns.csv, column: code, colour: x}", "attributes.town.values must name a file and one of its"),
        ("{file: lists/towns.txt, column: code}", "attributes.town.values asks for the column 'code'"),
        (
            "{file: lists/towns.csv, column: code, labels: name}, labels: {'01': A}",
            "attributes.town.values takes labels from a file, and they are written out too",
        ),
    ],
)
def test_files_that_are_refused(folder, values, message):
    with pytest.raises(SchemaError) as refusal:
        load(folder, f"{{type: category, values: {values}}}")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_is_small_and_text(folder):
    (folder / "big.txt").write_bytes(b"a\n" * (2**25 + 1))
    (folder / "odd.txt").write_bytes(b"\xff\xfe\x00")
    for name, word in (("big.txt", "larger than 67,108,864 bytes"), ("odd.txt", "not UTF-8")):
        with pytest.raises(SchemaError, match=word):
            load(folder, f"{{type: category, values: {name}}}")


def test_a_release_names_no_file():
    """Only a schema that is loaded from a file has files beside it."""
    with pytest.raises(SchemaError, match="values must be a list with something in it"):
        Schema.from_dict(
            {
                "dataset": "t",
                "privacy_unit": "row",
                "attributes": {"town": {"type": "category", "values": "/etc/passwd"}},
            }
        )


def test_a_range_of_whole_numbers_and_of_codes_with_zeros(folder):
    assert load(folder, "{type: category, values: 0..41}").attributes["town"].values == tuple(range(42))
    assert load(folder, "{type: category, values: -1 .. 1}").attributes["town"].values == (-1, 0, 1)
    codes = load(folder, '{type: category, values: "08..11"}').attributes["town"].values
    assert codes == ("08", "09", "10", "11")
    with pytest.raises(SchemaError, match=r"attributes.town.values runs from 5 down to 1"):
        load(folder, "{type: category, values: 5..1}")
    with pytest.raises(SchemaError, match=r"has more than 1,000,000 values; use type: integer"):
        load(folder, "{type: category, values: 0..999999999}")


AREAS = "tract,county,state\nt1,Kent,England\nt4,Fife,Scotland\nt2,Kent,England\nt3,Devon,England\n"
LISTED = {
    "county": {"Kent": ["t1", "t2"], "Fife": ["t4"], "Devon": ["t3"]},
    "state": {"England": ["Kent", "Devon"], "Scotland": ["Fife"]},
}


def of_tracts(groups: object, values: list[str]) -> Schema:
    tract = {"type": "category", "values": values, "groups": groups}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"tract": tract}})


def test_groups_of_a_file_are_kept_by_their_number_of_values(folder):
    """In the order in which lists of members would have put them, whatever the order of the file's rows."""
    (folder / "areas.csv").write_text(AREAS)
    read = load(folder, "{type: category, values: {file: areas.csv, column: tract, groups: [county, state]}}")
    listed = of_tracts(LISTED, ["t1", "t4", "t2", "t3"])
    (own,) = read.attributes.values()
    assert own.groups == {"county": {"Kent": 2, "Devon": 1, "Fife": 1}, "state": {"England": 3, "Scotland": 1}}
    assert own.listed == listed.attributes["tract"].listed == ("t1", "t2", "t3", "t4")
    assert own.group_columns == listed.attributes["tract"].group_columns
    assert own.axis("tract").splits == listed.attributes["tract"].axis("tract").splits == ((3,), (2, 3))
    assert Schema.from_dict(read.to_dict()).attributes == read.attributes


def test_groups_that_cut_through_each_other_are_kept_by_their_members(folder):
    (folder / "areas.csv").write_text("tract,county,school\nt1,Kent,A\nt2,Kent,B\nt3,Devon,A\nt4,Devon,B\n")
    read = load(folder, "{type: category, values: {file: areas.csv, column: tract, groups: [county, school]}}")
    (own,) = read.attributes.values()
    assert own.groups["school"] == {"A": ("t1", "t3"), "B": ("t2", "t4")}
    assert own.group_columns["school"] == ("A", "B", "A", "B")


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"county": {"Kent": 2, "Devon": 1}}, "has 4 values, and the groups of county have 3 in all"),
        ({"county": {"Kent": 3, "Devon": ["t4"]}}, "some of which are lists and some numbers"),
        ({"county": {"Kent": 0, "Devon": 4}}, "or how many of the values"),
        ({"county": {"Kent": True, "Devon": 3}}, "or how many of the values"),
        (
            {"county": {"Kent": 2, "Devon": 2}, "state": {"Y": ["t2", "t3"], "X": ["t1", "t4"]}},
            "whose values are not in the order of the other groups",
        ),
    ],
)
def test_numbers_that_do_not_fit_are_refused(groups, words):
    with pytest.raises(SchemaError, match=words):
        of_tracts(groups, ["t1", "t2", "t3", "t4"])
