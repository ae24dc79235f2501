"""NOT PRIVATE: broken choices, sparse vectors and partition selection, kept so that the audit is seen to catch them.

The wrong sparse vectors are those that Lyu, Su, Li, "Understanding the Sparse Vector Technique" (VLDB 2017), collect;
the numbers of algorithms are theirs.

Choices of a rule (`pac`): the proof says that a score which moves one way has twice the usual rate, once, and that the
rows a rule gets wrong are counted with noise. Choices of a whole table (`blr`): the largest misfit moves both ways, so
the factor 2 stays, and the answers of candidates are public. Each mutant forgets one half of its proof.

NOT PRIVATE: the max query of TR-2010-003, and broken parities and quantiles; the audit must catch each.

Xiao, Xiong, Yuan, TR-2010-003, section 4.1.2 with the ranges of section 7: the limited-domain algorithm for max
queries, kept to show that it exceeds its claim. Theorem 4.3 claims alpha-differential privacy, but its proof adds the
differing record last. A record that comes earlier changes the masses from which all later shifts are computed, and
these can widen the difference. The exact audit must catch it; nothing shipped uses it.

Parities: the proof says noise on every cell, and a vector that is read off the noisy cells; each mutant forgets one
half. Quantiles: `Lines` (kernel/lines.py) with a step of their proof left out, for the replay audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.fit import NoisyCells
from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget, Cost
from sfumato.kernel.curator import Curator
from sfumato.kernel.discovering import FULL, FoundValue, Held, largest, threshold_noise
from sfumato.kernel.lines import Lines
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.verbs.scores import LargestMisfit, Rank, RowsRight
from sfumato.lab.audit.attacks.exact import DIGITS, TOLERANCE, Distribution, Law, exact_loss, exponential, largest_loss
from sfumato.lab.audit.attacks.exact_values import Kept
from sfumato.lab.audit.mutants.curators import fresh
from sfumato.lab.audit.mutants.noise import Run, laplace
from sfumato.lab.audit.subjects.subject import Outputs
from sfumato.lab.papers.blr.measure import Options, blr, small_tables
from sfumato.lab.papers.pac.content import Rule
from sfumato.lab.papers.pac.measure import pac
from sfumato.lab.papers.parity.content import ParityCube, as_cells, odd, transformed
from sfumato.lab.papers.parity.measure import parity
from sfumato.queries import Identity, Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema


def limited_domain_max(
    rows: Sequence[int], alpha: Fraction, cells: int, *, width: int = 1, overlap: bool = True
) -> Distribution:
    """NOT PRIVATE: what the paper would publish as the largest value, as a distribution over the cells.

    All cells start alike. Each row x, in the order of the table, draws mass into the cells from x - width to x + width,
    out of the cells up to x - width: as much as makes the first e^alpha times as heavy or the second e^alpha times
    lighter, whichever is less, spread in proportion to what each cell holds.
    overlap: whether the cell x - width belongs to both ranges, as it does in the paper's closed intervals.
    """
    with localcontext(prec=DIGITS):
        factor = (Decimal(alpha.numerator) / Decimal(alpha.denominator)).exp()
        mass = [Decimal(1) / cells] * cells
        for x in rows:
            gaining = range(max(0, x - width), min(cells, x + width + 1))
            losing = range(max(0, x - width + overlap))
            heavier, lighter = sum(mass[r] for r in gaining), sum(mass[r] for r in losing)
            moved = min(heavier * (factor - 1), lighter * (1 - 1 / factor))
            if moved:
                gain = {r: moved * mass[r] / heavier for r in gaining}
                loss = {r: moved * mass[r] / lighter for r in losing}
                mass = [mass[r] + gain.get(r, 0) - loss.get(r, 0) for r in range(cells)]
        return dict(enumerate(mass))


def limited_domain_loss(alpha: Fraction | int, cells: int, rows: int, *, width: int = 1, overlap: bool = True) -> float:
    """Largest privacy loss over all tables of up to `rows` rows in every order, with and without any one row.

    >>> round(limited_domain_loss(1, cells=4, rows=3), 2)
    1.77
    """

    @cache
    def published(table: tuple[int, ...]) -> Distribution:
        return limited_domain_max(table, Fraction(alpha), cells, width=width, overlap=overlap)

    tables = (table for size in range(1, rows + 1) for table in product(range(cells), repeat=size))
    return max(
        exact_loss([published(table)], [published(table[:place] + table[place + 1 :])])
        for table in tables
        for place in range(len(table))
    )


EVEN = (0, 0, 0, 0, 1, 0)  # rows of a table in which one more decides which attribute fits best
CLEAR = (0, 40, 40, 0, 40, 0)  # and of one that leaves no doubt which cells contradict the vector


def label_from_the_table(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None
) -> ParityCube:
    """NOT PRIVATE: the attribute that is published as the label is the one that fits best in the private table."""
    made = parity(curator, schema, budget)
    names, best = schema.domain.names, []
    for place in range(len(names)):
        zeros, ones = as_cells(curator._dense("count"), place, 3)
        best.append(int(np.abs(transformed(zeros - ones))[1:].max()))
    return replace(made, label=names[int(np.argmax(best))])


def contradictions_left_empty(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None
) -> ParityCube:
    """NOT PRIVATE: cells that contradict the vector and hold no row are published as 0, as if that told nothing."""
    made = parity(curator, schema, budget)
    counted, counts = made.fits[0].measurements[0], curator._dense("count")
    place = np.arange(len(counts))
    wrong = (odd((place >> 1) & made.learnt.vector) ^ made.learnt.opposite) != (place & 1)
    answers = np.where(wrong & (counts == 0), 0, counted.answers)
    return replace(made, fits=(NoisyCells(replace(counted, answers=answers)),))


HALF, QUARTILE = Fraction(1, 2), Fraction(1, 4)


def below_the_median(curator: Curator, schema: Schema, budget: Budget) -> list[int]:
    """Choose the median with half of the budget, then a quartile of the pieces up to it with the other half."""
    lines = curator.lines(schema.domain.names[:1], budget, pieces=2)
    half, rest = budget.evenly(2)
    first = lines.cut(0, HALF, half, first=0, end=lines.length)
    return [first, lines.cut(0, QUARTILE, rest, first=0, end=first + 1)]


def lines_until_refused(curator: Curator, schema: Schema, budget: Budget) -> list[int]:
    """Choose the median of the same line with the whole budget again and again, three times at most."""
    found: list[int] = []
    with suppress(PrivacyError):
        for _ in range(3):
            lines = curator.lines(schema.domain.names[:1], budget)
            found.append(lines.cut(0, HALF, budget, first=0, end=lines.length))
    return found


class FreeLinesCurator(Curator):
    """NOT PRIVATE: the budget of `Lines` is not charged to the curator that makes them."""

    def lines(self, names: Sequence[str], budget: Budget, *, pieces: int = 1) -> Lines:
        held, self.charge = self.charge, fresh(self.charge)
        made = super().lines(names, budget, pieces=pieces)
        self.charge = held
        return made


class ReshuffledCurator(Curator):
    """NOT PRIVATE: counts of `Lines` are multiplied by the number of rows, so that one more row moves many pieces."""

    def lines(self, names: Sequence[str], budget: Budget, *, pieces: int = 1) -> Lines:
        made = super().lines(names, budget, pieces=pieces)
        made._counts = made._counts * made._counts.sum()
        return made


# -- choices

Counted = NDArray[np.int64]
EPSILON = Fraction(1)
EACH = 25  # queries that the added row raises, and as many that it lowers


# -- the exponential mechanism


def choosing(quantile: Fraction, tables: tuple[list[int], list[int]], rate: Fraction) -> Run:
    """Sampler of the exponential mechanism on ranks: the chosen cell, with P proportional to exp(rate * score)."""
    law = choice_law(Rank(quantile), rate)
    chances = [[float(chance) for chance in law(tuple(counts), 0)[0].values()] for counts in tables]

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        # Floating point is good enough for an audit, and the product's own `choose` takes one choice at a time.
        uniform = (entropy.words(runs) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return np.searchsorted(np.cumsum(chances[which])[:-1], uniform, side="right").astype(np.int64).reshape(runs, 1)

    return run


def choice_law(score: Rank | RowsRight | LargestMisfit, rate: Fraction) -> Law:
    """Output distribution of the exponential mechanism on a score at a rate."""
    return lambda counts, last: [exponential(score.scores(np.array(counts, dtype=np.int64)).tolist(), rate)]


def exactly(law: Law) -> str | None:
    """Complaint if a distribution exceeds epsilon 1 on some table of up to 4 rows in 4 cells; else None."""
    loss, pairs = largest_loss(law, (4,), 4, 1)
    return None if loss <= 1 + TOLERANCE else f"epsilon 1 claimed, {loss:.3f} lost on the worst of {pairs} pairs"


MEDIAN, UPPER = Fraction(1, 2), Fraction(3, 4)
LOW, MIDDLE = [0] * 8, [0] * 20  # the added row makes the low cells worse candidates and the middle ones better
MEDIAN_TABLES = ([*LOW, 1, *MIDDLE, 2], [*LOW, 2, *MIDDLE, 2])
UPPER_TABLES = ([*LOW, 3, *MIDDLE, 0], [*LOW, 3, *MIDDLE, 1])


def honest_rate(quantile: Fraction) -> Fraction:
    """Control: the rate epsilon / (2 * sensitivity)."""
    return EPSILON / 2 / Rank(quantile).sensitivity


def rate_without_two(quantile: Fraction) -> Fraction:
    """NOT PRIVATE: the factor 2 for numerator and normaliser is missing."""
    return EPSILON / Rank(quantile).sensitivity


def rate_understated(quantile: Fraction) -> Fraction:
    """NOT PRIVATE: the sensitivity of a rank is taken as b - a, where it is max(a, b - a)."""
    a, b = quantile.as_integer_ratio()
    return EPSILON / 2 / (b - a)


# -- the largest value


def limited_domain() -> str | None:
    """NOT PRIVATE: the limited-domain algorithm of TR-2010-003, whose proof adds the differing row last."""
    loss = limited_domain_loss(1, cells=4, rows=3)
    return None if loss <= 1 + TOLERANCE else f"epsilon 1 claimed, {loss:.3f} lost on the worst of all small tables"


# -- the sparse vector


def sparse_vector(of_threshold: Fraction, of_queries: Fraction) -> Run:
    """Sparse vector: the queries of a stream that lie above a noisy threshold of 0.

    The row that is added raises the first half from 0 to 1 and lowers the second half from 1 to 0. What is published
    for each query is whether it lies above; the one column here is the number above in the first half less the second.
    """
    stream = np.repeat([[0, 1], [1, 0]], EACH, axis=1)

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        threshold = laplace(of_threshold, runs, 1, entropy)
        above = stream[which] + laplace(of_queries, runs, 2 * EACH, entropy) >= threshold
        raised, lowered = (np.count_nonzero(half, axis=1) for half in np.split(above, 2, axis=1))
        return np.asarray(raised - lowered, dtype=np.int64).reshape(runs, 1)

    return run


def honest_sparse_vector() -> Run:
    """Control, algorithm 1: half of epsilon for the threshold, half for c positives; c is the length of the stream."""
    return sparse_vector(2 / EPSILON, 2 * (2 * EACH) * 2 / EPSILON)


def positives_not_paid() -> Run:
    """NOT PRIVATE: algorithm 4; the noise of the queries does not grow with the number of positives."""
    return sparse_vector(2 / EPSILON, 4 / EPSILON)


def positives_not_counted() -> Run:
    """NOT PRIVATE: algorithm 6; any number of positives, each query with the noise of one."""
    return sparse_vector(2 / EPSILON, 2 / EPSILON)


def queries_without_noise(which: int, runs: int, entropy: Entropy) -> Outputs:
    """NOT PRIVATE: algorithm 5; only the threshold is noisy, so the order of two queries shows."""
    threshold = laplace(1 / EPSILON, runs, 1, entropy)
    return (np.array([which, 1 - which]) >= threshold).astype(np.int64)


def queries_with_noise(which: int, runs: int, entropy: Entropy) -> Outputs:
    """Control: algorithm 1 on the same two queries."""
    threshold, noise = laplace(2 / EPSILON, runs, 1, entropy), laplace(8 / EPSILON, runs, 2, entropy)
    return (np.array([which, 1 - which]) + noise >= threshold).astype(np.int64)


# On four cells: every rule, and the tables of three rows by their cells.
RULES = RowsRight(np.array([[code >> cell & 1 for cell in range(4)] for code in range(16)]) == 1)
TABLES = LargestMisfit(Identity(4), small_tables(4, 3))


def saved_twice() -> str | None:
    """NOT PRIVATE: the rate is doubled twice, where a score that moves one way allows it once."""
    return exactly(choice_law(RULES, Fraction(2)))


def saved_as_counts() -> str | None:
    """NOT PRIVATE: the rate is doubled as for counts, which move one way, although misfits move both ways."""
    return exactly(choice_law(TABLES, Fraction(1)))


def counted_exactly(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Rule:
    """NOT PRIVATE: the rows that the chosen rule gets right and wrong are published as they are."""
    made = pac(curator, schema, budget)
    ill, well = curator._dense("count").reshape(-1, 2).sum(axis=0)[::-1]
    return replace(made, counted=replace(made.counted, answers=np.array([ill, well, 0, 0])))


ROWS = 4  # of the small tables


def scaled_by_the_table(curator: Curator, schema: Schema, budget: Budget) -> Cube:
    """NOT PRIVATE: small tables are scaled by the private number of rows, as in the paper."""
    for_choice, for_rest = budget.split(1, 1)
    rows = int(getattr(curator, "_Recorder__inner", curator)._dense("count").sum())
    answers = small_tables(schema.domain.size, ROWS) * rows // ROWS
    curator.select(LargestMisfit(Identity(schema.domain.size), answers), for_choice)
    return blr(curator, schema, for_rest, options=Options(ROWS))


def scaled_by_noise(curator: Curator, schema: Schema, budget: Budget) -> Cube:
    """Control: the mechanism itself, which scales by the noisy number of rows."""
    return blr(curator, schema, budget, options=Options(ROWS))


# -- values that nobody listed


def _look(table: Kept, schema: Schema, cost: Cost, entropy: Entropy) -> tuple[list[bytes], Counted, Counted, int]:
    """Values of a table, their numbers of people, these with noise, and the threshold."""
    values, places, counts = table.read_values(schema, 1, 1)
    noise, people = threshold_noise(cost), np.zeros(len(values), dtype=np.int64)
    people[places] = counts
    return values, people, people + noise.draw(len(values), entropy), noise.threshold


def found_from_one_less(table: Kept, schema: Schema, cost: Cost, *, entropy: Entropy, **_: int) -> list[FoundValue]:
    """NOT PRIVATE: values are found from one below the threshold on, which one person reaches more often."""
    values, _people, noisy, threshold = _look(table, schema, cost, entropy)
    return largest(((noisy[at], values[at]) for at in np.flatnonzero(noisy >= threshold - 1)), 10)


def found_by_people(table: Kept, schema: Schema, cost: Cost, *, entropy: Entropy, **_: int) -> list[FoundValue]:
    """NOT PRIVATE: values that passed are listed by their true numbers of people."""
    values, people, noisy, threshold = _look(table, schema, cost, entropy)
    order = sorted(np.flatnonzero(noisy >= threshold).tolist(), key=lambda at: -people[at])
    return [FoundValue(values[at].decode(), int(noisy[at])) for at in order]


class Uncapped(Kept):
    """NOT PRIVATE: the values of a person are not capped, and the noise is made for one value each."""

    def read_values(self, schema: Schema, key: int, most: int) -> tuple[list[bytes], Counted, Counted]:
        """Values and the number of people who have each, where a person may have any number of values."""
        values, places, _ = super().read_values(schema, key, 64)
        held, counts = np.unique(places, return_counts=True)
        return values, held, counts


class RowsForPeople(Kept):
    """NOT PRIVATE: rows are counted where people are meant."""

    def read_values(self, schema: Schema, key: int, most: int) -> tuple[list[bytes], Counted, Counted]:
        """Numbers of rows of all values."""
        values, held, counts = np.unique([value for _, value in self.rows], return_inverse=True, return_counts=True)[:3]
        return [str(value).encode() for value in values], np.unique(held), counts.astype(np.int64)


def dealt_in_full(held: Held, shares: Counted, one: int) -> Counted:
    """NOT PRIVATE: a person's weight is not divided: each value of the person gets all of it."""
    weights = np.zeros(held.values, dtype=np.int64)
    np.add.at(weights, held.places, one * shares[held.places] // FULL)
    return weights


def dealt_rounded_up(held: Held, shares: Counted, one: int) -> Counted:
    """NOT PRIVATE: weights are rounded up, so that their squares are a little more than was paid for."""
    own = shares[held.places]
    roots = np.sqrt(np.bincount(held.people, own * own))[held.people]
    weights = np.zeros(held.values, dtype=np.int64)
    np.add.at(weights, held.places, np.ceil(one * own / np.maximum(roots, 1)).astype(np.int64))
    return weights
