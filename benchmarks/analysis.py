"""Coverage and width of intervals of slopes, correlations and ratios; uniformity of p-values; bias of synthetic rows.

Run: python benchmarks/analysis.py [--runs 200] [--adult FOLDER] [--mechanisms cells margins] [--epsilon 0.5 1 5]
     [--parts slopes relations tests population synthetic]

Tables are made up (`even`: all groups alike; `skewed`: rare groups, long tails), with Adult beside them if FOLDER holds
adult.csv. Truth is what the rows themselves say: least squares, logistic regression, correlation, odds ratio. Widths of
slopes stand beside `ideal`: those of Laplace noise added once to the exact X'X and X'y of this one model with the whole
epsilon, which answers nothing else. Constants were not chosen on these tables.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite, prod, sqrt
from pathlib import Path

import numpy as np
from scipy import stats

from sfumato.answers.results import Estimate
from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.lab.audit.calibration.calibrate import release_of
from sfumato.releases.release import Release
from sfumato.schema import Schema

PARTS = ("slopes", "relations", "tests", "population", "synthetic")
Z = stats.norm.ppf(0.975)


@dataclass(frozen=True)
class Table:
    """Codes of y, x, g (a category) and s (of two values), by column; cells: number of values of each."""

    name: str
    columns: dict[str, np.ndarray]
    cells: dict[str, int]

    @property
    def rows(self) -> int:
        return len(self.columns["y"])

    @property
    def schema(self) -> Schema:
        kinds = {
            "y": {"type": "integer", "lower": 0, "upper": self.cells["y"] - 1},
            "x": {"type": "integer", "lower": 0, "upper": self.cells["x"] - 1},
            "g": {"type": "category", "values": [f"g{value}" for value in range(self.cells["g"])]},
            "s": {"type": "boolean"},
        }
        return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": kinds})

    def release(self, mechanism: str, epsilon: Fraction) -> Release:
        shape = tuple(self.cells.values())
        place = np.ravel_multi_index(tuple(self.columns.values()), shape)
        counts = np.bincount(place, minlength=prod(shape)).reshape(shape)
        return release_of(mechanism, (counts, None), epsilon, SystemEntropy(), self.schema)

    def matrix(self) -> np.ndarray:
        """Design matrix of 1, x, s and the indicators of g but the first."""
        x, s, g = (self.columns[name] for name in ("x", "s", "g"))
        return np.stack([np.ones(self.rows), x, s, *(g == value for value in range(1, self.cells["g"]))], axis=1)


def made(name: str, rng: np.random.Generator, rows: int = 6_000) -> Table:
    """A made-up table of 800 cells."""
    even = name == "even"
    g = rng.choice(4, rows, p=[0.25] * 4 if even else [0.7, 0.2, 0.08, 0.02])
    x = rng.integers(0, 10, rows) if even else np.minimum(rng.geometric(0.4, rows) - 1, 9)
    s = rng.random(rows) < (0.5 if even else 0.15) + 0.02 * x
    y = np.clip(np.rint(2 + 0.4 * x + s + 0.5 * g + rng.normal(0, 1.5 if even else 0.5 + 0.2 * x, rows)), 0, 9)
    return Table(name, {"y": y.astype(int), "x": x, "g": g, "s": s.astype(int)}, {"y": 10, "x": 10, "g": 4, "s": 2})


def adult(folder: Path) -> Table:
    """Adult: hours by ten as y, years of education as x, race as g, income over 50K as s."""
    codes = np.genfromtxt(folder / "adult.csv", delimiter=",", names=True, deletechars="", dtype=np.int64)
    named = {
        "y": codes["hours-per-week"] // 10,
        "x": codes["education-num"],
        "g": codes["race"],
        "s": codes["income>50K"],
    }
    return Table("adult", named, {"y": 10, "x": 16, "g": 5, "s": 2})


def ideal_widths(table: Table, epsilon: float) -> np.ndarray:
    """Width of 95 % intervals of coefficients from Laplace noise on X'X and X'y, of columns scaled to at most 1."""
    matrix, outcome = table.matrix(), table.columns["y"].astype(float)
    scale, top = np.abs(matrix).max(axis=0), table.cells["y"] - 1.0
    matrix, outcome = matrix / scale, outcome / top
    size = matrix.shape[1]
    first, second = np.triu_indices(size)
    inverse = np.linalg.inv(matrix.T @ matrix)
    beta = inverse @ (matrix.T @ outcome)
    noise = 2.0 * (14.0 / epsilon) ** 2  # 1, x, s and one of g: a row changes ten entries and four of X'y by at most 1
    known = (first >= 3) & (second > first)  # 0 in every table
    widths = []
    for along in inverse:
        by_gram = along[first] * beta[second] + np.where(first == second, 0.0, along[second] * beta[first])
        widths.append(2.0 * Z * sqrt(noise * ((by_gram[~known] ** 2).sum() + (along**2).sum())))
    return np.array(widths) * top / scale


def logistic(matrix: np.ndarray, outcome: np.ndarray) -> np.ndarray:
    """Logistic regression on rows, by Newton's method."""
    beta = np.zeros(matrix.shape[1])
    for _ in range(50):
        mean = 1.0 / (1.0 + np.exp(-matrix @ beta))
        beta += np.linalg.solve((matrix.T * (mean * (1 - mean))) @ matrix, matrix.T @ (outcome - mean))
    return beta


class Tally:
    """Hits and widths of intervals by name."""

    def __init__(self) -> None:
        self.hits: dict[str, list[bool]] = defaultdict(list)
        self.widths: dict[str, list[float]] = defaultdict(list)

    def add(self, name: str, found: Estimate, truth: float, unit: float = 1.0) -> None:
        self.hits[name].append(bool(found.low <= truth <= found.high))
        self.widths[name].append((found.high - found.low) / unit)

    def told(self, name: str) -> str:
        hits, width = self.hits[name], float(np.median(self.widths[name]))
        return (
            f"{100 * np.mean(hits):5.1f} % {width:9.4g}"
            if isfinite(width)
            else f"{100 * np.mean(hits):5.1f} %     open"
        )


def slopes(table: Table, mechanism: str, epsilon: Fraction, runs: int) -> Iterator[str]:
    """Coverage of coefficients of least squares, width beside the ideal; coverage of logistic regression."""
    truth = np.linalg.lstsq(table.matrix(), table.columns["y"].astype(float), rcond=None)[0]
    ideal, tally, ratios = ideal_widths(table, float(epsilon)), Tally(), []
    others = np.delete(np.arange(table.matrix().shape[1]), 2)
    chance = logistic(table.matrix()[:, others], table.columns["s"])
    for _ in range(runs):
        release = table.release(mechanism, epsilon)
        found = list(release.regress("y ~ x + s + g").estimates.values())[1:]
        for one, right, width in zip(found, truth[1:], ideal[1:], strict=True):
            tally.add("slopes", one, right, width)
        ratios.append([(one.high - one.low) / width for one, width in zip(found, ideal[1:], strict=True)])
        try:
            by_chance = list(release.regress("s ~ x + g", family="logistic").estimates.values())[1:]
        except QueryError:  # no solution
            by_chance = []
        for one, right in zip(by_chance, chance[1:], strict=False):
            tally.add("logistic", one, right)
    median = np.median(ratios, axis=0)
    yield f"least squares {tally.told('slopes')} of ideal (by coefficient {', '.join(f'{one:.2f}' for one in median)})"
    yield f"logistic      {tally.told('logistic')}"


def relations(table: Table, mechanism: str, epsilon: Fraction, runs: int) -> Iterator[str]:
    """Coverage of correlations, odds ratios, risk ratios and Cramer's V."""
    y, x, g, s = table.columns.values()
    high = y >= 5
    two = np.array([[np.sum((s == a) & (high == b)) for b in (0, 1)] for a in (0, 1)], dtype=float)
    crossed = np.array([[np.sum((s == a) & (g == b)) for b in range(table.cells["g"])] for a in (0, 1)])
    pearson = stats.chi2_contingency(crossed, correction=False).statistic
    asked: dict[str, tuple[Callable[[Release], Estimate], float]] = {
        "correlation": (lambda one: one.query("SELECT CORR(y, x) FROM t").rows[0][0], float(np.corrcoef(y, x)[0, 1])),
        "odds ratio": (lambda one: one.odds_ratio("s", "y >= 5"), two[1, 1] * two[0, 0] / (two[1, 0] * two[0, 1])),
        "risk ratio": (
            lambda one: one.risk_ratio("s", "y >= 5"),
            (two[1, 1] / two[1].sum()) / (two[0, 1] / two[0].sum()),
        ),
        "Cramer's V": (lambda one: one.cramers_v("s", "g"), sqrt(pearson / table.rows)),
    }
    tally = Tally()
    for _ in range(runs):
        release = table.release(mechanism, epsilon)
        for name, (ask, truth) in asked.items():
            tally.add(name, ask(release), truth)
    for name, (_, truth) in asked.items():
        yield f"{name:13} {tally.told(name)} (truth {truth:.4g})"


def p_value(columns: dict[str, np.ndarray], table: Table, mechanism: str, epsilon: Fraction) -> float:
    """p-value of s by g in a release of some columns; not a number if it says that there are too few rows to test."""
    try:
        return Table("", columns, table.cells).release(mechanism, epsilon).test("s", "g").p_value
    except QueryError:
        return float("nan")


def tests(table: Table, mechanism: str, epsilon: Fraction, runs: int) -> Iterator[str]:
    """p-values of s by g where g is shuffled, so that both are independent, and of small tables; power as it is."""
    rng = np.random.default_rng(5)
    for rows in (table.rows, 400):
        chances, found = np.empty(runs), np.empty(runs)
        for run in range(runs):
            kept = rng.choice(table.rows, rows, replace=rows == table.rows)
            drawn = {name: column[kept] for name, column in table.columns.items()}
            found[run] = p_value(drawn, table, mechanism, epsilon)
            chances[run] = p_value(drawn | {"g": rng.permutation(drawn["g"])}, table, mechanism, epsilon)
        refused = np.mean(np.isnan([*chances, *found]))
        chances, found = chances[~np.isnan(chances)], found[~np.isnan(found)]
        if not (len(chances) and len(found)):
            yield f"{rows:6,} rows: all refused, as there are too few rows to test"
            continue
        uniform, low = stats.kstest(chances, "uniform").pvalue, [np.mean(chances < a) for a in (0.01, 0.05, 0.2)]
        shares = " / ".join(f"{one:.3f}" for one in low)
        said = f"p < 0.01 / 0.05 / 0.2 in {shares}; KS p {uniform:.3f}; power at 0.05 {np.mean(found < 0.05):.2f}"
        yield f"{rows:6,} rows: {said}" + (f"; {100 * refused:.0f} % refused" if refused else "")


def population(table: Table, mechanism: str, epsilon: Fraction, runs: int) -> Iterator[str]:
    """Coverage about the population over samples of 1,000 rows, drawn with replacement from the table's rows."""
    rng, tally = np.random.default_rng(6), Tally()
    y, x, _, s = table.columns.values()
    truths = [float((y >= 5).mean()), float(y.mean()), float(np.corrcoef(y, x)[0, 1]), 1_000 * float((s == 1).mean())]
    slope = np.linalg.lstsq(table.matrix(), y.astype(float), rcond=None)[0][1]
    sql = "SELECT COUNT(*) FILTER (WHERE y >= 5) / COUNT(*), AVG(y), CORR(y, x), COUNT(*) FILTER (WHERE s) FROM t"
    for _ in range(runs):
        kept = rng.integers(0, table.rows, 1_000)
        sample = Table("", {name: column[kept] for name, column in table.columns.items()}, table.cells)
        release = sample.release(mechanism, epsilon)
        numbers = release.query(sql, population=True).rows[0]
        for name, one, right in zip(("share", "average", "correlation", "count"), numbers, truths, strict=True):
            tally.add(name, one, right)
        tally.add("slope", release.regress("y ~ x + s + g", population=True).estimates["x"], slope)
    yield "; ".join(f"{name} {tally.told(name)}" for name in tally.hits)


def synthetic(table: Table, mechanism: str, epsilon: Fraction, runs: int) -> Iterator[str]:
    """The same least squares on synthetic rows, with the intervals that a program prints for them."""
    truth = np.linalg.lstsq(table.matrix(), table.columns["y"].astype(float), rcond=None)[0][1:]
    shares, held, own = [], [], []
    for seed in range(min(runs, 60)):
        release = table.release(mechanism, epsilon)
        rows = release.sample(seed=seed)
        g = np.array([int(one[1:]) for one in rows["g"].to_pylist()])
        columns = {
            "y": rows["y"].to_numpy(),
            "x": rows["x"].to_numpy(),
            "g": g,
            "s": np.array(rows["s"].to_pylist()) * 1,
        }
        drawn = Table("", columns, table.cells)
        matrix, outcome = drawn.matrix(), drawn.columns["y"].astype(float)
        beta = np.linalg.lstsq(matrix, outcome, rcond=None)[0]
        spread = np.sqrt(
            ((outcome - matrix @ beta) ** 2).sum() / (len(outcome) - 6) * np.diag(np.linalg.pinv(matrix.T @ matrix))
        )
        shares.append(beta[1:] / truth)
        held.append(np.abs(beta[1:] - truth) <= Z * spread[1:])
        found = release.regress("y ~ x + s + g").estimates.values()
        own.append(np.array([one.value for one in found])[1:] / truth)
    said = ", ".join(f"{one:.2f}" for one in np.mean(shares, axis=0))
    release_says = ", ".join(f"{one:.2f}" for one in np.mean(own, axis=0))
    hold = f"{100 * np.mean(held):.0f} % of their intervals hold"
    yield f"slopes of the rows are {said} of the truth, {hold}; the release: {release_says}"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--runs", type=int, default=200)
    asked.add_argument("--adult", type=Path, help="a folder with adult.csv")
    asked.add_argument("--mechanisms", nargs="+", default=["cells", "margins"])
    asked.add_argument("--epsilon", nargs="+", default=["0.5", "1", "5"])
    asked.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    asked.add_argument("--tables", nargs="+", default=["even", "skewed", "adult"])
    given = asked.parse_args()
    rng = np.random.default_rng(11)
    tables = [made("even", rng), made("skewed", rng), *([adult(given.adult)] if given.adult else [])]
    for table in (one for one in tables if one.name in given.tables):
        for mechanism in given.mechanisms:
            for epsilon in map(Fraction, given.epsilon):
                for part in given.parts:
                    for line in globals()[part](table, mechanism, epsilon, given.runs):
                        print(f"{table.name:7} {mechanism:8} {float(epsilon):4} {part:10} {line}", flush=True)


if __name__ == "__main__":
    main()
