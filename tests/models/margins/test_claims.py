"""Claimed variances of many sets, against the errors of each answer by itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from sfumato.models.margins.calibration import ALL, Claims
from sfumato.models.margins.content import Margins
from sfumato.models.margins.scales import LEVELS, Scaled, Spreads, measure_of, shape_of, sizes_of
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


def test_with_other_errors_they_are_those_of_a_content_made_afresh():
    """What follows from estimates alone is kept, and nothing else."""
    first = content(3)
    claims, counts = Claims(first), np.ones((4, 4))
    before = claims.of((0, 2), (1, 1), counts)[0]
    tables = {
        p: replace(table, noise=2.0 * table.noise, model=3.0 * table.model)
        for p, table in first.tables["count"].items()
    }
    spreads = replace(first.spreads["count"], blocks={(0, 2): first.spreads["count"].blocks[0, 1]})
    other = {"count": tables}, {"count": spreads}
    kept, afresh = claims.with_errors(first.with_errors(*other)), Claims(Margins(first.schema, *other))
    for places in combinations(range(4), 2):
        for levels in ((1, 1), (2, 2), (ALL, 0), (0, ALL)):
            ones = np.ones([len(claims.base(at)) for at in zip(places, levels, strict=True)])
            for mine, fresh in zip(kept.of(places, levels, ones), afresh.of(places, levels, ones), strict=True):
                assert np.array_equal(mine, fresh)
    assert not np.allclose(kept.of((0, 2), (1, 1), counts)[0], before)


def test_sizes_of_blocks_are_those_of_their_cells():
    """With spreads that fall by one from level to level, and none of cells, errors of blocks are their sizes."""
    first, places = content(3), (0, 2)
    tables = {
        p: replace(table, noise=0.0 * table.noise, model=0.0 * table.model)
        for p, table in first.tables["count"].items()
    }
    blocks = {places: Scaled((4.0, 3.0, 2.0, 1.0), (0.0,) * LEVELS, (1.0, 1.0))}
    release = Margins(first.schema, {"count": tables}, {"count": Spreads((0.0, 1.0), {}, {}, blocks)})
    table = release.tables["count"][places].estimate
    measures = [measure_of(release.tables["count"][place,].estimate) for place in places]
    sizes = sizes_of(table, measures, shape_of(measures, table), float(release.tables["count"][()].estimate))
    found = {levels: (noise, model) for levels, noise, model in release.block_variances("count", places)}
    assert [*found] == [(0, 0), (1, 1), (2, 2), (3, 3), (ALL, 0), (0, ALL)]
    for levels, (noise, model) in found.items():
        kinds = [release.blocks[place][level] for place, level in zip(places, levels, strict=True)]
        assert np.allclose(model if ALL in levels else noise, sum_kinds(sizes, kinds), rtol=1e-9)
