"""ISPE's MMSE estimate for a tree of noisy counts, exactly: every leaf's posterior mean, by passing messages.

Xiao, Xiong, Yuan, TR-2011-005, algorithm 4, for the hierarchical partitions of section 5.3.3. The paper simulates the
distribution of summed noises and treats observations that share noise as independent. Here the posterior is exact: the
nodes of a tree form a graph without cycles, a parent is the sum of its children, and sums are products of Fourier
transforms. The prior is flat, as in the paper, so the estimate of a range is the sum of its leaves' means.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats


def posterior_means(levels: list[Floats], scales: list[float], *, reach: float = 40.0) -> Floats:
    """The posterior mean of every leaf.

    levels: the noisy counts of every level from the root down; each node has as many children as any other of its
    level. scales: of the Laplace noise of each level, on whole numbers. reach: how many scales a grid extends.
    """
    leaves = len(levels[-1])
    # Counts are taken modulo the length of the grid: all that matters lies within the reach of some observation.
    length = 2 ** int(np.ceil(np.log2(reach * max(scales) * max(2.0, leaves**0.5 / 4))))
    likelihood = [_likelihood(noisy, scale, length) for noisy, scale in zip(levels, scales, strict=True)]
    upward = [likelihood[-1]]
    below: list[NDArray[np.complex128]] = []
    for level in reversed(likelihood[:-1]):
        families = np.fft.rfft(upward[0]).reshape(len(level), -1, length // 2 + 1)
        below.insert(0, families)
        upward.insert(0, _scaled(level * np.fft.irfft(families.prod(axis=1), length)))
    downward = np.ones_like(likelihood[0])
    for level, families in zip(likelihood[:-1], below, strict=True):
        above = np.fft.rfft(_scaled(downward * level))[:, None, :]
        siblings = np.stack([np.delete(families, child, axis=1).prod(axis=1) for child in range(families.shape[1])], 1)
        downward = _scaled(np.fft.irfft(above * siblings.conj(), length).reshape(-1, length))
    posterior = _scaled(downward * likelihood[-1])
    # The grid is a circle: distances are taken from each leaf's own observation, to either side.
    near = np.rint(levels[-1]).astype(np.int64)
    distance = (np.arange(length) - near[:, None] + length // 2) % length - length // 2
    return np.asarray(near + (posterior * distance).sum(axis=1), dtype=np.float64)


def _likelihood(noisy: Floats, scale: float, length: int) -> Floats:
    """How likely each observation is, for every true count modulo the length of the grid."""
    near = np.rint(noisy).astype(np.int64)
    distance = np.abs((np.arange(length) - near[:, None] + length // 2) % length - length // 2)
    return _scaled(np.exp(-distance / scale))


def _scaled(mass: Floats) -> Floats:
    """Mass that adds up to one; what Fourier transforms leave below zero is rounding."""
    positive = np.maximum(mass, 0.0)
    return np.asarray(positive / positive.sum(axis=-1, keepdims=True), dtype=np.float64)
