"""Exact counts that a schema names: their forms, what they do not go with, and the schema of their release."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import SchemaError
from sfumato.schema import Schema
from sfumato.schema.file import read_yaml
from sfumato.schema.invariants import COUNTED, counted_lines, tables_in_words
from sfumato.schema.linked import load_schema

ATTRIBUTES = {
    "region": {"type": "category", "values": ["n", "s", "w"]},
    "sex": {"type": "category", "values": ["F", "M"], "missing": "keep"},
    "age": {"type": "integer", "lower": 0, "upper": 99},
}
WHOLE = {"dataset": "t", "privacy_unit": "row", "attributes": ATTRIBUTES}


def stated(invariants: object, **more: object) -> Schema:
    return Schema(**{**WHOLE, "invariants": invariants, **more})


def refusal(invariants: object, **more: object) -> str:
    with pytest.raises(SchemaError) as caught:
        stated(invariants, **more)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_line_is_a_name_or_a_list_of_names():
    schema = stated([[], "region", ["sex", "region"]])
    assert schema.exact_sets == ((), ("region",), ("sex", "region"))
    assert schema.exact_counts == "all rows, rows by region, and rows by sex and region"
    assert schema.known == ()  # nothing is counted yet
    assert Schema.from_dict(schema.to_dict()) == schema
    assert stated(None).exact_sets == () and stated(None).exact_counts == ""


def test_a_yaml_file_states_them(tmp_path):
    text = "dataset: t\nprivacy_unit: row\nattributes:\n  ill: {type: boolean}\ninvariants: [[], ill]\n"
    (tmp_path / "s.yaml").write_text(text)
    assert Schema.load(tmp_path / "s.yaml").exact_sets == ((), ("ill",))
    (tmp_path / "s.yaml").write_text(text.replace("[[], ill]", ""))
    with pytest.raises(SchemaError, match="invariants is blank: list tables to publish exactly, protected by nothing"):
        Schema.from_dict(read_yaml(tmp_path / "s.yaml"))


@pytest.mark.parametrize(
    ("invariants", "words"),
    [
        ([], "must list 1 to 32 tables"),
        ("region", "must list 1 to 32 tables"),
        ({"by": "region"}, "must list 1 to 32 tables"),
        ([["region"]] * 33, "must list 1 to 32 tables"),
        ([7], "has 7, which is no list of attributes"),
        ([[["region"]]], "which is no list of attributes"),
        ([[None]], "which is no list of attributes"),
        ([None], "blank"),
        ([["region", "region"]], "up to 4 different attributes"),
        ([["a", "b", "c", "d", "e"]], "up to 4 different attributes"),
        (["income"], "invariants name 'income', which is no attribute"),
        (["total"], "invariants name 'total', which is no attribute"),
        ([["region", "sex"], ["sex", "region"]], "have a table twice"),
        ([[], []], "have a table twice"),
        ([["age", "region", "sex"], ["age", "region"]], "more than 1,024 counts, all together"),
        ([{"by": "region"}], "keys that are not those of a release"),
        ([{"by": "region", "counts": [1, 2, 3], "source": "x"}], "keys that are not those of a release"),
        ([{"by": "region", "counts": [1, 2]}], "have 2 counts where 3 belong"),
        ([{"by": "region", "counts": [1, 2, -3]}], "no numbers of rows"),
        ([{"by": "region", "counts": [1, 2, True]}], "no numbers of rows"),
        ([{"by": "region", "counts": [1, 2, 1e9]}], "no numbers of rows"),
        ([{"by": "region", "counts": [1, 2, 2**53 + 1]}], "no numbers of rows"),
        ([{"by": 5, "counts": [1]}], "which is no list of attributes"),
        ([[], {"by": "region", "counts": [1, 2, 3]}], "counts in some lines only"),
    ],
)
def test_hostile_lines_are_refused_in_one_line(invariants, words):
    assert words in refusal(invariants)


@pytest.mark.parametrize(
    "beside",
    [
        {"facts": [{"count": 5, "source": "census"}]},
        {"series": {"period": "month", "unit": "row in a month"}},
        {"impossible": [{"region": "n", "sex": "F"}]},
        {"follows": {"sex": {"from": "region", "groups": {"F": ["n", "s"], "M": ["w"]}}}},
        {"weight": {"column": "w", "upper": 4}},
    ],
)
def test_what_they_do_not_go_with_is_named(beside):
    assert f"invariants do not go with {next(iter(beside))}" in refusal([[]], **beside)


def test_nor_with_what_was_bought_or_made_of_a_persons_rows_or_is_a_person():
    receipt = {"epsilon": "0.1", "ledger": "0" * 32, "entry": 1, "nonce": "0" * 32, "filled": ["attributes.age.lower"]}
    assert "invariants do not go with discovered" in refusal([[]], discovered=[receipt])
    unit = {"column": "who", "contributions": 1}
    assert "drawn at random" in refusal([[]], privacy_unit=unit)
    sql = "SELECT who, COUNT(*) AS age FROM t GROUP BY who"
    attributes = {"age": ATTRIBUTES["age"]}
    assert "do not go with per_person" in refusal([[]], privacy_unit=unit, per_person=sql, attributes=attributes)


def test_linked_tables_have_none():
    persons = {"unit": "home", "key": "id", "attributes": {"ill": {"type": "boolean"}}, "invariants": [[]]}
    whole = {"dataset": "t", "privacy_unit": {"column": "home", "contributions": 1}, "tables": {"persons": persons}}
    with pytest.raises(SchemaError, match="'invariants': which linked tables cannot have"):
        load_schema(whole)


def test_with_counts_they_are_facts_of_the_table_itself():
    table = np.arange(9).reshape(3, 3)  # by region and sex, whose last column has rows without a sex
    sums = {(): table.sum().reshape(1), ("region",): table.sum(axis=1), ("sex", "region"): table.reshape(-1)}
    schema = stated([[], "region", ["sex", "region"]])
    lines = counted_lines(schema.exact_sets, lambda names: sums[tuple(names)])
    counted = Schema.from_dict({**schema.to_dict(), "invariants": lines})
    assert Schema.from_dict(counted.to_dict()) == counted
    whole, by_region, by_both = counted.known
    assert (whole.places, by_region.places, by_both.places) == ((), (0,), (0, 1))
    assert whole.counts.tolist() == [36] and by_both.counts.tolist() == [*range(9)]
    assert {fact.source for fact in counted.known} == {COUNTED}
    assert not by_region.contradicts(by_region.counts + 1e9, np.zeros(3))  # the table is right and noise is wrong


def test_names_cannot_steer_a_terminal():
    assert "\x1b" not in tables_in_words((("a\x1b[2J",),))
