"""Overdispersion of tables around what smaller ones imply, by cell and by block; Haar contrasts that correct pairs.

Model. A cell with expected rows m deviates from the table joined of smaller ones with variance spread * m. Blocks of
cells (halves of every axis down to sixteenths) have spreads of their own, per unit of a block's size (`sizes_of`).

Contrasts. The values of every axis are halved three times (`measure_of`), and Haar contrasts of the blocks of a pair
are measured: sums of rows with a sign for each half. A row enters one contrast of each pair of levels, with weight 1.
Only levels with a small sum are measured (a hyperbolic cross), and fewer for pairs that gain less (`worth_measuring`).

Estimator (`corrected`). A noisy contrast less the estimate's is error plus noise. The error's variance, as a multiple
of what the fit claims, has a mixture prior learned from all pairs (empirical Bayes), apart for contrasts that are even
or odd along both axes, in which a dependence that was shrunk shows, and for the others (`Haar.turned`). The posterior
mean corrects the table by proportional fitting that keeps its margins; the posterior variance per unit of size is the
spread at that scale, divided by `FALL` per level below the finest that was measured. Own method; docs/intervals.md says
why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from functools import cached_property, reduce
from heapq import heappop, heappush
from itertools import product

import numpy as np

from sfumato.arrays import Codes, Floats, Whole
from sfumato.frozen import dataclass
from sfumato.models.calibration.model_error import LEAST, SIZES, WIDER, learned_sizes, posterior
from sfumato.models.margins.shrinkage import fit_margins
from sfumato.models.margins.table import Places, Table, along_all, independent

FINEST = 2**20  # parts of a spread that a file keeps


@dataclass(frozen=True)
class Scaled:
    """Spreads of block errors by level, halves first: from noise, and from the model.

    stripes: for each attribute of a pair, the spread beyond that of cells of single values crossed with halves of the
    other attribute.
    """

    noise: tuple[float, ...]
    model: tuple[float, ...]
    stripes: tuple[float, ...] = ()

    @classmethod
    def combined(cls, every: Sequence[tuple[Scaled, float]]) -> Scaled:
        """Weighted sum of spreads."""
        parts = (
            [[w * size for size in getattr(one, name)] for one, w in every] for name in ("noise", "model", "stripes")
        )
        return cls(*(tuple(map(sum, zip(*part, strict=False))) for part in parts))

    def rounded(self) -> Scaled:
        """Round to the digits of a file."""
        parts = self.noise, self.model, self.stripes
        return Scaled(*(tuple(round(spread * FINEST) / FINEST for spread in part) for part in parts))


@dataclass(frozen=True)
class Spreads:
    """Overdispersion of sets of attributes.

    by_order: spread of sets of one, two, three, ... attributes; the last serves larger sets. single: of sets whose own
    spread was measured. blocks_by_order, blocks: the same for blocks of cells. contrasts: estimated contrast of the
    halves of three attributes, to which tables joined from smaller ones are tilted.
    """

    by_order: tuple[float, ...] = ()
    single: Mapping[Places, float] = field(default_factory=dict)
    blocks_by_order: Mapping[int, Scaled] = field(default_factory=dict)
    blocks: Mapping[Places, Scaled] = field(default_factory=dict)
    contrasts: Mapping[Places, float] = field(default_factory=dict)

    def of(self, places: Places) -> float:
        """Overdispersion factor of a set of attributes.

        >>> Spreads((0.0, 1.0, 2.0), {(0, 1): 5.0}).of((0, 1)), Spreads((0.0, 1.0, 2.0)).of((1, 2, 3, 4))
        (5.0, 2.0)
        """
        if places in self.single:
            return self.single[places]
        return self.by_order[min(len(places), len(self.by_order)) - 1] if self.by_order and places else 0.0

    def of_blocks(self, places: Places) -> Scaled | None:
        """Spreads of the blocks of a set of attributes; None where unknown."""
        return self.blocks.get(places, self.blocks_by_order.get(len(places)))

    def evened(self, every: Sequence[Spreads], times: float, shares: Mapping[Places, float]) -> Spreads:
        """Spreads of the same sets drawn to their mean over several tables, times a factor; contrasts stay.

        shares: how far, by set; all the way where it is not there.
        """

        def drawn(own: Scaled, others: Sequence[Scaled], share: float) -> Scaled:
            return Scaled.combined([(own, 1.0 - share), *((each, share * times / len(others)) for each in others)])

        orders = [each.by_order for each in every if len(each.by_order) == len(self.by_order)]
        by_order = tuple(times * sum(each) / len(each) for each in zip(*orders, strict=True))
        single = {p: times * float(np.mean([e.single[p] for e in every if p in e.single])) for p in self.single}
        blocks_by_order = {
            order: drawn(own, [e.blocks_by_order[order] for e in every if order in e.blocks_by_order], 1.0)
            for order, own in self.blocks_by_order.items()
        }
        blocks = {
            p: drawn(own, [e.blocks[p] for e in every if p in e.blocks], shares.get(p, 1.0))
            for p, own in self.blocks.items()
        }
        return Spreads(by_order, single, blocks_by_order, blocks, self.contrasts)

    def rounded(self) -> Spreads:
        """Round to the digits of a file."""
        by_order, single = tuple(map(_in_parts, self.by_order)), {p: _in_parts(s) for p, s in self.single.items()}
        blocks_by_order = {order: each.rounded() for order, each in self.blocks_by_order.items()}
        blocks = {places: each.rounded() for places, each in self.blocks.items()}
        contrasts = {places: float(round(each)) for places, each in self.contrasts.items()}
        return Spreads(by_order, single, blocks_by_order, blocks, contrasts)


def in_parts(spread: float) -> int:
    """Spread in whole parts of `FINEST`, at least 1, as 0 marks a table with cells."""
    return max(1, round(spread * FINEST))


def _in_parts(spread: float) -> float:
    """Spread rounded as a file keeps it."""
    return in_parts(spread) / FINEST


LEVELS = 4  # halvings of every axis that errors are known at: halves, quarters, eighths, sixteenths
MEASURED = 3  # those of which contrasts of pairs are measured
FALL = 4.0  # by which the spread of uncorrected errors falls to the next level: 2 for steps, 8 for slopes
ROUNDS = 12  # of bringing a table to its contrasts, at most
AT_ONCE = 2**16  # cells of tables that are changed together
MOST_CHANGE = 4.0  # by which a block's rows are multiplied in one round at most
FINER = 8.0  # by which the spread of single cells is smaller than that of quarters, where only these were seen


def measure_of(margin: Floats, *, by_rows: bool = False) -> Floats:
    """Measure by which an axis is halved, sum 1: half in proportion to rows, half even over values.

    by_rows: by rows alone, as in older files; a long tail is then one block, and averages depend on how it is spread.

    >>> measure_of(np.array([6.0, 2.0, 0.0, 0.0])).tolist()
    [0.5, 0.25, 0.125, 0.125]
    """
    rows, even = np.maximum(margin, 0.0), np.full(len(margin), 1.0 / len(margin))
    if not rows.sum() > 0:
        return even
    return np.asarray(rows / rows.sum() if by_rows else (rows / rows.sum() + even) / 2.0)


def halved(margin: Floats, levels: int = LEVELS, *, by_rows: bool = False) -> list[Codes]:
    """Dyadic blocks of an axis: for each level the block of every value, halved by `measure_of`.

    >>> [each.tolist() for each in halved(np.array([1.0, 1.0, 5.0, 1.0]))]
    [[0, 0, 1, 1], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]]
    """
    share = measure_of(margin, by_rows=by_rows)
    middle = np.cumsum(share) - share / 2.0
    places = [np.minimum((middle * 2**level).astype(np.int64), 2**level - 1) for level in range(1, levels + 1)]
    return [np.asarray(np.unique(each, return_inverse=True)[1], dtype=np.int64) for each in places]


def ends_of(measure: Floats, ordered: bool) -> Floats:
    """Measure tilted towards both ends of an ordered axis, sum 1: times the squared distance from its middle.

    A dependence that is missed, such as a correlation that was shrunk, is off most where both axes are at an end.

    >>> ends_of(np.full(4, 0.25), True).tolist(), ends_of(np.array([1.0]), True).tolist()
    ([0.45, 0.05, 0.05, 0.45], [1.0])
    """
    tilted = measure * (2.0 * np.cumsum(measure) - measure - 1.0) ** 2
    return np.asarray(tilted / tilted.sum()) if ordered and tilted.sum() > 0 else measure


def sizes_of(rows: Floats, measures: Sequence[Floats], ends: Sequence[Floats], total: float) -> Floats:
    """Size of cells or blocks with which error variances grow.

    Five twelfths rows, five the product of the axes' measures, two that of measures tilted to their ends (`ends_of`).

    >>> halves, last = [np.array([0.5, 0.5])] * 2, [np.array([0.0, 1.0])] * 2
    >>> sizes_of(np.array([[12.0, 0.0], [0.0, 0.0]]), halves, last, 12.0).tolist()
    [[6.25, 1.25], [1.25, 3.25]]
    """
    even, tilted = (independent([total * each for each in parts], total) for parts in (measures, ends))
    return np.asarray((5.0 * (rows + even) + 2.0 * tilted) / 12.0)


@dataclass(frozen=True, eq=False)
class Haar:
    """Haar signs of an axis, (contrasts, values): a row for each block that is halved. level: of every row, from 0."""

    signs: Floats
    level: Codes

    @classmethod
    def of(cls, margin: Floats, levels: int = MEASURED) -> Haar:
        """Haar signs of an axis by its one-way margin; none where one value holds nearly all."""
        whole = np.zeros(len(margin), dtype=np.int64)
        signs, level = [np.zeros(len(margin))[:0].reshape(0, len(margin))], []
        for depth, (outer, inner) in enumerate(
            zip([whole, *halved(margin, levels)], halved(margin, levels), strict=False)
        ):
            for block in range(int(outer.max()) + 1):
                halves = np.unique(inner[outer == block])
                if len(halves) == 2:
                    row = np.where(inner == halves[0], 1.0, -1.0) * (outer == block)
                    signs.append(row[None])
                    level.append(depth)
        return cls(np.concatenate(signs), np.array(level, dtype=np.int64))

    @cached_property
    def levels(self) -> list[int]:
        """Levels that there are; an axis may have quarters and no halves."""
        return sorted({*self.level.tolist()})

    @cached_property
    def classes(self) -> Codes:
        """Class of every value, (values,): values that all contrasts give the same signs are told apart by none."""
        return np.asarray(np.unique(self.signs, axis=1, return_inverse=True)[1], dtype=np.int64).reshape(-1)

    @cached_property
    def of_classes(self) -> Whole:
        """Haar signs of the classes, (contrasts, classes)."""
        return np.asarray(self.signs[:, np.unique(self.classes, return_index=True)[1]], dtype=np.int64)

    @cached_property
    def turned(self) -> tuple[Floats, Codes]:
        """Rotation of the two contrasts of quarters into even and odd, (contrasts, contrasts), and parity of each row.

        Even: outer quarters less inner ones, as a square has it; odd: 1 -1 1 -1. Parity: 0 even, 1 odd (halves too), 2
        neither. Errors of a dependence that was shrunk have the same parity along both axes.
        """
        turn, parity = np.eye(len(self.level)), np.where(self.level == 0, 1, 2)
        quarters = np.flatnonzero(self.level == 1)
        if len(quarters) == 2:
            turn[np.ix_(quarters, quarters)] = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)
            parity[quarters] = 0, 1
        return turn, np.asarray(parity, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Noisy Haar contrasts of some attributes, an array with an axis of contrasts for each attribute.

    variance: of the noise. depth: only families (sums of levels) below it were measured; the others are 0.
    """

    signs: tuple[Haar, ...]
    noisy: Floats
    variance: float
    depth: int = MEASURED

    def of(self, table: Floats) -> Floats:
        """Haar contrasts of a table (analysis)."""
        return along_all([haar.signs for haar in self.signs], table)

    def rows(self, table: Floats) -> Floats:
        """Sum of a table over the support of each contrast."""
        return along_all([np.abs(haar.signs) for haar in self.signs], table)

    def families(self) -> Codes:
        """Family of each contrast: the sum of its levels, 0 for halves of all axes."""
        return reduce(np.add.outer, [haar.level for haar in self.signs])

    def finest(self) -> Codes:
        """Largest level of each contrast."""
        return reduce(np.maximum.outer, [haar.level for haar in self.signs])


def levels_of(signs: Sequence[Haar], depth: int = MEASURED) -> list[tuple[int, ...]]:
    """Combinations of levels of the axes in families below a depth; a row enters one contrast of each."""
    levels = product(*(haar.levels for haar in signs))
    return sorted((each for each in levels if sum(each) < depth), key=sum)


def worth_measuring(before: Floats, pairs: Sequence[Sequence[Haar]], variance_of: float, pure: bool) -> Codes:
    """Depth of contrasts to measure for each pair so that expected errors are least, (pairs,); 0 for none.

    before: (pairs,), prior standard deviation of the contrast of halves; that of finer ones falls with the root of
    their rows. pairs: signs of both axes. variance_of: noise variance of one contrast measured alone.
    """
    families_of = [[sum(each) for each in levels_of(signs)] for signs in pairs]
    costs = [[each.count(family) for family in range(MEASURED)] for each in families_of]
    depths: Codes = np.zeros(len(pairs), dtype=np.int64)
    places, families = np.nonzero(np.array(costs).reshape(len(pairs), MEASURED))
    if not len(places):
        return depths
    order = np.argsort(-before[places] * 0.5 ** (families / 2.0), kind="stable")
    places, families = places[order], families[order]
    cost, sizes = np.array(costs, dtype=np.float64)[places, families], before[places] * 0.5 ** (families / 2.0)
    noise = np.sqrt(variance_of) * (np.cumsum(cost) if pure else np.sqrt(np.cumsum(cost)))
    if sizes[0] >= noise[0]:
        best = _largest_gain(cost * sizes, sizes, noise)
        np.maximum.at(depths, places[:best], families[:best] + 1)
    return depths


def _largest_gain(worth: Floats, sizes: Floats, noise: Floats) -> int:
    """Number n of the first contrasts of largest total gain: sum of worth * (1 - 1 / hypot(1, size / noise[n - 1])).

    Noise grows with n, so a run of numbers gains at most what its last one would with the noise of its first; runs are
    gone through by falling bounds until none can be better (branch and bound).
    """

    def gain(number: int, at: int) -> float:
        off = noise[at]
        return float((worth[:number] * (1.0 - off / np.sqrt(off**2 + sizes[:number] ** 2))).sum())

    waiting = [(-gain(len(worth), 0), 0, len(worth))]  # less the bound, first and end of a run
    while waiting:
        _, first, end = heappop(waiting)
        if end - first == 1:
            break
        middle = (first + end) // 2
        for low, high in ((first, middle), (middle, end)):
            heappush(waiting, (-gain(high, low), low, high))
    return first + 1


def corrected(
    tables: Mapping[Places, Table],
    contrasts: Mapping[Places, Contrasts],
    told: Collection[Places],
    ordered: Sequence[bool],
) -> tuple[dict[Places, Table], dict[Places, Scaled]]:
    """Correct pair tables by the posterior mean of their measured contrasts; return tables and remaining spreads.

    told: pairs of which cells were measured. Their error sizes are learned apart from those of other pairs. ordered: of
    every attribute, whether its values have an order.
    """
    looked = {places: item for places, item in contrasts.items() if item.noisy.size}
    off = {places: item.noisy - item.of(tables[places].estimate) for places, item in looked.items()}
    claimed = {p: np.maximum(item.rows(tables[p].noise + tables[p].model), LEAST) for p, item in looked.items()}
    result, spreads, roughness = dict(tables), dict[Places, Scaled](), dict[Places, tuple[int, Floats]]()
    means, left, noises = ({places: np.zeros(item.shape) for places, item in off.items()} for _ in range(3))
    turned = {places: [haar.turned for haar in item.signs] for places, item in looked.items()}
    turns = {places: [turn for turn, _ in each] for places, each in turned.items()}
    for places, turn in turns.items():  # noise of one variance stays what it is under a rotation
        off[places] = along_all(turn, off[places])
        claimed[places] = along_all([each**2 for each in turn], claimed[places])
    rows = {p: along_all([turn**2 for turn in turns[p]], item.rows(tables[p].estimate)) for p, item in looked.items()}
    kinds: dict[tuple[int, int, bool], list[tuple[Places, tuple[Codes, ...]]]] = {}
    for places, item in looked.items():
        families, kinship = item.families(), _kinship(*(parity for _, parity in turned[places]))
        kind = np.where(families < item.depth, 3 * families + kinship, -1)
        for each in np.unique(kind[kind >= 0]).tolist():
            kinds.setdefault((*divmod(each, 3), places in told), []).append((places, np.nonzero(kind == each)))
    for (family, _, _), items in sorted(kinds.items()):
        sizes = learned_sizes([(off[p][at], claimed[p][at], looked[p].variance) for p, at in items])
        for (places, at), weights in zip(items, sizes, strict=True):
            mean, variance, noise = posterior(off[places][at], claimed[places][at], looked[places].variance, weights)
            means[places][at], left[places][at], noises[places][at] = mean, variance, noise
            # of the finest contrasts there are, the variance for each row before it was corrected
            before = np.array([(weights @ SIZES) * claimed[places][at].sum(), rows[places][at].sum()])
            finest, sums = roughness.get(places, (family, np.zeros(2)))
            roughness[places] = family, before + (sums if finest == family else 0.0)
    changes = {places: along_all([turn.T for turn in turns[places]], means[places]) for places in looked}
    tilted = _all_tilted({places: tables[places].estimate for places in looked}, looked, changes)
    for places, item in looked.items():
        squares = [turn.T**2 for turn in turns[places]]
        table, estimate = tables[places], tilted[places]
        variance, counted = roughness[places][1].tolist()
        rough = variance / max(counted, 1.0)
        model = table.model if places in told else estimate * (1.0 + rough / FINER)
        result[places] = Table(places, estimate, table.noise, model)
        over, noise = along_all(squares, left[places]), along_all(squares, noises[places])
        blocks = _sizes(table.estimate, [ordered[place] for place in places])
        spreads[places] = _spread(item, table.estimate, blocks, over, noise, rough, places in told)
    return result, spreads


def _kinship(*parities: Codes) -> Codes:
    """Whether contrasts of two axes have the same parity (0), different ones (1), or none on an axis (2)."""
    first, second = np.meshgrid(*parities, indexing="ij")
    return np.asarray(np.where((first == 2) | (second == 2), 2, first != second), dtype=np.int64)


def _all_tilted(
    tables: Mapping[Places, Floats], contrasts: Mapping[Places, Contrasts], changes: Mapping[Places, Floats]
) -> dict[Places, Floats]:
    """Change the contrasts of two-way tables (`_tilted`), those of one shape together."""
    shapes: dict[tuple[int, ...], list[Places]] = {}
    for places, table in tables.items():
        shapes.setdefault((*table.shape, *changes[places].shape), []).append(places)
    result: dict[Places, Floats] = {}
    for (rows, columns, *_), members in shapes.items():
        together = max(1, AT_ONCE // (rows * columns))
        for start in range(0, len(members), together):
            some = members[start : start + together]
            stacked, moved = (np.array([each[places] for places in some]) for each in (tables, changes))
            result |= zip(some, _tilted(stacked, moved, [contrasts[places] for places in some]), strict=True)
    return result


def _tilted(tables: Floats, changes: Floats, contrasts: Sequence[Contrasts]) -> Floats:
    """Change the contrasts of tables, margins kept and cells non-negative, by damped proportional fitting.

    tables: (tables, values, values). changes: (tables, contrasts, contrasts).
    """
    left, right = (np.array([item.signs[axis].signs for item in contrasts]) for axis in (0, 1))
    across = right.transpose(0, 2, 1)
    rows, columns, wanted = tables.sum(axis=2), tables.sum(axis=1), left @ tables @ across + changes
    measured = np.array([item.families() < item.depth for item in contrasts])

    def lacking(candidates: Floats) -> Floats:
        return np.asarray(measured * (wanted - left @ candidates @ across))

    def missed(candidates: Floats) -> Floats:
        return np.asarray(np.square(lacking(candidates)).sum(axis=(1, 2)))

    best, least = tables, np.full(len(tables), np.inf)  # some contrasts cannot be had together: a round may lead away
    trial = tables
    for _ in range(ROUNDS):
        held = np.maximum(np.abs(left) @ trial @ np.abs(across), 1.0)
        step = left.transpose(0, 2, 1) @ (lacking(trial) / held) @ right
        trial = fit_margins(trial * np.clip(1.0 + step, 1.0 / MOST_CHANGE, MOST_CHANGE), rows, columns, 3)
        off = missed(trial)
        best, least = np.where((off < least)[:, None, None], trial, best), np.minimum(off, least)
    best = fit_margins(best, rows, columns)
    return np.where((missed(best) < missed(tables))[:, None, None], best, tables)


def _sizes(table: Floats, ordered: Sequence[bool]) -> Floats:
    """Sizes of the cells of a two-way table (`sizes_of`)."""
    measures = [measure_of(table.sum(axis=1)), measure_of(table.sum(axis=0))]
    ends = [ends_of(each, by_order) for each, by_order in zip(measures, ordered, strict=True)]
    return sizes_of(table, measures, ends, float(table.sum()))


def _spread(
    contrasts: Contrasts, table: Floats, sizes: Floats, left: Floats, noise: Floats, rough: float, told: bool
) -> Scaled:
    """Posterior variance per unit of size, by level: halves, quarters, and so on.

    sizes: of cells. left, noise: posterior variances of the contrasts, and the noise's part; 0 where not measured.
    rough: prior variance per row of the finest contrasts that were measured. told: cells were measured; what is left is
    then as rough at all scales, and contrasts of a level that were not measured, such as of quarters with eighths, have
    that variance.
    """
    rows, levels = np.maximum(contrasts.rows(sizes), 1.0), contrasts.finest()
    measured, result = contrasts.families() < contrasts.depth, list[tuple[float, float]]()
    whole = np.where(measured, WIDER**2 * left, rough * contrasts.rows(table))
    for level in range(LEVELS):
        here = (levels == level) & (measured | told)
        if (measured & here).any():
            by_noise, by_both = (float(part[here].sum() / rows[here].sum()) for part in (noise, whole))
            result.append((by_noise, by_both - by_noise))
        else:
            rough = rough / FALL
            result.append((0.0, rough))
    return Scaled(tuple(part for part, _ in result), tuple(part for _, part in result))


@dataclass(frozen=True)
class OfThree:
    """Posterior contrast of the halves of three attributes, the spread of its error, and the prior spread."""

    contrast: float
    spread: float
    before: float


def of_three(
    contrasts: Mapping[Places, Contrasts], joined: Mapping[Places, tuple[float, float]]
) -> dict[Places, OfThree]:
    """Posterior of the contrasts of halves of sets of three attributes (empirical Bayes over sets).

    joined: for each set, the contrast implied by tables of smaller sets, and the number of all rows.
    """
    places = [triple for triple in contrasts if contrasts[triple].noisy.size]
    rows = {triple: max(joined[triple][1], 1.0) for triple in places}
    now = {triple: np.array([joined[triple][0]]) for triple in places}
    off = {triple: contrasts[triple].noisy.reshape(-1) - now[triple] for triple in places}
    items = [(off[triple], np.array([rows[triple]]), contrasts[triple].variance) for triple in places]
    result: dict[Places, OfThree] = {}
    for triple, (deviation, claimed, variance), weights in zip(places, items, learned_sizes(items), strict=True):
        mean, left, _ = posterior(deviation, claimed, variance, weights)
        contrast, spread = float((now[triple] + mean)[0]), WIDER**2 * float(left[0]) / rows[triple]
        result[triple] = OfThree(contrast, spread, float(weights @ SIZES))
    return result
