"""NOT PRIVATE: broken ways to add noise to counts, kept so that the audit can be seen to catch them.

Each takes the index of one of two neighbouring inputs, a number of runs and random bits, and returns a row of published
numbers per run. All claim epsilon = 1 unless `registry.py` says otherwise. `honest` is the control of most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.kernel.sampling.entropy import Entropy, TestingEntropy
from sfumato.kernel.sampling.noise import draw, draw_geometric
from sfumato.lab.audit.subjects.subject import HIDDEN, Outputs
from sfumato.measurement import Laplace

Run = Callable[[int, int, Entropy], Outputs]
ONE = Fraction(1)


def laplace(scale: Fraction, runs: int, columns: int, entropy: Entropy) -> Outputs:
    """Independent discrete Laplace noise, a row per run."""
    return draw(Laplace(scale), runs * columns, entropy).reshape(runs, columns)


def honest(without: Sequence[int], added: Sequence[int], scale: Fraction = ONE) -> Run:
    """Counts with the noise they need: nothing is wrong here."""
    inputs = np.array([without, np.add(without, added)], dtype=np.int64)

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        return np.asarray(inputs[which] + laplace(scale, runs, len(without), entropy))

    return run


# -- too little noise


def halved_scale(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: half the noise that epsilon asks for."""
    return 3 + which + laplace(Fraction(1, 2), runs, 1, entropy)


def short_scale(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: noise 2 % short, which only many runs can tell."""
    return 3 + which + laplace(Fraction(49, 50), runs, 1, entropy)


def two_rows_as_one(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: a person has two rows, the noise is made for one."""
    return 3 + 2 * which + laplace(ONE, runs, 1, entropy)


def rounded_counts(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: counts rounded to tens, as if that were protection, with noise for a step of 1."""
    return (14 + which + 5) // 10 * 10 + laplace(ONE, runs, 1, entropy)


def scale_from_data(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: the sensitivity of a sum is taken from the largest value in the table."""
    values = [1, 1, 20][: 2 + which]
    return sum(values) + laplace(Fraction(max(values)), runs, 1, entropy)


# -- noise of the wrong shape


def clipped_noise(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: noise beyond 8 scales is moved to 8 scales, once in 2,000 runs."""
    return 3 + which + np.clip(laplace(ONE, runs, 1, entropy), -8, 8)


def redrawn_noise(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: noise is drawn again until the answer lies within 4 of the truth."""
    noise = laplace(ONE, 2 * runs, 1, entropy)
    return 3 + which + noise[np.abs(noise[:, 0]) <= 4][:runs]


def one_sided_noise(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: noise is only ever added, so that no count looks too small."""
    return 3 + which + draw_geometric(ONE, runs, entropy).reshape(runs, 1)


def even_noise(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: the lowest bit of the noise is always zero, so that odd counts stay odd."""
    return 3 + which + 2 * laplace(Fraction(4), runs, 1, entropy)


def float_noise(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: Laplace noise by logarithm of a floating-point uniform; the answer's bits tell the count."""
    return _float_bits(which + _float_laplace(2.0, runs, entropy))


def snapped_float_noise(which: int, runs: int, entropy: Entropy) -> Outputs:
    """As above, but what is published is rounded to a multiple of 1/8: for so few runs nothing is left to see."""
    return _float_bits(np.round(8 * (which + _float_laplace(2.0, runs, entropy))) / 8 + 0.0)  # no -0.0


def coarse_uniform(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: the uniform number behind the noise has 8 bits, so that its tails end at 5 scales."""
    uniform = (entropy.words(runs) >> np.uint64(56)).astype(np.float64) + 0.5
    size = np.round(-np.log(uniform / 256)).astype(np.int64)
    sign = np.where(entropy.words(runs) & np.uint64(1), 1, -1)
    return np.asarray(3 + which + sign * size, dtype=np.int64).reshape(runs, 1)


def _float_laplace(scale: float, runs: int, entropy: Entropy) -> NDArray[np.float64]:
    uniform = ((entropy.words(runs) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    sign = np.where(entropy.words(runs) & np.uint64(1), 1.0, -1.0)
    return np.asarray(-scale * sign * np.log(uniform), dtype=np.float64)


def _float_bits(answers: NDArray[np.float64]) -> Outputs:
    """A float as an observer of the file sees it, bit by bit."""
    return answers.view(np.int64).reshape(-1, 1)


# -- noise that is not independent


def reused_noise(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: two overlapping counts, half of epsilon each, get the same noise."""
    return np.array([5, 5 + which]) + laplace(Fraction(2), runs, 1, entropy)


def same_noise_on_all_cells(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: one draw of noise is added to every cell."""
    return np.array([4, 7, 4 + which]) + laplace(ONE, runs, 1, entropy)


def fixed_seed(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: the generator starts from the same seed in every run."""
    return np.repeat(3 + which + laplace(ONE, 1, 1, TestingEntropy(7)), runs, axis=0)


def seeded_by_data(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: the seed is made from the table, so that the same table gives the same noise."""
    return np.repeat(3 + which + laplace(ONE, 1, 1, TestingEntropy(3 + which)), runs, axis=0)


# -- noise that something else gives away


def zeros_left_alone(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: empty cells are published as exact zeros."""
    return which * (which + laplace(ONE, runs, 1, entropy))


def exact_rows(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: the exact number of rows stands beside the noisy counts."""
    noisy = np.array([3, 4 + which]) + laplace(ONE, runs, 2, entropy)
    return np.column_stack([noisy, np.full(runs, 7 + which)])


def clipped_to_data(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: noisy counts are clipped to the true number of rows."""
    return np.clip(3 + laplace(ONE, runs, 1, entropy), 0, 3 + which)


def noiseless_threshold(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: whether a cell is published is decided by its true count."""
    return np.where(4 + which >= 5, 4 + which + laplace(ONE, runs, 1, entropy), HIDDEN)


def honest_threshold(which: int, runs: int, entropy: Entropy) -> Outputs:
    """Whether a cell is published is decided by its noisy count: nothing is wrong here."""
    noisy = 4 + which + laplace(ONE, runs, 1, entropy)
    return np.where(noisy >= 5, noisy, HIDDEN)


def ordered_by_count(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: cells are listed by their true counts, largest first."""
    counts = np.array([5, 5 + which])
    order = np.argsort(-counts, kind="stable")
    noisy = counts + laplace(ONE, runs, 2, entropy)
    return np.column_stack([np.tile(order, (runs, 1)), noisy[:, order]])


def honestly_ordered(which: int, runs: int, entropy: Entropy) -> Outputs:
    """Cells are listed by their noisy counts, largest first: nothing is wrong here."""
    noisy = np.array([5, 5 + which]) + laplace(ONE, runs, 2, entropy)
    order = np.argsort(-noisy, axis=1, kind="stable")
    return np.column_stack([order, np.take_along_axis(noisy, order, axis=1)])
