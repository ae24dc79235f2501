"""Claimed variances of many sets, against the errors of each answer by itself."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.models.margins.calibration import ALL, Claims
from sfumato.models.margins.content import Margins
from sfumato.models.margins.scales import LEVELS, Scaled, Spreads
from sfumato.models.margins.table import Table, subsets, sum_kinds, sum_out
from sfumato.schema import Schema

SHAPE = (5, 3, 8, 4)


def content(seed: int) -> Margins:
    """Tables of all pairs and one three, spreads of blocks of the one and of all others, a value without rows."""
    rng = np.random.default_rng(seed)
    attributes = {f"a{place}": {"type": "integer", "lower": 0, "upper": size - 1} for place, size in enumerate(SHAPE)}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})
    counts = rng.gamma(0.5, 20.0, SHAPE)
    counts[:, :, 3] = 0.0
    tables = {}
    for part in subsets(range(4)):
        if len(part) < 3 or part == (0, 1, 3):
            estimate = sum_out(counts, part, range(4))
            tables[part] = Table(part, estimate, *(rng.uniform(1, 30, estimate.shape) for _ in range(2)))
    scaled = [Scaled(*(tuple(rng.uniform(1, 9, LEVELS)) for _ in range(2)), tuple(rng.uniform(1, 9, 2)))]
    scaled += [Scaled(*(tuple(rng.uniform(1, 9, LEVELS)) for _ in range(2))) for _ in range(2)]
    blocks = {pair: scaled[0] for pair in combinations(range(4), 2) if pair != (1, 2)} | {(0, 1, 3): scaled[1]}
    spreads = Spreads((0.0, 1.0, 2.0), {(0, 1, 2): 5.0}, {3: scaled[2]}, blocks)
    return Margins(schema, {"count": tables}, {"count": spreads})


@pytest.mark.parametrize(
    ("places", "levels"),
    [
        ((0, 2), (ALL, ALL)),
        ((0, 2), (ALL, 0)),
        ((1, 2), (0, ALL)),
        ((2, 3), (2, 2)),
        ((0, 1, 3), (ALL, ALL, ALL)),
        ((0, 1, 2), (ALL, ALL, ALL)),
        ((0, 1, 2), (1, 1, 1)),
        ((0, 1, 3), (1, 1, 1)),
        ((0, 1, 2, 3), (ALL, ALL, ALL, ALL)),
    ],
)
def test_they_are_those_of_the_answer(places, levels):
    release = content(3)
    claims = Claims(release)
    for others in combinations(range(4), len(places)):  # what many sets share is worked out once
        claims.of(others, levels, np.ones([len(claims.base(at)) for at in zip(others, levels, strict=True)]))
    kinds = {axis: release.blocks[axis][level] for axis, level in zip(places, levels, strict=True)}
    joined = release.joined({axis: np.arange(SHAPE[axis]) for axis in places})["count"]
    counts = np.maximum(sum_kinds(joined, list(kinds.values())), 0.0)
    errors = release.errors("count", kinds, {"count": counts}, single={*levels} == {ALL})
    both, axes = errors.noise + errors.model, tuple(range(len(places)))
    sure, own = claims.of(places, levels, counts)
    assert np.allclose(sure, np.maximum(both.without(axes).of_cells(), 0.0), rtol=1e-9, atol=1e-9)
    assert np.allclose(own, both.alone(axes).of_cells(), rtol=1e-9, atol=1e-9) and own.any()
    for whole, rough in zip((sure, own), Claims(release, single=True).of(places, levels, counts), strict=True):
        assert rough.dtype == np.float32 and np.allclose(rough, whole, rtol=1e-4, atol=1e-4 * whole.max())
