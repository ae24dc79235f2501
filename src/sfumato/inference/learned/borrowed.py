"""Models that scikit-learn trains: support vectors, a small network, bagged and boosted trees.

scikit-learn is imported here and nowhere else, when such a model is trained; what it makes is taken down as numbers, so
that whoever opens a release does not need it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.inference.learned.lesson import Lesson, farthest_apart
from sfumato.inference.learned.trained import Bumps, Curve, Model, Network, Trees


@dataclass(frozen=True)
class Settings:
    """What was chosen by judgement, on tables made up, so that models stay small and are trained in a second.

    penalty, tolerance: of support vectors, in spreads of the answers; width: of their bumps, in farthest distances.
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
    """A curve on top of the line, trained on what the line leaves, in units of its spread."""
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
    """Trees as questions, and leaves that need some of them true and some false; a last leaf without any is `start`."""
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
