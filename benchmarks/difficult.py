"""`sfumato` on random tables with what is difficult in real ones, beside another state of the code with the same seeds.

    python benchmarks/difficult.py OUT.json [--beside OTHER.json] [--tables 6] [--runs 2] [--kinds NAME ...]

OUT.json keeps the root mean square error over 2,000 boxes of every release. With --beside, ratios of the errors of OUT
to those of an earlier run: geometric means by kind of table and epsilon with standard errors over tables. What is
measured first has the same noise in both, later measurements as far as they are the same.
"""

from __future__ import annotations

import argparse
import json
from fractions import Fraction
from pathlib import Path

import numpy as np

from boxes import Boxes
from difficult_tables import KINDS
from releasing import curator_of_counts
from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.queries import default_workload
from shapes import schema_of

EPSILONS = Fraction(1, 10), Fraction(1)
BOXES, SEED = 2000, 77


def errors(kind: int, table: int, runs: int) -> dict[str, float]:
    """The error of every release of a table."""
    counts = KINDS[kind](np.random.default_rng([table, kind]))
    schema, found = schema_of(counts.shape), {}
    boxes, workload = Boxes.drawn(schema, BOXES, SEED), default_workload(schema.domain)
    for epsilon in EPSILONS:
        for run in range(runs):
            budget = Budget.pure(epsilon)
            curator = curator_of_counts(schema, counts, budget, seed=1000 * run + table)
            cells = MECHANISMS["sfumato"].run(curator, schema, budget, workload).cells()
            off = boxes.sums(cells.reshape(counts.shape) - counts)
            name = f"{counts.ndim}/{KINDS[kind].__name__}/{float(epsilon):g}/{table}/{run}"
            found[name] = float(np.sqrt(np.mean(off**2)))
    return found


def print_beside(ours: dict[str, float], other: dict[str, float]) -> None:
    """Ratios by kind of table and epsilon, and in all."""
    ratios: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for name in ours.keys() & other.keys():
        *case, table, _ = name.split("/")
        ratios.setdefault(tuple(case), {}).setdefault(table, []).append(np.log(ours[name] / other[name]))
    means: dict[str, list[tuple[float, float]]] = {}
    for (attributes, kind, epsilon), tables in sorted(ratios.items()):
        by_table = np.array([np.mean(found) for found in tables.values()])
        spread = float(by_table.std(ddof=1) / len(by_table) ** 0.5) if len(by_table) > 1 else float("nan")
        means.setdefault(attributes, []).append((float(by_table.mean()), spread))
        print(f"{kind:16}{epsilon:>5}  {np.exp(by_table.mean()):.3f} +- {spread:.3f}")
    for attributes, found in means.items():
        middle, spreads = np.array(found).T
        print(
            f"attributes: {attributes}  {np.exp(middle.mean()):.3f} +- {np.sqrt((spreads**2).sum()) / len(spreads):.3f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--tables", type=int, default=6)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--kinds", nargs="*", default=[kind.__name__ for kind in KINDS], metavar="NAME")
    given = parser.parse_args()
    found: dict[str, float] = {}
    for kind, made in enumerate(KINDS):
        if made.__name__ in given.kinds:
            for table in range(given.tables):
                found |= errors(kind, table, given.runs)
    given.out.write_text(json.dumps(found))
    if given.beside:
        print_beside(found, json.loads(given.beside.read_text()))


if __name__ == "__main__":
    main()
