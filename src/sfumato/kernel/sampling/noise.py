"""Exact samplers of discrete Laplace and discrete Gaussian noise, without floating-point numbers.

Everything is made of coins (docs/privacy.md, section 3): digit j of a geometric variable, P(g) proportional to r**g, is
one with probability r**(2**j) / (1 + r**(2**j)), and what is beyond 2**J is a run of successes of one more coin.

    Laplace     the difference of two geometric variables
    Gaussian    a Laplace proposal, kept with probability exp(-gamma), gamma rational (Canonne, Kamath, Steinke 2020)
    hits        the gaps between rare events are geometric

Privacy, timing: every sample tosses the same coins whatever comes of it, and Python looks at a single toss only where
its first 32 bits leave it undecided, a chance of about 2**-32. How many proposals are rejected is independent of the
values that are kept. The first 32 bits of all coins of a scale, which is public, are worked out together, from a few
enclosures of which they are powers; further bits of a coin when a toss is undecided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from math import ceil, isqrt

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import MechanismError, PrivacyError
from sfumato.frozen import dataclass
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.exact import (
    COIN_BITS,
    Coins,
    Real,
    bernoulli,
    complement,
    divide_by_one_plus,
    exp_minus,
    over_one_plus,
    powers,
    round_out,
    squared,
    squares,
)
from sfumato.measurement import LARGEST_SCALE, Laplace, Noise

Integers = NDArray[np.int64]

WORKING_COINS = 2**18  # tossed at once: a megabyte of random bits, however many samples are drawn
TOP_DIGIT = 62  # a geometric variable of 2**62 or more is reported as 2**62, so that no int64 can overflow
TOP = 2**TOP_DIGIT
VARIANCES = (Fraction(1, 2**60), Fraction(2**46))  # of Gaussian noise; the squares in `accepted` then stay below 2**62
MOST_HITS = 2**27


def draw(noise: Noise, count: int, entropy: Entropy) -> Integers:
    """`count` independent samples of `noise`, exactly distributed.

    >>> from sfumato.kernel.sampling.entropy import SystemEntropy
    >>> draw(Laplace(Fraction(20)), 1000, SystemEntropy()).dtype
    dtype('int64')
    """
    samples = np.empty(count, dtype=np.int64)
    if isinstance(noise, Laplace):
        digits = laplace_digits(noise.scale)
        for block in _blocks(count, 2 * len(digits.chances)):
            samples[block] = laplace_from(digits, block.stop - block.start, entropy)
        return samples
    proposal = proposal_for(noise.sigma_squared)
    largest = WORKING_COINS // (2 * len(proposal.digits.chances) + proposal.limbs)
    filled = 0
    while filled < count:
        proposed = laplace_from(proposal.digits, min(largest, 2 * (count - filled) + 16), entropy)
        kept = proposed[accepted(proposed, proposal, entropy)][: count - filled]
        samples[filled : filled + kept.size] = kept
        filled += kept.size
    return samples


def draw_geometric(rate: Fraction, count: int, entropy: Entropy) -> Integers:
    """`count` independent samples g >= 0 with P(g) proportional to exp(-rate * g)."""
    if rate <= 0:
        raise PrivacyError(f"Geometric noise of rate {rate} was asked for; the rate must be positive")
    samples = np.empty(count, dtype=np.int64)
    digits = laplace_digits(1 / rate)
    for block in _blocks(count, len(digits.chances)):
        samples[block] = _in_range(geometric_from(digits, block.stop - block.start, entropy))
    return samples


def sparse_hits(domain_size: int, threshold: int, noise: Laplace, entropy: Entropy) -> tuple[Integers, Integers]:
    """Sample the cells whose noise is at least `threshold`, and that noise, without visiting other cells.

    Returns the cells, ascending, and their noise. The same in distribution as one draw per cell: every cell is a hit
    with the same probability p, so the number of cells passed over before the next hit is geometric with ratio 1 - p;
    and what geometric noise has beyond a threshold it passes is geometric again.
    """
    if not (1 <= threshold <= TOP and 0 <= domain_size <= TOP):
        raise MechanismError(f"Sparse noise needs a threshold from 1 to 2**{TOP_DIGIT} and at most so many cells")
    hit, gap_digits = gaps_between_hits(noise.scale, threshold)
    expected = (domain_size * hit(64)[1] >> 64) + 1
    if expected > MOST_HITS:
        raise MechanismError(
            f"Threshold {threshold} would let about {expected} empty cells pass, {MOST_HITS} is the most; raise it"
        )
    batch = min(WORKING_COINS // len(gap_digits.chances), expected + 4 * isqrt(expected) + 8)
    end = np.uint64(domain_size)
    start = np.zeros(1, dtype=np.uint64)  # the first cell not yet decided
    found = []
    while start[0] < end:
        steps = geometric_from(gap_digits, batch, entropy).astype(np.uint64) + np.uint64(1)
        # `after` is the cell after each hit. A step is at most 2**62 + 1 long, so the first that leaves the domain
        # still fits 64 bits; only what follows it, and is dropped, may wrap round.
        after = start + np.cumsum(steps, dtype=np.uint64)
        beyond = np.flatnonzero(after > end)
        inside = int(beyond[0]) if beyond.size else batch
        found.append(after[:inside].astype(np.int64) - 1)
        start = after[inside : inside + 1] if beyond.size else after[-1:]
    cells = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
    return cells, threshold + draw_geometric(1 / noise.scale, cells.size, entropy)


def _digit_coins(ratio: Real) -> Coins:
    """Coins of a geometric variable: its binary digits from the lowest, then the run beyond them.

    As many digits as it takes for a run to start with a chance below 2**-62, that is never in practice.
    """
    work = 64 + TOP_DIGIT + 16  # 62 squarings widen an enclosure to 2**64 units, 2**-14 of the 64th bit
    chances: list[Real] = []
    enclosures = []
    for power in squares(ratio, work):
        chance = squared(ratio, len(chances))
        if len(chances) == TOP_DIGIT or round_out(power, work - 64)[1] <= 2:
            break
        chances.append(over_one_plus(chance, chance))
        enclosures.append(round_out(divide_by_one_plus(power, power, work), work - COIN_BITS))
    return Coins.enclosed([*chances, chance], [*enclosures, round_out(power, work - COIN_BITS)])


def geometric_from(coins: Coins, count: int, entropy: Entropy) -> Integers:
    """`count` geometric samples from their coins; values of 2**62 and more are returned as 2**62."""
    digits = len(coins.chances) - 1
    tossed = coins.toss(np.arange(digits + 1)[:, None], (digits + 1, count), entropy)
    values = np.zeros(count, dtype=np.int64)
    for first in range(0, digits, 8):  # gathered by bytes, because byte arithmetic is the fastest
        octet = np.zeros(count, dtype=np.uint8)
        for j in range(first, min(first + 8, digits)):
            octet |= tossed[j].view(np.uint8) << np.uint8(j - first)
        values |= octet.astype(np.int64) << np.int64(first)
    run = np.flatnonzero(tossed[-1])
    while run.size:
        values[run] = np.minimum(values[run], TOP - 2**digits) + 2**digits
        again = [values[i] < TOP and bernoulli(coins.chances[-1], entropy) for i in run]
        run = run[np.array(again, dtype=np.bool_)]
    return values


def laplace_from(coins: Coins, count: int, entropy: Entropy) -> Integers:
    both = _in_range(geometric_from(coins, 2 * count, entropy))
    difference: Integers = both[:count] - both[count:]
    return difference


def _in_range(values: Integers) -> Integers:
    """Refuse noise of 2**62 and more: a chance of exp(-4096) at the largest scale, whatever is in the table."""
    if (values >= TOP).any():
        raise PrivacyError("The noise drawn does not fit 64 bits, so nothing was published; ask again")
    return values


def _blocks(count: int, coins_per_sample: int) -> Iterator[slice]:
    size = WORKING_COINS // coins_per_sample
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


@lru_cache(maxsize=1024)
def laplace_digits(scale: Fraction) -> Coins:
    if not 0 < scale <= LARGEST_SCALE:
        raise PrivacyError(f"Laplace noise of scale {scale} was asked for; it must be positive and at most 2**50")
    return _digit_coins(exp_minus(1 / scale))


@lru_cache(maxsize=64)
def gaps_between_hits(scale: Fraction, threshold: int) -> tuple[Real, Coins]:
    """Probability of a hit, P(Z >= t) = r**t / (1 + r) with r = exp(-1 / scale), and the coins of the gap before it."""
    laplace_digits(scale)  # refuses scales out of range
    hit = over_one_plus(exp_minus(threshold / scale), exp_minus(1 / scale))
    return hit, _digit_coins(complement(hit))


@dataclass(frozen=True, eq=False)
class Proposal:
    """Laplace proposal and acceptance coins of the rejection sampler for discrete Gaussian noise.

    A proposal y of scale sigma_squared / c is kept with chance exp(-(|y| - c)**2 / (2 sigma_squared)): multiplied with
    exp(-|y| * c / sigma_squared) that is exp(-y**2 / (2 sigma_squared)) times a constant, for any c > 0. A rational
    c = centre / unit just below or at sigma keeps most and makes the chance exp(-square / divisor), where `square`,
    (unit * |y| - centre)**2, is whole. Written to base 256 the square is a sum of d * 256**i, so the chance is the
    product of exp(-d * 256**i / divisor): one toss per digit, with coin number d of the 256 coins of that place. These
    are the powers of one number, so one enclosure of it gives the first bits of all.
    """

    digits: Coins
    unit: int
    centre: int
    divisor: Fraction
    limbs: int
    coins: Coins


@lru_cache(maxsize=256)
def proposal_for(sigma_squared: Fraction) -> Proposal:
    if not VARIANCES[0] <= sigma_squared <= VARIANCES[1]:
        raise PrivacyError(
            f"Gaussian noise with sigma squared {sigma_squared} was asked for; it must lie between 2**-60 and 2**46"
        )
    if sigma_squared >= 1:
        unit, centre = 1, isqrt(int(sigma_squared))
    else:
        unit, centre = isqrt(ceil(1 / sigma_squared) - 1) + 1, 1
    digits = laplace_digits(sigma_squared * unit / centre)
    divisor = 2 * unit**2 * sigma_squared
    limbs = -(-(max(centre, unit * largest_of(digits)) ** 2).bit_length() // 8)
    rates = [Fraction(256**i) / divisor for i in range(limbs)]
    spare = 24  # 4 * 256 units of width are then 2**-14 of a threshold's last bit
    enclosures = [
        round_out(power, spare) for rate in rates for power in islice(powers(exp_minus(rate), COIN_BITS + spare), 256)
    ]
    return Proposal(digits, unit, centre, divisor, limbs, Coins.enclosed(LimbChances(rates), enclosures))


class LimbChances:
    """Chances exp(-d * rates[i]) of the coins number d + 256 * i, each made when a toss asks for it."""

    def __init__(self, rates: Sequence[Fraction]) -> None:
        self.rates = rates

    def __len__(self) -> int:
        return 256 * len(self.rates)

    def __getitem__(self, which: int, /) -> Real:
        limb, d = divmod(which, 256)
        return exp_minus(d * self.rates[limb])


def largest_of(digits: Coins) -> int:
    """Bound on geometric noise that only a success of the last coin exceeds."""
    return int(2 ** (len(digits.chances) - 1))


def accepted(proposed: Integers, proposal: Proposal, entropy: Entropy) -> NDArray[np.bool_]:
    """Rejection sampling: flags of the proposals to keep."""
    size = np.abs(proposed)
    square = (np.minimum(size, largest_of(proposal.digits)) * proposal.unit - proposal.centre) ** 2
    places = np.arange(proposal.limbs)[:, None]
    which = ((square >> 8 * places) & 255) + 256 * places
    kept: NDArray[np.bool_] = np.logical_and.reduce(proposal.coins.toss(which, which.shape, entropy), axis=0)
    for i in np.flatnonzero(size > largest_of(proposal.digits)):  # practically never: squares too large for 64 bits
        exact_square = (int(size[i]) * proposal.unit - proposal.centre) ** 2
        kept[i] = bernoulli(exp_minus(exact_square / proposal.divisor), entropy)
    return kept
