"""Public shapes that a table might have: what a plan tries mechanisms on whose error depends on the data.

None of them is drawn from anybody's data. Each is a density that is positive everywhere, made by formula, from which
`rows` people are taken as if independently, so that cells scatter as real counts do: a few rows leave most cells of a
sparse shape empty, many rows fill them. The scatter comes from a hash of the cell's number, so a plan is the same
tomorrow.

Mechanisms whose error depends on the data, tried on public shapes.

Nothing private is near: the tables are made by formula, and the noise comes from the testing generator, so that a plan
says the same thing twice. What is published later draws its noise from the operating system, as always.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from math import exp, log, pi, prod, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models.base.mechanism import Mechanism
from sfumato.planner.marginal_errors import sparse_stand_in, with_measures
from sfumato.planner.price import Line, price, sampled
from sfumato.queries import Queries, Workload
from sfumato.queries.workload import GOLDEN
from sfumato.releases.contents.content import Content
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.planner.questions import Item

Counts = NDArray[np.int64]

ROWS_PER_CELL = 10  # guessed where a schema states no expected_rows
FEW = 30.0  # rows in a cell up to which its scatter is Poisson to the letter, and nearly normal beyond


def guessed_rows(cells: int) -> int:
    """How many rows to assume where the schema says nothing."""
    return ROWS_PER_CELL * cells


def prior_tables(sizes: tuple[int, ...], rows: int) -> dict[str, Counts]:
    """Counts by cell, row-major, of tables of each shape with about `rows` rows.

    >>> {name: table.shape for name, table in prior_tables((4, 2), 100).items()}["smooth"]
    (8,)
    """
    return {name: _scattered(rows * made / made.sum(), place) for place, (name, made) in enumerate(_densities(sizes))}


def _densities(sizes: tuple[int, ...]) -> list[tuple[str, Floats]]:
    return [(name, shape(sizes).reshape(-1)) for name, shape in SHAPES.items()]


def _even(sizes: tuple[int, ...]) -> Floats:
    """The same everywhere."""
    return np.ones(sizes)


def _smooth(sizes: tuple[int, ...]) -> Floats:
    """Three wide hills on a plain."""
    hills = ((0.5, 0.15, 0.25), (0.3, 0.10, 0.6), (0.2, 0.05, 0.85))  # weight, width, place
    total = np.full(sizes, 0.05)
    for number, (weight, width, place) in enumerate(hills):
        total += weight * _hill(sizes, [(place + number * axis * GOLDEN) % 1.0 for axis in range(len(sizes))], width)
    return total


def _sparse(sizes: tuple[int, ...]) -> Floats:
    """Narrow clusters whose weights fall by a power law; a thousandth of the rows lies anywhere."""
    cells = prod(sizes)
    clusters = max(2, round(cells**0.5 / 4))
    total = np.zeros(sizes)
    for rank in range(1, clusters + 1):
        centre = [hashed(np.array([rank * 31 + axis], dtype=np.uint64), 7).item() for axis in range(len(sizes))]
        total += rank**-1.2 * _hill(sizes, centre, 0.0, reach=1.0)
    return np.asarray(total / total.sum() + 1e-3 / cells)


def _spike(sizes: tuple[int, ...]) -> Floats:
    """Half of all rows in one cell, the others spread evenly."""
    total = np.full(sizes, 0.5 / prod(sizes))
    total[tuple(size // 3 for size in sizes)] += 0.5
    return total


def _rough(sizes: tuple[int, ...]) -> Floats:
    """Cells that say nothing about their neighbours: log-normal weights."""
    return np.asarray(np.exp(1.5 * _normal(prod(sizes), 11)).reshape(sizes))


SHAPES: dict[str, Callable[[tuple[int, ...]], Floats]] = {
    "even": _even,
    "smooth": _smooth,
    "sparse": _sparse,
    "spike": _spike,
    "rough": _rough,
}


def _hill(sizes: tuple[int, ...], centre: list[float], width: float, reach: float = 0.0) -> Floats:
    """A bell of a relative width, or one that reaches a number of cells."""
    hill = np.ones(())
    for size, place in zip(sizes, centre, strict=True):
        distance = (np.arange(size) + 0.5 - place * size) / (width * size + reach)
        hill = np.multiply.outer(hill, np.exp(-0.5 * np.minimum(distance**2, 1400.0)))
    return np.asarray(hill)


def _scattered(expected: Floats, salt: int) -> Counts:
    """Whole counts around what is expected, as of people who come independently of each other."""
    counts = np.maximum(0.0, np.rint(expected + np.sqrt(expected) * _normal(len(expected), 100 + salt)))
    few = np.flatnonzero(expected <= FEW)
    uniform = hashed(few.astype(np.uint64), 200 + salt)
    chance = np.exp(-expected[few])
    below, found = chance.copy(), np.zeros(len(few))
    for number in range(1, int(4 * FEW)):  # the smallest count whose chance to be reached exceeds the hash
        found += uniform > below
        chance = chance * expected[few] / number
        below += chance
    counts[few] = found
    return counts.astype(np.int64)


def _normal(count: int, salt: int) -> Floats:
    """Numbers that look normal, one for each place (Box and Muller)."""
    places = np.arange(count, dtype=np.uint64)
    one, two = hashed(places, 2 * salt), hashed(places, 2 * salt + 1)
    return np.asarray(np.sqrt(-2.0 * np.log(one)) * np.cos(2.0 * pi * two))


def hashed(places: NDArray[np.uint64], salt: int) -> Floats:
    """Numbers in (0, 1) that look uniform, one for each place: the last steps of splitmix64."""
    mixed = (places + np.uint64(salt * 2**32 + 1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray(((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


MOST_SIMULATED = 2**14  # cells up to which mechanisms are tried out
MOST_ROWS = 2000  # queries of a block that are looked at


@dataclass(frozen=True, eq=False)
class Trial:
    """One run of a mechanism on one synthetic table."""

    table: Counts
    content: Content

    @cached_property
    def off(self) -> Floats:
        """By how much the estimate of each cell is off."""
        return self.content.cells() - self.table


@dataclass(frozen=True, eq=False)
class Trials:
    """The runs of one mechanism, by shape. again: a run on a table of counts, measures and all."""

    by_shape: dict[str, tuple[Trial, ...]]
    again: Callable[[Counts], Content]

    @cached_property
    def with_measures(self) -> Content:
        """A run on the first of the tables, measures and all."""
        return self.again(next(iter(self.by_shape.values()))[0].table)

    def errors(self, block: Queries) -> dict[str, Floats]:
        """For each shape, how far off the queries of a block were, in all runs."""
        rows = block[sampled(block, MOST_ROWS)] if block.rows > MOST_ROWS else block
        return {
            shape: np.concatenate([np.asarray(rows @ trial.off, dtype=np.float64) for trial in trials])
            for shape, trials in self.by_shape.items()
        }


def try_out(
    mechanism: Mechanism, schema: Schema, budget: Budget, workload: Workload, runs: int, most: int | None = None
) -> Trials:
    """Run a mechanism on every public shape; only the count, with the share of the budget that is the count's.

    most: work, as the mechanism counts it, after which no further shape is begun; never seconds, so that a plan is the
    same on every machine.
    """
    plain = schema.model_copy(update={"measures": {}})
    share = budget.split(*schema.weights.values())[0]
    rows = schema.expected_rows or guessed_rows(schema.domain.size)
    found: dict[str, tuple[Trial, ...]] = {}
    work, done = runs * mechanism.forecast.work(plain, workload, share, rows), 0
    for place, (shape, table) in enumerate(prior_tables(schema.domain.shape, rows).items()):
        if most is not None and done > most:
            break
        done += work
        trials = []
        for run in range(runs):
            curator = over_counts(plain, table, share, TestingEntropy(1000 * place + run))
            trials.append(Trial(table, mechanism.run(curator, plain, share, workload)))
        found[shape] = tuple(trials)

    def again(table: Counts) -> Content:
        return mechanism.run(over_counts(schema, table, budget, TestingEntropy(0)), schema, budget, workload)

    return Trials(found, again)


def simulated_line(item: Item, trials: Trials, schema: Schema, budget: Budget, confidence: float) -> Line:
    """What the trials say of one question: the middle of the shapes, and the kindest and the unkindest of them."""
    if item.block is None:
        line = _stated(item, trials, schema, budget, confidence)
        return replace(line, guess=True, best=line.stderr, worst=line.stderr)
    off = trials.errors(item.block).values()
    errors = [root_mean_square(each) for each in off]
    within = max(float(np.quantile(np.abs(each), confidence)) for each in off)
    middle = geometric_mean(errors)
    return Line(item.query, middle, within, item.unit, True, best=min(errors), worst=max(errors))


def _stated(item: Item, trials: Trials, schema: Schema, budget: Budget, confidence: float) -> Line:
    """Sums and averages: the error that a release of an even table would state by itself."""
    content = next(iter(trials.by_shape.values()))[0].content
    if isinstance(content, Cube):
        return price(item, with_measures(schema, budget, content.fits[0]), confidence)
    from sfumato.releases.contents.sparse_cube import SparseCube

    if isinstance(content, SparseCube):
        return price(item, sparse_stand_in(schema, budget), confidence)
    return price(item, trials.with_measures, confidence)


def root_mean_square(errors: Floats) -> float:
    return sqrt(float(np.mean(errors**2)))


def geometric_mean(errors: list[float]) -> float:
    """The middle of numbers that differ by factors; a perfect answer counts as a hundredth of a row."""
    return exp(sum(log(max(error, 0.01)) for error in errors) / len(errors))
