"""How fast exact noise is drawn, beside OpenDP's integer Laplace, in one run on one core.

    python benchmarks/noise.py

Both are exact samplers with the operating system behind them. Times are the best of several, in CPU seconds of this
process; OpenDP gets a list of zeros, the form its measurement takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction

import opendp.prelude as dp

from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.measurement import Gaussian, Laplace, Noise

SCALES = (1, 5, 20, 100, 1000)
OUR_COUNT = 2_000_000
THEIR_COUNT = 20_000
REPEATS = 3


def per_second(count: int, run: Callable[[], object]) -> float:
    """Samples per CPU second, the best of a few runs after one that fills the caches."""
    run()
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return count / best


def ours(noise: Noise) -> float:
    entropy = SystemEntropy()
    return per_second(OUR_COUNT, lambda: draw(noise, OUR_COUNT, entropy))


def theirs(make: Callable[..., Callable[[list[int]], list[int]]], metric: object, scale: float) -> float:
    measure = make(dp.vector_domain(dp.atom_domain(T=int)), metric, scale=scale)
    zeros = [0] * THEIR_COUNT
    return per_second(THEIR_COUNT, lambda: measure(zeros))


def main() -> None:
    dp.enable_features("contrib")
    print(f"{'noise':<10}{'scale':>8}{'sfumato /s':>16}{'OpenDP /s':>14}{'ratio':>9}")
    for scale in SCALES:
        mine = ours(Laplace(Fraction(scale)))
        other = theirs(dp.m.make_laplace, dp.l1_distance(T=int), float(scale))
        print(f"{'Laplace':<10}{scale:>8}{mine:>16,.0f}{other:>14,.0f}{mine / other:>8.0f}x")
    for sigma in SCALES:
        mine = ours(Gaussian(Fraction(sigma**2)))
        other = theirs(dp.m.make_gaussian, dp.l2_distance(T=float), float(sigma))
        print(f"{'Gaussian':<10}{sigma:>8}{mine:>16,.0f}{other:>14,.0f}{mine / other:>8.0f}x")


if __name__ == "__main__":
    main()
