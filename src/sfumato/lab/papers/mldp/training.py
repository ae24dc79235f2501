"""Train models on noisy answers: ridge regression, Gaussian kernels, and scikit-learn's models; keep the best.

Training sees public features of queries and noisy answers. Every model is a straight line in the share of cells that a
query covers, not penalised, plus a curve. scikit-learn is imported here and nowhere else; its result is taken down as
numbers, so that whoever opens a release does not need it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.errors import MechanismError
from sfumato.frozen import dataclass
from sfumato.lab.papers.mldp.onnx_file import FEATURES, Building, Graph, Source
from sfumato.version import install_command


@dataclass(frozen=True)
class Settings:
    """Hyperparameters, set by judgement on made-up tables, so that models stay small and train in a second.

    penalty, tolerance: of support vectors, for residuals scaled to mean square 1; width: of their Gaussian kernels, in
    largest distances of two queries.
    neurons, steps, decay: of the network's one layer. trees, depth: of bagging; rounds, shallow, rate: of boosting.
    """

    penalty: float = 1000.0
    tolerance: float = 0.02
    width: float = 1.0
    neurons: int = 8
    steps: int = 100
    decay: float = 0.1
    trees: int = 16
    depth: int = 4
    rounds: int = 40
    shallow: int = 3
    rate: float = 0.2


SETTINGS = Settings()


def train_borrowed(name: str, lesson: Lesson, line: Floats, settings: Settings = SETTINGS) -> Model:
    """Train a scikit-learn model on the standardised residuals of the linear part."""
    left = lesson.answers - lesson.rows @ line
    unit = float(np.sqrt((left**2).mean()))
    if unit == 0.0:
        return Model(line)  # nothing is left to learn
    makers = {"svm": _support_vectors, "network": _network, "bagging": _bagging, "boosting": _boosting}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a search that ends before it has settled is good enough
        return Model(line, makers[name](lesson.rows, left / unit, unit, settings))


def _support_vectors(rows: Floats, targets: Floats, unit: float, settings: Settings) -> Curve:
    from sklearn.svm import SVR

    rate = 0.5 / (settings.width**2 * farthest_apart(rows))
    made = SVR(kernel="rbf", C=settings.penalty, gamma=rate, epsilon=settings.tolerance).fit(rows, targets)
    if not len(made.support_vectors_):
        return Bumps(rows[:1], rate, np.zeros(1), unit * float(made.intercept_[0]))
    return Bumps(made.support_vectors_, rate, unit * made.dual_coef_[0], unit * float(made.intercept_[0]))


def _network(rows: Floats, targets: Floats, unit: float, settings: Settings) -> Curve:
    from sklearn.neural_network import MLPRegressor

    made = MLPRegressor(
        hidden_layer_sizes=(settings.neurons,),
        activation="tanh",
        solver="lbfgs",
        alpha=settings.decay,
        max_iter=settings.steps,
        random_state=0,
    ).fit(rows, targets)
    (inner, outer), (first, last) = made.coefs_, made.intercepts_
    return Network(((inner, first), (unit * outer, unit * last)))


def _bagging(rows: Floats, targets: Floats, unit: float, settings: Settings) -> Curve:
    from sklearn.ensemble import BaggingRegressor
    from sklearn.tree import DecisionTreeRegressor

    tree = DecisionTreeRegressor(max_depth=settings.depth, random_state=0)
    made = BaggingRegressor(tree, settings.trees, random_state=0).fit(rows, targets)
    return _joined([each.tree_ for each in made.estimators_], unit / settings.trees, 0.0, rows.shape[1])


def _boosting(rows: Floats, targets: Floats, unit: float, settings: Settings) -> Curve:
    from sklearn.ensemble import GradientBoostingRegressor

    made = GradientBoostingRegressor(
        n_estimators=settings.rounds, max_depth=settings.shallow, learning_rate=settings.rate, random_state=0
    ).fit(rows, targets)
    start = unit * float(targets.mean())  # from which boosting starts
    return _joined([each[0].tree_ for each in made.estimators_], unit * settings.rate, start, rows.shape[1])


def _joined(trees: list[Any], factor: float, start: float, features: int) -> Trees:
    """Flatten decision trees to tests and leaves with required outcomes; a last, untested leaf is `start`."""
    which, limits, paths, values = [0], [0.0], list[dict[int, float]](), list[float]()
    for tree in trees:
        stack: list[tuple[int, dict[int, float]]] = [(0, {})]
        while stack:
            node, path = stack.pop()
            if tree.children_left[node] < 0:
                paths.append(path)
                values.append(factor * float(tree.value[node].reshape(-1)[0]))
                continue
            question = len(which)
            which.append(int(tree.feature[node]))
            limits.append(float(tree.threshold[node]))
            stack.append((int(tree.children_left[node]), {**path, question: 1.0}))
            stack.append((int(tree.children_right[node]), {**path, question: -1.0}))
    matrix = np.zeros((len(which), len(paths) + 1))
    for leaf, path in enumerate(paths):
        for question, sign in path.items():
            matrix[question, leaf] = sign
    return Trees(np.array(which), np.array(limits), matrix, np.array([*values, start]), features)


OWN = ("ridge", "gaussian")
BORROWED = ("svm", "network", "bagging", "boosting")  # that scikit-learn trains
MODELS = (*OWN, *BORROWED)
FOLDS = 5
SPREADS = np.logspace(-6.0, 10.0, 65)  # of a weight, in variances of the noise, among which the likeliest is taken
WIDTHS = (0.5, 1.0, 2.0)  # of bumps, in farthest distances between two queries


def train(name: str, lesson: Lesson) -> Model:
    """Train the model of a given name on a training set."""
    if name == "gaussian":
        return _gaussian(lesson)
    if name != "ridge":
        return train_borrowed(name, lesson, _evenly(lesson))
    weights = np.zeros(lesson.rows.shape[1])
    weights[: lesson.blocks], weights[-1], _ = _shrunk(lesson.rows[:, : lesson.blocks], lesson)
    return Model(weights)


def best_of(names: Sequence[str], lesson: Lesson) -> str:
    """The model with the least cross-validated error on noisy answers.

    Each answer that is foretold has its own noise, independent of what the model was trained on, so that the squared
    misfit is the squared error and the same variance for every model.
    """
    folds = np.arange(len(lesson.answers)) * 7 % FOLDS  # neighbours fall into different folds
    misfits = []
    for name in names:
        total = 0.0
        for fold in range(FOLDS):
            model = train(name, lesson.part(folds != fold))
            left = lesson.part(folds == fold)
            total += float(((model.predict(left.rows) - left.answers) ** 2).sum())
        misfits.append(total)
    return names[int(np.argmin(misfits))]


def _evenly(lesson: Lesson) -> Floats:
    """Feature weights of the uniform model: rows in proportion to the share of cells covered, by least squares."""
    covered, weights = lesson.rows[:, -1], np.zeros(lesson.rows.shape[1])
    weights[-1] = float(covered @ lesson.answers) / max(float(covered @ covered), LITTLE)
    return weights


def _gaussian(lesson: Lesson) -> Model:
    """Gaussian-kernel regression around the training queries; bandwidth by marginal likelihood."""
    farthest = farthest_apart(lesson.rows)
    found = []
    for width in WIDTHS:
        rate = 0.5 / (width**2 * farthest)
        heights, line, likelihood = _shrunk(bumps(lesson.rows, lesson.rows, rate), lesson)
        found.append((likelihood, line, Bumps(lesson.rows, rate, heights)))
    _, line, curve = max(found, key=lambda each: each[0])
    weights = np.zeros(lesson.rows.shape[1])
    weights[-1] = line
    return Model(weights, curve)


def _shrunk(basis: Floats, lesson: Lesson) -> tuple[Floats, float, float]:
    """Ridge weights of a basis beside the line, prior variance by marginal likelihood, and that likelihood.

    The noise is known exactly, so that no data are needed to tell it from what there is to learn.
    """
    covered = lesson.rows[:, -1]
    values, vectors = _modes(basis.tobytes(), covered.tobytes(), len(covered))
    found = vectors.T @ lesson.answers
    # Of a budget so large that its noise has no variance, what rounding leaves is taken for noise.
    noise = max(lesson.variance, LITTLE * float(found @ found), LITTLE)
    variances = noise * (1.0 + SPREADS[:, None] * values)
    likelihood = -0.5 * (np.log(variances) + found**2 / variances).sum(axis=1)
    spread = float(SPREADS[int(np.argmax(likelihood))])
    weights = basis.T @ (vectors @ (found * spread / (1.0 + spread * values)))
    line = float(covered @ (lesson.answers - basis @ weights)) / max(float(covered @ covered), LITTLE)
    return weights, line, float(likelihood.max())


@lru_cache(maxsize=16)
def _modes(basis: bytes, covered: bytes, rows: int) -> tuple[Floats, Floats]:
    """Eigenvalues and eigenvectors of the basis orthogonal to the line (spectral form of ridge regression); cached."""
    matrix, line = np.frombuffer(basis).reshape(rows, -1), np.frombuffer(covered)
    unit = line / max(float(np.sqrt(line @ line)), LITTLE)
    left = matrix - np.outer(unit, unit @ matrix)
    values, vectors = np.linalg.eigh(left @ left.T)
    kept = values > LITTLE * max(float(values.max(initial=0.0)), LITTLE)
    return values[kept], vectors[:, kept]


def check_names(name: str) -> None:
    """Refuse an unknown model, or one whose library is not installed."""
    from importlib.util import find_spec

    if name not in (*MODELS, "auto"):
        raise MechanismError(f"no model {name!r}; there are auto, {', '.join(MODELS)}")
    if name not in OWN and find_spec("sklearn") is None:
        raise MechanismError(f"the model {name} needs scikit-learn: {install_command('models')}, or use model=ridge")


class Curve(Protocol):
    """Non-linear part of a model."""

    def predict(self, rows: Floats) -> Floats:
        """Value of the curve for each row of features, (rows,)."""

    def steps(self, made: Building) -> Source:
        """Append the curve to a graph."""


@dataclass(frozen=True, eq=False)
class Model:
    """Linear function of the features, plus an optional non-linear curve."""

    weights: Floats
    curve: Curve | None = None

    def predict(self, rows: Floats) -> Floats:
        straight = np.asarray(rows @ self.weights)
        return straight if self.curve is None else straight + self.curve.predict(rows)

    def graph(self) -> Graph:
        """Computation graph of the model, as it is published."""
        made = Building(len(self.weights))
        curved = None if self.curve is None else self.curve.steps(made)
        straight = made.step("MatMul", FEATURES, made.table(self.weights[:, None]))
        if curved is not None:
            made.step("Add", curved, straight)
        return made.graph()


@dataclass(frozen=True, eq=False)
class Bumps:
    """Gaussian radial basis functions: offset + sum of weight * exp(-rate |row - centre|^2)."""

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
    """Gaussian kernel of each row and each centre: 1 where they are the same, less the farther they are apart."""
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
    """Sum of decision trees without branching: all tests at once, then the leaves whose requirements hold.

    which: feature of each test, true where it is at most `limits`. paths: (tests, leaves), 1 where a leaf requires
    true, -1 where false. values: of the leaves.
    """

    which: np.ndarray[tuple[int, ...], np.dtype[np.int64]]
    limits: Floats
    paths: Floats
    values: Floats
    features: int

    @property
    def needed(self) -> Floats:
        """Number of tests that each leaf requires to be true, (leaves,)."""
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


LITTLE = 1e-9  # no division by nothing; of a largest eigenvalue, nothing


@dataclass(frozen=True, eq=False)
class Lesson:
    """Training set: queries and noisy answers.

    rows: features of queries, the share of cells covered last. blocks: how many of the features are shares of blocks.
    variance: of the noise on each answer.
    """

    rows: Floats
    answers: Floats
    blocks: int
    variance: float

    def part(self, keep: NDArray[np.bool_]) -> Lesson:
        """Training set of some of the queries."""
        return Lesson(self.rows[keep], self.answers[keep], self.blocks, self.variance)


def farthest_apart(rows: Floats) -> float:
    """The largest squared distance between two rows."""
    own = (rows**2).sum(axis=1)
    return max(float((own[:, None] + own - 2.0 * rows @ rows.T).max()), LITTLE)
