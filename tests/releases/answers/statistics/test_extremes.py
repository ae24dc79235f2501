"""The least and the greatest value of estimates that lean on a model."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.audit.calibration.calibrate import release_of
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 63, "missing": "keep"},
            "y": {"type": "integer", "lower": 0, "upper": 7},
            "z": {"type": "category", "values": ["a", "b"]},
        },
    }
)
ASKED = "SELECT MIN(x), MAX(x), MIN(x) FILTER (WHERE z = 'b'), MAX(y) FROM t"
TRUTH = (13, 45, 17, 5)
RUNS = 20


def table():
    """Many rows up to a sharp edge, on which no power of two falls."""
    at = np.random.default_rng(2)
    x, y, z = at.integers(13, 46, 6000), at.integers(0, 6, 6000), at.random(6000) < 0.3
    x[z & (x < 17)] += 20
    x[:4], y[:4], z[:4] = (13, 45, 17, 20), (0, 0, 0, 5), (0, 0, 1, 0)
    place = np.ravel_multi_index((x, y, z.astype(int)), SCHEMA.domain.shape)
    return np.bincount(place, minlength=SCHEMA.domain.size).reshape(SCHEMA.domain.shape)


@pytest.mark.parametrize("mechanism", ["sfumato", "dawa"])
def test_a_sharp_edge_lies_in_the_interval(mechanism):
    """20 releases, each end missed once in twenty at most: 9 of 20 or more have a chance below 1e-6 (binomial).

    An interval that asked the model missed the least value of all rows in most releases.
    """
    counts, held, widths = table(), np.zeros(len(TRUTH)), np.zeros(len(TRUTH))
    for run in range(RUNS):
        release = release_of(mechanism, (counts, None), Fraction(1), TestingEntropy(run), SCHEMA)
        (row,) = release.query(ASKED).rows
        held += [found.low <= truth <= found.high for found, truth in zip(row, TRUTH, strict=True)]
        widths += [found.high - found.low for found in row]
    assert (held > RUNS - 9).all(), held
    assert (widths / RUNS < np.array([20, 25, 28, 4])).all(), widths / RUNS
