"""Drafts: what they say, that they parse, and that nothing of the data can get into them."""

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.draft import draft, kind_of

COLUMNS = [
    ("person_id", "BIGINT"),
    ("age", "INTEGER"),
    ("income", "DECIMAL(10,2)"),
    ("sex", "VARCHAR"),
    ("arrival", "TIMESTAMP"),
    ("married", "BOOLEAN"),
    ("notes", None),
]


def test_a_draft_leaves_bounds_and_values_blank():
    assert yaml.safe_load(draft("census", COLUMNS)) == {
        "dataset": "census",
        "privacy_unit": None,
        "budget": None,
        "attributes": {
            "age": {"type": "integer", "lower": None, "upper": None},
            "income": {"type": "number", "lower": None, "upper": None, "bins": None},
            "sex": {"type": "category", "values": None, "other": False},
            "arrival": {"type": "date", "lower": None, "upper": None, "by": "day"},
            "married": {"type": "boolean"},
            "notes": {"type": None},
        },
    }


def test_a_draft_explains_itself():
    text = draft("census", COLUMNS)
    head = text.split("\ndataset:")[0]
    assert all(line.startswith("#") or not line for line in head.splitlines())
    assert "Nothing was read from the data" in head
    assert "sfumato plan" in head
    assert "#   row " in text
    assert "#   {column: person_id, contributions: 1} " in text
    assert "# person_id looks like an identifier and was left out" in text
    assert "one of integer, number, category, boolean, date" in text
    assert max(map(len, text.splitlines())) <= 120


def test_a_draft_is_refused_until_it_is_filled_in(tmp_path):
    path = tmp_path / "draft.yaml"
    text = draft("census", COLUMNS)
    path.write_text(text)
    with pytest.raises(SchemaError, match="privacy_unit is blank: write `privacy_unit: row`"):
        Schema.load(path)
    text = re.sub(r"privacy_unit: +#", "privacy_unit: {column: person_id, contributions: 1}  #", text)
    path.write_text(text)
    with pytest.raises(SchemaError, match=r"budget is blank: write \{epsilon: 3\.0\} .* `sfumato ledger set`"):
        Schema.load(path)
    text = re.sub(r"budget: +#", "budget: {epsilon: 2}  #", text)
    path.write_text(text)
    with pytest.raises(SchemaError, match=r"attributes\.age\.lower is blank: fill in the smallest age .* leak"):
        Schema.load(path)


def test_a_draft_that_is_filled_in_is_a_schema(tmp_path):
    text = draft("census", [column for column in COLUMNS if column[0] != "notes"])
    fills = {"privacy_unit": "row", "lower": "2000-01-01", "upper": "2020-01-01", "bins": "10", "values": "[F, M]"}
    fills["budget"] = "{epsilon: 3}"
    for key, value in fills.items():
        text = re.sub(rf"^( *{key}:) ", rf"\1 {value} ", text, flags=re.MULTILINE)
    text = text.replace("2000-01-01", "0", 2).replace("2020-01-01", "99", 2)  # age and income come first
    text = text.replace("# measures", "measures").replace("#   age: {lower: , upper: }", "  age: {lower: 0, upper: 99}")
    path = tmp_path / "draft.yaml"
    path.write_text(text.replace("# expected_rows", "expected_rows"))
    schema = Schema.load(path)
    assert schema.domain.names == ("age", "income", "sex", "arrival", "married")
    assert schema.measures["age"].upper == 99
    assert (schema.epsilon, schema.expected_rows) == (3, 1000000)


def test_values_inside_a_type_are_not_copied():
    text = draft("census", [("ward", "ENUM('only patient in ward 9', 'b')"), ("x", "STRUCT(secret INTEGER)")])
    assert "patient" not in text
    assert "secret" not in text
    assert yaml.safe_load(text)["attributes"]["ward"]["type"] == "category"


@pytest.mark.parametrize(
    "name",
    ["id", "ID", "person_id", "PATIENT_ID", "personId", "uuid", "user_uuid", "guid", "ssn", "id_person", "email"],
)
def test_identifiers_are_suggested_as_the_privacy_unit(name):
    text = draft("t", [(name, "VARCHAR"), ("age", "INTEGER")])
    assert f"#   {{column: {name}, contributions: 1}}" in text
    assert list(yaml.safe_load(text)["attributes"]) == ["age"]


@pytest.mark.parametrize("name", ["idle", "paid", "covid", "PAID", "identity", "width", "video"])
def test_other_names_are_attributes(name):
    assert list(yaml.safe_load(draft("t", [(name, "INTEGER")]))["attributes"]) == [name]


@pytest.mark.parametrize(
    ("kind", "types"),
    [
        ("integer", "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT UBIGINT int4 INT64 DECIMAL(18,0) NUMERIC(5)"),
        ("number", "DOUBLE FLOAT REAL FLOAT8 DECIMAL(10,2) DECIMAL NUMERIC float64"),
        ("category", "VARCHAR VARCHAR(20) TEXT CHAR(2) STRING ENUM('a')"),
        ("boolean", "BOOLEAN BOOL"),
        ("date", "DATE TIMESTAMP TIMESTAMPTZ TIMESTAMP_NS DATETIME"),
        (None, "BLOB UUID TIME INTERVAL JSON INTEGER[] MAP STRUCT POINT"),
    ],
)
def test_engine_types(kind, types):
    assert {kind_of(engine_type) for engine_type in types.split()} == {kind}


def test_engine_types_with_spaces():
    assert kind_of("DOUBLE PRECISION") == "number"
    assert kind_of("TIMESTAMP WITH TIME ZONE") == "date"
    assert kind_of("DECIMAL(10, 2)") == "number"
    assert kind_of("STRUCT(a INTEGER, b DATE)") is None
    assert kind_of(None) is None


@pytest.mark.parametrize(
    ("given_name", "dataset"), [("my-census 2024", "my_census_2024"), ("2024", "_2024"), ("", "_"), ("é", "_")]
)
def test_a_dataset_becomes_a_word_that_sql_can_use(given_name, dataset):
    assert yaml.safe_load(draft(given_name, [("age", None)]))["dataset"] == dataset


def test_a_table_without_attributes_still_gives_a_draft():
    for columns in ([], [("id", "BIGINT")]):
        with pytest.raises(SchemaError, match=r"privacy_unit is blank.*\(and 2 more problems"):
            Schema.from_dict(yaml.safe_load(draft("t", columns)))


types = st.sampled_from([None, "INTEGER", "DOUBLE", "VARCHAR", "DATE", "BOOLEAN", "BLOB"])
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20) | st.sampled_from(
    [
        "no",
        "1990",
        "01",
        "null",
        "~",
        "<<",
        "=",
        "a: b",
        "#x",
        "a #b",
        "- a",
        "{a}",
        "a,b",
        "'",
        '"',
        "\n",
        "*a",
        "&a",
        "!a",
    ]
)


@settings(deadline=None)  # a busy machine is no reason to fail
@given(st.lists(st.tuples(names, types), min_size=1, max_size=5, unique_by=lambda column: column[0]))
def test_any_column_name_is_read_back(columns):
    text = draft("t", columns)
    attributes = yaml.safe_load(text)["attributes"] or {}
    left_out = text.count("looks like an identifier and was left out")
    assert list(attributes) == [name for name, _ in columns if name in attributes]
    assert len(attributes) == len(columns) - left_out
    with pytest.raises(SchemaError, match="privacy_unit is blank"):
        Schema.from_dict(yaml.safe_load(text))
