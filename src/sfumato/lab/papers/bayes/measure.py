"""PrivBayes: a Bayesian network whose parents are chosen privately, with noisy conditional tables; see docs/bayes.md.

Zhang, Cormode, Procopiuc, Srivastava, Xiao, "PrivBayes: private data release via Bayesian networks", SIGMOD 2014.
Corrected: the number of rows is private, and a family's score is its table's distance from a public prediction, less
the expected noise of measuring it; one row moves it by 1 (docs/privacy.md, theorem 7). Tables are counted from rows
drawn once with a public seed, since marginals of the network may need a sum over all attributes at once. Pairs are then
corrected by noisy Haar contrasts, as those of `margins` are: what the network leaves out is largest in broad questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from itertools import combinations, islice
from math import comb, prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.lab.papers.forms import small_table, whole_up_to
from sfumato.measurement import Measurement
from sfumato.models.base.mechanism import Figure, Forecast, Holds, Lab, Mechanism, Promises
from sfumato.models.margins.calibration import BROAD_LOOKS, LOOKS, check, measure_contrasts
from sfumato.models.margins.content import Margins
from sfumato.models.margins.joining import join_counts, one_way_margin, onto_total
from sfumato.models.margins.measure import Settings as OfMargins
from sfumato.models.margins.rows import Step
from sfumato.models.margins.scales import MEASURED, Haar, Scaled, corrected, levels_of
from sfumato.models.margins.table import Noisy, Places, Table, pooled, spread_out, sum_out
from sfumato.queries import Identity, Workload
from sfumato.releases.rows.model import RandomNumbers
from sfumato.schema import Schema

ROUNDS = 50  # of fitting a table to its margins
LITTLE = 1e-9


@dataclass(frozen=True)
class Family:
    """Attribute with its parents in the Bayesian network."""

    place: int
    parents: Places = ()

    @property
    def places(self) -> Places:
        return tuple(sorted((self.place, *self.parents)))


def smoothed(noisy: Floats, one_way: Sequence[Floats]) -> Floats:
    """Non-negative table near a noisy one, with given one-way margins `one_way`."""
    total = float(one_way[0].sum())
    table = onto_total(noisy.reshape(-1), total).reshape(noisy.shape) if total > 0 else np.zeros(noisy.shape)
    return raked(table + LITTLE * total / max(1, table.size), one_way)


def raked(table: Floats, one_way: Sequence[Floats]) -> Floats:
    """Table raked to its one-way margins (iterative proportional fitting)."""
    axes = tuple(range(table.ndim))
    for _ in range(ROUNDS if len(one_way) > 1 else 1):
        for axis, margin in enumerate(one_way):
            now = np.maximum(sum_out(table, (axis,), axes), LITTLE)
            table = table * spread_out(margin / now, (axis,), axes)
    return table


def rows_of(families: Sequence[Family], tables: Mapping[Places, Floats], rows: int, random: RandomNumbers) -> Codes:
    """Draw rows of the network by ancestral sampling: codes (attributes, rows). tables: joint, of each family."""
    drawn: Codes = np.zeros((1 + max(family.place for family in families), rows), dtype=np.int64)
    for family in families:
        order = [family.places.index(place) for place in (*family.parents, family.place)]
        step = Step.by(family.place, family.parents, np.transpose(tables[family.places], order) + LITTLE)
        drawn[family.place] = step.draw_evenly(drawn, random)
    return drawn


def counted(rows: Codes, places: Places, sizes: Sequence[int], total: float) -> Floats:
    """Table of some attributes from sampled rows, scaled to sum to `total`."""
    shape = tuple(sizes[place] for place in places)
    if not places:
        return np.asarray(total)
    cells = np.ravel_multi_index(tuple(rows[list(places)]), shape)
    found = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
    return np.asarray(found * (total / max(1, rows.shape[1])), dtype=np.float64)


def larger_tables(noisy: Sequence[tuple[Places, Noisy]], tables: Mapping[Places, Table]) -> dict[Places, Table]:
    """Measured tables of three attributes and more, fitted to one-way and two-way tables."""
    found: dict[Places, Table] = {}
    for places, (answers, variance) in noisy:
        if len(places) < 3:
            continue
        axes = range(len(places))
        one_way = [tables[place,].estimate for place in places]
        pairs: dict[Places, Floats] = {
            (a, b): tables[places[a], places[b]].estimate for a in axes for b in axes if a < b
        }
        near = smoothed(answers, one_way)
        for _ in range(ROUNDS):
            for pair, wanted in pairs.items():
                now = np.maximum(sum_out(near, pair, axes), LITTLE)
                near = near * spread_out(wanted / now, pair, axes)
        guess = join_counts(one_way, pairs, 1e-3)
        found[places] = Table(places, near, np.minimum(variance, np.maximum(near, guess) + 1.0), np.zeros(near.shape))
    return found


@dataclass(frozen=True)
class Settings:
    """Shares of the budget and limits, by judgement.

    shares: for one-way margins, choices (the paper's 0.3), tables and the check; contrasts of pairs get the same part
    of the tables' share as in `margins`. useful: the paper's theta, least ratio of rows to the mean error by noise, in
    an average cell of a family and in either sign of a contrast. rows: most sampled rows that tables are counted from,
    while families are chosen and in the end; per_cell: most for each cell of the largest pair. most_choices: candidate
    families in one round. most_cells: of a family.
    """

    shares: tuple[Fraction, ...] = (Fraction(10, 100), Fraction(30, 100), Fraction(55, 100), Fraction(5, 100))
    useful: float = 4.0
    rows: tuple[int, int] = (2**15, 2**18)
    per_cell: int = 2**10
    most_choices: int = 400
    most_cells: int = 2**18


SETTINGS, AS_MARGINS = Settings(), OfMargins()


@dataclass(frozen=True)
class Options:
    """Options of the user. degree: the most parents that an attribute has."""

    degree: int = 2


PLAIN = Options()


def bayes(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, options: Options = PLAIN
) -> Margins:
    """Publish the tables of a network that was chosen privately, and all pairs that follow from it."""
    for_margins, for_choices, for_all, for_check = budget.split(*SETTINGS.shares)
    for_contrasts, for_tables = _beside_contrasts(for_all)
    building = _Building(curator, schema, options.degree)
    building.margins(for_margins)
    chosen = building.broad_pairs(for_contrasts)
    building.grow(for_choices, for_tables if chosen else for_all)
    tables, spreads = building.tables(chosen, for_contrasts)
    deep = {depth for _, depth in chosen.values()} == {MEASURED}
    checked = check(curator, schema, tables, for_check, spreads, levels=LOOKS if deep else BROAD_LOOKS)
    measured = (*building.measured, *checked.measured)
    return Margins(schema, {"count": checked.tables}, {"count": checked.spreads}, measured)


def _beside_contrasts(budget: Budget) -> tuple[Budget, ...]:
    """Budgets for contrasts of pairs and for tables of the network."""
    return budget.split(AS_MARGINS.contrasts, 1 - AS_MARGINS.contrasts)


@dataclass(eq=False)
class _Building:
    """Bayesian network under construction, with all measurements so far."""

    curator: Curator
    schema: Schema
    degree: int
    noisy: list[tuple[Places, Noisy]] = field(default_factory=list)
    measured: list[tuple[Places, Measurement]] = field(default_factory=list)
    families: list[Family] = field(default_factory=list)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.schema.domain.shape

    def margins(self, budget: Budget) -> None:
        for place, share in enumerate(budget.evenly(len(self.sizes))):
            self._measure((place,), share)

    def grow(self, for_choices: Budget, for_tables: Budget) -> None:
        """Add every attribute to the network: one private choice of its family and one measured table each."""
        first = min(range(len(self.sizes)), key=lambda place: self.sizes[place])
        rounds = len(self.sizes)
        choices, shares = for_choices.evenly(max(1, rounds - 1)), for_tables.evenly(rounds)
        self._place(Family(first), shares[0])
        for place in range(1, rounds):
            families = list(islice(self._candidates(shares[place]), SETTINGS.most_choices))
            rows, one_way, names = self._rows(SETTINGS.rows[0]), self._one_way(), self.schema.domain.names
            guesses = [([names[p] for p in one.places], self._guess(one, rows, one_way)) for one in families]
            fines = [round(self._error(shares[place]) * len(guess)) for _, guess in guesses]
            self._place(families[self.curator.select_margin(guesses, fines, choices[place - 1])], shares[place])
        if rounds == 1:
            self._measure((first,), for_choices)

    def broad_pairs(self, budget: Budget) -> dict[Places, tuple[tuple[Haar, ...], int]]:
        """Haar signs of all pairs, and the depth of their contrasts; none if noise would hide them.

        Depth is down to eighths, or else halves alone: quarters with halves are 0 where a dependence is symmetric, and
        would suggest independence. Rows of either sign must be `useful` times the noise, as in a cell of a family.
        """
        signs, total = [Haar.of(margin) for margin in self._one_way()], self._total()
        pairs = {pair: tuple(signs[place] for place in pair) for pair in combinations(range(len(signs)), 2)}
        pairs = {pair: both for pair, both in pairs.items() if levels_of(both)}
        for depth in (MEASURED, 1) if pairs else ():
            listed = sum(len(levels_of(both, depth)) for both in pairs.values())
            noise = self._error(budget) * (listed if budget.is_pure else listed**0.5)
            if total >= 2.0**depth * SETTINGS.useful * noise:
                return {pair: (both, depth) for pair, both in pairs.items()}
        return {}

    def tables(
        self, chosen: Mapping[Places, tuple[tuple[Haar, ...], int]], for_contrasts: Budget
    ) -> tuple[dict[Places, Table], dict[Places, Scaled]]:
        """The total, one-way margins, pairs corrected by contrasts, families of three and more; spreads of pairs."""
        total, one_way = self._total(), self._one_way()
        found: dict[Places, Table] = {(): Table((), np.array(total), np.array(pooled(self.noisy, ())[1]), np.zeros(()))}
        for place, margin in enumerate(one_way):
            noise = np.full(len(margin), pooled(self.noisy, (place,))[1])
            found[place,] = Table((place,), margin, noise, np.zeros(len(margin)))
        rows = self._rows(SETTINGS.rows[1])
        for pair in combinations(range(len(self.sizes)), 2):
            table = raked(counted(rows, pair, self.sizes, total) + 1e-9, [one_way[place] for place in pair])
            found[pair] = Table(pair, table, np.zeros(table.shape), table + 1.0 / max(1, table.size))
        spreads: dict[Places, Scaled] = {}
        if chosen:
            contrasts, measured = measure_contrasts(self.curator, self.schema, chosen, for_contrasts)
            self.measured.extend(zip(chosen, measured, strict=True))
            told = {pair for places, _ in self.noisy for pair in combinations(places, 2)}
            found, spreads = corrected(found, contrasts, told)
        return found | larger_tables(self.noisy, found), spreads

    def _candidates(self, share: Budget) -> Iterator[Family]:
        """Candidate families of attributes not yet in the network, those with fewest parents first."""
        placed = [family.place for family in self.families]
        left = [place for place in range(len(self.sizes)) if place not in placed]
        room = self._total() / (SETTINGS.useful * self._error(share))
        for order in range(self.degree + 1):
            sets = list(combinations(placed, order))
            sets = sets[:: max(1, len(sets) * len(left) // SETTINGS.most_choices)]
            for parents in sets:
                for place in left:
                    cells = prod(self.sizes[each] for each in (*parents, place))
                    if not parents or cells <= min(room, SETTINGS.most_cells):
                        yield Family(place, parents)

    def _guess(self, family: Family, rows: Codes, one_way: Sequence[Floats]) -> Codes:
        """Predicted table of a family if its attribute were independent of the parents. rows: drawn so far."""
        total = self._total()
        parents = counted(rows, family.parents, self.sizes, total)
        table = np.multiply.outer(parents, one_way[family.place] / max(total, 1.0))
        order = [(*family.parents, family.place).index(place) for place in family.places]
        return np.asarray(np.rint(np.transpose(table, order)).reshape(-1), dtype=np.int64)

    def _place(self, family: Family, share: Budget) -> None:
        self._measure(family.places, share)
        self.families.append(family)

    def _measure(self, places: Places, budget: Budget) -> None:
        seen = self.curator.margin([self.schema.domain.names[place] for place in places])
        found = seen.measure(Identity(seen.domain.size), budget)
        self.measured.append((places, found))
        answers = found.answers.astype(np.float64).reshape(seen.domain.shape)
        self.noisy.append((places, (answers, found.noise.continuous_variance)))

    def _error(self, share: Budget) -> float:
        """Expected error of a cell measured with a share of the budget, in rows."""
        contributions = self.curator.charge.contributions
        amount = float(share.amount)
        return contributions / amount if share.is_pure else contributions / float(np.sqrt(np.pi * amount))

    def _total(self) -> float:
        return max(0.0, float(pooled(self.noisy, ())[0]))

    def _one_way(self) -> list[Floats]:
        total, axes = self._total(), enumerate(self.schema.domain.axes)
        return [one_way_margin(*pooled(self.noisy, (place,)), total, axis.ordered) for place, axis in axes]

    def _rows(self, number: int) -> Codes:
        one_way = self._one_way()
        tables = {}
        for family in self.families:
            near = smoothed(pooled(self.noisy, family.places)[0], [one_way[place] for place in family.places])
            tables[family.places] = near
        pair = prod(sorted(self.sizes)[-2:])
        return rows_of(self.families, tables, min(number, SETTINGS.per_cell * pair), RandomNumbers(0))


def _promises(
    schema: Schema, budget: Budget, confidence: float, workload: Workload | None, options: Options = PLAIN
) -> Promises:
    axes, k = len(schema.domain.shape), schema.privacy_unit.contributions
    for_margins, _, for_all, _ = budget.split(*SETTINGS.shares)
    alone = (share.evenly(axes)[0] for share in (for_margins, _beside_contrasts(for_all)[1]))
    noises = (noise_for(share, k, l1=Fraction(1), l2_squared=Fraction(1)) for share in alone)
    of_margin, of_table = (noise.continuous_variance**0.5 for noise in noises)
    figures = (
        Figure("margins of one attribute", axes, "tables"),
        Figure("standard error of a cell of these", of_margin),
        Figure("choices of an attribute and its parents", axes - 1, "choices"),
        Figure(f"tables of an attribute and its parents, {options.degree} at most", axes, "tables"),
        Figure("standard error of a cell of these", of_table),
        Figure("pairs with contrasts, if noise does not hide them", comb(axes, 2), "pairs"),
    )
    return Promises(
        figures,
        ("How much the network leaves out depends on the table: only a trial can tell; docs/bayes.md has some.",),
    )


EXAMPLE = small_table("audit", a=whole_up_to(1), b=whole_up_to(1), c=whole_up_to(1))  # three answers of two values each


def _refuses(schema: Schema, workload: Workload | None, options: Options = PLAIN) -> str | None:
    if not 1 <= options.degree <= 4:
        return "an attribute has 1 to 4 parents; give --with degree=2, or another of these"
    if schema.measures:
        return f"it counts rows and sums no {next(iter(schema.measures))}; leave the measures out, or use margins"
    return None


MECHANISM = Mechanism(
    name="bayes",
    summary="a network of attributes, each given a few others, chosen privately: rows and tables",
    paper="Zhang et al. 2014",
    run=bayes,
    gaussian=True,
    refuses=_refuses,
    options=Options,
    holds=Holds(by_margins=True),
    forecast=Forecast(checks_itself=True, promises=_promises),
    lab=Lab(example=EXAMPLE),
)
