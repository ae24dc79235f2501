"""Training: each model learns what it can, from noisy answers and public features alone."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import MechanismError
from sfumato.lab.papers.mldp import training
from sfumato.lab.papers.mldp.training import MODELS, Lesson, best_of, check_names, train

COUNTS = np.array([50.0, 400.0, 10.0, 90.0, 0.0, 30.0, 220.0, 200.0])


def lesson(answers=None, noise: float = 1.0) -> Lesson:
    """All 36 ranges of 8 blocks."""
    column = np.arange(8)
    shares = np.array([(column >= a) & (column <= b) for a in range(8) for b in range(a, 8)], dtype=float)
    ends = np.array([(a / 8, (b + 1) / 8) for a in range(8) for b in range(a, 8)])
    rows = np.hstack([shares, ends, shares.mean(axis=1)[:, None]])
    noisy = shares @ COUNTS + noise * (np.arange(36) * 7 % 5 - 2.0)
    return Lesson(rows, noisy if answers is None else answers, 8, 2.0 * noise**2)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_beats_rows_spread_evenly(name):
    """The network and the trees know less of a sum than ridge regression does, and all of them more than a line."""
    learnt, even = lesson(), np.full(36, COUNTS.mean() * 8)
    truth = learnt.rows[:, :8] @ COUNTS
    error = np.sqrt(((train(name, learnt).predict(learnt.rows) - truth) ** 2).mean())
    assert error < 0.6 * np.sqrt(((even * learnt.rows[:, -1] - truth) ** 2).mean())
    if name == "ridge":
        assert error < 2.0  # about the noise: it is the histogram


def test_the_same_answers_give_the_same_model():
    for name in MODELS:
        one, other = (train(name, lesson()).predict(lesson().rows) for _ in range(2))
        assert np.array_equal(one, other), name


def test_cross_validation_finds_the_histogram_for_ranges():
    assert best_of(MODELS, lesson()) == "ridge"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("constant", [0.0, 17.0])
def test_constant_answers_give_a_finite_model(name, constant):
    found = train(name, lesson(np.full(36, constant))).predict(lesson().rows)
    assert np.isfinite(found).all() and np.abs(found).max() < 200.0


def test_models_that_cannot_be_trained_are_named(monkeypatch):
    with pytest.raises(MechanismError, match="no model 'forest'; there are auto, ridge"):
        check_names("forest")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    check_names("ridge")
    with pytest.raises(MechanismError, match=r"needs scikit-learn: pip install .*\[models\]"):
        check_names("svm")
    assert set(training.OWN) | set(training.BORROWED) == set(MODELS)
