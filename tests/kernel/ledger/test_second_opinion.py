"""Releases added up, beside Google's accountants of the same events."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import pytest

from sfumato.kernel.budget import rho_for
from sfumato.kernel.ledger.composition import Loss, composed

dp_accounting = pytest.importorskip("dp_accounting")
pytestmark = pytest.mark.engines

DELTA = Fraction(1, 10**7)


def told(gaussian: int, pure: int, each: str) -> tuple[list[Loss], object]:
    """Losses, and the same as an event: Gaussian releases of epsilon 1, Laplace ones of `each`."""
    rho = rho_for(1, "1e-9")
    losses = [Loss(Fraction(1), Fraction(1, 10**9), rho)] * gaussian + [Loss(Fraction(each))] * pure
    events = [dp_accounting.GaussianDpEvent(1 / sqrt(2 * rho))] * gaussian
    events += [dp_accounting.LaplaceDpEvent(1 / float(Fraction(each)))] * pure
    return losses, dp_accounting.ComposedDpEvent(events)


@pytest.mark.parametrize(
    ("gaussian", "pure", "each"), [(1, 0, "1"), (12, 0, "1"), (60, 0, "1"), (6, 20, "0.1"), (2, 3, "1")]
)
def test_never_less_than_the_privacy_loss_distribution_says(gaussian, pure, each):
    from dp_accounting.pld import PLDAccountant

    losses, event = told(gaussian, pure, each)
    exact = PLDAccountant().compose(event).get_epsilon(float(DELTA))
    ours = float(composed(losses, DELTA).epsilon)
    assert ours >= exact * 0.999  # theirs is on a grid, rounded up
    assert ours <= exact * 1.35


@pytest.mark.parametrize("gaussian", [1, 12, 60])
def test_gaussian_releases_as_by_renyi_divergences_of_many_orders(gaussian):
    from dp_accounting.rdp import RdpAccountant

    losses, event = told(gaussian, 0, "1")
    orders = [1 + 1.02**step / 100 for step in range(600)]
    theirs = RdpAccountant(orders).compose(event).get_epsilon(float(DELTA))
    assert float(composed(losses, DELTA).epsilon) == pytest.approx(theirs, rel=2e-3)
