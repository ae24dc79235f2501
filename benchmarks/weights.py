"""What survey weights cost: errors of weighted one- and two-way tables beside those of unweighted ones, and coverage.

    python benchmarks/weights.py [FOLDER] [--runs 3] [--epsilon 1]

FOLDER holds national2019.csv and dictionary.json of the Diverse Community Excerpts (NIST), 27,253 rows of the American
Community Survey with their weights, PWGTP (mean 105, largest 2,068). Without it made-up surveys alone: weights that are
all alike, gamma with a coefficient of variation of 0.5 and lognormal with one of 1, at random and by region.

Each is released by `auto` at the same epsilon without weights, and with them by several caps and shrinks. An error is
the root mean square over all cells of the tables of (answer - truth) / total: for weighted answers the truth is the sum
of the weights as they are in the table and the total the sum of all of them, so that clipping and shrinking count as
errors; for unweighted ones both are numbers of rows. `ratio` is the first over the second. `noise` is the same ratio
without what clipping and shrinking take away: against the table of clipped and shrunk weights. `held`: 95 % intervals
that hold that table's sums. `rows`: the error of COUNT_ROWS() over that of the unweighted release. Noise cannot be
seeded; figures are over all runs.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.answers.results import Estimate

COLUMNS = ("SEX", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU")


@dataclass(frozen=True)
class Survey:
    """Codes of columns, their numbers of values, and weights; tried: settings of `weight` besides its column."""

    name: str
    codes: Mapping[str, np.ndarray]
    sizes: Mapping[str, int]
    weights: np.ndarray
    tried: tuple[dict, ...]

    @property
    def tables(self) -> list[tuple[str, ...]]:
        return [*((name,) for name in self.codes), *combinations(self.codes, 2)]

    def true(self, names: tuple[str, ...], weights: np.ndarray) -> np.ndarray:
        place = np.zeros(len(weights), dtype=np.int64)
        for name in names:
            place = place * self.sizes[name] + self.codes[name]
        return np.bincount(place, weights, int(np.prod([self.sizes[name] for name in names])))


def excerpt(folder: Path) -> Survey:
    dictionary = json.loads((folder / "dictionary.json").read_text())
    with (folder / "national2019.csv").open(newline="") as file:
        texts = list(csv.DictReader(file))
    codes, sizes = {}, {}
    for name in COLUMNS:
        place = {value: code for code, value in enumerate(dictionary[name]["values"])}
        codes[name], sizes[name] = np.array([place[row[name]] for row in texts]), len(place)
    weights = np.array([float(row["PWGTP"]) for row in texts])
    tried = (
        *({"upper": cap, "step": 1} for cap in (2100, 800, 400, 200)),
        {"upper": 400, "shrink": 0.5, "mean": 105, "step": 0.5},
        {"upper": 400, "shrink": 0.9, "mean": 105, "step": 0.1},
        {"upper": 400, "step": 1, "unweighted_share": 0},
    )
    return Survey("NIST, national 2019", codes, sizes, weights, tried)


def made_up(rows: int = 30_000) -> Iterator[Survey]:
    random = np.random.default_rng(34)
    sizes = {"region": 12, "sex": 2, "age": 8, "work": 5}
    codes = {"region": random.choice(12, rows, p=np.arange(12, 0, -1) / 78), "sex": random.integers(0, 2, rows)}
    codes["age"] = np.minimum(random.poisson(2.5 + codes["sex"], rows), 7)
    codes["work"] = (codes["age"] + random.choice(3, rows)) % 5
    by_region = np.linspace(0.4, 2.2, 12)[codes["region"]]
    sigma = np.sqrt(np.log(2.0))
    kinds = {
        "all alike": np.ones(rows),
        "gamma, cv 0.5": random.gamma(4.0, 0.25, rows),
        "lognormal, cv 1": random.lognormal(-(sigma**2) / 2, sigma, rows),
        "by region": by_region / by_region.mean(),
        "gamma by region": random.gamma(4.0, 0.25, rows) * by_region / by_region.mean(),
    }
    for name, weights in kinds.items():
        top = float(np.ceil(weights.max() * 10) / 10)
        caps = sorted({top, min(top, 3.0)}, reverse=True)
        moved = [{"upper": caps[-1], "shrink": 0.5, "mean": 1}] if top > 1.3 else []
        yield Survey(f"made up, {name}", codes, sizes, weights, (*({"upper": cap} for cap in caps), *moved))


def asked(release: sf.Release, survey: Survey, what: str) -> tuple[np.ndarray, ...]:
    """Values, lows and highs of all tables, end to end."""
    found = [
        cell
        for names in survey.tables
        for row in release.query(f"SELECT {', '.join(names)}, {what} FROM survey GROUP BY {', '.join(names)}").rows
        for cell in row
        if isinstance(cell, Estimate)
    ]
    return tuple(np.array([getattr(cell, end) for cell in found]) for end in ("value", "low", "high"))


def released(survey: Survey, weight: dict | None, epsilon: float) -> sf.Release:
    keys: dict = {"dataset": "survey", "privacy_unit": "row", "budget": {"epsilon": 1000}}
    keys["attributes"] = {
        name: {"type": "category", "values": list(range(size))} for name, size in survey.sizes.items()
    }
    if weight is not None:
        keys["weight"] = {"column": "weight", **weight}
    table = pa.table(dict(survey.codes) | {"weight": survey.weights})
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sf.release(table, sf.Schema.from_dict(keys), epsilon, ledger=Path(folder) / "ledger.sqlite")


def as_counted(weights: np.ndarray, weight: dict) -> np.ndarray:
    """Weights as the schema clips and shrinks them."""
    mean, shrink = weight.get("mean", 0.0), weight.get("shrink", 0.0)
    return mean + (1 - shrink) * (np.minimum(weights, weight["upper"]) - mean) if shrink else np.minimum(
        weights, weight["upper"]
    )  # fmt: skip


def rms(errors: list[np.ndarray]) -> float:
    return float(np.sqrt(np.mean(np.square(np.concatenate(errors)))))


def report(survey: Survey, runs: int, epsilon: float) -> None:
    ones = np.ones(len(survey.weights))
    rows = np.concatenate([survey.true(names, ones) for names in survey.tables])
    plain = rms(
        [(asked(released(survey, None, epsilon), survey, "COUNT(*)")[0] - rows) / ones.sum() for _ in range(runs)]
    )
    kish = survey.weights.sum() ** 2 / np.square(survey.weights).sum()
    print(f"\n{survey.name}: {len(ones):,} rows, effective {kish:,.0f}; mean {survey.weights.mean():.4g}, largest "
          f"{survey.weights.max():.4g}; unweighted error {100 * plain:.3g} % of all rows")  # fmt: skip
    print(f"{'weight':48} {'cap/mean':>8} {'ratio':>6} {'noise':>6} {'held':>6} {'rows':>6}")
    total = survey.weights.sum()
    for weight in survey.tried:
        counted = as_counted(survey.weights, weight)
        true, kept = (
            np.concatenate([survey.true(names, w) for names in survey.tables]) for w in (survey.weights, counted)
        )
        errors, noise, held, unweighted = [], [], [], []
        for _ in range(runs):
            made = released(survey, weight, epsilon)
            value, low, high = asked(made, survey, "COUNT(*)")
            errors.append((value - true) / total)
            noise.append((value - kept) / total)
            held.append((low <= kept) & (kept <= high))
            if weight.get("unweighted_share") != 0:
                unweighted.append((asked(made, survey, "COUNT_ROWS()")[0] - rows) / ones.sum())
        top = made.schema.weight.most * float(made.schema.weight.step)
        beside = f"{rms(unweighted) / plain:6.2f}" if unweighted else "     -"
        told = ", ".join(f"{key} {value}" for key, value in weight.items() if key != "step")
        print(f"{told:48} {top / survey.weights.mean():8.2f} {rms(errors) / plain:6.2f} {rms(noise) / plain:6.2f} "
              f"{100 * np.mean(np.concatenate(held)):5.1f}% {beside}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=1.0)
    given = parser.parse_args()
    for survey in [*([excerpt(given.folder)] if given.folder else []), *made_up()]:
        report(survey, given.runs, given.epsilon)


if __name__ == "__main__":
    main()
