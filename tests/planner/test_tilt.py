"""A workload is a tilt: what is named gets most of the accuracy, and everything else stays useful."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.planner.marginal_errors import errors_by_kind, expected_blocks
from sfumato.planner.other_plans import tilt_towards, useless_kinds
from sfumato.planner.questions import read_statements
from sfumato.queries import default_workload
from sfumato.queries.workload import NAMED
from sfumato.schema import Schema
from sfumato.sql.workload import workload_of

ONE = Budget.pure(1)


def shop(**more):
    attributes = {
        "postcode": {"type": "integer", "lower": 0, "upper": 999},
        "age": {"type": "integer", "lower": 0, "upper": 99},
        "sex": {"type": "category", "values": ["F", "M"], "other": False},
    }
    return Schema.from_dict({"dataset": "shop", "privacy_unit": "row", "attributes": attributes} | more)


def named(text, schema):
    return workload_of(read_statements(text, schema), schema)


STATEMENTS = (
    "SELECT postcode, COUNT(*) FROM shop GROUP BY postcode",
    "SELECT COUNT(*) FROM shop WHERE age < 18; SELECT sex, COUNT(*) FROM shop WHERE age BETWEEN 18 AND 64 GROUP BY sex",
    "SELECT COUNT(*) FROM shop WHERE postcode < 500 OR age > 64",
)


@pytest.mark.parametrize("name", ["hierarchical", "matrix"])
@pytest.mark.parametrize("text", STATEMENTS[:2])
def test_the_statements_get_most_and_the_rest_stays_useful(name, text):
    """By theory, where nothing is shared: budgets as the cube roots of the weights, 0.73 and 0.27 of it, so 1.4 and 3.7
    times the least errors. A product of trees can share budgets between axes less freely than tables can."""
    schema = shop()
    asked, usual, mechanism = named(text, schema), default_workload(schema.domain), MECHANISMS[name]
    tilt = tilt_towards(asked, schema.domain)

    def errors(served):
        strategy = mechanism.forecast.strategy(schema, served, True)
        return [part.overall(expected_blocks(strategy, schema, ONE, part.blocks)) for part in (asked, usual)]

    (least, lost), (plain, best), (mine, rest) = errors(asked), errors(usual), errors(tilt)
    assert least <= mine < (1.6 if name == "matrix" else 2.0) * least and mine < 0.6 * plain
    assert rest < 7 * best and rest < 0.01 * lost


def test_weights_are_relative_to_what_each_part_could_have():
    schema = shop()
    asked, usual = named(STATEMENTS[0], schema), default_workload(schema.domain)
    tilt = tilt_towards(asked, schema.domain)
    assert tilt.named == 1 and tilt.names == asked.names + usual.names and np.mean(tilt.weights) == pytest.approx(1)
    assert tilt.asked.blocks == asked.blocks and tilt.asked.weights == (1.0,)
    assert tilt.shares[0] == pytest.approx(NAMED) and sum(tilt.shares) == pytest.approx(1)
    # Continuous noise of scale 1 on each postcode; the default workload keeps its own proportions.
    rest = np.array(tilt.weights[1:])
    assert rest / rest.sum() == pytest.approx(np.array(usual.weights) / sum(usual.weights))


def test_mechanisms_that_measure_queries_themselves_take_the_statements_alone():
    schema = shop()
    tilt = tilt_towards(named(STATEMENTS[0], schema), schema.domain)
    for name, mechanism in MECHANISMS.items():
        assert mechanism.serves(tilt).blocks == (tilt if mechanism.answers == "everything" else tilt.asked).blocks, name
        assert mechanism.serves(None) is None
    assert MECHANISMS["laplace"].serves(tilt).queries.rows == 1000


def test_a_condition_with_or_is_tilted_to_as_well():
    schema = shop()
    tilt = tilt_towards(named(STATEMENTS[2], schema), schema.domain)
    assert tilt.named == 1 and all(np.isfinite(tilt.weights))


def test_one_is_warned_of_kinds_of_question_that_become_useless():
    schema = shop(expected_rows=20_000)
    mine, asked = MECHANISMS["hierarchical"], named(STATEMENTS[0], schema)
    warnings = useless_kinds(schema, mine, asked, ONE)
    assert [warning.split(" tables by ")[1][:14] for warning in warnings] == ["one attribute ", "two attributes"]
    assert "counts by age would be off by" in warnings[0] and "where a group has 200 on average" in warnings[0]
    assert useless_kinds(schema, mine, default_workload(schema.domain), ONE) == ()
    assert useless_kinds(schema, mine, None, ONE) == ()
    many = shop(expected_rows=10**8)
    assert useless_kinds(many, mine, tilt_towards(asked, schema.domain), ONE) == ()
    assert errors_by_kind(many, mine, asked, ONE)["two attributes"] > 10**5


def test_a_domain_too_large_to_lay_out_has_the_statements_alone():
    wide = shop().to_dict()["attributes"] | {"place": {"type": "integer", "lower": 0, "upper": 999}}
    schema = Schema.from_dict({"dataset": "shop", "privacy_unit": "row", "attributes": wide})
    asked = named("SELECT sex, COUNT(*) FROM shop GROUP BY sex", schema)
    found = tilt_towards(asked, schema.domain)
    assert found.blocks == found.asked.blocks == asked.blocks and found.named == 1
