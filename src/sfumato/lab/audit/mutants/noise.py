"""NOT PRIVATE: broken ways to add noise to counts and misfits, kept so that the audit can be seen to catch them.

Each takes the index of one of two neighbouring inputs, a number of runs and random bits, and returns a row of published
numbers per run. All claim epsilon = 1 unless `registry.py` says otherwise. `honest` is the control of most of them.

Broken misfits, first answers and partitions each forget one clause of theorems 3 to 5 in docs/privacy.md. Their
controls have the scales of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.kernel.sampling.entropy import Entropy, TestingEntropy
from sfumato.kernel.sampling.noise import draw, draw_geometric
from sfumato.lab.audit.attacks import reference as twins
from sfumato.lab.audit.attacks.exact import TOLERANCE
from sfumato.lab.audit.attacks.reference import largest_gap, partition_law
from sfumato.lab.audit.subjects.subject import HIDDEN, Outputs
from sfumato.measurement import Laplace

Run = Callable[[int, int, Entropy], Outputs]
ONE = Fraction(1)


def laplace(scale: Fraction, runs: int, columns: int, entropy: Entropy) -> Outputs:
    """Independent discrete Laplace noise, a row per run."""
    return draw(Laplace(scale), runs * columns, entropy).reshape(runs, columns)


def honest(without: Sequence[int], added: Sequence[int], scale: Fraction = ONE) -> Run:
    """Control: counts with the noise that epsilon 1 needs."""
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
    """Floating-point Laplace noise, published rounded to multiples of 1/8: too little leaks for so few runs."""
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
    """Bit patterns of floats as integers, (runs, 1): all that an observer of the file sees."""
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
    """Control: the noisy count decides whether a cell is published."""
    noisy = 4 + which + laplace(ONE, runs, 1, entropy)
    return np.where(noisy >= 5, noisy, HIDDEN)


def ordered_by_count(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: cells are listed by their true counts, largest first."""
    counts = np.array([5, 5 + which])
    order = np.argsort(-counts, kind="stable")
    noisy = counts + laplace(ONE, runs, 2, entropy)
    return np.column_stack([np.tile(order, (runs, 1)), noisy[:, order]])


def honestly_ordered(which: int, runs: int, entropy: Entropy) -> Outputs:
    """Control: cells are listed by their noisy counts, largest first."""
    noisy = np.array([5, 5 + which]) + laplace(ONE, runs, 2, entropy)
    order = np.argsort(-noisy, axis=1, kind="stable")
    return np.column_stack([order, np.take_along_axis(noisy, order, axis=1)])


# -- misfits, first answers and partitions

TWO, FOUR = Fraction(2), Fraction(4)  # scales of noise, all for epsilon 1
ROWS = 5  # queries whose misfits are added up
GUESSES = 8  # misfits that the added row raises, before the one that it lowers

# Prices of buckets of 1, 2 and 4 cells: at the first, a bucket that costs as much as its cells do wins only by its
# noise; at the second, longer ones are cheap. And tables to which a row is added in cell 1, where it makes all three
# longer buckets around it more even.
PRICES, CHEAP = (2, 4, 8), (2, 2, 6)
EVEN, STEEP = [1, 0, 1, 1], [2, 0, 2, 2]


# -- sums of misfits


def summed_misfits(scale: Fraction) -> Run:
    """Sampler of a noisy sum of misfits of prefixes; a row in the first cell moves every one of them."""

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        return ROWS * (3 + which) + laplace(scale, runs, 1, entropy)

    return run


def summed_as_one() -> Run:
    """NOT PRIVATE: the noise of a sum of misfits is made for one of them, where a row of data moves them all."""
    return summed_misfits(ONE)


# -- the first misfit above a threshold


def first_misfit(of_threshold: Fraction, of_misfits: Fraction) -> Run:
    """Sampler of the sparse vector: index of the first misfit above 0; the added row raises all but the last."""
    values = [[0] * GUESSES + [1], [1] * GUESSES + [0]]

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        noisy = np.array(values[which]) + laplace(of_misfits, runs, GUESSES + 1, entropy)
        above = noisy > laplace(of_threshold, runs, 1, entropy)
        return np.where(above.any(axis=1), above.argmax(axis=1), -1).astype(np.int64).reshape(runs, 1)

    return run


def one_way_misfits() -> Run:
    """NOT PRIVATE: half the noise on each misfit, as if a row of data moved all of them the same way."""
    return first_misfit(TWO, TWO)


# -- partitions of four cells


def cut(
    table: Sequence[int],
    single: Fraction | None,
    longer: Fraction,
    *,
    prices: tuple[int, int, int] = PRICES,
    clip: bool = False,
) -> Run:
    """Sampler of the noisy least-cost partition of four cells, as one of six; ties go to the first named."""

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        counts = [table[0], table[1] + which, *table[2:]]
        buckets = twins.buckets(4)
        true = np.array([twins.deviation(counts[start : start + length]) for start, length in buckets])
        noise = np.zeros((runs, len(buckets)), dtype=np.int64)
        noise[:, 4:] = -np.abs(laplace(longer, runs, 4, entropy))
        if single is not None:
            noise[:, :4] = -np.abs(laplace(single, runs, 4, entropy))
        noisy = np.maximum(true + noise, 0) if clip else true + noise
        noisy += np.array([prices[length // 2] for _, length in buckets])
        ways = [[buckets.index(bucket) for bucket in _buckets_of(way)] for way in twins.partitions(4)]
        costs = np.stack([noisy[:, way].sum(axis=1) for way in ways], axis=1)
        return np.asarray(np.argmin(costs, axis=1), dtype=np.int64).reshape(runs, 1)

    return run


def _buckets_of(from_the_end: Sequence[int]) -> list[tuple[int, int]]:
    ends = 4 - np.cumsum([0, *from_the_end])
    return [(int(end) - length, length) for end, length in zip(ends, from_the_end, strict=False)]


def singles_without_noise() -> Run:
    """NOT PRIVATE: single cells carry no noise because they never deviate, though the buckets they beat do."""
    return cut(EVEN, None, TWO)


def costs_clipped() -> Run:
    """NOT PRIVATE: noisy deviations are clipped at 0, so that other noise cannot always offset the change by a row."""
    return cut(STEEP, ONE, TWO, prices=CHEAP, clip=True)


def exact_cut(single: Fraction | None) -> str | None:
    """Complaint if a row in cell 1 has a privacy loss above 1, for this noise on single cells; else None."""
    tables = [(EVEN[0], EVEN[1] + row, *EVEN[2:]) for row in (0, 1)]
    loss = largest_gap(*(partition_law(table, PRICES, single, TWO) for table in tables))
    return None if loss <= 1 + TOLERANCE else f"epsilon 1 claimed, {loss:.3f} lost on the worst of six partitions"
