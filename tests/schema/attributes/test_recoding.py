"""Folding, maps and labels: which spelling means which value, and what is refused."""

from __future__ import annotations

import sys

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.attributes.lists import BLANKS, LOWER, UPPER, folded


def attribute(**keys):
    described = keys if "type" in keys else {"type": "category", "values": ["F", "M"]} | keys
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"sex": described}}).attributes["sex"]


@pytest.mark.full
@given(st.text(st.characters(max_codepoint=sys.maxunicode, exclude_categories=("Cs",), exclude_characters="\0")))
def test_an_engine_folds_as_the_schema_does(text):
    """Both by a table of ASCII letters, so that neither depends on a locale or on a version of Unicode."""
    (found,) = (
        duckdb.connect().execute("SELECT translate(trim($1, $2), $3, $4)", [text, BLANKS, UPPER, LOWER]).fetchone()
    )
    assert found == folded(text, ("case", "spaces"))


def test_folding_touches_ascii_only():
    every = "".join(chr(code) for code in range(sys.maxunicode) if not 0xD800 <= code < 0xE000)
    changed = {letter for letter in every if folded(letter, ("case",)) != letter}
    assert changed == set("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    assert {letter for letter in every if folded(letter, ("spaces",)) != letter} == set(" \t\n\v\f\r")


def test_spellings_are_the_listed_values_and_those_of_the_map():
    assert attribute().spellings == {"F": 0, "M": 1}
    assert attribute(map={"f": "F", "female": "F", 2: "M"}).spellings == {"F": 0, "M": 1, "f": 0, "female": 0, "2": 1}
    assert attribute(fold="case").spellings == {"f": 0, "m": 1}
    assert attribute(fold=["spaces", "case"], map={"Frau ": "F"}).spellings == {"f": 0, "m": 1, "frau": 0}
    assert attribute(map={"f": "F"}, fold="case").spellings == {"f": 0, "m": 1}  # said twice, the same both times


def test_numbers_stay_numbers_unless_a_spelling_is_text():
    assert attribute(values=[1, 2], map={9: 2}).numeric and attribute(values=[1, 2], map={"9.0": 2}).numeric
    assert not attribute(values=[1, 2], map={"f": 1}).numeric


def test_labels_are_shown_and_codes_are_still_understood():
    found = attribute(values=[1, 2, 3], labels={1: "single", 2: "married"}, other=True, missing="keep")
    axis = found.axis("status")
    assert axis.labels() == ["single", "married", "3", "other", None]
    assert [axis.read(literal) for literal in ("single", "1", 2, "3", "other")] == [0, 0, 1, 2, 3]
    assert found.numeric


def test_a_map_of_a_boolean_says_what_is_true():
    found = attribute(type="boolean", map={1: True, 2: False, "Ja ": True}, fold=["case", "spaces"])
    assert found.spellings == {"1": True, "2": False, "ja": True}
    for keys, message in (
        ({"map": {"ja": 1}}, ".map holds an entry that is 1; it must be true or false"),
        ({"map": {"a": True, "A": False}, "fold": "case"}, " maps 'A' to true and to false"),
        ({"fold": "case"}, " has fold without a map"),
    ):
        with pytest.raises(SchemaError) as refusal:
            attribute(type="boolean", **keys)
        assert str(refusal.value).startswith(f"attributes.sex{message}"), str(refusal.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"map": {"x": "X"}}, " maps 'x' to 'X', which is not listed; add it to values"),
        ({"map": {"F": "M"}}, " maps 'F' to 'M', but it already means 'F'; drop one"),
        ({"map": {"f": "M"}, "fold": "case"}, " maps 'f' to 'M', but it already means 'F'; drop one"),
        ({"map": {}}, ".map must be pairs, such as {f: F, m: M}"),
        ({"map": ["f"]}, ".map must be pairs"),
        ({"map": {True: "F"}}, ".map holds an entry that is true, which is how YAML reads an unquoted yes"),
        ({"map": {1: "F", "1": "M"}}, ".map has a key twice"),
        ({"values": ["a", "A"], "fold": "case"}, " lists 'a' and 'A', which fold takes for one; keep one"),
        ({"fold": "upper"}, ".fold is 'upper'; choose case, spaces or [case, spaces]"),
        ({"fold": []}, ".fold is a list; choose case"),
        ({"values": [1, 2], "fold": "case"}, " has fold, but all its values are numbers"),
        ({"labels": {"X": "unknown"}}, " labels 'X', which is not listed"),
        ({"labels": {"F": "M"}}, " has the label 'M' for two values"),
        ({"labels": {"F": "other"}, "other": True}, " lists a value 'other' and has other: true"),
        ({"labels": {"F": 3}}, ".labels holds an entry that is 3; a label must be text"),
    ],
)
def test_what_could_mean_two_things_is_refused(keys, message):
    with pytest.raises(SchemaError) as refusal:
        attribute(**keys)
    assert str(refusal.value).startswith(f"attributes.sex{message}"), str(refusal.value)
