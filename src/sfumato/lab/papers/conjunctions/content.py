"""Release of conjunctions: noisy counts of up to l literals on public subsets, which answer counts of up to 2 l.

A literal is an attribute of two values with one of them. A conjunction of up to 2 l literals is split into two halves,
and their common rows are estimated from the covariance of their counts over the subsets (docs/conjunctions.md). A row
is in a subset by the toss of a coin, so the covariance is a quarter of them, and independent noises add nothing to it.

File format: `answers` holds, subset by subset (the whole table first), the tables of l attributes, cell by cell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import combinations
from math import comb, sqrt
from statistics import NormalDist
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from sfumato.answers.answer import result_of
from sfumato.answers.fieller import Functional, Term, linear_interval
from sfumato.answers.noise_sum import check_confidence
from sfumato.answers.question import Groups
from sfumato.answers.results import Estimate, Result
from sfumato.arrays import Floats, Whole
from sfumato.domain import Domain
from sfumato.domain.predicates import cover
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Identity
from sfumato.releases.contents.content import About, Content, Written
from sfumato.releases.file.manifest import Manifest, Statistic, details_as
from sfumato.releases.file.members import Columns
from sfumato.releases.file.records import NoiseRecord, noise_as_json, record, refusal
from sfumato.schema import Schema
from sfumato.sql import Column, Select

LEAST_SUBSETS, MOST_SUBSETS = 8, 2**18  # of which the best number is looked for
MOST_ROWS = 10.0**18  # beyond which nobody counts


def together(first: Floats, second: Floats) -> float:
    """Estimate of the rows that two conjunctions share: four times the covariance of their counts over the subsets.

    >>> together(np.array([4.0, 6.0, 4.0, 6.0]), np.array([1.0, 4.0, 1.0, 4.0]))
    8.0
    """
    return float(4.0 * np.cov(first, second)[0, 1])


def error_of(first: float, second: float, both: float, noises: tuple[float, float], subsets: int) -> float:
    """Standard error of `together`.

    first, second, both: rows that each conjunction holds for, and both. noises: variances of the noise on their counts.
    """
    one, other = (rows / 4.0 + noise for rows, noise in zip((first, second), noises, strict=True))
    return 4.0 * sqrt((one * other + (both / 4.0) ** 2) / (subsets - 1))


def expected_error(rows: float, attributes: int, literals: int, subsets: int, epsilon: float, *, worst: bool) -> float:
    """Standard error of a conjunction of 2 * literals. worst: both halves hold for nearly all rows."""
    alone = rows if worst else rows / 2**literals
    both = rows if worst else rows / 4**literals
    scale = (subsets + 1) * comb(attributes, literals) / epsilon  # a row is in one cell of each table, of each subset
    noise = 2.0 * scale**2
    return error_of(alone, alone, both, (noise, noise), subsets)


def best_subsets(rows: float, attributes: int, literals: int, epsilon: float, *, worst: bool = False) -> int:
    """Number of subsets of least standard error: fewer add sampling error, more add noise to each."""
    tried = np.unique(np.geomspace(LEAST_SUBSETS, MOST_SUBSETS, 200).round().astype(int)).tolist()
    return int(min(tried, key=lambda t: expected_error(rows, attributes, literals, t, epsilon, worst=worst)))


def rows_needed(attributes: int, literals: int, epsilon: float, within: float, chance: float) -> float:
    """Rows for which all conjunctions of 2 * literals err by at most a share `within`, with probability 1 - chance.

    Normal errors, all conjunctions at once, the worst table; infinite where more than 10^18 rows would be needed.
    """
    number = comb(attributes, 2 * literals) * 4**literals
    width = NormalDist().inv_cdf(1.0 - chance / (2.0 * number))

    def good(rows: float) -> bool:
        subsets = best_subsets(rows, attributes, literals, epsilon, worst=True)
        return width * expected_error(rows, attributes, literals, subsets, epsilon, worst=True) <= within * rows

    low, high = 1.0, 2.0
    while not good(high):
        low, high = high, 2.0 * high
        if high > MOST_ROWS:
            return float("inf")
    while high / low > 1.01:
        middle = sqrt(low * high)
        low, high = (low, middle) if good(middle) else (middle, high)
    return high


def direct_error(attributes: int, literals: int, epsilon: float) -> float:
    """Standard error of conjunctions of 2 * literals whose own tables are measured with the same budget."""
    return sqrt(2.0) * comb(attributes, 2 * literals) / epsilon


ANSWERS, ANSWER = "answers", "answer"
MOST_ANSWERS = 2**24  # that a file may hold
SLACK = 4.5  # standard errors by which bounds on rows may be off


@record
class ConjunctionsRecord:
    """Manifest of conjunctions: literals of each, subsets besides the whole table, and the noise."""

    literals: Annotated[int, Field(ge=1, le=10)]
    subsets: Annotated[int, Field(ge=2, le=2**16)]
    noise: NoiseRecord


@dataclass(frozen=True, eq=False)
class Conjunctions(Content):
    """Noisy counts of conjunctions. answers: by subset (the whole table first), table and cell."""

    uses: ClassVar[frozenset[str]] = frozenset({"details"})
    answers_counts: ClassVar[bool] = False

    schema: Schema
    literals: int
    answers: Whole
    noise: Noise

    @property
    def subsets(self) -> int:
        return len(self.answers) - 1

    @cached_property
    def tables(self) -> list[tuple[int, ...]]:
        """Attribute indices of each measured table."""
        return list(combinations(range(len(self.domain.shape)), self.literals))

    def select(self, select: Select, confidence: float) -> Result:
        check_confidence(confidence)
        groups = Groups.of(select, self.domain)
        estimates = {}
        for column in dict.fromkeys(select.aggregates):
            asked = literals_asked(select, column, groups, self.domain, 2 * self.literals)
            estimates[column] = [self.estimate(each, confidence) for each in asked]
        return result_of(select, groups, self.domain, estimates, confidence, ())

    def estimate(self, asked: Literals | None, confidence: float = 0.95) -> Estimate:
        """Estimated rows for which a conjunction holds; None asks for no rows at all."""
        if asked is None:
            return Estimate(0.0, 0.0, 0.0, 0.0, confidence, 0.0)
        if len(asked) <= self.literals:
            value, terms = self._counted(asked)
            found = linear_interval(Functional(value, value, value), (terms,), confidence)
            return Estimate(found.value, found.stderr, found.low, found.high, confidence, found.noise)
        return self._inferred(asked, confidence)

    def _counted(self, asked: Literals) -> tuple[float, Term]:
        """Count of a conjunction in the whole table: mean over all tables that contain its attributes."""
        holding = [table for table in self.tables if {place for place, _ in asked} <= set(table)]
        cells = [self._cells(table, asked) for table in holding]
        value = float(
            np.mean([self.answers[0, self.tables.index(t), c].sum() for t, c in zip(holding, cells, strict=True)])
        )
        return value, Term.of(self.noise, sum(map(len, cells)), *[1.0 / len(holding)] * 3)

    def _cells(self, table: tuple[int, ...], asked: Literals) -> Whole:
        """Indices of a table's cells in which a conjunction holds."""
        codes = np.array(np.unravel_index(np.arange(2**self.literals), [2] * self.literals))
        inside = np.ones(2**self.literals, dtype=bool)
        for place, code in asked:
            inside &= codes[table.index(place)] == code
        return np.flatnonzero(inside)

    def _over_subsets(self, asked: Literals) -> tuple[Whole, float]:
        """Counts of a conjunction in all subsets, from one table, (subsets,); and their noise variance."""
        places = {place for place, _ in asked}
        table = next(table for table in self.tables if places <= set(table))
        cells = self._cells(table, asked)
        return self.answers[1:, self.tables.index(table), cells].sum(axis=1), len(cells) * self.noise.variance

    def _inferred(self, asked: Literals, confidence: float) -> Estimate:
        halves = asked[: self.literals], asked[self.literals :]
        (first, one), (second, other) = (self._over_subsets(half) for half in halves)
        found = together(first.astype(np.float64), second.astype(np.float64))
        counts, terms = zip(*(self._counted(part) for part in (*halves, ())), strict=True)
        rows = [max(0.0, count) for count in counts]
        unsure = SLACK * max(sqrt(term.multiplicity * term.weights[0] ** 2 * self.noise.variance) for term in terms)
        least, most = max(0.0, rows[0] + rows[1] - rows[2]), min(rows[0], rows[1])
        stderr = error_of(rows[0], rows[1], min(max(found, least), most), (one, other), self.subsets)
        width = NormalDist().inv_cdf((1.0 + confidence) / 2.0) * stderr
        # A conjunction has no more rows than its halves, nor fewer than these must share.
        floor, ceiling = max(0.0, least - 3.0 * unsure), most + unsure
        value = min(max(found, least), max(least, most))
        low, high = (min(max(end, floor), ceiling) for end in (found - width, found + width))
        low, high = min(low, value), max(high, value)
        noise = error_of(0.0, 0.0, 0.0, (one, other), self.subsets)
        stderr, noise = (min(each, high - low) for each in (stderr, noise))
        return Estimate(value, stderr, low, high, confidence, noise, sqrt(max(0.0, stderr**2 - noise**2)))

    @property
    def about(self) -> About:
        axes, twice = len(self.domain.shape), 2 * self.literals
        rows = max(0.0, self.estimate(()).value)
        half = rows / 2**self.literals
        noise = self.noise.variance
        typical = error_of(half, half, half / 2**self.literals, (noise, noise), self.subsets)
        share = f", {100 * typical / rows:.3g} % of the rows" if rows > 0 else ""
        direct = (
            sqrt(2.0) * float(self.noise.parameter) / (self.subsets + 1) * comb(axes, twice) / comb(axes, self.literals)
        )
        names = [f'"{name}"' for name in self.domain.names[:twice]]
        return About(
            self.domain.names,
            f"conjunctions of {self.literals} of {axes} attributes, in all rows and in {self.subsets} subsets",
            tuple(
                Measurement("count", Identity(len(cells)), cells, (self.noise,))
                for cells in self.answers.reshape(-1, 2**self.literals)
            ),
            f"counts of up to {self.literals} conditions carry noise alone; those of up to {twice} are inferred from "
            "how counts vary together over random subsets, and which rows these hold is a matter of chance",
            (
                f"a count of {twice} conditions has a standard error of about {typical:,.0f} rows{share}; "
                f"the same budget on the tables of {twice} attributes themselves: {direct:,.0f} rows",
            ),
            (
                "SELECT COUNT(*) AS n FROM release",
                f"SELECT {names[0]}, COUNT(*) AS n FROM release GROUP BY {names[0]}",
                f"SELECT {', '.join(names)}, COUNT(*) AS n FROM release GROUP BY {', '.join(names)}",
            ),
        )

    def write(self) -> Written:
        noise = noise_as_json(self.noise)
        about: dict[str, Any] = {"literals": self.literals, "subsets": self.subsets, "noise": noise}
        return Written(
            "conjunctions", [_statistic()], {ANSWERS: {ANSWER: self.answers.reshape(-1)}}, {"details": about}
        )

    @classmethod
    def check(cls, manifest: Manifest, schema: Schema) -> None:
        about, axes = details_as(ConjunctionsRecord, manifest), len(schema.domain.shape)
        if {name: member.columns for name, member in manifest.members.items()} != {ANSWERS: [ANSWER]}:
            raise refusal("its members are not those of conjunctions")
        if manifest.statistics != [_statistic()] or any(size != 2 for size in schema.domain.shape):
            raise refusal("its statistics or attributes are not those of conjunctions")
        expected = (about.subsets + 1) * comb(axes, about.literals) * 2**about.literals
        if 2 * about.literals > axes or manifest.members[ANSWERS].rows != expected or expected > MOST_ANSWERS:
            raise refusal("it does not hold the conjunctions that it lists")

    @classmethod
    def check_values(cls, manifest: Manifest, schema: Schema, columns: Columns) -> None:
        """Accept any integers: noisy counts have no bounds."""

    @classmethod
    def read(cls, manifest: Manifest, schema: Schema, member: Callable[[str], Columns]) -> Conjunctions:
        about = details_as(ConjunctionsRecord, manifest)
        shape = about.subsets + 1, comb(len(schema.domain.shape), about.literals), 2**about.literals
        return cls(schema, about.literals, member(ANSWERS)[ANSWER].reshape(shape), about.noise.noise)


def _statistic() -> Statistic:
    return Statistic("count", ANSWERS, ANSWER, None)


Literals = tuple[tuple[int, int], ...]  # places of attributes, rising, and the code that each must have


def literals_asked(select: Select, column: Column, groups: Groups, domain: Domain, most: int) -> list[Literals | None]:
    """Conjunction that each group of a query asks for; None where it can hold for no row."""
    what = f"this release answers COUNT(*) of up to {most} conditions joined by AND, each on one attribute"
    plain = column.kind == "count" and column.rule is None and column.denominator is None and column.scale == 1.0
    if not plain or len(column.numerator) != 1:
        raise QueryError(f"{what}; {column.name} is another aggregate")
    (amount,) = column.numerator
    if amount.of is not None or amount.factor != 1.0 or amount.present is not None:
        raise QueryError(f"{what}; {column.name} is another aggregate")
    if len(amount.predicate.boxes) > 1:
        raise QueryError(f"{what}; OR and unequal conditions are not among them: ask for each part by itself")
    conditions: dict[int, int] = {}
    for box in amount.predicate.boxes:
        for name, values in box.sets:
            inside = [code for code, share in enumerate(cover(domain[name], values).share.tolist()) if share > 0]
            if len(inside) == 1:
                conditions[domain.place(name)] = inside[0]
    names = select.group_by if amount.grouped else ()
    asked = len({*conditions, *(domain.place(name) for name in names)})
    if asked > most:
        raise QueryError(f"{what}; these are conditions on {asked} attributes: leave out {asked - most} or more")
    found: list[Literals | None] = []
    for row in range(len(groups.present)):
        own = {domain.place(name): int(groups.code(name)[row]) for name in names}
        apart = any(conditions.get(place, code) != code for place, code in own.items())
        nothing = apart or not amount.predicate.boxes
        found.append(None if nothing else tuple(sorted((conditions | own).items())))
    return found
