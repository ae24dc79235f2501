"""PrivBayes: a Bayesian network whose parents are chosen privately, with noisy conditional tables; see docs/bayes.md.

Zhang, Cormode, Procopiuc, Srivastava, Xiao, "PrivBayes: private data release via Bayesian networks", SIGMOD 2014.
Corrected: the number of rows is private, and a family's score is its table's distance from a public prediction, less
the expected noise of measuring it; one row moves it by 1 (docs/privacy.md, theorem 7). Tables are counted from rows
drawn once with a public seed, since marginals of the network may need a sum over all attributes at once. Pairs are then
corrected by noisy Haar contrasts, as those of `margins` are: what the network leaves out is largest in broad questions.

Structural zeros. With V the possible combinations of all attributes, the model is the network's joint on V,

    p(x)  proportional to  1[x in V] * prod over families of p(x_a | x_parents) * w(x_family),

w such that families keep their measured tables (I-projection, by proportional fitting of the drawn rows' weights). So a
rule holds whether or not a family covers it, and guesses and scores of families are about what no rule says. A function
of a finer attribute is no node: it follows from that attribute, is measured in no family, and can be a parent. Noise in
impossible cells of a family is used in no sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from fractions import Fraction
from functools import cached_property
from itertools import combinations, islice
from math import comb, prod

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.structural import Structure
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.lab.papers.forms import small_table, whole_up_to
from sfumato.measurement import Measurement
from sfumato.models.base.mechanism import Figure, Forecast, Holds, Lab, Mechanism, Promises
from sfumato.models.margins.calibration import BROAD_LOOKS, LOOKS, check, measure_contrasts
from sfumato.models.margins.content import Margins
from sfumato.models.margins.joining import join_counts, one_way_errors, onto_total
from sfumato.models.margins.measure import Settings as OfMargins
from sfumato.models.margins.rows import Step
from sfumato.models.margins.scales import MEASURED, Haar, Scaled, corrected, levels_of
from sfumato.models.margins.table import (
    Noisy,
    Places,
    Table,
    by_functions,
    coherent,
    fitted_with_zeros,
    pooled,
    pooled_errors,
    respecting,
    spread_out,
    sum_out,
)
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


def smoothed(noisy: Floats, one_way: Sequence[Floats], possible: Flags | None = None) -> Floats:
    """Non-negative table near a noisy one, with given one-way margins `one_way`.

    possible: flags of cells; the others are 0. None: all.
    """
    total, there = float(one_way[0].sum()), np.ones(noisy.shape, dtype=np.bool_) if possible is None else possible
    table = np.zeros(noisy.shape)
    if total > 0:
        table[there] = onto_total(noisy[there], total)
    return raked((table + LITTLE * total / max(1, table.size)) * there, one_way)


def raked(table: Floats, one_way: Sequence[Floats]) -> Floats:
    """Table raked to its one-way margins (iterative proportional fitting)."""
    axes = tuple(range(table.ndim))
    for _ in range(ROUNDS if len(one_way) > 1 else 1):
        for axis, margin in enumerate(one_way):
            now = np.maximum(sum_out(table, (axis,), axes), LITTLE)
            table = table * spread_out(margin / now, (axis,), axes)
    return table


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows drawn from the network. codes: (attributes, rows). weights: of each row, (rows,); None: all the same."""

    codes: Codes
    weights: Floats | None = None

    def counted(self, places: Places, sizes: Sequence[int], total: float) -> Floats:
        """Table of some attributes, scaled to sum to `total`."""
        shape = tuple(sizes[place] for place in places)
        if not places:
            return np.asarray(total)
        found = np.bincount(self._cells(places, shape), self.weights, int(np.prod(shape))).reshape(shape)
        rows = max(1, self.codes.shape[1]) if self.weights is None else max(LITTLE, float(self.weights.sum()))
        return np.asarray(found * (total / rows), dtype=np.float64)

    def fitted(self, tables: Mapping[Places, Floats]) -> Rows:
        """The rows with weights such that they have some tables, as far as rows were drawn (proportional fitting)."""
        weights = np.ones(self.codes.shape[1])
        cells = {places: self._cells(places, table.shape) for places, table in tables.items()}
        for _ in range(ROUNDS):
            for places, cell in cells.items():
                now = np.bincount(cell, weights, tables[places].size)
                weights = weights * (tables[places].reshape(-1) / np.maximum(now, LITTLE))[cell]
        return Rows(self.codes, weights)

    def _cells(self, places: Places, shape: tuple[int, ...]) -> Codes:
        """Cell of each row in the table of some attributes, (rows,)."""
        return np.asarray(np.ravel_multi_index(tuple(self.codes[list(places)]), shape), dtype=np.int64)


def rows_of(
    families: Sequence[Family],
    tables: Mapping[Places, Floats],
    rows: int,
    random: RandomNumbers,
    structure: Structure | None = None,
) -> Codes:
    """Draw rows of the network by ancestral sampling: codes (attributes, rows). tables: joint, of each family.

    structure: a value that contradicts a rule is drawn anew, given the values before it; rows without a value that
    contradicts none are left out.
    """
    attributes = 1 + max(family.place for family in families)
    drawn: Codes = np.zeros((attributes if structure is None else len(structure.shape), rows), dtype=np.int64)
    placed: list[int] = []
    for family in families:
        order = [family.places.index(place) for place in (*family.parents, family.place)]
        step = Step.by(family.place, family.parents, np.transpose(tables[family.places], order) + LITTLE)
        drawn[family.place] = step.draw_evenly(drawn, random)
        if structure is not None:
            placed += [family.place, *structure.above(family.place)]
            _possible_values(drawn, step, structure, placed, random)
    return drawn if structure is None else drawn[:, _agreeing(drawn, structure, placed)]


def _possible_values(
    drawn: Codes, step: Step, structure: Structure, placed: Sequence[int], random: RandomNumbers
) -> None:
    """Complete, in place, the attributes that follow from the one drawn last; draw it anew where it contradicts."""
    for _ in range(ROUNDS):
        for function in reversed(structure.ordered):
            if function.coarse in structure.above(step.place):
                drawn[function.coarse] = function.image[drawn[function.fine]]
        bad = np.flatnonzero(~_agreeing(drawn, structure, placed))
        if not len(bad):
            break
        drawn[step.place, bad] = step.draw(drawn[:, bad], random)


def _agreeing(drawn: Codes, structure: Structure, placed: Sequence[int]) -> Flags:
    """Flags of the rows that contradict no rule about attributes that were placed, (rows,); all where none is left."""
    rules = tuple(rule for rule in structure.excluded if {*rule.places} <= {*placed})
    good = Structure(structure.shape, rules).agrees(drawn)
    return good if good.any() else np.ones(len(good), dtype=np.bool_)


def larger_tables(
    noisy: Sequence[tuple[Places, Noisy]], tables: Mapping[Places, Table], structure: Structure | None = None
) -> dict[Places, Table]:
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
        possible = None if structure is None else structure.possible(places)
        near = smoothed(answers, one_way, possible)
        for _ in range(ROUNDS):
            for pair, wanted in pairs.items():
                now = np.maximum(sum_out(near, pair, axes), LITTLE)
                near = near * spread_out(wanted / now, pair, axes)
        guess = join_counts(one_way, pairs, 1e-3, possible=possible)
        noise = np.minimum(variance, np.maximum(near, guess) + 1.0)
        found[places] = Table(places, near, noise, np.zeros(near.shape))
        found[places] = found[places] if possible is None else found[places].errors_of(possible)
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
    building = Building(curator, schema, options.degree)
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


def nodes_of(schema: Schema) -> Places:
    """Attributes that follow from no other, of which the network is made."""
    every = tuple(range(len(schema.domain.shape)))
    return every if schema.structure is None else schema.structure.essential(every)


@dataclass(eq=False)
class Building:
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

    @property
    def structure(self) -> Structure | None:
        return self.schema.structure

    @cached_property
    def nodes(self) -> Places:
        """Attributes that follow from no other."""
        return nodes_of(self.schema)

    @property
    def finer(self) -> set[int]:
        """Attributes that others follow from and that have no place in the network yet: these come first."""
        placed = {family.place for family in self.families}
        return {p for p in self.nodes if self.structure is not None and self.structure.above(p)} - placed

    def margins(self, budget: Budget) -> None:
        for place, share in enumerate(budget.evenly(len(self.sizes))):
            self.measure((place,), share)

    def grow(self, for_choices: Budget, for_tables: Budget) -> None:
        """Add every attribute to the network: one private choice of its family and one measured table each."""
        first = min(self.finer or self.nodes, key=lambda place: self.sizes[place])
        rounds = len(self.nodes)
        choices, shares = for_choices.evenly(max(1, rounds - 1)), for_tables.evenly(rounds)
        self._place(Family(first), shares[0])
        for place in range(1, rounds):
            families = list(islice(self._candidates(shares[place]), SETTINGS.most_choices))
            rows, one_way, names = self._rows(SETTINGS.rows[0]), self._one_way(), self.schema.domain.names
            guesses = [([names[p] for p in one.places], self.guess(one, rows, one_way)) for one in families]
            fines = [round(self._error(shares[place]) * self.cells(family.places)) for family in families]
            self._place(families[self.curator.select_margin(guesses, fines, choices[place - 1])], shares[place])
        if rounds == 1:
            self.measure((first,), for_choices)

    def broad_pairs(self, budget: Budget) -> dict[Places, tuple[tuple[Haar, ...], int]]:
        """Haar signs of all pairs, and the depth of their contrasts; none if noise would hide them.

        Depth is down to eighths, or else halves alone: quarters with halves are 0 where a dependence is symmetric, and
        would suggest independence. Rows of either sign must be `useful` times the noise, as in a cell of a family. This
        counts pairs of which one follows from the other, too: with rules contrasts are no finer, and their noise less.
        """
        signs, total = [Haar.of(margin) for margin in self._one_way()], self._total()
        pairs = {pair: tuple(signs[place] for place in pair) for pair in combinations(range(len(signs)), 2)}
        pairs = {pair: both for pair, both in pairs.items() if levels_of(both)}
        for depth in (MEASURED, 1) if pairs else ():
            listed = sum(len(levels_of(both, depth)) for both in pairs.values())
            noise = self._error(budget) * (listed if budget.is_pure else listed**0.5)
            if total >= 2.0**depth * SETTINGS.useful * noise:
                return {pair: (both, depth) for pair, both in pairs.items() if self._essential(pair)}
        return {}

    def tables(
        self, chosen: Mapping[Places, tuple[tuple[Haar, ...], int]], for_contrasts: Budget
    ) -> tuple[dict[Places, Table], dict[Places, Scaled]]:
        """The total, one-way margins, pairs corrected by contrasts, families of three and more; spreads of pairs."""
        total, one_way, structure = self._total(), self._one_way(), self.structure
        found: dict[Places, Table] = {(): Table((), np.array(total), np.array(self.seen(())[1]), np.zeros(()))}
        for place, margin in enumerate(one_way):
            noise = np.full(len(margin), self.seen((place,))[1])
            found[place,] = Table((place,), margin, noise, np.zeros(len(margin)))
        if structure is not None:
            found |= pooled_errors(found, structure)
        rows = self._rows(SETTINGS.rows[1])
        for pair in self._pairs:
            start, flags = rows.counted(pair, self.sizes, total) + 1e-9, self._possible(pair)
            table = raked(start if flags is None else start * flags, [one_way[place] for place in pair])
            found[pair] = Table(pair, table, np.zeros(table.shape), table + 1.0 / max(1, table.size))
        spreads: dict[Places, Scaled] = {}
        if chosen:
            contrasts, measured = measure_contrasts(self.curator, self.schema, chosen, for_contrasts)
            self.measured.extend(zip(chosen, measured, strict=True))
            told = {pair for places, _ in self.noisy for pair in combinations(places, 2)}
            found, spreads = corrected(found, contrasts, told)
        if structure is not None:
            found = by_functions(respecting(found, structure), structure, self._pairs)
        return found | larger_tables(self.noisy, found, structure), spreads

    def _candidates(self, share: Budget) -> Iterator[Family]:
        """Candidate families of attributes not yet in the network, those with fewest parents first."""
        placed = [family.place for family in self.families]
        left = [place for place in self.nodes if place not in placed and (not self.finer or place in self.finer)]
        if self.structure is not None:
            placed += [coarse for place in placed for coarse in self.structure.above(place)]
        room = self._total() / (SETTINGS.useful * self._error(share))
        for order in range(self.degree + 1):
            sets = [parents for parents in combinations(placed, order) if self._essential(parents)]
            sets = sets[:: max(1, len(sets) * len(left) // SETTINGS.most_choices)]
            for parents in sets:
                for place in left:
                    family = Family(place, parents)
                    few = prod(self.sizes[each] for each in family.places) <= SETTINGS.most_cells
                    if not parents or (few and self.cells(family.places) <= room):
                        yield family

    def guess(self, family: Family, rows: Rows, one_way: Sequence[Floats]) -> Codes:
        """Predicted table of a family if its attribute were independent of the parents, but for structural zeros.

        rows: drawn so far. Attributes in the network that a rule ties this one to are summed out again: they make it
        depend on parents that no rule names.
        """
        total, tied = self._total(), self.tied(family)
        parents, places = (*family.parents, *tied), tuple(sorted((*family.places, *tied)))
        counts, flags = rows.counted(parents, self.sizes, total), self._possible(places)
        table = np.multiply.outer(counts, one_way[family.place] / max(total, 1.0))
        if flags is not None and parents:
            flat = np.transpose(flags, [places.index(place) for place in (*parents, family.place)])
            flat = flat.reshape(counts.size, -1)
            fitted = fitted_with_zeros(table.reshape(flat.shape), counts.reshape(-1), one_way[family.place], flat)
            table = fitted.reshape(table.shape)
        if tied:
            table = table.sum(axis=tuple(range(len(family.parents), len(parents))))
        order = [(*family.parents, family.place).index(place) for place in family.places]
        return np.asarray(np.rint(np.transpose(table, order)).reshape(-1), dtype=np.int64)

    def tied(self, family: Family) -> Places:
        """Placed attributes, but for the parents, that a rule names with this one; none if their table is too large."""
        if self.structure is None:
            return ()
        placed = {each for one in self.families for each in (one.place, *self.structure.above(one.place))}
        rules = [{*rule.places} for rule in self.structure.excluded if family.place in rule.places]
        tied = sorted({each for rule in rules for each in rule & placed} - {*family.places})
        cells = prod(self.sizes[place] for place in (*family.places, *tied))
        return tuple(tied) if cells <= SETTINGS.most_cells else ()

    def _place(self, family: Family, share: Budget) -> None:
        self.measure(family.places, share)
        self.families.append(family)

    def measure(self, places: Places, budget: Budget) -> None:
        """Measure the table of some attributes; noise of impossible cells is left out of what is used."""
        seen = self.curator.margin([self.schema.domain.names[place] for place in places])
        found = seen.measure(Identity(seen.domain.size), budget)
        self.measured.append((places, found))
        answers, flags = found.answers.astype(np.float64).reshape(seen.domain.shape), self._possible(places)
        answers = answers if flags is None else answers * flags
        self.noisy.append((places, (answers, found.noise.continuous_variance)))

    def _error(self, share: Budget) -> float:
        """Expected error of a cell measured with a share of the budget, in rows."""
        contributions = self.curator.charge.contributions
        amount = float(share.amount)
        return contributions / amount if share.is_pure else contributions / float(np.sqrt(np.pi * amount))

    @cached_property
    def _pairs(self) -> list[Places]:
        """Pairs of attributes of which none follows from the other."""
        return [pair for pair in combinations(range(len(self.sizes)), 2) if self._essential(pair)]

    def _essential(self, places: Places) -> bool:
        """Whether no attribute of a set follows from another of it."""
        return self.structure is None or self.structure.essential(places) == places

    def _possible(self, places: Places) -> Flags | None:
        """Flags of possible combinations of some attributes; None where all are."""
        return None if self.structure is None else self.structure.possible(places)

    def cells(self, places: Places) -> int:
        """Number of possible combinations of some attributes."""
        flags = self._possible(places)
        return prod(self.sizes[place] for place in places) if flags is None else int(flags.sum())

    def seen(self, places: Places) -> tuple[Floats, Floats]:
        """Mean of a margin over all noisy tables that contain it, by precision, and the variances of its cells.

        A cell is a sum of possible cells alone, of which a table has more for some values than for others.
        """
        if self.structure is None:
            numbers, variance = pooled(self.noisy, places)
            return numbers, np.asarray(variance)
        top, weight = np.zeros(()), np.zeros(())
        for of, (sums, variance) in self.noisy:
            if {*places} <= {*of}:
                flags = self._possible(of)
                cells = sum_out(np.ones(sums.shape) if flags is None else flags.astype(np.float64), places, of)
                precision = np.where(cells > 0.0, 1.0 / (np.maximum(cells, 1.0) * variance), 0.0)
                top, weight = top + precision * sum_out(sums, places, of), weight + precision
        known = np.maximum(weight, LITTLE**2)
        return top / known, np.where(weight > 0.0, 1.0 / known, 0.0)

    def _total(self) -> float:
        return max(0.0, float(self.seen(())[0]))

    def _one_way(self) -> list[Floats]:
        total, margins, unsure = self._total(), list[Floats](), list[Floats]()
        for place, axis in enumerate(self.schema.domain.axes):
            numbers, variances = self.seen((place,))
            margin, left = one_way_errors(numbers, float(variances.mean()), total, axis.ordered)
            margins.append(margin)
            unsure.append(left)
        return margins if self.structure is None else coherent(self.structure, total, margins, unsure)[0]

    def _rows(self, number: int) -> Rows:
        one_way = self._one_way()
        tables = {}
        for family in self.families:
            margins = [one_way[place] for place in family.places]
            tables[family.places] = smoothed(self.seen(family.places)[0], margins, self._possible(family.places))
        pair = prod(sorted(self.sizes)[-2:])
        most = min(number, SETTINGS.per_cell * pair)
        rows = Rows(rows_of(self.families, tables, most, RandomNumbers(0), self.structure))
        return rows if self.structure is None else rows.fitted(tables)


def _promises(
    schema: Schema, budget: Budget, confidence: float, workload: Workload | None, options: Options = PLAIN
) -> Promises:
    axes, nodes, k = len(schema.domain.shape), len(nodes_of(schema)), schema.privacy_unit.contributions
    for_margins, _, for_all, _ = budget.split(*SETTINGS.shares)
    alone = for_margins.evenly(axes)[0], _beside_contrasts(for_all)[1].evenly(nodes)[0]
    noises = (noise_for(share, k, l1=Fraction(1), l2_squared=Fraction(1)) for share in alone)
    of_margin, of_table = (noise.continuous_variance**0.5 for noise in noises)
    known = schema.structure
    told = 0 if known is None else sum(len(known.above(place)) for place in range(axes))
    figures = (
        Figure("margins of one attribute", axes, "tables"),
        Figure("standard error of a cell of these", of_margin),
        Figure("choices of an attribute and its parents", nodes - 1, "choices"),
        Figure(f"tables of an attribute and its parents, {options.degree} at most", nodes, "tables"),
        Figure("standard error of a cell of these", of_table),
        Figure("pairs with contrasts, if noise does not hide them", comb(axes, 2) - told, "pairs"),
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
    holds=Holds(by_margins=True, zeros=True),
    forecast=Forecast(checks_itself=True, promises=_promises),
    lab=Lab(example=EXAMPLE),
)
