"""NOT PRIVATE: broken misfits, first answers and partitions, kept so that the audit can be seen to catch them.

Each forgets one clause of theorems 3 to 5 in docs/privacy.md. Beside each stands its control, the kernel's own version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from sfumato.kernel.sampling.entropy import Entropy
from sfumato.lab.audit.attacks import reference as twins
from sfumato.lab.audit.attacks.exact import TOLERANCE
from sfumato.lab.audit.attacks.reference import largest_gap, partition_law
from sfumato.lab.audit.mutants.noise import Run, laplace
from sfumato.lab.audit.subjects.subject import Outputs

Check = Callable[[], str | None]

ONE, TWO, FOUR = Fraction(1), Fraction(2), Fraction(4)  # scales of noise, all for epsilon 1
ROWS = 5  # queries whose misfits are added up
GUESSES = 8  # misfits that the added row raises, before the one that it lowers

# Prices of buckets of 1, 2 and 4 cells: at the first, a bucket that costs as much as its cells do wins only by its
# noise; at the second, longer ones are cheap. And tables to which a row is added in cell 1, where it makes all three
# longer buckets around it more even.
PRICES, CHEAP = (2, 4, 8), (2, 2, 6)
EVEN, STEEP = [1, 0, 1, 1], [2, 0, 2, 2]


# -- sums of misfits


def summed_misfits(scale: Fraction) -> Run:
    """The sum of misfits of prefixes, with targets of 0; a row in the first cell is in all of them."""

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        return ROWS * (3 + which) + laplace(scale, runs, 1, entropy)

    return run


def summed_as_one() -> Run:
    """NOT PRIVATE: the noise of a sum of misfits is made for one of them, where a row of data moves them all."""
    return summed_misfits(ONE)


# -- the first misfit above a threshold


def first_misfit(of_threshold: Fraction, of_misfits: Fraction) -> Run:
    """The place of the first misfit above 0; the added row raises all but the last, which it lowers."""
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
    """The cheapest of the six ways to cut four cells; the way that is named first wins ties."""

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
    """NOT PRIVATE: noisy deviations below 0 are taken as 0, so that some noise cannot make up for what moved."""
    return cut(STEEP, ONE, TWO, prices=CHEAP, clip=True)


def exact_cut(single: Fraction | None) -> Check:
    """Check that a row in cell 1 tells no more than epsilon 1, for this noise on single cells."""

    def check() -> str | None:
        tables = [(EVEN[0], EVEN[1] + row, *EVEN[2:]) for row in (0, 1)]
        loss = largest_gap(*(partition_law(table, PRICES, single, TWO) for table in tables))
        return None if loss <= 1 + TOLERANCE else f"epsilon 1 claimed, {loss:.3f} lost on the worst of six partitions"

    return check
