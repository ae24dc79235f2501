"""What is left out is said, from the schema alone."""

from __future__ import annotations

from sfumato.schema import Schema
from sfumato.schema.schema import counted_in_short, what_is_counted

VISITS = {
    "dataset": "visits",
    "privacy_unit": {"column": "patient", "contributions": 3},
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 99},
        "ward": {"type": "category", "values": ["surgery", "medicine"]},
        "home": {"type": "category", "values": ["north", "south"], "other": True},
        "arrived": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31", "by": "month"},
    },
}


def test_every_rule_is_named_and_only_columns_that_can_leave_rows_out():
    assert what_is_counted(Schema.from_dict(VISITS)) == (
        "at most 3 rows of each patient are counted",
        "rows with a missing or unreadable age, arrived or patient are left out",
        "rows with a missing or unlisted ward are left out",
        "values beyond the bounds count at the bound: age from 0 to 99 and arrived from 2024-01-01 to 2024-12-31",
    )
    assert counted_in_short(Schema.from_dict(VISITS)) == (
        "at most 3 rows of each patient; no row whose age, arrived, patient or ward is missing, unreadable or "
        "unlisted; values beyond the bounds as the bound"
    )


def test_columns_that_keep_missing_values_leave_out_what_is_not_listed_alone():
    kept = {name: part | {"missing": "keep"} for name, part in VISITS["attributes"].items()}
    schema = Schema.from_dict(VISITS | {"attributes": kept, "privacy_unit": "row"})
    assert what_is_counted(schema)[0] == "rows with an unlisted ward are left out"
    assert counted_in_short(schema).startswith("no row whose ward is unlisted; ")


def test_measures_say_what_becomes_of_rows_without_them():
    measures = {name: {"lower": 0, "upper": 1, "missing": name} for name in ("keep", "drop", "middle")}
    rules = what_is_counted(Schema.from_dict(VISITS | {"measures": measures}))
    assert "rows with a missing or unreadable age, arrived, drop or patient are left out" in rules
    assert "sums and averages of keep are over rows that have a value" in rules
    assert "a missing or unreadable middle counts as the middle of its bounds" in rules


def test_where_no_rule_can_strike_nothing_is_said():
    open_list = {"home": VISITS["attributes"]["home"]}
    schema = Schema(dataset="t", privacy_unit="row", attributes=open_list)
    assert what_is_counted(schema) == () and counted_in_short(schema) == ""


def test_a_hundred_columns_make_one_short_line():
    many = {f"question_{n}": {"type": "boolean"} for n in range(100)}
    said = counted_in_short(Schema(dataset="t", privacy_unit="row", attributes=many))
    assert said == "no row whose question_0, question_1, question_2 or 97 others is missing or unreadable"


def test_names_are_shown_with_care():
    schema = Schema(dataset="t", privacy_unit="row", attributes={"a\x9b2J\u202eb": {"type": "boolean"}})
    said = "".join((*what_is_counted(schema), counted_in_short(schema)))
    assert "\x9b" not in said and "\u202e" not in said
