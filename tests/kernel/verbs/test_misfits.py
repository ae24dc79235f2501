"""Misfits: exact, bounded as proved, summed by group, charged cell by cell."""

from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest
from curators import curator_of
from hypothesis import given
from hypothesis import strategies as st

from sfumato.domain import Partition
from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.verbs.measuring import PartsMisfit, group_sums
from sfumato.kernel.verbs.scores import Misfit
from sfumato.lab.audit.attacks import reference as twins
from sfumato.measurement import Gaussian, Laplace
from sfumato.queries import AllRanges, Cells, Identity, Kron, Prefix, Queries, Scaled, Stack, Total, Weighted
from sfumato.schema import Schema

SMALL = Schema.from_dict(
    {
        "dataset": "small",
        "privacy_unit": {"column": "who", "contributions": 2},
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": 3}},
    }
)
COUNTS = [5, 0, 2, 9]
PLENTY = Budget.pure(10**5)
FAMILIES: list[Queries] = [
    Identity(4),
    Prefix(4),
    AllRanges(4),
    Stack(Total(4), Cells(4, np.array([2, 2, 0]))),
    Kron(Prefix(2), Weighted(np.array([[1, -2], [3, 0]]))),
    Scaled(Prefix(4), np.array([1, -3, 2, 0])),
]


def misfit_of(queries: Queries, seed: int = 0) -> Misfit:
    targets = TestingEntropy(seed).words(queries.rows) % np.uint64(7)
    return Misfit(queries, targets.astype(np.int64) - 2)


# -- what is computed, and how far a row of data moves it


@pytest.mark.parametrize("queries", FAMILIES, ids=repr)
def test_a_misfit_moves_by_no_more_than_is_proved_on_every_small_table(queries):
    """All tables of up to 2 rows in each of 4 cells, each with one row more in each cell."""
    misfit, size = misfit_of(queries), np.abs(queries.dense())
    largest = np.zeros_like(size)
    for counts in product(range(3), repeat=4):
        table = np.array(counts)
        before = misfit.scores(table)
        assert before.tolist() == twins.misfits(queries, misfit.targets.tolist(), counts)
        for cell in range(4):
            moved = np.abs(misfit.scores(table + np.eye(4, dtype=int)[cell]) - before)
            largest[:, cell] = np.maximum(largest[:, cell], moved)
    assert (largest <= size).all()
    assert size.max() <= misfit.sensitivity
    # The bound is not only kept but reached: a row of data moves some misfit by the largest weight.
    assert largest.max() == size.max()


@given(
    counts=st.lists(st.integers(0, 2**62), min_size=3, max_size=3),
    target=st.integers(-(2**62), 2**62),
    cell=st.integers(0, 2),
)
def test_beyond_64_bits_a_misfit_still_moves_by_no_more_than_its_weight(counts, target, cell):
    """Sums leave 64 bits here; the distance on the circle of 2^64 numbers is what is computed."""
    weights = [3, -7, 1]
    misfit = Misfit(Weighted(np.array([weights])), np.array([target]))
    more = [count + (place == cell) for place, count in enumerate(counts)]
    (before,), (after,) = (misfit.scores(np.array(each)).tolist() for each in (counts, more))
    assert abs(after - before) <= abs(weights[cell])
    apart = (sum(w * c for w, c in zip(weights, counts, strict=True)) - target) % 2**64
    assert before == min(apart, 2**64 - apart, 2**63 - 1)


def test_the_one_distance_that_does_not_fit_is_cut_off():
    misfit = Misfit(Weighted(np.array([[2, 1]])), np.array([0]))
    at = [misfit.scores(np.array([2**62 - 1, extra])).item() for extra in range(5)]
    assert at == [2**63 - 2, 2**63 - 1, 2**63 - 1, 2**63 - 1, 2**63 - 2]


@pytest.mark.parametrize("targets", [[1.0] * 4, [1] * 3, [[1] * 4], [2**63] * 4, [2**62 + 1] * 4, ["1"] * 4])
def test_targets_that_are_no_whole_numbers_are_refused(targets):
    with pytest.raises(QueryError):
        Misfit(Identity(4), np.array(targets))


def test_targets_are_copied_and_cannot_change():
    mine = np.array([1, 2, 3, 4])
    misfit = Misfit(Identity(4), mine)
    mine[:] = 0
    assert misfit.targets.tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match="WRITEABLE"):
        misfit.targets.setflags(write=True)
    object.__setattr__(misfit, "targets", mine)  # whoever goes this far is still stopped
    with pytest.raises(PrivacyError, match="afresh"):
        curator_of(SMALL, COUNTS).select(misfit, Budget.pure(1))


# -- choosing the row that is answered worst


def test_select_finds_the_worst_row_and_follows_its_law():
    misfit = Misfit(Prefix(4), np.array([5, 5, 8, 15]))  # misfits 0, 0, 1, 1
    assert curator_of(SMALL, [5, 0, 2, 90], epsilon=10**5).select(misfit, PLENTY) == 3
    # 4,000 choices against the exact law: chi-square with 3 degrees of freedom exceeds 31.8 with chance 6e-7.
    runs = 4_000
    curator = curator_of(SMALL, COUNTS, epsilon=4 * runs, entropy=TestingEntropy(4))
    seen = np.bincount([curator.select(misfit, Budget.pure(4)) for _ in range(runs)], minlength=4)
    law = np.array([1, 1, exp(1), exp(1)])  # epsilon / (2 * k * sensitivity) = 1
    law *= runs / law.sum()
    assert ((seen - law) ** 2 / law).sum() < 31.8


def test_select_scales_with_the_largest_weight():
    """Weights of 1,000 and a budget of 1: misfits of a few rows' difference cannot be told apart."""
    misfit = Misfit(Scaled(Cells(4, np.array([0, 2])), np.array([1000, 1000])), np.array([0, 0]))
    # 2,000 choices of nearly equal chance, exp(3000 / 4000) to 1: 1,358 +- 21 are expected; 6 standard errors.
    curator = curator_of(SMALL, COUNTS, epsilon=2000, entropy=TestingEntropy(1))
    first = sum(curator.select(misfit, Budget.pure(1)) == 0 for _ in range(2000))
    assert abs(first - 2000 / (1 + exp(-0.75))) < 6 * 21


# -- sums of misfits


def test_sums_by_group_are_exact_but_for_their_noise():
    misfit = Misfit(Prefix(4), np.array([0, 6, 6, 6]))  # misfits 5, 1, 1, 10
    curator = curator_of(SMALL, COUNTS, epsilon=10**6)
    assert curator.measure_misfit(misfit, PLENTY).answers.tolist() == [17]
    found = curator.measure_misfit(misfit, PLENTY, np.array([1, 0, 3, 1]))
    assert found.answers.tolist() == [1, 15, 0, 1]  # group 2 has no rows
    assert found.of == "misfit" and found.queries.rows == 4
    with pytest.raises(ValueError, match="read-only"):
        found.answers[0] = 0


def test_noise_and_charge_are_those_of_the_rows_themselves():
    misfit = Misfit(Prefix(4), np.zeros(4, dtype=int))
    curator = curator_of(SMALL, COUNTS, epsilon=1)
    found = curator.measure_misfit(misfit, Budget.pure(1), np.arange(4) % 2)
    assert found.noise == Laplace(Fraction(2 * 4))  # 2 rows a person, the first cell is in 4 prefixes
    assert curator.charge.fullest == curator.charge.limit
    # Cell 3 is in one prefix only, so it has borne a quarter and has room for the rest, exactly.
    curator.measure(Cells(4, np.array([3])), Budget.pure("0.75"))
    with pytest.raises(PrivacyError):
        curator.measure_misfit(Misfit(Cells(4, np.array([3])), np.array([0])), Budget.pure("1e-9"))


def test_under_zcdp_the_groups_moves_are_bounded_by_their_sum():
    curator = curator_of(SMALL, COUNTS, rho=Fraction(1, 2))
    misfit = Misfit(Prefix(4), np.zeros(4, dtype=int))
    found = curator.measure_misfit(misfit, Budget.zcdp(Fraction(1, 2)), np.arange(4))
    assert found.noise == Gaussian(Fraction(2**2 * 4**2))  # k^2 l1^2 / (2 rho)
    assert curator.charge.fullest == curator.charge.limit
    cells = curator_of(SMALL, COUNTS, rho=Fraction(1, 2))
    assert cells.measure_misfit(
        Misfit(Identity(4), np.zeros(4, dtype=int)), Budget.zcdp(Fraction(1, 2))
    ).noise == Gaussian(Fraction(2**2))


@given(values=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=30), data=st.data())
def test_sums_are_taken_modulo_2_to_the_64(values, data):
    labels = data.draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values)))
    sums = group_sums(np.array(values), np.array(labels), 4).tolist()
    for group in range(4):
        assert (sums[group] - sum(v for v, g in zip(values, labels, strict=True) if g == group)) % 2**64 == 0


def test_a_view_is_charged_where_it_looks():
    curator = curator_of(SMALL, COUNTS, epsilon=1)
    view = curator.reduce(Partition(curator.domain, np.array([0, 0, 1, -1])))
    view.measure_misfit(Misfit(Identity(2), np.array([5, 1])), Budget.pure(1))
    curator.measure(Cells(4, np.array([3])), Budget.pure(1))  # not in view, so not charged
    with pytest.raises(PrivacyError):
        curator.measure(Cells(4, np.array([1])), Budget.pure("0.001"))


# -- refusals cost nothing


class Liar(Misfit):
    """Claims that nothing moves it."""

    @property
    def sensitivity(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("misfit", "groups", "error"),
    [
        (Liar(Identity(4), np.zeros(4, dtype=int)), None, PrivacyError),
        (Misfit(Identity(5), np.zeros(5, dtype=int)), None, QueryError),
        (Misfit(Weighted(np.full((1, 4), 0.5)), np.array([0])), None, QueryError),
        (Misfit(Weighted(np.zeros((1, 4), dtype=int)), np.array([0])), None, QueryError),
        (Misfit(Scaled(Total(4), np.array([2**31])), np.array([0])), None, QueryError),
        (Misfit(Identity(4), np.zeros(4, dtype=int)), [0, 1, 2], QueryError),
        (Misfit(Identity(4), np.zeros(4, dtype=int)), [0, 1, 2, -1], QueryError),
        (Misfit(Identity(4), np.zeros(4, dtype=int)), [0.0, 1.0, 2.0, 3.0], QueryError),
        (Misfit(Identity(4), np.zeros(4, dtype=int)), [0, 0, 0, 2**40], QueryError),
    ],
)
def test_what_does_not_fit_is_refused_and_costs_nothing(misfit, groups, error):
    curator = curator_of(SMALL, COUNTS)
    with pytest.raises(error):
        curator.measure_misfit(misfit, Budget.pure(1), None if groups is None else np.array(groups))
    assert curator.charge.fullest == 0


def test_select_refuses_misfits_that_lie():
    for misfit in (Liar(Identity(4), np.zeros(4, dtype=int)), Misfit(Identity(5), np.zeros(5, dtype=int))):
        curator = curator_of(SMALL, COUNTS)
        with pytest.raises((PrivacyError, QueryError)):
            curator.select(misfit, Budget.pure(1))
        assert curator.charge.fullest == 0


def test_a_budget_is_spent_in_its_own_kind():
    with pytest.raises(QueryError, match="in rho"):
        curator_of(SMALL, COUNTS).measure_misfit(Misfit(Total(4), np.array([0])), Budget.zcdp(1))


# -- misfits of margins

SQUARE = Schema.from_dict(
    {
        "dataset": "square",
        "privacy_unit": {"column": "who", "contributions": 2},
        "attributes": {"a": {"type": "boolean"}, "b": {"type": "integer", "lower": 0, "upper": 2}},
    }
)
IN_SQUARE = [[5, 0, 2], [1, 1, 9]]
GUESSES = [(["a"], np.array([7, 9])), (["b"], np.array([0, 1, 11])), (["b", "a"], np.array([5, 0, 2, 0, 2, 9]))]


def test_misfits_of_margins_are_exact_but_for_their_noise():
    curator = curator_of(SQUARE, IN_SQUARE, epsilon=10**6)
    assert curator.measure_margin_misfits(GUESSES, PLENTY).answers.tolist() == [2, 6, 2]
    found = curator.measure_margin_misfits(GUESSES, PLENTY, np.array([3, 0, 3]))
    assert found.answers.tolist() == [6, 0, 0, 4] and found.of == "misfit"
    with pytest.raises(ValueError, match="read-only"):
        found.answers[0] = 0
    total = [([], np.array([10])), ([], np.array([30]))]  # of one cell, and the same margin twice
    assert curator.measure_margin_misfits(total, PLENTY).answers.tolist() == [8, 12]


def test_every_margin_of_a_group_is_paid_for():
    for groups, l1, squares in ((None, 3, 3), ([0, 0, 0], 3, 9), ([0, 4, 4], 3, 5)):
        labels = None if groups is None else np.array(groups)
        curator = curator_of(SQUARE, IN_SQUARE, epsilon=1)
        assert curator.measure_margin_misfits(GUESSES, Budget.pure(1), labels).noise == Laplace(Fraction(2 * l1))
        assert curator.charge.fullest == curator.charge.limit
        curator = curator_of(SQUARE, IN_SQUARE, rho=Fraction(1, 2))
        found = curator.measure_margin_misfits(GUESSES, Budget.zcdp(Fraction(1, 2)), labels)
        assert found.noise == Gaussian(Fraction(4 * squares))  # k^2 l2^2 / (2 rho)
        assert curator.charge.fullest == curator.charge.limit
        with pytest.raises(PrivacyError):
            curator.measure(Cells(6, np.array([2])), Budget.zcdp(Fraction(1, 10**9)))


@given(st.lists(st.integers(0, 3), min_size=6, max_size=6), st.integers(0, 5), st.data())
def test_a_row_moves_a_group_by_no_more_than_the_number_of_its_margins(counts, cell, data):
    """With the same noise on both tables the answers differ by what the row moves."""
    guesses = [
        (names, np.array(data.draw(st.lists(st.integers(-2, 9), min_size=size, max_size=size))))
        for names, size in (([], 1), (["a"], 2), (["b"], 3), (["a", "b"], 6))
    ]
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=4, max_size=4)))
    more = [count + (place == cell) for place, count in enumerate(counts)]
    one, other = (
        curator_of(SQUARE, table, entropy=TestingEntropy(5)).measure_margin_misfits(guesses, Budget.pure(1), labels)
        for table in (counts, more)
    )
    moves = np.abs(one.answers - other.answers)
    assert (moves <= np.bincount(labels, minlength=len(moves))).all()


def test_misfits_of_margins_wrap_round_and_do_not_fail():
    """Two cells at the far end of 64 bits: their sum is taken modulo 2^64, like the noise that hides it."""
    curator = curator_of(SQUARE, [[2**62, 0, 0], [0, 2**62, 2**62]], epsilon=10**6)
    guess = np.full(6, -(2**62))
    found = curator.measure_margin_misfits([(["a", "b"], guess)], PLENTY)
    assert int(found.answers[0]) % 2**64 == (3 * (2**63 - 1) + 3 * 2**62) % 2**64  # 2^63 is cut off


class Fickle(list):
    """Says something else each time it is looked through."""

    def __iter__(self):
        self.append(self[0])
        return super().__iter__()


def test_what_is_asked_is_taken_down_once():
    curator = curator_of(SQUARE, IN_SQUARE, epsilon=1)
    found = curator.measure_margin_misfits(Fickle(GUESSES), Budget.pure(1))
    assert len(found.answers) == 4 and found.noise == Laplace(Fraction(8))


@pytest.mark.parametrize(
    ("guesses", "groups", "said"),
    [
        ([], None, "there must be one at least"),
        ([], [0], "as many group labels"),
        ([(["a"], np.array([1, 2, 3]))], None, "2 queries need as many targets"),
        ([(["a", "a"], np.array([1, 2, 3, 4]))], None, "2 queries need as many targets"),
        ([(["a"], np.array([1.0, 2.0]))], None, "in whole numbers"),
        ([(["a"], np.array([1, 2**63], dtype=np.uint64))], None, "beyond 2"),
        ([(["c"], np.array([1, 2]))], None, "no attribute 'c'"),
        ([("a", np.array([1, 2]))], None, "takes a list of attributes"),
        (GUESSES, [0, 1], "as many group labels"),
        (GUESSES, [0, 1, -1], "group labels count from 0"),
        (GUESSES, [0, 1, 2**40], "group labels count from 0"),
        (GUESSES, [0.0, 1.0, 2.0], "in whole numbers"),
    ],
)
def test_guesses_that_do_not_fit_are_refused_and_cost_nothing(guesses, groups, said):
    curator = curator_of(SQUARE, IN_SQUARE)
    with pytest.raises(QueryError, match=said):
        curator.measure_margin_misfits(guesses, Budget.pure(1), None if groups is None else np.array(groups))
    assert curator.charge.fullest == 0


def test_misfits_of_margins_beyond_the_budget_are_refused_before_a_row_is_looked_at():
    curator = curator_of(SQUARE, IN_SQUARE)
    for budget, error in ((Budget.pure(2), PrivacyError), (Budget.zcdp(1), QueryError)):
        with pytest.raises(error):
            curator.measure_margin_misfits(GUESSES, budget)
    assert curator.charge.fullest == 0


# -- misfits of margins part by part

PARTS = [
    (["a"], np.array([7, 9]), None),
    (["b"], np.array([1, 11]), np.array([1, 0, 1])),
    (["a", "b"], np.array([0, 20, 3]), np.array([1, 1, 0, 1, 0, 1])),  # nothing lies in the third part
]


def test_misfits_of_parts_are_exact_but_for_their_noise():
    """Parts hold: 1 and 17 of b; 3 and 15 of both."""
    curator = curator_of(SQUARE, IN_SQUARE, epsilon=10**6)
    assert curator.measure_margin_misfits(PARTS, PLENTY).answers.tolist() == [2, 6, 11]
    found = curator.measure_margin_misfits(PARTS, PLENTY, np.array([1, 0, 1]))
    assert found.answers.tolist() == [6, 13] and found.queries.rows == 2


def test_parts_cost_what_cells_cost():
    for budget, limit in ((Budget.pure(1), {"epsilon": 1}), (Budget.zcdp(Fraction(1, 2)), {"rho": Fraction(1, 2)})):
        noises = []
        for guesses in (PARTS, GUESSES):
            curator = curator_of(SQUARE, IN_SQUARE, **limit)
            noises.append(curator.measure_margin_misfits(guesses, budget, np.array([0, 1, 1])).noise)
            assert curator.charge.fullest == curator.charge.limit
        assert noises[0] == noises[1]


@given(st.lists(st.integers(0, 3), min_size=6, max_size=6), st.integers(0, 5), st.data())
def test_a_row_moves_parts_of_a_group_by_no_more_than_the_number_of_its_margins(counts, cell, data):
    """With the same noise on both tables the answers differ by what the row moves."""
    guesses = []
    for names, size in (([], 1), (["a"], 2), (["b"], 3), (["a", "b"], 6)):
        guess = np.array(data.draw(st.lists(st.integers(-2, 9), min_size=1, max_size=4)))
        parts = data.draw(st.lists(st.integers(0, len(guess) - 1), min_size=size, max_size=size))
        guesses.append((names, guess, np.array(parts)))
    labels = np.array(data.draw(st.lists(st.integers(0, 2), min_size=4, max_size=4)))
    more = [count + (place == cell) for place, count in enumerate(counts)]
    one, other = (
        curator_of(SQUARE, table, entropy=TestingEntropy(5)).measure_margin_misfits(guesses, Budget.pure(1), labels)
        for table in (counts, more)
    )
    moves = np.abs(one.answers - other.answers)
    assert (moves <= np.bincount(labels, minlength=len(moves))).all()


@pytest.mark.parametrize(
    ("guess", "parts", "said"),
    [
        ([1, 2], [0, 1], "3 cells needs as many parts, and 2 were named"),
        ([1, 2], [0, 1, 1, 0], "3 cells needs as many parts, and 4 were named"),
        ([1, 2], [0, 1, 2], "from 0 to 1; some lie outside"),
        ([1, 2], [0, -1, 1], "from 0 to 1; some lie outside"),
        ([1, 2], [0.0, 1.0, 1.0], "whole numbers"),
        ([1, 2], [True, False, True], "whole numbers"),
        ([1, 2], [[0, 1, 1]], "flat list"),
        ([1, 2], [], "the list is empty"),
        ([1.0, 2.0], [0, 1, 1], "in whole numbers"),
        ([[1, 2]], [0, 1, 1], "in whole numbers"),
        (1, [0, 0, 0], "in whole numbers"),
        ([], [0, 0, 0], "some lie outside"),
        ([1, 2**63], [0, 1, 1], "beyond 2|in whole numbers"),
    ],
)
def test_parts_that_do_not_fit_are_refused_and_cost_nothing(guess, parts, said):
    curator = curator_of(SQUARE, IN_SQUARE)
    with pytest.raises(QueryError, match=said):
        curator.measure_margin_misfits([(["b"], np.array(guess), np.array(parts))], Budget.pure(1))
    assert curator.charge.fullest == 0


def test_parts_are_copied_and_cannot_change():
    guess, parts = np.array([1, 11]), np.array([1, 0, 1])
    misfit = PartsMisfit.of(3, guess, parts)
    counts = np.array([6, 1, 11])
    assert misfit.total(counts) == 6
    guess[:], parts[:] = 0, 0
    assert misfit.total(counts) == 6
    assert misfit.parts is not None
    with pytest.raises(ValueError, match="WRITEABLE"):
        misfit.parts.setflags(write=True)
