"""Groups of values: columns that follow from another, in several levels."""

from __future__ import annotations

import json

import pytest

from sfumato.errors import SchemaError
from sfumato.schema import Schema

TOWNS = {
    "type": "category",
    "values": ["Aa", "Calw", "Bergen", "Dorn", "Elm"],
    "groups": {
        "region": {"South": ["Calw"], "North": ["Aa", "Bergen"], "East": ["Dorn", "Elm"]},
        "country": {"Land": ["North", "South"], "Reich": ["Dorn", "Elm"]},
    },
}


def schema(**keys) -> Schema:
    return Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "attributes": {"town": TOWNS | keys, "sex": {"type": "boolean"}}}
    )


def test_values_of_a_group_stand_together_in_the_order_of_the_groups():
    town = schema().attributes["town"]
    assert town.values == ("Calw", "Aa", "Bergen", "Dorn", "Elm")
    assert town.axis("town").labels() == list(town.values)
    assert schema().group_columns == {
        "region": ("town", ("South", "North", "North", "East", "East")),
        "country": ("town", ("Land", "Land", "Land", "Reich", "Reich")),
    }


def test_other_and_missing_values_are_in_groups_of_their_own():
    columns = schema(other=True, missing="keep").group_columns
    assert columns["region"][1][-2:] == columns["country"][1][-2:] == ("other", None)


def test_groups_survive_json():
    made = schema(other=True, labels={"Aa": "Aa by the sea"})
    assert Schema.from_dict(json.loads(json.dumps(made.to_dict()))) == made


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"region": {"North": ["Aa"]}}, " has 'Calw' in no group of region; put every value into one"),
        ({"region": {"N": ["Aa", "Elm"], "S": ["Aa"]}}, " has 'Aa' in two groups of region, 'N' and 'S'"),
        ({"region": {"N": ["Aaa"]}}, " has 'Aaa' in a group of region, which is neither a listed value nor a group"),
        ({"region": ["Aa"]}, ".groups must name columns, and for each of them groups of values"),
        ({"region": {"N": "Aa"}}, ".groups holds an entry that is 'Aa'; list the values of each group"),
        ({"town": {"N": TOWNS["values"]}}, ".groups has 'town', a name that is taken; rename it"),
        ({"SEX": {"N": TOWNS["values"]}}, ".groups has 'SEX', a name that is taken; rename it"),
    ],
)
def test_groups_that_are_refused(groups, message):
    with pytest.raises(SchemaError) as refusal:
        schema(groups=groups)
    assert str(refusal.value).startswith(f"attributes.town{message}"), str(refusal.value)
