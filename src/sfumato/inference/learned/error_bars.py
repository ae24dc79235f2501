"""How far a model is off, from noisy answers kept aside: split conformal prediction, corrected for their noise.

Tiles that the model never saw are measured with noise. Every box of neighbouring tiles is a question whose noisy answer
is a sum of theirs, so that its misfit is what the model is off by, plus noise of known variance. Three numbers say how
the squared error grows: with the blocks that a question cuts, with the blocks it covers, and with their square (what is
systematic). They are fitted to squared misfits less the noise. Scores are misfits in units of error *and* noise
together; a fresh question has no noise of its own, so its interval is the quantile of the scores times its error alone.
"""

from __future__ import annotations

from math import ceil

import numpy as np
from scipy.optimize import nnls
from scipy.special import ndtri

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.inference.learned.lesson import LITTLE

ROUNDS = 4  # of weighing misfits by what they were found to be
WIDER = 0.2  # by which share the squared error is taken larger: what a few tiles say of long questions may be luck
LEAST = 1e-3  # of the noise of one tile, in variances: no model is taken to be better than that


@dataclass(frozen=True, eq=False)
class ErrorBars:
    """growth: of the squared error with the parts of a question (`parts_of`). scores: in rising order."""

    growth: Floats
    scores: Floats

    @classmethod
    def of(cls, misfits: Floats, parts: Floats, noise: Floats) -> ErrorBars:
        """misfits: of questions made of tiles; noise: its variance in each; parts: of each, a row (`parts_of`)."""
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
        """About how far each question is off: a standard error."""
        return np.asarray(np.sqrt(np.maximum(parts @ self.growth, 0.0)))

    def quantile(self, confidence: float) -> float:
        """How many standard errors an interval reaches; beyond the farthest score, as a normal error would."""
        number = len(self.scores)
        place = ceil(confidence * (number + 1))
        if place <= number:
            return float(self.scores[place - 1])
        outermost = number / (number + 1)
        return float(self.scores[-1] * ndtri(0.5 + confidence / 2) / ndtri(0.5 + outermost / 2))


def parts_of(rows: Floats, blocks: int) -> Floats:
    """How much each question cuts, covers, and covers squared, in blocks. rows: features, shares of blocks first."""
    shares = np.clip(rows[:, :blocks], 0.0, 1.0)
    cut, covered = 4.0 * (shares * (1.0 - shares)).sum(axis=1), shares.sum(axis=1)
    return np.stack([cut, covered, covered**2], axis=1)
