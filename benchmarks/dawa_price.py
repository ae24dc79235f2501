"""What a bucket of `dawa` should cost: its error over a grid of prices, on synthetic tables only.

`python benchmarks/dawa_price.py [--runs 4] [--full]`

The price of a bucket is (price + halvings * per halving) scales of the noise on its deviation, where halvings says how
often the whole line is halved to its length (models/partition/dawa.py). Tables: pieces of the same count, a few full
stretches, a smooth hill, heavy tails and independent cells, on lines of 1,024 and 4,096 cells. Printed, for each pair:
the geometric mean, over tables and epsilons, of the root mean square error on 500 ranges, beside that of the pair which
the mechanism takes; then the same by table, for the pairs that matter.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from itertools import product

import numpy as np

from releasing import curator_of_counts
from sfumato.kernel.budget import Budget
from sfumato.models.partition.dawa import Settings, dawa
from shapes import schema_of

PRICES = Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2)
PER_HALVING = Fraction(0), Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)
EPSILONS = Fraction(1, 10), Fraction(1)
RANGES = 500
SEED = 33


def tables(cells: int, stream: np.random.Generator) -> dict[str, np.ndarray]:
    """Counts of each kind, about ten rows a cell."""
    along = np.arange(cells) / cells
    cuts = np.sort(stream.integers(1, cells, 14))
    pieces = stream.gamma(0.6, 16.0, 15)[np.searchsorted(cuts, np.arange(cells), side="right")]
    full = sum((np.abs(along - centre) < 0.004) * 600.0 for centre in stream.random(4))
    hill = 20 * np.exp(-(((along - 0.4) / 0.25) ** 2))
    return {
        "pieces": np.rint(pieces),
        "stretches": np.broadcast_to(full, cells),
        "smooth": stream.poisson(hill),
        "heavy": np.floor(np.minimum(3.0 * stream.pareto(1.1, cells), 1e5)),
        "rough": stream.poisson(stream.gamma(0.5, 20.0, cells)),
    }


def error(counts: np.ndarray, epsilon: Fraction, price: Fraction, per_halving: Fraction, seed: int) -> float:
    """The root mean square error on ranges of one release."""
    schema, budget, stream = schema_of((len(counts),)), Budget.pure(epsilon), np.random.default_rng(SEED)
    curator = curator_of_counts(schema, counts, budget, seed)
    settings = Settings(price=price, per_halving=per_halving)
    estimate = dawa(curator, schema, budget, settings=settings).fits[0].estimate
    off = np.concatenate([[0.0], np.cumsum(estimate - counts)])
    lows, highs = np.sort(stream.integers(0, len(counts) + 1, (2, RANGES)), axis=0)
    return float(np.sqrt(np.mean((off[highs] - off[lows]) ** 2)))


def main() -> None:
    """Print errors beside those of the prices in use."""
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("--runs", type=int, default=4)
    given.add_argument("--full", action="store_true", help="two lengths and two draws of every table, not one")
    options = given.parse_args()
    pairs = list(product(PRICES, PER_HALVING))
    stream, found = np.random.default_rng(SEED), {}
    for cells in (1024, 4096) if options.full else (1024,):
        for draw in range(2 if options.full else 1):
            for (name, counts), epsilon in product(tables(cells, stream).items(), EPSILONS):
                whole = counts.astype(np.int64)
                runs = [
                    [error(whole, epsilon, *pair, 100 * draw + run) for pair in pairs] for run in range(options.runs)
                ]
                found[name, cells, draw, epsilon] = np.sqrt(np.mean(np.square(runs), axis=0))
    used = pairs.index((Settings.price, Settings.per_halving))
    logs = {case: np.log(errors / errors[used]) for case, errors in found.items()}
    everything = np.array(list(logs.values()))
    mean, doubt = everything.mean(axis=0), everything.std(axis=0) / np.sqrt(len(everything))
    print(f"{len(found)} tables and epsilons, {options.runs} releases of each; 1 is the pair in use\n")
    print("| price | per halving | error | " + " | ".join(tables(64, stream)) + " |")
    print("|---" * (3 + len(tables(64, stream))) + "|")
    for place, (price, per_halving) in enumerate(pairs):
        by_table = [
            np.exp(np.mean([one[place] for case, one in logs.items() if case[0] == name]))
            for name in tables(64, stream)
        ]
        rest = " | ".join(f"{one:.2f}" for one in by_table)
        print(f"| {price} | {per_halving} | {np.exp(mean[place]):.3f} +- {doubt[place]:.3f} | {rest} |")


if __name__ == "__main__":
    main()
