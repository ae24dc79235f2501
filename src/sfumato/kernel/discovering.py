"""Find the values of a category that nobody listed: those that enough people have (docs/privacy.md, section 16).

One value a person: its number of people with noise, kept if that reaches a threshold that a single person passes with
chance delta. Desfontaines, Voss, Gipson, Mandayam, "Differentially private partition selection" (PoPETs 2022), have the
best chances of being kept; the noise here is the one that has just these chances, so that noisy counts cost nothing
more. Corrected: they are whole numbers out of a power of two, and the loss of the very table that is drawn from is
worked out before it is used.

A look is paid for by an epsilon and a delta, which have no rho; whoever calls has reserved them (`kernel/opening.py`).
Nothing leaves but values that passed, with their noisy numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BudgetError, PrivacyError, SchemaError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Cost
from sfumato.kernel.reading.table import Table
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.exact import exp_minus
from sfumato.schema import Schema
from sfumato.schema.dialect import Dialect
from sfumato.schema.parts import PrivacyUnit

Integers = NDArray[np.int64]

SPARE_BITS = 96  # of chances, beyond those of delta: what rounding costs is below 2**-70 of delta
LARGEST_EPSILON = Fraction(32)  # more is spent as this much: no value is hidden by then
MOST_STEPS = 2**19  # of noise: enough for an epsilon of 0.0001 and a delta of 1e-9


@dataclass(frozen=True)
class FoundValue:
    """A value that enough people have. noisy: their number with noise, or their weight where people have several."""

    value: str
    noisy: int


def values_schema(
    column: str, unit: PrivacyUnit, file: Dialect | None = None, fold: tuple[str, ...] | None = None
) -> Schema:
    """Schema of a look at the values of a column, in which `Table.check_values` finds what it cannot serve."""
    category = {"type": "category", "column": column, "values": ["value"], "other": True, "fold": fold}
    attributes = {"value": {name: part for name, part in category.items() if part is not None}}
    return Schema(dataset="values", privacy_unit=unit, attributes=attributes, file=file)


def find_values(
    table: Table, schema: Schema, cost: Cost, *, most: int, values_a_person: int, key: int, entropy: Entropy
) -> list[FoundValue]:
    """Find the values that enough people have, those with the largest noisy number first.

    schema: as `values_schema` makes it. cost: epsilon and delta, spent in full, that were reserved for this look.
    most: values that are returned; of more the rarest, by their noisy numbers, are left out.
    values_a_person: different values of a person that are used. key: chooses which; drawn afresh for every look.
    """
    if not 1 <= values_a_person <= MOST_A_PERSON or most < 1:
        raise SchemaError(f"a look at values takes 1 to {MOST_A_PERSON} values of a person and finds 1 or more")
    if schema.privacy_unit.column is None:
        values_a_person = 1  # a row has one
    if values_a_person > 1:
        raise SchemaError("a look takes one value of a person")
    noise = threshold_noise(cost)
    values, codes, counts = table.read_values(schema, key, values_a_person)
    people = np.zeros(len(values), dtype=np.int64)
    people[codes] = counts
    noisy = people + noise.draw(len(values), entropy)
    return largest(((noisy[place], values[place]) for place in np.flatnonzero(noisy >= noise.threshold)), most)


MOST_A_PERSON = 64


def largest(passed: Iterable[tuple[int, bytes]], most: int) -> list[FoundValue]:
    """At most so many of the values that passed, by their noisy numbers and then by their bytes.

    For privacy: nothing else decides the order. A value whose bytes are no text could not be listed, and falls out.
    """
    found = []
    for noisy, value in sorted(passed, key=lambda one: (-one[0], one[1])):
        try:
            found.append(FoundValue(value.decode(), int(noisy)))
        except UnicodeDecodeError:
            continue
    return found[:most]


# -- One value a person


@dataclass(frozen=True, eq=False)
class ThresholdNoise:
    """Noise of whole numbers below a threshold: threshold - n has chance (rising[n] - rising[n - 1]) / 2**bits.

    So a number n of people reaches the threshold with chance rising[n] / 2**bits, and none never does.
    """

    rising: tuple[int, ...]  # from 0 to 2**bits
    bits: int

    @property
    def threshold(self) -> int:
        """The noisy number from which a value is kept; in the middle of the noise, so that numbers are not biased."""
        return len(self.rising) // 2

    @property
    def weights(self) -> list[int]:
        """Chances of the noise threshold - 1, threshold - 2, ..., times 2**bits."""
        return [after - before for before, after in pairwise(self.rising)]

    def draw(self, count: int, entropy: Entropy) -> Integers:
        """`count` independent samples, exactly distributed: which of `rising` a uniform number lies between."""
        inner = self.rising[1:-1]
        first = np.array([edge >> (self.bits - 64) for edge in inner], dtype=np.uint64)
        words = entropy.words(count)
        passed = np.searchsorted(first, words, side="right")  # edges at or below, by the first 64 bits
        undecided = np.flatnonzero(np.searchsorted(first, words, side="left") < passed)
        for place in undecided:  # the first bits are those of an edge: so many more decide
            rest = int.from_bytes(entropy.bytes((self.bits - 64) // 8), "big")
            number = (int(words[place]) << (self.bits - 64)) | rest
            passed[place] = sum(edge <= number for edge in inner)
        return np.asarray(self.threshold - 1 - passed, dtype=np.int64)


@lru_cache(maxsize=16)
def threshold_noise(cost: Cost) -> ThresholdNoise:
    """Noise with which a number of people, of whom each is one of at most one value, is (epsilon, delta)-private.

    The chances of n people are the largest that are possible: at most exp(epsilon) times those of n - 1 people, and
    delta; and the chances of not reaching the threshold as much the other way.
    """
    if cost.pure or cost.rho is not None:
        raise BudgetError("a look at values needs an epsilon and a delta, such as --epsilon 0.2 --delta 1e-9")
    bits = -(-(int(1 / cost.delta).bit_length() + SPARE_BITS) // 64) * 64
    if 2 * int(1 / cost.delta).bit_length() > MOST_STEPS * cost.epsilon:
        raise BudgetError("this epsilon is too small for a look at values; give 0.001 or more")
    one, times = 1 << bits, _growth(cost.epsilon)
    step = int(cost.delta * one) - 2 * MOST_STEPS  # what rounding each step down or up may cost
    rising = [0]
    while rising[-1] < one:
        last = rising[-1]
        up = last * times.numerator // times.denominator + step
        left = (one - last - step) * times.denominator
        down = one - max(0, -(-left // times.numerator))
        rising.append(min(up, down, one))
    noise = ThresholdNoise(tuple(rising), bits)
    if excess(noise.weights, times) > cost.delta * one:
        raise PrivacyError("the noise of a look at values would tell more than was reserved; nothing is published")
    return noise


def excess(weights: list[int], times: Fraction) -> Fraction:
    """The larger of what chances exceed `times` the chances one step on by, and one step back, summed over all."""
    above, below = [0, *weights], [*weights, 0]
    pairs = list(zip(above, below, strict=True))
    top, bottom = times.numerator, times.denominator
    sides = [sum(max(0, bottom * x - top * y) for x, y in way) for way in (pairs, [(y, x) for x, y in pairs])]
    return Fraction(max(sides), bottom)


def _growth(epsilon: Fraction) -> Fraction:
    """A rational number at or just below exp(epsilon)."""
    work = 128
    return Fraction(1 << work, exp_minus(min(epsilon, LARGEST_EPSILON))(work)[1])
