"""The shapes that a trained model has, what each says of rows of features, and its steps as they are published.

Every model is a straight line plus, perhaps, something curved: bumps, a network or trees.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.inference.learned.graph import FEATURES, Building, Graph, Source


class Curve(Protocol):
    """What a model has beside its straight part."""

    def predict(self, rows: Floats) -> Floats:
        """One number for each row of features."""

    def steps(self, made: Building) -> Source:
        """The same, as steps."""


@dataclass(frozen=True, eq=False)
class Model:
    """A weighted sum of the features, and perhaps a curve."""

    weights: Floats
    curve: Curve | None = None

    def predict(self, rows: Floats) -> Floats:
        straight = np.asarray(rows @ self.weights)
        return straight if self.curve is None else straight + self.curve.predict(rows)

    def graph(self) -> Graph:
        """Its steps, as they are published."""
        made = Building(len(self.weights))
        curved = None if self.curve is None else self.curve.steps(made)
        straight = made.step("MatMul", FEATURES, made.table(self.weights[:, None]))
        if curved is not None:
            made.step("Add", curved, straight)
        return made.graph()


@dataclass(frozen=True, eq=False)
class Bumps:
    """A weighted sum of exp(-rate |row - centre|^2) over centres, and an offset."""

    centres: Floats
    rate: float
    weights: Floats
    offset: float = 0.0

    def predict(self, rows: Floats) -> Floats:
        return np.asarray(bumps(rows, self.centres, self.rate) @ self.weights + self.offset)

    def steps(self, made: Building) -> Source:
        features = self.centres.shape[1]
        squared = made.step("Mul", FEATURES, FEATURES)
        own = made.step("MatMul", squared, made.table(np.full((features, 1), -self.rate)))
        across = made.step("MatMul", FEATURES, made.table(2.0 * self.rate * self.centres.T))
        centred = made.step("Add", across, made.table(-self.rate * (self.centres**2).sum(axis=1)))
        raised = made.step("Exp", made.step("Add", centred, own))
        return made.step("Add", made.step("MatMul", raised, made.table(self.weights[:, None])), made.table(self.offset))


def bumps(rows: Floats, centres: Floats, rate: float) -> Floats:
    """What each centre says of each row: 1 where they are the same, less the farther they are apart."""
    squares = (rows**2).sum(axis=1)[:, None] - 2.0 * rows @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.exp(-rate * squares))


@dataclass(frozen=True, eq=False)
class Network:
    """Layers of weights with tanh between them. layers: weights and offsets of each."""

    layers: tuple[tuple[Floats, Floats], ...]

    def predict(self, rows: Floats) -> Floats:
        for place, (weights, offsets) in enumerate(self.layers):
            rows = (np.tanh(rows) if place else rows) @ weights + offsets
        return np.asarray(rows[:, 0])

    def steps(self, made: Building) -> Source:
        at = FEATURES
        for place, (weights, offsets) in enumerate(self.layers):
            inside = made.step("Tanh", at) if place else at
            at = made.step("Add", made.step("MatMul", inside, made.table(weights)), made.table(offsets))
        return at


@dataclass(frozen=True, eq=False)
class Trees:
    """The sum of decision trees, without branching: all their questions at once, and which leaves agree with them.

    which: the feature of each question. limits: true where the feature is at most this. paths: questions by leaves, 1
    where a leaf needs true, -1 where it needs false. values: of the leaves.
    """

    which: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    limits: Floats
    paths: Floats
    values: Floats
    features: int

    @property
    def needed(self) -> Floats:
        """For each leaf, how many of its questions must be true."""
        return np.asarray((self.paths > 0).sum(axis=0, dtype=np.float64))

    def predict(self, rows: Floats) -> Floats:
        true = (rows[:, self.which] <= self.limits).astype(np.float64)
        return np.asarray((true @ self.paths == self.needed).astype(np.float64) @ self.values)

    def steps(self, made: Building) -> Source:
        picked = np.zeros((self.features, len(self.which)))
        picked[self.which, np.arange(len(self.which))] = 1.0
        asked = made.step("LessOrEqual", made.step("MatMul", FEATURES, made.table(picked)), made.table(self.limits))
        true = made.step("MatMul", made.step("Cast", asked), made.table(self.paths))
        leaves = made.step("Cast", made.step("Equal", true, made.table(self.needed)))
        return made.step("MatMul", leaves, made.table(self.values[:, None]))
