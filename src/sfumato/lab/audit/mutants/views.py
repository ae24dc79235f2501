"""NOT PRIVATE: broken margins, Walsh coefficients, subsets, halfspaces and learners; the audit must catch each.

Each forgets one clause of section 9 or theorem 6 in docs/privacy.md, or of the proof of its paper: coefficients of
contingency tables (docs/fourier.md), conjunctions on subsets of the rows, halfspaces, statistical-query learners, and
learned models (docs/mldp.md) that are made from too little noise. A square is a table of two attributes of two values.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Which
from sfumato.domain import Axis, Domain, Partition
from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Load
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.measuring import Guess, PartsMisfit
from sfumato.lab.papers.conjunctions.content import Conjunctions
from sfumato.lab.papers.conjunctions.measure import Options, conjunctions
from sfumato.lab.papers.fourier.content import Coefficients, Listed, downward_closure, queries_of
from sfumato.lab.papers.fourier.measure import fourier
from sfumato.lab.papers.mldp.training_queries import Blocks, training_sets
from sfumato.lab.papers.sq.classifiers import pulls
from sfumato.measurement import Laplace, Measurement, Noise
from sfumato.queries import Identity, Predicates, Prefix, Queries, Weighted
from sfumato.schema import Schema

MARGINS = (["a"], ["b"], ["a", "b"])  # of a square of two attributes


def misfits_in_one_sum(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """Measure the misfit of both margins and the square from zero, as one sum."""
    guesses = [(names, np.zeros(2 ** len(names), dtype=np.int64)) for names in MARGINS]
    return curator.measure_margin_misfits(guesses, budget, np.zeros(3, dtype=np.int64))


def misfits_in_parts(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """Measure the misfit of both diagonals of the square from zero, as one sum."""
    return curator.measure_margin_misfits([(["a", "b"], np.zeros(2, dtype=np.int64), np.array([0, 1, 1, 0]))], budget)


def margins_until_refused(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Measure one margin after the other, each with the whole budget."""
    found: list[Measurement] = []
    with suppress(PrivacyError):
        for names in (["a"], ["b"]):
            found.append(curator.margin(names).measure(Identity(2), budget))
    return found


def recoded_until_refused(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Measure the square with the values of one attribute merged, then those of the other, each with all the budget."""
    found: list[Measurement] = []
    with suppress(PrivacyError):
        for name in ("a", "b"):
            whole = Axis(name, "integer", np.arange(2.0))
            seen = curator.recode({name: (whole, np.zeros(2, dtype=np.int64))})
            found.append(seen.measure(Identity(2), budget))
    return found


def a_chosen_margin(curator: Curator, schema: Schema, budget: Budget) -> int:
    """Choose among both margins and the square the one farthest from zero, penalised by its number of cells."""
    guesses = [(names, np.zeros(2 ** len(names), dtype=np.int64)) for names in MARGINS]
    guesses[1] = ["b"], np.array([0, 9])  # which a row in its second cell comes nearer to
    return curator.select_margin(guesses, (0, 9, 4), budget)


class SharpChoiceCurator(Curator):
    """NOT PRIVATE: a choice follows its scores as if a row could move them in one direction only."""

    def _choice_rate(self, budget: Budget, spread: int) -> Fraction:
        return 2 * super()._choice_rate(budget, spread)


class FreeChoiceCurator(Curator):
    """NOT PRIVATE: a choice is charged to nobody, as if only numbers told something of a table."""

    def _charge_all(self, budget: Budget) -> None:
        pass


class MarginsAsOneCurator(Curator):
    """NOT PRIVATE: a group's misfits are charged as those of one margin, where a row of data moves them all."""

    def _margin_noise(self, labels: Codes, groups: int, budget: Budget) -> tuple[Noise, Load]:
        return super()._margin_noise(np.arange(groups), groups, budget)


def margins_at_once(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """Measure both margins and the square with one noise."""
    return curator.measure_margins([(names, Identity(2 ** len(names))) for names in MARGINS], budget)


class FullestMarginCurator(Curator):
    """NOT PRIVATE: margins measured at once are charged as the fullest of them, where a row lies in them all."""

    def _noise_of_queries(self, asked: Sequence[Queries], budget: Budget) -> tuple[Noise, Load]:
        return super()._noise_of_queries([max(asked, key=lambda queries: queries.l1)], budget)


class _TwoPartsMisfit(PartsMisfit):
    def total(self, counts: NDArray[np.int64]) -> np.int64:
        return np.int64(super().total(counts) + super().total(np.roll(counts, 1)))


class PartsOverlapCurator(Curator):
    """NOT PRIVATE: a row counts in two parts of a margin (groups of its cells), and is charged for one."""

    def _asked_of_margins(self, guesses: Sequence[Guess]) -> tuple[list[Domain], list[PartsMisfit]]:
        domains, found = super()._asked_of_margins(guesses)
        return domains, [_TwoPartsMisfit(each.misfit, each.parts) for each in found]


class CoefficientsAsOneCurator(Curator):
    """NOT PRIVATE: all coefficients of a set of attributes are charged as one, as if they were cells of a histogram."""

    def _loads(self, queries: Queries, unit: int, noises: tuple[Noise, ...], which: Which) -> list[Load]:
        return [Load(1, unit / noise.parameter) for noise in noises]


def scale_by_sets(curator: Curator, schema: Schema, budget: Budget) -> Coefficients:
    """Coefficients with noise for one coefficient per set of attributes, although a row moves all of them."""
    sizes, names = schema.domain.shape, schema.domain.names
    sets = downward_closure([(0, 1)], sizes)
    measured = tuple(
        curator.margin([names[place] for place in places]).measure(
            queries_of(places, sizes), scales=len(sets) / budget.amount
        )
        for places in sets
    )
    return Coefficients(schema, sets, measured, None)


def fitted_to_the_truth(curator: Curator, schema: Schema, budget: Budget) -> Coefficients:
    """NOT PRIVATE: the coefficients are honest, and the table that is published behind them is the private one."""
    content = fourier(curator, schema, budget)
    counts = getattr(curator, "_Recorder__inner", curator)._dense("count")
    cells = np.flatnonzero(counts)
    return replace(content, table=Listed(cells, counts[cells]))


FEW = Options(subsets=4)


def honest(curator: Curator, schema: Schema, budget: Budget) -> Conjunctions:
    """Control: the mechanism `conjunctions` as it is."""
    return conjunctions(curator, schema, budget, options=FEW)


def each_subset_in_full(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Measure four subsets of rows, each with the noise of the whole budget, as if charges did not add up."""
    cells = Identity(schema.domain.size)
    return [curator.subset(0, number).measure(cells, scales=1 / Fraction(budget.amount)) for number in range(4)]


class SubsetsByRankCurator(Curator):
    """NOT PRIVATE: subsets take every other row of the whole table, so that one row more shifts all that follow it."""

    def subset(self, seed: int, number: int) -> Curator:
        view = super().subset(seed, number)
        held = self._aggregate
        rows = np.repeat(held.cells, held.counts)[number % 2 :: 2]
        cells, counts = np.unique(rows, return_counts=True)
        view._held = Aggregate(cells, counts.astype(np.int64))
        return view


def directions_until_refused(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Count a square along two directions, each with the whole budget."""
    found: list[Measurement] = []
    with suppress(PrivacyError):
        for bins in ([0, 0, 1, 1], [0, 1, 1, 2]):
            seen = curator.reduce(Partition(curator.domain, np.array(bins)))
            found.append(seen.measure(Identity(seen.domain.size), budget))
    return found


def nested_halfspaces(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """Measure counts of nested halfspaces (prefixes)."""
    return curator.measure(Prefix(curator.domain.size), budget)


class HalfspacesAsBinsCurator(Curator):
    """NOT PRIVATE: halfspaces along a direction are charged as its bins, where a row of data lies in many of them."""

    def _noises(self, queries: Queries, *rest: Any) -> tuple[tuple[Noise, ...], Which]:
        return super()._noises(Identity(queries.columns), *rest)

    def _loads(self, queries: Queries, *rest: Any) -> list[Load]:
        return super()._loads(Identity(queries.columns), *rest)


POINTS = np.array([[1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 1]])  # of the cells of a square: one attribute, marked
TRUTH = np.array([0, 1, 0, 1])


def round_of_a_perceptron(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """Measure the summed perceptron updates of a square, in the first round."""
    weights = np.zeros((1, POINTS.shape[1]), dtype=np.int64)
    return curator.measure(Weighted(pulls(weights, POINTS, TRUTH, 2).T), budget)


class SumsAsOneCurator(Curator):
    """NOT PRIVATE: a perceptron's sums are charged as the last of them alone, where a row of data moves several."""

    def _noises(self, queries: Queries, *rest: Any) -> tuple[tuple[Noise, ...], Which]:
        return super()._noises(queries[np.array([queries.rows - 1])], *rest)

    def _loads(self, queries: Queries, *rest: Any) -> list[Load]:
        return super()._loads(queries[np.array([queries.rows - 1])], *rest)


def split_by_the_table(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """NOT PRIVATE: the attribute that a tree splits by is chosen by the true counts, where it must be by noisy ones."""
    counts = curator._dense("count").reshape(2, 2)
    return _grown(curator, counts, budget)


def split_by_noisy_counts(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Grow a tree of one split on a square: measure the cells, then split by the attribute they favour."""
    first, second = budget.evenly(2)
    cells = curator.measure(Identity(4), first)
    return [cells, _grown(curator, cells.answers.reshape(2, 2), second)]


def _grown(curator: Curator, counts: Codes, budget: Budget) -> Measurement:
    uneven = [abs(int(np.diff(counts.sum(axis=axis))[0])) for axis in (1, 0)]
    return curator.margin(["a" if uneven[0] > uneven[1] else "b"]).measure(Identity(2), budget)


class EachQueryAloneCurator(Curator):
    """NOT PRIVATE: every training query has the noise of one query, where a row of data is in several of them."""

    def reduce(self, partition: Partition) -> Curator:
        view = super().reduce(partition)
        view.__class__ = type(self)  # the kernel makes its views of its own class
        return view

    def _noises(self, queries: Queries, *rest: Any) -> tuple[tuple[Noise, ...], Which]:
        noises, which = super()._noises(queries, *rest)
        return tuple(Laplace(noise.parameter / int(queries.l1)) for noise in noises), which

    def _loads(self, queries: Queries, unit: int, noises: tuple[Noise, ...], which: Which) -> list[Load]:
        return [self._spread(Load(1, Fraction(unit) / noise.parameter)) for noise in noises]


def asked_until_full(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Measure the training set of `mldp`, then the same for held-out answers, each with the whole budget."""
    blocks = Blocks.at_most(schema.domain, schema.domain.size)
    queries = Predicates(blocks.size, [row > 0 for row in training_sets(blocks, "ranges", 0)])
    found: list[Measurement] = []
    with suppress(PrivacyError):
        for _ in range(2):
            found.append(curator.reduce(blocks.partition).measure(queries, budget))
    return found
