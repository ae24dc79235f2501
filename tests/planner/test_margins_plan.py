"""Plans for tables of many attributes: nothing is laid out, nothing is read."""

from __future__ import annotations

import time

import pytest

from sfumato.errors import QueryError
from sfumato.planner.plan import make_plan
from sfumato.schema import Schema


def survey(attributes: int, **more: object) -> Schema:
    described = {f"q{i}": {"type": "integer", "lower": 0, "upper": 9} for i in range(attributes)}
    keys = {"dataset": "s", "privacy_unit": "row", "expected_rows": 20_000, "attributes": described}
    return Schema.from_dict(keys | more)


def test_errors_are_foretold_by_kind_of_question():
    plan = make_plan(survey(15), epsilon=1)
    assert plan.mechanism == plan.choice.name and len(plan.lines) == 4
    assert plan.lines[0].query == "COUNT(*) FROM s" and all(line.within > line.stderr > 0 for line in plan.lines)
    assert "15 attributes span about 10^15 cells" in plan.choice.why
    (hint,) = plan.remarks
    assert hint.startswith("With --delta 1e-9 (Gaussian noise) counts of two attributes would be off by about")
    assert "margins" in repr(plan)


def test_the_smallest_epsilon_keeps_the_error_and_a_little_less_does_not():
    plan = make_plan(survey(15), error=300)
    epsilon = plan.lines[0].epsilon
    assert max(line.within for line in make_plan(survey(15), epsilon=epsilon).lines) <= 300
    assert max(line.within for line in make_plan(survey(15), epsilon=float(epsilon) * 0.98).lines) > 300


def test_an_error_that_no_epsilon_buys_is_refused():
    with pytest.raises(QueryError, match="allow a larger error"):
        make_plan(survey(15), error=1e-9)


def test_a_workload_over_cells_without_a_number_is_refused_in_one_line():
    with pytest.raises(QueryError, match=r"cannot be weighed over more cells than 2\^62; leave it out"):
        make_plan(survey(40), epsilon=1, workload="SELECT COUNT(*) FROM s")


def test_a_hundred_attributes_are_planned_in_no_time():
    began = time.process_time()
    plan = make_plan(survey(100), epsilon=1)
    assert time.process_time() - began < 20 and plan.cells == 10**100  # cell by cell it would take for ever


NAMED = ["SELECT q1, COUNT(*) FROM s WHERE q0 < 5 GROUP BY q1"]


def test_a_workload_over_many_attributes_is_priced_by_margins_and_better_than_without():
    (without,) = (one for one in make_plan(survey(15), epsilon=1).lines if "two attributes" in one.query)
    plan = make_plan(survey(15), epsilon=1, workload=NAMED)
    (line,) = plan.lines
    assert plan.mechanism == "margins" and line.query == NAMED[0] and plan.stated
    assert 0 < line.stderr < without.stderr / 2
    assert plan.doubled.after < plan.doubled.before
    alone = make_plan(survey(15), epsilon=1, workload=NAMED, workload_only=True)
    assert 0.7 * line.stderr < alone.lines[0].stderr < line.stderr


def test_the_smallest_epsilon_for_a_workload_keeps_its_error():
    plan = make_plan(survey(15), error=20, workload=NAMED)
    (kept,) = make_plan(survey(15), epsilon=plan.lines[0].epsilon or plan.outlooks[0].epsilon, workload=NAMED).lines
    assert plan.mechanism == "margins" and kept.within <= 20


def test_a_tilt_towards_one_attribute_leaves_the_others_of_use():
    """Four attributes, whose cells can be laid out: `matrix` would be off by more than a group has rows elsewhere."""
    plan = make_plan(survey(4), epsilon=1, workload=["SELECT q1, COUNT(*) FROM s GROUP BY q1"])
    assert plan.choice.name == "margins" and not plan.warnings
    only = make_plan(survey(4), epsilon=1, workload=["SELECT q1, COUNT(*) FROM s GROUP BY q1"], workload_only=True)
    assert only.choice.name != "margins" and only.lines[0].stderr < plan.lines[0].stderr


def test_a_table_of_few_cells_is_measured_by_what_has_less_error_on_all_questions():
    attributes = {"age": {"type": "integer", "lower": 0, "upper": 99, "width": 10}} | {
        name: {"type": "category", "values": [*values]} for name, values in (("a", "NSEWC"), ("b", "FM"), ("c", "wxyz"))
    }
    small = Schema.from_dict({"dataset": "s", "privacy_unit": "row", "expected_rows": 20_000, "attributes": attributes})
    plan = make_plan(small, epsilon=1, workload=["SELECT age, COUNT(*) FROM s GROUP BY age"])
    by_margins = make_plan(small, epsilon=1, workload=["SELECT age, COUNT(*) FROM s GROUP BY age"], mechanism="margins")
    assert plan.choice.name == "matrix" and plan.outlooks[0].overall < by_margins.outlooks[0].overall
