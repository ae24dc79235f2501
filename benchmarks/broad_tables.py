"""Tables for broad.py: Adult and NIST's excerpt from a folder, generators in a wide and a small form, any CSV file.

Wide tables have 8 to 14 columns of 2 to 80 values, small ones 3 to 5 that fit a cube. No constant of the product was
chosen on any of them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from math import ceil, floor, log10
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow.csv import read_csv

from margins_tables import tables_in
from sfumato.lab.audit.calibration.worst_question import Ground, Question
from sfumato.schema import Schema

BUDGET = {"epsilon": 1_000_000, "delta": "1/100"}  # of the ledger: for all releases of a run
SEED = 2028
ORDERED = 16  # values from which on a made-up attribute is a whole number, not a category

Make = Callable[[np.random.Generator, Sequence[int], int], list[np.ndarray]]


def near(rng: np.random.Generator, centre: np.ndarray, size: int, width: float) -> np.ndarray:
    """Codes around a centre between 0 and 1."""
    return np.clip((centre + width * rng.standard_normal(len(centre))) * size, 0, size - 1).astype(np.int64)


def classes(rng: np.random.Generator, sizes: Sequence[int], rows: int) -> list[np.ndarray]:
    """Six hidden kinds of rows: numbers around a centre of their own, categories by shares of their own."""
    kind, found = rng.choice(6, rows, p=[0.3, 0.25, 0.2, 0.12, 0.08, 0.05]), []
    for size in sizes:
        if size >= ORDERED:
            found.append(near(rng, rng.random(6)[kind], size, 0.12))
            continue
        shares = rng.dirichlet(np.full(size, 0.7), 6).cumsum(axis=1)
        found.append(np.minimum((rng.random(rows)[:, None] > shares[kind]).sum(axis=1), size - 1))
    return found


def chain(rng: np.random.Generator, sizes: Sequence[int], rows: int) -> list[np.ndarray]:
    """Each attribute near the one before it."""
    place, found = rng.beta(2, 3, rows), []
    for size in sizes:
        place = np.clip(np.where(rng.random(rows) < 0.15, rng.random(rows), place + rng.normal(0, 0.1, rows)), 0, 1)
        found.append(np.minimum(place * size, size - 1).astype(np.int64))
    return found


def products(rng: np.random.Generator, sizes: Sequence[int], rows: int) -> list[np.ndarray]:
    """Attributes that have nothing to do with each other."""
    return [rng.choice(size, rows, p=rng.dirichlet(np.full(size, 1.5))) for size in sizes]


def parities(rng: np.random.Generator, sizes: Sequence[int], rows: int) -> list[np.ndarray]:
    """The half in which every third attribute lies is mostly the parity of the halves of the two before it."""
    found = [rng.integers(0, size, rows) for size in sizes]
    for place in range(2, len(sizes), 3):
        half = [found[one] >= sizes[one] / 2 for one in (place - 2, place - 1)]
        wanted, size = (half[0] ^ half[1]) ^ (rng.random(rows) < 0.1), sizes[place]
        middle = (size + 1) // 2
        found[place] = np.where(wanted, rng.integers(middle, size, rows), rng.integers(0, middle, rows))
    return found


def corner(rng: np.random.Generator, sizes: Sequence[int], rows: int) -> list[np.ndarray]:
    """Even but for one row in 25, which lie close together in one corner of all attributes."""
    inside = rng.random(rows) < 0.04
    shares = [rng.dirichlet(np.full(size, 5.0)) for size in sizes]
    return [
        np.where(inside, rng.integers(0, max(1, size // 8), rows), rng.choice(size, rows, p=share))
        for size, share in zip(sizes, shares, strict=True)
    ]


def trends(rng: np.random.Generator, sizes: Sequence[int], rows: int) -> list[np.ndarray]:
    """First the year, then the age: what else there is drifts with the year, rises or falls with age, or both."""
    year = rng.beta(1.5, 1.0, rows)
    age = np.clip(rng.beta(2.0, 2.6, rows) + 0.15 * year, 0, 0.999)
    found = [(year * sizes[0]).astype(np.int64), (age * sizes[1]).astype(np.int64)]
    for size in sizes[2:]:
        slopes = rng.normal(0, 0.6, 3)
        centre = 0.5 + slopes[0] * (year - 0.5) + slopes[1] * (age - 0.5) + 2 * slopes[2] * (year - 0.5) * (age - 0.5)
        found.append(near(rng, np.clip(centre, 0.02, 0.98), size, 0.25))
    return found


def postcodes(rng: np.random.Generator, sizes: Sequence[int], rows: int) -> list[np.ndarray]:
    """Many places of ten rows or so, by kinds of places that the other attributes hang on."""
    place = rng.choice(sizes[0], rows, p=rng.dirichlet(np.full(sizes[0], 4.0)))
    kinds = rng.integers(0, 8, sizes[0])[place]
    return [place, *(near(rng, rng.random(8)[kinds], size, 0.2) for size in sizes[1:])]


# name: generator, sizes, rows, whether there is a measure
WIDE: dict[str, tuple[Make, tuple[int, ...], int, bool]] = {
    "classes": (classes, (80, 40, 24, 16, 12, 9, 7, 5, 4, 3, 2, 2), 20_000, True),
    "chain": (chain, (64, 6, 30, 3, 50, 2, 20, 8, 16, 4), 30_000, False),
    "products": (products, (70, 35, 20, 12, 8, 6, 5, 3, 2, 2), 15_000, True),
    "parities": (parities, (2, 20, 40, 3, 2, 60, 4, 16, 2, 8), 10_000, False),
    "corner": (corner, (50, 32, 20, 10, 6, 4, 3, 2), 40_000, True),
    "trends": (trends, (50, 80, 2, 6, 5, 8, 16, 30, 3, 4, 10, 2, 7), 50_000, True),
    "postcodes": (postcodes, (4_950, 40, 20, 12, 6, 5, 4, 3, 2), 50_000, False),
}
SMALL: dict[str, tuple[Make, tuple[int, ...], int, bool]] = {
    "small classes": (classes, (40, 16, 4), 10_000, True),
    "small chain": (chain, (32, 16, 6, 2), 8_000, False),
    "small products": (products, (24, 16, 5, 2), 5_000, True),
    "small parities": (parities, (16, 16, 2, 3), 8_000, False),
    "small corner": (corner, (32, 16, 3), 20_000, False),
    "small trends": (trends, (20, 32, 2, 3), 20_000, False),
}


def made_up(name: str) -> Ground:
    """A table of a generator: numbers from 16 values on, the second attribute in bins; the others are categories."""
    make, sizes, rows, measured = (WIDE | SMALL)[name]
    rng = np.random.default_rng([SEED, *name.encode()])
    codes = make(rng, sizes, rows)
    attributes, columns = {}, {}
    for place, (size, column) in enumerate(zip(sizes, codes, strict=True)):
        if size < ORDERED:
            attributes[f"a{place}"] = {"type": "category", "values": [f"v{code}" for code in range(size)]}
            columns[f"a{place}"] = np.char.add("v", column.astype(str))
        elif place == 1:
            attributes["a1"] = {"type": "number", "lower": 0, "upper": size, "bins": size}
            columns["a1"] = column + np.round(rng.random(rows), 3) * 0.999
        else:
            attributes[f"a{place}"] = {"type": "integer", "lower": 0, "upper": size - 1}
            columns[f"a{place}"] = column
    if measured:
        first, second = (column / (size - 1) for column, size in zip(codes[:2], sizes[:2], strict=True))
        columns["m"] = np.round(np.clip(25 + 35 * first - 20 * second**2 + rng.normal(0, 12, rows), 0, 100))
    return Ground(
        _schema(attributes, {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}} if measured else {}),
        pa.table(columns),
    )


def adult(folder: Path) -> Ground | None:
    """UCI Adult by codes: adult.csv and adult-domain.json."""
    table = tables_in(folder, ["adult"]).get("adult")
    if table is None:
        return None
    columns = {
        name: column if name in table.ordered else column.astype(str)
        for name, column in zip(table.sizes, table.codes.T, strict=True)
    }
    return Ground(_schema(table.schema()["attributes"], {}), pa.table(columns))


NUMBERS = {"AGEP": 99, "EDU": 12, "NPF": 20, "PINCP_DECILE": 10}  # their greatest values; not applicable is 0
WORDS = "PUMA", "SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "INDP_CAT", "DREM"


def nist(folder: Path) -> Ground | None:
    """NIST's excerpt of the American Community Survey, 14 columns: poverty ratio in bins, income up to 150,000."""
    path = next(
        (one for one in (folder / "national2019.csv", folder / "nist" / "national2019.csv") if one.exists()), None
    )
    if path is None:
        return None
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))

    def numbers(name: str, most: float) -> np.ndarray:
        return np.clip([0.0 if row[name] == "N" else float(row[name]) for row in rows], 0, most)

    columns: dict[str, np.ndarray] = {name: numbers(name, most).astype(np.int64) for name, most in NUMBERS.items()}
    attributes: dict[str, dict] = {
        name: {"type": "integer", "lower": 0, "upper": most} for name, most in NUMBERS.items()
    }
    for name in WORDS:
        columns[name] = np.array([row[name] for row in rows])
        attributes[name] = {"type": "category", "values": sorted(set(columns[name].tolist()))}
    columns["POVPIP"] = numbers("POVPIP", 510)
    attributes["POVPIP"] = {"type": "number", "lower": 0, "upper": 510, "bins": 51}
    columns["PINCP"] = np.round(numbers("PINCP", 150_000) / 100) * 100
    return Ground(
        _schema(attributes, {"PINCP": {"lower": 0, "upper": 150_000, "step": 100, "missing": "drop"}}),
        pa.table(columns),
    )


FEW, LISTED, DIRECT, BINS = 9, 200, 120, 40  # values of a category, listed texts, whole numbers one by one, bins


def from_csv(path: Path) -> Ground:
    """Table of any CSV file, with a schema made from its own values, as only a benchmark may do.

    Numbers with few values and texts are categories, short ranges of whole numbers stay, other numbers are cut into
    bins between round bounds that 99.8 % of rows are in. Texts of more than LISTED values and constants are left out.
    """
    attributes: dict[str, dict] = {}
    columns: dict[str, list] = {}
    for name, column in zip((read := read_csv(path)).column_names, read.columns, strict=True):
        text = pa.types.is_string(column.type) or pa.types.is_boolean(column.type)
        values = column.cast(pa.string()).fill_null("none" if text else "0").to_pylist()
        different = sorted(set(values))
        if not name or len(different) < 2 or (text and len(different) > LISTED):
            continue
        if text or len(different) <= FEW:
            attributes[name], columns[name] = {"type": "category", "values": different}, values
            continue
        numbers = np.array(values, dtype=np.float64)
        low, high = np.quantile(numbers, (0.001, 0.999))
        if (numbers == np.rint(numbers)).all() and np.ptp(numbers) <= DIRECT:
            about = {"type": "integer", "lower": int(numbers.min()), "upper": int(numbers.max())}
            attributes[name], columns[name] = about, numbers.astype(np.int64).tolist()
            continue
        step = Decimal(10) ** floor(log10(max(high - low, 1e-9) / BINS))
        start = floor(low / float(step)) * step
        end = start + BINS * ceil((high - float(start)) / BINS / float(step)) * step
        attributes[name] = {"type": "number", "lower": str(start), "upper": str(end), "bins": BINS}
        columns[name] = np.clip(numbers, float(start), np.nextafter(float(end), -np.inf)).tolist()
    return Ground(_schema(attributes, {}), pa.table(columns))


# of single tables: two ranges to count in, by what; a number and by what to rank and spread it
NAMED = {
    "adult": (
        ('"age" BETWEEN 13 AND 33', '"hours-per-week" BETWEEN 34 AND 49'),
        ("sex", "occupation", "marital-status"),
        ("age", ("sex", "education-num")),
    ),
    "trends": (('"a0" BETWEEN 15 AND 34', '"a1" >= 24 AND "a1" < 48'), ("a2", "a3", "a4", "a5"), ("a0", ("a2", "a3"))),
}


def named(table: str) -> Iterator[Question]:
    """Questions that were asked by name, where intervals once held 10 to 77 %: few groups of broad ranges."""
    if table not in NAMED:
        return
    (first, second), groups, (number, by) = NAMED[table]
    cut = tuple(condition.split('"')[1] for condition in (first, second))
    for name in groups:
        inside = f"COUNT(*) FILTER (WHERE {first} AND {second})"
        yield Question("groups in two ranges", inside, (*cut, name), (name,))
        others = f"COUNT(*) FILTER (WHERE {first} AND NOT ({second}))"
        parts = f"COUNT(*) FILTER (WHERE {second})", f"COUNT(*) FILTER (WHERE NOT ({second}))"
        yield Question("gap of shares", f"{inside} / {parts[0]} - {others} / {parts[1]}", (*cut, name), (name,))
    yield Question("average of attribute", f'AVG("{number}") FILTER (WHERE {second})', (number, cut[1]))
    for name in by:
        yield Question("median by group", f'QUANTILE("{number}", 0.5)', (number, name), (name,))
        yield Question("0.9 quantile by group", f'QUANTILE("{number}", 0.9)', (number, name), (name,))
        yield Question("STDDEV", f'STDDEV("{number}")', (number, name), (name,))


def grounds(names: Sequence[str], folder: Path | None) -> Iterator[tuple[str, Ground]]:
    """Tables by name, those of the folder as far as they are there; names that end in .csv are files."""
    for name in names:
        if name.endswith(".csv"):
            yield Path(name).stem, from_csv(Path(name))
        elif name in ("adult", "nist"):
            found = None if folder is None else {"adult": adult, "nist": nist}[name](folder)
            if found is None:
                print(f"{name}: left out, its file is not in the folder that --data names")
                continue
            yield name, found
        else:
            yield name, made_up(name)


def _schema(attributes: dict, measures: dict) -> Schema:
    about = {"dataset": "t", "privacy_unit": "row", "budget": BUDGET, "attributes": attributes}
    return Schema.from_dict({**about, "measures": measures} if measures else about)
