"""Intervals of many groups at once are those of one group after the other."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.answers.fieller import Functional, NormalErrors, linear_interval, ratio_interval
from sfumato.answers.function_interval import linear_intervals, ratio_intervals

GROUPS = 60


def covariances(rng, sums, size):
    """Random covariances of all sizes; some groups have none, and some one error in all sums."""
    factors = rng.normal(size=(GROUPS, sums, sums)) * 10.0 ** rng.uniform(-6, 6, (GROUPS, 1, 1)) * size
    factors[::7] = 0.0
    factors[3::7, :, 1:] = 0.0
    return factors @ np.swapaxes(factors, 1, 2)


@pytest.mark.parametrize(("sums", "back"), [(1, [0, 0, 0]), (3, [0, 1, 2])])
@pytest.mark.parametrize("sizes", [(1.0, 1.0), (1.0, 1e-9), (1e-9, 1.0), (1.0, 1e-12)])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_all_groups_at_once_are_as_one_after_the_other(sums, back, sizes, confidence):
    rng = np.random.default_rng(5)
    noise, model = (covariances(rng, sums, size) for size in sizes)
    model[5::7] = noise[5::7]  # equal weights, which are merged
    errors = NormalErrors(noise, model, np.arange(GROUPS) % 11 == 10, np.array(back))
    value = rng.normal(size=GROUPS) * 100.0
    answers = (value, value - rng.random(GROUPS), value + rng.random(GROUPS)) if sums > 1 else (value,) * 3
    found = linear_intervals(answers, errors, confidence).at(confidence)
    for group, (terms, one) in enumerate(zip(errors, found, strict=True)):
        if terms is None:
            assert np.isnan([one.value, one.stderr, one.noise]).all() and (one.low, one.high) == (-np.inf, np.inf)
            continue
        alone = linear_interval(Functional(*(float(part[group]) for part in answers)), terms, confidence)
        wanted = alone.at(confidence)
        for name in ("value", "stderr", "low", "high", "noise", "model"):
            assert getattr(one, name) == pytest.approx(getattr(wanted, name), rel=1e-12, abs=0.0)
        assert (one.confidence, one.dates, one.real, one.sure) == (confidence, False, None, None)


def test_a_slice_of_errors_is_that_of_its_groups():
    noise = np.arange(1.0, 5.0).reshape(4, 1, 1)
    errors = NormalErrors(noise, 0.0 * noise, np.zeros(4, dtype=bool), np.zeros(3, dtype=np.int64))
    assert [*errors[1:3]] == [errors[1], errors[2]]
    assert errors[1] != errors[2]


@pytest.mark.parametrize("bounds", [None, (0.0, 1.0)])
@pytest.mark.parametrize(("sums", "back"), [(2, [0, 0, 0, 1, 1, 1]), (6, [0, 1, 2, 3, 4, 5])])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.9999])
def test_all_ratios_at_once_are_as_one_after_the_other(sums, back, confidence, bounds):
    """Denominators are many errors from zero, or a few, or none: the last two need brackets, and are left to them."""
    rng = np.random.default_rng(6)
    noise, model = (covariances(rng, sums, 1e-3) for _ in range(2))
    model[1::7] = 0.0
    errors = NormalErrors(noise, model, np.arange(GROUPS) % 11 == 10, np.array(back))
    size = np.sqrt(np.diagonal(noise + model, axis1=1, axis2=2).max(axis=1)) + 1e-3
    bottom = size * rng.choice([100.0, 20.0, 1.0, -1.0], GROUPS, p=[0.4, 0.4, 0.1, 0.1])
    top = bottom * rng.uniform(-0.2 if bounds is None else 0.0, 0.9, GROUPS)
    wide = size * rng.random(GROUPS) if sums > 2 else np.zeros(GROUPS)
    tops, bottoms = ((each, each - wide, each + wide) for each in (top, bottom))
    found, known = ratio_intervals(tops, bottoms, errors, confidence, bounds)
    assert 0.5 < known.mean() < 0.95
    for group, one in enumerate(found.at(confidence)):
        if known[group]:
            sides = (Functional(*(float(part[group]) for part in side)) for side in (tops, bottoms))
            wanted = ratio_interval(*sides, errors[group], confidence, bounds)
            for name in ("value", "stderr", "low", "high", "noise", "model"):
                assert getattr(one, name) == pytest.approx(getattr(wanted, name), rel=1e-9, abs=1e-12)
