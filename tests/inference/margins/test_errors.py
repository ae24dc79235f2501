"""The errors of joined tables, against the covariance of all cells written out."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.inference.margins.errors import JoinedErrors
from sfumato.inference.margins.table import subsets

SHAPE = (3, 4, 2)


def drawn(seed: int) -> JoinedErrors:
    rng = np.random.default_rng(seed)
    bases = tuple(rng.dirichlet(np.ones(size)) for size in SHAPE)
    return JoinedErrors(bases, {part: rng.uniform(0, 2, [SHAPE[a] for a in part]) for part in subsets((0, 1, 2))})


def written_out(errors: JoinedErrors) -> np.ndarray:
    """The covariance of all cells: for each set of axes, spread by the base, and centred along its own axes."""
    covariance = np.zeros((24, 24))
    for part, variances in errors.variances.items():
        spread = np.ones((1, 1))
        for axis, base in enumerate(errors.bases):
            own = np.eye(len(base)) - np.outer(base, np.ones(len(base)))
            spread = np.kron(spread, own if axis in part else base[:, None])
        covariance += spread @ np.diag(variances.reshape(-1)) @ spread.T
    return covariance


@pytest.mark.parametrize("seed", range(3))
def test_single_cells(seed):
    errors = drawn(seed)
    assert np.allclose(errors.of_cells().reshape(-1), np.diag(written_out(errors)))


@pytest.mark.parametrize("groups", [(), (1,), (0, 2), (0, 1, 2)])
def test_sums_by_group_beside_sums_over_all_cells(groups):
    errors, rng = drawn(7), np.random.default_rng(1)
    split, whole = (
        [rng.normal(size=SHAPE), rng.normal(size=SHAPE), None],
        [None, rng.normal(size=SHAPE), np.ones(SHAPE)],
    )
    found = errors.covariances(split, whole, groups)
    covariance = written_out(errors)
    for group in np.ndindex(*(SHAPE[axis] for axis in groups)):
        inside = np.zeros(SHAPE)
        inside[tuple(group[groups.index(axis)] if axis in groups else slice(None) for axis in range(3))] = 1.0
        weights = np.array(
            [
                ((0.0 if s is None else s * inside) + (0.0 if w is None else w) + np.zeros(SHAPE)).reshape(-1)
                for s, w in zip(split, whole, strict=True)
            ]
        )
        assert np.allclose(found[group], weights @ covariance @ weights.T)


def test_a_total_carries_the_error_of_the_total_alone():
    errors = drawn(3)
    ones = np.ones((1, 1, 1))
    assert errors.covariances([ones], [None], ())[0, 0] == pytest.approx(float(errors.variances[()]))
    by_first = errors.covariances([ones], [None], (0,))[:, 0, 0]
    alone = JoinedErrors(errors.bases[:1], {part: errors.variances[part] for part in ((), (0,))})
    assert np.allclose(by_first, alone.of_cells())
