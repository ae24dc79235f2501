"""Tables of densely dependent columns for dense.py: generators, and NIST's excerpt from a folder.

No constant of the product was chosen on any of them; those of `margins` that have to do with such tables were chosen on
other generators, other sizes and other seeds (docs/constants.md).
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from margins_tables import Table

SEED = 31
Codes = np.ndarray


@dataclass(frozen=True)
class Made:
    """Columns of codes with their numbers of values, and the columns whose codes have an order."""

    columns: dict[str, Codes]
    sizes: dict[str, int]
    ordered: frozenset[str] = frozenset()

    def written(self, folder: Path, name: str) -> Table:
        """Write as a CSV file of codes."""
        path = folder / f"{name}.csv"
        rows = np.stack(list(self.columns.values()), axis=1)
        np.savetxt(path, rows, fmt="%d", delimiter=",", header=",".join(self.columns), comments="")
        return Table(path, self.sizes, self.ordered)


def drawn(rng: np.random.Generator, shares: np.ndarray, kind: Codes) -> Codes:
    """Draw a value for each row by the shares of its kind, (kinds, values)."""
    return np.minimum((rng.random(len(kind))[:, None] > shares.cumsum(axis=1)[kind]).sum(axis=1), shares.shape[1] - 1)


def given(rng: np.random.Generator, parents: Sequence[tuple[Codes, int]], values: int, even: float) -> Codes:
    """Draw a column by random shares for each combination of its parents; even: Dirichlet parameter of the shares."""
    kind, kinds = np.zeros(len(parents[0][0]), dtype=np.int64), 1
    for codes, size in parents:
        kind, kinds = kind * size + codes, kinds * size
    return drawn(rng, rng.dirichlet(np.full(values, even), kinds), kind)


def named(columns: Sequence[tuple[Codes, int]], ordered: Sequence[int] = ()) -> Made:
    """Name columns c0, c1 and so on; ordered: places of those with an order."""
    names = [f"c{place}" for place in range(len(columns))]
    codes = {name: np.asarray(codes, dtype=np.int64) for name, (codes, _) in zip(names, columns, strict=True)}
    sizes = {name: size for name, (_, size) in zip(names, columns, strict=True)}
    return Made(codes, sizes, frozenset(names[place] for place in ordered))


def formula(rng: np.random.Generator) -> Made:
    """Three columns determine a fourth (tariff class by product, weight and zone), which determines a fifth."""
    rows = 35_000
    product = (rng.choice(8, rows, p=rng.dirichlet(np.full(8, 2.0))), 8)
    weight, zone = (given(rng, [product], 5, 1.0), 5), (rng.choice(4, rows, p=[0.4, 0.3, 0.2, 0.1]), 4)
    tariff = (rng.integers(0, 9, (8, 5, 4))[product[0], weight[0], zone[0]], 9)
    customs = (rng.integers(0, 3, 9)[tariff[0]], 3)
    late = (given(rng, [zone, customs], 2, 0.7), 2)
    month, channel = (rng.integers(0, 12, rows), 12), (given(rng, [product], 6, 0.5), 6)
    return named(
        [product, weight, zone, tariff, customs, late, month, channel, (given(rng, [channel, late], 5, 0.5), 5)]
    )


def parities(rng: np.random.Generator) -> Made:
    """Sums modulo 2 and 3 of other columns, some rows aside: no pair depends, three and four columns do."""
    rows = 24_000
    bits = [(rng.integers(0, 2, rows), 2) for _ in range(4)]
    threes = [(rng.integers(0, 3, rows), 3) for _ in range(3)]

    def total(parts: Sequence[tuple[Codes, int]], modulo: int) -> tuple[Codes, int]:
        found = sum(codes for codes, _ in parts) % modulo
        return np.where(rng.random(rows) < 0.08, rng.integers(0, modulo, rows), found), modulo

    checks = [total(bits[:2], 2), total(bits[1:], 2), total(threes[:2], 3)]
    return named(
        [*bits, *threes, *checks, (given(rng, [checks[2], bits[0]], 7, 0.6), 7), (rng.integers(0, 10, rows), 10)]
    )


def skips(rng: np.random.Generator) -> Made:
    """A survey whose filters skip questions: code 0, "N", in up to ten columns at once."""
    rows = 28_000
    age = np.clip(rng.gamma(2.5, 17.0, rows), 0, 79).astype(np.int64)
    band = age // 20
    works = rng.random(rows) < np.array([0.25, 0.8, 0.7, 0.1])[band]
    rents, grown = rng.random(rows) < np.array([0.6, 0.7, 0.3, 0.2])[band], age >= 16
    columns = [(age, 80), (rng.integers(0, 2, rows), 2)]
    for asked, values in ((works, (10, 7, 4, 3, 5)), (rents, (6, 4, 3)), (grown, (7, 5))):
        for size in values:
            columns.append((np.where(asked, 1 + given(rng, [(band, 4), (columns[1][0], 2)], size, 0.7), 0), size + 1))
    return named(columns, [0])


def places(rng: np.random.Generator) -> Made:
    """County, state and region, with other columns that depend on one of them."""
    rows = 32_000
    county = rng.choice(90, rows, p=rng.dirichlet(np.full(90, 1.0)))
    state = (rng.integers(0, 12, 90))[county]
    region = (np.arange(12) // 4)[state]
    crop = (given(rng, [(state, 12)], 8, 0.5), 8)
    size = (np.clip(rng.gamma(2.0, 6.0, rows) + 6 * region, 0, 49).astype(np.int64), 50)
    aid, owner = (given(rng, [(region, 3), crop], 4, 0.6), 4), (given(rng, [(county, 90)], 3, 1.0), 3)
    return named([(county, 90), (state, 12), (region, 3), crop, size, aid, owner, (given(rng, [aid], 5, 0.7), 5)], [4])


def days(rng: np.random.Generator) -> Made:
    """Day of a quarter, weekday, week, weekend, hour, and what depends on them."""
    rows = 26_000
    day = rng.choice(91, rows, p=rng.dirichlet(np.full(91, 8.0)))
    weekday, week = (day + 3) % 7, (day + 3) // 7
    off = (weekday >= 5).astype(np.int64)
    hour = np.clip(np.where(off == 1, 13.0, 9.0) + 3.5 * rng.standard_normal(rows), 0, 23).astype(np.int64)
    line, late = (given(rng, [(weekday, 7)], 9, 0.6), 9), (given(rng, [(off, 2), (hour // 6, 4)], 3, 0.6), 3)
    more = [(given(rng, [line, late], 4, 0.6), 4), (rng.integers(0, 6, rows), 6)]
    return named([(day, 91), (weekday, 7), (week, 14), (off, 2), (hour, 24), line, late, *more], [0, 2, 4])


def classes(rng: np.random.Generator) -> Made:
    """Ten hidden classes of rows, inside which all columns are independent."""
    rows = 30_000
    kind = rng.choice(10, rows, p=rng.dirichlet(np.full(10, 2.0)))
    sizes = [2, 2, 3, 4, 5, 6, 8, 9, 12, 20, 30]
    return named([(drawn(rng, rng.dirichlet(np.full(size, 0.5), 10), kind), size) for size in sizes])


def chain(rng: np.random.Generator) -> Made:
    """Each column depends on the one before and on nothing else: pairs tell all."""
    columns = [(rng.choice(5, 22_000, p=[0.4, 0.25, 0.2, 0.1, 0.05]), 5)]
    for size in (4, 7, 3, 9, 6, 12, 2, 8):
        columns.append((given(rng, [columns[-1]], size, 0.8), size))
    return named(columns)


def apart(rng: np.random.Generator) -> Made:
    """No column depends on another."""
    sizes = [2, 3, 4, 6, 7, 10, 15, 25]
    return named([(rng.choice(size, 22_000, p=rng.dirichlet(np.full(size, 1.5))), size) for size in sizes])


MADE: dict[str, Callable[[np.random.Generator], Made]] = {
    "formula": formula,
    "parities": parities,
    "skips": skips,
    "places": places,
    "days": days,
    "classes": classes,
    "chain": chain,
    "apart": apart,
}
DEMOGRAPHIC = ("AGEP", "SEX", "MSP", "HISP", "RAC1P", "NOC", "NPF", "HOUSING_TYPE", "OWN_RENT", "EDU")
WEIGHTS = ("PWGTP", "WGTP")
BINS = {"AGEP": 100, "PINCP": 40, "POVPIP": 52, "DENSITY": 20}  # of numbers; one more code is for "N"


def nist(path: Path, columns: Sequence[str] | None = None) -> Made:
    """NIST's excerpt of the American Community Survey: some columns, or all but weights.

    Numbers of many values are binned: density and income by quantiles, the poverty ratio in tens.
    """
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    codes: dict[str, Codes] = {}
    sizes: dict[str, int] = {}
    for name in columns or [each for each in rows[0] if each not in WEIGHTS]:
        listed = [row[name] for row in rows]
        if name not in BINS:
            known, codes[name] = np.unique(listed, return_inverse=True)
            sizes[name] = len(known)
            continue
        missing = np.array([each == "N" for each in listed])
        numbers = np.array([0.0 if each == "N" else float(each) for each in listed])
        if name in ("PINCP", "DENSITY"):
            cuts = np.unique(np.quantile(numbers[~missing], np.linspace(0.0, 1.0, BINS[name] + 1)[1:-1]))
            binned, number = np.searchsorted(cuts, numbers, side="right"), len(cuts) + 1
        else:
            binned, number = (numbers / (10.0 if name == "POVPIP" else 1.0)).astype(np.int64), BINS[name]
        any_missing = bool(missing.any())
        codes[name] = np.where(missing, 0, np.minimum(binned, number - 1) + any_missing)
        sizes[name] = number + any_missing
    ordered = frozenset({*BINS, "NPF", "EDU", "PINCP_DECILE"} & {*codes})
    return Made(codes, sizes, ordered)
