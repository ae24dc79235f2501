"""Fits with measured errors: the same by group as laid out, all rows untouched, and refused where a file is forged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fitted import SIZE, example, release_with

from sfumato.inference.fits.grouped import Grouped


@pytest.mark.parametrize("kind", ["measured", "steadied"])
def test_groups_err_as_the_same_weights_laid_out(kind):
    fit, group = example(kind), np.arange(SIZE) // 2 % 4
    weights = np.stack([np.ones(SIZE), np.arange(SIZE) % 3 + 0.5], axis=1)
    for whole in (None, np.stack([np.zeros(SIZE), np.ones(SIZE)], axis=1)):
        asked = weights if whole is None else weights * [1.0, 0.0]
        found = fit.errors_by_group(Grouped.of_cells(group, 4, asked, whole))
        for place, errors in enumerate(found):
            columns = asked * (group == place)[:, None] + (0.0 if whole is None else whole)
            assert np.allclose(errors.model, fit.errors(columns).model, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["measured", "steadied"])
def test_all_rows_err_as_before_and_the_rest_by_its_factor(kind):
    fit = example(kind)
    larger = replace(fit, scales=replace(fit.scales, factors=10 * fit.scales.factors))
    columns = np.stack([np.ones(SIZE), np.eye(SIZE)[3]], axis=1)
    before, after = (np.diagonal(one.errors(columns).model) for one in (fit, larger))
    assert before[0] == pytest.approx(fit.inner.deviations[0] ** 2) == after[0]
    assert 2 * before[1] < after[1] < 101 * before[1]
    assert (np.linalg.eigvalsh(larger.errors(np.eye(SIZE)).model) > -1e-6).all()


def test_a_release_says_what_was_measured():
    about = release_with(example("measured")).describe()
    assert all(line.endswith("rows on average, measured") for line in about.findings)
    assert len(about.findings) >= 3 and about.to_dict()["findings"] == list(about.findings)
