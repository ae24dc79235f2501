"""A plan answers what was asked in its first lines: mechanism, six questions in plain words, twice the epsilon."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.planner.forecast import Question, outlook
from sfumato.planner.plan import make_plan
from sfumato.planner.questions import default_items, example_items
from sfumato.planner.report import as_text
from sfumato.schema import Schema


def survey(**more):
    attributes = {"age": {"type": "integer", "lower": 0, "upper": 99}, "smoker": {"type": "boolean"}}
    keys = {"dataset": "survey", "privacy_unit": "row", "attributes": attributes, "expected_rows": 5000}
    return Schema.from_dict(keys | more)


def with_pay(attributes=3, **more):
    axes = {f"a{place}": {"type": "category", "values": list("xyz")} for place in range(attributes)}
    return survey(attributes=axes, measures={"pay": {"lower": 0, "upper": 100}}, **more)


@pytest.mark.parametrize("schema", [survey(), with_pay(2), with_pay(3), with_pay(5)])
def test_there_are_six_questions_in_words(schema):
    words = [item.query for item in example_items(schema)]
    assert len(words) == len(set(words)) == 6 and words[0] == "all rows" and "COUNT" not in str(words)
    assert any(word.startswith(("average of pay", "rows in a range of age")) for word in words)


def test_a_schema_of_one_attribute_has_ranges_and_one_of_two_values_has_two_questions():
    line = survey(attributes={"age": {"type": "integer", "lower": 0, "upper": 99}})
    assert len(example_items(line)) == 6
    assert len(example_items(survey(attributes={"smoker": {"type": "boolean"}}))) == 2


def test_without_rows_a_sum_stands_in_for_an_average():
    unstated = Schema.from_dict({key: part for key, part in with_pay().to_dict().items() if key != "expected_rows"})
    assert "sum of pay over all rows" in [item.query for item in example_items(unstated)]


def test_the_first_five_lines_say_what_was_asked():
    plan = make_plan(survey(), epsilon=1)
    first, mechanism, doubling, heading, _, _, *table = as_text(plan).splitlines()
    assert first == "survey: 200 cells, epsilon 1"
    assert mechanism.startswith(f"auto would take {plan.choice.name}: ")
    assert doubling.startswith("Doubling epsilon to 2 would bring the error of a query from ")
    assert "share of the 5,000 rows expected" in heading
    assert [row.partition("  ")[0].rstrip(" *") for row in table[:6]] == [line.query for line in plan.examples]
    assert all(row.rstrip().endswith("%") for row in table[:6])
    assert len(plan.outlooks) == 1 and "--all compares every mechanism" in as_text(plan)


def test_examples_have_the_errors_of_the_same_questions_in_sql():
    plan = make_plan(survey(), epsilon=1)
    (rows, age, ages, cell, smoker, both) = (line.stderr for line in plan.examples)
    assert [rows, age, ages, smoker, both, cell] == [line.stderr for line in plan.lines]


@pytest.mark.parametrize("name", ["cells", "hierarchical"])
def test_twice_the_epsilon_halves_an_error_that_depends_on_noise_alone(name):
    """Discrete noise has a little less than half the deviation at twice the epsilon."""
    plan = make_plan(survey(), epsilon="0.1", mechanism=name)
    assert plan.doubled.after == pytest.approx(plan.doubled.before / 2, rel=0.02)
    assert plan.doubled.before == plan.outlooks[0].overall


def test_twice_the_epsilon_is_tried_where_the_error_depends_on_the_data():
    """On two of five tables, one run each: by a factor of 2 or so, and never more."""
    plan = make_plan(survey(), epsilon=1, mechanism="sfumato")
    assert 1.3 < plan.doubled.before / plan.doubled.after < 3
    wide = survey(attributes={"x": {"type": "integer", "lower": 0, "upper": 899}})
    foretold = make_plan(wide, epsilon=1, mechanism="sfumato")
    assert 1.3 < foretold.doubled.before / foretold.doubled.after < 2.1


def test_margins_have_one_forecast():
    """The figure that `auto` goes by is the one that a plan prints, over the workload and question by question."""
    schema = with_pay(8, expected_rows=100_000)
    plan = make_plan(schema, epsilon=1)
    (mine,) = plan.outlooks
    foretold = MECHANISMS["margins"].forecast.foretold(schema, Budget.pure(1))
    items, workload = default_items(schema)
    found = outlook(MECHANISMS["margins"], Question(schema, tuple(items), workload), Budget.pure(1))
    assert found.how == "foretold" and found.overall == foretold.overall(workload) == found.best == found.worst
    assert found.lines[0].stderr == foretold.by_kind["all rows"]
    average, total = (
        next(line.stderr for line in found.lines if line.query.startswith(word)) for word in ("AVG", "SUM")
    )
    assert average == pytest.approx(foretold.of_sums["pay"] / 100_000) and total > 100_000 * average
    assert plan.choice.name == mine.mechanism == found.mechanism and plan.choice.expected == mine.overall


def test_a_whole_table_that_margins_would_measure_alone_is_foretold_so():
    """Few cells and many rows: all rows are then the sum of all noisy cells, and another mechanism is taken."""
    schema = with_pay(4, expected_rows=100_000)
    foretold = MECHANISMS["margins"].forecast.foretold(schema, Budget.pure(1))
    of_a_cell = 2**0.5 / (0.75 * 0.85)  # three quarters are for counts, of which 85 % are for tables
    assert foretold.by_kind["all rows"] == pytest.approx(81**0.5 * of_a_cell)
    assert make_plan(schema, epsilon=1).choice.name != "margins"


def test_a_workload_shows_the_statements_and_everything_else():
    plan = make_plan(survey(), epsilon=1, workload="SELECT smoker, COUNT(*) FROM survey GROUP BY smoker")
    text = as_text(plan)
    assert plan.stated and plan.tilted and len(plan.lines) == 1 and len(plan.examples) == 6
    assert text.index("Your statements") < text.index("Other questions: expected error")
    only = make_plan(
        survey(), epsilon=1, workload="SELECT smoker, COUNT(*) FROM survey GROUP BY smoker", workload_only=True
    )
    assert only.stated and not only.tilted and any("would be useless: counts by age" in word for word in only.warnings)
    assert only.lines[0].stderr < plan.lines[0].stderr < 1.7 * only.lines[0].stderr
    age = [next(line.stderr for line in each.examples if line.query.endswith("of age")) for each in (plan, only)]
    assert age[0] < 30 < 1000 < age[1]
    with pytest.raises(QueryError, match="--workload-only is about"):
        make_plan(survey(), epsilon=1, workload_only=True)


def test_statements_that_are_measured_themselves_leave_other_questions_unknown():
    text = "SELECT smoker, COUNT(*) FROM survey GROUP BY smoker"
    plan = make_plan(survey(), epsilon=1, workload=text, mechanism="laplace")
    assert plan.lines[0].stderr < 2 and "unknown" in as_text(plan) and plan.warnings == ()


def test_an_error_names_the_epsilon_first():
    plan = make_plan(survey(), error=50)
    lines = as_text(plan).splitlines()
    assert lines[1].startswith("All of the questions below need epsilon ") and f"by {plan.mechanism}" in lines[1]
    assert isinstance(plan.lines[0].epsilon, Fraction) and len(plan.outlooks) == 1
