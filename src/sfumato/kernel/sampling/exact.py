"""Exact Bernoulli draws with irrational probabilities, by integers that enclose them.

A `Real` stands for one number v of [0, 1] and gives, for any number of bits, integers (lower, upper) with

    lower <= v * 2**bits <= upper        and        upper - lower <= 2.

Every step below rounds its lower end down and its upper end up, so the first statement holds by construction. The
second needs a few spare bits per step; nothing depends on it but speed.

An exact Bernoulli draw compares v with a uniform number whose binary digits are drawn as they are needed: as soon as
the enclosures tell the two apart the answer is certain, whatever the digits to come. No precision is ever final, so
there is no rounding error to leak. `Coins` does so for many numbers at once. Where these are powers of one number,
their first bits come from a single enclosure of it: `powers` and `squares` multiply enclosures, rounded outwards too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import isqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import PrivacyError
from sfumato.frozen import dataclass
from sfumato.kernel.sampling.entropy import Entropy

Enclosure = tuple[int, int]
Real = Callable[[int], Enclosure]

COIN_BITS = 32  # measured: 16 bits are a little faster, but leave a coin undecided 65,536 times as often


def exp_minus(x: Fraction) -> Real:
    """The real number exp(-x) for rational x >= 0.

    >>> exp_minus(Fraction(1))(32)  # 2**32 / e = 1580030168.7...
    (1580030168, 1580030169)
    >>> exp_minus(Fraction(10**30))(64)
    (0, 1)
    """
    is_exact = isinstance(x, Fraction)
    if not (is_exact and x >= 0):
        raise PrivacyError(
            "A probability exp(-x) was asked for whose x is no Fraction or negative; give a Fraction >= 0"
        )

    def enclose(bits: int) -> Enclosure:
        if x == 0:
            return 1 << bits, 1 << bits
        if x >= bits:  # exp(-x) < 2**-x <= 2**-bits
            return 0, 1
        # exp(-x) = exp(-y) ** (2**halvings) with y = x / 2**halvings < 1/2, where the series needs few terms.
        halvings = int(x).bit_length() + isqrt(bits) // 2 + 1
        spare = halvings + bits.bit_length() + 8  # squaring doubles the width, each term adds at most 2
        work = bits + spare
        return round_out(_square(series(x / (1 << halvings), work), halvings, work), spare)

    return enclose


def series(y: Fraction, work: int) -> Enclosure:
    """Enclose exp(-y) * 2**work for 0 < y <= 1/2 by the alternating sum of y**k / k!."""
    y_lower, rest = divmod(y.numerator << work, y.denominator)
    y_upper = y_lower + (rest > 0)
    term_lower = term_upper = lower = upper = 1 << work
    k = 0
    while term_lower > 0:
        k += 1
        term_lower = term_lower * y_lower // (k << work)
        term_upper = -(-term_upper * y_upper // (k << work))
        if k % 2:
            lower, upper = lower - term_upper, upper - term_lower
        else:
            lower, upper = lower + term_lower, upper + term_upper
    # Alternating and shrinking: a sum that ends with a subtraction lies below exp(-y), one that ends with an addition
    # above. The last `term_lower` was 0, so in effect `lower` ended with a subtraction and `upper` with an addition.
    return lower, upper


def _square(v: Enclosure, times: int, work: int) -> Enclosure:
    lower, upper = v
    for _ in range(times):
        lower, upper = (lower * lower) >> work, -((-upper * upper) >> work)
    return lower, upper


def round_out(v: Enclosure, spare: int) -> Enclosure:
    """Enclosure with `spare` bits fewer."""
    return v[0] >> spare, -(-v[1] >> spare)


def squared(v: Real, times: int) -> Real:
    """The real number v ** (2**times)."""

    def enclose(bits: int) -> Enclosure:
        spare = times + 4  # each squaring at most doubles the width and rounds once
        return round_out(_square(v(bits + spare), times, bits + spare), spare)

    return enclose


def squares(v: Real, work: int) -> Iterator[Enclosure]:
    """Enclose v, v**2, v**4, v**8, ... times 2**work, without end; each at most twice as wide as the last, plus 2."""
    power = v(work)
    while True:
        yield power
        power = _square(power, 1, work)


def powers(v: Real, work: int) -> Iterator[Enclosure]:
    """Enclose 1, v, v**2, v**3, ... times 2**work, without end; each is at most 4 wider than the last."""
    v_lower, v_upper = v(work)
    lower = upper = 1 << work
    while True:
        yield lower, upper
        lower, upper = (lower * v_lower) >> work, -((-upper * v_upper) >> work)


def over_one_plus(top: Real, bottom: Real) -> Real:
    """The real number top / (1 + bottom).

    >>> odds = exp_minus(Fraction(2))
    >>> over_one_plus(odds, odds)(32)  # 2**32 / (1 + e**2) = 511972651.6...
    (511972651, 511972652)
    """

    def enclose(bits: int) -> Enclosure:
        spare = 4
        work = bits + spare
        return round_out(divide_by_one_plus(top(work), bottom(work), work), spare)

    return enclose


def divide_by_one_plus(top: Enclosure, bottom: Enclosure, work: int) -> Enclosure:
    """Enclose top / (1 + bottom), all of them times 2**work."""
    one = 1 << work
    return (top[0] << work) // (one + bottom[1]), -(-(top[1] << work) // (one + bottom[0]))


def complement(v: Real) -> Real:
    """The real number 1 - v."""

    def enclose(bits: int) -> Enclosure:
        lower, upper = v(bits)
        return (1 << bits) - upper, (1 << bits) - lower

    return enclose


def is_below(v: Real, digits: int, bits: int, entropy: Entropy) -> bool:
    """Whether a uniform number that starts with these `bits` binary digits lies below v.

    Only `entropy` decides the digits to come, so the answer is True with exactly the conditional probability. The loop
    ends with probability one: 64 more bits leave it undecided with a chance of about 2**-63.
    """
    while True:
        lower, upper = v(bits)
        if digits + 1 <= lower:  # the number lies in [digits, digits + 1] / 2**bits
            return True
        if digits >= upper:
            return False
        digits = (digits << 64) | int(entropy.words(1)[0])
        bits += 64


def bernoulli(v: Real, entropy: Entropy) -> bool:
    """Exact Bernoulli draw: True with probability v."""
    return is_below(v, 0, 0, entropy)


class Chances(Protocol):
    """Sequence of reals: a list, or one that makes each when it is asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, which: int, /) -> Real: ...


@dataclass(frozen=True, eq=False)
class Coins:
    """Bernoulli variables, with thresholds that decide a toss by its first 32 random bits.

    A toss whose bits, read as a number, are below `sure` is a success; from `sure + doubt` on it is none.
    """

    chances: Chances
    sure: NDArray[np.uint32]
    doubt: np.uint32

    @classmethod
    def of(cls, chances: Sequence[Real]) -> Coins:
        """Coins with these chances."""
        return cls.enclosed(chances, [chance(COIN_BITS) for chance in chances])

    @classmethod
    def enclosed(cls, chances: Chances, enclosures: Sequence[Enclosure]) -> Coins:
        """Coins with these chances, from their known 32-bit enclosures."""
        if len(chances) != len(enclosures):
            raise PrivacyError(f"{len(chances)} chances came with {len(enclosures)} enclosures; give one for each")
        lower, upper = np.array(enclosures, dtype=np.int64).T
        sure = np.clip(lower, 0, 2**COIN_BITS - 1)
        return cls(chances, sure.astype(np.uint32), np.uint32(int((upper - sure).max())))

    def toss(self, which: NDArray[np.intp], shape: tuple[int, ...], entropy: Entropy) -> NDArray[np.bool_]:
        """Toss coins independently in that shape; `which`, broadcast to it, selects the coin of each toss."""
        size = int(np.prod(shape, dtype=np.int64))
        bits = entropy.words((size + 1) // 2).view(np.uint32)[:size].reshape(shape)
        sure = self.sure[which]
        success: NDArray[np.bool_] = bits < sure
        undecided = (bits - sure) < self.doubt  # unsigned: what lies below `sure` wraps round to far above `doubt`
        if undecided.any():
            which = np.broadcast_to(which, shape)
            for place in zip(*np.nonzero(undecided), strict=True):
                # Right whatever the bits are, so it does not matter how generous `doubt` is.
                success[place] = is_below(self.chances[int(which[place])], int(bits[place]), COIN_BITS, entropy)
        return success
