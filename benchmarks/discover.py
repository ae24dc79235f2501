"""Values found by a private look, beside the best possible at its threshold, by Zipf exponent and values a person.

    python benchmarks/discover.py [--people 50000] [--runs 5] [--epsilon 1] [--delta 1e-6]

Everybody has one to k values, drawn by a Zipf law. "Possible" are the values that have as many people as the threshold
of one round with all of the budget: no dealing of weights finds more of them, but for luck. "Evenly" is that one round.
"Given back" is MAD, in which the excess of a value comes back to its people, who deal it again; it is done here in
floating point, with the noise of the other two and nothing added for its larger reach, for comparison alone. A person
with one value is looked at by the truncated geometric optimum, whose expected number is told as possible.
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np

from sfumato.kernel.budget import Cost, rho_for
from sfumato.kernel.discovering import FULL, Held, deal, least_threshold, rounds_of, threshold_noise
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.measurement import Gaussian

EXPONENTS, MANY, VALUES = (0.8, 1.0, 1.2, 1.5, 2.0), (1, 3, 10, 30), 20_000
BEYOND = 2.0  # deviations of noise beyond the threshold from which weight is given back


def people_with_values(people: int, most: int, exponent: float, seed: int) -> Held:
    """People with one to `most` values by a Zipf law."""
    rng = np.random.default_rng(seed)
    chances = np.cumsum(np.arange(1, VALUES + 1) ** -exponent)
    each = np.repeat(np.arange(people), rng.integers(1, most + 1, people))
    drawn = np.searchsorted(chances, rng.random(len(each)) * chances[-1])
    pairs = np.unique(each * VALUES + drawn)
    places = np.unique(pairs % VALUES, return_inverse=True)
    return Held(places[1].astype(np.int64), pairs // VALUES, len(places[0]), most)


class OneRound:
    """Threshold and noise of a single round with all of a cost."""

    def __init__(self, cost: Cost, most: int) -> None:
        rounds = rounds_of(cost, most)
        self.one = rounds.one
        rho = rho_for(cost.epsilon - cost.delta, cost.delta / 2)
        self.noise = Gaussian(self.one**2 / (2 * rho))
        self.threshold = least_threshold(self.noise, self.one, most, cost.delta / 2)

    def evenly(self, held: Held) -> int:
        weights = held.weights(np.full(held.values, FULL, dtype=np.int64), self.one)
        return self._found(weights)

    def given_back(self, held: Held) -> int:
        """One round of MAD, in floats."""
        deviation = float(self.noise.sigma_squared) ** 0.5 / self.one
        enough = self.threshold / self.one + BEYOND * deviation
        each = np.bincount(held.people)[held.people]
        first = np.bincount(held.places, 1 / each, minlength=held.values)
        excess = np.maximum(0, 1 - enough / first)
        back = np.bincount(held.people, excess[held.places] / each)[held.people] / held.most
        own = 1 / np.sqrt(each) - 1 / each
        weights = np.minimum(first, enough) + np.bincount(held.places, back + own, minlength=held.values)
        return self._found((weights * self.one).astype(np.int64))

    def possible(self, held: Held) -> int:
        return int((np.bincount(held.places) * self.one >= self.threshold).sum())

    def _found(self, weights: np.ndarray) -> int:
        return int((weights + draw(self.noise, len(weights), SystemEntropy()) >= self.threshold).sum())


def one_value(held: Held, cost: Cost, runs: int) -> tuple[float, float]:
    """Values found of people with one, and the largest expected number that there can be."""
    noise, people = threshold_noise(cost), np.bincount(held.places)
    chances = np.array([float(edge) / 2.0**noise.bits for edge in noise.rising])
    found = [(people + noise.draw(len(people), SystemEntropy()) >= noise.threshold).sum() for _ in range(runs)]
    return float(np.mean(found)), float(chances[np.minimum(people, len(chances) - 1)].sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="1e-6")
    asked = parser.parse_args()
    cost = Cost.stated(asked.epsilon, asked.delta)
    print(f"{asked.people:,} people, {VALUES:,} values, epsilon {asked.epsilon}, delta {asked.delta}: values found")
    print("| Zipf | values a person | possible | found | of possible | evenly | given back | over evenly | CPU s |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for seed, exponent in enumerate(EXPONENTS, 71):
        for most in MANY:
            held = people_with_values(asked.people, most, exponent, seed)
            if most == 1:
                found, possible = one_value(held, cost, asked.runs)
                print(f"| {exponent} | 1 | {possible:.0f} | {found:.0f} | {found / possible:.2f} | | | | |")
                continue
            rounds, single = rounds_of(cost, most), OneRound(cost, most)
            began = process_time()
            found = float(np.mean([deal(held, rounds, SystemEntropy())[0].sum() for _ in range(asked.runs)]))
            taken = (process_time() - began) / asked.runs
            evenly, back = (
                float(np.mean([run(held) for _ in range(asked.runs)])) for run in (single.evenly, single.given_back)
            )
            possible = single.possible(held)
            beside = f"{evenly:.0f} | {back:.0f} | {found / evenly:.2f} | {taken:.2f}"
            print(f"| {exponent} | {most} | {possible} | {found:.0f} | {found / possible:.2f} | {beside} |")


if __name__ == "__main__":
    main()
