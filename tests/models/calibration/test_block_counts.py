"""A fit brought to counts of blocks: how far it moves, how sure it is then, and refused where a file is forged."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from fitted import SCHEMA, SIZE, example

from sfumato.answers.fit import Grouped
from sfumato.errors import QueryError
from sfumato.measurement import Laplace, Measurement
from sfumato.models.calibration.adjusted_fit import MovedFit
from sfumato.models.calibration.block_counts import BlockCounts, Blocks, haar
from sfumato.models.calibration.fit import parts_of, with_total
from sfumato.queries import Identity
from sfumato.schema import Schema

BLOCKS = Blocks(SCHEMA.domain, ((0, 3), (1, 2)))
CELLS = MovedFit.brought(replace(example("nested"), together=False), None)
FIT = example("measured cells blocks")


def counted(answers, scale) -> Measurement:
    return Measurement("count", Identity(len(answers)), np.array(answers), (Laplace(Fraction(scale)),))


def in_blocks(values) -> np.ndarray:
    return np.bincount(BLOCKS.labels, values, BLOCKS.number)


@pytest.mark.parametrize("number", range(1, 18))
def test_the_haar_basis_is_orthonormal_and_finer_by_level(number):
    rows, levels = haar(number)
    assert np.allclose(rows @ rows.T, np.eye(number))
    widths = [int((row != 0).sum()) for row in rows]
    assert all(
        max(w for w, at in zip(widths, levels, strict=True) if at == level) <= 2 * -(-number // 2**level)
        for level in range(1, max(levels) + 1)
    )


def test_contrasts_of_several_attributes_are_products():
    rows, levels = BLOCKS.basis
    assert np.allclose(rows @ rows.T, np.eye(6))
    assert levels.tolist() == [[a, b] for a in (0, 1, 2) for b in (0, 1)]


def test_clear_counts_are_met_and_rows_go_where_rows_are():
    wanted = np.rint(in_blocks(CELLS.estimate) + np.array([60, -50, 40, -30, -80, 60])).astype(int)
    fit, _, known = BlockCounts.brought(CELLS, None, BLOCKS, counted(wanted, 1))
    assert np.abs(in_blocks(fit.estimate) - wanted).max() < 4.0
    assert np.sqrt(known.left[1:]).max() < 1.4 * 1.5 * Laplace(Fraction(1)).variance ** 0.5
    held = CELLS.estimate > 1.0
    moved = (fit.estimate / CELLS.estimate)[held]
    for block in range(6):
        assert np.ptp(moved[BLOCKS.labels[held] == block]) < 0.02 * moved.max()


def test_counts_in_noise_move_little_and_make_nothing_surer():
    far = np.rint(in_blocks(CELLS.estimate) + 300 * (-1.0) ** np.arange(6)).astype(int)
    fit, _, known = BlockCounts.brought(CELLS, None, BLOCKS, counted(far, 10**5))
    assert np.abs(fit.estimate - CELLS.estimate).max() < 10.0
    assert (known.left > 0.5 * known.claimed).all()


def test_the_variance_is_that_of_blocks_and_of_what_departs_from_them():
    """By the formula at the head of the file, with all weights laid out."""
    rng, blocks = np.random.default_rng(3), FIT.blocks
    columns = rng.normal(size=(SIZE, 4))
    columns[:, 3] = BLOCKS.labels == 2  # a whole block
    means = np.array([np.bincount(BLOCKS.labels, BLOCKS.shares(FIT.estimate) * one, 6) for one in columns.T]).T
    left = columns - means[BLOCKS.labels]
    along = FIT.steadied.model.with_cells.T
    sure, rest = parts_of(with_total(FIT.inner, left).model, along @ left, FIT.steadied)
    contrasts = BLOCKS.basis[0] @ means
    sure = sure + contrasts.T @ (blocks.left[:, None] * contrasts)
    found = with_total(FIT.inner, columns).model
    both = blocks.means(columns), blocks.with_cells.T @ columns
    mine = parts_of(found, along @ columns, FIT.steadied, blocks, both)
    assert np.allclose(mine[0], sure, rtol=1e-6, atol=1e-3) and np.allclose(mine[1], rest, rtol=1e-6, atol=1e-3)
    assert mine[1][3, 3] < 1e-3  # a whole block carries the error of its count alone
    assert mine[0][3, 3] == pytest.approx(float(BLOCKS.basis[0][:, 2] ** 2 @ blocks.left), rel=1e-4)


@pytest.mark.parametrize("common", [False, True])
def test_groups_have_the_means_and_covariances_of_the_same_weights_laid_out(common):
    group, weights = np.arange(SIZE) % 3, np.random.default_rng(1).uniform(size=(SIZE, 2))
    whole = np.column_stack([np.zeros(SIZE), np.ones(SIZE)]) if common else None
    means, products = FIT.blocks.by_group(Grouped.of_cells(group, 3, weights, whole))
    for place in range(3):
        columns = weights * (group == place)[:, None] + (0.0 if whole is None else whole)
        assert np.allclose(means[place], FIT.blocks.means(columns))
        assert np.allclose(products[place], FIT.blocks.with_cells.T @ columns)


def test_groups_err_as_the_same_weights_laid_out():
    group, weights = np.arange(SIZE) % 3, np.random.default_rng(1).uniform(size=(SIZE, 2))
    found = FIT.errors_by_group(Grouped.of_cells(group, 3, weights, None))
    for place in range(3):
        columns = weights * (group == place)[:, None]
        assert np.allclose(found[place].model, FIT.errors(columns).model, rtol=1e-6, atol=1e-2)


def test_what_contradicts_itself_is_refused():
    good = FIT.blocks
    for left in (np.ones(5), np.full(6, -1.0), np.full(6, 2.0**61), np.full(6, np.nan)):
        with pytest.raises(QueryError, match="a variance for every contrast"):
            replace(good, left=left)
    with pytest.raises(QueryError, match="one by one"):
        replace(good, measured=counted([1] * 5, 1))
    for cut in ((), ((0, 3), (0, 2)), ((2, 2),), ((0, 1),), ((1, 3),), ((-1, 2),)):
        with pytest.raises(QueryError, match="blocks"):
            Blocks(SCHEMA.domain, cut)


def test_blocks_of_zeros_make_what_is_known_of_the_others_no_surer():
    """32 blocks of which rows can be in 8 leave of each as much unknown as a grid of these 8 alone."""

    class Claim:
        """Fit without rows that claims a variance of 50 in every cell that rows can be in."""

        of = "count"

        def __init__(self, possible):
            self.estimate, self.possible = np.zeros(len(possible)), possible

        def covariances(self, columns):
            return 50.0 * self.possible[:, None] * columns

    gaps, known = np.random.default_rng(2).normal(0.0, 14.0, 8), []
    for shape, cut in (((16,), ((0, 8),)), ((16, 4), ((0, 8), (1, 4)))):
        attributes = {f"q{n}": {"type": "integer", "lower": 0, "upper": many - 1} for n, many in enumerate(shape)}
        domain = Schema(dataset="t", privacy_unit="row", attributes=attributes).domain
        here = np.ones(16, dtype=bool) if len(shape) < 2 else (np.arange(16)[:, None] // 4 == np.arange(4)).reshape(-1)
        blocks = Blocks(domain, cut, here)
        wanted = np.where(blocks.empty, 5_000.0, 0.0)
        wanted[~blocks.empty] = gaps
        measured = counted(np.rint(wanted).astype(int), 8)
        moved = MovedFit(Claim(here), np.zeros(domain.size), None, np.zeros(0))
        fit, _, after = BlockCounts.brought(moved, None, blocks, measured)
        assert not fit.estimate[~here].any() and abs(fit.estimate.sum()) < 0.5
        means = np.eye(blocks.number)[:, ~blocks.empty]
        known.append(np.diagonal(after.of_means(means)))
    assert known[1] == pytest.approx(known[0], rel=0.2)
