"""Noise of many areas at once: beside dense least squares, and beside the same questions one by one."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from curators import curator_of

from sfumato.answers import fitted_noise, question
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models.linear import area_noise as closed
from sfumato.models.linear.spine import MECHANISM
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import Tree
from sfumato.releases.release import Release
from sfumato.schema import Schema

LEAVES = 40


def uneven(rng: np.random.Generator) -> list[np.ndarray]:
    """Boundaries of five levels, with many areas that have a single area in them."""
    cuts = [np.arange(LEAVES + 1)]
    for width in (15, 6, 2):
        inner = cuts[0][1:-1]
        cuts.insert(0, np.array([0, *np.sort(rng.choice(inner, min(width, len(inner)), replace=False)), LEAVES]))
    return [np.array([0, LEAVES]), *cuts]


@pytest.mark.parametrize("seed", range(12))
def test_weights_of_noises_are_those_of_dense_least_squares(seed):
    """Areas of every level, one of which is not asked, with noises that differ within levels; to rounding."""
    rng = np.random.default_rng(seed)
    cuts = uneven(rng)
    tree = Tree.of_levels([level for number, level in enumerate(cuts) if number != seed % 4])
    kinds = np.unique(tree.row_level + 4 * (rng.random(tree.rows) < 0.3), return_inverse=True)[1]
    precisions = rng.uniform(0.2, 3.0, kinds.max() + 1)[kinds]
    A = tree.dense().astype(float)
    inverse = np.linalg.inv(A.T @ (precisions[:, None] * A))
    for level in cuts:
        found = closed.area_noise(tree, precisions, kinds, level[:-1], level[1:])
        assert found is not None
        for place, (start, end) in enumerate(pairwise(level)):
            asked = np.zeros(LEAVES)
            asked[start:end] = 1.0
            weights = precisions * (A @ (inverse @ asked))
            parts = weights**2 / precisions
            whole = parts.sum()
            own = np.flatnonzero((asked == A).all(axis=1))
            parts[own] = 0.0
            assert np.allclose(found.squares[place], np.bincount(kinds, weights**2, minlength=found.squares.shape[1]))
            assert np.isclose(found.own[place], weights[own].sum())
            assert not len(own) or found.kind[place] == kinds[own[0]]
            assert found.largest[place] >= parts.max() / whole - 1e-9  # a bound


def test_sets_that_are_no_areas_are_left_to_others():
    tree = Tree.of_levels([[0, 6], [0, 3, 6], range(7)])
    ones, kinds = np.ones(tree.rows), np.zeros(tree.rows, dtype=np.int64)
    assert closed.area_noise(tree, ones, kinds, np.array([2]), np.array([4])) is None
    assert closed.area_noise(tree, ones, kinds, np.array([0, 1]), np.array([1, 3])) is not None


COUNTIES = {f"c{n}": [f"b{n}_{k}" for k in range(1 + n * n % 7)] for n in range(24)}
STATES = {f"s{n}": [f"c{k}" for k in range(24) if k % 5 == n] for n in range(5)}
BLOCKS = [name for names in COUNTIES.values() for name in names]
SCHEMA = {
    "dataset": "t",
    "privacy_unit": "row",
    "attributes": {
        "block": {"type": "category", "values": BLOCKS, "groups": {"county": COUNTIES, "state": STATES}},
        "sex": {"type": "category", "values": ["F", "M"]},
        "age": {"type": "integer", "lower": 0, "upper": 11},
    },
}
ASKED = (
    ("SELECT county, COUNT(*) FROM t GROUP BY county", "county = '{}'"),
    (
        "SELECT county, COUNT(*) FROM t WHERE sex = 'F' AND age < 3 GROUP BY county",
        "sex = 'F' AND age < 3 AND county = '{}'",
    ),
    ("SELECT state, COUNT(*) FROM t WHERE age = 4 GROUP BY state", "age = 4 AND state = '{}'"),
    ("SELECT block, COUNT(*) FROM t WHERE state = 's1' GROUP BY block", "block = '{}'"),
)


@pytest.fixture(scope="module", params=["pure", "zcdp"])
def release(request: pytest.FixtureRequest) -> Release:
    """Release of uneven areas, of counts that grow with the block's number."""
    schema = Schema.from_dict(SCHEMA)
    budget = Budget.pure(1) if request.param == "pure" else Budget.zcdp(Fraction(1, 2))
    counts = np.arange(schema.domain.size).reshape(schema.domain.shape) % 90
    cost = {"epsilon": 1} if request.param == "pure" else {"rho": Fraction(1, 2)}
    curator = curator_of(schema, counts, entropy=TestingEntropy(5), **cost)
    return Release(MECHANISM.run(curator, schema, budget, None), "spine", describe_guarantee(budget, schema), False)


@pytest.mark.parametrize(("text", "single"), ASKED)
def test_areas_at_once_are_answered_as_one_by_one(release, monkeypatch, text, single):
    """Values to rounding, ends of intervals within 0.3 % of their width: what a normal law for the rest may cost."""
    monkeypatch.setattr(question, "MUCH_WORK", 1)
    monkeypatch.setattr(fitted_noise, "MUCH_WORK", 1)
    at_once: list[int] = []
    original = closed.terms_of_areas

    def counted(*given):
        found = original(*given)
        at_once.append(len(found))
        return found

    monkeypatch.setattr(closed, "terms_of_areas", counted)
    rows = release.query(text).rows
    assert at_once[0] > 0
    monkeypatch.setattr(question, "MUCH_WORK", 2**60)
    monkeypatch.setattr(fitted_noise, "MUCH_WORK", 2**60)
    assert len(rows) in (24, 5, sum(len(COUNTIES[name]) for name in STATES["s1"]))
    for name, count in rows:
        ((alone,),) = release.query("SELECT COUNT(*) FROM t WHERE " + single.format(name)).rows
        width = alone.high - alone.low
        assert count.value == pytest.approx(alone.value, abs=1e-5)
        assert abs(count.low - alone.low) < 0.003 * width
        assert abs(count.high - alone.high) < 0.003 * width
