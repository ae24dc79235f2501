"""Noisy counts of the nodes of a tree, level by level, and what they say before anything is inferred.

What the prior of a level of the tree learns from its nodes: how common each component is, and shares by slice.

Nodes of one level are alike if they hold about as many rows, to a factor of four. There may be few of them, so a class
starts from what all nodes of its level do, and a level from all components being as common.

The nodes of a slice cover the same values of the attribute that is cut. Each says, noisily, which share of its rows
lies in its first half. A slice's share is the mean of what its nodes say, each weighed by the inverse of two variances
together, that of its noise and that of how differently nodes divide; it is then drawn towards the share of the cells,
the more the less slices differ from it at all. On tables whose attributes have nothing to do with each other all nodes
of a slice do divide alike, and what no single node shows above its noise, all of them show together.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.models.tree.observation import Normal
from sfumato.models.tree.split_prior import (
    COMPONENTS,
    FEW,
    FIRST_EMPTY,
    FIRST_FEW,
    SECOND_EMPTY,
    SECOND_FEW,
    Halves,
    Split,
)

PRIOR_COUNT = 1.0  # nodes' worth of belief in each component, on every level
LIKE_ALL = 4.0  # nodes' worth of belief that nodes with so many rows divide as all of the level do
PRIOR_FEW = 2.0  # halves' worth of belief that all sizes of few rows are as common
RAREST = 1e-4
CLASSES = 12  # of nodes by their number of rows, a power of four each
FULL = 0.8  # of all halves of a class hold rows: above it an empty half is the exception
LEAST_UNEVEN = 1e-6  # the variance of a node's share: no two nodes divide exactly alike
ANY_SHARE = 1 / 12  # the variance of a share that may be anything


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Of one level: how common components are in each class of nodes, and each size of few rows; which classes have
    many empty halves; and about how many rows each node holds, None as long as nothing is known.
    """

    components: Floats
    few: Floats
    sparse: Flags
    rows: Floats | None
    trend: float = 0.0

    @classmethod
    def at_first(cls) -> Hyperparameters:
        even = np.full((CLASSES, COMPONENTS), 1.0 / COMPONENTS)
        return cls(even, np.full(len(FEW), 1.0 / len(FEW)), np.ones(CLASSES, dtype=np.bool_), None)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over nodes, by class: of the chances of components, of halves that hold rows, of nodes; of sizes of few."""

    components: Floats
    filled: Floats
    nodes: Floats
    few: Floats

    @classmethod
    def nothing(cls) -> Statistics:
        return cls(np.zeros((CLASSES, COMPONENTS)), np.zeros(CLASSES), np.zeros(CLASSES), np.zeros(len(FEW)))

    @classmethod
    def of(cls, halves: Halves, found: Split, alive: Floats) -> Statistics:
        """What some nodes add; alive: the chance that each is not empty."""
        classes, chances = row_class(halves.rows), found.chances * alive
        components = np.zeros((CLASSES, COMPONENTS))
        for column, weights in enumerate(chances):
            components[:, column] = np.bincount(classes, weights, CLASSES)
        filled = np.bincount(classes, alive * found.alive.mean(axis=0), CLASSES).astype(np.float64)
        few = np.zeros(len(FEW))
        few[: len(halves.few.chances)] = np.einsum("khi,hi->k", halves.few.chances, chances[[FIRST_FEW, SECOND_FEW]])
        return cls(components, filled, np.bincount(classes, minlength=CLASSES).astype(np.float64), few)

    def __add__(self, other: Statistics) -> Statistics:
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return Statistics(*(one + another for one, another in both))

    def learned(self, rows: Floats) -> Hyperparameters:
        """The hyperparameters that these sums make likely; rows: what the nodes hold."""
        seen = self.components.copy()
        for pair in ([FIRST_EMPTY, SECOND_EMPTY], [FIRST_FEW, SECOND_FEW]):
            seen[:, pair] = seen[:, pair].mean(axis=1, keepdims=True)
        everywhere = seen.sum(axis=0)
        common = (everywhere + PRIOR_COUNT) / (everywhere.sum() + COMPONENTS * PRIOR_COUNT)
        near = seen.copy()  # classes are cut at round numbers, so that neighbours count half
        near[1:] += 0.5 * seen[:-1]
        near[:-1] += 0.5 * seen[1:]
        components = (near + LIKE_ALL * common) / (near.sum(axis=1, keepdims=True) + LIKE_ALL)
        few = (self.few + PRIOR_FEW / len(FEW)) / (self.few.sum() + PRIOR_FEW)
        return Hyperparameters(np.maximum(components, RAREST), few, self.filled < FULL * self.nodes, rows)


@dataclass(frozen=True, eq=False)
class SliceShares:
    """By how much the share of each slice differs from that of its cells, and the deviation of what is known of it."""

    shift: Floats
    deviation: Floats


def row_class(rows: Floats) -> Codes:
    """The class of nodes with so many rows: which power of four."""
    return np.clip(np.log2(np.maximum(rows, 1.0)) / 2, 0, CLASSES - 1).astype(np.int64)


def slice_shares(slices: Codes, even: Floats, halves: Normal, count: int) -> SliceShares:
    """The shares of so many slices, from nodes of which both halves were measured.

    slices: the slice of each node. even: its share of cells. halves: the rows of both halves, (2, nodes).
    """
    both = halves.mean.sum(axis=0)
    rows = np.maximum(both, np.sqrt(halves.variance.sum(axis=0)))
    off = (halves.mean[0] - even * both) / rows
    noise = ((1.0 - even) ** 2 * halves.variance[0] + even**2 * halves.variance[1]) / rows**2
    weight = 1.0 / (_unevenness(slices, off, noise, count) + noise)
    whole = np.bincount(slices, weights=weight, minlength=count)
    shift, deviation = np.zeros(count), np.zeros(count)
    there = whole > 0
    if not there.any():
        return SliceShares(shift, deviation)
    precision = whole[there]
    middle = np.bincount(slices, weights=weight * off, minlength=count)[there] / precision
    differ = max(float(precision @ (middle**2 - 1.0 / precision) / precision.sum()), 0.0)
    shift[there] = middle * differ * precision / (differ * precision + 1.0)
    deviation[there] = np.sqrt(differ / (differ * precision + 1.0))
    return SliceShares(shift, deviation)


def _unevenness(slices: Codes, off: Floats, noise: Floats, count: int) -> float:
    """The variance with which nodes differ from their slice, beyond noise: by moments (DerSimonian, Laird 1986)."""
    weight = 1.0 / np.maximum(noise, LEAST_UNEVEN)
    whole, squares = (np.bincount(slices, weights=power, minlength=count) for power in (weight, weight**2))
    there = whole > 0
    middle = np.bincount(slices, weights=weight * off, minlength=count) / np.where(there, whole, 1.0)
    spare = len(slices) - int(there.sum())
    if spare == 0:
        return ANY_SHARE
    beyond = float(weight @ (off - middle[slices]) ** 2) - spare
    known = float((whole[there] - squares[there] / whole[there]).sum())
    return max(beyond / known, LEAST_UNEVEN) if known > 0.0 else ANY_SHARE
