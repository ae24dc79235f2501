"""All rows and margins counted first: with what was set aside, and estimates of every kind are brought to them."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of
from grid_tables import line

from sfumato.domain.binary_tree import BinaryTree
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import find_mechanism
from sfumato.models.calibration.adjusted_fit import MovedFit
from sfumato.models.calibration.first_stage import Shares, counted_beside_shape
from sfumato.models.calibration.fit import BLOCKS, ONE_WAY
from sfumato.schema import Schema

SURVEY = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {f"a{n}": {"type": "category", "values": list("vwxyz")} for n in range(6)},
    }
)
SHAPE = SURVEY.domain.shape
MAP = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 11},
            "y": {"type": "integer", "lower": 0, "upper": 15},
            "kind": {"type": "category", "values": [f"k{n}" for n in range(20)]},
        },
    }
)
PLACES = np.exp(-(((np.arange(12)[:, None] - 5.5) / 3.0) ** 2) - ((np.arange(16) - 7.5) / 4.0) ** 2)
KIND = np.random.default_rng(7).dirichlet(np.full(20, 0.5))
HILL = np.random.default_rng(8).poisson(20_000 * np.multiply.outer(PLACES / PLACES.sum(), KIND))
COUNTS = np.random.default_rng(5).multinomial(5000, np.random.default_rng(6).dirichlet(np.full(5**6, 0.1)))


def test_shares_sum_to_the_budget_and_are_spent():
    one = Budget.pure(1)
    cells, buckets = Shares.beside_cells(SURVEY.domain, one), Shares.beside_cells(SURVEY.domain, one, seen=False)
    tree = Shares.beside_tree(SURVEY.domain, BinaryTree.over(SURVEY.domain), one)
    for shares in (cells, buckets, tree):
        given = [part for part in (shares.most, shares.errors, shares.margins, shares.all_rows) if part is not None]
        assert sum(part.epsilon for part in given) == 1 and ONE_WAY in shares.known
    assert cells.all_rows is not None and buckets.all_rows is None and tree.all_rows is None
    assert BLOCKS in tree.known and BLOCKS not in cells.known
    curator = curator_of(SURVEY, COUNTS)
    counted = cells.measure(curator)
    assert len(counted.margins) == 6 and counted.whole is not None
    assert curator.charge.fullest == (cells.margins.epsilon + cells.all_rows.epsilon) * curator.charge.limit


def test_along_one_attribute_nothing_comes_first():
    curator = curator_of(line(300), np.ones(300))
    counted, left = counted_beside_shape(curator, Budget.pure(1))
    assert left == Budget.pure(1) and not counted.margins and counted.whole is None and not curator.charge.fullest
    fit = object()
    brought = counted.bring_all(fit)
    assert brought.fit is fit and brought.along is None and brought.blocks is None


def test_blocks_of_ordered_attributes_are_counted_with_a_part_of_their_own():
    shares = Shares.beside_cells(MAP.domain, Budget.pure(1))
    given = (shares.most, shares.errors, shares.margins, shares.all_rows, shares.blocks)
    assert sum(part.epsilon for part in given if part is not None) == 1 and shares.blocks == Budget.pure("1/10")
    curator = curator_of(MAP, np.ones(MAP.domain.size), entropy=TestingEntropy(1))
    blocks, measured = shares.measure(curator).blocks
    assert blocks.cut == ((0, 12), (1, 16)) and len(measured.answers) == 192
    assert curator.charge.fullest == (shares.blocks.epsilon + shares.all_rows.epsilon) * curator.charge.limit


@pytest.mark.full
def test_ranges_about_a_peak_are_not_low_every_time():
    """A hill over two ordered attributes: the mean error of its middle, over six releases, is within its own error.

    Before blocks were counted every release of `dawa` was low by 8 to 10 claimed deviations, the mean of six by 20 of
    its own. A mean beyond five of these has a chance of 6e-7, and the noise is that of a testing generator.
    """
    middle = np.zeros(MAP.domain.shape)
    middle[4:8, 5:11] = 1.0
    off = []
    for seed in range(6):
        curator = curator_of(MAP, HILL.reshape(-1), epsilon=1, entropy=TestingEntropy(seed))
        fit = find_mechanism("dawa").run(curator, MAP, Budget.pure(1), None).fits[0]
        assert fit.blocks is not None
        model = fit.errors(middle.reshape(-1, 1)).model[0, 0]
        off.append((float(fit.estimate @ middle.reshape(-1)) - HILL[4:8, 5:11].sum()) / model**0.5)
    assert abs(np.mean(off)) < 5.0 / 6**0.5, off


@pytest.mark.parametrize("name", ["kdtree", "ispe", "dawa", "mwem", "pmw"])
def test_single_values_are_as_far_off_as_their_own_counts(name):
    """Six times five values; 15,625 cells add up to noise, or to what a model is off by, of ten times that."""
    curator = curator_of(SURVEY, COUNTS, epsilon=1, entropy=TestingEntropy(3))
    fit = find_mechanism(name).run(curator, SURVEY, Budget.pure(1), None).fits[0]
    assert isinstance(fit.inner, MovedFit) and fit.steadied is not None
    cells, truth = fit.estimate.reshape(SHAPE), COUNTS.reshape(SHAPE)
    others = [tuple(axis for axis in range(6) if axis != kept) for kept in range(6)]
    off = np.concatenate([cells.sum(axis=rest) - truth.sum(axis=rest) for rest in others])
    noise = np.concatenate([one.design.variances for one in fit.steadied.measured])
    assert (off**2).mean() < 3.0 * noise.mean()  # the same noise every time: this is no test of chance
    columns = np.stack([np.isin(np.indices(SHAPE)[2], [0, 3]).reshape(-1), np.ones(5**6)], axis=1).astype(np.float64)
    assert np.sqrt(np.diagonal(fit.errors(columns).model)).max() < 3.0 * np.sqrt(noise.mean())


def test_with_next_to_no_noise_single_values_are_exact():
    """At this epsilon the noise of all rows is less than rounding, which must not be taken for their error."""
    curator = curator_of(SURVEY, COUNTS, epsilon=1000, entropy=TestingEntropy(3))
    fit = find_mechanism("mwem").run(curator, SURVEY, Budget.pure(1000), None).fits[0]
    columns = np.isin(np.indices(SHAPE)[2], [0, 3]).reshape(-1, 1).astype(np.float64)
    assert abs((fit.estimate @ columns)[0] - COUNTS @ columns[:, 0]) < 0.5
    assert np.sqrt(fit.errors(columns).model[0, 0]) < 0.5
