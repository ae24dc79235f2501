"""Ends of sums from fits of every kind that has them."""

from __future__ import annotations

import numpy as np
import pytest
from sure_coverage import TABLES, content_of

from sfumato.errors import QueryError
from sfumato.models.calibration.fit import innermost
from sfumato.models.partition.fit import PartitionFit

DOMAIN = TABLES["checkerboard"][0].domain


def fit_of(mechanism: str, table: str = "checkerboard", epsilon: int = 1):
    return content_of(mechanism, table, epsilon).fits[0]


def test_least_squares_needs_nothing_else():
    fit = fit_of("hierarchical")
    weights = np.zeros(144)
    weights[5:60] = 1.0
    found = fit.guaranteed(DOMAIN)(weights, weights, 0.025)
    assert fit.exact and found.low < weights @ fit.estimate < found.high
    assert found.high + found.low == pytest.approx(2 * weights @ fit.estimate)


@pytest.mark.parametrize("mechanism", ["mwem", "pmw"])
def test_a_learned_shape_has_none(mechanism):
    with pytest.raises(QueryError, match="no guaranteed interval"):
        fit_of(mechanism).guaranteed(DOMAIN)


def test_a_part_of_a_bucket_holds_between_nothing_and_all_of_it():
    """Noise of scale 1 / 700 or so: buckets are known, where rows lie inside them is not."""
    fit = innermost(fit_of("dawa", "spike", 1000))
    assert isinstance(fit, PartitionFit)
    counts = np.zeros(144)
    counts[7 * 12 + 4] = 500.0
    inside = np.arange(144) % 2 == 0
    found = fit.guaranteed(DOMAIN)(inside.astype(float), inside.astype(float), 0.025)
    within = sum(counts[fit.labels == b].sum() for b in range(len(fit.sizes)) if inside[fit.labels == b].all())
    around = sum(counts[fit.labels == b].sum() for b in range(len(fit.sizes)) if inside[fit.labels == b].any())
    assert (found.low, found.high) == (within, around)


def test_cells_and_buckets_both_have_a_say():
    fit = fit_of("kdtree", "spike")
    every, one = np.ones(144), np.eye(144)[7 * 12 + 4]
    total, cell = fit.guaranteed(DOMAIN)(every, every, 0.025), fit.guaranteed(DOMAIN)(one, one, 0.025)
    assert cell.high - cell.low < total.high - total.low < 120.0
