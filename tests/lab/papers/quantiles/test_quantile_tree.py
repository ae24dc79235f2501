"""The order of choices: what each looks at, what paths cost, and runs that cover a line."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from sfumato.lab.papers.quantiles.quantile_line import choices, errors_of, runs_between

DECILES = [Fraction(k, 10) for k in range(1, 10)]


@pytest.mark.parametrize(
    "wanted", [DECILES, [Fraction(0)], [Fraction(0), Fraction(1)], [Fraction(k, 4) for k in range(5)], DECILES[2:3]]
)
def test_no_row_pays_more_than_the_whole_and_the_deepest_pays_it(wanted):
    """A row is between the same two quantiles as any other of its neighbourhood: walk down every neighbourhood."""
    made = choices(wanted)
    assert sorted(one.quantile for one in made) == sorted(wanted)
    ends = sorted({Fraction(0), *wanted, Fraction(1)})
    paid = []
    for low, high in pairwise(ends):
        middle = (low + high) / 2
        paid.append(sum(one.share for one in made if one.above < middle < one.below))
    assert max(paid) == 1


def test_deciles_cost_four_choices():
    assert max(1 / one.share for one in choices(DECILES)) == 4
    assert len(choices(DECILES)) == 9


def test_errors_are_inherited_in_proportion():
    weights = errors_of(choices([Fraction(1, 4), Fraction(1, 2)]))
    first, second = Fraction(1, 2), Fraction(1, 4)
    assert weights in (
        {0: {}, 1: {}, first: {first: 1.0}, second: {first: 0.5, second: 1.0}},
        {0: {}, 1: {}, second: {second: 1.0}, first: {second: 2 / 3, first: 1.0}},
    ) or weights[first][second] == pytest.approx(2 / 3)


@pytest.mark.parametrize("rows", [-5.0, 0.0, 100.0, 1e6])
@pytest.mark.parametrize("cuts", [{}, {Fraction(1, 2): 0}, {Fraction(1, 2): 70, Fraction(1): 70}])
def test_runs_cover_the_line_once_and_end_at_every_cut(rows, cuts):
    edges = runs_between(cuts, 100, rows, 10.0)
    assert edges[0] == 0 and edges[-1] == 100 and (np.diff(edges) > 0).all()
    assert set(cuts.values()) <= set(edges.tolist())
