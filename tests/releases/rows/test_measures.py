from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.releases.rows.measures import Sums, fit_means, spread_values
from sfumato.releases.rows.model import RandomNumbers
from sfumato.releases.rows.raking import LaidOut
from sfumato.schema import Schema
from sfumato.schema.parts import Measure

ROWS = 40_000


def measure(lower: str, upper: str, step: str) -> Measure:
    return Measure(lower=Fraction(lower), upper=Fraction(upper), step=Fraction(step))


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.02, 0.3, 0.5, 0.75, 0.98, 1.0])
@pytest.mark.parametrize("bounds", [("0", "100", "1"), ("-3", "12.5", "0.01"), ("0", "50000", "1000")])
def test_values_spread_between_the_bounds_and_keep_their_mean(bounds, share):
    """40,000 values: their mean is off by more than five of its own deviations less often than once in a million."""
    kind = measure(*bounds)
    low, high, step = float(kind.lower), float(kind.upper), float(kind.step)
    values = spread_values(kind, np.full(ROWS, low + share * (high - low)), RandomNumbers(5))
    assert values.min() >= low and values.max() <= high
    error = max(values.std() / ROWS**0.5, step / ROWS)
    assert abs(values.mean() - (low + share * (high - low))) < 5 * error + 1e-9 * (high - low)
    assert np.allclose(values / step, np.round(values / step))
    if 0.02 <= share <= 0.98 and step < 500:
        assert len(np.unique(values)) > 5


def test_means_fit_groups_and_shy_away_from_noise():
    """Two values of a hold a mean of 20 and 80; the cells under them are too noisy to say so themselves."""
    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "attributes": {"a": {"type": "boolean"}, "x": {"type": "integer", "lower": 0, "upper": 99}},
            "measures": {"cost": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
        }
    )
    rows = np.full((2, 100), 50.0)
    sums = np.array([[-30.0], [30.0]]) * rows + np.random.default_rng(1).normal(0, 2000, (2, 100))
    known = Sums(schema.measures["cost"], sums, 2000.0, rows.sum(), sums.sum())
    means = fit_means(known, rows, LaidOut((2, 100)), schema.domain)
    assert means.min() >= 0 and means.max() <= 100
    for place, true in enumerate((20, 80)):  # 100 noises of 2000 on 5,000 rows: a deviation of 4, drawn in by a little
        assert abs(means[place].mean() - true) < 12
    assert means[0].std() < 25  # each by itself would have 40
