"""Error bars from noisy answers kept aside."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.domain import Axis, Domain
from sfumato.lab.papers.mldp.error_bars import ErrorBars, boxes_of_tiles, parts_of, tiles_beside
from sfumato.lab.papers.mldp.training_queries import Blocks

LINE = Domain((Axis("x", "integer", np.arange(129.0)),))


@pytest.mark.parametrize(("error", "noise"), [(10.0, 1.0), (10.0, 10.0), (3.0, 12.0)])
def test_the_noise_of_answers_kept_aside_is_taken_off(error, noise):
    """Errors of blocks independent: the standard error of a block is found, though the noise is up to 4 times it.

    400 repetitions; their mean is normal with a spread of under 3 % of the error, and 6 of these are one in 10^8.
    """
    rng = np.random.default_rng(2)
    blocks = Blocks.at_most(LINE, 128)
    tiles = tiles_beside(blocks)
    rows, sums = boxes_of_tiles(blocks, tiles)
    parts, found = parts_of(rows, blocks.size), []
    for _ in range(400):
        off = rows[:, :128] @ rng.normal(0.0, error, 128)
        misfits = off + sums @ rng.normal(0.0, noise, tiles.size)
        bars = ErrorBars.of(misfits, parts, noise**2 * sums.sum(axis=1))
        found.append(bars.errors(np.array([[0.0, 1.0, 1.0]]))[0] ** 2)
    assert 0.7 * error**2 < np.mean(found) < 3.5 * error**2 + noise**2


def test_quantiles_rise_and_go_beyond_the_farthest_score():
    bars = ErrorBars(np.array([0.0, 1.0, 0.0]), np.linspace(0.01, 2.0, 200))
    reach = [bars.quantile(each) for each in (0.5, 0.9, 0.95, 0.99, 0.9999)]
    assert reach == sorted(reach) and reach[-1] > 2.0 and bars.quantile(0.95) == pytest.approx(1.91, abs=0.02)


def test_a_model_without_errors_still_has_a_little():
    rows, sums = boxes_of_tiles(Blocks.at_most(LINE, 128), tiles_beside(Blocks.at_most(LINE, 128)))
    bars = ErrorBars.of(np.zeros(len(rows)), parts_of(rows, 128), sums.sum(axis=1))
    assert (bars.errors(parts_of(rows, 128)) > 0.0).all()


def test_without_noise_error_bars_are_numbers():
    """With an epsilon of a million the noise of tiles has no variance."""
    parts = np.array([[0.0, 1.0, 1.0], [0.5, 1.0, 1.0], [0.0, 2.0, 4.0]])
    found = ErrorBars.of(np.array([0.0, 1.0, -2.0]), parts, np.zeros(3))
    assert np.isfinite(found.growth).all() and np.isfinite(found.scores).all()
