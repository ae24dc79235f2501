from fractions import Fraction

import pytest

from conftest import CENSUS
from sfumato.errors import BudgetError, QueryError
from sfumato.inference.laws import half_width, stderr
from sfumato.measurement import Laplace
from sfumato.planner.plan import make_plan
from sfumato.schema import Schema
from sfumato.sql import compile_select

PLAIN = Schema.from_dict({**CENSUS, "measures": {}, "expected_rows": 10_000})


def line(plan, query):
    return next(line for line in plan.lines if line.query.startswith(query))


def test_counts_have_the_exact_error_of_their_cells():
    plan = make_plan(PLAIN, epsilon="0.5")
    noise = Laplace(Fraction(2))
    for query, cells in (("COUNT(*) FROM", 200), ("COUNT(*) ... GROUP BY age", 2), ("COUNT(*) of one cell", 1)):
        found = line(plan, query)
        assert found.stderr == pytest.approx(stderr([(1.0, noise, cells)]))
        assert found.within == half_width([(1.0, noise, cells)], 0.95)
        assert found.unit == "rows" and not found.guess


def test_contributions_and_measures_share_the_budget():
    people = Schema.from_dict({**CENSUS, "privacy_unit": {"column": "p", "contributions": 3}})
    found = line(make_plan(people, epsilon=1), "COUNT(*) of one cell")
    assert found.stderr == pytest.approx(stderr([(1.0, Laplace(Fraction(6)), 1)]))
    assert line(make_plan(people, epsilon=1), "SUM(income)").unit == "income"


def test_the_smallest_epsilon_keeps_its_promise_and_no_smaller_one_does():
    plan = make_plan(PLAIN, error=50, confidence=0.9)
    for found in plan.lines:
        assert found.within <= 50 and found.epsilon is not None
        less = make_plan(PLAIN, epsilon=found.epsilon * Fraction(97, 100), confidence=0.9)
        assert line(less, found.query).within > 50 * 0.97


def test_the_plan_of_a_workload_is_the_error_of_its_release():
    sql = "SELECT sex, COUNT(*) AS n FROM census WHERE age < 10 GROUP BY sex"
    plan = make_plan(PLAIN, epsilon=1, workload=[(sql, compile_select(sql, PLAIN))])
    assert plan.lines[0].stderr == pytest.approx(stderr([(1.0, Laplace(Fraction(1)), 10)]))
    share = "SELECT COUNT(*) FILTER (WHERE age < 10) / COUNT(*) FROM census"
    plan = make_plan(PLAIN, epsilon=1, workload=[(share, compile_select(share, PLAIN))])
    assert plan.lines[0].guess and plan.lines[0].unit == "share" and 0 < plan.lines[0].stderr < 0.01


def test_the_paper_promises_less_than_the_exact_noise_gives():
    plan = make_plan(PLAIN, epsilon=1)
    assert plan.every_query is not None and plan.paper is not None
    assert 5 * plan.every_query < plan.paper


def test_a_huge_domain_is_planned_in_its_sparse_form():
    axes = {name: {"type": "integer", "lower": 0, "upper": 999_999} for name in ("x", "y")}
    huge = Schema.from_dict({"dataset": "huge", "privacy_unit": "row", "attributes": axes, "expected_rows": 10**7})
    plan = make_plan(huge, epsilon=1)
    assert plan.cells == 10**12 and plan.threshold == 36 and plan.every_query is None
    assert line(plan, "COUNT(*) FROM").stderr == pytest.approx(stderr([(1.0, Laplace(Fraction(10)), 1)]))


@pytest.mark.parametrize("error", [0.0, -1.0, float("nan"), float("inf")])
def test_senseless_errors_are_refused(error):
    with pytest.raises(QueryError, match="--error"):
        make_plan(PLAIN, error=error)


def test_a_plan_needs_a_budget_or_an_error():
    with pytest.raises(BudgetError, match="--epsilon"):
        make_plan(PLAIN)
    with pytest.raises(QueryError, match="--confidence"):
        make_plan(PLAIN, epsilon=1, confidence=2)
