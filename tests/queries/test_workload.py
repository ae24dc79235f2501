"""What everybody asks: small however many attributes there are, and no kind of query paid for by the others."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.domain import Axis, Domain
from sfumato.errors import QueryError
from sfumato.least_squares.expected_error import expected_errors
from sfumato.models.linear.strategies.hdmm import marginal_strategy
from sfumato.queries import Identity, Total, Workload, default_workload
from sfumato.queries.strategy import Strategy
from sfumato.queries.workload import MOST_SETS, sets_of


def categories(*sizes):
    return Domain(
        tuple(
            Axis(f"a{place}", "category", np.arange(size + 1.0), tuple(map(str, range(size))))
            for place, size in enumerate(sizes)
        )
    )


def test_one_and_two_attributes_matter_alike_and_more_are_weighed():
    assert set(default_workload(categories(3, 4)).weights) == {1.0}
    workload = default_workload(categories(3, 4, 5, 2))
    assert (len(workload.blocks), workload.names[0], workload.names[-1]) == (1 + 4 + 6 + 4 + 1, "total", "cells")
    assert np.mean(workload.weights) == pytest.approx(1.0)
    # 120 cells in all: a query of the total sums 120 of them, a cell itself
    assert workload.weights[-1] / workload.weights[0] == pytest.approx(np.sqrt(120))


def test_many_attributes_make_no_more_blocks_than_can_be_looked_at():
    domain = categories(*[3] * 39)  # about 4e18 cells: all that can be numbered
    workload = default_workload(domain)
    assert len(workload.blocks) == 2 + 39 + 2 * MOST_SETS
    for size in (2, 3):
        chosen = sets_of(domain, size)
        assert len(set(chosen)) == len(chosen) == MOST_SETS
        assert {axis for axes in chosen for axis in axes} == set(domain)


def test_less_error_on_one_attribute_is_not_bought_with_many_times_more_on_cells():
    """512 cells of three categories: tables by the weights, beside noise on every cell."""
    domain = categories(8, 8, 8)
    workload = default_workload(domain)
    tables = marginal_strategy(domain, workload, True)
    assert tables is not None
    ratio = expected_errors(tables, workload, True) / expected_errors(Strategy(Identity(512)), workload, True)
    assert ratio[0] < 0.5 and ratio.max() < 2.0  # the total at a third of the error, cells at less than twice


def test_weights_are_refused_unless_there_is_one_above_zero_for_each_block():
    for weights in ((1.0, 1.0), (0.0,), (-1.0,)):
        with pytest.raises(QueryError, match="weights of a workload"):
            Workload(("total",), (Total(4),), weights)
