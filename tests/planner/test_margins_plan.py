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
    assert time.process_time() - began < 2 and plan.cells == 10**100
