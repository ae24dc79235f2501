"""The schema's `weight`: what it takes, how far a row can count, and that a measure's old key is another thing."""

from __future__ import annotations

import warnings
from fractions import Fraction

import pytest

from sfumato.errors import OldWordWarning, SchemaError
from sfumato.schema import Schema
from sfumato.schema.parts import ROWS
from sfumato.schema.schema import counted_in_short, what_is_counted


def schema(weight: object, **more: object) -> Schema:
    keys = {"dataset": "t", "privacy_unit": "row", "attributes": {"a": {"type": "boolean"}}, "weight": weight}
    return Schema.from_dict(keys | more)


def test_a_row_counts_for_as_many_steps_as_its_bound_has():
    made = schema({"column": "w", "upper": 400, "step": 1}, privacy_unit={"column": "p", "contributions": 3})
    assert made.weight is not None and made.weight.most == 400
    assert made.most_of_a_unit == 1200 and made.count_step == 1.0
    assert made.units == {"count": 1, ROWS: 1} and made.reach(ROWS) == 400


@pytest.mark.parametrize(
    ("upper", "step"), [(400, Fraction(1, 4)), (5, Fraction(1, 256)), (5000, 1), ("0.5", "1/2048")]
)
def test_steps_are_a_thousandth_of_the_bound_or_finer_and_whole_weights_are_exact(upper, step):
    weight = schema({"column": "w", "upper": upper}).weight
    assert weight is not None and weight.step == Fraction(step) and (1 / weight.step).denominator == 1


def test_weights_that_are_moved_toward_their_mean_reach_less_far():
    weight = schema({"column": "w", "lower": 20, "upper": 400, "shrink": 0.5, "mean": 100, "step": 1}).weight
    assert weight is not None and weight.most == 250 and weight.shrunk(weight.lower) == 60


def test_it_is_written_and_read_back():
    made = schema({"column": "w", "upper": 4, "shrink": "0.25", "mean": 1, "unweighted_share": 0.2})
    assert Schema.from_dict(made.to_dict()) == made
    assert ROWS not in made.to_dict()["measures"] and ROWS in made.weights and made.weights[ROWS] == Fraction(1, 5)


def test_rows_are_not_counted_beside_their_weights_unless_a_share_pays_for_it():
    made = schema({"column": "w", "upper": 4, "unweighted_share": 0})
    assert list(made.weights) == list(made.units) == ["count"]


def test_sums_of_weighted_values_fit_64_bits():
    made = schema({"column": "w", "upper": 400}, measures={"m": {"lower": 0, "upper": 10}})
    assert made.measures["m"].half_units * made.most_of_a_unit <= 2**40
    with pytest.raises(SchemaError, match="has steps too small"):
        schema({"column": "w", "upper": 400}, measures={"m": {"lower": 0, "upper": 10, "step": 1e-9}})


def test_the_old_name_of_a_measures_share_is_another_thing(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "dataset: t\nprivacy_unit: row\nattributes: {a: {type: boolean}}\nweight: {column: w, upper: 9}\n"
        "measures: {m: {lower: 0, upper: 1, weight: 3}}\n"
    )
    with pytest.warns(OldWordWarning, match="measures.m says weight"):
        made = Schema.load(tmp_path / "s.yaml")
    assert made.measures["m"].budget_share == 3 and made.weight is not None and made.weight.column == "w"
    (tmp_path / "s.yaml").write_text(
        "dataset: t\nprivacy_unit: row\nattributes: {a: {type: boolean}}\nweight: {column: w, upper: 9}\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Schema.load(tmp_path / "s.yaml")


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ({"column": "w"}, "weight.upper is missing"),
        ({"column": "w", "upper": 0}, "lower must be less than upper"),
        ({"column": "w", "lower": -1, "upper": 3}, "write 0 or more"),
        ({"column": "w", "upper": 4, "shrink": 0.5}, "needs shrink and mean together"),
        ({"column": "w", "upper": 4, "mean": 2}, "needs shrink and mean together"),
        ({"column": "w", "upper": 4, "shrink": 1, "mean": 2}, "less than 1"),
        ({"column": "w", "upper": 4, "shrink": 0.5, "mean": 9}, "not between lower and upper"),
        ({"column": "w", "upper": 4, "step": 10}, "does not go with upper"),
        ({"column": "w", "upper": 4, "step": 1e-9}, "does not go with upper"),
        ({"column": "w", "upper": 1e13}, "divide them"),
        ({"column": "w", "upper": "1e-101"}, "nearer to 0 than 1e-100"),
        ({"column": "w", "lower": "1e-101", "upper": 3}, "nearer to 0 than 1e-100"),
        ({"column": "w", "upper": 5, "step": "1e-150", "shrink": "0." + "9" * 150, "mean": 0}, "nearer to 0 than"),
        ({"column": "w", "upper": 4, "unweighted_share": -1}, "unweighted_share below 0"),
        ({"column": "w", "upper": 4, "cap": 3}, "weight has no key 'cap'"),
        ("w", "weight needs keys under it: write {column: weight, upper: 400}"),
    ],
)
def test_mistakes_say_what_to_write(weight, said):
    with pytest.raises(SchemaError) as refusal:
        schema(weight)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


def test_what_weights_do_not_go_with_is_refused():
    with pytest.raises(SchemaError, match="take series out"):
        schema({"column": "w", "upper": 4}, series={"period": "month", "unit": "row in a month"})
    with pytest.raises(SchemaError, match="rename it"):
        schema({"column": "w", "upper": 4}, measures={ROWS: {"lower": 0, "upper": 1}})


def test_the_rules_of_weights_are_told():
    made = schema({"column": "w", "upper": 4, "shrink": 0.5, "mean": 1, "step": 0.5})
    assert any("as often as w says, clipped to 0 and 4, then moved 50 % of the way to 1, in steps of 0.5" in one
               for one in what_is_counted(made))  # fmt: skip
    assert "each row as often as its w says, 2.5 at most" in counted_in_short(made)


def test_plans_see_counts_in_rows_whatever_the_step():
    made = schema({"column": "w", "upper": "3.5", "step": "0.5"}).in_rows
    assert made.count_step == 1.0 and made.most_of_a_unit == Fraction(7, 2)
    assert made.in_rows is made
