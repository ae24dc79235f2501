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
    (folder / "big.txt").write_bytes(b"a\n" * (2**23 + 1))
    (folder / "odd.txt").write_bytes(b"\xff\xfe\x00")
    for name, word in (("big.txt", "larger than 16,777,216 bytes"), ("odd.txt", "not UTF-8")):
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
