"""Simulate data-dependent mechanisms on public synthetic tables to forecast their error.

The tables have densities given by formulas, positive everywhere, and are drawn from nobody's data. Counts are Poisson
around `rows` times the density, so that few rows leave most cells of a sparse shape empty. The randomness comes from a
hash of the cell's index, and the noise from the testing generator: a plan is reproducible. A release draws its noise
from the operating system, as always.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from math import exp, log, pi, prod, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Flags, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models.base.mechanism import Mechanism
from sfumato.models.calibration.misfits_by_kind import estimates_alone
from sfumato.planner.marginal_errors import sparse_stand_in, with_measures
from sfumato.planner.questions import Line, price, sampled
from sfumato.queries import AllRanges, Identity, Kron, Queries, Ranges, Total, Workload
from sfumato.queries.workload import GOLDEN
from sfumato.releases.contents.content import Content
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.planner.questions import Item

Counts = NDArray[np.int64]

ROWS_PER_CELL = 10  # guessed where a schema states no expected_rows
FEW = 30.0  # rows in a cell up to which its scatter is Poisson to the letter, and nearly normal beyond


def prior_tables(sizes: tuple[int, ...], rows: int, possible: Flags | None = None) -> dict[str, Counts]:
    """Synthetic counts, (cells,) row-major, for each shape, with about `rows` rows.

    possible: flags of the cells that are no structural zeros, (cells,); None: all.

    >>> {name: table.shape for name, table in prior_tables((4, 2), 100).items()}["smooth"]
    (8,)
    """
    there = 1.0 if possible is None else possible
    made = {name: shape(sizes).reshape(-1) * there for name, shape in SHAPES.items()}
    return {name: _scattered(rows * one / one.sum(), place) for place, (name, one) in enumerate(made.items())}


def _smooth(sizes: tuple[int, ...]) -> Floats:
    """Mixture of three wide Gaussian bumps and a uniform floor."""
    hills = ((0.5, 0.15, 0.25), (0.3, 0.10, 0.6), (0.2, 0.05, 0.85))  # weight, width, place
    total = np.full(sizes, 0.05)
    for number, (weight, width, place) in enumerate(hills):
        total += weight * _hill(sizes, [(place + number * axis * GOLDEN) % 1.0 for axis in range(len(sizes))], width)
    return total


def _sparse(sizes: tuple[int, ...]) -> Floats:
    """Narrow clusters with power-law weights; a thousandth of the rows is uniform."""
    cells = prod(sizes)
    clusters = max(2, round(cells**0.5 / 4))
    total = np.zeros(sizes)
    for rank in range(1, clusters + 1):
        centre = [hashed(np.array([rank * 31 + axis], dtype=np.uint64), 7).item() for axis in range(len(sizes))]
        total += rank**-1.2 * _hill(sizes, centre, 0.0, reach=1.0)
    return np.asarray(total / total.sum() + 1e-3 / cells)


def _spike(sizes: tuple[int, ...]) -> Floats:
    """Half of all rows in one cell, the others uniform."""
    total = np.full(sizes, 0.5 / prod(sizes))
    total[tuple(size // 3 for size in sizes)] += 0.5
    return total


def _rough(sizes: tuple[int, ...]) -> Floats:
    """Independent log-normal weights of cells."""
    return np.asarray(np.exp(1.5 * _normal(prod(sizes), 11)).reshape(sizes))


SHAPES: dict[str, Callable[[tuple[int, ...]], Floats]] = {
    "even": np.ones,
    "smooth": _smooth,
    "sparse": _sparse,
    "spike": _spike,
    "rough": _rough,
}


def _hill(sizes: tuple[int, ...], centre: list[float], width: float, reach: float = 0.0) -> Floats:
    """Gaussian bump at a centre in [0, 1]^axes; width: relative to the axis, reach: in cells."""
    hill = np.ones(())
    for size, place in zip(sizes, centre, strict=True):
        distance = (np.arange(size) + 0.5 - place * size) / (width * size + reach)
        hill = np.multiply.outer(hill, np.exp(-0.5 * np.minimum(distance**2, 1400.0)))
    return np.asarray(hill)


def _scattered(expected: Floats, salt: int) -> Counts:
    """Poisson counts with means `expected`, (cells,), from hashed uniforms; a rounded normal above FEW."""
    counts = np.maximum(0.0, np.rint(expected + np.sqrt(expected) * _normal(len(expected), 100 + salt)))
    few = np.flatnonzero(expected <= FEW)
    uniform = hashed(few.astype(np.uint64), 200 + salt)
    chance = np.exp(-expected[few])
    below, counted = chance.copy(), np.zeros(len(few))
    for number in range(1, int(4 * FEW)):  # the smallest count whose chance to be reached exceeds the hash
        counted += uniform > below
        chance = chance * expected[few] / number
        below += chance
    counts[few] = counted
    return counts.astype(np.int64)


def _normal(count: int, salt: int) -> Floats:
    """Hashed standard normal numbers, (count,) (Box and Muller)."""
    places = np.arange(count, dtype=np.uint64)
    one, two = hashed(places, 2 * salt), hashed(places, 2 * salt + 1)
    return np.asarray(np.sqrt(-2.0 * np.log(one)) * np.cos(2.0 * pi * two))


def hashed(places: NDArray[np.uint64], salt: int) -> Floats:
    """Hashed uniform numbers in (0, 1), one for each index (splitmix64 finaliser)."""
    mixed = (places + np.uint64(salt * 2**32 + 1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.asarray(((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53)


MOST_SIMULATED = 2**14  # cells up to which mechanisms are tried out
MOST_ROWS = 2000  # queries of a block that are looked at


def thinned(schema: Schema) -> Schema:
    """Schema of a table that can be tried out in place of a larger one: fewer values, and as many rows in a cell.

    The longest axis is halved until a quarter of MOST_SIMULATED cells are left; measures are left out.
    """
    sizes = {axis.name: axis.size for axis in schema.domain}
    while prod(sizes.values()) > MOST_SIMULATED // 4:
        longest = max(sizes, key=lambda name: sizes[name])
        sizes[longest] = (sizes[longest] + 1) // 2
    attributes = {
        name: {"type": "integer", "lower": 0, "upper": size - 1}
        if schema.domain[name].ordered and size > 1
        else {"type": "category", "values": list(range(size))}
        for name, size in sizes.items()
    }
    fields: dict[str, object] = {"dataset": "t", "privacy_unit": "row", "attributes": attributes}
    if schema.expected_rows is not None:
        fields["expected_rows"] = max(1, round(schema.expected_rows * prod(sizes.values()) / schema.domain.size))
    alike = {"privacy_unit": schema.privacy_unit, "weight": schema.counts_alone.weight}
    return Schema.from_dict(fields).model_copy(update=alike)


def thinned_queries(block: Queries, before: Domain, after: Domain) -> Queries | None:
    """Queries of the same families over the smaller domain of a thinned schema; None of any other family."""
    if isinstance(block, Kron) and len(block.factors) == len(before.axes):
        factors = [_resized(factor, axis.size) for factor, axis in zip(block.factors, after, strict=True)]
        return Kron(*(factor for factor in factors if factor is not None)) if None not in factors else None
    along = len(before.axes) == 1 or isinstance(block, Identity | Total)  # else its cells are in an order of their own
    return _resized(block, after.size) if along else None


def _resized(family: Queries, size: int) -> Queries | None:
    """Queries of one family along fewer values."""
    if isinstance(family, Identity | Total | AllRanges):
        return type(family)(size)
    if type(family) is Ranges:
        ends = (np.minimum(end * size // family.columns, size - 1) for end in (family.lows, family.highs))
        return Ranges(size, *ends)
    return None


@dataclass(frozen=True, eq=False)
class Trial:
    """Run of a mechanism on one synthetic table, (cells,)."""

    table: Counts
    content: Content

    @cached_property
    def off(self) -> Floats:
        """Error of the estimate of each cell, (cells,)."""
        return self.content.cells() - self.table


@dataclass(frozen=True, eq=False)
class Trials:
    """Runs of one mechanism on synthetic tables, by their shape ("smooth", "sparse", ...).

    again: run it on the first synthetic table as a release would be made, with the errors that it states; with or
    without the schema's measures.
    """

    by_shape: dict[str, tuple[Trial, ...]]
    again: Callable[[bool], Content]

    @cached_property
    def in_full(self) -> Content:
        """Content of the first run with the errors that a release states, for the count alone."""
        return self.again(False)

    @cached_property
    def with_measures(self) -> Content:
        """Content of a run on the first synthetic table, with the schema's measures included."""
        return self.again(True)

    def errors(self, block: Queries) -> dict[str, Floats]:
        """Errors of (a sample of) a block of queries, all runs concatenated, by shape of the synthetic table."""
        rows = block[sampled(block, MOST_ROWS)] if block.rows > MOST_ROWS else block
        return {
            shape: np.concatenate([np.asarray(rows @ trial.off, dtype=np.float64) for trial in trials])
            for shape, trials in self.by_shape.items()
        }


def try_out(
    mechanism: Mechanism,
    schema: Schema,
    budget: Budget,
    workload: Workload,
    runs: int,
    most: int | None = None,
    *,
    with_errors: bool = False,
    shapes: Collection[str] = (),
) -> Trials:
    """Run a mechanism on every synthetic shape, for the count alone with its share of the budget.

    most: work, as the mechanism counts it, after which no further shape is begun; never seconds, so that a plan is the
    same on every machine. with_errors: also measure the errors that a release states, which takes about as long again;
    a plan needs those of one run alone (`Trials.in_full`). shapes: those to run on; all, if none are named.
    """
    plain = schema.model_copy(update={"measures": {}})
    share = budget.split(*schema.weights.values())[0]
    rows = schema.expected_rows or round(ROWS_PER_CELL * schema.usual_weight * schema.possible_cells)
    by_shape: dict[str, tuple[Trial, ...]] = {}
    work, done = runs * mechanism.forecast.work(plain, workload, share, rows), 0
    for number, (shape, table) in enumerate(prior_tables(schema.domain.shape, rows, schema.possible).items()):
        if shapes and shape not in shapes:
            continue
        if most is not None and done > most:
            break
        done += work
        trials = []
        for run in range(runs):
            curator = over_counts(plain, table, share, TestingEntropy(1000 * number + run))
            with nullcontext() if with_errors else estimates_alone():
                trials.append(Trial(table, mechanism.run(curator, plain, share, workload)))
        by_shape[shape] = tuple(trials)

    def again(measures: bool) -> Content:
        public, spent = (schema, budget) if measures else (plain, share)
        table = next(iter(by_shape.values()))[0].table
        return mechanism.run(over_counts(public, table, spent, TestingEntropy(0)), public, spent, workload)

    return Trials(by_shape, again)


def simulated_line(item: Item, trials: Trials, schema: Schema, budget: Budget, confidence: float) -> Line:
    """Simulated error of one question: geometric mean over the shapes, the least and the greatest."""
    if item.block is None:
        line = _stated(item, trials, schema, budget, confidence)
        return replace(line, guess=True, best=line.stderr, worst=line.stderr)
    off = trials.errors(item.block).values()
    errors = [root_mean_square(each) for each in off]
    # Not by np.quantile, which loads masked arrays first.
    ranked = [np.sort(np.abs(each)) for each in off]
    within = max(float(np.interp(confidence * (len(each) - 1), np.arange(len(each)), each)) for each in ranked)
    middle = geometric_mean(errors)
    return Line(item.query, middle, within, item.unit, True, best=min(errors), worst=max(errors))


def _stated(item: Item, trials: Trials, schema: Schema, budget: Budget, confidence: float) -> Line:
    """Error of a sum or average: the one that a release of a synthetic table would state itself."""
    content = trials.in_full
    if isinstance(content, Cube):
        return price(item, with_measures(schema, budget, content.fits[0]), confidence)
    from sfumato.releases.contents.sparse_cube import SparseCube

    if isinstance(content, SparseCube):
        return price(item, sparse_stand_in(schema, budget), confidence)
    return price(item, trials.with_measures, confidence)


def root_mean_square(errors: Floats) -> float:
    """Root mean square of errors."""
    return sqrt(float(np.mean(errors**2)))


def geometric_mean(errors: list[float]) -> float:
    """Geometric mean of errors, each at least a hundredth of a row."""
    return exp(sum(log(max(error, 0.01)) for error in errors) / len(errors))
