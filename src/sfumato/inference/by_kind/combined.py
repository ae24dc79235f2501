"""Counts that an estimate has and that were measured besides, weighed against each other."""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats
from sfumato.inference.by_kind.factor import POSSIBLE, believed


def combined(gaps: Floats, doubtful: Floats, sure: Floats) -> tuple[Floats, Floats]:
    """By how much counts move towards what was measured of them, and the covariance of what is then left open.

    gaps: measured less estimated. doubtful: the covariance that the estimate claims; sure: that of noise. Averaged over
    by how much larger than claimed the estimate's errors may be, each as likely as it makes the gaps.
    """
    chances, moves, left = [], [], []
    for factor in POSSIBLE:
        claimed = factor**2 * doubtful
        whole = claimed + sure
        weights = np.linalg.solve(whole, claimed).T
        moves.append(weights @ gaps)
        left.append(claimed - weights @ claimed)
        chances.append(-0.5 * (np.linalg.slogdet(whole)[1] + gaps @ np.linalg.solve(whole, gaps)))
    chance = believed(np.array(chances))
    mean = chance @ np.array(moves)
    off = np.array(moves) - mean
    spread = np.einsum("f,fij->ij", chance, np.array(left)) + (chance[:, None] * off).T @ off
    return mean, (spread + spread.T) / 2.0
