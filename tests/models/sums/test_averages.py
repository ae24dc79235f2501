"""Sums fitted as counts times averages: groups one by one and at once, and what a file may not say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fitted import SIZE, example

from sfumato.answers.fit import Grouped
from sfumato.errors import QueryError
from sfumato.models.sums.fit import AveragesFit


@pytest.mark.parametrize("shared", [False, True])
def test_groups_at_once_have_the_errors_of_each_by_itself(shared):
    fit = example("averages")
    stream = np.random.default_rng(3)
    group, weights = np.arange(SIZE) % 3, stream.normal(size=(SIZE, 2))
    whole = stream.normal(size=(SIZE, 2)) if shared else None
    found = fit.errors_by_group(Grouped.of_cells(group, 3, weights, whole))
    for number, errors in enumerate(found):
        columns = weights * (group == number)[:, None] + (0.0 if whole is None else whole)
        assert np.allclose(errors.model, fit.errors(columns).model)


def test_what_makes_no_sense_is_refused():
    fit = example("averages")
    assert isinstance(fit, AveragesFit)
    for wrong in ({"rows": -fit.rows}, {"unit": 0}, {"effects": replace(fit.effects, inside=-1.0)}):
        with pytest.raises(QueryError):
            replace(fit, **wrong)
