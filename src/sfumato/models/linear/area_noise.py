"""Noise of the counts of many areas at once: generalised least squares on a tree, in two passes over it.

With s the variance of an area's count as estimated from the rows inside it, S the sum of s over its children, p the
precision of its own row and alpha = p S / (1 + p S), this estimate is y' = alpha own + (1 - alpha) z, z being the sum
of its children's. Downwards, with r = s / S,

    x_v = y'_v + r (x_u - z_u),    x_u = g_u z_u + what does not depend on z_u,    h_v = 1 + r (g_u - 1) = dx_v / dy'_v,

so that g_v = h_v (1 - alpha_v), the weight of the own row is h alpha, and variances by noise follow without any area
being solved for by itself. Along the other axes a query is the same for all areas, and solved for once.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.evaluate import Terms
from sfumato.answers.fieller import Term, normal_terms
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.measurement import Noise
from sfumato.queries import Tree

if TYPE_CHECKING:
    from sfumato.answers.fitted_noise import SumWeights
    from sfumato.least_squares.closed_forms import WeightedAxis

NORMAL_SHARE = (
    2.0**-5
)  # of the variance, up to which the largest noise of the rest may be; its kurtosis is then under 0.1
MOST_BESIDE = 2**16  # cells of the other axes together
MOST_OWN = 24  # distinct noises of an area's own rows
DIGITS = 10  # to which areas with equal noise are told


@dataclass(frozen=True, eq=False)
class AreaNoise:
    """Noise of the estimates of some areas along a tree.

    own: weight of the area's own row, 0 where it has none; kind: number of its noise; squares: sums of squared weights
    of all rows by noise, (areas, noises); largest: the largest share of the variance of a single other row, (areas,).
    """

    own: Floats
    kind: Codes
    squares: Floats
    largest: Floats


@dataclass(frozen=True, eq=False)
class _Level:
    """Areas of one level: first child of each on the next, and precision (0 if not asked) and noise of its own row."""

    first: Codes
    precisions: Floats
    kinds: Codes


def area_noise(tree: Tree, precisions: Floats, kinds: Codes, starts: Codes, ends: Codes) -> AreaNoise | None:
    """Noise of the areas from cell `starts` to `ends`; None where they are no areas of one level of the tree.

    precisions, kinds: of each row of the tree. The areas may form a level between two levels of the tree.
    """
    cuts, place = _with_level(tree, np.unique(np.concatenate([starts, ends])))
    levels, end = list[_Level](), 0
    rows = dict(zip(map(len, tree.levels), tree.asked, strict=True))
    for number, upper in enumerate(cuts):
        first = np.searchsorted(cuts[number + 1], upper) if number + 1 < len(cuts) else np.arange(len(upper))
        asked: Flags = rows.get(len(upper), np.zeros(len(upper) - 1, dtype=bool))
        many = int(asked.sum())
        own, kind = np.zeros(len(upper) - 1), np.zeros(len(upper) - 1, dtype=np.int64)
        own[asked], kind[asked] = precisions[end : end + many], kinds[end : end + many]
        levels.append(_Level(first, own, kind))
        end += many
    at = np.searchsorted(cuts[place], starts)
    whole = (cuts[place][at] == starts).all() and (cuts[place][np.minimum(at + 1, len(cuts[place]) - 1)] == ends).all()
    return _passes(levels, place, at, int(kinds.max()) + 1) if whole else None


def _with_level(tree: Tree, wanted: Codes) -> tuple[list[Codes], int]:
    """Levels of the tree with one inserted that has all boundaries of the query, and the index of that one."""
    cuts = tree.levels
    place = next(number for number, level in enumerate(cuts) if np.isin(wanted, level).all())
    own = wanted if not place else np.union1d(wanted, cuts[place - 1])
    own = np.union1d(own, [0, tree.columns])
    if len(own) == len(cuts[place]):
        return cuts, place
    return [*cuts[:place], own, *cuts[place:]], place


def _passes(levels: Sequence[_Level], place: int, at: Codes, kinds: int) -> AreaNoise:
    """Run both passes for the areas `at` of level `place`. kinds: number of distinct noises."""
    one, precision = np.eye(kinds), np.zeros(kinds)
    ups = [_leaves(levels[-1], one)]
    for level in levels:
        precision[level.kinds[level.precisions > 0]] = level.precisions[level.precisions > 0]
    for level in reversed(levels[:-1]):
        ups.append(_above(level, ups[-1], one))
    up = ups.pop()
    reach, outside, far = np.ones(len(up.alone)), np.zeros_like(up.parts), np.zeros(len(up.alone))  # h, and the rest
    for level in levels[:place]:
        own = _squared(reach * up.share, level.precisions)
        gain, children = reach * (1.0 - up.share) - 1.0, np.diff(level.first)
        parents, below = np.repeat(np.arange(len(children)), children), ups.pop()
        several = children > 1
        siblings = (up.inside[parents] - below.parts) * (gain**2 * several)[parents][:, None]
        part = below.alone / up.total[parents]
        outside = (part**2)[:, None] * (siblings + (own[:, None] * one[level.kinds] + outside)[parents])
        far_above, far = far, part**2 * np.maximum(gain**2 * up.largest * several, np.maximum(own, far))[parents]
        beside_above, reach_above, up_above = np.maximum(reach**2 * up.others, far_above), reach, up
        reach, up = 1.0 + part * gain[parents], below
        same = ~several[parents] & (below.own == 0.0)  # an area that is asked as the one above alone
        above = [each[parents] for each in (reach_above * up_above.own, up_above.kind, beside_above)]
    variances = (reach**2)[:, None] * up.parts + outside
    own, kind, others = reach * up.own, up.kind, np.maximum(reach**2 * up.others, far)
    if place:
        own, kind, others = (np.where(same, *pair) for pair in zip(above, (own, kind, others), strict=True))
    return AreaNoise(own[at], kind[at], (variances * precision)[at], (others / variances.sum(axis=1))[at])


@dataclass(frozen=True, eq=False)
class _Up:
    """Upward pass: estimate of each area's count from the measured rows inside it.

    alone, parts, most: its variance, the same by noise, and the largest part of it due to one row. share: alpha. total,
    inside, largest: these three for the sum of its children's estimates. own, kind: weight and noise of the row that
    counts the area itself, which may be that of its only child. others: largest variance due to any other row.
    """

    alone: Floats
    parts: Floats
    share: Floats
    total: Floats
    inside: Floats
    largest: Floats
    own: Floats
    kind: Codes
    others: Floats
    most: Floats


def _leaves(level: _Level, one: Floats) -> _Up:
    alone = 1.0 / level.precisions
    zeros = np.zeros(len(alone))
    parts, ones = one[level.kinds] * alone[:, None], np.ones(len(alone))
    return _Up(alone, parts, ones, zeros, zeros[:, None], zeros, ones, level.kinds, zeros, alone)


def _above(level: _Level, below: _Up, one: Floats) -> _Up:
    starts = level.first[:-1]
    total, largest = np.add.reduceat(below.alone, starts), np.maximum.reduceat(below.most, starts)
    inside = np.add.reduceat(below.parts, starts, axis=0)
    alone = total / (1.0 + level.precisions * total)
    share = level.precisions * alone
    own = _squared(share, level.precisions)
    parts = (1.0 - share[:, None]) ** 2 * inside + own[:, None] * one[level.kinds]
    only = (np.diff(level.first) == 1) & (level.precisions == 0)
    weight, kind = np.where(only, below.own[starts], share), np.where(only, below.kind[starts], level.kinds)
    others = np.where(only, below.others[starts], (1.0 - share) ** 2 * largest)
    most = np.maximum(own, (1.0 - share) ** 2 * largest)
    return _Up(alone, parts, share, total, inside, largest, weight, kind, others, most)


def _squared(weights: Floats, precisions: Floats) -> Floats:
    """Variance contributed by the areas' own rows at these weights; 0 for areas not measured."""
    return np.divide(weights**2, precisions, out=np.zeros_like(weights), where=precisions > 0)


@dataclass(frozen=True, eq=False)
class Beside:
    """Measured rows along the axes other than the areas', common to all areas of a query.

    weights, kinds, precisions: of each row. noises: by noise of the tree and kind, the noise of the rows' product.
    """

    weights: Floats
    kinds: Codes
    precisions: Floats
    noises: tuple[tuple[Noise, ...], ...]

    def terms(self, areas: AreaNoise, sums: int) -> list[Terms]:
        """Noise terms of each area: those of its own rows, and a normal law for the rest.

        None for an area of which another row has more than NORMAL_SHARE of the variance.
        """
        pairs, many = np.unique(
            np.column_stack([np.round(self.weights, DIGITS), self.kinds]), axis=0, return_counts=True
        )
        if len(pairs) > MOST_OWN:
            return [None] * len(areas.own)
        parts = self.weights**2 / self.precisions
        enough = areas.largest * (parts.max() / parts.sum()) <= NORMAL_SHARE
        squares = np.bincount(self.kinds, self.weights**2, minlength=len(self.noises[0]))
        variances = np.array([[noise.variance for noise in row] for row in self.noises]) @ squares
        rest = np.maximum(areas.squares @ variances - areas.own**2 * variances[areas.kind], 0.0)
        alike = np.column_stack([np.round(areas.own, DIGITS), areas.kind, np.round(rest, DIGITS), enough])
        _, example, place = np.unique(alike, axis=0, return_index=True, return_inverse=True)
        back, distinct = np.zeros(sums, dtype=np.int64), list[Terms]()
        for area in example.tolist():
            own = [
                Term.of(
                    self.noises[areas.kind[area]][int(kind)], int(number), *[float(areas.own[area] * weight)] * sums
                )
                for (weight, kind), number in zip(pairs.tolist(), many.tolist(), strict=True)
                if areas.own[area] and weight
            ]
            normal = normal_terms(rest[area].reshape(1, 1), back, model=False)
            distinct.append((*own, *normal) if enough[area] else None)
        return [distinct[number] for number in place.reshape(-1).tolist()]


def terms_of_areas(
    trees: Sequence[WeightedAxis],
    codes: Sequence[Codes],
    noises: Sequence[Noise],
    query: SumWeights,
    domain: Domain,
    present: Codes,
) -> dict[int, Terms]:
    """Noise terms of counts by area, by the index of a present group; groups to be solved for one by one are left out.

    trees: the fit's axes; codes: noise class of each of their rows; noises: of every combination of these classes, the
    last axis fastest.
    """
    found = Asked.of(query, domain, [number for number, axis in enumerate(trees) if type(axis.queries) is Tree])
    if found is None:
        return {}
    place, tree = found.place, trees[found.place]
    areas = area_noise(tree.queries, tree.precisions, codes[place], found.starts, found.ends)  # type: ignore[arg-type]
    others = [number for number in range(len(trees)) if number != place]
    if areas is None or prod(domain.shape[number] for number in others) > MOST_BESIDE:
        return {}
    kinds = [int(each.max()) + 1 for each in codes]
    numbers = np.moveaxis(np.arange(len(noises)).reshape(kinds), place, 0).reshape(kinds[place], -1).tolist()
    table = tuple(tuple(noises[number] for number in row) for row in numbers)
    precisions, kind = np.ones(1), np.zeros(1, dtype=np.int64)
    for number in others:
        precisions = np.multiply.outer(precisions, trees[number].precisions).reshape(-1)
        kind = np.add.outer(kind * kinds[number], codes[number]).reshape(-1)
    result: dict[int, Terms] = {}
    index = {group: at for at, group in enumerate(present.tolist())}
    for offset, asked in found.beside:
        weights = asked.reshape([domain.shape[number] for number in others])
        for axis, number in enumerate(others):  # A (A^T P A)^-1 along each axis
            front = np.moveaxis(weights, axis, 0)
            solved = trees[number].inverse.solve(np.ascontiguousarray(front.reshape(len(front), -1)))[0]
            rows = np.asarray(trees[number].queries @ solved)
            weights = np.moveaxis(rows.reshape(len(rows), *front.shape[1:]), 0, axis)
        beside = Beside(weights.reshape(-1) * precisions, kind, precisions, table)
        for group, terms in zip((found.groups + offset).tolist(), beside.terms(areas, len(query.answer)), strict=True):
            if terms is not None and group in index:
                result[index[group]] = terms
    return result


@dataclass(frozen=True, eq=False)
class Asked:
    """Grouped sum over a product of areas (runs of cells) along one axis and weights along the other axes.

    place: of the axis. starts, ends: cells of each area. groups: of each area, its group number along this axis.
    beside: for each combination of groups along the other axes, what it adds to the group number and the weights of the
    other axes' cells.
    """

    place: int
    starts: Codes
    ends: Codes
    groups: Codes
    beside: list[tuple[int, Floats]]

    @classmethod
    def of(cls, query: SumWeights, domain: Domain, trees: Sequence[int]) -> Asked | None:
        """Recognise weights as areas along one axis times weights along the others; None for any other form."""
        places = sorted(domain.place(name) for name in query.names)
        along = [number for number in trees if number in places]
        if not along or query.whole.any() or query.split.shape[1] != 1:
            return None
        place = max(along, key=lambda number: domain.shape[number])
        grid = [domain.shape[number] for number in places]
        front = places.index(place)
        weights: Floats = np.moveaxis(query.split.reshape(grid), front, 0).reshape(domain.shape[place], -1)
        group: Codes = np.moveaxis(query.group.reshape(grid), front, 0).reshape(domain.shape[place], -1)
        inside = np.asarray(weights.any(axis=1))
        if not inside.any():
            return None
        first = int(inside.argmax())
        base, own = group[0] - group[0, 0], group[:, 0]
        if (weights[inside] != weights[first]).any() or (group != own[:, None] + base).any():
            return None
        changes = np.flatnonzero(np.append(True, (own[1:] != own[:-1]) | (inside[1:] != inside[:-1])))
        stops = np.append(changes[1:], len(own))
        kept = inside[changes]
        starts, ends, groups = changes[kept], stops[kept], own[changes[kept]]
        offsets = np.unique(base)
        if len(np.unique(np.add.outer(groups, offsets))) < len(groups) * len(offsets):
            return None
        others = [number for number in range(len(domain.shape)) if number != place]
        shape = [domain.shape[number] if number in places else 1 for number in others]
        beside = []
        for offset in offsets.tolist():
            asked = np.where(base == offset, weights[first], 0.0).reshape(shape)
            beside.append((offset, np.broadcast_to(asked, [domain.shape[number] for number in others])))
        return cls(place, starts, ends, groups, beside)
