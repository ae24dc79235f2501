"""Find the values of a category that nobody listed: those that enough people have (docs/privacy.md, section 16).

One value a person: its number of people with noise, kept if that reaches a threshold that a single person passes with
chance delta. Desfontaines, Voss, Gipson, Mandayam, "Differentially private partition selection" (PoPETs 2022), have the
best chances of being kept; the noise here is the one that has just these chances, so that noisy counts cost nothing
more. Corrected: the chances are whole multiples of a power of 1/2, and the exact privacy loss of the rounded table of
chances is checked before it is used.

Several values a person: in each of two rounds, each person distributes weights of l2 norm 1 over the values he has.
First evenly; then, by the noisy weights of the first round, weight moves to values that need it: found values get none,
and those beyond the threshold no more than it takes. This is the second round of MAD2R: Chen, Cohen-Addad, Epasto,
Zadimoghaddam, "Scalable private partition selection via adaptive weighting" (ICML 2025). Left out: in their rounds
excess weight also comes back from a value to its people, by which one person moves the weights of values he does not
have. Rounded to whole numbers that has no bound, and the second round makes up for it (benchmarks/discover.py).

A look is one private query of the table, for its values or by a curator. It is debited in epsilon and delta (no rho)
from a reservation that several looks share (`Looks`). Only values that passed are returned, with their noisy numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import BudgetError, PrivacyError, SchemaError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget, Cost, rho_for
from sfumato.kernel.curator import Curator
from sfumato.kernel.ledger.ledger import Account, Ledger, Receipt
from sfumato.kernel.opening import Step, Terms, curator_of, rehearse
from sfumato.kernel.reading.table import Table
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.exact import exp_minus
from sfumato.kernel.sampling.noise import VARIANCES, draw
from sfumato.measurement import Gaussian
from sfumato.schema import Schema
from sfumato.schema.dialect import Dialect
from sfumato.schema.parts import PrivacyUnit

Integers = NDArray[np.int64]

SPARE_BITS = 96  # of chances, beyond those of delta: what rounding costs is below 2**-70 of delta
LARGEST_EPSILON = Fraction(32)  # more is spent as this much: no value is hidden by then
MOST_A_PERSON = 64  # values; more would be few people's, and dealt thin
MOST_STEPS = 2**19  # of noise: enough for an epsilon of 0.0001 and a delta of 1e-9

NEEDS_DELTA = "a look at values needs an epsilon and a delta, such as --epsilon 0.2 --delta 1e-9"
TOO_SMALL = "this epsilon is too small for a look at values; give 0.001 or more"


@dataclass(frozen=True)
class FoundValue:
    """Value found by a look. noisy: noisy number of people who have it, or their weight where people have several."""

    value: str
    noisy: int


def values_schema(
    column: str, unit: PrivacyUnit, file: Dialect | None = None, fold: tuple[str, ...] | None = None
) -> Schema:
    """Schema of a look at the values of a column; `Table.check_values` validates it."""
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
        rounds = rounds_of(cost, values_a_person)
        values, places, people = table.read_values(schema, key, values_a_person)
        passed, noisy = deal(Held(places, people, len(values), values_a_person), rounds, entropy)
        return largest(((noisy[place] // rounds.one, values[place]) for place in np.flatnonzero(passed)), most)
    noise = threshold_noise(cost)
    values, places, counts = table.read_values(schema, key, values_a_person)
    people = np.zeros(len(values), dtype=np.int64)
    people[places] = counts
    noisy = people + noise.draw(len(values), entropy)
    return largest(((noisy[place], values[place]) for place in np.flatnonzero(noisy >= noise.threshold)), most)


def largest(passed: Iterable[tuple[int, bytes]], most: int) -> list[FoundValue]:
    """The `most` largest of the values that passed, by noisy number and then by bytes.

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

    So a value that n people have reaches the threshold with chance rising[n] / 2**bits; rising[0] is 0.
    """

    rising: tuple[int, ...]  # from 0 to 2**bits
    bits: int

    @property
    def threshold(self) -> int:
        """Noisy number from which a value is kept; at the centre of the noise, so that noisy numbers are unbiased."""
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
    """Noise and threshold for counts of people with at most one value each, (epsilon, delta)-private.

    The chance p(n) that n people reach the threshold is the largest that privacy allows, but for rounding:
    p(n) <= exp(epsilon) p(n - 1) + delta, and 1 - p(n - 1) <= exp(epsilon) (1 - p(n)) + delta.
    """
    if cost.pure or cost.rho is not None:
        raise BudgetError(NEEDS_DELTA)
    bits = -(-(int(1 / cost.delta).bit_length() + SPARE_BITS) // 64) * 64
    if 2 * int(1 / cost.delta).bit_length() > MOST_STEPS * cost.epsilon:
        raise BudgetError(TOO_SMALL)
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
    """Hockey-stick divergence at factor `times` between a distribution and its shift by one; the larger direction."""
    above, below = [0, *weights], [*weights, 0]
    pairs = list(zip(above, below, strict=True))
    top, bottom = times.numerator, times.denominator
    sides = [sum(max(0, bottom * x - top * y) for x, y in way) for way in (pairs, [(y, x) for x, y in pairs])]
    return Fraction(max(sides), bottom)


def _growth(epsilon: Fraction) -> Fraction:
    """A rational number at or just below exp(epsilon)."""
    work = 128
    return Fraction(1 << work, exp_minus(min(epsilon, LARGEST_EPSILON))(work)[1])


# -- Several values a person

FIRST = Fraction(1, 10)  # of rho and of the thresholds' delta that the first round gets
FULL, SELDOM = 64, 20  # shares that a person deals by: of a value that may pass, and of one that hardly will
HARDLY = 4  # that is one whose noisy weight is below a fourth of the threshold
FINEST = 2**24  # units of weight that one person deals; fewer where noise in so fine units would not fit


@dataclass(frozen=True, eq=False, repr=False)  # no repr: it holds private rows
class Held:
    """Pairs of a value's index and a person's number, one for each value that a person has. most: pairs of a person."""

    places: Integers
    people: Integers
    values: int
    most: int

    def __post_init__(self) -> None:
        """Refuse pairs by which a person could have too much weight: a repeated value, or more than `most`."""
        each = np.bincount(self.people) if len(self.people) else np.zeros(1, dtype=np.int64)
        order = np.lexsort((self.places, self.people))
        twice = (np.diff(self.places[order]) == 0) & (np.diff(self.people[order]) == 0)
        if each.max() > self.most or twice.any():
            raise PrivacyError(
                "the engine did not return each person's values as it was asked to; nothing is published"
            )

    def weights(self, shares: Integers, one: int) -> Integers:
        """Total weight of each value; a person's weights are in proportion to `shares`, with l2 norm `one` at most."""
        own = shares[self.places]
        squares = np.bincount(self.people, own * own).astype(np.int64)  # sums far below 2**53, so exact as floats
        # At or above the root times 2**12: one more makes up for a rounding. So weights are rounded down.
        roots = np.ceil(np.sqrt((squares << 24).astype(np.float64))).astype(np.int64) + 1
        dealt = np.zeros(self.values, dtype=np.int64)
        np.add.at(dealt, self.places, (own * one << 12) // roots[self.people])
        return dealt


@dataclass(frozen=True)
class Rounds:
    """Public noises and thresholds of two rounds; in each, a person distributes a weight of `one` over values."""

    one: int
    noises: tuple[Gaussian, Gaussian]
    thresholds: tuple[int, int]


@lru_cache(maxsize=16)
def rounds_of(cost: Cost, most: int) -> Rounds:
    """Noises and thresholds of two rounds, (epsilon, delta)-private together; most: values of a person.

    Half of delta is for noise, which is Gaussian, and half for thresholds (docs/privacy.md, theorem 16).
    """
    if cost.pure or cost.rho is not None:
        raise BudgetError(NEEDS_DELTA)
    half = cost.delta / 2
    if cost.epsilon <= 2 * half:
        raise BudgetError(TOO_SMALL)
    rho = rho_for(cost.epsilon - 2 * half, half)
    first = FIRST * rho
    fits = VARIANCES[1] * 2 * first  # the square of `one` at which noise is as large as it can be drawn
    one = min(FINEST, 1 << (isqrt(int(fits)).bit_length() - 1)) if fits >= 1 else 0
    if one < 2**8:
        raise BudgetError(TOO_SMALL)
    noises = Gaussian(one**2 / (2 * first)), Gaussian(one**2 / (2 * (rho - first)))
    deltas = FIRST * half, (1 - FIRST) * half
    thresholds = [least_threshold(noise, one, most, delta) for noise, delta in zip(noises, deltas, strict=True)]
    return Rounds(one, noises, (thresholds[0], thresholds[1]))


def deal(held: Held, rounds: Rounds, entropy: Entropy) -> tuple[NDArray[np.bool_], Integers]:
    """Flags of the values that passed in either round, and noisy weights, first-round values ranked above others.

    For privacy: what people deal in the second round follows from noisy weights of the first and their own values.
    """
    first, second = rounds.thresholds
    earlier = held.weights(np.full(held.values, FULL, dtype=np.int64), rounds.one)
    earlier += draw(rounds.noises[0], held.values, entropy)
    found = earlier >= first
    enough = second + isqrt(int(rounds.noises[1].sigma_squared))
    shares = FULL * enough // np.maximum(earlier, enough)
    shares[HARDLY * earlier < second] = SELDOM
    shares[found] = 0
    later = held.weights(shares, rounds.one) + draw(rounds.noises[1], held.values, entropy)
    return found | (later >= second), np.where(found, earlier, np.minimum(later, first - 1))


def least_threshold(noise: Gaussian, one: int, most: int, delta: Fraction) -> int:
    """Least threshold that values of a single person pass with probability at most delta, however weights are split."""
    low, high = one, 64 * (one + isqrt(int(noise.sigma_squared)) + 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if chance_to_pass(middle, noise, one, most) <= delta else (middle + 1, high)
    return low


def chance_to_pass(threshold: int, noise: Gaussian, one: int, most: int) -> Fraction:
    """Bound on the chance that any of a single person's `most` values reaches a threshold, which is at least `one`.

    Tails are convex there, so that a weight w passes with at most tail(t) + w / one * (tail(t - one) - tail(t)); and
    weights whose squares add up to one**2 add up to at most one * sqrt(most).
    """
    sum_of_weights = min(Fraction(most), root_above(Fraction(most)))
    without, with_all = tail(threshold, noise), tail(threshold - one, noise)
    return (most - sum_of_weights) * without + sum_of_weights * with_all


def tail(least: int, noise: Gaussian) -> Fraction:
    """Upper bound on P(noise >= least), discrete Gaussian: the tail of the continuous one from `least - 1` on.

    Its tail from x on is below density(x) * (1/x - 1/x^3 + 3/x^5), in units of the standard deviation.
    """
    if least <= 1:
        return Fraction(1)
    x_squared = (least - 1) ** 2 / noise.sigma_squared
    bits = 512
    density = Fraction(exp_minus(x_squared / 2)(bits)[1], 1 << bits)
    over_root = root_above(1 / (TWICE_PI * x_squared))
    return min(Fraction(1), density * over_root * (1 - 1 / x_squared + 3 / x_squared**2))


TWICE_PI = Fraction(6_283_185_307, 10**9)  # just below


def root_above(value: Fraction) -> Fraction:
    """A rational number just above the square root."""
    return Fraction(isqrt((value.numerator << 256) // value.denominator) + 1, 1 << 128)


# -- Several looks on one reservation


class Looks:
    """Several private queries of one table, each debited from one reservation first (docs/privacy.md, section 10)."""

    def __init__(self, opened: Callable[[], Table], terms: Terms, receipt: Receipt, entropy: Entropy) -> None:
        self.receipt = receipt
        self._opened, self._unit, self._entropy = opened, terms.schema.privacy_unit.column, entropy
        self._epsilon, self._delta = terms.cost.epsilon, terms.cost.delta

    def take(self, epsilon: Fraction, delta: Fraction = Fraction(0)) -> Budget:
        """Debit the reservation, or refuse; a debit is never returned."""
        if not 0 < epsilon <= self._epsilon or not 0 <= delta <= self._delta:
            raise PrivacyError("the looks would spend more than was reserved for them; nothing more is read")
        self._epsilon, self._delta = self._epsilon - epsilon, self._delta - delta
        return Budget.pure(epsilon)

    def curator(self, schema: Schema, epsilon: Fraction) -> Curator:
        """Curator of the table's rows under a schema of the same unit, which can spend this epsilon and no more."""
        self._refuse_another_unit(schema)
        budget = self.take(epsilon)
        return curator_of(schema, self._opened().read(schema, self._key()), budget, self._entropy)

    def values(
        self, schema: Schema, epsilon: Fraction, delta: Fraction, *, most: int, values_a_person: int
    ) -> list[FoundValue]:
        """Values that enough people have (kernel/discovering.py) of a schema's one attribute, a category."""
        self._refuse_another_unit(schema)
        self.take(epsilon, delta)
        return find_values(
            self._opened(),
            schema,
            Cost(epsilon, delta),
            most=most,
            values_a_person=values_a_person,
            key=self._key(),
            entropy=self._entropy,
        )

    def _refuse_another_unit(self, schema: Schema) -> None:
        if schema.privacy_unit.column != self._unit:
            raise PrivacyError("a look protects another unit than the one that was reserved for")

    def _key(self) -> int:
        return int.from_bytes(self._entropy.bytes(7), "big")


def open_looks(
    opened: Callable[[], Table],
    terms: Terms,
    trials: Sequence[tuple[Schema, Cost | None]],
    *,
    ledger: Ledger,
    entropy: Entropy,
    step: Step,
    nonce: str,
) -> Looks:
    """Reserve the cost of several looks at a table, after checking names and types; reads no row.

    opened: opens the table anew, since each look reads it once. trials: schemas like those of the looks to come, each
    with the cost of a look at values, or None for a look by a curator.
    """
    if not terms.by_sums:
        raise PrivacyError("looks spend epsilons and deltas, which follow from no rho; reserve them so")
    step("check")
    rehearse_looks(opened, terms, trials, ledger=ledger)
    step("reserve")
    return Looks(opened, terms, ledger.reserve(terms.wanted, nonce), entropy)


def rehearse_looks(
    opened: Callable[[], Table], terms: Terms, trials: Sequence[tuple[Schema, Cost | None]], *, ledger: Ledger
) -> Account:
    """Refuse what `open_looks` would refuse from names and types; reserves nothing and reads no row."""
    for schema, cost in trials:
        several = schema.privacy_unit.column is not None
        with opened() as table:
            table.check(schema)
            if cost is not None:
                threshold_noise(cost)
                table.check_values(schema, 2 if several else 1)
        if cost is not None and several:
            rounds_of(cost, MOST_A_PERSON)
    with opened() as table:
        return rehearse(table, terms, ledger=ledger)
