"""The usefulness calculator, beside the paper's numbers, brute force and simulation."""

from fractions import Fraction
from math import ceil, exp, inf, nan, sqrt

import numpy as np
import pytest

from sfumato.errors import BudgetError, QueryError
from sfumato.planner import usefulness
from sfumato.planner.usefulness import epsilon_for, every_query_error, paper_error, paper_rows


@pytest.mark.parametrize(
    ("cells", "share", "printed"), [(100, 0.02, 7.6e5), (8000, 0.01, 1.92e8)], ids=["one attribute", "two attributes"]
)
def test_the_rows_printed_in_the_paper(cells, share, printed):
    rows = paper_rows(cells, 0.05, share, 0.95)
    assert rows == pytest.approx(printed, rel=0.005)
    assert paper_error(cells, 0.05, 0.95) / rows <= share < paper_error(cells, 0.05, 0.95) / (rows - 1)


@pytest.mark.parametrize("cells", [1, 2, 30, 1000])
def test_people_with_several_rows_need_as_much_more_error_or_epsilon(cells):
    assert paper_error(cells, 1, 0.95, sensitivity=4) == pytest.approx(4 * paper_error(cells, 1, 0.95))
    assert every_query_error(cells, 1, 0.95, sensitivity=4) == every_query_error(cells, Fraction(1, 4), 0.95)


def noise_law(epsilon, most):
    z = np.arange(-most, most + 1)
    mass = np.exp(-epsilon * np.abs(z))
    return z, mass / mass.sum()


def worst_union_law(cells, epsilon, most=60):
    """P(the worst union of cells is off by k), from the joint law of positive and negative noise, cell by cell."""
    z, mass = noise_law(epsilon, most)
    one = np.zeros((most + 1, most + 1))
    one[np.maximum(z, 0), np.maximum(-z, 0)] = mass
    joint, size = one, most + 1
    for _ in range(cells - 1):
        size += most
        spectrum = np.fft.rfft2(joint, (size, size)) * np.fft.rfft2(one, (size, size))
        joint = np.fft.irfft2(spectrum, (size, size))
    law = np.zeros(size)
    np.add.at(law, np.maximum.outer(np.arange(size), np.arange(size)), joint)
    return law


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), 1, 3])
@pytest.mark.parametrize("cells", [1, 2, 3, 6])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_the_error_of_every_query_at_once_agrees_with_brute_force(cells, epsilon, confidence):
    law = worst_union_law(cells, float(epsilon))
    bound = int(every_query_error(cells, epsilon, confidence))
    delta = 1 - confidence
    assert law[bound + 1 :].sum() <= delta
    if bound:  # both sums exceed the bound with probability at most (delta / 2)^2; that much may be given away
        assert law[bound:].sum() > delta - delta**2 / 4 - 1e-9


def test_the_error_of_every_query_at_once_agrees_with_simulation():
    # 20,000 releases of 50 cells; a tail of 5 % strays by more than 4.9 standard errors once in a million times.
    cells, epsilon, runs = 50, 0.2, 20_000
    rng = np.random.default_rng(2)
    leave = 1 - exp(-epsilon)
    noise = rng.geometric(leave, (runs, cells)) - rng.geometric(leave, (runs, cells))
    worst = np.maximum(np.maximum(noise, 0).sum(axis=1), np.maximum(-noise, 0).sum(axis=1))
    bound, stray = every_query_error(cells, epsilon, 0.95), 4.9 * sqrt(0.05 * 0.95 / runs)
    assert np.mean(worst > bound) <= 0.05 + stray
    assert np.mean(worst > bound - 1) >= 0.05 - 0.05**2 / 4 - stray


@pytest.mark.parametrize("tail", [0.25, 0.025, 5e-6])
@pytest.mark.parametrize(("cells", "scale"), [(1, 4000.0), (7, 900.0), (300, 120.0)])
def test_a_coarse_lattice_agrees_with_the_one_of_whole_numbers(cells, scale, tail, monkeypatch):
    exact = usefulness.positive_sum_quantile(cells, scale, tail)
    monkeypatch.setattr(usefulness, "FINEST", 500)
    monkeypatch.setattr(usefulness, "COARSE", 100)
    step = sqrt(cells * usefulness.positive_cumulants(scale)[1]) / 100
    assert -0.1 * step <= usefulness.positive_sum_quantile(cells, scale, tail) - exact <= 1.1 * step


@pytest.mark.parametrize("tail", [0.25, 0.025, 5e-6])
def test_the_expansion_agrees_with_the_lattice_of_whole_numbers(tail, monkeypatch):
    expanded = usefulness.positive_sum_quantile(20_000, 90.0, tail)
    monkeypatch.setattr(usefulness, "FINEST", 10**7)
    assert expanded == pytest.approx(usefulness.positive_sum_quantile(20_000, 90.0, tail), abs=2)


def test_one_cell_follows_from_the_closed_form():
    scale = 4000.0  # P(positive part > k) = r^(k + 1) / (1 + r)
    k = usefulness.positive_sum_quantile(1, scale, 0.025)
    ratio = exp(-1 / scale)
    assert ratio ** (k + 1) / (1 + ratio) <= 0.025 < ratio**k / (1 + ratio)


@pytest.mark.parametrize("cells", [1, 10, 100, 8000, 10**6])
@pytest.mark.parametrize("epsilon", [0.05, 1, 4])
def test_the_exact_bound_is_within_the_papers(cells, epsilon):
    # The paper's noise is continuous and ours whole numbers, so its bound is rounded up.
    every, paper = (bound(cells, epsilon, 0.95) for bound in (every_query_error, paper_error))
    assert every <= ceil(paper)
    if cells >= 100:
        assert every < paper / 8


@pytest.mark.parametrize("error", [0.4, 3.0, 7.5, 50.0, 1234.0])
def test_the_epsilon_found_keeps_the_error_and_no_smaller_one_does(error):
    epsilon = epsilon_for(lambda epsilon: every_query_error(20, epsilon, 0.95), error)
    digits = epsilon
    while digits < 1000:
        digits *= 10
    while digits >= 10000:
        digits /= 10
    assert digits.denominator == 1  # four significant digits
    assert every_query_error(20, epsilon, 0.95) <= error
    assert every_query_error(20, epsilon * (1 - 1 / digits), 0.95) > error


def test_the_search_for_an_epsilon():
    assert epsilon_for(lambda epsilon: float(1 / epsilon), 1.0) == 1
    assert epsilon_for(lambda epsilon: float(1 / epsilon), 8.0) == Fraction(1, 8)
    assert epsilon_for(lambda epsilon: float(3 / epsilon), 1e-4) == 30_000
    assert epsilon_for(lambda epsilon: inf if epsilon < Fraction(12341, 10**6) else 0.0, 5.0) == Fraction(1235, 10**5)
    assert epsilon_for(lambda epsilon: nan if epsilon < 2 else 0.0, 5.0) == 2
    assert epsilon_for(lambda epsilon: 0.0, 0.0) == Fraction(1, 10**9)
    tried = []
    epsilon_for(lambda epsilon: tried.append(epsilon) or float(1 / epsilon), 77.0)
    assert len(tried) <= 20


@pytest.mark.parametrize("error", [-1.0, nan])
def test_an_error_that_is_none_is_refused(error):
    with pytest.raises(QueryError, match="0 or more"):
        epsilon_for(lambda epsilon: 1.0, error)
    with pytest.raises(QueryError, match="above 0"):
        paper_rows(10, 1, error, 0.95)


def test_an_error_out_of_reach_says_so():
    with pytest.raises(QueryError, match="allow a larger error"):
        epsilon_for(lambda epsilon: 1.0, 0.5)


@pytest.mark.parametrize("bound", [paper_error, every_query_error])
def test_bad_input_is_refused(bound):
    with pytest.raises(QueryError, match="at least one cell"):
        bound(0, 1, 0.95)
    with pytest.raises(QueryError, match="between 0 and 1"):
        bound(10, 1, 95)
    with pytest.raises(BudgetError):
        bound(10, 0, 0.95)
