"""Linked schemas: what they expand to, and what is refused in one line."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.linked import LinkedSchema, load_schema

TEXT = """
dataset: town
privacy_unit: {column: household_id, contributions: 6}
budget: {epsilon: 3}
tables:
  visits:
    source: visits.csv
    belongs_to: persons
    by: person_id
    key: visit_id
    at_most: 12
    share: 2
    with_parents: [age, region]
    attributes: {kind: {type: category, values: [a, b]}}
    measures: {cost: {lower: 0, upper: 100}}
    file: {missing: [NA]}
  persons:
    source: persons.csv
    unit: home
    key: person_id
    attributes:
      age: {type: integer, lower: 0, upper: 99, bins: 10, column: AGE}
      region: {type: category, values: [n, s]}
    file: {missing: {AGE: ["-1"]}, decimal: ","}
  codes:
    belongs_to: visits
    by: visit_id
    at_most: 3
    with_parents: [age, kind]
    attributes: {code: {type: category, values: [x, y]}}
"""


def written(tmp_path: Path, text: str = TEXT) -> Path:
    path = tmp_path / "town.yaml"
    path.write_text(text)
    return path


def test_limits_multiply_along_the_way_and_children_have_their_parents_attributes(tmp_path: Path) -> None:
    town = LinkedSchema.load(written(tmp_path))
    assert list(town.tables) == ["persons", "visits", "codes"]  # parents first
    assert {name: table.limit for name, table in town.tables.items()} == {"persons": 6, "visits": 72, "codes": 216}
    visits, codes = town.tables["visits"], town.tables["codes"]
    assert (visits.share, visits.schema.dataset, town.dataset) == (Fraction(2), "visits", "town")
    assert visits.schema.privacy_unit.contributions == 72
    assert visits.schema.privacy_unit.column == "household_id"
    assert list(visits.schema.attributes) == ["kind", "age", "region"]
    assert visits.schema.attributes["age"].column == "age"  # whatever it is called in its own table
    assert list(codes.schema.attributes) == ["code", "age", "kind"]
    assert codes.source == "codes"


def test_words_for_missing_values_follow_an_attribute_into_its_children(tmp_path: Path) -> None:
    town = LinkedSchema.load(written(tmp_path))
    file = town.tables["visits"].schema.file
    assert file is not None
    assert file.missing_words("age") == ("-1",)
    assert file.missing_words("kind") == ("NA",) == file.missing_words("cost")
    assert file.missing_words("region") == ()


def test_a_schema_of_one_table_is_loaded_as_before_and_the_other_kind_is_refused_by_name(tmp_path: Path) -> None:
    single = tmp_path / "one.yaml"
    single.write_text("{dataset: t, privacy_unit: row, attributes: {a: {type: boolean}}}")
    assert isinstance(load_schema(single), Schema)
    with pytest.raises(SchemaError, match="one table"):
        LinkedSchema.load(single)
    with pytest.raises(SchemaError, match="linked tables"):
        Schema.load(written(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("belongs_to: persons", "belongs_to: people", "none of the tables"),
        ("    by: person_id\n", "", "lacks by"),
        ("    at_most: 12\n", "", "lacks at_most"),
        ("    unit: home\n", "", "either unit"),
        ("    unit: home\n", "    belongs_to: codes\n    by: x\n    at_most: 1\n", "belongs to itself"),
        ("    key: visit_id\n", "", "lacks key"),
        ("[age, kind]", "[age, cost]", "with_parents names 'cost'"),
        ("[age, kind]", "[age, code]", "with_parents names 'code'"),
        ("{code: {type", "{Age: {type", "takes that of visits"),
        ("{cost: {lower", "{cost: {column: Age, lower", "comes from its parents"),
        ("{cost: {lower", "{cost: {column: household_id, lower", "comes from its parents"),
        ("at_most: 12", "at_most: 0", "tables.visits.at_most is 0"),
        ("share: 2", "share: -1", "tables.visits.share"),
        ("at_most: 12", "at_most: 9000000000000000", "multiply"),
        ("  persons:", "  Visits:\n    unit: x\n    attributes: {a: {type: boolean}}\n  persons:", "tell apart"),
        ("{column: household_id, contributions: 6}", "row", "privacy_unit is row"),
        ("    share: 2\n", "    budget: {epsilon: 1}\n", "stated once"),
        ("    share: 2\n", "    series: {period: month, unit: person in a month}\n", "cannot have"),
        ("    share: 2\n", "    shares: 2\n", "tables.visits: the schema has no key 'shares'"),
        ("budget: {epsilon: 3}", "attributes: {a: {type: boolean}}", "beside them"),
        ("lower: 0, upper: 99", "lower: 0, upper: ", "tables.persons.attributes.age.upper is blank"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in TEXT
    with pytest.raises(SchemaError, match=said) as refused:
        load_schema(written(tmp_path, TEXT.replace(old, new)))
    assert str(refused.value).startswith(str(tmp_path)) and "\n" not in str(refused.value)


@pytest.mark.parametrize("tables", [{}, [], "x", {"a": None}, {1: {}}, {"a": {}}])
def test_no_tables_at_all(tables: Any) -> None:
    unit = {"column": "home", "contributions": 1}
    with pytest.raises(SchemaError, match="tables"):
        LinkedSchema.from_dict({"dataset": "t", "privacy_unit": unit, "tables": tables})
