"""Noise by axis: charges of products too large to track by cell, and the same answers as with a number for each row."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.arrays import ByAxis
from sfumato.domain import Axis, Domain
from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel import charge as charges
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge, Load
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.queries import Identity, Kron, Stack, Total, Tree

# A tree with single children: rows of one level have several weights, and no noise is everywhere.
TREE = Tree.of_levels([[0, 7], [0, 1, 2, 7], [0, 1, 2, 4, 7], range(8)])
SEXES = Stack(Total(2), Identity(2))
KRON = Kron(TREE, SEXES)
AREAS = np.array([1, 2, 2, 3, 4, 4, 1, 1, 1, 1, 1])[: TREE.rows]
WHICH = ByAxis((np.unique(AREAS, return_inverse=True)[1], np.array([0, 1, 1])))
SCALES = [Fraction(40, (1 + area) * (2 - other)) for area in range(WHICH.kinds[0]) for other in range(2)]
DOMAIN = Domain((Axis("area", "integer", np.arange(8.0)), Axis("sex", "integer", np.arange(3.0))))


def curator(pure: bool, budget: Fraction = Fraction(1000), contributions: int = 1) -> Curator:
    cells = np.arange(14)
    allowed = Budget.pure(budget) if pure else Budget.zcdp(budget)
    held = Charge(allowed, contributions, 14, 7)
    return Curator(DOMAIN, Aggregate(cells, cells * 3), {"count": 1}, held, TestingEntropy(7))


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("contributions", [1, 3])
def test_loads_by_group_are_those_of_the_fullest_cells(monkeypatch, pure, contributions):
    """Exactly the largest load of dense matrices for each value of the longest axis, whatever the noises."""
    monkeypatch.setattr(charges, "MOST_TRACKED", 4)
    large = curator(pure, contributions=contributions)
    large.measure(KRON, scales=SCALES, which=WHICH)
    power = 1 if pure else 2
    each = np.array([1 / float(one) if pure else 1 / (2 * float(one)) for one in SCALES])[np.asarray(WHICH)]
    loads = ((np.abs(KRON.dense()) ** power) * each[:, None]).sum(axis=0).reshape(7, 2)
    found = np.array([Fraction(int(n), large.charge._denominator) for n in large.charge._loads], dtype=float)
    assert np.all(found >= loads.max(axis=1) * (1 - 1e-12))
    # SEXES has rows over all cells and over each, so what is fullest for one noise is fullest for all.
    assert np.allclose(found, loads.max(axis=1), rtol=1e-12)
    assert float(large.charge.fullest) == pytest.approx(loads.max())


@pytest.mark.parametrize("pure", [True, False])
def test_what_goes_beyond_the_budget_is_refused_before_noise_is_drawn(monkeypatch, pure):
    monkeypatch.setattr(charges, "MOST_TRACKED", 4)
    exact = curator(pure)
    exact.measure(KRON, scales=SCALES, which=WHICH)
    for budget, allowed in ((exact.charge.fullest, True), (exact.charge.fullest * Fraction(999, 1000), False)):
        one = curator(pure, budget)
        if allowed:
            one.measure(KRON, scales=SCALES, which=WHICH)
        else:
            with pytest.raises(PrivacyError, match="would bring a cell"):
                one.measure(KRON, scales=SCALES, which=WHICH)
            assert not one.charge.fullest
    with pytest.raises(PrivacyError, match="would bring a cell"):  # nor a second time
        again = curator(pure, exact.charge.fullest)
        again.measure(KRON, scales=SCALES, which=WHICH)
        again.measure(KRON, scales=SCALES, which=WHICH)


@pytest.mark.parametrize("tracked", [4, 2**25])
@pytest.mark.parametrize("pure", [True, False])
def test_answers_are_those_of_a_number_for_each_row(monkeypatch, tracked, pure):
    monkeypatch.setattr(charges, "MOST_TRACKED", tracked)
    by_axis = curator(pure).measure(KRON, scales=SCALES, which=WHICH)
    by_row = curator(pure).measure(KRON, scales=SCALES, which=np.asarray(WHICH, dtype=np.int64))
    assert by_axis.answers.tolist() == by_row.answers.tolist()
    assert by_axis.design.variances.tolist() == by_row.design.variances.tolist()


def test_codes_are_copied_before_they_are_charged():
    codes = WHICH.along[0].copy()
    made = curator(True).measure(KRON, scales=SCALES, which=ByAxis((codes, WHICH.along[1])))
    codes[:] = 0
    assert made.which.along[0].tolist() == WHICH.along[0].tolist()
    with pytest.raises(ValueError, match="read-only"):
        made.which.along[0][0] = 3


@pytest.mark.parametrize(
    "which",
    [
        ByAxis((WHICH.along[0],)),
        ByAxis((WHICH.along[0][:-1], WHICH.along[1])),
        ByAxis((WHICH.along[0] - 1, WHICH.along[1])),
        ByAxis((WHICH.along[0], WHICH.along[1] + 1)),
    ],
)
def test_codes_that_do_not_fit_are_refused(which):
    with pytest.raises(QueryError, match="a code for each row along each"):
        curator(True).measure(KRON, scales=SCALES, which=which)
    with pytest.raises(QueryError, match="a code for each row along each"):
        curator(True).measure(Identity(14), scales=SCALES, which=WHICH)


def test_a_load_by_group_is_only_for_a_charge_of_such_groups(monkeypatch):
    load = Load(np.ones(7, dtype=np.int64), Fraction(1, 10), by_group=True)
    with pytest.raises(PrivacyError, match="load by group"):  # it tracks its cells
        Charge(Budget.pure(1), 1, 14, 7).admit([load])
    monkeypatch.setattr(charges, "MOST_TRACKED", 4)
    with pytest.raises(PrivacyError, match="load by group"):
        Charge(Budget.pure(1), 1, 14, 2).admit([load])
    held = Charge(Budget.pure(1), 1, 14, 7)
    held.admit([load])
    held.admit([Load(np.arange(14), Fraction(1, 100))])  # of any other form: the fullest cell counts for all groups
    assert held.fullest == Fraction(1, 10) + Fraction(13, 100)
