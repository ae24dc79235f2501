"""Error bars of a learned model by split conformal prediction on a noisy held-out set, corrected for its noise.

Every box of neighbouring tiles is a question whose misfit is the error of the model plus noise of known variance. The
squared error grows with the blocks that a question cuts, those it covers, and their square (the systematic part): three
numbers, fitted to squared misfits less the noise. Scores are misfits in units of error *and* noise together; a fresh
question has no noise of its own, so its interval is the quantile of the scores times its error alone (docs/mldp.md).
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, prod

import numpy as np
from scipy.optimize import nnls
from scipy.special import ndtri

from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.lab.papers.mldp.training import LITTLE
from sfumato.lab.papers.mldp.training_queries import Blocks, along_runs

ROUNDS = 4  # of weighing misfits by what they were found to be
WIDER = 0.2  # by which share the squared error is taken larger: what a few tiles say of long questions may be luck
LEAST = 1e-3  # of the noise of one tile, in variances: no model is taken to be better than that


@dataclass(frozen=True, eq=False)
class ErrorBars:
    """Error model of a learned model. growth: coefficients of squared error by `parts_of`. scores: sorted, (n,)."""

    growth: Floats
    scores: Floats

    @classmethod
    def of(cls, misfits: Floats, parts: Floats, noise: Floats) -> ErrorBars:
        """Fit the error model to misfits of test queries, (n,). parts: `parts_of` them, (n, 3). noise: variances."""
        noise = np.maximum(noise, LITTLE)  # of a budget so large that there is none
        expected = parts[:, 1] * noise[0] + noise
        least = LEAST * float(noise.min())
        growth = np.zeros(parts.shape[1])
        for _ in range(ROUNDS):
            weights = 1.0 / np.maximum(expected, least)
            growth = nnls(parts * weights[:, None], (misfits**2 - noise) * weights)[0]
            growth[1] = max(growth[1], least)
            expected = parts @ growth + noise
        per_block = np.array([0.0, float(noise.sum() / parts[:, 1].sum()), 0.0])
        return cls(growth + WIDER * (growth + per_block), np.sort(np.abs(misfits) / np.sqrt(expected)))

    def errors(self, parts: Floats) -> Floats:
        """Standard error of each question, by the fitted growth."""
        return np.asarray(np.sqrt(np.maximum(parts @ self.growth, 0.0)))

    def quantile(self, confidence: float) -> float:
        """Half-width of an interval in standard errors: quantile of the scores, normal beyond the largest."""
        number = len(self.scores)
        place = ceil(confidence * (number + 1))
        if place <= number:
            return float(self.scores[place - 1])
        outermost = number / (number + 1)
        return float(self.scores[-1] * ndtri(0.5 + confidence / 2) / ndtri(0.5 + outermost / 2))


def parts_of(rows: Floats, blocks: int) -> Floats:
    """Parts of each query, (queries, 3): blocks cut, blocks covered, and the latter squared. rows: features."""
    shares = np.clip(rows[:, :blocks], 0.0, 1.0)
    cut, covered = 4.0 * (shares * (1.0 - shares)).sum(axis=1), shares.sum(axis=1)
    return np.stack([cut, covered, covered**2], axis=1)


def finer(blocks: Blocks, noisy: Whole, number: int) -> Blocks:
    """Refine blocks up to `number`, halving the run with most rows along any axis each time.

    noisy: counts of the blocks. The rows of a run are split over its halves in proportion to their lengths.

    >>> from sfumato.domain import Axis, Domain
    >>> eight = Domain((Axis("x", "integer", np.arange(9.0)),))
    >>> finer(Blocks(eight, ((0, 4),)), np.array([5, 90]), 4).starts
    ((0, 4, 5, 6),)
    """
    counts = np.maximum(noisy, 0).reshape(blocks.shape)
    axes = range(counts.ndim)
    ends = [[*starts, size] for starts, size in zip(blocks.starts, blocks.domain.shape, strict=True)]
    rows = [counts.sum(axis=tuple(p for p in axes if p != place)).astype(float).tolist() for place in axes]
    while True:
        shape = [len(each) - 1 for each in ends]
        room = [place for place in axes if prod(shape) // shape[place] * (shape[place] + 1) <= number]
        halves = [
            (rows[place][run], ends[place][run + 1] - ends[place][run], -place, -run)
            for place in room
            for run in range(shape[place])
            if ends[place][run + 1] - ends[place][run] > 1
        ]
        if not halves:
            return Blocks(blocks.domain, tuple(tuple(each[:-1]) for each in ends))
        held, length, place, run = max(halves)  # of empty ones the longest
        place, run = -place, -run
        first = ends[place][run]
        ends[place].insert(run + 1, first + length // 2)
        rows[place][run : run + 1] = [held * (length // 2) / length, held * (length - length // 2) / length]


MOST_BOXES = 600  # evenly from all of them
MOST_TILES = (32, 64)  # along one attribute, and along several


@lru_cache(maxsize=16)
def boxes_of_tiles(blocks: Blocks, tiles: Blocks) -> tuple[Floats, Floats]:
    """Features of boxes of neighbouring tiles, (boxes, features), and the tiles in each, (boxes, tiles)."""
    runs = [[(first, last) for first in range(size) for last in range(first, size)] for size in tiles.shape]
    number = prod(len(each) for each in runs)
    kept = np.unique(np.linspace(0, number - 1, min(number, MOST_BOXES)).astype(np.int64))
    shape = [len(each) for each in runs]
    rows, sums = [], []
    for places in zip(*np.unravel_index(kept, shape), strict=True):
        box = [each[place] for each, place in zip(runs, places, strict=True)]
        rows.append(blocks.of_boxes([along_runs(tiles, [a for a, _ in box], [b for _, b in box])]))
        inside = np.zeros(tiles.shape)
        inside[tuple(slice(a, b + 1) for a, b in box)] = 1.0
        sums.append(inside.reshape(-1))
    return np.array(rows), np.array(sums)


def tiles_beside(blocks: Blocks) -> Blocks:
    """Tiles whose counts are held out for testing a model on these blocks."""
    return blocks.uneven(MOST_TILES[len(blocks.shape) > 1])
