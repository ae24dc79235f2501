"""Posterior of a binary tree as a fit: estimates of the leaves, and posterior covariances of sums of leaves.

Posterior. For every inner node i with children a, b: E[X_a | X_i] has the slope s_i in X_i, its residual has the
standard deviation d_i, and a share error common to all nodes of a slice enters with the loading l_i. The variance of a
weighted sum of leaves follows in one pass from the leaves to the root: with w_a, w_b the weights of the children,

    w_i = w_b + s_i (w_a - w_b),   var += d_i^2 (w_a - w_b)^2,   var += (sum over a slice of l_i (w_a - w_b))^2,

and var += d_root^2 w_root^2 at the end. Noise and prior are not separable in a posterior, so all of it counts as model
error. `tree_covariances` does the same for many groups at once, `covariances_with` for every leaf with a sum (up the
tree and down again).

The total is estimated by itself, and leaves are moved to it along the slopes (observation.py).

Structural zeros. The posterior is that of the tree pruned of leaves that hold no row. Put back, such a leaf has the
estimate 0: its node gives all of its rows to the other half, slope 0 or 1 and deviation 0, and so errs by nothing.

Confidence bounds for sums of cells from adaptive counts of a tree, valid for every rule of descent.

The noise of a count decides what is measured next, so that, given what was measured, noises are not centred: a node
that was not refined has a negative noise more often than not. What holds for every rule is that a node's noise is fresh
when the node is asked for. So rounds of counts are gone through in the order of measurement; whether a node enters,
with which weight and with which share of the error probability, depends on queries up to its own round only.

Lower bound for sum_c w_c x_c. The nodes of the first round partition the cells; each enters with the least weight of
its cells. The remainder of the weights is not negative; in later rounds a node enters if the remainder is constant on
it and not yet covered. A remainder that is never covered counts as zero. Nodes of one round are disjoint, with
independent noises, and their quantile is that of the exact distribution of the weighted noise sum. The last round that
is needed gets all of the error probability left, earlier ones half of it. The upper bound is the negative of the lower
bound for -w; a sum within one node is also at most the largest weight times that node's upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
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
from sfumato.answers.noise_sum import Ends, lowest, reach
from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Domain
from sfumato.domain.binary_tree import BinaryTree, nodes_over
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.queries import Ranges

if TYPE_CHECKING:
    from sfumato.answers.noise_sum import Find

FINE = 2**30  # slopes are kept in whole multiples of 1 / FINE
MOST_LEAVES = 2**22  # of a tree of cells; with more the posterior takes longer than anyone waits
MOST_NODES = 3 * MOST_LEAVES  # of a tree, on all levels: where sides are odd there are many levels
STEEPEST = 4 * FINE


@dataclass(frozen=True, eq=False)
class TreeFit(ByModel, OfOneMeasurement):
    """Posterior over a tree whose leaves are cells, or buckets of cells.

    measurement: noisy counts of ranges of leaves, in tree order.
    estimate: posterior means, (leaves,).
    slopes: of every inner node, level by level from the root, in whole multiples of 1 / FINE, (inner,).
    deviations: of the total, then of each inner node's split, (inner + 1,).
    leanings: loadings on the slice effects, (inner,); empty where there are none.
    possible: flags of the leaves that are no structural zeros, (leaves,); None where all may hold rows.
    """

    family = "tree"
    room = 3

    measurement: Measurement
    tree: BinaryTree
    estimate: Floats
    slopes: Codes
    deviations: Floats
    leanings: Floats
    possible: Flags | None = None

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
        """Confidence bounds that hold for every table."""

        measured, tree = self.pruned
        return Descent.of(measured, tree.order).ends

    @property
    def pruned(self) -> tuple[Measurement, BinaryTree]:
        """The measurement, and the tree pruned of structural zeros, over the leaves that are left."""
        return without_zeros(self.measurement, self.tree, self.possible)

    def measured_inside(self, within: Sets) -> Inside | None:
        """Measured nodes that lie within each set of cells; within: (cells, sets)."""
        ranges = self.measurement.queries
        if not isinstance(ranges, Ranges):
            return None
        before = np.zeros((len(within) + 1, within.shape[1]), dtype=np.int64)
        np.cumsum(~within[self.tree.order], axis=0, out=before[1:])
        return [(self.measurement, before[ranges.highs + 1] == before[ranges.lows])]

    def errors(self, columns: Floats) -> Errors:
        """Posterior covariance of weighted sums of leaves; columns: (leaves, sums)."""
        varying = np.flatnonzero((columns != columns[0]).any(axis=0))  # any other sum has no halves that differ
        weights, root = columns[self.tree.order][:, varying], columns[0].copy()
        split = np.zeros((len(varying), len(varying)))
        variances, end = self.deviations[1:] ** 2, len(self.slopes)
        for level in range(self.tree.height - 1, -1, -1) if len(varying) else ():
            here = slice(end - self.tree.nodes(level), end)
            halves = self.tree.halves[level]
            second = weights.take(halves[1:] - 1, axis=0)  # of a node with one child, that child
            apart = weights.take(halves[:-1], axis=0) - second
            split += apart.T @ (variances[here, None] * apart)
            slices = self.tree.slices[level]
            if slices is not None:
                together = _summed(self.leanings[here, None] * apart, slices)
                split += together.T @ together
            weights, end = second + (self.slopes[here] / FINE)[:, None] * apart, here.start
        root[varying] = weights[0]
        model = self.deviations[0] ** 2 * np.outer(root, root)
        model[np.ix_(varying, varying)] += split
        return Errors.all_model(self.measurement.design, model)

    def errors_by_group(self, asked: Grouped) -> list[Errors]:
        """Posterior covariance of the sums of each of many groups; asked: their weights by leaf."""

        position = np.empty_like(self.tree.order)
        position[self.tree.order] = np.arange(len(position))
        covariance = tree_covariances(
            self.tree, self.slopes / FINE, self.deviations, self.leanings, asked.moved(position)
        )
        return Errors.all_models(self.measurement.design, covariance)

    def drawn_shares(self, asked: Grouped) -> Floats:
        """Noise's share of the posterior variance of every group's sums, given the total, (groups, sums).

        A split is the mean by precision of an estimate from data, of variance s, and one from the prior. So of its
        posterior variance v, v^2 / s is from noise, and the remainder from the prior.
        """
        from sfumato.models.tree.observation import counts_by_level, split_variances

        position = np.empty_like(self.tree.order)
        position[self.tree.order] = np.arange(len(position))
        asked, none = asked.moved(position), np.zeros_like(self.leanings)
        measured, tree = self.pruned
        by_data = split_variances(tree, counts_by_level(measured, tree))
        if self.possible is not None:
            by_data = _put_back(by_data, self.tree, self.possible, ends=(inf, inf))
        shares = np.minimum(1.0, self.deviations[1:] ** 2 / by_data)
        slopes, deviations = self.slopes / FINE, np.append(0.0, self.deviations[1:])
        drawn = tree_covariances(self.tree, slopes, np.append(0.0, np.sqrt(shares)) * deviations, none, asked)
        whole = tree_covariances(self.tree, slopes, deviations, self.leanings, asked)
        parts, wholes = (np.diagonal(each, axis1=1, axis2=2) for each in (drawn, whole))
        return np.divide(parts, wholes, out=np.zeros_like(wholes), where=wholes > 0.0)

    def covariances(self, columns: Floats) -> Floats:
        """Posterior covariances of every leaf with weighted sums of leaves, (leaves, sums)."""

        return covariances_with(self.tree, self.slopes / FINE, self.deviations, self.leanings, columns)

    def moved(self, estimate: Floats) -> TreeFit:
        """Fit with the same posterior covariance around another estimate, (leaves,)."""
        return replace(self, estimate=estimate)

    def record(self, domain: Domain) -> Arrays:
        """Arrays that a file keeps; the tree itself must be the one that the domain implies."""
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
        tree = BinaryTree.over(file.domain)
        return cls(measured, tree, file.estimate, slopes, deviations, leanings, file.possible)


def without_zeros(measured: Measurement, tree: BinaryTree, possible: Flags | None) -> tuple[Measurement, BinaryTree]:
    """A measurement of a tree's nodes, and the tree pruned of structural zeros, both over the leaves that are left."""
    if possible is None or not isinstance(measured.queries, Ranges):
        return measured, tree
    found = tree.pruned(possible)
    lows, ends = found.before[measured.queries.lows], found.before[measured.queries.highs + 1]
    if (ends <= lows).any():
        raise QueryError("a region was measured that no row can be in")
    return replace(measured, queries=Ranges(len(found.tree.order), lows, ends - 1)), found.tree


def fit_tree(
    measured: Measurement,
    tree: BinaryTree,
    sizes: Codes | None = None,
    descents: Sequence[Measurement] = (),
    possible: Flags | None = None,
) -> TreeFit:
    """Posterior of the leaves of a tree from noisy counts of its nodes (ranges of leaves in tree order).

    The total is that of `total_of_all`, and the leaves are adjusted to it. sizes: number of cells of each leaf,
    (leaves,); None: one each. descents: independent measurements stacked into `measured`, if several. possible: flags
    of the leaves that are no structural zeros, (leaves,); None: all.
    """
    from sfumato.models.tree.messages import posterior_of
    from sfumato.models.tree.observation import (
        Evidence,
        Total,
        counts_by_level,
        mean_total,
        of_one_row_more,
        total_by_squares,
        total_of_all,
        unbiased_total,
    )

    asked, left = without_zeros(measured, tree, possible)
    along = np.ones(len(tree.order), dtype=np.int64) if sizes is None else sizes
    counts = counts_by_level(asked, left)
    evidence = Evidence.of(
        left, along if possible is None else along[left.order], counts.answers, counts.scales, laplace=counts.laplace
    )
    posterior = posterior_of(evidence)
    by_squares = total_by_squares(left, counts)
    by_prior = Total(float(posterior.cells.sum()), posterior.total, posterior.total)
    every = [without_zeros(one, tree, possible)[0] for one in descents] or [asked]
    unbiased = mean_total([unbiased_total(one, left, by_squares) for one in every])
    whole, variance = total_of_all(by_prior, by_squares, unbiased)
    cells = posterior.cells + (whole - posterior.cells.sum()) * of_one_row_more(left, posterior.slopes)
    estimate = np.zeros(len(along))
    estimate[left.order] = cells
    slopes, variances, leanings = (
        np.concatenate([*each, np.zeros(0)]) for each in (posterior.slopes, posterior.variances, posterior.leanings)
    )
    if possible is not None:
        slopes = _put_back(slopes, tree, possible, ends=(1.0, 0.0))
        variances, leanings = (_put_back(each, tree, possible) for each in (variances, leanings))
    deviations = np.sqrt(np.append(variance, variances))
    kept = np.rint(np.clip(slopes * FINE, -STEEPEST, STEEPEST)).astype(np.int64)
    return TreeFit(measured, tree, estimate, kept, deviations, leanings if has_slices(tree) else np.zeros(0), possible)


def _put_back(values: Floats, tree: BinaryTree, possible: Flags, ends: tuple[float, float] = (0.0, 0.0)) -> Floats:
    """Expand values of the inner nodes of a pruned tree to those of the whole tree, (inner,).

    ends: value of a node of which the first half alone is left, and of one with the second half alone or with none.
    """
    found, result, start = tree.pruned(possible), list[Floats](), 0
    for level in range(tree.height):
        nodes, below = found.nodes[level], found.nodes[level + 1]
        own, start = values[start : start + len(nodes)], start + len(nodes)
        first = below[found.tree.halves[level][:-1]] == tree.halves[level][nodes]
        both = np.diff(found.tree.halves[level]) == 2
        here = np.full(tree.nodes(level), ends[1])
        here[nodes] = np.where(both, own, np.where(first, *ends))
        result.append(here)
    return np.concatenate([*result, np.zeros(0)])


def inner_nodes(tree: BinaryTree) -> int:
    """Number of nodes that have children."""
    return sum(tree.nodes(level) for level in range(tree.height))


def has_slices(tree: BinaryTree) -> bool:
    """Whether the tree has slices: nodes with a common share effect."""
    return any(slices is not None for slices in tree.slices)


def _alike(first: BinaryTree, other: BinaryTree) -> bool:
    """Whether two trees divide the same cells in the same way."""
    if first.height != other.height or has_slices(first) != has_slices(other):
        return False
    return np.array_equal(first.order, other.order) and all(map(np.array_equal, first.begins, other.begins))


def _summed(rows: Floats, slices: Codes) -> Floats:
    """Sum rows by slice, (slices, sums)."""
    by_slice = np.argsort(slices, kind="stable")
    starts = np.flatnonzero(np.diff(slices[by_slice], prepend=-1))
    return np.asarray(np.add.reduceat(rows[by_slice], starts, axis=0))


def tree_covariances(tree: BinaryTree, slopes: Floats, deviations: Floats, leanings: Floats, asked: Grouped) -> Floats:
    """Posterior covariance of every group's sums, (groups, sums, sums); asked: weights of the leaves, in tree order."""
    groups, sums = asked.groups, asked.sums
    covariance = np.zeros((groups, sums, sums))
    variances, end = deviations[1:] ** 2, len(slopes)
    for level in range(tree.height - 1, -1, -1):
        here = slice(end - tree.nodes(level), end)
        asked, first, second, of_whole = _halved(tree, level, asked)
        apart, node = first - second, asked.place
        everywhere = None if of_whole is None else of_whole[0] - of_whole[1]
        if everywhere is not None:
            covariance += everywhere.T @ (variances[here, None] * everywhere)
            beside = everywhere[node]
            covariance += squares_by_group(asked.group, groups, variances[here][node], apart + beside, beside)
        else:
            covariance += squares_by_group(asked.group, groups, variances[here][node], apart)
        slices = tree.slices[level]
        if slices is not None:
            covariance += _leaning(asked, leanings[here], slices, apart, everywhere)
        slope = slopes[here, None]
        whole = None if of_whole is None or everywhere is None else of_whole[1] + slope * everywhere
        asked, end = replace(asked, weights=second + slope[node] * apart, whole=whole), here.start
    root = summed(asked.group, asked.weights, groups)
    if asked.whole is not None:
        root += asked.whole[0]
    return np.asarray(covariance + deviations[0] ** 2 * products(root, root))


def _halved(
    tree: BinaryTree, level: int, below: Grouped
) -> tuple[Grouped, Floats, Floats, tuple[Floats, Floats] | None]:
    """Split the weights of each node by its two children: nodes, weights of first and of second children.

    Weights are (entries, sums), an entry for each node and group that touches it. Last: weights of both children that
    are the same for all groups, (nodes, sums) each, or None.
    """
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
    """Covariance from slice effects: the outer product, by slice, of the summed loadings, (groups, sums, sums)."""
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
    """Posterior covariances of every leaf with every sum, (leaves, sums).

    columns: (leaves, sums), as in TreeFit.errors. Up the tree each node's share of the variance is recorded; down the
    tree it is added to one child and taken from the other.
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
    covariance, start = deviations[0] ** 2 * weights, 0
    for level in range(tree.height):
        here = slice(start, start + tree.nodes(level))
        pair = tree.pair(level, np.arange(tree.nodes(level)))
        moves, slope = added.pop(), slopes[here, None]
        below = np.empty((tree.nodes(level + 1), columns.shape[1]))
        alone = pair[1] < 0
        below[pair[0]] = np.where(alone[:, None], covariance, slope * covariance + moves)
        below[pair[1][~alone]] = ((1.0 - slope) * covariance - moves)[~alone]
        covariance, start = below, here.stop
    leaves: Floats = np.empty_like(covariance)
    leaves[tree.order] = covariance
    return leaves


# -- guaranteed bounds


@dataclass(frozen=True, eq=False)
class Descent:
    """Counts of a tree in the order of measurement; rounds: row numbers of counts measured at once."""

    order: Codes
    measured: Measurement
    ranges: Ranges
    rounds: tuple[Codes, ...]

    @classmethod
    def of(cls, measured: Measurement, order: Codes) -> Descent:
        """Counts of a tree, grouped into rounds; order: the cells from left to right."""
        assert isinstance(measured.queries, Ranges)  # noqa: S101 (as every tree is measured)
        return cls(order, measured, measured.queries, tuple(rounds_of(measured.queries)))

    def ends(self, low: Floats, high: Floats, tail: float) -> Ends:
        """Confidence limits of a sum; tail: error probability of each end.

        low, high: lower and upper bound of each cell's weight, (cells,).
        """
        least, most = low[self.order], high[self.order]
        inside = self._around(most, tail / 2.0)
        return Ends(self._lower(least, tail), min(-self._lower(-most, tail / 2.0), inside))

    def _lower(self, weights: Floats, tail: float) -> float:
        """Lower confidence limit of sum_c weights_c x_c, (cells,) weights in tree order."""
        first = self.rounds[0][np.argsort(self.ranges.lows[self.rounds[0]])]
        starts, ends = self.ranges.lows[first], self.ranges.highs[first] + 1
        if starts[0] or (starts[1:] != ends[:-1]).any() or ends[-1] < len(weights):
            return 0.0 if weights.min() >= 0.0 else -inf  # something was not measured at first
        least = np.minimum.reduceat(weights, starts)
        beyond = weights - np.repeat(least, ends - starts)
        bound, left, needed = 0.0, tail, beyond > 0.0
        if least.any():
            share = left / 2.0 if needed.any() else left
            term, left = lowest(self.measured, first[least != 0.0], least[least != 0.0], share), left - share
            bound = max(term, 0.0) if least.min() >= 0.0 else term  # counts are not negative
        for rows in self.rounds[1:]:
            if not needed.any():
                break
            alike = self._alike(rows, beyond, needed)
            needed &= ~self._inside(alike)
            if len(alike):
                share = left / 2.0 if needed.any() else left
                bound += max(lowest(self.measured, alike, beyond[self.ranges.lows[alike]], share), 0.0)
                left -= share
        return bound

    def _alike(self, rows: Codes, beyond: Floats, needed: Flags) -> Codes:
        """Nodes of a round on which the remaining weight is constant and wholly uncovered."""
        lows, highs = self.ranges.lows[rows], self.ranges.highs[rows]
        changes = np.append(0, np.cumsum(beyond[1:] != beyond[:-1]))
        count = np.append(0, np.cumsum(needed))
        taken = (changes[lows] == changes[highs]) & (count[highs + 1] - count[lows] == highs - lows + 1)
        return np.asarray(rows[taken])

    def _inside(self, rows: Codes) -> Flags:
        """Mask of the cells in some nodes, (cells,)."""
        steps = np.zeros(len(self.order) + 1, dtype=np.int64)
        np.add.at(steps, self.ranges.lows[rows], 1)
        np.add.at(steps, self.ranges.highs[rows] + 1, -1)
        return np.asarray(np.cumsum(steps)[:-1] > 0)

    def _around(self, weights: Floats, tail: float) -> float:
        """Upper confidence limit from nodes that contain every cell of non-zero weight.

        The k-th such node gets 1 / k (k + 1) of the error probability. weights: (cells,), in tree order.
        """
        weigh = np.flatnonzero(weights)
        if not len(weigh) or weights.min() < 0.0:
            return inf if len(weigh) else 0.0
        around = np.flatnonzero((self.ranges.lows <= weigh[0]) & (self.ranges.highs >= weigh[-1]))
        one = np.ones(1)
        reaches = [reach(self.measured.design, around[k : k + 1], one, _part(tail, k)) for k in range(len(around))]
        most = float((self.measured.answers[around] + np.array(reaches)).min(initial=inf))
        return float(weights.max()) * max(0.0, most)


def _part(tail: float, earlier: int) -> float:
    """Share of the error probability of the k-th of a sequence: tail / ((k + 1)(k + 2)), which sums to the tail."""
    return tail / ((earlier + 1) * (earlier + 2))


def rounds_of(ranges: Ranges) -> Iterator[Codes]:
    """Split the counts of a descent into runs of disjoint nodes, by doubling and bisection.

    A node that overlaps one of its run was asked for after it. Queries within or around a node depend on noises of
    earlier runs only, so that the noises of one run are independent given these (models/tree/descent.py).
    """
    start, rows = 0, ranges.rows
    while start < rows:
        step, end = 1, start + 1
        while end < rows and _disjoint(ranges, start, min(end + step, rows)):
            end, step = min(end + step, rows), 2 * step
        while step > 1:
            step //= 2
            if end + step <= rows and _disjoint(ranges, start, end + step):
                end += step
        yield np.arange(start, end)
        start = end


def _disjoint(ranges: Ranges, start: int, end: int) -> bool:
    """Whether the ranges with these row numbers are pairwise disjoint."""
    order = np.argsort(ranges.lows[start:end], kind="stable")
    lows, highs = ranges.lows[start:end][order], ranges.highs[start:end][order]
    return bool((lows[1:] > highs[:-1]).all())
