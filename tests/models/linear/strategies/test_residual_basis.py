"""The shares of least error: the closed form, the figures to reach, and no share worth more than another."""

from __future__ import annotations

from itertools import combinations
from math import prod, sqrt

import numpy as np
import pytest

from sfumato.models.linear.strategies.residual_basis import least_error, residual_basis, tables

ADULT = (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)  # a public domain; no data


def by_cells(sizes, orders):
    parts = [part for order in orders for part in combinations(range(len(sizes)), order)]
    return {part: float(prod(sizes[place] for place in part)) for part in parts}


def error(basis, wanted, amount):
    return sqrt(sum(w * basis.variance(part, amount) for part, w in wanted.items()) / sum(wanted.values()))


@pytest.mark.parametrize(("orders", "figure"), [((1,), 3.047), ((2,), 6.359), ((3,), 10.515), ((1, 2, 3), 10.665)])
def test_the_published_figures_are_the_least_error_and_are_reached(orders, figure):
    wanted = by_cells(ADULT, orders)
    assert sqrt(least_error(ADULT, wanted, 0.5) / sum(wanted.values())) == pytest.approx(figure, abs=5e-4)
    basis = residual_basis(ADULT, wanted, pure=False)
    precisions = basis.precisions(0.5)
    # as `variance` says of each margin, summed by part
    total = 0.0
    for part, weight in wanted.items():
        for order in range(len(part) + 1):
            for inner in combinations(part, order):
                rest = prod(ADULT[place] ** 2 for place in part if place not in inner)
                total += weight * prod(1 - 1 / ADULT[place] for place in inner) / rest / precisions[inner]
    assert sqrt(total / sum(wanted.values())) == pytest.approx(figure, rel=2e-4)


@pytest.mark.parametrize("few", [0, 2, 16])
def test_errors_are_those_of_least_squares_on_the_tables_written_out(few):
    sizes, wanted = (4, 2, 3), {(0, 1): 1.0, (1, 2): 2.0, (0,): 1.0}
    basis = residual_basis(sizes, wanted, pure=False, few=few)
    gram = np.zeros((24, 24))
    for places, share in basis.shares.items():
        rows = tables(tuple(sizes[place] for place in places), few).dense().astype(float)
        lengths = (rows**2).sum(axis=1)
        cost = prod(1 - 1 / sizes[place] for place in places if sizes[place] <= few)
        rows = rows / np.sqrt(lengths)[:, None] * sqrt(2 * 0.5 * share / cost)
        whole = rows @ margin(sizes, places)
        gram += whole.T @ whole
        assert (whole**2).sum(axis=0) == pytest.approx(share)  # of 2 rho = 1: every cell bears its share alike
    inverse = np.linalg.pinv(gram)
    for places in wanted:
        cells = margin(sizes, places)
        assert np.diagonal(cells @ inverse @ cells.T) == pytest.approx(basis.variance(places, 0.5))


def margin(sizes, places):
    found = np.ones((1, 1))
    for place, size in enumerate(sizes):
        found = np.kron(found, np.eye(size) if place in places else np.ones((1, size)))
    return found


@pytest.mark.parametrize("pure", [False, True])
def test_no_share_is_worth_more_than_another(pure):
    sizes, wanted = (5, 2, 3, 30), by_cells((5, 2, 3, 30), (1, 2))
    basis = residual_basis(sizes, wanted, pure=pure)
    best = error(basis, wanted, 1.0)
    assert sum(basis.shares.values()) == pytest.approx(1)
    for given in basis.shares:
        for taken in basis.shares:
            moved = dict(basis.shares)
            step = min(1e-3, moved[taken] / 2)
            moved[given] += step
            moved[taken] -= step
            other = type(basis)(sizes, pure, basis.few, moved, basis.parts)
            assert error(other, wanted, 1.0) >= best * (1 - 1e-6)


def test_laplace_noise_gains_from_contrasts_of_two_values_and_from_pooling():
    """All pairs of ten attributes at epsilon 1: less error than any of the plainer ways."""
    sizes = (2, 3, 4, 5, 2, 3, 4, 5, 6, 3)
    wanted = by_cells(sizes, (2,))
    found = {few: error(residual_basis(sizes, wanted, pure=True, few=few), wanted, 1.0) for few in (0, 2, 16)}
    assert found[2] < found[0]
    alone = sqrt(2) * len(list(combinations(sizes, 2)))  # every pair with an even share, and nothing pooled
    assert found[2] < 0.7 * alone
