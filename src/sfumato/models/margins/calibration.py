"""Calibrate error variances of marginals by measured misfits, summed over sets of attributes of one order.

With a small share of the budget a release measures sum |count - answer| over the cells of sets of two, three and four
attributes, and of blocks of their cells. A sum over many sets has the sensitivity of one misfit; where the budget
allows, sets with similar claimed errors form groups with a sum each (`_groups`).

Estimator (`scale_of`). If cell errors are normal with variances u + k d (u known, d claimed but in doubt), the expected
sum of misfits is sqrt(2 / pi) sum sqrt(u + k d). The factor k equates it to the measured sum, shrunk towards the claim
by the relative noise; it scales the errors of a table, or gives the overdispersion (`Spreads`) of sets without one.
Eighths of a pair start half way, in logarithms, from what its contrasts leave to the median pair; sixteenths lie
between eighths and single cells. Stripes, values of one attribute with halves of the other, have what cells and blocks
do not explain: nothing counts twice.
Three-way contrasts of halves, measured here too, correct tables joined of pairs (scales.of_three). Own method.

Claims (`Claims`), before they are calibrated. By the error model (table.py) the variance of a cell is a sum over the
sets T of the axes of a table:

    variance(cell) = sum over T of  A_T(cell along T) * product over other axes a of b_a(cell)^2

and A_T, the variances of T centred along its axes and those of its blocks, depends on how values of T are grouped and
not on the other attributes of a query. So it is worked out once for all tables that contain T. The error of the
total shifts every margin by its level: its part is v * (product of b + sum over a of (level_a - b_a) * other b)^2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import combinations, islice
from math import comb, inf, prod
from typing import Any

import numpy as np

from sfumato.arrays import Codes, Floats, Whole
from sfumato.domain import Axis
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.measuring import noise_of_margins
from sfumato.measurement import Measurement
from sfumato.models.calibration.model_error import OF_NORMAL, crossing
from sfumato.models.margins.content import Margins
from sfumato.models.margins.joining import Few, join_few, level_of
from sfumato.models.margins.scales import (
    FINE,
    LEVELS,
    MEASURED,
    Contrasts,
    Haar,
    OfThree,
    Scaled,
    Spreads,
    levels_of,
    of_three,
)
from sfumato.models.margins.table import (
    ON_GOOD_NUMBERS,
    WIDER,
    Places,
    Table,
    along,
    along_all,
    spread_out,
    sum_kinds,
    sum_out,
)
from sfumato.queries import Identity, Kron, Stack, Weighted
from sfumato.schema import Schema

ALL = LEVELS  # every value of an attribute by itself, where levels are halves, quarters and so on
BY_ESTIMATES = ("_bases", "_bends", "_factors", "_levels", "_moves", "_shifts")  # of claims
At = tuple[int, int]  # an attribute, and the level of blocks that its values are grouped into


@dataclass(frozen=True, eq=False)
class Claims:
    """Claimed variances of counts by the errors of a content of marginals, by set of attributes and level of blocks.

    single: in single precision.
    """

    content: Margins
    single: bool = False
    _bases: dict[At, Floats] = field(init=False, default_factory=dict)
    _factors: dict[At, tuple[Floats, Floats]] = field(init=False, default_factory=dict)
    _levels: dict[At, Floats] = field(init=False, default_factory=dict)
    _known: dict[tuple[At, ...], Floats] = field(init=False, default_factory=dict)
    _blocks: dict[tuple[At, ...], Floats] = field(init=False, default_factory=dict)
    _moves: dict[tuple[At, int], Floats] = field(init=False, default_factory=dict)
    _bends: dict[At, Floats] = field(init=False, default_factory=dict)
    _pairs: dict[tuple[tuple[At, ...], int], Floats] = field(init=False, default_factory=dict)
    _shifts: dict[tuple[At, ...], Floats] = field(init=False, default_factory=dict)

    def with_errors(self, content: Margins) -> Claims:
        """Claims of the same estimates with other errors; what follows from estimates alone is kept."""
        other = Claims(content, self.single)
        vars(other).update({name: getattr(self, name) for name in BY_ESTIMATES})
        return other

    @ON_GOOD_NUMBERS
    def of(self, places: Places, levels: Sequence[int], counts: Floats) -> tuple[Floats, Floats]:
        """Variances of the cells of a marginal: from errors of smaller sets and of blocks, and from its own cells.

        places: the marginal's attributes. levels: how finely each is cut (ALL: into single values). counts: expected
        rows by cell. Variances of single cells leave out errors of blocks, which hardly reach them.
        """
        at, counts = tuple(zip(places, levels, strict=True)), self._rounded(counts)
        last, off = self.base(at[-1]), self._level(at[-1]) - self.base(at[-1])
        total = self.content.tables["count"][()]
        variance = float(total.noise) + float(total.model)
        within = self._closed(at[:-1], len(at) - 1, at, counts).reshape(-1, 1)
        left = np.concatenate([within, self._shifted(at[:-1])], axis=1)  # of the last axis, and of the total
        right = np.stack([last**2, variance * last**2, 2.0 * variance * last * off, variance * off**2])
        sure = np.dot(left, right).reshape(counts.shape)
        self._add_smaller(sure, at, len(at) - 1, at, counts)
        if any(level != ALL for level in levels):
            sure += self._of_blocks(at)
        return np.maximum(sure, 0.0, out=sure), self._of_cells(at, at, counts)

    def _rounded(self, values: Floats) -> Floats:
        """Numbers in the precision that is kept."""
        return np.asarray(values, dtype=np.float32 if self.single else np.float64)

    def _closed(self, key: tuple[At, ...], ahead: int, at: tuple[At, ...], counts: Floats) -> Floats:
        """Variance components A_T of a set and of its subsets, each times the squared bases of the axes it lacks.

        Subsets lack some of the first `ahead` axes, left out from the last to the first, so that each subset enters
        once. Results for two axes are cached.
        """
        if len(key) == 1:
            return self._one_way(key[0])
        if (key, ahead) in self._pairs:
            return self._pairs[key, ahead]
        result = self._of_cells(key, at, counts)
        if any(level != ALL for _, level in at):
            result = result + self._of_blocks(key)
        elif ahead:
            result = result.copy()
        self._add_smaller(result, key, ahead, at, counts)
        if len(key) == 2:
            self._pairs[key, ahead] = result
        return result

    def _add_smaller(self, result: Floats, key: tuple[At, ...], ahead: int, at: tuple[At, ...], counts: Floats) -> None:
        """Add the components of subsets without one of the first `ahead` axes, times the squared base of that axis."""
        axes = tuple(range(len(key)))
        for axis in range(ahead):
            inside = self._closed(key[:axis] + key[axis + 1 :], axis, at, counts)
            others = axes[:axis] + axes[axis + 1 :]
            result += spread_out(inside, others, axes) * spread_out(self._centring(key[axis])[1], (axis,), axes)

    def base(self, at: At) -> Floats:
        """Share of each class of values in the rows of an attribute, (classes,)."""
        if at not in self._bases:
            rows = sum_kinds(np.maximum(self.content.tables["count"][at[0],].estimate, 0.0), [self._kind(at)])
            kind, total = self._kind(at), rows.sum()
            self._bases[at] = self._rounded(rows / total if total > 0 else np.bincount(kind) / len(kind))
        return self._bases[at]

    def _kind(self, at: At) -> Codes:
        """Class of every value of an attribute."""
        return self.content.blocks[at[0]][at[1]]

    def _level(self, at: At) -> Floats:
        """Derivative of a one-way margin by the total, by class of values, (classes,)."""
        if at not in self._levels:
            estimate = self.content.tables["count"][at[0],].estimate
            self._levels[at] = self._rounded(sum_kinds(level_of(estimate), [self._kind(at)]))
        return self._levels[at]

    def _shifted(self, key: tuple[At, ...]) -> Floats:
        """Second-order products of a cell's derivative by the total and its product of bases, (cells, 3); see `of`.

        With p the product of bases and m = p + sum over a of (level_a - b_a) * other b, they are m^2, m p and p^2.
        """
        if key not in self._shifts:
            product, moved = np.ones(1), np.zeros(1)
            for each in key:
                base, off = self.base(each), self._level(each) - self.base(each)
                moved = (moved[:, None] * base + product[:, None] * off).reshape(-1)
                product = (product[:, None] * base).reshape(-1)
            moved += product
            self._shifts[key] = self._rounded(np.stack([moved**2, moved * product, product**2], axis=1))
        return self._shifts[key]

    def _one_way(self, at: At) -> Floats:
        """A_T of one attribute: centred by levels; values without rows do not follow the total."""
        if (at,) not in self._known:
            table, level = self.content.tables["count"][at[0],], self._level(at)
            every = table.noise + table.model
            loose = sum_kinds(every * (table.estimate <= 0.0), [self._kind(at)])
            held = sum_kinds(every, [self._kind(at)]) - loose
            self._known[at,] = self._rounded((1.0 - 2.0 * level) * held + level**2 * held.sum() + loose)
        return self._known[at,]

    def _of_cells(self, key: tuple[At, ...], at: tuple[At, ...], counts: Floats) -> Floats:
        """A_T of a set from its cells: of its table, or by its spread if it has none. counts: along the axes `at`."""
        if key in self._known:
            return self._known[key]
        within = tuple(place for place, _ in key)
        if (table := self.content.tables["count"].get(within)) is not None:
            variances = sum_kinds(table.noise + table.model, [self._kind(each) for each in key])
            self._known[key] = self._centred(self._rounded(variances), key)
            return self._known[key]
        axes = tuple(axis for axis, each in enumerate(at) if each in key)
        rows = counts if key == at else sum_out(counts, axes, range(counts.ndim))
        return self._centred(self.content.spreads["count"].of(within) * rows, key)

    def _centred(self, variances: Floats, key: Sequence[At]) -> Floats:
        """Variances of cells after centring along every axis by its base."""
        axes = tuple(range(len(key)))
        for axis, each in enumerate(key):
            kept, shared = self._centring(each)
            summed = np.add.reduce(variances, axis=axis, keepdims=True)
            kept, shared = spread_out(kept, (axis,), axes), spread_out(shared, (axis,), axes)
            variances = np.multiply(variances, kept, out=variances if axis else None)
            variances += shared * summed
        return variances

    def _centring(self, at: At) -> tuple[Floats, Floats]:
        """Factors 1 - 2 b on a variance and b^2 on the sum of all, by which an axis of base b is centred."""
        if at not in self._factors:
            base = self.base(at)
            self._factors[at] = 1.0 - 2.0 * base, base**2
        return self._factors[at]

    def _of_blocks(self, key: tuple[At, ...]) -> Floats:
        """A_T of a set from errors of its blocks at all scales."""
        if key not in self._blocks:
            result = np.zeros([len(self.base(each)) for each in key])
            for levels, noise, model in self.content.block_variances("count", tuple(place for place, _ in key)):
                variances = noise + model
                if not variances.any():
                    continue
                for axis, (each, level) in enumerate(zip(key, levels, strict=True)):
                    variances = along(self._move(each, level), variances, axis)
                result += variances
            if (found := self.content.bent("count", tuple(place for place, _ in key))) is not None:
                variances = found[2]
                for axis, (each, bends) in enumerate(zip(key, found[:2], strict=True)):
                    variances = along(self._bend(each, bends), variances, axis)
                result += variances
            self._blocks[key] = self._rounded(result)
        return self._blocks[key]

    def _move(self, at: At, level: int) -> Floats:
        """Squared difference of each class's share in every block and its share in all rows, (classes, blocks)."""
        if (at, level) not in self._moves:
            shares = self.content.share_of_blocks(at[0], self._kind(at), level)
            self._moves[at, level] = (shares.T - self.base(at)[:, None]) ** 2
        return self._moves[at, level]

    def _bend(self, at: At, bends: Floats) -> Floats:
        """Squared difference of each class's share in every bend and its share in all rows, (classes, bends)."""
        if at not in self._bends:
            self._bends[at] = (sum_kinds(bends.T, [self._kind(at)]) - self.base(at)[:, None]) ** 2
        return self._bends[at]


NEARLY_ALL = 0.8  # of what cells can be off by, as which errors are taken at most


@dataclass(frozen=True, eq=False)
class Doubt:
    """Claimed error variances of the cells of one set of attributes.

    sure: known variances, by cell. doubtful: variances to be scaled, by cell. most: upper bound of each cell's mean
    error: E|count - guess| is at most mean + guess, however large the variance. Without it the thousands of nearly
    empty cells of a sparse table would seem to explain the misfit of a few full ones.
    """

    sure: Floats
    doubtful: Floats
    most: Floats | float = inf

    def size(self, scale: float) -> float:
        """Expected sum of the cells' absolute errors with the doubtful variances times `scale`."""
        if scale == inf:
            return float(np.broadcast_to(self.most, self.sure.shape).sum())
        sizes = scale * self.doubtful
        sizes += self.sure
        np.sqrt(sizes, out=sizes)
        sizes *= OF_NORMAL
        return float(np.minimum(sizes, self.most, out=sizes).sum())

    @classmethod
    def together(cls, doubts: Sequence[Doubt]) -> Doubt:
        """Concatenate the cells of several sets."""
        every = ((each.sure, each.doubtful, np.broadcast_to(each.most, each.sure.shape)) for each in doubts)
        return cls(*(np.concatenate([part.reshape(-1) for part in parts]) for parts in zip(*every, strict=True)))


def scale_of(
    doubts: Sequence[Doubt], measured: float, error: float, least: float = 0.0, most: float = 1e6, close: float = 1e-12
) -> float:
    """Factor on doubtful variances that equates the expected sum of misfits to the measured one.

    doubts: of the sets in the sum. error: standard deviation of the noise of `measured`. The claim has a prior standard
    deviation equal to itself, so large noise changes it little. The factor lies between `least` and `most`, and is
    found to within a share `close` of it.
    """
    every = Doubt.together(doubts)
    caps = np.broadcast_to(every.most, every.sure.shape)
    free = OF_NORMAL * np.sqrt(every.sure + least * every.doubtful) < caps  # others err by their most at any scale
    bound, every = float(caps[~free].sum()), Doubt(every.sure[free], every.doubtful[free], caps[free])

    def size(scale: float) -> float:
        return bound + every.size(scale)

    claimed = size(1.0)
    trust = claimed**2 / max(claimed**2 + error**2, 1e-300)
    wanted = claimed + trust * (measured - claimed)
    # Near the most that cells can be off by, the sum tells that their variances are large and not how large.
    wanted = min(wanted, NEARLY_ALL * size(inf))
    if size(least) >= wanted:
        return least
    if size(most) <= wanted:
        return most
    return min(max(crossing(lambda scale: size(scale) - wanted, 1.0, close), least), most)


# Shares of what is looked at, by the number of attributes and the level of each.
LOOKS: dict[int, dict[tuple[int, ...], int]] = {
    2: {(ALL, ALL): 4, (FINE, FINE): 2, (ALL, 0): 2, (0, ALL): 2},
    3: {(ALL, ALL, ALL): 3, (1, 1, 1): 2},
    4: {(ALL, ALL, ALL, ALL): 1},
}
# Of pairs whose contrasts nobody measures: halves and quarters too, or a dependence that was missed would seem as small
# in broad questions as in single cells.
BROAD_LOOKS = LOOKS | {2: {(ALL, ALL): 4, (0, 0): 2, (1, 1): 2, (FINE, FINE): 2, (ALL, 0): 2, (0, ALL): 2}}
ALIKE = 0.5  # power of what coarser blocks err by in what is claimed of finer ones: between not at all and as much
CONTRASTS = 6  # share of the contrasts of halves of three attributes
NONE: Mapping[Places, Scaled] = {}
MOST_SETS = {2: 1000, 3: 120, 4: 24}  # that are looked at
MOST_CELLS = 2**16  # of a set that is looked at
MOST_TRIPLES, MOST_CELLS_OF_TRIPLES = 1000, 2**20  # whose contrast of halves is measured
ROUGHLY = 1e-4  # of the rows, to which sets are joined for a look; and of a factor
GROUPS = (1, 2, 4, 8, 16, 32, 64, 128)  # in which sets are taken, besides each by itself
CLEAR = 0.25  # of what is claimed of a group, as which its noise may be to take sets in more groups
LEAST, MOST = 0.1, 1e4  # factors on the variances of what was measured, and of pairs
BY_CHANCE = 1.0  # the least spread of what nobody measured: that of rows which come independently, in a fitting model


@dataclass(frozen=True, eq=False)
class Checked:
    """Tables with calibrated errors, overdispersion of sets without a table, and the measurements used.

    measured: with the attributes of each contrast; misfits are of many sets.
    """

    tables: dict[Places, Table]
    spreads: Spreads
    measured: tuple[tuple[Places, Measurement], ...]


def check(
    curator: Curator,
    schema: Schema,
    tables: Mapping[Places, Table],
    budget: Budget,
    pairs: Mapping[Places, Scaled] = NONE,
    *,
    levels: Mapping[int, Mapping[tuple[int, ...], int]] = LOOKS,
) -> Checked:
    """Measure misfits of sets of two, three and four attributes and calibrate the errors of `tables` by them.

    pairs: spreads of block errors of pairs, by their contrasts. levels: of blocks that are looked at, with shares.
    """
    looked_at, calibrated = looks(schema), dict(tables)
    for places, table in tables.items():
        if len(places) == 1:  # its noise is known, and what smoothing does to it is little
            calibrated[places] = replace(table, model=table.model + (WIDER**2 - 1.0) * table.noise)
    # What nobody looks at deviates as rows do that come independently, so that no interval is of noise alone.
    spreads = [0.0] + [1.0] * (max(*looked_at, 3) - 1 if looked_at else 2)
    if not looked_at:
        return Checked(calibrated, Spreads(tuple(spreads)), ())
    sizing = _Sizing(curator, schema, pairs, calibrated, spreads, levels)
    threes = sizing.halved(triples(schema))
    weights = [weight for order in looked_at for weight in levels[order].values()]
    shares = list(budget.split(*weights, *([CONTRASTS] if threes else [])))
    for order, sets in looked_at.items():
        if order == 3 and threes:
            sizing.contrast(threes, shares.pop())
        sizing.size(order, sets, [shares.pop(0) for _ in levels[order]])
    return Checked(calibrated, sizing.found, tuple(sizing.measured))


@dataclass(eq=False)
class _Sizing:
    """State of the calibration, order by order.

    known: tables with calibrated errors. levels: see `check`. claimed: prior spreads of sets without a table, where not
    1. The other fields are those of `Spreads`, and the measurements so far.
    """

    curator: Curator
    schema: Schema
    pairs: Mapping[Places, Scaled]
    known: dict[Places, Table]
    spreads: list[float]
    levels: Mapping[int, Mapping[tuple[int, ...], int]]
    single: dict[Places, float] = field(default_factory=dict)
    by_order: dict[int, Scaled] = field(default_factory=dict)
    blocks: dict[Places, Scaled] = field(default_factory=dict)
    halves: dict[Places, OfThree] = field(default_factory=dict)
    claimed: dict[Places, float] = field(default_factory=dict)
    measured: list[tuple[Places, Measurement]] = field(default_factory=list)
    claims: Claims | None = None

    @property
    def found(self) -> Spreads:
        """Overdispersion measured so far."""
        contrasts = {places: each.contrast for places, each in self.halves.items() if places not in self.known}
        return Spreads(tuple(self.spreads), {**self.single}, {**self.by_order}, {**self.blocks}, contrasts)

    def claimed_now(self) -> Claims:
        """Claims of marginals with errors as calibrated so far."""
        spreads = self.found
        errors = {"count": self.known}, {"count": replace(spreads, single={**self.claimed, **spreads.single})}
        if self.claims is None:
            self.claims = Claims(Margins(self.schema, *errors), single=True)
        else:
            self.claims = self.claims.with_errors(self.claims.content.with_errors(*errors))
        return self.claims

    def halved(self, sets: Sequence[Places]) -> dict[Places, tuple[Haar, ...]]:
        """Sets whose axes can all be halved by rows, with the Haar signs of each axis."""
        content = self.claimed_now().content
        signs = [Haar.of(content.tables["count"][place,].estimate, 1) for place in range(len(content.domain.shape))]
        every = {places: tuple(signs[place] for place in places) for places in sets}
        return {places: each for places, each in every.items() if all(len(haar.level) for haar in each)}

    def contrast(self, sets: Mapping[Places, tuple[Haar, ...]], budget: Budget) -> None:
        """Measure contrasts of the halves of three attributes each; correct joined tables and prior spreads by them."""
        content, chosen = self.claimed_now().content, {places: (signs, MEASURED) for places, signs in sets.items()}
        seen, handed = measure_contrasts(self.curator, self.schema, chosen, budget)
        self.measured.extend(zip(chosen, handed, strict=True))
        self.halves = of_three(seen, halves_of(content, sets))
        # Sets whose halves were far off are likely off at finer scales, too.
        far = {places: max(1.0, each.before) ** ALIKE for places, each in self.halves.items()}
        self.claimed = {places: each for places, each in far.items() if places not in self.known}

    def size(self, order: int, sets: Sequence[Places], shares: Sequence[Budget]) -> None:
        """Measure misfits of sets of one order at each level of blocks, and calibrate their errors."""
        claims, names = self.claimed_now(), self.schema.domain.names
        content, answers = claims.content, _joined(claims.content, sets)
        before = {places: self.known.get(places) for places in sets}
        scales: dict[tuple[int, ...], list[float]] = {}
        for levels, share in zip(self.levels[order], shares, strict=True):
            single = {*levels} == {ALL}
            doubts, guesses = [], []
            priors = cells = [1.0] * len(answers)
            if order == 2 and len({*levels}) > 1:  # stripes are off by what their cells and blocks are, or by more
                cells = scales[ALL, ALL]
                if claims.content is content:
                    self._take_all(before, scales)
                    claims = self.claimed_now()
            elif order == 2 and not single:
                priors = self._priors([*answers], scales[ALL, ALL]) if answers else []
            for (places, answer), prior in zip(answers.items(), priors, strict=True):
                kinds = [content.blocks[axis][level] for axis, level in zip(places, levels, strict=True)]
                rows = np.asarray(answer) if single else sum_kinds(answer, kinds)
                counts: Any = np.maximum(rows, 0.0).astype(np.float32)  # single precision is precise enough for claims
                sure, doubtful = claims.of(places, levels, counts)
                doubts.append(Doubt(sure, prior * doubtful, counts + np.rint(counts)))
                parts = None if single else _parts(kinds)
                whole = np.rint(rows).astype(np.int64).reshape(-1)
                guesses.append(([names[axis] for axis in places], whole, parts))
            groups = _groups(doubts, share, self.curator)
            misfits = self.curator.measure_margin_misfits(guesses, share, groups)
            self.measured.append(((), misfits))
            by_set = zip(cells, priors, _scales(misfits, groups, doubts), strict=True)
            scales[levels] = [cell * prior * factor for cell, prior, factor in by_set]
        self._take_all(before, scales)
        if unmeasured := [places for places in sets if places in self.single]:
            self.spreads[order - 1] = float(np.mean([self.single[places] for places in unmeasured]))
            of_blocks = [self.blocks[places].model for places in unmeasured if places in self.blocks]
            if of_blocks:
                self.by_order[order] = Scaled((0.0,) * LEVELS, tuple(np.mean(of_blocks, axis=0).tolist()))
        if order == 3 and order in self.by_order:  # of those that were not looked at, halves alone are known
            finer = self.by_order[order]
            for places, factors in self.halves.items():
                if places not in self.blocks and places not in self.known:
                    self.blocks[places] = replace(finer, model=(factors.spread, *finer.model[1:]))

    def _priors(self, pairs: Sequence[Places], factors: Sequence[float]) -> list[float]:
        """Prior factor on the claimed variances of each pair's eighths: by its contrasts of quarters, or its cells'.

        factors: those of cells. A single contrast, of halves, tells next to nothing of finer blocks. Pairs differ
        less in eighths than this says, so logarithms are shrunk towards the median pair.
        """
        rows, tables = max(float(self.known[()].estimate), 1.0), [self.known.get(places) for places in pairs]
        claimed = [rows if table is None else max(float((table.noise + table.model).sum()), 1e-9) for table in tables]
        logs = np.log(np.multiply(factors, claimed) / rows)
        for number, places in enumerate(pairs):
            if (scaled := self.pairs.get(places)) is not None and scaled.noise[1]:
                logs[number] = np.log(max(scaled.noise[FINE] + scaled.model[FINE], 1e-9))
        evened = np.exp(ALIKE * logs + (1.0 - ALIKE) * np.median(logs))
        return [float(each) * rows / size for each, size in zip(evened, claimed, strict=True)]

    def _take_all(
        self, before: Mapping[Places, Table | None], scales: Mapping[tuple[int, ...], Sequence[float]]
    ) -> None:
        """Scale the error variances of sets of attributes by their measured factors, by level of blocks.

        before: their tables as claimed.
        """
        for number, (places, table) in enumerate(before.items()):
            self._take(places, table, {levels: factors[number] for levels, factors in scales.items()})

    def _take(self, places: Places, table: Table | None, scales: Mapping[tuple[int, ...], float]) -> None:
        scale, spread = scales[(ALL,) * len(places)], self.claimed.get(places, 1.0)
        if table is None:
            self.single[places] = max(scale * spread, BY_CHANCE)
        else:
            self.known[places] = replace(table, noise=scale * table.noise, model=scale * table.model)
        if len(places) < max(LOOKS):
            half = self.halves[places].spread if places in self.halves else None
            sized = spread, self.single.get(places, 0.0)
            self.blocks[places] = scaled_blocks(places, scales, table, sized, self.pairs.get(places), half)


def measure_contrasts(
    curator: Curator, schema: Schema, chosen: Mapping[Places, tuple[tuple[Haar, ...], int]], budget: Budget
) -> tuple[dict[Places, Contrasts], list[Measurement]]:
    """Measure noisy Haar contrasts of several sets of attributes, all with the same noise.

    chosen: for each set the signs of its attributes, and the depth below which families are measured; an attribute has
    the same signs in all sets. Returns the contrasts, and the measurements as they are kept.
    """
    names, axes, families = schema.domain.names, dict[str, tuple[Axis, Codes]](), []
    for places, (signs, depth) in chosen.items():
        key = tuple((haar.of_classes.tobytes(), tuple(haar.level.tolist())) for haar in signs)
        families.append(_families(key, depth))
        for place, haar in zip(places, signs, strict=True):
            classes = Axis(names[place], "integer", np.arange(haar.of_classes.shape[1] + 1.0))
            axes.setdefault(names[place], (classes, haar.classes))
    asked = [([names[place] for place in places], each) for places, (_, each) in zip(chosen, families, strict=True)]
    measured = curator.recode(axes).measure_margins(asked, budget)
    result, kept, ahead = dict[Places, Contrasts](), list[Measurement](), 0
    for (places, (signs, depth)), (listed, queries) in zip(chosen.items(), families, strict=True):
        own = measured.answers[ahead : ahead + queries.rows]
        ahead += queries.rows
        kept.append(Measurement("contrast", Identity(queries.rows), own, measured.noises))
        variance = measured.noise.continuous_variance
        result[places] = Contrasts(signs, _laid_out(signs, listed, own), variance, depth)
    return result, kept


def contrasts_of(signs: tuple[Haar, ...], measured: Measurement) -> Contrasts | None:
    """Restore the contrasts of `measure_contrasts` from a measurement in a file.

    The depth is the one whose families have as many contrasts as there are answers; None where no depth has.
    """
    key = tuple((haar.of_classes.tobytes(), tuple(haar.level.tolist())) for haar in signs)
    for depth in range(1, MEASURED + 1) if all(len(haar.level) for haar in signs) else ():
        if levels_of(signs, depth):
            listed, queries = _families(key, depth)
            if queries.rows == len(measured.answers):
                variance = measured.noise.continuous_variance
                return Contrasts(signs, _laid_out(signs, listed, measured.answers), variance, depth)
    return None


def _laid_out(signs: Sequence[Haar], listed: Sequence[Sequence[Codes]], answers: Whole) -> Floats:
    """Measured contrasts of all families as an array with an axis for each attribute; 0 where not measured."""
    noisy = np.zeros([len(haar.level) for haar in signs])
    for rows in listed:
        shape = [len(here) for here in rows]
        noisy[np.ix_(*rows)], answers = answers[: prod(shape)].reshape(shape), answers[prod(shape) :]
    return noisy


@lru_cache(maxsize=128)
def _families(axes: tuple[tuple[bytes, tuple[int, ...]], ...], depth: int) -> tuple[list[list[Codes]], Stack]:
    """Rows of the Haar signs of each axis in every family below a depth, and the queries for their contrasts.

    axes: signs of classes of values, and the level of each row. Many sets of attributes have the same.
    """
    signs = [
        Haar(np.frombuffer(each, dtype=np.int64).reshape(len(level), -1).astype(np.float64), np.array(level))
        for each, level in axes
    ]
    listed = [
        [np.flatnonzero(haar.level == level) for haar, level in zip(signs, levels, strict=True)]
        for levels in levels_of(signs, depth)
    ]
    by_family = [[haar.signs[here].astype(np.int64) for haar, here in zip(signs, rows, strict=True)] for rows in listed]
    return listed, Stack(*(Kron(*map(Weighted, factors)) for factors in by_family))


def _scales(measured: Measurement, groups: Whole, doubts: Sequence[Doubt]) -> list[float]:
    """Factor on doubtful variances of every set, (sets,), from its group's noisy misfit. groups: (sets,)."""
    error = float(np.sqrt(measured.noise.variance))
    labels, by_group = groups.tolist(), []
    for group, misfit in enumerate(measured.answers.tolist()):
        members = [doubt for doubt, label in zip(doubts, labels, strict=True) if label == group]
        by_group.append(scale_of(members, WIDER * misfit, error, LEAST, MOST, ROUGHLY))
    return [by_group[label] for label in labels]


def looks(schema: Schema) -> dict[int, list[Places]]:
    """Sets of attributes whose misfits are measured, by order; none where there is one attribute."""
    sampled = {order: _sampled(schema.domain.shape, order, MOST_SETS[order], MOST_CELLS) for order in LOOKS}
    own = {order: _own(schema, sets) for order, sets in sampled.items()}
    return {order: sets for order, sets in own.items() if sets}


def _own(schema: Schema, sets: list[Places]) -> list[Places]:
    """Sets without an attribute that follows from another of them."""
    known = schema.structure
    return sets if known is None else [each for each in sets if known.essential(each) == each]


def _sampled(shape: Sequence[int], order: int, most: int, most_cells: int) -> list[Places]:
    """Evenly spaced subsample of the sets of one order that are small enough to lay out."""
    every = islice(combinations(range(len(shape)), order), 0, None, max(1, comb(len(shape), order) // (4 * most)))
    small: list[Places] = [places for places in every if prod(shape[place] for place in places) <= most_cells]
    return small[:: max(1, -(-len(small) // most))]


def triples(schema: Schema) -> list[Places]:
    """Sets of three attributes whose contrast of halves is measured: all, or an evenly spaced subsample."""
    return _own(schema, _sampled(schema.domain.shape, 3, MOST_TRIPLES, MOST_CELLS_OF_TRIPLES))


def _joined(content: Margins, sets: Sequence[Places]) -> dict[Places, Floats]:
    """Joined counts of single values along some sets of attributes; those of three or four by their pairs at once."""
    if content.schema.structure is not None:  # combinations that cannot be are left out table by table
        return {places: content.joined(content.every(places), ROUGHLY)["count"] for places in sets}
    known = content.tables["count"]
    few = {places: _few(content, places) for places in sets if len(places) > 2 and _by_pairs(known, places)}
    joined = dict(zip(few, join_few(list(few.values()), ROUGHLY), strict=True))
    return {
        places: joined[places]
        if places in joined
        else known[places].estimate
        if places in known
        else content.joined(content.every(places), ROUGHLY)["count"]
        for places in sets
    }


def _by_pairs(known: Mapping[Places, Table], places: Places) -> bool:
    """Whether all pairs of some attributes have tables, and no larger set of them does."""
    larger = (part for order in range(3, len(places) + 1) for part in combinations(places, order))
    return all(pair in known for pair in combinations(places, 2)) and not any(part in known for part in larger)


def _few(content: Margins, places: Places) -> Few:
    """Known margins of three or four attributes, and their contrasts of halves if there are some."""
    known, contrasts, axes = content.tables["count"], content.spreads["count"].contrasts, range(len(places))
    one_way = [known[place,].estimate for place in places]
    pairs: dict[Places, Floats] = {(a, b): known[places[a], places[b]].estimate for a, b in combinations(axes, 2)}
    threes = {(a, b, c): (places[a], places[b], places[c]) for a, b, c in combinations(axes, 3)}
    wanted: dict[Places, float] = {three: contrasts[part] for three, part in threes.items() if part in contrasts}
    signs = [np.where(content.blocks[place][0] > 0, -1.0, 1.0) for place in places] if wanted else []
    return Few(one_way, pairs, signs, wanted)


def halves_of(content: Margins, sets: Mapping[Places, Sequence[Haar]]) -> dict[Places, tuple[float, float]]:
    """Contrast of the halves of three attributes each in the joined table, and the number of all rows.

    Joins blocks of the finest level, of which there are few however many values there are.
    """
    known, blocks = content.tables["count"], [each[LEVELS - 1] for each in content.blocks]
    needed = {part for places in sets for order in (1, 2, 3) for part in combinations(places, order) if part in known}
    summed = {part: sum_kinds(known[part].estimate, [blocks[place] for place in part]) for part in needed}
    threes = [places for places in sets if places not in known]
    margins = [
        Few([summed[axis,] for axis in (a, b, c)], {(0, 1): summed[a, b], (0, 2): summed[a, c], (1, 2): summed[b, c]})
        for a, b, c in threes
    ]
    if content.schema.structure is None:
        tables = summed | dict(zip(threes, join_few(margins, ROUGHLY), strict=True))
    else:
        kinds = {places: {place: blocks[place] for place in places} for places in sets}
        tables = {places: content.joined(each, ROUGHLY, fine=False)["count"] for places, each in kinds.items()}
    first = [np.unique(kind, return_index=True)[1] for kind in blocks]
    result = {}
    for places, signs in sets.items():
        halves = [haar.signs[:, first[place]] for place, haar in zip(places, signs, strict=True)]
        contrast = along_all(halves, tables[places])
        result[places] = float(contrast.reshape(-1)[0]), float(tables[places].sum(dtype=np.float64))
    return result


def _parts(kinds: Sequence[Codes]) -> Codes:
    """Block of every cell of a table, flat; kinds: for each axis, the block of every value."""
    labels: Codes = np.zeros(1, dtype=np.int64)
    for kind in kinds:
        labels = (labels[:, None] * (int(kind.max()) + 1) + kind).reshape(-1)
    return labels


def scaled_blocks(
    places: Places,
    scales: Mapping[tuple[int, ...], float],
    table: Table | None,
    spread: tuple[float, float],
    by_contrasts: Scaled | None,
    halves: float | None,
) -> Scaled:
    """Spreads of a set's blocks by level, from measured factors on their claimed error variances.

    scales: factors by levels of the axes. spread: of cells without a table, as claimed and as measured. by_contrasts,
    halves: spreads measured by contrasts, of pairs and of three attributes. A level that was not measured has the
    spread of the next finer one.
    """
    order, of_table = len(places), (0.0, spread[0])
    if table is not None:
        rows = max(float(table.estimate.sum()), 1.0)
        of_table = float(table.noise.sum()) / rows, float(table.model.sum()) / rows
    noise, model = ([scale * of for scale in [scales[(ALL,) * order]]] for of in of_table)
    if table is None:
        model = [spread[1]]
    stripes: tuple[float, ...] = ()
    if order == 2:
        cells, claimed = noise[0] + model[0], sum(of_table)
        stripes = tuple(max(0.0, scales.get(levels, 0.0) * claimed - cells) for levels in ((ALL, 0), (0, ALL)))
    eighths = scales.get((FINE,) * order, 0.0) * sum(of_table)
    for level in reversed(range(LEVELS)):
        if by_contrasts is not None:  # noise of what was not measured is that of finer blocks, which are off by no more
            # as their misfit says, and so quarters of which no contrast was measured, if nobody looked at them, or as
            # much as their halves' contrast foretells if that is more: it corrects as a step what may be a slope
            whole = max(eighths, scales.get((level,) * order, 0.0) * sum(of_table))
            if level < FINE:
                foretold = by_contrasts.noise[level] + by_contrasts.model[level]
                whole = foretold if by_contrasts.noise[level] else max(whole, foretold)
            elif level > FINE:  # between eighths and single cells
                whole = (eighths + noise[0] + model[0]) / 2.0
            by_noise = min(by_contrasts.noise[level] or noise[0], whole)
            now = by_noise, max(whole - by_noise, 0.0 if level < MEASURED else model[0])
        elif (level,) * order in scales:
            now = scales[(level,) * order] * of_table[0], scales[(level,) * order] * of_table[1]
        elif not level and halves is not None:
            now = noise[0], max(0.0, halves - noise[0])
        else:
            now = noise[0], model[0] + (sum(stripes) if not level else 0.0)
        noise.insert(0, now[0])
        model.insert(0, now[1])
    return Scaled(tuple(noise[:LEVELS]), tuple(model[:LEVELS]), stripes)


def _groups(doubts: Sequence[Doubt], share: Budget, curator: Curator) -> Whole:
    """Group sets with similar claimed errors, (sets,): as many groups as stand out from the noise of the share."""
    sizes = np.array([doubt.size(1.0) for doubt in doubts])
    order = np.argsort(sizes, kind="stable")
    best: Whole = np.zeros(len(doubts), dtype=np.int64)
    for number in (*GROUPS, len(doubts)):
        if number > len(doubts):
            continue
        groups = np.empty(len(doubts), dtype=np.int64)
        groups[order] = np.arange(len(doubts)) * number // len(doubts)
        noise, _ = noise_of_margins(groups, number, share, curator.charge.contributions)
        if np.sqrt(noise.variance) <= CLEAR * np.bincount(groups, sizes).min():
            best = groups
    return best
