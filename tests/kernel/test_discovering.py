"""Values that nobody listed: exact chances, exact losses at delta, and what of a table is looked at."""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from math import erfc, exp, log, sqrt

import numpy as np
import pandas as pd
import pytest

from sfumato.errors import BudgetError, PrivacyError, SchemaError
from sfumato.kernel.budget import Cost, epsilon_for
from sfumato.kernel.discovering import (
    FULL,
    FoundValue,
    Held,
    chance_to_pass,
    deal,
    find_values,
    largest,
    rounds_of,
    tail,
    threshold_noise,
    values_schema,
)
from sfumato.kernel.reading.table import open_table
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.measurement import Gaussian
from sfumato.schema.parts import PrivacyUnit

ROW = PrivacyUnit(column=None, contributions=1)
PERSON = PrivacyUnit(column="who", contributions=1)
EPSILONS = ["0.2", "1", "3", "25"]
DELTAS = ["1e-3", "1e-9", "1e-40"]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_loss_at_delta_is_what_was_paid_for_and_hardly_less(epsilon: str, delta: str) -> None:
    """The hockey-stick divergence of the noisy numbers, worked out here from the drawn distribution alone."""
    cost = Cost.stated(epsilon, delta)
    noise = threshold_noise(cost)
    one = 1 << noise.bits
    law = {noise.threshold - 1 - n: Fraction(w, one) for n, w in enumerate(noise.weights)}
    assert sum(law.values()) == 1
    assert all(w > 0 for w in law.values())
    digits = Context(prec=60)
    times = Fraction(digits.next_plus(digits.exp(Decimal(epsilon))))
    for shift in (1, -1):  # a person more, a person less
        moved = {x + shift: chance for x, chance in law.items()}
        loss = sum(max(Fraction(0), chance - times * moved.get(x, Fraction(0))) for x, chance in law.items())
        assert loss <= cost.delta
        assert loss >= cost.delta * (1 - Fraction(1, 10**6))  # nothing of it is left unused
    assert noise.rising[1] <= cost.delta * one  # the only one who has a value


@pytest.mark.parametrize(("epsilon", "delta"), [("0.2", "1e-9"), ("1", "1e-3")])
def test_no_value_can_be_kept_with_a_larger_chance(epsilon: str, delta: str) -> None:
    """The recursion of the optimum (Desfontaines and others 2022, theorem 1), in floats good to 1e-12."""
    cost = Cost.stated(epsilon, delta)
    noise = threshold_noise(cost)
    grown, chance = exp(float(cost.epsilon)), 0.0
    for n in range(1, len(noise.rising)):
        step = float(cost.delta)
        chance = min(grown * chance + step, 1 - (1 - chance - step) / grown, 1.0)
        assert noise.rising[n] / 2**noise.bits == pytest.approx(chance, abs=1e-12)


def test_a_threshold_too_low_by_one_loses_more_than_delta() -> None:
    noise = threshold_noise(Cost.stated("1", "1e-6"))
    kept = [sum(noise.weights[: n + 1]) for n in range(len(noise.weights))]  # chance of n people at threshold - 1
    assert kept[0] <= Fraction(1, 10**6) * 2**noise.bits < kept[1]


def test_noise_is_drawn_as_it_is_accounted() -> None:
    """Chances of 200,000 draws, each within a bound that fails with chance 1e-6 over all (Bernstein, 30 outcomes)."""
    noise = threshold_noise(Cost.stated("1", "1e-6"))
    runs = 200_000
    drawn = noise.draw(runs, SystemEntropy())
    for n, weight in enumerate(noise.weights):
        p, tail = weight / 2**noise.bits, log(60 / 1e-6)
        seen = np.count_nonzero(drawn == noise.threshold - 1 - n)
        assert abs(seen - runs * p) <= sqrt(2 * runs * p * tail) + tail


def test_first_bits_that_are_those_of_an_edge_are_decided_by_all_of_them() -> None:
    noise = threshold_noise(Cost.stated("1", "1e-6"))
    edge = noise.rising[5]
    first, rest = edge >> (noise.bits - 64), edge & ((1 << (noise.bits - 64)) - 1)

    class Fixed(TestingEntropy):
        def __init__(self, tail: int) -> None:
            super().__init__(1)
            self.tail = tail

        def words(self, count: int) -> np.ndarray:  # type: ignore[type-arg]
            return np.full(count, first, dtype=np.uint64)

        def bytes(self, count: int) -> bytes:
            return self.tail.to_bytes(count, "big")

    below, at = (int(noise.draw(1, Fixed(rest + by))[0]) for by in (-1, 0))
    assert (below, at) == (noise.threshold - 5, noise.threshold - 6)


def test_budgets_without_a_delta_and_far_too_small_are_refused() -> None:
    with pytest.raises(BudgetError, match="needs an epsilon and a delta"):
        threshold_noise(Cost.stated("1"))
    with pytest.raises(BudgetError, match=r"give 0\.001 or more"):
        threshold_noise(Cost.stated("1e-7", "1e-9"))
    with pytest.raises(SchemaError, match="1 to 64 values"):
        find_values(None, values_schema("x", ROW), Cost.stated(1, "1e-6"), most=3, values_a_person=65, key=1,  # type: ignore[arg-type]
                    entropy=SystemEntropy())  # fmt: skip


def look(frame: object, unit: PrivacyUnit, cost: Cost, most: int = 10, each: int = 1) -> list[FoundValue]:
    schema = values_schema("dx", unit)
    table = open_table(frame)
    table.check_values(schema, each)
    return find_values(table, schema, cost, most=most, values_a_person=each, key=5, entropy=TestingEntropy(3))


def test_values_of_enough_people_are_found_and_others_never() -> None:
    rows = ["flu"] * 500 + ["Flu"] * 400 + ["grippe é"] * 300 + [""] * 900 + [None] * 900 + ["rare"]
    found = look(pd.DataFrame({"dx": rows}), ROW, Cost.stated(1, "1e-9"))
    assert [one.value for one in found] == ["flu", "Flu", "grippe é"]
    assert all(abs(one.noisy - count) < 60 for one, count in zip(found, (500, 400, 300), strict=True))
    assert [one.value for one in look(pd.DataFrame({"dx": rows}), ROW, Cost.stated(1, "1e-9"), 2)] == ["flu", "Flu"]


def test_one_person_counts_once_and_with_one_value() -> None:
    """A person with a thousand rows, and a thousand values, is one person of one value."""
    crowd = pd.DataFrame({"who": ["ann"] * 2000, "dx": ["only hers"] * 1000 + [f"v{n}" for n in range(1000)]})
    others = pd.DataFrame({"who": [f"p{n // 3}" for n in range(900)], "dx": ["flu"] * 900})
    nobody = pd.DataFrame({"who": [None] * 900, "dx": ["of nobody"] * 900})
    (found,) = look(pd.concat([crowd, others, nobody]), PERSON, Cost.stated(1, "1e-9"))
    assert found.value == "flu"
    assert abs(found.noisy - 300) < 60


def test_nothing_is_found_where_nothing_is_there() -> None:
    assert look(pd.DataFrame({"dx": ["x"]})[:0], ROW, Cost.stated(1, "1e-9")) == []


def test_bytes_that_are_no_text_fall_out_and_noisy_numbers_order_the_rest() -> None:
    found = largest([(7, b"b"), (9, b"\xff"), (7, b"a"), (8, b"c")], 2)
    assert found == [FoundValue("c", 8), FoundValue("a", 7)]


# -- Several values a person


def discrete_tail(least: int, noise: Gaussian) -> float:
    """Chance of discrete Gaussian noise of at least so much, summed term by term; logarithms keep it from 0."""
    reach = np.arange(-60 * int(float(noise.sigma_squared) ** 0.5 + 1), 60 * int(float(noise.sigma_squared) ** 0.5 + 1))
    densities = np.exp(-(reach.astype(float) ** 2) / (2 * float(noise.sigma_squared)))
    return float(densities[reach >= least][::-1].sum() / densities.sum())


@pytest.mark.parametrize("sigma_squared", [Fraction(1, 2), Fraction(9), Fraction(1000), Fraction(123456, 7)])
def test_tails_are_bounded_from_above_and_closely(sigma_squared: Fraction) -> None:
    noise = Gaussian(sigma_squared)
    for deviations in (1, 3, 5, 7):
        least = int(deviations * float(sigma_squared) ** 0.5) + 1
        exact = discrete_tail(least, noise)
        assert exact * (1 - 1e-9) <= tail(least, noise)
        if sigma_squared >= 1000 and deviations > 1:
            assert tail(least, noise) <= 1.3 * exact  # a step less, and the third term of the tail's series
    assert tail(1, noise) == tail(-5, noise) == 1


@pytest.mark.parametrize(("epsilon", "delta", "most"), [("1", "1e-6", 3), ("0.2", "1e-9", 8), ("4", "1e-5", 64)])
def test_values_of_one_person_alone_pass_with_half_of_delta_at_most(epsilon: str, delta: str, most: int) -> None:
    """Neighbours in which a person is the only one with his values, however many and however he deals."""
    cost = Cost.stated(epsilon, delta)
    rounds = rounds_of(cost, most)
    sides = list(zip(rounds.noises, rounds.thresholds, strict=True))
    assert sum(chance_to_pass(least, noise, rounds.one, most) for noise, least in sides) <= cost.delta / 2
    assert sum(chance_to_pass(least - 1, noise, rounds.one, most) for noise, least in sides) > cost.delta / 2
    rng = np.random.default_rng(1)
    dealt = [np.full(d, 1 / sqrt(d)) for d in range(1, most + 1)] + [np.eye(most)[0]]
    dealt += [one / sqrt(one @ one) for one in rng.random((20, most)) ** 4]
    for weights in dealt:
        lost = 0.0
        for noise, least in sides:
            sigma = float(noise.sigma_squared) ** 0.5
            lost += sum(erfc((least - w * rounds.one) / sigma / sqrt(2)) / 2 for w in weights)
        assert lost <= float(cost.delta) / 2


def test_the_noise_of_both_rounds_together_costs_the_other_half() -> None:
    """zCDP of a weight of squared length one**2 in each round; its (epsilon, delta) by the kernel's conversion."""
    for epsilon, delta in (("1", "1e-6"), ("0.1", "1e-9"), ("10", "1e-5")):
        cost = Cost.stated(epsilon, delta)
        rounds = rounds_of(cost, 5)
        rho = sum(rounds.one**2 / (2 * noise.sigma_squared) for noise in rounds.noises)
        assert epsilon_for(rho, cost.delta / 2) <= cost.epsilon - cost.delta
        assert epsilon_for(rho, cost.delta / 2) >= cost.epsilon * Fraction(999, 1000)


def some_people(rng: np.random.Generator, people: int, values: int, most: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    pairs = [(p + 1, v) for p in range(people) for v in rng.permutation(values)[: rng.integers(1, most + 1)]]
    numbers, places = np.array(pairs, dtype=np.int64).T
    return places, numbers


def test_a_person_moves_weights_by_one_at_most_whatever_the_first_round_said() -> None:
    """Squares of the differences, exactly, for 200 tables with and without a person and any shares."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        most, values, one = int(rng.integers(2, 9)), 12, int(rng.integers(2**8, 2**24))
        places, people = some_people(rng, 6, values, most)
        shares = rng.integers(0, FULL + 1, values) * rng.integers(0, 2, values)
        stays = people != 6
        with_all = Held(places, people, values, most).weights(shares, one)
        without = Held(places[stays], people[stays], values, most).weights(shares, one)
        moved = (with_all - without).tolist()
        assert all(by >= 0 for by in moved)
        assert sum(by * by for by in moved) <= one**2
        assert {place for place, by in enumerate(moved) if by} <= set(places[~stays].tolist())
    alone = Held(np.array([0, 1]), np.array([1, 1]), 2, 2).weights(np.array([FULL, FULL]), 2**20)
    assert alone == pytest.approx(2**20 / sqrt(2), rel=1e-4)  # and hardly less than allowed


def test_more_values_of_a_person_than_allowed_are_refused() -> None:
    for places, people in (([0, 1, 2], [1, 1, 1]), ([0, 0], [1, 1])):
        with pytest.raises(PrivacyError, match="each person's values"):
            Held(np.array(places), np.array(people), 3, 2)


def test_the_second_round_finds_what_even_dealing_does_not() -> None:
    """Everybody has a value that all have and one of forty others, of 40 people each; one round needs 26 weights.

    Dealt evenly these have 28, and by the second round 40: nearly all are found instead of two thirds.
    """
    people = 1600
    frame = pd.DataFrame({"who": [f"p{n // 2}" for n in range(2 * people)]})
    frame["dx"] = ["all"] * (2 * people)
    frame.loc[1::2, "dx"] = [f"v{n % 40}" for n in range(people)]
    found = look(frame, PERSON, Cost.stated(1, "1e-6"), 100, 2)
    assert found[0].value == "all"
    assert len(found) >= 38  # of 41
    assert [one.noisy for one in found] == sorted((one.noisy for one in found), reverse=True)
    assert len(look(frame, PERSON, Cost.stated(1, "1e-6"), 7, 2)) == 7


def test_several_values_of_few_people_are_not_found() -> None:
    """A thousand people with three values each that nobody else has, of whom one has ten thousand rows."""
    frame = pd.DataFrame({"who": [f"p{n // 3}" for n in range(3000)], "dx": [f"v{n}" for n in range(3000)]})
    loud = pd.DataFrame({"who": ["loud"] * 10_000, "dx": [f"v{n % 3000}" for n in range(10_000)]})
    assert look(pd.concat([frame, loud]), PERSON, Cost.stated(1, "1e-9"), 10, 3) == []
    held = Held(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), 0, 3)
    assert deal(held, rounds_of(Cost.stated(1, "1e-9"), 3), SystemEntropy())[0].tolist() == []
