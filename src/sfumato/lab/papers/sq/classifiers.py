"""Classifiers over cells, computed from noisy counts: naive Bayes, a perceptron, and a decision tree (ID3).

Scores are whole numbers, so that a file opened anywhere gives the labels that it was tested with. docs/sq.md has the
learners. Naive Bayes: the shares within a class are shrunk towards those of all rows, by as many rows as the noise of a
cell amounts to. Perceptron: averaged over the later half of the rounds (after Freund, Schapire 1999), since on tables
with a rare class the first would drown the rest; nothing is divided by the number of rows, which is private. Tree: the
gain is ID3's, the rows times the information about the class, less its expected bias by noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log

import numpy as np

from sfumato.arrays import Codes, Floats, Whole
from sfumato.domain import Axis
from sfumato.frozen import dataclass


@dataclass(frozen=True, eq=False)
class Additive:
    """Additive score model: base score of each class plus, for each attribute, a score table (values, classes).

    edges: of the gap between the best score and the next, which divides the rows with one label into strata.
    """

    tables: tuple[Whole, ...]
    base: Whole
    edges: tuple[int, ...]

    @property
    def labels(self) -> Codes:
        """Predicted class of each stratum."""
        return np.repeat(np.arange(len(self.base)), len(self.edges) + 1)

    def scores(self, codes: Sequence[Codes]) -> Whole:
        """Scores (rows, classes); an attribute with an unknown value (-1) adds nothing."""
        found = np.broadcast_to(self.base, (len(codes[0]), len(self.base))).copy()
        for table, along in zip(self.tables, codes, strict=True):
            found += np.vstack([table, np.zeros_like(table[:1])])[along]
        return found

    def strata(self, codes: Sequence[Codes]) -> Codes:
        """Stratum of every row. codes: for each attribute, the cell of every row."""
        scores = self.scores(codes)
        best = scores.argmax(axis=1)
        ranked = np.partition(scores, -2, axis=1)
        gap = ranked[:, -1] - ranked[:, -2]
        return np.asarray(best * (len(self.edges) + 1) + np.searchsorted(self.edges, gap, side="right"), dtype=np.int64)

    @property
    def spreads(self) -> list[int]:
        """Largest change of the gap between two classes by each attribute."""
        return [int(np.ptp(table - table[:, :1], axis=0).max()) for table in self.tables]


UNITS = 1024  # of a score, in a nat
TOWARDS_ALL = 1.0  # standard errors of noise, for each value, by which shares are drawn towards those of all rows
ODDS = (1.5, 3.0, 9.0)  # of the best class against the next, between which predictions are told apart


def naive_bayes(tables: Sequence[Floats], errors: Sequence[float]) -> Additive:
    """Naive Bayes from tables (values, classes) of noisy counts, one per attribute. errors: of a cell of each."""
    classes = class_counts(tables, errors)
    found = [_scores(table, error) for table, error in zip(tables, errors, strict=True)]
    base = np.log(classes / classes.sum())
    return Additive(tuple(map(_whole, found)), _whole(base), tuple(round(UNITS * log(odds)) for odds in ODDS))


def class_counts(tables: Sequence[Floats], errors: Sequence[float]) -> Floats:
    """Class counts as inverse-variance mean over all tables, at least one, (classes,)."""
    trust = np.array([1.0 / (len(table) * error**2) for table, error in zip(tables, errors, strict=True)])
    sums = np.array([table.sum(axis=0) for table in tables])
    return np.asarray(np.maximum(trust @ sums / trust.sum(), 1.0))


def posterior(scores: Whole) -> Floats:
    """Class probabilities under naive Bayes, from scores."""
    lifted = np.exp((scores - scores.max(axis=1, keepdims=True)) / UNITS)
    return np.asarray(lifted / lifted.sum(axis=1, keepdims=True))


def _scores(table: Floats, error: float) -> Floats:
    counts, towards = np.maximum(table, 0.0), TOWARDS_ALL * error * len(table)
    every = counts.sum(axis=1) + error + 1.0
    share = every / every.sum()
    within = (counts + (towards + 1.0) * share[:, None]) / (counts.sum(axis=0) + towards + 1.0)
    return np.asarray(np.log(within))


def _whole(scores: Floats) -> Whole:
    return np.rint(UNITS * scores).astype(np.int64)


LARGEST = 8  # the largest size of a coordinate
GAPS = (1 / 16, 1 / 8, 1 / 4)  # of the largest gap there can be, between which predictions are told apart


def coordinates(axis: Axis) -> Whole:
    """Coordinates of every cell of an attribute: a number where it is ordered, one-hot where not.

    Either way one row adds no more than `LARGEST` in all.
    """
    if not axis.ordered:
        return LARGEST * np.eye(axis.size, dtype=np.int64)
    middles = (2 * np.arange(axis.size) + 1) / axis.places - 1.0
    placed = np.rint(LARGEST * middles).astype(np.int64)
    placed[axis.places :] = 0  # rows without a value lie nowhere
    return placed[:, None]


def vectors(classes: int) -> int:
    """Number of weight vectors: two classes need one, which separates them."""
    return 1 if classes == 2 else classes


def pulls(weights: Whole, points: Whole, truth: Codes, classes: int) -> Whole:
    """Perceptron update of each cell's rows, (cells, weights): zero where the label is right.

    weights: a row for each vector. points: the coordinates of each cell, the last of which is the same for all.
    """
    scores = points @ weights.T
    if classes == 2:
        sign = 2 * truth - 1
        wrong = sign * scores[:, 0] <= 0
        return np.asarray((sign * wrong)[:, None] * points)
    own = scores[np.arange(len(truth)), truth]
    others = scores.copy()
    others[np.arange(len(truth)), truth] = np.iinfo(np.int64).min
    rival = others.argmax(axis=1)
    wrong = (own <= others.max(axis=1)).astype(np.int64)
    sides = np.zeros((len(truth), classes), dtype=np.int64)
    sides[np.arange(len(truth)), truth] += wrong
    sides[np.arange(len(truth)), rival] -= wrong
    return np.asarray((sides[:, :, None] * points[:, None, :]).reshape(len(truth), -1))


def learnt(updates: Sequence[Whole], axes: Sequence[Axis], classes: int) -> Additive:
    """Averaged perceptron from noisy sums of its updates by round: weights averaged over the later half."""
    width = sum(coordinates(axis).shape[1] for axis in axes) + 1
    weights = np.zeros((vectors(classes), width), dtype=np.int64)
    total = weights.copy()
    for number, update in enumerate(updates, 1):
        weights = weights + update.reshape(weights.shape)
        total = total + (weights if number > len(updates) // 2 else 0)
    by_class = np.vstack([np.zeros_like(total), total]) if classes == 2 else total
    tables, start = [], 0
    for axis in axes:
        points = coordinates(axis)
        tables.append(points @ by_class[:, start : start + points.shape[1]].T)
        start += points.shape[1]
    base = LARGEST * by_class[:, -1]
    most = sum(int(np.ptp(table - table[:, :1], axis=0).max()) for table in tables) + int(np.ptp(base))
    return Additive(tuple(tables), base, tuple(int(gap * most) for gap in GAPS))


def latest(updates: Sequence[Whole], width: int, classes: int) -> Whole:
    """Perceptron weights after some rounds, not averaged: the start of the next round."""
    found = np.zeros((vectors(classes), width), dtype=np.int64)
    for update in updates:
        found = found + update.reshape(found.shape)
    return found


def points_of(axes: Sequence[Axis], codes: Sequence[Codes]) -> Whole:
    """Coordinates of cells, (cells, coordinates); the last one is the constant."""
    parts = [coordinates(axis)[along] for axis, along in zip(axes, codes, strict=True)]
    return np.hstack([*parts, np.full((len(codes[0]), 1), LARGEST, dtype=np.int64)])


LEAST_ROWS = 4.0  # standard errors of its count that either side of a split has at least


@dataclass(frozen=True)
class Node:
    """Node of a tree. feature: attribute tested, -1 for a leaf. cut: first value of the high side, or the value itself.

    low, high: the places of the nodes below. label: of a leaf.
    """

    feature: int = -1
    cut: int = 0
    low: int = 0
    high: int = 0
    label: int = 0


@dataclass(frozen=True)
class Tree:
    """Decision tree: nodes, parents before children. ordered: whether an attribute is cut by order or by value."""

    nodes: tuple[Node, ...]
    ordered: tuple[bool, ...]

    @property
    def leaves(self) -> list[int]:
        """Node numbers of the leaves, in order: the strata."""
        return [place for place, node in enumerate(self.nodes) if node.feature < 0]

    @property
    def labels(self) -> Codes:
        """Class of each leaf."""
        return np.array([self.nodes[place].label for place in self.leaves], dtype=np.int64)

    @property
    def features(self) -> list[int]:
        """Indices of the attributes that the tree splits on."""
        return sorted({node.feature for node in self.nodes if node.feature >= 0})

    def places(self, codes: Sequence[Codes]) -> Codes:
        """Leaf node of every row; an unknown value (-1) goes to the high side."""
        place = np.zeros(len(codes[0]), dtype=np.int64)
        for number, node in enumerate(self.nodes):
            if node.feature < 0:
                continue
            along = codes[node.feature]
            low = (along < node.cut) & (along >= 0) if self.ordered[node.feature] else along == node.cut
            place = np.where(place == number, np.where(low, node.low, node.high), place)
        return place

    def strata(self, codes: Sequence[Codes]) -> Codes:
        """Leaf of every row, numbered among the leaves."""
        number = np.zeros(len(self.nodes), dtype=np.int64)
        number[self.leaves] = np.arange(len(self.leaves))
        return number[self.places(codes)]

    def split(self, place: int, feature: int, cut: int) -> Tree:
        """Tree with a leaf split in two."""
        last = len(self.nodes)
        parted = replace(self.nodes[place], feature=feature, cut=cut, low=last, high=last + 1)
        return Tree((*self.nodes[:place], parted, *self.nodes[place + 1 :], Node(), Node()), self.ordered)

    def labelled(self, labels: Sequence[int]) -> Tree:
        """Tree with a class for each leaf."""
        given = dict(zip(self.leaves, labels, strict=True))
        nodes = (replace(node, label=given.get(place, 0)) for place, node in enumerate(self.nodes))
        return Tree(tuple(nodes), self.ordered)


@dataclass(frozen=True)
class Split:
    """Best split of one attribute, and its gain."""

    gain: float
    cut: int


def best_split(table: Floats, variance: float, ordered: bool) -> Split | None:
    """Split of an attribute with the largest gain and rows on both sides; None where there is none.

    table: noisy counts by value (rows) and class. variance: of the noise on each of them.
    """
    values, classes = table.shape
    if values < 2:
        return None
    if ordered:
        low, cells = np.cumsum(table, axis=0)[:-1], np.arange(1, values, dtype=np.float64)
        cuts = np.arange(1, values)
    else:
        low, cells, cuts = table, np.ones(values), np.arange(values)
    whole = table.sum(axis=0)
    sides = np.stack([low, whole - low])
    noise = np.stack([cells, values - cells]) * variance
    gains = _entropy_sum(sides, noise[:, :, None]).sum(axis=(0, 2)) - _entropy_sum(sides.sum(2), classes * noise).sum(0)
    rest = values * variance
    gains += float(_entropy_sum(whole.sum(), classes * rest)) - _entropy_sum(whole, rest).sum()
    enough = (sides.sum(axis=2) > LEAST_ROWS * np.sqrt(classes * noise)).all(axis=0)
    gains = np.where(enough, gains, -np.inf)
    best = int(gains.argmax())
    return Split(float(gains[best]), int(cuts[best])) if gains[best] > 0.0 else None


def _entropy_sum(counts: Floats | float, variance: Floats | float) -> Floats:
    """n ln n, less its expected bias by noise; 0 where there are hardly any rows."""
    least = np.sqrt(variance) + 1e-9
    held = np.maximum(counts, least)
    return np.asarray(np.where(np.asarray(counts) > 0, held * np.log(held) - variance / (2 * held), 0.0))
