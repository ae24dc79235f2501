"""A decision tree over cells, and which split noisy counts speak for.

A split parts the values of one attribute in two: below a cut where they are ordered, one value against the others where
not. Its gain is ID3's, the rows times the information about the class. Noise of variance v lifts the expectation of
n ln n by about v / (2 n), and more where there are more values to choose from; as much is taken off before gains are
compared, so that attributes with many values win by their rows and not by their noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass

LEAST_ROWS = 4.0  # standard errors of its count that either side of a split has at least


@dataclass(frozen=True)
class Node:
    """feature: which attribute is looked at, -1 for a leaf. cut: the first value of the high side, or the value itself.

    low, high: the places of the nodes below. label: of a leaf.
    """

    feature: int = -1
    cut: int = 0
    low: int = 0
    high: int = 0
    label: int = 0


@dataclass(frozen=True)
class Tree:
    """Nodes, each before those below it. ordered: of each attribute, whether a cut parts low values from high ones."""

    nodes: tuple[Node, ...]
    ordered: tuple[bool, ...]

    @property
    def leaves(self) -> list[int]:
        """The places of the leaves among the nodes, in order: the strata."""
        return [place for place, node in enumerate(self.nodes) if node.feature < 0]

    @property
    def labels(self) -> Codes:
        """The class that each leaf is given."""
        return np.array([self.nodes[place].label for place in self.leaves], dtype=np.int64)

    @property
    def features(self) -> list[int]:
        """Which attributes it looks at."""
        return sorted({node.feature for node in self.nodes if node.feature >= 0})

    def places(self, codes: Sequence[Codes]) -> Codes:
        """The node that every row ends in; a value that is not known (-1) goes to the high side."""
        place = np.zeros(len(codes[0]), dtype=np.int64)
        for number, node in enumerate(self.nodes):
            if node.feature < 0:
                continue
            along = codes[node.feature]
            low = (along < node.cut) & (along >= 0) if self.ordered[node.feature] else along == node.cut
            place = np.where(place == number, np.where(low, node.low, node.high), place)
        return place

    def strata(self, codes: Sequence[Codes]) -> Codes:
        """The leaf that every row ends in, by its number."""
        number = np.zeros(len(self.nodes), dtype=np.int64)
        number[self.leaves] = np.arange(len(self.leaves))
        return number[self.places(codes)]

    def split(self, place: int, feature: int, cut: int) -> Tree:
        """The tree with a leaf parted in two."""
        last = len(self.nodes)
        parted = replace(self.nodes[place], feature=feature, cut=cut, low=last, high=last + 1)
        return Tree((*self.nodes[:place], parted, *self.nodes[place + 1 :], Node(), Node()), self.ordered)

    def labelled(self, labels: Sequence[int]) -> Tree:
        """The tree with a label for each leaf."""
        given = dict(zip(self.leaves, labels, strict=True))
        nodes = (replace(node, label=given.get(place, 0)) for place, node in enumerate(self.nodes))
        return Tree(tuple(nodes), self.ordered)


@dataclass(frozen=True)
class Split:
    """The best split of one attribute, and what it tells."""

    gain: float
    cut: int


def best_split(table: Floats, variance: float, ordered: bool) -> Split | None:
    """The split of an attribute that tells most, of those whose sides both have rows; None where none has.

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
    """n ln n, less what noise adds to it on average; 0 where there are hardly any rows."""
    least = np.sqrt(variance) + 1e-9
    held = np.maximum(counts, least)
    return np.asarray(np.where(np.asarray(counts) > 0, held * np.log(held) - variance / (2 * held), 0.0))
