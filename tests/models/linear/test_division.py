"""Workload division, run: it spends the budget in the hot cell and helps where queries crowd."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models.base.measure_and_fit import designs
from sfumato.models.linear.measure import DIVISION, division, division_strategy, laplace
from sfumato.queries import Predicates, Workload, default_workload
from sfumato.schema import Schema

CELLS = 40
SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": {"column": "person", "contributions": 3},
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": CELLS - 1}},
    }
)
HOT = Workload(("hot",), (Predicates(CELLS, [[i, 39] if i % 5 == 0 else [i] for i in range(39)]),))


def test_spends_exactly_its_budget_for_several_rows_per_person():
    for workload in (HOT, None):
        curator = curator_of(SCHEMA, np.arange(CELLS), epsilon=Fraction(2, 7))
        division(curator, SCHEMA, Budget.pure(Fraction(2, 7)), workload)
        assert curator.charge.fullest == curator.charge.limit == Fraction(2, 21)


def test_the_planned_noise_is_smaller_than_undivided_where_queries_do_not_touch_the_hot_cell():
    planned = designs(division_strategy(SCHEMA, HOT, True), SCHEMA, Budget.pure(1))["count"]
    touches_hot = HOT.queries.dense()[:, 39] == 1
    scale = np.sqrt(planned.variances / 2)
    undivided = 3 * 8  # three rows per person, eight queries that touch the hot cell
    assert np.allclose(scale[touches_hot], undivided, rtol=0.02)
    assert scale[~touches_hot].max() < undivided / 6


def test_helps_beside_plain_laplace_on_a_hot_workload():
    """60 releases of 39 queries: the mean squares, which are as 1 to 4, are each known to a few hundredths."""
    counts = np.arange(CELLS) % 7 * 20

    def mean_square(mechanism) -> float:
        squares = []
        for seed in range(30):
            curator = curator_of(SCHEMA, counts, entropy=TestingEntropy(seed))
            (fit,) = mechanism(curator, SCHEMA, Budget.pure(1), HOT).fits
            squares.append(np.mean(np.square(HOT.queries @ (fit.estimate - counts))))
        return float(np.mean(squares))

    assert mean_square(division) < 0.5 * mean_square(laplace)


def test_refuses_what_laplace_refuses():
    large = Schema.from_dict(
        {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 1999}}}
    )
    assert "--workload" in (DIVISION.why_not(large, default_workload(large.domain)) or "")
    assert DIVISION.why_not(SCHEMA, HOT) is None
