"""The first misfit above a threshold: its law, its charge, its refusals."""

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of

from sfumato.domain import Partition
from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.verbs.measuring import LARGEST
from sfumato.kernel.verbs.scores import Misfit
from sfumato.kernel.verbs.thresholds import above_noises, first_exceeding
from sfumato.lab.audit.attacks import reference as twins
from sfumato.lab.audit.attacks.exact_verbs import first_above_law
from sfumato.lab.audit.attacks.tape import Watched, watching
from sfumato.measurement import Laplace
from sfumato.queries import Cells, Identity, Prefix, Scaled, Weighted
from sfumato.schema import Schema

SMALL = Schema.from_dict(
    {
        "dataset": "small",
        "privacy_unit": {"column": "who", "contributions": 2},
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": 3}},
    }
)
COUNTS = [5, 0, 2, 9]
MISFIT = Misfit(Prefix(4), np.array([5, 8, 0, 20]))  # misfits 0, 3, 7, 4


@pytest.mark.parametrize(
    ("threshold", "start", "found"),
    [(-1, 0, 0), (0, 0, 1), (3, 0, 2), (3, 3, 3), (4, 3, None), (6, 0, 2), (7, 0, None), (-9, 4, None)],
)
def test_the_first_above_is_found_at_a_large_budget(threshold, start, found):
    """Noise of scale 8 / 10,000 is other than 0 with a chance below 1e-500."""
    curator = curator_of(SMALL, COUNTS, epsilon=10**4)
    assert curator.first_above(MISFIT, threshold, Budget.pure(10**4), start=start) == found
    assert type(found) in (int, type(None))


def test_it_follows_its_law():
    """4,000 calls at epsilon 4 against the exact law: chi-square with 4 degrees of freedom exceeds 34.1 with 7e-7."""
    runs, entropy = 4_000, TestingEntropy(5)
    curator = curator_of(SMALL, COUNTS, epsilon=4 * runs, entropy=entropy)
    seen = [curator.first_above(MISFIT, 3, Budget.pure(4)) for _ in range(runs)]
    counted = np.bincount([4 if place is None else place for place in seen], minlength=5)
    law = runs * np.array(first_above_law([0, 3, 7, 4], 3, Fraction(1), Fraction(2)))  # 2 rows a person
    assert law.min() > 20
    assert ((counted - law) ** 2 / law).sum() < 34.1


def test_noise_grows_with_the_largest_weight_and_the_rows_of_a_person():
    misfit = Misfit(Scaled(Prefix(4), np.array([1, -3, 1, 1])), np.zeros(4, dtype=int))
    curator = curator_of(SMALL, COUNTS, entropy=Watched(1))
    with watching(Curator):
        curator.first_above(misfit, 10, Budget.pure(1), start=1)
    rows, threshold = curator._entropy.log
    assert (rows.noise, len(rows.values)) == (Laplace(Fraction(4 * 2 * 3)), 3)
    assert (threshold.noise, len(threshold.values)) == (Laplace(Fraction(2 * 2 * 3)), 1)


@pytest.mark.parametrize("counts", [[0, 0, 0, 0], COUNTS, [2**40, 1, 2**61, 3]])
def test_as_many_random_bits_are_used_whatever_the_table(counts):
    """All rows draw their noise and are compared, so neither the time nor the bits drawn tell where the first is."""
    curator = curator_of(SMALL, counts, entropy=Watched(3))
    with watching(Curator):
        curator.first_above(MISFIT, 3, Budget.pure(1))
    assert [len(call.values) for call in curator._entropy.log] == [4, 1]


def test_every_cell_in_view_is_charged_the_whole_budget():
    curator = curator_of(SMALL, COUNTS, epsilon=1)
    view = curator.reduce(Partition(curator.domain, np.array([0, 1, 0, -1])))
    view.first_above(Misfit(Cells(2, np.array([0])), np.array([0])), 5, Budget.pure(1))
    assert curator.charge.fullest == curator.charge.limit == Fraction(1, 2)
    curator.measure(Cells(4, np.array([3])), Budget.pure(1))
    with pytest.raises(PrivacyError):  # the query of the view does not touch it, but it is charged nevertheless
        curator.measure(Cells(4, np.array([1])), Budget.pure("0.001"))


def test_numbers_that_would_overflow_are_cut_off():
    values = np.array([2**63 - 1, 0])
    most = np.array([2**62 - 1, 2**62 - 1])
    assert first_exceeding(values, LARGEST, most, np.array([2**62 - 1])) is None
    assert first_exceeding(values, LARGEST - 1, most, np.array([2**62 - 1])) == 0
    assert first_exceeding(values, -LARGEST, -most, np.array([1 - 2**62])) == 0
    assert first_exceeding(values[1:], -LARGEST, -most[1:], np.array([1 - 2**62])) == 0
    assert first_exceeding(np.array([], dtype=int), 0, np.array([], dtype=int), np.array([0])) is None


def test_each_value_needs_noise_of_its_own():
    for of_values, of_threshold in ((np.array([1]), np.array([1])), (np.array([1, 1]), np.array([], dtype=int))):
        with pytest.raises(PrivacyError, match="its own"):
            first_exceeding(np.array([1, 2]), 0, of_values, of_threshold)
    with pytest.raises(QueryError):
        above_noises(Fraction(1), 0)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"budget": Budget.zcdp(1)}, QueryError),
        ({"threshold": 1.5}, QueryError),
        ({"threshold": 2**61 + 1}, QueryError),
        ({"start": 5}, QueryError),
        ({"start": -1}, QueryError),
        ({"start": "0"}, QueryError),
        ({"misfit": Misfit(Identity(3), np.zeros(3, dtype=int))}, QueryError),
        ({"misfit": Misfit(Weighted(np.zeros((2, 4), dtype=int)), np.array([1, 2]))}, QueryError),
        ({"misfit": Identity(4)}, PrivacyError),
    ],
)
def test_what_does_not_fit_is_refused_and_costs_nothing(arguments, error):
    curator = curator_of(SMALL, COUNTS)
    given = {"misfit": MISFIT, "threshold": 3, "budget": Budget.pure(1)} | arguments
    with pytest.raises(error):
        curator.first_above(given.pop("misfit"), given.pop("threshold"), given.pop("budget"), **given)
    assert curator.charge.fullest == 0


def test_under_rho_it_says_what_to_do_instead():
    with pytest.raises(QueryError, match="Gaussian noise instead"):
        curator_of(SMALL, COUNTS, rho=Fraction(1)).first_above(MISFIT, 3, Budget.zcdp(1))


def test_the_twin_agrees():
    assert twins.first_above([1, 5, 9], 4) == 1 and twins.first_above([1], 1) is None
