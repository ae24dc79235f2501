"""WD again: the worked example's corrected figures, and the gain by how hot a cell is."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.lab.reproduce import wd as example
from sfumato.lab.reproduce import wd as hot
from sfumato.lab.reproduce.synthetic import WD_TABLE_1, like
from sfumato.measurement import Laplace


def test_the_worked_example_corrected():
    assert (example.W @ example.X).tolist() == [5, 9, 7, 4, 4, 1, 5, 9] != example.PRINTED_ANSWERS.tolist()
    assert example.error((tuple(range(8)),), (1.0,)) == 4.0
    assert example.error(example.PRINTED_PARTS, example.PRINTED_SHARES) == pytest.approx(4.92, abs=0.005)
    assert example.best_two_parts()[0] == pytest.approx(3.73, abs=0.005)
    assert example.cell_noise() < example.our_division() <= 3.73


@pytest.mark.parametrize(("chance", "least", "most"), [(0.2, 0.4, 0.65), (0.9, 0.0, 0.1)])
def test_the_gain_is_real_where_a_cell_is_hot_and_hardly_there_where_all_are(chance, least, most):
    workload = hot.hot_workload(chance)
    laplace, paper, ours = (
        hot.mean_noise(scales, 1.0)
        for scales in (hot.laplace_scales(workload), hot.paper_scales(workload), hot.division_scales(workload))
    )
    assert least < 1 - paper / laplace < most
    assert ours < paper < laplace
    assert hot.identity_error(workload, 1.0) < ours / 20


def test_the_printed_line_6_divides_more_and_gains_less():
    workload = hot.hot_workload(0.6, queries=300, cells=512)
    mended, printed = (hot.mean_noise(hot.paper_scales(workload, halving_counts=h), 1.0) for h in (True, False))
    assert mended < printed


def test_scales_of_all_ways_respect_the_budget_in_every_cell():
    workload = hot.hot_workload(0.4, queries=300, cells=512)
    for scales in (hot.laplace_scales(workload), hot.paper_scales(workload), hot.division_scales(workload)):
        borne = workload.queries.T @ (1.0 / scales)
        assert borne.max() <= 1 + 1e-9 and borne.max() > 0.3


def test_true_identity_as_simulated():
    """200 queries on 100 releases against the closed form; 6 standard errors, false alarms under 1e-6."""
    workload = hot.hot_workload(0.3, queries=200, cells=512)
    noise = draw(Laplace(Fraction(2)), 512 * 100, SystemEntropy()).reshape(512, 100)
    means = np.abs(workload.queries @ noise).mean(axis=0)
    assert abs(means.mean() - hot.identity_error(workload, 0.5)) < 6 * means.std() / 10


@pytest.mark.parametrize("described", WD_TABLE_1, ids=lambda described: described.name)
def test_data_like_table_1(described):
    counts = like(described)
    assert counts.sum() == described.rows
    assert (counts == 0).mean() == pytest.approx(described.zero_share, abs=0.02)
