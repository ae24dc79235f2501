"""Exact audit of looks at values: what one person changes, at the delta that is paid for.

Where a person has one value, `find_values` itself is run with every noise that there is, on tables that DuckDB read
with and without a person; so what is published has a known distribution, and its hockey-stick divergence, the delta at
this epsilon, is a sum of fractions. Pairs are those that thresholds are about: a person who alone has a value, or
several, one more of few, and two values of which one person more decides the order.

Where people have several values, noise is Gaussian: the weights that a person adds to both rounds are compared with the
rho that their noise pays for, and the chances of values that he alone has with the delta of the thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from math import erfc, prod, sqrt
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.frozen import dataclass
from sfumato.kernel.budget import Cost, rho_for
from sfumato.kernel.discovering import FULL, FoundValue, Held, find_values, rounds_of, threshold_noise, values_schema
from sfumato.kernel.reading.table import Table, open_table
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.attacks.exact import TOLERANCE, ExactFinding
from sfumato.schema import Schema
from sfumato.schema.parts import PrivacyUnit

EPSILON, DELTA = "1", "1e-3"  # large, so that noise has few values
COST = Cost.stated(EPSILON, DELTA)
LIKELY = Context(prec=60).exp(Decimal(EPSILON))
MOST = 3  # values of a person who has several
Rows = tuple[tuple[str, str], ...]  # (person, value)
Answer = tuple[list[bytes], NDArray[np.int64], NDArray[np.int64]]
Finder = Callable[..., list[FoundValue]]
Dealer = Callable[[Held, NDArray[np.int64], int], NDArray[np.int64]]


def crowd(value: str, people: int) -> Rows:
    """So many people with one value."""
    return tuple((f"{value} {number}", value) for number in range(people))


MANY = len(threshold_noise(COST).weights)  # people of a value that is always found
PAIRS: dict[str, tuple[Rows, Rows]] = {  # the others, and the person's rows
    "alone with a value": ((), (("ann", "x"),)),
    "one more of few": (crowd("x", 2), (("ann", "x"),)),
    "alone with three values": ((), (("ann", "x"), ("ann", "y"), ("ann", "z"))),
    "with two values of others": (crowd("x", 3) + crowd("y", 6), (("ann", "x"), ("ann", "y"))),
    "with a hundred rows": (crowd("x", 1), (("ann", "x"),) * 100),
    "first of two": (crowd("x", MANY) + crowd("y", MANY), (("ann", "y"),)),
}


@dataclass(frozen=True)
class Kept:
    """Table that was read once: its answer is given again for every noise."""

    rows: Rows
    answers: dict[int, Answer] = field(default_factory=dict)

    def read_values(self, schema: Schema, key: int, most: int) -> Answer:
        """The answer of the kernel's own reading."""
        import pyarrow as pa

        if most not in self.answers:
            names = {"who": [who for who, _ in self.rows], "x": [value for _, value in self.rows]}
            frame = pa.table({name: pa.array(texts, pa.string()) for name, texts in names.items()})
            self.answers[most] = open_table(frame).read_values(schema, key, most)
        return self.answers[most]


class Scripted(TestingEntropy):
    """Random bits by which noise of given places is drawn."""

    def __init__(self, places: Sequence[int]) -> None:
        super().__init__(0)
        self.places = places

    def words(self, count: int) -> NDArray[np.uint64]:
        """Words just above the edges that noise of these places begins with."""
        noise = threshold_noise(COST)
        return np.array([(noise.rising[place] >> (noise.bits - 64)) + 1 for place in self.places], dtype=np.uint64)


def values_law(finder: Finder, table: Kept) -> dict[tuple[FoundValue, ...], Fraction]:
    """Distribution of what a look publishes, from all noises that its values can draw."""
    schema, noise = values_schema("x", PrivacyUnit(column="who", contributions=1)), threshold_noise(COST)
    values = len(table.read_values(schema, 1, 1)[0])
    law: dict[tuple[FoundValue, ...], Fraction] = {}
    for places in product(range(len(noise.weights)), repeat=values):
        found = finder(cast(Table, table), schema, COST, most=10, values_a_person=1, key=1, entropy=Scripted(places))
        chance = Fraction(prod(noise.weights[place] for place in places), 1 << noise.bits * values)
        law[tuple(found)] = law.get(tuple(found), Fraction(0)) + chance
    return law


def lost_delta(one: dict[Any, Fraction], other: dict[Any, Fraction]) -> Fraction:
    """Hockey-stick divergence at the audit's epsilon, the larger of both ways."""
    times = Fraction(LIKELY.next_plus())
    nothing = Fraction(0)
    ways = [[(p, b.get(y, nothing)) for y, p in a.items()] for a, b in ((one, other), (other, one))]
    return max(sum((max(nothing, p - times * q) for p, q in way), nothing) for way in ways)


def share_of_delta(finder: Finder, pair: tuple[Rows, Rows], table: type[Kept] = Kept) -> float:
    """The delta that a person's rows are told by, as a share of what was paid for."""
    others, own = pair
    return float(lost_delta(values_law(finder, table(others)), values_law(finder, table(others + own))) / COST.delta)


def person_moves(dealer: Dealer) -> float:
    """The most rho that a person's weights cost in two rounds, as a share of what was paid for."""
    rounds = rounds_of(COST, MOST)
    paid = rho_for(COST.epsilon - COST.delta, COST.delta / 2)
    most = 0
    for shares in product((0, 7, FULL), repeat=MOST):
        places = np.arange(MOST, dtype=np.int64)
        people = Held(np.append(places, 0), np.append(np.full(MOST, 1), 2), MOST, MOST)
        alone = Held(np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), MOST, MOST)
        moved = dealer(people, np.array(shares), rounds.one) - dealer(alone, np.array(shares), rounds.one)
        most = max(most, sum(int(by) ** 2 for by in moved))
    return float(sum(most / (2 * noise.sigma_squared) for noise in rounds.noises) / paid)


def alone_passes(dealer: Dealer) -> float:
    """The chance that values of one person alone are found in two rounds, as a share of the thresholds' delta."""
    rounds, most = rounds_of(COST, MOST), 0.0
    for values in range(1, MOST + 1):
        held = Held(np.arange(values), np.ones(values, dtype=np.int64), values, MOST)
        weights = dealer(held, np.full(values, FULL), rounds.one)
        sides = zip(rounds.noises, rounds.thresholds, strict=True)
        lost = [
            erfc((least - int(weight) - 1) / sqrt(2 * float(noise.sigma_squared))) / 2
            for noise, least in sides
            for weight in weights
        ]
        most = max(most, sum(lost))
    return most / float(COST.delta / 2)


def finds_too_much(finder: Finder, table: type[Kept] = Kept) -> str | None:
    """Complaint if a look tells of a person by more than its delta, in any of the pairs; else None."""
    for name, pair in PAIRS.items():
        share = share_of_delta(finder, pair, table)
        if share > 1 + TOLERANCE:
            return f"epsilon {EPSILON} and delta {DELTA} claimed, {share:.3f} of this delta lost ({name})"
    return None


def deals_too_much(dealer: Dealer) -> str | None:
    """Complaint if a person's weights tell of him by more than was paid for; else None."""
    moved, passed = person_moves(dealer), alone_passes(dealer)
    if max(moved, passed) <= 1 + TOLERANCE:
        return None
    return f"a person costs {moved:.3f} of the rho that was paid for, and {passed:.3f} of the thresholds' delta"


def value_findings() -> list[ExactFinding]:
    """Exact audit of looks at values, in shares of what was paid for."""
    one = [
        ExactFinding(f"values, a person {name}, share of delta", Fraction(1), share_of_delta(find_values, pair), 1)
        for name, pair in PAIRS.items()
    ]
    dealt = {"share of rho": person_moves(Held.weights), "share of the thresholds' delta": alone_passes(Held.weights)}
    return one + [ExactFinding(f"values dealt, {name}", Fraction(1), share, 1) for name, share in dealt.items()]
