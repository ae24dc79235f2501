"""Covariances of leaves with sums are those that the fit itself states, whichever way they are worked out."""

from __future__ import annotations

import numpy as np
from fitted import SIZE, example

from sfumato.models.tree.fit import FINE, covariances_with


def test_covariances_are_those_of_the_fit():
    fit, columns = example("leaves"), np.random.default_rng(3).normal(size=(SIZE, 5))
    found = covariances_with(fit.tree, fit.slopes / FINE, fit.deviations, fit.leanings, columns)
    assert np.allclose(columns.T @ found, fit.errors(columns).model)
