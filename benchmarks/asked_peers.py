"""Quantiles and running totals by other people's packages, for yardsticks.py to score. Not part of the project.

    python asked_peers.py {opendp,diffprivlib} COUNTS.npy OUT.npy EPSILON RUNS QUANTILE ...
    python asked_peers.py jax-privacy OUT.npy PERIODS

Run with the Python of an environment of their own (peers.py), which yardsticks.py is given by --peers-python. COUNTS
has the rows of each value 0, 1, ...; every quantile gets an equal part of epsilon; one row is added or removed. OUT
gets the values chosen, a row for each run; or the matrix that is to be measured, with the least mean error of all
prefixes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

Chooser = Callable[[float], int]  # a value for a quantile


def by_opendp(rows: np.ndarray, values: int, epsilon: float) -> Chooser:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    listed = rows.tolist()

    def made(candidates: int, quantile: float, scale: float) -> dp.Measurement:
        return dp.m.make_private_quantile(*space, dp.max_divergence(), list(range(candidates)), quantile, scale)

    def choose(quantile: float) -> int:
        # The loss of a scale does not depend on how many candidates there are, and few of them are searched quickly.
        scale = dp.binary_search_param(lambda scale: made(2, quantile, scale), 1, epsilon)
        return int(made(values, quantile, scale)(listed))

    return choose


def by_diffprivlib(rows: np.ndarray, values: int, epsilon: float) -> Chooser:
    from diffprivlib.tools import quantile as quantile_of

    return lambda quantile: int(np.rint(quantile_of(rows, quantile, epsilon=epsilon, bounds=(0, values - 1))))


def quantiles(name: str, counts: str, out: str, epsilon: str, runs: str, *wanted: str) -> None:
    found = np.load(counts)
    rows = np.repeat(np.arange(len(found)), found)
    maker = {"opendp": by_opendp, "diffprivlib": by_diffprivlib}[name]
    choose = maker(rows, len(found), float(epsilon) / len(wanted))
    np.save(out, np.array([[choose(float(each)) for each in wanted] for _ in range(int(runs))]))


def strategy(out: str, periods: str) -> None:
    import jax
    from jax_privacy.matrix_factorization import dense

    jax.config.update("jax_enable_x64", True)
    np.save(out, np.asarray(dense.optimize(int(periods), epochs=1)))


if __name__ == "__main__":
    name, *stated = sys.argv[1:]
    if name == "jax-privacy":
        strategy(*stated)
    else:
        quantiles(name, *stated)
