"""A plan without delta says what one would buy."""

from __future__ import annotations

from sfumato.planner.plan import make_plan
from sfumato.schema import Schema


def of_categories(count, size):
    values = [f"v{place}" for place in range(size)]
    attributes = {f"a{place}": {"type": "category", "values": values} for place in range(count)}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def hint(plan):
    (found,) = [remark for remark in plan.remarks if remark.startswith("A delta")]
    return found


def test_where_a_row_counts_in_many_queries_a_delta_buys_less_error():
    """Over many levels and tables Gaussian noise adds up by its square."""
    found = hint(make_plan(of_categories(2, 40), epsilon=5, mechanism="hierarchical"))
    assert "times less error" in found or "nothing" in found
    assert "1e-9" in found


def test_where_one_query_is_all_that_is_asked_a_delta_buys_nothing():
    assert "nothing" in hint(make_plan(of_categories(1, 4), epsilon=1, every=True))


def test_a_mechanism_without_gaussian_noise_has_no_hint():
    plan = make_plan(of_categories(1, 4), epsilon=1, mechanism="cells")
    assert not [remark for remark in plan.remarks if remark.startswith("A delta")]
