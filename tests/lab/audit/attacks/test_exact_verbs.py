"""The exact audit of misfits, first answers and partitions: sound as shipped, and able to tell what is not."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest

from sfumato.errors import PrivacyError
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs import measuring, partitioning
from sfumato.kernel.verbs.partitioning import Cutting
from sfumato.lab.audit.attacks import reference as twins
from sfumato.lab.audit.attacks.exact import largest_loss
from sfumato.lab.audit.attacks.exact_verbs import (
    MISFITS,
    PRICES,
    cutting_four,
    first_above_law,
    largest_ratio,
    looking,
    summing,
    verb_findings,
)
from sfumato.lab.audit.attacks.reference import WAYS, largest_gap, partition_law
from sfumato.measurement import Laplace

ONE, FOUR = Fraction(1), Fraction(4)


def test_nothing_shipped_exceeds_its_claim_and_most_comes_close():
    findings = verb_findings()
    assert all(finding.sound for finding in findings), [f for f in findings if not f.sound]
    for words, least in (("select misfit", 0.98), ("sums of", 1), ("first misfit", 0.98), ("best partition", 0.9)):
        named = [finding for finding in findings if finding.name.startswith(words)]
        assert {"1 row", "2 rows"} == {f.name.split(", ")[-1].removesuffix(" per person") for f in named}
        # An audit that always said 0 would be seen.
        assert max(f.loss / float(f.claimed) for f in named) > least - 1e-9


# -- the laws


def test_first_above_by_hand():
    """One value at the threshold: it passes if its noise exceeds the threshold's; equal noise does not."""
    law = first_above_law([3], 3, ONE, ONE)
    r = exp(-1)
    equal = ((1 - r) / (1 + r)) ** 2 * (1 + r**2) / (1 - r**2)
    assert law == pytest.approx([(1 - equal) / 2, (1 + equal) / 2], abs=1e-12)
    assert sum(first_above_law([1, 5, 2, -4], 2, Fraction(3, 2), Fraction(7, 3))) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("counts", [(2, 0, 1, 1), (0, 3, 3, 0)])
def test_the_law_of_partitions_is_that_of_a_simulation(counts):
    """100,000 draws: 5 degrees of freedom, chi-square 36.9 has 6e-7."""
    from sfumato.kernel.sampling.entropy import TestingEntropy
    from sfumato.lab.audit.mutants.noise import PRICES as AT
    from sfumato.lab.audit.mutants.noise import cut

    runs = 100_000
    seen = np.bincount(cut(counts, ONE, Fraction(2))(0, runs, TestingEntropy(2))[:, 0], minlength=len(WAYS))
    law = runs * np.array(partition_law(counts, AT, ONE, Fraction(2)))
    assert law.sum() == pytest.approx(runs, rel=1e-9) and law.min() > 100
    assert ((seen - law) ** 2 / law).sum() < 36.9


def test_the_law_of_partitions_with_exact_single_cells_by_hand():
    """All stay single if no longer bucket wins: each needs noise below its own bound, independently of the others."""
    law = partition_law((1, 0, 1, 1), (2, 4, 8), None, Fraction(2))
    r = exp(-1 / 2)
    none = (1 - r) / (1 + r)  # the chance of no noise; three buckets deviate by 1 and may have as much
    assert law[0] == pytest.approx(none * (none * (1 + 2 * r)) ** 3, rel=1e-9)


# -- what must be caught


class OneRowEach(Curator):
    """Forgets that a person has several rows."""

    def _above_noises(self, epsilon, misfit):
        return Laplace(2 * misfit.sensitivity / epsilon), Laplace(4 * misfit.sensitivity / epsilon)


class OneShift(Curator):
    """Halves the noise of what is compared, as is right for counts, which all move one way."""

    def _above_noises(self, epsilon, misfit):
        return tuple(Laplace(2 * self.charge.contributions * misfit.sensitivity / epsilon) for _ in range(2))


def test_too_little_noise_on_a_first_answer_is_caught():
    guesses = MISFITS["guesses"]
    assert largest_ratio(looking(guesses, 0, ONE, 2), 3, 2, 2)[0] <= 1 + 1e-9
    assert largest_ratio(looking(guesses, 0, ONE, 2, kind=OneRowEach), 3, 2, 2)[0] > 1.4
    assert largest_ratio(looking(guesses, 0, ONE, 1, kind=OneShift), 3, 2, 1)[0] > 1.4


def test_too_little_noise_on_sums_of_misfits_is_caught(monkeypatch):
    monkeypatch.setattr(measuring, "misfit_noise", lambda misfit, budget, k: Laplace(k / budget.epsilon))
    monkeypatch.setattr(Charge, "admit", lambda self, loads: None)
    labels = [0, 1, 0]
    assert largest_loss(summing(MISFITS["prefixes"], labels, ONE, 1), (3,), 3, 1)[0] == pytest.approx(3)


def test_too_little_noise_on_partitions_is_caught(monkeypatch):
    halved = lambda *a: Cutting(4, tuple(p * 256 for p in PRICES[1]), Laplace(ONE / 8), Laplace(ONE / 4))  # noqa: E731
    monkeypatch.setattr(partitioning, "cutting", halved)
    assert largest_ratio(cutting_four(PRICES[1], FOUR, 1), 4, 2, 1)[0] > 5


def test_exact_single_cells_lose_more_than_all():
    """All stay single on the even table if three buckets have no noise, on the other if they have 1 at most."""
    tables = (1, 0, 1, 1), (1, 1, 1, 1)
    loss = largest_gap(*(partition_law(table, (2, 4, 8), None, Fraction(2)) for table in tables))
    assert loss == pytest.approx(3 * log(1 + 2 * exp(-1 / 2)), rel=1e-6)
    assert loss > 2.3  # epsilon is 1


def test_other_noise_has_no_closed_form():
    class Silent(Curator):
        def first_above(self, misfit, threshold, budget, *, start=0):
            self._entropy.log.append(object())

    with pytest.raises(PrivacyError, match="no closed form"):
        looking(MISFITS["ranges"], 1, ONE, 1, kind=Silent)((1, 0, 0))


# -- the twins


def test_twins_by_hand():
    assert twins.deviation([4, 0, 1]) == 4
    assert twins.buckets(3) == [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2)]
    assert twins.sums_by_group([3, 4, 5], [1, 0, 1]) == [4, 8]
    assert twins.cheapest_labels([5, 5, 0], [Fraction(2), Fraction(3)], [0] * 5) == [0, 0, 1]
    # Rounded down to 256ths a price of 1/300 is free, and then the shorter last bucket wins the tie.
    assert twins.cheapest_labels([5, 5], [Fraction(1, 300), Fraction(0)], [0] * 3) == [0, 1]
