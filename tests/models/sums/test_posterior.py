"""The posterior of sums is the one that writing out all covariances gives."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.sums.posterior import Effects, Posterior, Seen, Table

SIDES = (3, 10)
ROWS = Table(SIDES, (3, 1))
EFFECTS = Effects((Table(SIDES, (1, 1)), ROWS, Table(SIDES, (1, 2))), (0.3, 0.05, 0.02), 0.01, 0.2, 1.5)


@pytest.mark.parametrize("parts", [[(3, 10)], [(3, 1), (1, 10)], [(3, 10), (3, 1), (1, 2), (3, 10)]])
def test_mean_and_covariance_are_those_of_all_equations_written_out(parts):
    stream = np.random.default_rng(5)
    counts = stream.poisson(9, 30).astype(np.float64)
    seen = [
        Seen(table, stream.normal(size=table.size) * 20, 4.0 + table.size) for table in (Table(SIDES, p) for p in parts)
    ]
    known = Posterior(counts, EFFECTS, tuple(seen))
    prior = np.diag(EFFECTS.own(counts))
    for table, variance in zip(EFFECTS.tables, EFFECTS.between, strict=True):
        prior += variance * np.outer(counts, counts) * (table.labels()[:, None] == table.labels())
    asked = np.vstack([one.table.queries().dense() for one in seen])
    noise = np.concatenate([np.full(one.table.size, one.variance) for one in seen])
    gain = prior @ asked.T @ np.linalg.inv(asked @ prior @ asked.T + np.diag(noise))
    assert np.allclose(known.estimate, gain @ np.concatenate([one.answers for one in seen]))
    columns = stream.normal(size=(30, 4))
    assert np.allclose(known.covariance(columns), columns.T @ (prior - gain @ asked @ prior) @ columns)
