"""Mechanisms whose error depends on the data, tried on public shapes.

Nothing private is near: the tables are made by formula, and the noise comes from the testing generator, so that a plan
says the same thing twice. What is published later draws its noise from the operating system, as always.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from math import exp, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models.base.mechanism import Mechanism
from sfumato.planner.price import Line, price, sampled
from sfumato.planner.public_tables import Counts, guessed_rows, prior_tables
from sfumato.planner.release_without_data import sparse_stand_in, with_measures
from sfumato.queries import Queries, Workload
from sfumato.releases.contents.content import Content
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.planner.questions import Item

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
