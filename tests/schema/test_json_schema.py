"""The JSON Schema for editors: as published, true of every schema of this repository, false of bad ones."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.json_schema import FILE, json_schema

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, (draft, block) in enumerate(
        re.findall(r"(draft\.yaml`:\n\n)?^```yaml\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    )
    if re.search(r"^dataset:", block, re.M) and not draft  # which has blanks
]
VALID = jsonschema_rs.validator_for(json_schema())


def as_editors_read(text: str) -> object:
    """The YAML as JSON has it: keys and days are texts."""

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return {str(key): plain(part) for key, part in value.items()}
        if isinstance(value, list):
            return [plain(part) for part in value]
        return value.isoformat() if isinstance(value, date) else value

    return plain(yaml.safe_load(text))


def test_the_published_file_is_the_one_that_is_printed():
    published = (ROOT / "docs" / FILE).read_text(encoding="utf-8")
    assert json.loads(published) == json_schema(), "run: sfumato schema json -o docs/sfumato.schema.json"


def test_there_are_examples():
    assert len(BLOCKS) >= 5


@pytest.mark.parametrize("block", BLOCKS)
def test_every_schema_of_the_pages_is_valid(block):
    errors = [error.message for error in VALID.iter_errors(as_editors_read(block))]
    assert errors == []


EVERYTHING = """
dataset: t
privacy_unit: {column: who, contributions: 3}
budget: {epsilon: 1/3, delta: 1e-6}
ledger: "8423a544fb4641b58e4e8ab71b373560"
attributes:
  a: {type: integer, lower: -5, upper: 5, width: 2, missing: keep, column: aa}
  b: {type: integer, lower: 0, upper: 9, cuts: [2, 5]}
  c: {type: number, lower: 0.5, upper: 1e6, bins: 10}
  d: {type: category, values: [1, 2], map: {one: 1}, labels: {1: eins}, groups: {g: {x: [1], y: [2]}}, other: true}
  e: {type: boolean, map: {ja: true}, fold: case}
  f: {type: date, lower: 2020-01-01, upper: 2020-12-31, by: week}
  h: {type: date, by: weekday}
measures:
  m: {lower: 0, upper: 9.5, step: 0.5, budget_share: 2, missing: drop}
expected_rows: 100
file: {delimiter: ;, decimal: ',', dates: {f: "%d.%m.%Y"}, missing: {aa: [NA, -9]}, strip: [EUR], columns: [x, y]}
"""
GOOD = {"dataset": "t", "privacy_unit": "row", "attributes": {"a": {"type": "boolean"}}}
AGE = {"type": "integer", "lower": 0, "upper": 99}


def test_every_key_is_known():
    Schema.from_dict(yaml.safe_load(EVERYTHING))
    assert [error.message for error in VALID.iter_errors(as_editors_read(EVERYTHING))] == []


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "my data"},
        {"dataset": None},
        {"privacy_unit": "person"},
        {"privacy_unit": {"column": "who"}},
        {"budget": {"epsilon": "much"}},
        {"attributes": {}},
        {"attributes": {"a": {"lower": 0}}},
        {"attributes": {"a": {"type": "nummer"}}},
        {"attributes": {"a": {**AGE, "uper": 9}}},
        {"attributes": {"a": {"type": "integer", "lower": 0}}},
        {"attributes": {"a": {**AGE, "upper": None}}},
        {"attributes": {"a": {**AGE, "bins": 0}}},
        {"attributes": {"a": {"type": "category", "values": [True]}}},
        {"attributes": {"a": {"type": "category", "values": []}}},
        {"attributes": {"a": {"type": "date", "lower": "1.1.2020", "upper": "2020-12-31"}}},
        {"attributes": {"a": {"type": "date", "by": "decade"}}},
        {"measures": {"m": {"lower": 0}}},
        {"measures": {"m": {"lower": 0, "upper": 1, "missing": "zero"}}},
        {"file": {"decimal": ";"}},
        {"file": {"missing": []}},
        {"extra": 1},
    ],
)
def test_what_the_tool_refuses_an_editor_underlines(change):
    with pytest.raises(SchemaError):
        Schema.from_dict({**GOOD, **change})
    assert not VALID.is_valid({**GOOD, **change})
    assert VALID.is_valid(GOOD)


def test_every_key_says_what_it_means():
    def keys(part: dict) -> list[dict]:
        own = list(part.get("properties", {}).values())
        inner = [one for key in ("anyOf", "allOf") for one in part.get(key, [])]
        inner += [part[key] for key in ("then", "additionalProperties") if isinstance(part.get(key), dict)]
        return own + [one for deeper in (*own, *inner) for one in keys(deeper)]

    found = [one for one in keys(json_schema()) if "pattern" not in one or "description" in one]
    assert len(found) > 60
    assert [one for one in found if "description" not in one and "const" not in one and "anyOf" not in one] == []
