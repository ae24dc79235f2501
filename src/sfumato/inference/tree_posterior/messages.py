"""The posterior of all cells from noisy counts of the regions of a binary tree.

Bottom-up, every region gathers from its halves the likelihood of its own number of rows, a mixture over the ways in
which they may fall into the halves (inference/tree_posterior/split_prior.py), and passes it on as one normal law,
together with the likelihood that it is empty. Top-down, every region's number of rows is divided between its halves,
the ways weighed by what is known from above and from below (inference/tree_posterior/dividing.py). How common each way
is, by level and by how many rows a region has, and in which proportion regions divide that lie in one strip
(inference/tree_posterior/strips.py), is learned by repeating this (EM), which costs no privacy. Time and memory are
linear in the number of cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats
from sfumato.domain.binary_tree import BinaryTree
from sfumato.inference.tree_posterior.dividing import LEAST, Law, as_one, divided
from sfumato.inference.tree_posterior.learned_ways import CLASSES, common_ways, row_class
from sfumato.inference.tree_posterior.observation import log_at_zero, observe
from sfumato.inference.tree_posterior.split_prior import FEW, FIRST_FEW, SECOND_FEW, UNEVEN, WAYS, Halves
from sfumato.inference.tree_posterior.strips import strip_shares

ROUNDS = 3  # of learning; more change no figure
UNKNOWN = 1e13  # the variance of a number of rows of which nothing is known
LEAST_SHARE = 1e-3  # of a region's rows that a half is thought to get
FULL = 0.8  # of all halves of a level hold rows: above it an empty half is the exception
ENOUGH = 2**15  # regions of a level to learn from
AT_ONCE = 2**13  # regions worked out at a time, so that memory stays small


@dataclass(frozen=True, eq=False)
class Posterior:
    """What is known of every region, level by level from the root.

    cells: the estimate for every place. total: the variance of the whole. slopes: how much of one row more in a region
    its first half gets. variances: of how many rows fall into the first half, given those of the region. leanings: by
    how many rows the first half is off if the share of its strip is off by one deviation.
    """

    cells: Floats
    total: float
    slopes: tuple[Floats, ...]
    variances: tuple[Floats, ...]
    leanings: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class _Messages:
    """What the subtree of each region of a level says about it."""

    mean: Floats
    variance: Floats
    weight: Floats

    def of(self, some: Codes) -> _Messages:
        """Those of some regions; -1 stands for a half that is not there, which certainly holds nothing."""
        found = _Messages(self.mean[some], self.variance[some], self.weight[some])
        missing = some < 0
        found.mean[missing], found.variance[missing], found.weight[missing] = 0.0, LEAST, 0.0
        return found


@dataclass(frozen=True, eq=False)
class _Known:
    """What is known of each region of a level from everything: the chance that it is not empty, and its rows then."""

    alive: Floats
    rows: Floats
    spread: Floats

    @classmethod
    def of(cls, regions: int) -> _Known:
        return cls(np.zeros(regions), np.zeros(regions), np.ones(regions))

    def put(self, pair: Codes, lives: Floats, rows: Floats, spread: Floats) -> None:
        """Fill in both halves of regions, (2, regions) each."""
        for half in (0, 1):
            there = pair[half] >= 0
            place = pair[half][there]
            self.alive[place], self.rows[place] = lives[half][there], rows[half][there]
            self.spread[place] = np.maximum(spread[half][there], LEAST)


class Multiscale:
    """Noisy counts of the regions of a tree.

    sizes: the cells at each place of the tree. answers: noisy counts, level by level; scales: of their noise, inf where
    a region was not measured; those of Laplace noise, or standard deviations of Gaussian noise.
    """

    def __init__(
        self, tree: BinaryTree, sizes: Codes, answers: Sequence[Floats], scales: Sequence[Floats], *, laplace: bool
    ) -> None:
        self.tree, self.answers, self.scales, self.laplace = tree, answers, scales, laplace
        self._cells = np.concatenate([[0], np.cumsum(sizes)])
        self._inner, self._zero, self._told = list[Codes](), list[Floats](), list[NDArray[np.bool_]]()
        for level in range(tree.height, -1, -1):
            told = np.isfinite(scales[level])
            zero = np.zeros(len(told))
            zero[told] = log_at_zero(answers[level][told], scales[level][told], laplace=laplace)
            if level < tree.height:
                starts = tree.halves[level][:-1]
                zero += np.add.reduceat(self._zero[0], starts)
                inside = np.logical_or.reduceat(self._told[0], starts)
                self._inner.insert(0, np.flatnonzero(inside))
                told |= inside
            self._zero.insert(0, zero)
            self._told.insert(0, told)
        self._few = [np.full(len(FEW), 1.0 / len(FEW)) for _ in range(tree.height)]
        self._ways = [np.full((CLASSES, WAYS), 1.0 / WAYS) for _ in range(tree.height)]
        self._rows: list[Floats | None] = [None] * tree.height
        self._sparse = [np.ones(CLASSES, dtype=np.bool_) for _ in range(tree.height)]
        strips = [1 if strips is None else int(strips.max()) + 1 for strips in tree.strips]
        self._shifts = [(np.zeros(count), np.zeros(count)) for count in strips]

    def posterior(self) -> Posterior:
        """The posterior of all regions and cells."""
        for _ in range(ROUNDS - 1):
            self._down(self._up(), None)
        regions = [self.tree.regions(level) for level in range(self.tree.height)]
        slopes, variances, leanings = (tuple(np.zeros(count) for count in regions) for _ in range(3))
        messages = self._up()
        total = min(float(messages[0].variance[0]), UNKNOWN)
        return Posterior(self._down(messages, (slopes, variances, leanings)), total, slopes, variances, leanings)

    def _up(self) -> list[_Messages]:
        found: list[_Messages] = []
        for level in range(self.tree.height, -1, -1):
            noise = (2.0 if self.laplace else 1.0) * self.scales[level] ** 2
            here = _Messages(self.answers[level], np.minimum(noise, UNKNOWN, out=noise), _no_weight(len(noise)))
            if level < self.tree.height:
                here = _Messages(here.mean.copy(), here.variance, here.weight.copy())
                self._learn_shares(level, found[0])
                for some in _blocks(self._inner[level]):
                    halves = self._halves(level, some, found[0])
                    law, here.weight[some] = as_one(*self._states(level, some, halves))
                    law = self._passed_on(level, halves, law, Law(here.mean[some], here.variance[some]))
                    here.mean[some], here.variance[some] = law.mean, law.variance
            found.insert(0, here)
        return found

    def _passed_on(self, level: int, halves: Halves, law: Law, own: Law) -> Law:
        """What regions say of their rows: by least squares where nearly all halves hold rows, elsewhere by all ways.

        A mixture taken as one law is drawn towards what it would be with an empty half. Where that is rarely so all
        regions are drawn a little in the same direction, and their sum is off by a lot.
        """
        below = Law(halves.mean.sum(axis=0), halves.variance.sum(axis=0))
        variance = 1.0 / (1.0 / below.variance + 1.0 / own.variance)
        mean = variance * (below.mean / below.variance + own.mean / own.variance)
        sparse = self._sparse[level][row_class(halves.rows)]
        return Law(np.where(sparse, law.mean, mean), np.where(sparse, law.variance, variance))

    def _learn_shares(self, level: int, below: _Messages) -> None:
        strips = self.tree.strips[level]
        if strips is None:
            return
        pair = self.tree.pair(level, self._inner[level])
        both = self._told[level + 1][pair].all(axis=0) & (pair[1] >= 0)
        some, pair = self._inner[level][both], pair[:, both]
        count = len(self._shifts[level][0])
        even, halves = self._even(level, some), below.of(pair)
        self._shifts[level] = strip_shares(strips[some], even, halves.mean, halves.variance, count)

    def _even(self, level: int, some: Codes) -> Floats:
        """The share of its cells that the first half of each region has."""
        begins, first = self.tree.begins, self.tree.halves[level][some]
        low, high = self._cells[begins[level][some]], self._cells[begins[level][some + 1]]
        return np.asarray((self._cells[begins[level + 1][first + 1]] - low) / (high - low))

    def _share(self, level: int, some: Codes) -> Floats:
        """The share of its rows that the first half of each region is thought to have."""
        even, strips = self._even(level, some), self.tree.strips[level]
        if strips is None:
            return even
        share = np.clip(even + self._shifts[level][0][strips[some]], LEAST_SHARE, 1.0 - LEAST_SHARE)
        return np.where(even < 1.0, share, even)

    def _halves(self, level: int, some: Codes, below: _Messages) -> Halves:
        pair = self.tree.pair(level, some)
        told, known = below.of(pair), self._rows[level]
        rows = self._first_guess(level, some, told) if known is None else np.maximum(known[some], 1.0)
        zero = np.where(pair < 0, 0.0, self._zero[level + 1][pair])
        share, alone = self._share(level, some), pair[1] < 0
        return Halves(told.mean, told.variance, told.weight, zero, share, alone, rows, self._few[level])

    def _first_guess(self, level: int, some: Codes, told: _Messages) -> Floats:
        """About how many rows regions hold, before anything has been learned."""
        both, spread, scale = told.mean.sum(axis=0), told.variance.sum(axis=0), self.scales[level][some]
        seen = np.isfinite(scale)
        scale = np.where(seen, scale, 1.0)
        noise = (2.0 if self.laplace else 1.0) * scale**2
        combined = (np.maximum(both, 0.0) * noise + self.answers[level][some] * spread) / (noise + spread)
        return np.asarray(np.where(seen, np.maximum(combined, scale), np.maximum(both, np.sqrt(spread))))

    def _states(self, level: int, some: Codes, halves: Halves) -> tuple[Floats, Law]:
        """For each way, its log-likelihood and the rows it makes likely, from below and from the own answer."""
        weight, mean, variance = halves.together()
        weight += np.log(self._ways[level])[row_class(halves.rows)].T
        scale = self.scales[level][some]
        seen = np.isfinite(scale)
        if seen.any():
            answer = self.answers[level][some][seen]
            own = observe(mean[:, seen], variance[:, seen], answer, scale[seen], laplace=self.laplace)
            weight[:, seen] += own[0]
            mean[:, seen], variance[:, seen] = own[1], own[2]
        return weight, Law(mean, variance)

    def _down(self, messages: list[_Messages], keep: tuple[tuple[Floats, ...], ...] | None) -> Floats:
        """Divide the rows of every region that was measured inside; learns the ways on the way.

        keep: slopes, variances and leanings to fill in; then all other regions are divided too, and cells returned.
        """
        known = _Known(np.ones(1), messages[0].mean, messages[0].variance)
        for level in range(self.tree.height):
            below = _Known.of(self.tree.regions(level + 1))
            if keep is not None:
                self._divide_unseen(level, known, below, keep)
            learned, sizes = np.zeros((CLASSES, WAYS)), np.zeros(len(FEW))
            filled, looked = np.zeros(CLASSES), np.zeros(CLASSES)
            for some in _blocks(self._inner[level] if keep is not None else self._sample(level, known)):
                halves = self._halves(level, some, messages[level + 1])
                states, alive = self._states(level, some, halves), known.alive[some]
                whole, own = Law(known.rows[some], known.spread[some]), messages[level]
                found = divided(halves, *states, whole, Law(own.mean[some], own.variance[some]))
                below.put(self.tree.pair(level, some), alive * found.lives, found.rows, found.spread)
                weights = found.chances * alive
                classes = row_class(halves.rows)
                learned += np.stack([np.bincount(classes, way, CLASSES) for way in weights], axis=1)
                filled += np.bincount(classes, alive * found.lives.mean(axis=0), CLASSES)
                looked += np.bincount(classes, minlength=CLASSES)
                sizes[: len(halves.few.chances)] += np.einsum(
                    "khi,hi->k", halves.few.chances, weights[[FIRST_FEW, SECOND_FEW]]
                )
                if keep is not None:
                    leaning = found.leaning * self._unsure(level, some)
                    keep[0][level][some], keep[1][level][some] = found.slope, alive * found.variance
                    keep[2][level][some] = alive * leaning
            self._rows[level] = np.where(known.alive > 0.0, known.rows, messages[level].mean)
            if len(self._inner[level]):
                self._sparse[level] = filled < FULL * looked
                self._ways[level], self._few[level] = common_ways(learned, sizes)
            elif level:
                self._ways[level] = self._ways[level - 1]
            known = below
            messages[level] = messages[-1]  # the memory is needed further down
        return np.asarray(known.alive * known.rows)

    def _sample(self, level: int, known: _Known) -> Codes:
        """Regions to learn from: all, or where there are very many, some whose region above was taken too."""
        some = self._inner[level]
        some = some[known.alive[some] > 0.0]
        return some[:: -(-len(some) // ENOUGH)] if len(some) > ENOUGH else some

    def _divide_unseen(self, level: int, known: _Known, below: _Known, keep: tuple[tuple[Floats, ...], ...]) -> None:
        """Divide regions of which no part was measured by the shares of their strips, as unevenly as others are."""
        for some in _blocks(np.arange(self.tree.regions(level))):
            share, rows, spread = self._share(level, some), known.rows[some], known.spread[some]
            uneven = (rows**2 + spread) * share * (1.0 - share) * (self._ways[level] @ UNEVEN)[row_class(rows)]
            shares = np.stack([share, 1.0 - share])
            below.put(
                self.tree.pair(level, some),
                np.broadcast_to(known.alive[some], shares.shape),
                shares * rows,
                shares**2 * spread + uneven,
            )
            keep[0][level][some], keep[1][level][some] = share, known.alive[some] * uneven
            keep[2][level][some] = known.alive[some] * rows * self._unsure(level, some)

    def _unsure(self, level: int, some: Codes) -> Floats | float:
        """The deviation of the share of each region's strip."""
        strips = self.tree.strips[level]
        return 0.0 if strips is None else self._shifts[level][1][strips[some]]


def _no_weight(regions: int) -> Floats:
    return np.broadcast_to(0.0, (regions,))  # takes no memory


def _blocks(places: Codes) -> list[Codes]:
    return [places[start : start + AT_ONCE] for start in range(0, len(places), AT_ONCE)]
