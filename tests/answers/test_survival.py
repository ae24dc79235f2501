"""Kaplan-Meier curves from releases."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from sfumato.answers.survival import SurvivingShare
from sfumato.effort import TooMuchWork
from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.calibration.calibrate import release_of
from sfumato.releases.release import Release
from sfumato.schema import Schema

ATTRIBUTES = {
    "months": {"type": "integer", "lower": 0, "upper": 11},
    "died": {"type": "boolean"},
    "arm": {"type": "category", "values": ["old", "new"]},
}
SHAPE = (12, 2, 2)


def drawn(rows: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    arm = rng.integers(0, 2, rows)
    until, seen = rng.exponential(6 / (1 + 0.5 * arm)), rng.uniform(0, 14, rows)
    months = np.minimum(np.minimum(until, seen).astype(int), 11)
    return months, ((until <= seen) & (until < 12)).astype(int), arm


def released(table, epsilon: int, seed: int = 1, mechanism: str = "cells", **more) -> Release:
    schema = Schema(dataset="trial", privacy_unit="row", attributes=ATTRIBUTES, **more)
    counts = np.bincount(np.ravel_multi_index(table, SHAPE), minlength=48).reshape(SHAPE)
    return release_of(mechanism, (counts, None), Fraction(epsilon), TestingEntropy(seed), schema)


def curve_of(table, arm: int | None = None) -> np.ndarray:
    """The curve of some rows, one after the other."""
    months, died, arms = table
    kept = np.full(len(months), True) if arm is None else arms == arm
    left, found = 1.0, []
    for month in range(12):
        at_risk = int((kept & (months >= month)).sum())
        left *= 1.0 - int((kept & (months == month) & (died == 1)).sum()) / at_risk
        found.append(left)
    return np.array(found)


TABLE = drawn(4_000, np.random.default_rng(1))


def test_without_noise_it_is_the_curve_of_the_rows():
    found = released(TABLE, 10**6).survival("Months", "died", by="arm")
    assert list(found.curves) == ["old", "new"] and found.by == "arm"
    for arm, curve in enumerate(found.curves.values()):
        assert [one.value for one in curve.survival] == pytest.approx(curve_of(TABLE, arm), abs=1e-4)
        middle = int(np.argmax(curve_of(TABLE, arm) <= 0.5))
        assert curve.times == tuple(range(12)) and curve.quantile() == (middle,) * 3


def test_no_noise_at_all_is_no_error():
    found = released(TABLE, 10**6, mechanism="hierarchical").survival("months", "died")
    (curve,) = found.curves.values()
    assert [one.value for one in curve.survival] == pytest.approx(curve_of(TABLE))
    assert all(one.low == one.high == one.value for one in curve.at_risk)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), "half", None])
def test_a_quantile_is_at_a_share(share):
    (curve,) = released(TABLE, 10**6).survival("months", "died").curves.values()
    with pytest.raises(QueryError, match="lies between 0 and 1"):
        curve.quantile(share)


def test_events_may_be_a_condition_and_rows_some():
    release = released(TABLE, 10**6)
    some = tuple(column[TABLE[2] == 1] for column in TABLE)
    (curve,) = release.survival("months", "died AND arm = 'new'", where="arm = 'new'").curves.values()
    assert [one.value for one in curve.survival] == pytest.approx(curve_of(some), abs=1e-4)


def test_the_gradient_is_that_of_differences():
    sums, function = np.array([3.0, -1.0, 4.0, 30.0, 20.0, 9.0]), SurvivingShare(2, 3)
    steps = 1e-6 * np.eye(6)
    differences = [(function(sums + step)[0] - function(sums - step)[0]) / 2e-6 for step in steps]
    assert function(sums)[1] == pytest.approx(differences, abs=1e-8)
    assert np.isnan(function(np.array([3.0, -1.0, 4.0, 30.0, 0.0, 9.0]))[0])


@pytest.mark.parametrize("mechanism", ["cells", "margins"])
@pytest.mark.parametrize("population", [False, True], ids=["table", "population"])
def test_intervals_hold(mechanism, population):
    """60 releases at 95 %, at four times: 44 or fewer hits have a chance under 1e-7 (binomial); 60 % would be seen."""
    rng = np.random.default_rng(2)
    whole = drawn(1_000_000, rng)
    held = np.zeros(12)
    for seed in range(60):
        table = drawn(1_500, rng)
        found = released(table, 2, seed, mechanism).survival("months", "died", population=population)
        truth = curve_of(whole if population else table)
        held += [one.low <= right <= one.high for one, right in zip(found.curves[None].survival, truth, strict=True)]
    assert (held[[0, 2, 5, 8]] > 44).all(), held


def test_it_stays_within_what_can_be_and_ends_where_nobody_may_be_at_risk():
    few = tuple(column[:60] for column in TABLE)
    found = released(few, 1).survival("months", "died")
    ends = [(one.low, one.high) for one in found.curves[None].survival]
    assert all(0.0 <= low <= high <= 1.0 for low, high in ends)
    assert all(before[1] >= after[1] for before, after in pairwise(ends))
    assert np.isnan(found.curves[None].survival[-1].value) and found.curves[None].survival[-1].low == 0.0
    assert "?" in str(found) and found.curves[None].quantile(0.0)[0] is None
    assert "not reached" in str(released(tuple(c[TABLE[0] > 9] for c in TABLE), 10).survival("months", "months > 20"))


def test_a_population_adds_the_error_of_sampling():
    release = released(TABLE, 10, population=8_000)
    about = [release.survival("months", "died", population=asked).curves[None].survival[5] for asked in (False, True)]
    share, at_risk = curve_of(TABLE), np.array([(TABLE[0] >= month).sum() for month in range(6)])
    died = np.array([((TABLE[0] == month) & (TABLE[1] == 1)).sum() for month in range(6)])
    greenwood = share[5] ** 2 * (died / (at_risk * (at_risk - died))).sum() * (1.0 - 4_000 / 8_000)
    assert about[1].stderr ** 2 - about[0].stderr ** 2 == pytest.approx(greenwood, rel=0.05)


def test_it_prints_and_gives_frames():
    found = released(TABLE, 10).survival("months", "died", by="arm")
    lines = str(found).splitlines()
    assert lines[0].startswith("arm = old: half are left until months ") and lines[-1].startswith(
        "note: they are about"
    )
    assert found._repr_html_().startswith("<")
    frame = found.to_arrow()
    assert frame.num_rows == 24 and frame.column_names[:4] == ["months", "arm", "survival", "survival_stderr"]


def test_what_cannot_be_is_refused_in_a_line():
    release = released(TABLE, 10)
    with pytest.raises(QueryError, match="arm has no order; time is a whole number"):
        release.survival("arm", "died")
    with pytest.raises(QueryError, match="there is no attribute 'weeks'; there are months, died, arm"):
        release.survival("weeks", "died")
    with pytest.raises(QueryError, match="months has not two values; write a condition"):
        release.survival("months", "months")
    long = Schema(dataset="t", privacy_unit="row", attributes={"day": {"type": "integer", "lower": 0, "upper": 1_999}})
    counts = (np.ones(2_000, dtype=np.int64), None)
    with pytest.raises(TooMuchWork, match="2,000 values of day, and 1,000 is the most; cut it into bins"):
        release_of("cells", counts, Fraction(1), TestingEntropy(1), long).survival("day", "day > 5")
