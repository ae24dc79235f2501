"""Regions where some cells are impossible: these are in no region, tell nothing, and enter no number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from curators import curator_of

from sfumato.answers.constrained_fit import without_impossible
from sfumato.answers.fit import Grouped
from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.measurement import Laplace, Measurement
from sfumato.models.calibration.first_stage import blocks_of_all
from sfumato.models.calibration.fit import innermost
from sfumato.models.linear.fit import LinearFit
from sfumato.models.partition.coarse_contrasts import CoarseFit
from sfumato.models.partition.ispe import MECHANISM as ISPE
from sfumato.models.partition.ispe import smooth
from sfumato.models.partition.search import KDTREE, both_used, grow_buckets, set_apart, split_by_tree
from sfumato.models.partition.shrinkage import ShrinkageFit
from sfumato.queries import Identity
from sfumato.schema import Schema

ATTRIBUTES = {name: {"type": "integer", "lower": 0, "upper": many - 1} for name, many in {"a": 24, "b": 16}.items()}
RULES = [{"a": "0..11", "b": "4..15"}, {"a": "18..23", "b": "0..3"}]
SCHEMA = Schema(dataset="t", privacy_unit="row", attributes=ATTRIBUTES, impossible=RULES)
POSSIBLE, SHAPE = SCHEMA.structure.whole, SCHEMA.domain.shape
RNG = np.random.default_rng(8)
TRUTH = RNG.poisson(np.where(np.arange(24)[:, None] < 15, 3.0, 20.0) * np.ones((1, 16))).reshape(-1) * POSSIBLE


def fitted(far: float, find) -> CoarseFit:
    """Fit to noisy cells and regions of which those without rows were drawn with noise up to `far`."""
    rng = np.random.default_rng(3)
    noise = rng.laplace(0.0, 2.0, len(TRUTH))
    answers = np.rint(np.where(POSSIBLE, TRUTH + noise, far * noise)).astype(np.int64)
    labels = set_apart(find(answers.astype(np.float64).reshape(SHAPE), 8.0, POSSIBLE.reshape(SHAPE)), POSSIBLE)
    totals = np.bincount(labels, TRUTH) + rng.integers(-9, 10, labels.max() + 1)
    totals[-1] = 1e5 * far
    cells = Measurement("count", Identity(len(TRUTH)), answers, (Laplace(2),))
    regions = Measurement("count", Identity(len(totals)), totals.astype(np.int64), (Laplace(6),))
    fit = both_used(SCHEMA.domain, labels, cells, LinearFit.of_answers(regions), POSSIBLE)
    return CoarseFit.of_residuals(fit, blocks_of_all(SCHEMA.domain, POSSIBLE))


def grown(noisy, variance, possible):
    return grow_buckets(smooth(noisy, [0, 1], possible=possible), [0, 1], 3.0, possible)


@pytest.mark.parametrize("find", [split_by_tree, grown])
def test_noise_of_impossible_cells_is_used_for_nothing(find):
    calm, wild = fitted(0.0, find), fitted(1e4, find)
    assert np.array_equal(calm.inner.labels, wild.inner.labels) and len(calm.inner.sizes) >= 3
    assert np.array_equal(calm.estimate, wild.estimate) and not calm.estimate[~POSSIBLE].any()
    columns = np.random.default_rng(1).normal(size=(len(TRUTH), 4))
    apart = np.where(POSSIBLE[:, None], columns, 0.0)
    for fit in (wild, wild.inner):
        both = [fit.errors(each) for each in (columns, apart)]
        variances = [one.design.variances @ one.weights**2 + np.diagonal(one.model) for one in both]
        assert variances[0] == pytest.approx(variances[1]) and (variances[0] > 0).all()
    ends = [without_impossible(fit.inner, POSSIBLE).guaranteed(SCHEMA.domain) for fit in (calm, wild)]
    ones = np.ones(len(TRUTH))
    low, high = (find(ones, ones, 0.025) for find in ends)
    assert (low.low, low.high) == pytest.approx((high.low, high.high)) and low.low <= TRUTH.sum() <= low.high


@pytest.mark.parametrize("find", [split_by_tree, grown])
def test_sums_of_groups_have_the_errors_of_these_sums(find):
    fit, group = fitted(1e4, find), np.arange(len(TRUTH)) // 16 % 7
    by_group = fit.errors_by_group(Grouped.of_cells(group, 7, np.ones((len(TRUTH), 1)), None))
    whole = fit.errors((group[:, None] == np.arange(7)).astype(np.float64)).model
    assert [float(one.model[0, 0]) for one in by_group] == pytest.approx(np.diagonal(whole).tolist())


def test_coarse_contrasts_lose_no_row_in_blocks_that_hold_none():
    fit = fitted(1e4, split_by_tree)
    assert fit.blocks.empty.any() and fit.trust.any()
    assert fit.estimate.sum() == pytest.approx(fit.inner.estimate.sum(), abs=0.2)  # rounding of 384 cells
    assert not fit.covariances(np.ones((len(TRUTH), 1)))[~POSSIBLE].any()


def test_impossible_cells_are_beyond_an_edge():
    line = np.array([4.0, 8.0, 900.0, 8.0, 4.0])
    there = np.array([True, True, False, True, True])
    left, right = smooth(line[:2], [0], iterations=3), smooth(line[3:], [0], iterations=3)
    smoothed = smooth(line, [0], iterations=3, possible=there)
    assert smoothed[there].tolist() == [*left, *right]
    assert len(np.unique(grow_buckets(smoothed, [0], 1e9, there))) == 3  # either side, and what is between
    assert smooth(line, [0], "median", 1, there)[there].tolist() == [4.0, 8.0, 8.0, 4.0]


def test_a_box_is_judged_by_the_cells_that_rows_can_be_in():
    """Even where rows can be, but for one step: without the rule every hole is a step, too."""
    there = np.zeros((16, 16), dtype=bool)
    there[:, ::2] = True
    step = np.where(np.arange(16)[:, None] < 8, 10.0, 30.0) * there
    cut = split_by_tree(step, 1.0, there).reshape(16, 16)
    assert len(np.unique(cut)) == 2 and (cut[:8] != cut[8:]).all()
    assert len(np.unique(split_by_tree(step, 1.0))) > 16
    assert len(np.unique(split_by_tree(np.full((4, 4), 9.0), 1.0, np.eye(4, dtype=bool)))) == 1


def test_a_region_of_cells_of_both_kinds_is_refused():
    fit = fitted(0.0, split_by_tree).inner
    with pytest.raises(QueryError, match="have buckets of their own"):
        replace(fit, possible=np.roll(POSSIBLE, 1))
    assert isinstance(replace(fit, possible=POSSIBLE), ShrinkageFit)


@pytest.mark.parametrize("mechanism", [KDTREE, ISPE])
def test_what_is_measured_and_charged_is_what_is_without_rules(mechanism):
    free = Schema(dataset="t", privacy_unit="row", attributes=ATTRIBUTES)
    kinds = []
    for schema in (SCHEMA, free):
        curator = curator_of(schema, TRUTH, entropy=TestingEntropy(2))
        (fit,) = mechanism.run(curator, schema, Budget.pure(1)).fits
        assert curator.charge.fullest == curator.charge.limit
        kinds.append([(type(one.queries), one.noises) for one in fit.measurements])
        regions = innermost(fit).inner if isinstance(innermost(fit), CoarseFit) else innermost(fit)
        assert regions.labels[~POSSIBLE].min() == regions.labels.max() or schema is free
    assert kinds[0] == kinds[1]
