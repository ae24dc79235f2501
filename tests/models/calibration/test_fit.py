"""Fits with measured errors: all rows untouched, the rest by its factor, and said in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fitted import SIZE, example, release_with


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
    said = ("rows on average, measured", "the measurement can see", " rows)")
    assert all(line.endswith(said) for line in about.findings)
    assert len(about.findings) >= 3 and about.to_dict()["findings"] == list(about.findings)
