"""Belief propagation on a binary tree: posterior of all cells from noisy counts of its nodes.

Upward pass: a node multiplies the likelihoods of its children's rows under each component of the split prior
(split_prior.py), a mixture, and sends it up moment-matched to one normal distribution, with the likelihood that it is
empty. Downward pass: every node's mixture is conditioned on its parent's posterior, which gives those of its children.
The prior's hyperparameters are learned by EM over repeated passes (empirical Bayes), which costs no privacy. Time and
memory are linear in the number of cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.models.tree.observation import LEAST_VARIANCE, UNKNOWN, Evidence, Mixture, Normal
from sfumato.models.tree.split_prior import (
    UNEVEN,
    Halves,
    Hyperparameters,
    SliceShares,
    Split,
    Statistics,
    factor,
    row_class,
    slice_shares,
    split,
    steps,
)

ROUNDS = 3  # of learning; more change no figure
LEAST_SHARE = 1e-3  # of a node's rows that a half is thought to get
ENOUGH = 2**15  # nodes of a level to learn from
AT_ONCE = 2**13  # nodes worked out at a time, so that memory stays small


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior of the tree: means of the leaves, and coefficients of every split, level by level from the root.

    cells: (leaves,), posterior means. total: variance of the root. Of each inner node: slopes, regression coefficients
    of the first child's rows on the node's; variances, of the first child's rows given the node's; leanings, change of
    the first child's mean when the share of its slice changes by one standard deviation.
    """

    cells: Floats
    total: float
    slopes: tuple[Floats, ...]
    variances: tuple[Floats, ...]
    leanings: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class Messages(Normal):
    """Upward messages of a level: normal likelihood of each node's rows from its subtree; weight: log evidence."""

    weight: Floats

    def of_halves(self, pair: Codes) -> Messages:
        """Messages of the children `pair` (2, nodes); an absent child, -1, is certainly empty."""
        missing, parts = pair < 0, ((self.mean, 0.0), (self.variance, LEAST_VARIANCE), (self.weight, 0.0))
        return Messages(*(np.where(missing, nothing, values[pair]) for values, nothing in parts))


@dataclass(frozen=True, eq=False)
class Known(Normal):
    """Posterior of each node of a level from all evidence: rows given that it is not empty; alive: P(not empty)."""

    alive: Floats


@dataclass(frozen=True, eq=False)
class Level:
    """One level of the tree: evidence, prior, slice effects, and upward messages `below` of the next level."""

    number: int
    evidence: Evidence
    prior: Hyperparameters
    slices: SliceShares | None
    below: Messages

    @cached_property
    def messages(self) -> Messages:
        """Upward messages of the level, from both children and the node's own count."""
        own = self.evidence.own(self.number)
        mean, variance, weight = own.mean, own.variance, np.zeros(len(own.mean))
        for nodes in _blocks(self.evidence.inner[self.number]):
            halves, mixture = self._said(nodes)
            components, weight[nodes] = mixture.component_posterior()
            passed = self._passed_on(halves, components.moment_matched(), own.of(nodes))
            mean[nodes], variance[nodes] = passed.mean, passed.variance
        return Messages(mean, variance, weight)

    def splits(self, nodes: Codes, known: Known) -> Iterator[tuple[Codes, Halves, Split]]:
        """Posterior splits of nodes with measured descendants, block by block; known: posterior of the nodes' rows."""
        for some in _blocks(nodes):
            halves, mixture = self._said(some)
            yield some, halves, split(halves, mixture, known.of(some), self.messages.of(some))

    def unmeasured(self, nodes: Codes, known: Known) -> Iterator[tuple[Codes, Split]]:
        """Prior splits of nodes without measured descendants: expected shares, and the prior's variance of a split."""
        step = self.foretold(known.alive * known.mean) if len(nodes) else None
        for some in _blocks(nodes):
            share, rows, variance = self.share(some, step), known.mean[some], known.variance[some]
            chances = self.prior.components[row_class(rows)].T
            uneven = (rows**2 + variance) * share * (1.0 - share) * (UNEVEN @ chances)
            shares = np.stack([share, 1.0 - share])
            halves = np.ones_like(shares), shares * rows, shares**2 * variance + uneven
            yield some, Split(chances, share, uneven, rows, *halves)

    def _said(self, nodes: Codes) -> tuple[Halves, Mixture]:
        """Children's likelihoods and mixture of some inner nodes; cached if these are all of the level and few."""
        if len(nodes) == len(self.evidence.inner[self.number]) <= AT_ONCE:
            return self._of_all
        halves = self.halves(nodes)
        return halves, self.mixture(nodes, halves)

    @cached_property
    def _of_all(self) -> tuple[Halves, Mixture]:
        """Children's likelihoods and mixture of all inner nodes, shared by the upward and the downward pass."""
        inner = self.evidence.inner[self.number]
        halves = self.halves(inner)
        return halves, self.mixture(inner, halves)

    def halves(self, nodes: Codes) -> Halves:
        """Likelihoods of the rows of both children of some nodes, with the prior share of the first child."""
        pair, rows = self.evidence.tree.pair(self.number, nodes), self.prior.rows
        below, zero = self.below.of_halves(pair), np.where(pair < 0, 0.0, self.evidence.zero[self.number + 1][pair])
        about = self._first_guess(nodes, below) if rows is None else np.maximum(rows[nodes], 1.0)
        said = below.mean, below.variance, below.weight, zero
        return Halves(*said, self.share(nodes), pair[1] < 0, about, self.prior.few)

    def mixture(self, nodes: Codes, halves: Halves) -> Mixture:
        """Likelihood of the nodes' rows as a mixture over components, from both children and the nodes' own counts."""
        below, common = halves.together(), np.log(self.prior.components)[halves.classes].T
        return self.evidence.observed(self.number, nodes, replace(below, log_weight=below.log_weight + common))

    def share(self, nodes: Codes, step: Floats | None = None) -> Floats:
        """Prior mean share of each first child, (nodes,): share of cells, trend, slice effect; step: see `foretold`."""
        even, slices = self.evidence.even[self.number][nodes], self.evidence.tree.slices[self.number]
        share, step = even, self._step if step is None else step
        if step is not None:
            share = share + self.prior.trend * step[nodes]
        if slices is not None and self.slices is not None:
            share = share + self.slices.shift[slices[nodes]]
        return np.where(even < 1.0, np.minimum(np.maximum(share, LEAST_SHARE), 1.0 - LEAST_SHARE), even)

    def foretold(self, rows: Floats) -> Floats:
        """Excess of each first child over its share of cells, interpolated linearly between neighbours, (nodes,)."""
        return steps(self.evidence.tree.grids[self.number], rows, self.evidence.sizes(self.number))

    def share_deviation(self, nodes: Codes) -> Floats | float:
        """Posterior standard deviation of the slice effect of each node."""
        slices = self.evidence.tree.slices[self.number]
        return 0.0 if slices is None or self.slices is None else self.slices.deviation[slices[nodes]]

    @cached_property
    def _step(self) -> Floats | None:
        """`foretold` of the rows estimated in the last EM round; None in the first round or without a trend."""
        return None if self.prior.rows is None or not self.prior.trend else self.foretold(self.prior.rows)

    def _first_guess(self, nodes: Codes, below: Messages) -> Floats:
        """Initial estimate of the nodes' rows before EM, by inverse variance from children and own counts, (nodes,)."""
        both, variance = below.mean.sum(axis=0), below.variance.sum(axis=0)
        scale = self.evidence.scales[self.number][nodes]
        seen = np.isfinite(scale)
        scale = np.where(seen, scale, 1.0)
        noise = (2.0 if self.evidence.laplace else 1.0) * scale**2
        answers = self.evidence.answers[self.number][nodes]
        combined = (np.maximum(both, 0.0) * noise + answers * variance) / (noise + variance)
        return np.asarray(np.where(seen, np.maximum(combined, scale), np.maximum(both, np.sqrt(variance))))

    def _passed_on(self, halves: Halves, matched: Normal, own: Normal) -> Normal:
        """Normal message of nodes: least squares where nearly all children hold rows, else the moment-matched mixture.

        Moment matching shrinks a mixture towards an empty child. Where that component is rare, all nodes would be
        shrunk a little to the same side, and their sum by much.
        """
        least_squares = Normal(halves.mean.sum(axis=0), halves.variance.sum(axis=0)).times(own)
        sparse = self.prior.sparse[halves.classes]
        variance = np.where(sparse, np.maximum(matched.variance, LEAST_VARIANCE), least_squares.variance)
        return Normal(np.where(sparse, matched.mean, least_squares.mean), variance)


def posterior_of(evidence: Evidence) -> Posterior:
    """Posterior of all nodes and cells: EM for the hyperparameters, then an upward and a downward pass."""
    priors: Sequence[Hyperparameters] = [Hyperparameters.at_first()] * evidence.tree.height
    for _ in range(ROUNDS - 1):
        priors = learned(evidence, upward_pass(evidence, priors))
    return downward_pass(evidence, upward_pass(evidence, priors))


def upward_pass(evidence: Evidence, priors: Sequence[Hyperparameters]) -> list[Level]:
    """Upward pass from the leaves to the root: the levels with their messages and estimated slice effects."""
    leaves, levels = evidence.own(evidence.tree.height), list[Level]()
    below = Messages(leaves.mean, leaves.variance, np.zeros(len(leaves.mean)))
    for number in range(evidence.tree.height - 1, -1, -1):
        level = Level(number, evidence, priors[number], None, below)
        levels.insert(0, replace(level, slices=_slice_shares(level)))
        below = levels[0].messages
    return levels


def learned(evidence: Evidence, levels: Sequence[Level]) -> list[Hyperparameters]:
    """One EM step: hyperparameters of each level by its splits, or those of the level above if nothing was measured."""
    result, known, tree = list[Hyperparameters](), _root(evidence, levels), evidence.tree
    for level, inner in zip(levels, evidence.inner, strict=True):
        if not len(inner):
            result.append(replace(result[-1], rows=None) if result else level.prior)
            continue
        nodes = inner[known.alive[inner] > 0.0]  # where there are very many, some whose parent was taken too
        nodes = nodes[:: max(1, -(-len(nodes) // ENOUGH))]
        below, statistics = np.zeros((3, tree.nodes(level.number + 1))), Statistics.nothing()
        for some, halves, one in level.splits(nodes, known):
            places, values = _by_half(tree.pair(level.number, some), known.alive[some], one)
            below[:, places] = values
            statistics += Statistics.of(halves, one, known.alive[some])
        others = evidence.outer[level.number]
        for some, one in level.unmeasured(others[known.alive[others] > 0.0], known):
            places, values = _by_half(tree.pair(level.number, some), known.alive[some], one)
            below[:, places] = values
        said = np.where(evidence.measured[level.number], level.messages.mean, np.nan)
        trend = _trend(level, np.where(known.alive > 0.0, known.alive * known.mean, said), result)
        result.append(replace(statistics.learned(np.where(known.alive > 0.0, known.mean, said)), trend=trend))
        known = Known(*below)
    return result


def downward_pass(evidence: Evidence, levels: Sequence[Level]) -> Posterior:
    """Downward pass from the root to the leaves: posterior of every node's split into its children."""
    root, found, tree = _root(evidence, levels), list[Floats](), evidence.tree
    known = root
    for level, inner in zip(levels, evidence.inner, strict=True):
        below, own = np.zeros((3, tree.nodes(level.number + 1))), np.empty((3, tree.nodes(level.number)))
        others = level.unmeasured(evidence.outer[level.number], known)
        measured = ((some, one) for some, _, one in level.splits(inner, known))
        for some, one in chain(others, measured):
            places, values = _by_half(tree.pair(level.number, some), known.alive[some], one)
            below[:, places] = values
            own[0, some], own[1, some] = one.slope, known.alive[some] * one.variance
            own[2, some] = known.alive[some] * one.leaning * level.share_deviation(some)
        found.append(own)
        known = Known(*below)
    slopes, variances, leanings = (tuple(own[part] for own in found) for part in range(3))
    total = min(float(root.variance[0]), UNKNOWN)
    return Posterior(known.alive * known.mean, total, slopes, variances, leanings)


def _root(evidence: Evidence, levels: Sequence[Level]) -> Known:
    """Posterior of the root, which is its upward message."""
    said = levels[0].messages if levels else evidence.own(0)
    return Known(said.mean, said.variance, np.ones(1))


def _slice_shares(level: Level) -> SliceShares | None:
    """Slice effects of a level, estimated from nodes with both children measured; None without slices."""
    slices = level.evidence.tree.slices[level.number]
    if slices is None:
        return None
    nodes, halves = _both_measured(level)
    return slice_shares(slices[nodes], level.share(nodes), halves, int(slices.max()) + 1)


def _trend(level: Level, rows: Floats, above: Sequence[Hyperparameters]) -> float:
    """Regression factor of observed excess shares on those interpolated between neighbours; rows: of the nodes."""
    nodes, halves = _both_measured(level)
    even = level.evidence.even[level.number][nodes]
    return factor(level.foretold(rows)[nodes], even, halves, above[-1].trend if above else 0.0)


def _both_measured(level: Level) -> tuple[Codes, Normal]:
    """Nodes of a level with both children measured, and the messages of these children."""
    nodes, pair = level.evidence.both[level.number]
    return nodes, Normal(level.below.mean[pair], level.below.variance[pair])


def _by_half(pair: Codes, alive: Floats, found: Split) -> tuple[Codes, Floats]:
    """Indices of the children that exist, and their posterior as the rows of `Known`, (3, children)."""
    there = pair >= 0
    values = found.rows, np.maximum(found.rows_variance, LEAST_VARIANCE), alive * found.alive
    return pair[there], np.stack(values)[:, there]


def _blocks(nodes: Codes) -> Iterator[Codes]:
    return (nodes[start : start + AT_ONCE] for start in range(0, len(nodes), AT_ONCE))
