"""Bounds and caps found by `sfumato discover`: share of rows inside, width beside the true range, cap beside the best.

    python benchmarks/discover_bounds.py [--runs 20]

Ten columns of 20,000 rows, one row a person, at several epsilons of one look. Inside: rows between the bounds; wanted
are 99 %. Width: of the bounds, beside that of the middle 99 % of rows; steps are round figures, so 1.0 is not reached
by all. Held: intervals of 95 % of the share inside that hold it. A look may leave the blank, which is counted apart.

Caps: people with rows by five distributions; the error of a count of a tenth of all rows, at an epsilon of 1 for the
release, beside that of the best cap in hindsight.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import date
from fractions import Fraction
from time import process_time
from typing import Any

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.opening import curator_of
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.publishing.noisy_bounds import Look, Settings, best_cap, bounds_of_dates, bounds_of_numbers, rows_of_people
from sfumato.schema import Schema

ROWS = 20_000
EPSILONS = ("0.03", "0.1", "0.3", "1")


def columns(draw: np.random.Generator) -> Iterator[tuple[str, str, Any]]:
    """Name, type and values of ten columns; dates as days since 1970."""
    n = ROWS
    yield "age", "integer", np.clip(draw.normal(45, 22, n), 0, 101).astype(int)
    yield "income", "number", draw.lognormal(10.3, 0.8, n)
    yield "balance", "number", np.where(draw.random(n) < 0.3, -1, 1) * draw.lognormal(6, 1.2, n)
    yield "Pareto tail", "number", 10 * draw.pareto(1.2, n)
    yield "normal", "number", draw.normal(0, 1, n)
    yield "share in %", "integer", draw.choice([0, 20, 40, 60, 80, 100], n)
    yield "all equal", "integer", np.full(n, 42)
    yield "year", "integer", draw.integers(1987, 2025, n)
    yield "tiny", "number", draw.exponential(0.0004, n)
    yield "dates", "date", (date(2021, 5, 17) - date(1970, 1, 1)).days + draw.integers(0, 900, n)


def look_at(values: Any, entropy: TestingEntropy) -> Look:
    """Looks at given values in place of a table."""

    def look(attribute: dict[str, Any], epsilon: Fraction) -> Any:
        schema = Schema(dataset="t", privacy_unit="row", attributes={"value": attribute})  # type: ignore[arg-type]
        axis = schema.domain.axes[0]
        clipped = np.clip(values, axis.edges[0], axis.edges[-1])
        cells = np.clip(np.searchsorted(axis.edges, clipped, side="right") - 1, 0, axis.size - 1)
        places, counts = np.unique(cells, return_counts=True)
        held = Aggregate(places.astype(np.int64), counts.astype(np.int64), {})
        return curator_of(schema, held, Budget.pure(epsilon), entropy)

    return look


def numeric(value: Any) -> float:
    """A bound as a number; a date as a day since 1970."""
    return float((value - date(1970, 1, 1)).days if isinstance(value, date) else value)


def bounds(runs: int) -> None:
    """Print the table of bounds."""
    print("column        epsilon   inside   least   width  widest   held  blank")
    for epsilon in EPSILONS:
        for place, (name, kind, values) in enumerate(columns(np.random.default_rng(11))):
            inside, widths, held, blank = [], [], 0, 0
            for run in range(runs):
                look = look_at(np.asarray(values, dtype=float), TestingEntropy(1000 * place + run))
                if kind == "date":
                    found = bounds_of_dates(look, Fraction(epsilon), Settings())
                else:
                    found = bounds_of_numbers(kind, look, Fraction(epsilon), Settings())
                if found is None:
                    blank += 1
                    continue
                low, high = numeric(found.lower), numeric(found.upper)
                share = float(np.mean((values >= low) & (values <= high)))
                middle = np.quantile(values, [0.005, 0.995])
                inside.append(share)
                widths.append((high - low) / max(middle[1] - middle[0], 1.0 if kind == "integer" else 1e-12))
                held += found.inside.low <= share <= found.inside.high
            if inside:
                told = f"{np.mean(inside):8.3f} {min(inside):7.3f} {np.median(widths):7.2f} {max(widths):7.1f}"
                print(f"{name:12s} {epsilon:>8s} {told} {held / len(inside):6.2f} {blank:6d}", flush=True)
            else:
                print(f"{name:12s} {epsilon:>8s} {'':31s} {'':6s} {blank:6d}", flush=True)


def people(draw: np.random.Generator) -> Iterator[tuple[str, Any]]:
    """Rows of each of 5,000 people, by five distributions."""
    yield "one row each", np.ones(5000)
    yield "geometric", draw.geometric(0.25, 5000)
    yield "Pareto", np.minimum(draw.pareto(1.3, 5000).astype(int) + 1, 5000)
    yield "two kinds", np.where(draw.random(5000) < 0.05, 120, 2)
    yield "even to 30", draw.integers(1, 31, 5000)


def caps(runs: int) -> None:
    """Print the table of caps."""
    share, spent = Settings().count, 1.0
    print("\nrows of people   epsilon   caps (best)      error over best   people above held")
    for epsilon in EPSILONS:
        for place, (name, rows) in enumerate(people(np.random.default_rng(12))):
            errors = {cap: share * np.maximum(rows - cap, 0).sum() + 2**0.5 * cap / spent for cap in range(1, 5001)}
            best = min(errors, key=errors.__getitem__)
            found = []
            for run in range(runs):
                look = look_at(np.asarray(rows, dtype=float), TestingEntropy(2000 * place + run))
                curator = look(rows_of_people(), Fraction(epsilon))
                found.append(best_cap(curator, Fraction(epsilon), Fraction(1), Settings()))
            some = [one for one in found if one is not None]
            if not some:
                print(f"{name:16s} {epsilon:>7s}   blank")
                continue
            over = np.mean([errors[min(one.rows, 5000)] for one in some]) / errors[best]
            held = np.mean([one.above.low <= np.mean(rows > one.rows) <= one.above.high for one in some])
            told = f"{min(one.rows for one in some)} to {max(one.rows for one in some)} ({best})"
            print(f"{name:16s} {epsilon:>7s}   {told:16s} {over:15.2f} {held:19.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    start = process_time()
    bounds(runs)
    caps(runs)
    print(f"\n{process_time() - start:.0f} s of CPU time")
