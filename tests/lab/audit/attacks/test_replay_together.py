"""The replay audit where features of a schema meet: weights, groups, rules, public and exact counts, measures.

A mechanism is run with and without one person, who weighs the most, with the noise frozen: everything that it asks must
follow from what it was told, and what its answers move by must be covered by the charge, exactly. RuntimeWarnings count
as failures.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.lab.audit.attacks.replay import replay
from sfumato.lab.audit.subjects.subject import Row
from sfumato.models import find_mechanism
from sfumato.schema import Schema

BIT: dict[str, Any] = {"type": "integer", "lower": 0, "upper": 1}
TOWN = {"type": "category", "values": list("abcd"), "groups": {"county": {"K": ["a", "b"], "L": ["c", "d"]}}}
WEIGHT = {"weight": {"column": "w", "upper": 5, "step": 1}}
RULES = {"impossible": [{"a": 0, "b": 1}]}
SUMS = {"measures": {"m": {"lower": 0, "upper": 4, "step": 1}}}
FAR = {"facts": [{"by": "a", "counts": {"0": 100_000, "1": 0}, "source": "elsewhere"}]}
EXACT = {"invariants": [{"by": ["a"], "counts": [1, 2]}], "privacy_unit": "row"}
WIDE = {"a": BIT | {"upper": 5}, "b": BIT | {"upper": 4}, "c": BIT}  # a and b in more pairs than ranges are made of
TWO, THREE, AREAS = {"a": BIT, "b": BIT}, {"a": BIT, "b": BIT, "c": BIT}, {"town": TOWN, "s": BIT}
PURE, CONCENTRATED = Budget.pure(8), Budget.zcdp(2)
HEAVY = [[], [Row(1, 0, (), 5), Row(2, 3, (), 1)]]  # the others, whose cells are those of a pair of two values


def schema(attributes: dict[str, Any], **more: object) -> Schema:
    return Schema.from_dict({
        "dataset": "t", "privacy_unit": {"column": "p", "contributions": 1}, "attributes": attributes, **more
    })  # fmt: skip


CASES = [
    *(("spine", AREAS, WEIGHT, budget) for budget in (PURE, CONCENTRATED)),
    *(("margins", AREAS, WEIGHT, budget) for budget in (PURE, CONCENTRATED)),
    ("margins", THREE, WEIGHT, PURE),
    ("margins", TWO, RULES | WEIGHT, CONCENTRATED),
    *((name, TWO, RULES | WEIGHT, PURE) for name in ("sfumato", "dawa", "hierarchical", "mwem")),
    *(
        (name, TWO, RULES, PURE)
        for name in ("kdtree", "ispe", "wavelet", "laplace", "division", "spine", "residual", "bayes")
    ),
    *((name, TWO, RULES, CONCENTRATED) for name in ("wavelet", "spine", "residual", "bayes")),
    *(("sfumato", WIDE, {}, budget) for budget in (PURE, CONCENTRATED)),
    *((name, TWO, RULES | SUMS, PURE) for name in ("sfumato", "dawa")),
    *((name, TWO, FAR, PURE) for name in ("cells", "sfumato", "margins", "spine")),
    *((name, TWO, EXACT, PURE) for name in ("cells", "sfumato", "margins", "kdtree")),
]


@pytest.mark.parametrize(("name", "attributes", "more", "budget"), CASES)
def test_features_together_ask_nothing_that_the_table_decides_and_pay_for_what_they_ask(name, attributes, more, budget):
    made, mechanism = schema(attributes, **more), find_mechanism(name)
    assert mechanism.why_not(made) is None
    most = 1 if made.weight is None else made.weight.most
    steps = (made.measures["m"].half_units,) if made.measures else ()
    worst = 0.0
    for seed, others in enumerate(HEAVY):
        some = [row._replace(steps=steps, weight=min(row.weight, most)) for row in others]
        me = Row(0, 2, steps, most)
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            for one, other in (([*some, me], some), (some, [*some, me])):
                found = replay(mechanism.run, made, one, other, budget, seed=seed)
                assert not found.complaints, found.complaints[0].what
                worst = max(worst, found.loss)
    assert worst <= float(budget.amount) + 1e-9


def test_a_charge_that_forgets_the_weight_is_caught(monkeypatch):
    """A person who weighs five steps and is charged for one: what the answers move by is five times the claim."""
    made = schema(AREAS, **WEIGHT)
    opened = Charge.__init__
    monkeypatch.setattr(Charge, "__init__", lambda self, budget, _, *rest: opened(self, budget, 1, *rest))
    found = replay(find_mechanism("cells").run, made, [Row(0, 2, (), 5)], [], PURE)
    assert any("more than what was claimed" in one.what for one in found.complaints)
