"""Optimised strategies: gradients, figures to reach, whole numbers; the pages on the linear mechanisms."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.domain import Axis, Domain
from sfumato.least_squares.expected_error import expected_errors, overall_error
from sfumato.least_squares.gram import gram_of
from sfumato.models.linear.strategies.hdmm import (
    best_strategy,
    best_sums,
    candidates,
    error_and_gradient,
    marginal_strategy,
    with_sums,
)
from sfumato.models.linear.strategies.hierarchies import combined
from sfumato.queries import AllRanges, Identity, Kron, Prefix, Ranges, Workload, default_workload, trusted


def cube(*sizes: int, ordered: bool = True) -> Domain:
    axes = (
        Axis(f"a{place}", "integer", np.arange(n + 1.0))
        if ordered
        else Axis(f"a{place}", "category", np.arange(n + 1.0), tuple(map(str, range(n))))
        for place, n in enumerate(sizes)
    )
    return Domain(tuple(axes))


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("queries", [AllRanges(7), Prefix(7), Ranges(7, [0, 2], [3, 6])], ids=repr)
def test_the_gradient_is_that_of_the_error(queries, pure):
    theta, gram, step = (np.arange(21).reshape(3, 7) * 5 % 9 + 1) / 9.0, gram_of(queries), 1e-6
    error, gradient = error_and_gradient(theta, gram, pure)
    size = 1 + theta.sum(axis=0) if pure else np.sqrt(1 + (theta**2).sum(axis=0))
    A = np.vstack([np.eye(7), theta]) / size
    assert error == pytest.approx(np.trace(gram.dense @ np.linalg.inv(A.T @ A)), rel=1e-12)
    for place in np.ndindex(theta.shape):
        moved = theta.copy()
        moved[place] += step
        ahead = error_and_gradient(moved, gram, pure)[0]
        moved[place] -= 2 * step
        slope = (ahead - error_and_gradient(moved, gram, pure)[0]) / (2 * step)
        assert gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-5)  # differences at 1e-6


def test_all_ranges_over_256_cells_reach_the_figure():
    workload = Workload(("ranges",), (AllRanges(256),))
    strategy = combined([with_sums(best_sums(gram_of(AllRanges(256)), True), True, 12)])
    assert expected_errors(strategy, workload, True)[0] <= 8.09
    assert strategy.queries.integral and trusted(strategy.queries)
    assert strategy.queries.constant_column_sum == 2**12


def test_two_dimensional_ranges_over_64_by_64_cells_reach_the_figure():
    workload = Workload(("ranges",), (Kron(AllRanges(64), AllRanges(64)),))
    strategy = best_strategy(cube(64, 64), workload, True)
    assert expected_errors(strategy, workload, True)[0] <= 21.8
    assert strategy.queries.integral and trusted(strategy.queries)


@pytest.mark.parametrize("pure", [True, False])
def test_fewer_bits_cost_little(pure):
    gram, workload = gram_of(AllRanges(64)), Workload(("ranges",), (AllRanges(64),))
    fine, coarse = (
        expected_errors(combined([with_sums(best_sums(gram, pure), pure, bits)]), workload, pure)[0] for bits in (12, 6)
    )
    assert fine <= coarse <= 1.05 * fine


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("domain", [cube(30), cube(20, 6), cube(5, 4, 3, ordered=False)], ids=lambda d: str(d.shape))
def test_the_best_of_all_kinds_is_taken_and_answers_everything(domain, pure):
    workload = default_workload(domain)
    found = candidates(domain, workload, pure)
    best = best_strategy(domain, workload, pure)
    error = overall_error(best, workload, pure)
    assert error == min(overall_error(one, workload, pure) for one in found.values())
    cells = Workload(("cells",), (Identity(domain.size),))
    assert np.isfinite(expected_errors(best, cells, pure)).all()
    for one in found.values():
        assert one.queries.integral and trusted(one.queries)


def test_the_same_sizes_are_optimised_once():
    first, again = (best_strategy(cube(20, 6), default_workload(cube(20, 6)), True) for _ in range(2))
    assert first is again
    other = Workload(("some",), (Ranges(120, [3], [50]),))
    assert best_strategy(cube(20, 6), other, True) is not first


def test_tables_win_where_many_attributes_are_asked_by_twos():
    domain = cube(*[4] * 6, ordered=False)
    workload = default_workload(domain)
    found = candidates(domain, workload, True)
    tables = overall_error(found["tables"], workload, True)
    assert tables < 0.9 * min(overall_error(found[name], workload, True) for name in ("cells", "trees"))


def test_levels_between_total_and_cells_help_ranges():
    domain = cube(36, 36)
    workload = default_workload(domain)
    plain, levels = (marginal_strategy(domain, workload, False, trees=trees) for trees in (False, True))
    assert overall_error(levels, workload, False) < 0.9 * overall_error(plain, workload, False)


def test_too_many_tables_are_not_tried():
    domain = cube(*[2] * 13, ordered=False)
    assert marginal_strategy(domain, default_workload(domain), True) is None
