"""Training on noisy answers: ridge regression and Gaussian bumps here, the rest by scikit-learn, and the best of them.

Nothing here sees anything but features of queries, which are public, and noisy answers. Every model starts from rows
spread evenly: a straight line in the share of cells that a query covers, which is not penalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import MechanismError
from sfumato.inference.learned.lesson import LITTLE, Lesson, farthest_apart
from sfumato.inference.learned.trained import Bumps, Model, bumps
from sfumato.version import install_command

OWN = ("ridge", "gaussian")
BORROWED = ("svm", "network", "bagging", "boosting")  # that scikit-learn trains
MODELS = (*OWN, *BORROWED)
FOLDS = 5
SPREADS = np.logspace(-6.0, 10.0, 65)  # of a weight, in variances of the noise, among which the likeliest is taken
WIDTHS = (0.5, 1.0, 2.0)  # of bumps, in farthest distances between two queries


def train(name: str, lesson: Lesson) -> Model:
    """The model of that name."""
    if name == "ridge":
        return _ridge(lesson)
    if name == "gaussian":
        return _gaussian(lesson)
    from sfumato.inference.learned.borrowed import train_borrowed

    return train_borrowed(name, lesson, _evenly(lesson))


def best_of(names: Sequence[str], lesson: Lesson) -> str:
    """The model that foretells noisy answers best that it was not trained on.

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
    """Rows spread evenly over the cells: weights of all features."""
    covered, weights = lesson.rows[:, -1], np.zeros(lesson.rows.shape[1])
    weights[-1] = float(covered @ lesson.answers) / max(float(covered @ covered), LITTLE)
    return weights


def _ridge(lesson: Lesson) -> Model:
    shares = lesson.rows[:, : lesson.blocks]
    weights = np.zeros(lesson.rows.shape[1])
    weights[: lesson.blocks], weights[-1], _ = _shrunk(shares, lesson)
    return Model(weights)


def _gaussian(lesson: Lesson) -> Model:
    """Bumps around the queries of the training set, as wide as is likeliest, in farthest distances between two."""
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
    """Weights of a basis beside the line, each as likely up as down, of the likeliest spread, and how likely that is.

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
    """Eigenvalues and vectors of what the basis can say besides the line; public, and the same for every release."""
    matrix, line = np.frombuffer(basis).reshape(rows, -1), np.frombuffer(covered)
    unit = line / max(float(np.sqrt(line @ line)), LITTLE)
    left = matrix - np.outer(unit, unit @ matrix)
    values, vectors = np.linalg.eigh(left @ left.T)
    kept = values > LITTLE * max(float(values.max(initial=0.0)), LITTLE)
    return values[kept], vectors[:, kept]


def check_names(name: str) -> None:
    """Refuse a model that is not there, or that needs what is not installed."""
    from importlib.util import find_spec

    if name not in (*MODELS, "auto"):
        raise MechanismError(f"no model {name!r}; there are auto, {', '.join(MODELS)}")
    if name not in OWN and find_spec("sklearn") is None:
        raise MechanismError(f"the model {name} needs scikit-learn: {install_command('models')}, or use model=ridge")
