"""Which margins are wanted: by SQL, or all of few attributes and few cells."""

from __future__ import annotations

from itertools import combinations

from sfumato.models.linear.strategies.residual_basis import small_margins, wanted_margins
from sfumato.queries import default_workload
from sfumato.schema import Schema
from sfumato.sql import compile_select
from sfumato.sql.workload import workload_of

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 19},
            "one": {"type": "category", "values": ["all"]},
            "g": {"type": "category", "values": ["a", "b"]},
            "h": {"type": "category", "values": ["c", "d", "e"]},
        },
    }
)


def stated(*texts):
    workload = workload_of([(text, compile_select(text, SCHEMA)) for text in texts], SCHEMA)
    return wanted_margins(SCHEMA.domain, workload)


def test_a_workload_names_its_margins_and_weighs_those_that_are_asked_twice():
    assert stated("SELECT g, COUNT(*) FROM t GROUP BY g") == {(2,): 1.0}
    assert stated("SELECT COUNT(*) FROM t WHERE x < 5", "SELECT x, h, COUNT(*) FROM t GROUP BY x, h") == {
        (0,): 1.0,
        (0, 3): 1.0,
    }
    assert stated("SELECT g, COUNT(*) FROM t GROUP BY g", "SELECT COUNT(*) FROM t WHERE g = 'a'") == {(2,): 2.0}
    assert stated("SELECT COUNT(*) FROM t WHERE x < 5 OR g = 'a'") == {(0, 2): 1.0}
    assert stated("SELECT COUNT(*) FROM t") == {(): 1.0}


def test_without_a_workload_all_of_up_to_three_attributes_that_have_more_than_one_value():
    every = {part for order in range(4) for part in combinations((0, 2, 3), order)}
    assert set(wanted_margins(SCHEMA.domain)) == every
    assert set(wanted_margins(SCHEMA.domain, default_workload(SCHEMA.domain))) == every


def test_large_margins_and_orders_of_very_many_are_left_out():
    assert (0, 1) not in small_margins((200, 200, 2)) and (0, 2) in small_margins((200, 200, 2))
    assert {len(part) for part in small_margins((10,) * 100)} == {0, 1, 2}
    assert {len(part) for part in small_margins((2,) * 30)} == {0, 1, 2, 3}
    assert {len(part) for part in small_margins((2,) * 200)} == {0, 1}
