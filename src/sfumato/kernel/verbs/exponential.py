"""The exponential mechanism: choose one of many candidates with exactly its probabilities."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import PrivacyError
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.exact import bernoulli, exp_minus

WIDEST = 2**63  # of a class of scores; differences of int64 scores stay below 2**64
MOST = 2**53  # candidates: their numbers are added up as doubles


def choose(scores: NDArray[np.int64], rate: Fraction, entropy: Entropy, times: NDArray[np.int64] | None = None) -> int:
    """The index of a candidate, drawn with P(i) proportional to times[i] * exp(rate * scores[i]).

    rate: epsilon / (2 * sensitivity) of the scores, which makes the choice epsilon-differentially private.
    times: how many candidates of that score stand behind index i, at least one; one each if not given.

    Scores are gathered in classes about 1 / rate wide. A class is drawn with the weight its best score would have, then
    a candidate of the class, kept with probability exp(-rate * (best score of the class - its own)), at least 1 / e;
    otherwise all is drawn afresh. The product of the two weights is the right one, so the choice is exact. Where
    rate >= 1 a class is one score and nothing is ever rejected.

    The time taken depends on the scores, as any reading of the table does; it is not part of what is published.
    """
    if scores.ndim != 1 or scores.size == 0 or scores.dtype != np.int64:
        raise PrivacyError(
            f"A choice needs a list of whole-number (int64) scores, at least one; it got {scores.dtype} of shape "
            f"{scores.shape}; round scores to whole numbers, because floating-point scores leak"
        )
    if rate <= 0:
        raise PrivacyError(f"A choice was asked for at rate {rate}; the rate must be positive")
    if times is None:
        times = np.ones(scores.size, dtype=np.int64)
    if times.shape != scores.shape or times.min() < 1 or times.max() * scores.size >= MOST:
        raise PrivacyError("A choice needs a whole number of candidates behind every score, 1 or more")
    width = min(int(1 / rate), WIDEST) if rate < 1 else 1
    # The distance to the best score; unsigned arithmetic modulo 2**64 gives it even where int64 would overflow.
    distances = scores.max().view(np.uint64) - scores.view(np.uint64)
    classes = distances // np.uint64(width)
    while True:
        chosen = _draw_class(classes, times, rate * width, entropy)
        members = np.flatnonzero(classes == np.uint64(chosen))
        upto = np.cumsum(times[members])
        candidate = int(members[np.searchsorted(upto, uniform_below(int(upto[-1]), entropy), side="right")])
        surplus = int(distances[candidate]) - width * chosen
        if bernoulli(exp_minus(rate * surplus), entropy):
            return candidate


def _draw_class(classes: NDArray[np.uint64], times: NDArray[np.int64], rate: Fraction, entropy: Entropy) -> int:
    """A class number k, drawn with P(k) proportional to (members of class k, with their times) * exp(-rate * k).

    A uniform number U of [0, 1] belongs to class k when U * total lies between the summed weights before k and those
    up to k. All of them are enclosed by integers, and U is drawn 64 binary digits at a time, until only one class is
    possible. More digits and tighter enclosures can only confirm it, so stopping there changes no probability.
    """
    digits = bits = 0
    while True:
        digits = (digits << 64) | int(entropy.words(1)[0])
        bits += 64
        precision = bits + 64
        # A class beyond `horizon` weighs less than 2**-precision per member: all of them are enclosed as one.
        horizon = min(ceil(precision / rate), 2**64 - 1)
        near = classes < np.uint64(horizon)
        # Sums of whole numbers below 2**53 are exact as doubles.
        members = np.bincount(classes[near].astype(np.int64), weights=times[near]).astype(np.int64).tolist()
        beyond = int(times.sum()) - sum(members)

        weights = [exp_minus(rate * k)(precision) if count else (0, 0) for k, count in enumerate(members)]
        total_lower = sum(count * lower for count, (lower, _) in zip(members, weights, strict=True))
        total_upper = sum(count * upper for count, (_, upper) in zip(members, weights, strict=True)) + beyond
        # U lies in [digits, digits + 1] / 2**bits, so U * total, in units of 2**-(bits + precision), lies in
        point_lower, point_upper = digits * total_lower, (digits + 1) * total_upper

        before_upper = upto_lower = 0
        for k, (count, (lower, upper)) in enumerate(zip(members, weights, strict=True)):
            upto_lower += count * lower
            is_last = beyond == 0 and k == len(members) - 1  # nothing lies above it
            if count and before_upper << bits <= point_lower and (is_last or point_upper <= upto_lower << bits):
                return k
            before_upper += count * upper


def uniform_below(bound: int, entropy: Entropy) -> int:
    """A whole number drawn uniformly from 0, 1, ..., bound - 1.

    Draws just enough bits and starts afresh when they name a number out of range; a remainder would favour small ones.
    """
    if bound < 1:
        raise PrivacyError("A uniform number was asked for from an empty range; the bound must be at least 1")
    bits = (bound - 1).bit_length()
    count = -(-bits // 64)
    while True:
        number = 0
        for word in entropy.words(count).tolist():
            number = (number << 64) | word
        number >>= 64 * count - bits
        if number < bound:
            return number
