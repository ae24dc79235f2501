"""Fits with measured errors of every kind: the same by group as laid out, and the total as it was."""

from __future__ import annotations

import numpy as np
import pytest
from fitted import KINDS, SIZE, example

from sfumato.answers.fit import Grouped
from sfumato.models.calibration.fit import Questions

OTHERS = [kind for kind in KINDS if kind.startswith("measured ")]


def noises(errors) -> np.ndarray:
    counts = 1.0 if errors.counts is None else errors.counts[:, None]
    return (counts * errors.design.variances[:, None] * errors.weights**2).sum(axis=0)


@pytest.mark.parametrize("kind", ["measured", "steadied", *OTHERS])
def test_groups_err_as_the_same_weights_laid_out(kind):
    fit, group = example(kind), np.arange(SIZE) // 2 % 4
    weights = np.stack([np.ones(SIZE), np.arange(SIZE) % 3 + 0.5], axis=1)
    for whole in (None, np.stack([np.zeros(SIZE), np.ones(SIZE)], axis=1)):
        asked = weights if whole is None else weights * [1.0, 0.0]
        found = fit.errors_by_group(Grouped.of_cells(group, 4, asked, whole))
        assert found is not None or whole is not None  # cells and buckets know no weights in all groups
        for place, errors in enumerate(found or ()):
            laid_out = fit.errors(asked * (group == place)[:, None] + (0.0 if whole is None else whole))
            assert np.allclose(errors.model, laid_out.model, rtol=1e-6, atol=1e-6)
            assert np.allclose(noises(errors), noises(laid_out), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in OTHERS if kind != "measured coarse"])
def test_all_rows_err_as_before_and_parts_by_what_was_measured(kind):
    fit = example(kind)
    columns = np.stack([np.ones(SIZE), np.eye(SIZE)[8]], axis=1)
    before, after = (np.diagonal(each.errors(columns).model) for each in (fit.inner, fit))
    # of blocks, a file keeps variances of contrasts in whole parts
    assert after[0] == pytest.approx(before[0], abs=0.1 if "blocks" in kind else 1e-9) and after[1] > 0.0
    assert np.array_equal(fit.estimate, fit.inner.estimate)


def test_all_rows_that_were_not_counted_are_as_doubtful_as_all_else():
    """Regions found in noise hold more of it than is reckoned: with no count of all rows, nothing of it is known."""
    fit = example("measured coarse")
    columns = np.stack([np.ones(SIZE), np.eye(SIZE)[8]], axis=1)
    before, after = (np.diagonal(each.errors(columns).model) for each in (fit.inner, fit))
    factors, hidden = fit.scales.of(Questions.of_columns(fit.domain, columns, fit.estimate), 2)
    assert np.allclose(after, factors**2 * before + hidden)
    assert factors[0] != 1.0
