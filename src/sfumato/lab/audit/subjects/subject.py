"""Subject of an audit: a mechanism that claims an epsilon and runs on two neighbouring inputs; the kernel's primitives.

The primitives run on the pairs of inputs that are worst for them.

Small made-up tables for the audit, and curators over them.

Nothing here is private: the tables are public inventions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Axis, Domain
from sfumato.errors import PrivacyError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.curator import Curator
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import Entropy, Words
from sfumato.kernel.sampling.noise import draw
from sfumato.kernel.verbs.exponential import choose
from sfumato.kernel.verbs.scores import Misfit, Rank, Score
from sfumato.measurement import Laplace
from sfumato.queries import Cells, Identity
from sfumato.schema import Schema
from sfumato.schema.parts import ROWS
from sfumato.schema.schema import missing_of

Outputs = NDArray[np.int64]  # one row for each run, one column for each published number

HIDDEN = np.iinfo(np.int64).min  # stands for a number that a run did not publish


@dataclass(frozen=True)
class Subject:
    """A mechanism that claims to be private, with two neighbouring inputs.

    run: outputs of many independent runs on one of two neighbouring inputs, numbered 0 and 1. Every run must give the
    same columns; what a run leaves out is HIDDEN. Whatever an observer sees, such as the order or the number of
    published cells, has to be among the columns.
    """

    name: str
    epsilon: Fraction
    run: Callable[[int, int, Entropy], Outputs]  # (which input, how many runs, random bits)


ONE = Fraction(1)
BUDGET = Budget.pure(ONE)
POOL = 2**13  # random words fetched at once

Counts = tuple[int, ...]

# One cell against many guesses: the first row in it raises all misfits but the last, which it lowers.
GUESSES = Misfit(Cells(12, np.full(11, 11)), np.array([0] * 10 + [1]))


def most_rows(cells: int) -> Misfit:
    """Score of each cell: its count, as a misfit from 0."""
    return Misfit(Identity(cells), np.zeros(cells, dtype=np.int64))


def primitives() -> list[Subject]:
    """Subjects for the kernel's primitives."""
    choices = [
        exponential_choice(),
        select_subject("median", Rank(Fraction(1, 2))),
        select_subject("most", most_rows(12)),
    ]
    cells = [threshold_decisions(), cells_above_threshold()]
    misfits = [select_subject("misfit", GUESSES), first_above_subject(), misfit_sums(), margin_subject()]
    return [plain_laplace(), *choices, *cells, *misfits, best_partition_subject()]


def plain_laplace(epsilon: Fraction = ONE, *, scale: Fraction | None = None) -> Subject:
    """Subject: one count, 0 or 1, with noise of scale 1 / epsilon; another `scale` breaks the promise on purpose."""
    noise = Laplace(1 / epsilon if scale is None else scale)
    return Subject("laplace", epsilon, lambda which, runs, entropy: (which + draw(noise, runs, entropy))[:, None])


def exponential_choice(candidates: int = 12) -> Subject:
    """Subject: `choose` on equal scores, or with one score raised and all others lowered by 1."""
    level = np.zeros(candidates, dtype=np.int64)
    scores = level, np.where(np.arange(candidates) == 0, 1, -1)

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        pooled = PooledEntropy(entropy)
        return np.array([[choose(scores[which], Fraction(1, 2), pooled)] for _ in range(runs)], dtype=np.int64)

    return Subject("choose", ONE, run)


def _one_by_one(
    name: str, domain: Domain, tables: tuple[Counts, Counts], ask: Callable[[Curator], Sequence[int] | Outputs]
) -> Subject:
    """Subject whose runs each ask a fresh curator of either table."""

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        pooled, aggregate = PooledEntropy(entropy), aggregate_of(tables[which])
        return np.array([ask(curator_of(domain, aggregate, pooled)) for _ in range(runs)], dtype=np.int64)

    return Subject(name, ONE, run)


def select_subject(name: str, score: Score, cells: int = 12) -> Subject:
    """Subject: `Curator.select`. With one row in cell 1, a row more in the last cell moves every score it can."""
    one_row = tuple(int(cell == 1) for cell in range(cells))
    tables = one_row, (*one_row[:-1], 1)
    return _one_by_one(f"select {name}", line(cells), tables, lambda curator: [curator.select(score, BUDGET)])


def first_above_subject() -> Subject:
    """Subject: `Curator.first_above`, on misfits that a row in the last cell raises, before one that it lowers."""

    def ask(curator: Curator) -> list[int]:
        place = curator.first_above(GUESSES, 0, BUDGET)
        return [HIDDEN if place is None else place]

    return _one_by_one("first above", line(12), ((0,) * 12, (*[0] * 11, 1)), ask)


def misfit_sums() -> Subject:
    """Subject: `Curator.measure_misfit`, many runs side by side in one long domain."""
    targets = np.array([0, 5, 2])

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        counts = np.tile(np.array([which, 3, 2]), runs)
        misfit = Misfit(Identity(counts.size), np.tile(targets, runs))
        curator = curator_of(line(counts.size), aggregate_of(tuple(counts.tolist())), entropy)
        return curator.measure_misfit(misfit, BUDGET, np.arange(counts.size) // 3).answers[:, None]

    return Subject("misfit sums", ONE, run)


def margin_subject() -> Subject:
    """Subject: noisy margins of a square, and group sums of the misfits of margins and square."""
    square = Domain(tuple(Axis(name, "integer", np.arange(3.0)) for name in "ab"))
    guesses = [(["a"], np.array([2, 1])), (["b"], np.array([2, 1])), (["a", "b"], np.array([1, 0, 0, 1]))]
    for_misfits, *for_margins = BUDGET.evenly(3)

    def ask(curator: Curator) -> Outputs:
        parts = [curator.measure_margin_misfits(guesses, for_misfits, np.array([0, 0, 1]))]
        parts += [
            curator.margin([name]).measure(Identity(2), share) for name, share in zip("ab", for_margins, strict=True)
        ]
        return np.concatenate([part.answers for part in parts])

    return _one_by_one("margins and their misfits", square, ((1, 1, 1, 0), (2, 1, 1, 0)), ask)


def best_partition_subject() -> Subject:
    """Subject: `Curator.best_partition` of four cells; a row evens out all three longer buckets around its cell."""
    tables, prices = ((1, 0, 1, 1), (1, 1, 1, 1)), [Fraction(2), Fraction(2), Fraction(6)]
    order = np.arange(4)
    return _one_by_one(
        "best partition", line(4), tables, lambda curator: curator.best_partition(BUDGET, order=order, price=prices)
    )


def threshold_decisions() -> Subject:
    """Subject: the set of cells published above a threshold of 1, without their counts."""

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        return np.where(_above_threshold(which, runs, 1, entropy) == HIDDEN, 0, 1)

    return Subject("threshold decisions", ONE, run)


def cells_above_threshold() -> Subject:
    """Subject: a few cells published above a threshold low enough for all of them to reach it."""
    return Subject("cells above threshold", ONE, lambda which, runs, entropy: _above_threshold(which, runs, 2, entropy))


def _above_threshold(which: int, runs: int, above: int, entropy: Entropy) -> Outputs:
    """Outputs of many runs of thresholding at once, laid side by side in one long domain."""
    counts = np.tile(np.array([which, 0, 1, 3, 0, 2]), runs)
    curator = curator_of(line(counts.size), aggregate_of(tuple(counts.tolist())), entropy)
    found = curator.measure(Identity(counts.size), BUDGET, above=above)
    outputs = np.full(counts.size, HIDDEN)
    outputs[found.cells] = found.answers
    return outputs.reshape(runs, -1)


class PooledEntropy:
    """Buffered entropy: words of another source, fetched many at a time."""

    def __init__(self, source: Entropy) -> None:
        self.private = source.private
        self._source = source
        self._pool = source.words(0)

    def words(self, count: int) -> Words:
        """`count` fresh random 64-bit words; none is ever handed out twice."""
        if count > len(self._pool):
            if count > POOL:
                return self._source.words(count)
            self._pool = self._source.words(POOL)
        taken, self._pool = self._pool[:count], self._pool[count:]
        return taken

    def bytes(self, count: int) -> bytes:
        """`count` fresh random bytes."""
        return self.words(-(-count // 8)).tobytes()[:count]


# -- small tables


def line(cells: int) -> Domain:
    """One-dimensional domain of `cells` cells."""
    return Domain((Axis("x", "integer", np.arange(cells + 1.0)),))


def aggregate_of(counts: Counts, sums: Counts | None = None) -> Aggregate:
    """Aggregate of given counts, as a reading would return it."""
    held = np.flatnonzero(np.array(counts))
    steps = {} if sums is None else {"m": np.array(sums, dtype=np.int64)[held]}
    return Aggregate(held, np.array(counts, dtype=np.int64)[held], steps)


def curator_of(
    domain: Domain,
    aggregate: Aggregate,
    entropy: Entropy,
    contributions: int = 1,
    half_units: int | None = None,
    kind: type[Curator] = Curator,
) -> Curator:
    """Curator over given counts, with a fresh charge of epsilon 1."""
    units = {"count": 1} | ({} if half_units is None else {"m": half_units})
    return kind(domain, aggregate, units, Charge(BUDGET, contributions, domain.size), entropy)


# -- small tables


class Row(NamedTuple):
    """Row of a made-up table: person, cell, steps of each measure, and steps of its weight.

    A step of None is a missing value.
    """

    person: int
    cell: int
    steps: tuple[int | None, ...] = ()
    weight: int = 1


Table = Sequence[Row]


def neighbouring_tables(
    cells: int,
    rows: int,
    contributions: int,
    levels: Sequence[tuple[int | None, ...]] = ((),),
    weights: Sequence[int] = (1,),
) -> Iterator[tuple[Table, Table]]:
    """Every table of up to `rows` rows with and without every person, up to the order of rows.

    levels: the steps of the measures that a row may have; weights: those of its weight.
    """
    kinds = list(product(range(cells), levels, weights))
    for size in range(1, contributions + 1):
        for rest in range(rows - size + 1):
            for others in combinations_with_replacement(kinds, rest):
                table = [Row(place + 1, *kind) for place, kind in enumerate(others)]
                for own in combinations_with_replacement(kinds, size):
                    yield [*table, *(Row(0, *kind) for kind in own)], table


def small_schema(cells: int, contributions: int, *, measured: bool, weighed: bool = False) -> Schema:
    """Schema of one attribute with `cells` values and optionally a measure of -2 to 2 steps around its centre.

    weighed: with weights of at most 3 steps besides.
    """
    keys: dict[str, object] = {
        "dataset": "audit",
        "privacy_unit": {"column": "person", "contributions": contributions},
        "attributes": {"cell": {"type": "integer", "lower": 0, "upper": cells - 1}},
    }
    keys |= {"measures": {"m": {"lower": 0, "upper": 4, "step": 1}}} if measured else {}
    keys |= {"weight": {"column": "w", "upper": 3, "step": 1, "unweighted_share": "0.5"}} if weighed else {}
    return Schema.from_dict(keys)


def square_schema(contributions: int) -> Schema:
    """Two attributes of two values each: the smallest table with margins."""
    boolean = {"type": "integer", "lower": 0, "upper": 1}
    unit = {"column": "person", "contributions": contributions}
    return Schema.from_dict({"dataset": "audit", "privacy_unit": unit, "attributes": {"a": boolean, "b": boolean}})


def curator_of_table(schema: Schema, table: Table, budget: Budget, kind: type[Curator], entropy: Entropy) -> Curator:
    """A curator of this kind that holds a table and may spend a budget."""
    counts = np.zeros(schema.domain.size, dtype=np.int64)
    units = {name: measure.half_units for name, measure in schema.measures.items()}
    sums = {name: np.zeros_like(counts) for name in list(schema.units)[1:]}
    most = 1 if schema.weight is None else schema.weight.most
    for row in table:
        if not 1 <= row.weight <= most:
            raise PrivacyError("a row of the audit weighs more than the schema allows, or nothing")
        counts[row.cell] += row.weight
        if ROWS in sums:
            sums[ROWS][row.cell] += most
        for (name, half), steps in zip(units.items(), row.steps, strict=True):
            if steps is None:
                sums[missing_of(name)][row.cell] += row.weight
                continue
            if abs(steps) > half:
                raise PrivacyError(f"a row of the audit has more steps of {name} than the schema allows")
            sums[name][row.cell] += row.weight * steps
    return over_counts(schema, counts, budget, entropy, sums, kind)


def difference(one: Table, other: Table, contributions: int) -> list[Row]:
    """Rows of the person by whom two tables differ; a PrivacyError if they are no neighbours."""
    larger, smaller = (one, other) if len(one) >= len(other) else (other, one)
    own = [row for row in larger if row.person not in {each.person for each in smaller}]
    rest = Counter(row for row in larger if row not in own)
    if rest != Counter(smaller) or len({row.person for row in own}) > 1 or len(own) > contributions:
        raise PrivacyError("the tables are no neighbours; take away all rows of one person, and give each few enough")
    return own
