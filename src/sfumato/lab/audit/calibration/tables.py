"""Test tables and questions for the coverage of intervals, made by fixed recipes.

Five tables of two attributes and three of six and seven, whose rows are few for their many cells. Questions come by
kind, and one release is asked some of them in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import chain, pairwise, zip_longest
from math import prod

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.planner.simulate import hashed
from sfumato.schema import Schema

KINDS = "total", "margin", "range", "cell", "sum", "share", "average"
SMALL = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "x": {"type": "integer", "lower": 0, "upper": 49},
            "g": {"type": "category", "values": ["a", "b"]},
        },
        "measures": {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
    }
)
ANSWERS = 4, 5, 4, 6, 5, 4, 3  # of seven questions
PERSONS = {"age": 20, "sex": 2, "region": 8, "school": 6, "work": 5, "home": 4}  # 38,400 cells


@dataclass(frozen=True)
class Question:
    """SQL query that returns one number, with the kind of query that it counts as."""

    kind: str
    sql: str


@dataclass(frozen=True, eq=False)
class Case:
    """Test table with its epsilon and questions. sums: of the schema's one measure around its centre, (cells,)."""

    name: str
    schema: Schema
    counts: Whole
    questions: tuple[Question, ...]
    epsilon: Fraction
    sums: Whole | None = None

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    def asked(self, run: int, most: int) -> tuple[int, ...]:
        """Indices of the questions asked of release number `run`: round robin, so that all are asked equally often."""
        number = len(self.questions)
        return tuple((run * most + place) % number for place in range(min(most, number)))


@lru_cache(maxsize=1)
def small_cases() -> tuple[Case, ...]:
    """Cases of two attributes and 100 cells: smooth, sparse, one spike, alternating and empty."""
    x, g = np.meshgrid(np.arange(50), np.arange(2), indexing="ij")
    shapes = {
        "smooth": 200 + 60 * np.sin(x / 8) + 30 * g,
        "sparse": np.where((x * 7 + g * 3) % 11 == 0, 300 + x, 0),
        "one spike": np.where((x == 12) & (g == 0), 10**6, 0),
        "alternating": np.where((x + g) % 2 == 0, 500, 0),
        "empty": 0 * x,
    }
    tables = {name: counts.astype(np.int64) for name, counts in shapes.items()}
    return tuple(
        Case(name, SMALL, counts, _small_questions(counts), Fraction(1, 2), counts * (g * 20 - x % 7))
        for name, counts in tables.items()
    )


def _small_questions(counts: Whole) -> tuple[Question, ...]:
    found = {
        "total": ["SELECT COUNT(*) FROM t"],
        "margin": [f"SELECT COUNT(*) FROM t WHERE {one}" for one in ("g = 'a'", "g = 'b'", "x = 12")],
        "range": [
            f"SELECT COUNT(*) FROM t WHERE {one}"
            for one in ("x BETWEEN 10 AND 29", "g = 'a' OR x > 40", "x BETWEEN 30 AND 34 AND g = 'b'")
        ],
        "cell": [f"SELECT COUNT(*) FROM t WHERE {one}" for one in _cells(SMALL, counts, 3)],
        "sum": ["SELECT SUM(m) FROM t WHERE g = 'a'", "SELECT SUM(x) FROM t WHERE g = 'b'"],
        "share": [
            "SELECT COUNT(*) FILTER (WHERE x < 20) / COUNT(*) FROM t",
            "SELECT COUNT(*) FILTER (WHERE g = 'b') / COUNT(*) FROM t WHERE x > 30",
        ],
        "average": ["SELECT AVG(m) FROM t WHERE x < 25", "SELECT AVG(x) FROM t"],
    }
    return _in_turn(found)


@lru_cache(maxsize=1)
def wide_cases() -> tuple[Case, ...]:
    """Cases of many attributes: seven answers of 8,000 people, independent and dependent, and six of 48,000."""
    seven = _categories({f"a{place}": size for place, size in enumerate(ANSWERS)})
    alone = _product([_uneven(size, 400 + place) for place, size in enumerate(ANSWERS)])
    latent = [  # five kinds of people, who answer alike among themselves
        part * _product([_uneven(size, 410 + 10 * kind + place, 2.0) for place, size in enumerate(ANSWERS)])
        for kind, part in enumerate((0.3, 0.25, 0.2, 0.15, 0.1))
    ]
    six = _categories(PERSONS, ordered="age")
    return (
        _wide("seven independent", seven, _drawn(8_000, alone, 470), "a0"),
        _wide("seven dependent", seven, _drawn(8_000, np.sum(latent, axis=0), 471), "a0"),
        _wide("census", six, _drawn(48_000, _people(), 472), "sex"),
    )


def cases() -> tuple[Case, ...]:
    """All cases on which intervals are tested."""
    return small_cases() + wide_cases()


def _uneven(size: int, salt: int, power: float = 1.0) -> Floats:
    """Random shares of `size` values in proportion to exponential variables to a power, (size,); fixed by salt."""
    weights = (-np.log(hashed(np.arange(size, dtype=np.uint64), salt))) ** power
    return np.asarray(weights / weights.sum())


def _drawn(rows: int, shares: Floats, salt: int) -> Whole:
    """Counts of `rows` people drawn from cell probabilities by a hash of their number, so the same every time."""
    ends = np.cumsum(shares.reshape(-1))
    cells = np.searchsorted(ends, ends[-1] * hashed(np.arange(rows, dtype=np.uint64), salt))
    return np.bincount(cells, minlength=shares.size)


def _people() -> Floats:
    """Joint distribution of six attributes: school and work depend on age, home on work and region."""
    age: Floats = np.arange(PERSONS["age"], dtype=np.float64)
    ages = 1.2 - 0.9 * (age / len(age)) ** 2
    regions = 1.0 / np.arange(1, PERSONS["region"] + 1)
    school = _peaks(0.35 * age, PERSONS["school"], 1.2)  # age x school
    work = _peaks(0.45 * np.abs(age - 9.0), PERSONS["work"], 1.0)  # age x work
    home = np.array(
        [[_uneven(PERSONS["home"], 480 + 8 * r + w) for w in range(PERSONS["work"])] for r in range(PERSONS["region"])]
    )
    sexes = np.stack([0.5 + 0.004 * age, 0.5 - 0.004 * age], axis=1)
    made = np.einsum("a,as,r,ae,aw,rwh->asrewh", ages, sexes, regions, school, work, home)
    return np.asarray(made / made.sum())


def _peaks(centres: NDArray[np.floating], size: int, width: float) -> Floats:
    """Bell-shaped shares of `size` values around each centre, (centres, size)."""
    off = np.exp(-0.5 * ((np.arange(size) - np.asarray(centres)[:, None]) / width) ** 2) + 0.01
    return np.asarray(off / off.sum(axis=1, keepdims=True))


def _wide(name: str, schema: Schema, counts: Whole, by: str) -> Case:
    """Case with questions on margins, pairs of value sets, cells, shares and averages."""
    axes = list(schema.domain)
    conditions = {axis.name: [_is(schema, axis.name, code) for code in range(axis.size)] for axis in axes}
    names = list(conditions)
    pairs = list(pairwise(names))
    some = {name: f"({' OR '.join(conditions[name][: (len(conditions[name]) + 1) // 2])})" for name in names}
    count = "SELECT COUNT(*) FROM t WHERE "
    shares = [
        f"SELECT COUNT(*) FILTER (WHERE {some[name]}) / COUNT(*) FROM t WHERE {conditions[by][0]}"
        for name in names
        if name != by
    ]
    numbers = [axis.name for axis in axes if not axis.values]
    found = {
        "total": ["SELECT COUNT(*) FROM t"],
        "margin": [count + conditions[name][place % len(conditions[name])] for place, name in enumerate(names)],
        "range": [f"{count}{some[one]} AND {some[other]}" for one, other in pairs[:4]],
        "cell": [count + one for one in _cells(schema, counts, 6)],
        "share": shares[:4],
        "average": [f"SELECT AVG({name}) FROM t WHERE {conditions[by][value]}" for name in numbers for value in (0, 1)],
    }
    return Case(name, schema, counts.astype(np.int64), _in_turn(found), Fraction(1))


def _categories(sizes: dict[str, int], ordered: str | None = None) -> Schema:
    attributes = {
        name: {"type": "integer", "lower": 0, "upper": size - 1}
        if name == ordered
        else {"type": "category", "values": [f"v{value}" for value in range(size)]}
        for name, size in sizes.items()
    }
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def _is(schema: Schema, name: str, code: int) -> str:
    axis = schema.domain[name]
    return f"{name} = '{axis.values[code]}'" if axis.values else f"{name} = {code}"


def _cells(schema: Schema, counts: Whole, most: int) -> Iterator[str]:
    """SQL conditions for some non-empty cells, evenly spaced."""
    held = np.flatnonzero(counts)
    for cell in held[np.linspace(0, len(held) - 1, min(most, len(held))).astype(int)]:
        codes = np.unravel_index(int(cell), schema.domain.shape)
        yield " AND ".join(_is(schema, axis.name, int(code)) for axis, code in zip(schema.domain, codes, strict=True))


def _in_turn(found: dict[str, list[str]]) -> tuple[Question, ...]:
    """Questions in round-robin order over the kinds."""
    columns = [[Question(kind, sql) for sql in texts] for kind, texts in found.items()]
    return tuple(question for question in chain.from_iterable(zip_longest(*columns)) if question is not None)


def _product(margins: Sequence[Floats]) -> Floats:
    made = np.ones(())
    for margin in margins:
        made = np.multiply.outer(made, margin)
    return np.asarray(made).reshape(prod(len(margin) for margin in margins))
