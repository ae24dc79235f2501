"""The exact audit of looks at values: what is shipped keeps to its delta, and uses it up."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.kernel.discovering import FoundValue, Held, find_values
from sfumato.lab.audit.attacks.exact_values import (
    MANY,
    PAIRS,
    Kept,
    alone_passes,
    crowd,
    lost_delta,
    person_moves,
    value_findings,
    values_law,
)


def test_every_pair_loses_delta_and_no_more() -> None:
    findings = value_findings()
    assert len(findings) == len(PAIRS) + 2
    assert all(one.sound for one in findings)
    assert all(one.loss == pytest.approx(1, abs=1e-9) for one in findings[: len(PAIRS)])


def test_what_is_published_has_a_distribution_by_all_noises() -> None:
    law = values_law(find_values, Kept(crowd("x", MANY)))
    assert sum(law.values()) == 1
    assert () not in law  # so many people are always found
    assert values_law(find_values, Kept(())) == {(): Fraction(1)}
    assert lost_delta({1: Fraction(1)}, {2: Fraction(1)}) == 1
    assert all(isinstance(one, FoundValue) for found in law for one in found)


def test_dealt_weights_use_up_what_is_paid_for() -> None:
    """Of rho all but a roundings' share; of the thresholds' delta the most, since three values are dealt evenly."""
    assert 0.9999 < person_moves(Held.weights) <= 1
    assert 0.8 < alone_passes(Held.weights) <= 1
