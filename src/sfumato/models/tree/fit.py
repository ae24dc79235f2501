"""A fit over the nodes of a binary tree: the estimate of every leaf, and the posterior variance of any sum of them.

A posterior over a tree is told by three numbers for every node: how much of one row more its first half gets (slope),
by how much its division into halves may be off by itself (deviation), and by how much together with all nodes of its
slice (leaning). The error of a weighted sum follows from the leaves to the root: a node's weight is that of its
halves, each by its slope; a division adds its variance times the squared difference of the halves' weights, a slice the
square of the sum of its nodes' leanings, each times that difference. Part of that error is noise and part is what the
prior takes for granted; the posterior does not tell them apart, so all of it counts as the model's.

The errors that a posterior over a tree has in sums of many groups, in one pass from the leaves to the root.

The same as TreeFit.errors group by group; a node is looked at for those groups only that have cells in it.

The covariances of every leaf of a tree with some weighted sums of leaves: up the tree and down again.

The number of all rows from noisy counts of the nodes of a tree by least squares, and where one row more would lie.

What is measured next hangs on what was seen, but every noise is drawn afresh, so that a node's own count and the sum
of its parts are each off by noise alone. Weighed by their variances they make the best of both without any prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.fit import (
    Arrays,
    ByModel,
    Errors,
    FitReader,
    Grouped,
    Inside,
    OfOneMeasurement,
    Sets,
    keep_in_parts,
    products,
    squares_by_group,
    summed,
)
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.domain.binary_tree import BinaryTree, nodes_over
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.measurement import Design, Laplace, Measurement
from sfumato.queries import Ranges

if TYPE_CHECKING:
    from sfumato.answers.noise_sum import Find

FINE = 2**30  # slopes are kept in whole multiples of 1 / FINE
MOST_LEAVES = 2**22  # of a tree of cells; with more the posterior takes longer than anyone waits
MOST_NODES = 3 * MOST_LEAVES  # of a tree, on all levels: where sides are odd there are many levels
STEEPEST = 4 * FINE


@dataclass(frozen=True, eq=False)
class TreeFit(ByModel, OfOneMeasurement):
    """A posterior over a tree whose leaves are cells, or buckets of cells.

    measurement: noisy counts of ranges of places in the tree. estimate: of every leaf. slopes: of every node that has
    halves, from the root, level by level, in whole multiples of 1 / FINE. deviations: of the whole, then of each
    node's division. leanings: of each node; none where every node is a slice of its own.
    """

    family = "tree"
    room = 3

    measurement: Measurement
    tree: BinaryTree
    estimate: Floats
    slopes: Codes
    deviations: Floats
    leanings: Floats

    def __post_init__(self) -> None:
        leaves, inner = len(self.estimate), inner_nodes(self.tree)
        if leaves != len(self.tree.order):
            raise QueryError(f"a tree of {len(self.tree.order)} leaves was fitted, the estimate has {leaves}")
        if self.slopes.shape != (inner,) or self.deviations.shape != (inner + 1,) or self.deviations.min() < 0:
            raise QueryError(f"this tree over {leaves} leaves has {inner} slopes and one deviation more, none negative")
        if self.leanings.shape != (inner if has_slices(self.tree) else 0,):
            raise QueryError(
                "a tree of several attributes has a leaning for each region with halves, any other has none"
            )
        if inner and not -STEEPEST <= int(self.slopes.min()) <= int(self.slopes.max()) <= STEEPEST:
            raise QueryError("a half gets about as many of its region's rows as there are; a slope is far from that")
        keep_in_parts(self, "estimate", "deviations", "leanings")

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        from sfumato.models.tree.guaranteed import Descent

        return Descent.of(self).ends

    def measured_inside(self, within: Sets) -> Inside | None:
        ranges = self.measurement.queries
        if not isinstance(ranges, Ranges):
            return None
        before = np.zeros((len(within) + 1, within.shape[1]), dtype=np.int64)
        np.cumsum(~within[self.tree.order], axis=0, out=before[1:])
        return [(self.measurement, before[ranges.highs + 1] == before[ranges.lows])]

    def errors(self, columns: Floats) -> Errors:
        """The errors of weighted sums of leaves; `columns` is (leaves, sums)."""
        sums = columns.shape[1]
        weights, model = columns[self.tree.order], np.zeros((sums, sums))
        slopes, variances = self.slopes / FINE, self.deviations[1:] ** 2
        end = len(slopes)
        for level in range(self.tree.height - 1, -1, -1):
            here = slice(end - self.tree.nodes(level), end)
            pair = self.tree.pair(level, np.arange(self.tree.nodes(level)))
            first = weights[pair[0]]
            second = np.where(pair[1][:, None] >= 0, weights[pair[1]], first)
            apart = first - second
            model += apart.T @ (variances[here, None] * apart)
            slices = self.tree.slices[level]
            if slices is not None:
                together = _summed(self.leanings[here, None] * apart, slices)
                model += together.T @ together
            weights, end = second + slopes[here, None] * apart, here.start
        model += self.deviations[0] ** 2 * np.outer(weights[0], weights[0])
        return self._all_model(model)

    def errors_by_group(self, asked: Grouped) -> list[Errors]:
        """The same for many groups; asked: weights of leaves."""

        place = np.empty_like(self.tree.order)
        place[self.tree.order] = np.arange(len(place))
        found = tree_covariances(self.tree, self.slopes / FINE, self.deviations, self.leanings, asked.moved(place))
        return [self._all_model(model) for model in found]

    def covariances(self, columns: Floats) -> Floats:
        """Of every leaf with some weighted sums of leaves."""

        return covariances_with(self.tree, self.slopes / FINE, self.deviations, self.leanings, columns)

    def moved(self, estimate: Floats) -> TreeFit:
        """The same errors around another estimate."""
        return replace(self, estimate=estimate)

    def _all_model(self, model: Floats) -> Errors:
        nothing, sums = Design(self.measurement.queries[:1], self.measurement.noises[:1]), len(model)
        return Errors(nothing, np.zeros((1, sums)), model, np.zeros(sums, dtype=np.bool_))

    def record(self, domain: Domain) -> Arrays:
        """Everything but the tree, which must be the one over the cells of a domain."""
        if not _alike(self.tree, BinaryTree.over(domain)):
            raise ReleaseFileError("a file keeps a tree over the cells of its domain only, cut as that domain is cut")
        return {"slopes": self.slopes, "deviations": self.deviations, "leanings": self.leanings}

    @classmethod
    def read(cls, file: FitReader) -> TreeFit:
        if file.domain.size > MOST_LEAVES or nodes_over(file.domain) > MOST_NODES:
            raise QueryError("it is a tree of more cells than Sfumato makes")
        measured = file.measurement(file.domain.size)
        if type(measured.queries) is not Ranges:
            raise QueryError("a tree is measured by ranges of its leaves")
        slopes, deviations, leanings = file.whole("slopes"), file.numbers("deviations"), file.numbers("leanings")
        return cls(measured, BinaryTree.over(file.domain), file.estimate, slopes, deviations, leanings)


def fit_tree(measured: Measurement, tree: BinaryTree, sizes: Codes | None = None) -> TreeFit:
    """The posterior of the leaves of a tree from noisy counts of its nodes (Ranges of places).

    Of all rows together it has no word: what a prior takes from every leaf adds up there. Their number is that of least
    squares, which assumes nothing, and the leaves are brought to it.

    sizes: how many cells each leaf is, along the tree; None: one each.
    """
    from sfumato.models.tree.messages import posterior_of
    from sfumato.models.tree.observation import Evidence

    along = np.ones(len(tree.order), dtype=np.int64) if sizes is None else sizes
    answers, scales = _by_level(measured, tree)
    laplace = isinstance(measured.noises[0], Laplace)
    found = posterior_of(Evidence.of(tree, along, answers, scales, laplace=laplace))
    by_squares = total_by_squares(tree, answers, scales, laplace=laplace)
    whole, variance = total_of_both((float(found.cells.sum()), found.total), by_squares)
    cells = found.cells + (whole - found.cells.sum()) * of_one_row_more(tree, found.slopes)
    estimate = np.empty(len(along))
    estimate[tree.order] = cells
    slopes = np.concatenate([*found.slopes, np.zeros(0)])
    deviations = np.sqrt(np.concatenate([np.array([variance]), *found.variances]))
    leanings = np.concatenate([*found.leanings, np.zeros(0)]) if has_slices(tree) else np.zeros(0)
    kept = np.rint(np.clip(slopes * FINE, -STEEPEST, STEEPEST)).astype(np.int64)
    return TreeFit(measured, tree, estimate, kept, deviations, leanings)


def inner_nodes(tree: BinaryTree) -> int:
    """How many nodes of a tree have halves."""
    return sum(tree.nodes(level) for level in range(tree.height))


def has_slices(tree: BinaryTree) -> bool:
    """Whether nodes of a tree may lean together."""
    return any(slices is not None for slices in tree.slices)


def _alike(one: BinaryTree, other: BinaryTree) -> bool:
    """Whether two trees cut the same cells in the same way."""
    if one.height != other.height or has_slices(one) != has_slices(other):
        return False
    return np.array_equal(one.order, other.order) and all(map(np.array_equal, one.begins, other.begins))


def _summed(rows: Floats, slices: Codes) -> Floats:
    """Rows summed by slice."""
    by_slice = np.argsort(slices, kind="stable")
    starts = np.flatnonzero(np.diff(slices[by_slice], prepend=-1))
    return np.asarray(np.add.reduceat(rows[by_slice], starts, axis=0))


def _by_level(measured: Measurement, tree: BinaryTree) -> tuple[list[Floats], list[Floats]]:
    """For every node of every level its noisy count and the scale of its noise, inf where it was not measured.

    Several answers for one node count as one: their mean, weighed by precision, with a scale that has its variance. A
    node that appears on several levels, because it cannot be cut there, is taken on the first.
    """
    queries, sizes = measured.queries, measured.design.sizes
    if not isinstance(queries, Ranges):
        raise QueryError("a tree is measured by ranges of its leaves")
    laplace = isinstance(measured.noises[0], Laplace)
    answers, scales = [], []
    taken = np.zeros(queries.rows, dtype=np.bool_)
    for begins in tree.begins:
        where = np.searchsorted(begins, queries.lows, side="right") - 1
        here = ~taken & (begins[where] == queries.lows) & (begins[where + 1] == queries.highs + 1)
        taken |= here
        count = len(begins) - 1
        precision = np.bincount(where[here], weights=1.0 / sizes[here], minlength=count)
        weighed = np.bincount(where[here], weights=measured.answers[here] / sizes[here], minlength=count)
        seen = precision > 0.0
        answers.append(np.divide(weighed, precision, out=np.zeros(count), where=seen))
        variance = np.divide(1.0, precision, out=np.full(count, np.inf), where=seen)
        scales.append(np.sqrt(variance * (0.5 if laplace else 1.0)))
    if not taken.all():
        raise QueryError("a tree is measured by counts of its own regions; a range in this measurement is none of them")
    return answers, scales


def tree_covariances(tree: BinaryTree, slopes: Floats, deviations: Floats, leanings: Floats, asked: Grouped) -> Floats:
    """The covariance of every group's sums, (groups, sums, sums). asked: weights of the leaves, in the tree's order."""
    groups, sums = asked.groups, asked.sums
    found = np.zeros((groups, sums, sums))
    variances, end = deviations[1:] ** 2, len(slopes)
    for level in range(tree.height - 1, -1, -1):
        here = slice(end - tree.nodes(level), end)
        asked, first, second, of_whole = _halved(tree, level, asked)
        apart, node = first - second, asked.place
        everywhere = None if of_whole is None else of_whole[0] - of_whole[1]
        if everywhere is not None:
            found += everywhere.T @ (variances[here, None] * everywhere)
            beside = everywhere[node]
            found += squares_by_group(asked.group, groups, variances[here][node], apart + beside, beside)
        else:
            found += squares_by_group(asked.group, groups, variances[here][node], apart)
        slices = tree.slices[level]
        if slices is not None:
            found += _leaning(asked, leanings[here], slices, apart, everywhere)
        slope = slopes[here, None]
        whole = None if of_whole is None or everywhere is None else of_whole[1] + slope * everywhere
        asked, end = replace(asked, weights=second + slope[node] * apart, whole=whole), here.start
    root = summed(asked.group, asked.weights, groups)
    if asked.whole is not None:
        root += asked.whole[0]
    return np.asarray(found + deviations[0] ** 2 * products(root, root))


def _halved(
    tree: BinaryTree, level: int, below: Grouped
) -> tuple[Grouped, Floats, Floats, tuple[Floats, Floats] | None]:
    """The nodes that groups touch on a level, and the weights of both halves of each; then those of the whole."""
    halves = tree.halves[level]
    parent = tree.above(level + 1, below.place)
    number, example = below.together(parent)
    second_half = below.place > halves[parent]
    first, second = (np.zeros((len(example), below.sums)) for _ in range(2))
    first[number[~second_half]] = below.weights[~second_half]
    second[number[second_half]] = below.weights[second_half]
    node = parent[example]
    alone = halves[node + 1] - halves[node] == 1
    second[alone] = first[alone]
    of_whole = None
    if below.whole is not None:
        pair = tree.pair(level, np.arange(tree.nodes(level)))
        left = below.whole[pair[0]]
        of_whole = left, np.where(pair[1][:, None] >= 0, below.whole[pair[1]], left)
    return replace(below, place=node, group=below.group[example]), first, second, of_whole


def _leaning(asked: Grouped, leanings: Floats, slices: Codes, apart: Floats, everywhere: Floats | None) -> Floats:
    """What nodes that lean together add: the square of their sum, slice by slice."""
    groups, count = asked.groups, int(slices.max(initial=-1)) + 1
    key = slices[asked.place] * groups + asked.group
    if count * groups <= 4 * len(key) + 2**16:
        touched, number = np.arange(count * groups), key
    else:
        touched, number = np.unique(key, return_inverse=True)
    together = summed(number.reshape(-1), leanings[asked.place, None] * apart, len(touched))
    ones = np.ones(len(touched))
    if everywhere is None:
        return squares_by_group(touched % groups, groups, ones, together)
    in_all = summed(slices, leanings[:, None] * everywhere, count)
    beside = in_all[touched // groups]
    return squares_by_group(touched % groups, groups, ones, together + beside, beside) + in_all.T @ in_all


def covariances_with(tree: BinaryTree, slopes: Floats, deviations: Floats, leanings: Floats, columns: Floats) -> Floats:
    """For each leaf its covariance with every sum, (leaves, sums); columns: (leaves, sums), as TreeFit.errors has them.

    On the way up a node's halves weigh apart; what that adds to the variance is handed down to both, with its sign.
    """
    weights, variances = columns[tree.order], deviations[1:] ** 2
    added: list[Floats] = []
    end = len(slopes)
    for level in range(tree.height - 1, -1, -1):
        here = slice(end - tree.nodes(level), end)
        pair = tree.pair(level, np.arange(tree.nodes(level)))
        first = weights[pair[0]]
        second = np.where(pair[1][:, None] >= 0, weights[pair[1]], first)
        apart = first - second
        moves = variances[here, None] * apart
        slices = tree.slices[level]
        if slices is not None:
            lean = leanings[here, None]
            moves += lean * summed(slices, lean * apart, int(slices.max()) + 1)[slices]
        added.append(moves)
        weights, end = second + slopes[here, None] * apart, here.start
    found, start = deviations[0] ** 2 * weights, 0
    for level in range(tree.height):
        here = slice(start, start + tree.nodes(level))
        pair = tree.pair(level, np.arange(tree.nodes(level)))
        moves, slope = added.pop(), slopes[here, None]
        below = np.empty((tree.nodes(level + 1), columns.shape[1]))
        alone = pair[1] < 0
        below[pair[0]] = np.where(alone[:, None], found, slope * found + moves)
        below[pair[1][~alone]] = ((1.0 - slope) * found - moves)[~alone]
        found, start = below, here.stop
    leaves: Floats = np.empty_like(found)
    leaves[tree.order] = found
    return leaves


FAR_BETTER = 4.0  # times less variance


def total_by_squares(
    tree: BinaryTree, answers: Sequence[Floats], scales: Sequence[Floats], *, laplace: bool
) -> tuple[float, float]:
    """The total and the variance of its noise. scales: as Evidence has them, inf where a node was not measured."""
    mean, variance = np.zeros(tree.nodes(tree.height)), np.full(tree.nodes(tree.height), np.inf)
    for level in range(tree.height, -1, -1):
        if level < tree.height:
            starts = tree.halves[level][:-1]
            mean, variance = np.add.reduceat(mean, starts), np.add.reduceat(variance, starts)
        own = (2.0 if laplace else 1.0) * scales[level] ** 2
        precision = 1.0 / own + 1.0 / variance  # 0 where neither was measured
        weighed = answers[level] / own + mean / variance
        mean = np.divide(weighed, precision, out=np.zeros_like(weighed), where=precision > 0.0)
        variance = np.divide(1.0, precision, out=np.full_like(precision, np.inf), where=precision > 0.0)
    return float(mean[0]), float(variance[0])


def total_of_both(by_prior: tuple[float, float], by_squares: tuple[float, float]) -> tuple[float, float]:
    """The total to go by and its variance: that of least squares, unless the posterior claims to know far better.

    So it does where next to nothing but leaves was measured, most of them empty: all of their noise is in their sum,
    and the posterior is moved only by as much as it differs beyond that noise (Stein).
    """
    (mean, variance), (squares, noise) = by_prior, by_squares
    if not np.isfinite(noise):  # something was measured nowhere
        return mean, variance
    if noise <= FAR_BETTER * variance:
        return squares, noise
    weight = max(0.0, 1.0 - noise / max((squares - mean) ** 2, 1e-300))
    return mean + weight * (squares - mean), weight * noise + (1.0 - weight) * variance


def of_one_row_more(tree: BinaryTree, slopes: Sequence[Floats]) -> Floats:
    """Which part of one row more in all would lie at each place of the tree."""
    parts = np.ones(1)
    for level, slope in enumerate(slopes):
        pair = tree.pair(level, np.arange(tree.nodes(level)))
        below, alone = np.empty(tree.nodes(level + 1)), pair[1] < 0
        below[pair[0]] = np.where(alone, parts, slope * parts)
        below[pair[1][~alone]] = ((1.0 - slope) * parts)[~alone]
        parts = below
    return parts
