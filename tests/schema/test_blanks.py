"""Blanks of a draft that can be bought, and the draft's text with what was bought in it."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

import pytest
import yaml

from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.blanks import blanks_to_buy, filled_text, with_found
from sfumato.schema.discovered import Discovered, bought_in_words
from sfumato.schema.draft import Answers, draft

COLUMNS = [("pid", "BIGINT"), ("age", "INTEGER"), ("town", "VARCHAR"), ("came", "DATE"), ("cost", "DOUBLE")]
UNIT = "{column: pid, contributions: }"
TEXT = draft("visits", COLUMNS, Answers(unit=UNIT, budget="3", measures=["cost"]))
RECEIPT = Discovered(
    epsilon=Fraction(1, 5), delta=Fraction(1, 10**9), ledger="a" * 32, entry=1, nonce="b" * 32, filled=("x.values",)
)
FOUND = {
    ("privacy_unit", "contributions"): 4,
    ("attributes", "age", "lower"): 0,
    ("attributes", "age", "upper"): 120,
    ("attributes", "town", "values"): ["Aa", "no", "Ulm, the city", "12"],
    ("attributes", "town", "other"): True,
    ("attributes", "came", "lower"): date(2019, 1, 1),
    ("attributes", "came", "upper"): date(2020, 12, 31),
    ("attributes", "cost", "lower"): 0,
    ("attributes", "cost", "upper"): 0.5,
    ("attributes", "cost", "bins"): 20,
    ("measures", "cost", "lower"): 0,
    ("measures", "cost", "upper"): 0.5,
}


def mapping(text: str) -> dict:
    return yaml.safe_load(text)


def test_what_init_leaves_blank_is_found_and_one_column_is_one_look():
    found = {one.name: one for one in blanks_to_buy(mapping(TEXT))}
    kinds = {name: (one.kind, one.type) for name, one in found.items()}
    assert kinds == {
        "contributions": ("contributions", "integer"),
        "age": ("bounds", "integer"),
        "town": ("values", "category"),
        "came": ("bounds", "date"),
        "cost": ("bounds", "number"),
    }
    assert found["cost"].paths == [
        f"{room}.cost.{key}" for room in ("attributes", "measures") for key in ("lower", "upper")
    ]


def test_keys_that_are_not_there_are_blanks_and_stated_ones_stay():
    age = {"type": "integer", "lower": 0}
    one = {"dataset": "t", "privacy_unit": "row", "attributes": {"age": age, "day": {"type": "date", "by": "weekday"}}}
    (blank,) = blanks_to_buy(one)
    assert blank.paths == ["attributes.age.upper"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"budget": None}, "budget is blank"),
        ({"privacy_unit": None}, "privacy_unit is blank"),
        ({"attributes": {"a": {"type": None}}}, "attributes.a.type is blank"),
        ({"attributes": {"a": {"type": "boolean"}}}, "no blank that a private look could fill"),
        ({"attributes": {"a": {"type": "category", "labels": {"x": "y"}}}}, "labels, which is about values"),
        ({"tables": {"a": {}}}, "linked tables"),
        ({"series": {"period": "month", "unit": "person in a month"}}, "states a series"),
    ],
)
def test_what_no_look_can_fill_is_refused(change, said):
    whole = {"dataset": "t", "privacy_unit": "row", "attributes": {"a": {"type": "integer"}}, **change}
    with pytest.raises(SchemaError, match=said):
        blanks_to_buy(whole)


def test_the_text_is_filled_in_place_with_its_comments_and_marks():
    text = filled_text(TEXT, mapping(TEXT), FOUND, [RECEIPT])
    assert mapping(text) == mapping(yaml.safe_dump(with_found(mapping(TEXT), FOUND))) | {
        "discovered": mapping(text)["discovered"]
    }
    lines = text.splitlines()
    assert "    lower: 0  # bought" in lines and "    by: day" in text
    assert "  cost: {lower: 0, upper: 0.5}  # bought: lower, upper" in lines
    assert "# queries say FROM visits" in text  # comments stay
    assert "Nothing was read from the data" not in text and "in place of this block" not in text
    schema = Schema.from_dict(mapping(text))
    assert schema.attributes["town"].listed == ("Aa", "no", "Ulm, the city", "12")
    assert schema.privacy_unit.contributions == 4 and schema.required_ledger == "a" * 32


def test_keys_in_braces_are_filled_and_marked_and_comments_stay():
    text = "dataset: t  # ours\nattributes:\n  age: {type: integer}  # public\n  town: {type: category, values: }\n"
    found = {
        ("attributes", "age", "lower"): 0,
        ("attributes", "age", "upper"): 9,
        ("attributes", "town", "values"): ["a\\b", "{", " # c"],
        ("attributes", "town", "other"): True,
    }
    lines = filled_text(text, mapping(text), found, [RECEIPT]).splitlines()
    assert "dataset: t  # ours" in lines
    assert "  age: {type: integer, lower: 0, upper: 9}  # public (bought: lower, upper)" in lines
    assert lines[5].endswith("other: true}  # bought: values")
    assert mapping(lines[5])["town"]["values"] == ["a\\b", "{", " # c"]


@pytest.mark.parametrize("values", [["\x85"], ["a\x85b", "\u2028"], ["\n", "\t ", "'", '"'], ["\ufeff", "\\"]])
@pytest.mark.parametrize("keys", ["{type: category}  # here", "{type: category, values: }", "\n    type: category"])
def test_every_value_is_written_such_that_it_is_read_again(values, keys):
    text = f"dataset: t\nattributes:\n  town: {keys}\n"
    again = mapping(filled_text(text, mapping(text), {("attributes", "town", "values"): values}, [RECEIPT]))
    assert again["attributes"]["town"]["values"] == values


def test_a_long_list_takes_several_lines_and_a_key_of_its_own_is_added():
    values = [f"value number {place}, with a comma" for place in range(200)]
    found = {("attributes", "town", "values"): values, ("attributes", "age", "bins"): 20}
    text = filled_text(TEXT, mapping(TEXT), found, [RECEIPT])
    assert mapping(text)["attributes"]["town"]["values"] == values
    assert mapping(text)["attributes"]["age"]["bins"] == 20
    assert max(map(len, text.splitlines())) < 130 and "# queries say FROM visits" in text


def test_a_second_purchase_adds_its_receipt_and_keeps_the_first():
    first = filled_text(TEXT, mapping(TEXT), {("attributes", "age", "lower"): 0}, [RECEIPT])
    second = filled_text(first, mapping(first), {("attributes", "age", "upper"): 9}, [RECEIPT, RECEIPT])
    assert len(mapping(second)["discovered"]) == 2 and second.count("discovered:  #") == 1
    assert "epsilon 0.4 and delta 2e-9" in second


@pytest.mark.parametrize(
    "text",
    [
        "{dataset: t, attributes: {age: {type: integer}}}",
        '"dataset": t\n"attributes": {"age": {"type": integer, "lower": }}',
    ],
)
def test_a_text_that_cannot_be_filled_in_place_is_written_anew(text):
    found = {("attributes", "age", "lower"): 0, ("attributes", "age", "upper"): 9}
    again = mapping(filled_text(text, mapping(text), found, [RECEIPT]))
    assert again["attributes"]["age"] == {"type": "integer", "lower": 0, "upper": 9} and again["discovered"]


def test_what_was_bought_is_named_in_words():
    def words(*filled):
        return bought_in_words([RECEIPT.model_copy(update={"filled": filled})])

    assert words("a.b.values").startswith("Its lists of values were bought before, with epsilon 0.2 and delta 1e-9")
    assert "bounds and the rows used of each unit" in words("a.b.lower", "privacy_unit.contributions")
    assert bought_in_words([]) == ""
