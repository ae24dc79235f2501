"""Starting points and small steps of the search for tables and questions that break guaranteed intervals.

Domains are small, so that releases are cheap: a line, a grid and five answers of yes or no. Questions are counts,
shares and averages over unions of boxes. Tables begin with shapes on which models are known to be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import nan
from random import Random
from typing import cast

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.schema import Schema
from sfumato.sql import Select, compile_statement

SHAPES = (32,), (8, 8), (2, 2, 2, 2, 2)
QUESTIONS = 60  # of each domain, to choose from
BUDGETS = (1, 1, 1, 4, 12)  # with the largest, noise is mostly 0: sums of it have steps
SIZES = (0, 1, 2, 3, 5, 8, 13, 21, 40, 150, 1000)  # of cells that are put somewhere: about as large as noise, and not


@dataclass(frozen=True, eq=False)
class Ask:
    """Question of one number: SELECT column, and the weights of cells in its true answer, a sum or a ratio."""

    kind: str
    column: str
    top: Floats
    bottom: Floats | None = None

    def truth(self, counts: Whole) -> float:
        """True answer on given counts; nan for an average over no rows."""
        top = float(self.top @ counts)
        if self.bottom is None:
            return top
        below = float(self.bottom @ counts)
        return top / below if below else nan


@dataclass(frozen=True, eq=False)
class Ground:
    """A schema, and the questions that the search for the worst table may ask about it."""

    schema: Schema
    questions: tuple[Ask, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.schema.domain.shape

    def plan(self, places: Sequence[int]) -> Select:
        """Compile several questions into one SELECT."""
        columns = ", ".join(f"{self.questions[place].column} AS q{place}" for place in places)
        return cast(Select, compile_statement(f"SELECT {columns} FROM t", self.schema))

    def grouped(self, by: Sequence[int]) -> Select:
        """Compile COUNT(*) GROUP BY some attributes, in the order of their cells."""
        names = ", ".join(self.schema.domain.names[place] for place in by)
        return cast(Select, compile_statement(f"SELECT {names}, COUNT(*) AS n FROM t GROUP BY {names}", self.schema))


@lru_cache(maxsize=1)
def grounds() -> tuple[Ground, ...]:
    """The small domains, each with a fixed list of questions."""
    return tuple(_ground(shape, Random(place)) for place, shape in enumerate(SHAPES))  # noqa: S311 (not noise)


def _ground(shape: tuple[int, ...], chance: Random) -> Ground:
    attributes = {f"x{place}": {"type": "integer", "lower": 0, "upper": size - 1} for place, size in enumerate(shape)}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})
    codes = [each.reshape(-1).astype(np.float64) for each in np.indices(shape)]
    every = np.ones(len(codes[0]))
    made = [Ask("count", "COUNT(*)", every)]
    for number in range(QUESTIONS - 1):
        text, mask = _union(shape, codes, chance)
        if number % 4 == 3:
            axis = chance.randrange(len(shape))
            made.append(Ask("average", f"AVG(x{axis}) FILTER (WHERE {text})", mask * codes[axis], mask))
        elif number % 4 == 2:
            inside, part = _union(shape, codes, chance)
            share = f"COUNT(*) FILTER (WHERE ({inside}) AND ({text})) / COUNT(*) FILTER (WHERE {text})"
            made.append(Ask("share", share, mask * part, mask))
        else:
            made.append(Ask("count", f"COUNT(*) FILTER (WHERE {text})", mask))
    return Ground(schema, tuple(made))


def _union(shape: tuple[int, ...], codes: Sequence[Floats], chance: Random) -> tuple[str, Floats]:
    """Random condition of one or two boxes, as SQL text and as mask of cells (cells,)."""
    texts, mask = [], np.zeros(len(codes[0]), dtype=bool)
    for _ in range(chance.choice((1, 1, 1, 2))):
        parts, inside = [], np.ones(len(mask), dtype=bool)
        small = chance.random() < 0.35
        axes = [axis for axis in range(len(shape)) if small or chance.random() < 0.7] or [0]
        for axis in axes:
            low, high = sorted(chance.randrange(shape[axis]) for _ in range(2))
            high = low if small or shape[axis] == 2 else high
            parts.append(f"x{axis} BETWEEN {low} AND {high}")
            inside &= (codes[axis] >= low) & (codes[axis] <= high)
        texts.append(" AND ".join(parts))
        mask |= inside
    return " OR ".join(f"({text})" for text in texts), mask.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Table:
    """Table for the search: counts on a ground, a budget, and the numbers of the questions asked."""

    ground: Ground
    counts: Whole
    asked: tuple[int, ...]
    budget: Budget
    told: str = ""  # how it came about

    def changed(self, chance: Random) -> Table:
        """Random neighbour in the hill climb: counts of a box, and some questions, are changed."""
        box = tuple(
            slice(low, low + chance.randrange(1, size - low + 1))
            for size in self.ground.shape
            for low in (chance.randrange(size),)
        )
        counts = self.counts.reshape(self.ground.shape).copy()
        way = chance.randrange(4)
        if way == 0:
            counts[box] = chance.choice(SIZES)
        elif way == 1:
            counts[box] = counts[box] * chance.choice((2, 3)) // chance.choice((1, 2, 4))
        elif way == 2:
            counts = np.roll(counts, chance.randrange(1, 4), axis=chance.randrange(counts.ndim))
        else:
            counts[tuple(chance.randrange(size) for size in counts.shape)] = chance.choice(SIZES)
        kept = list(self.asked[: len(self.asked) // 2])
        fresh = [place for place in range(len(self.ground.questions)) if place not in kept]
        asked = (*kept, *chance.sample(fresh, len(self.asked) - len(kept)))
        return replace(self, counts=counts.reshape(-1), asked=asked, told=f"{self.told.split(',')[0]}, changed")


def rich(number: int) -> Table:
    """A table with at least 300 rows in every cell, so that no guaranteed interval is narrowed by counts being >= 0.

    number: of its ground in `grounds`, modulo their number.
    """
    ground = grounds()[number % len(SHAPES)]
    counts = 300 + np.arange(ground.schema.domain.size) * 7 % 20
    return Table(ground, counts.astype(np.int64), (0,), Budget.pure(1), "rich")


def beginnings(chance: Random, asked: int, *, gaussian: bool) -> list[Table]:
    """Starting tables of the search: empty, spikes, alternating, halves, heavy tails, steps. asked: questions each."""
    found = []
    for ground in grounds():
        cells, shape = ground.schema.domain.size, ground.shape
        place, parity = np.arange(cells), np.indices(shape).sum(axis=0).reshape(-1) % 2
        shapes = {
            "nothing": 0 * place,
            "one spike": np.where(place == cells // 3, 500, 0),
            "small spikes": np.where(place * 7 % 11 == 0, 5, 0),
            "checkerboard": parity * 12,
            "one half": np.where(place < cells // 2, 9, 0),
            "thin": 1 + 0 * place,
            "heavy": (200 / (1 + place * 5 % cells)).astype(np.int64),
            "steps": place // 5 % 3 * 15,
        }
        for name, counts in shapes.items():
            places = (0, *chance.sample(range(1, QUESTIONS), asked - 1))  # the total is where small errors add up
            of = Budget.zcdp if gaussian and chance.random() < 0.3 else Budget.pure
            found.append(Table(ground, counts.astype(np.int64), places, of(chance.choice(BUDGETS)), name))
    chance.shuffle(found)
    return found
