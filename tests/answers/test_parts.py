"""Errors of sums over parts: the least covariance above two, and how often intervals of a year hold."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from months import MONTHS, part_of, schema_of, series_of

from sfumato.answers.parts import PartModel, above_both, joined_models
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.publishing.publish import release


def test_the_covariance_is_above_both_and_no_larger_than_needed():
    random = np.random.default_rng(1)
    for size in (1, 2, 3, 6):
        one, other = (each @ each.T for each in random.normal(size=(2, size, size)))
        both = above_both(one, other)
        for each in (one, other):
            assert np.linalg.eigvalsh(both - each).min() > -1e-9
        assert np.allclose(above_both(one, one), one) and np.allclose(above_both(one, 0 * one), one)
        assert np.linalg.eigvalsh(one + other - both).min() > -1e-9


@pytest.mark.parametrize(("recurs", "believed"), [(0.4, 1.0), (0.8, 0.25)])
def test_neighbouring_periods_share_more_than_distant_ones(recurs, believed):
    """Variances of a difference and of a sum of three, against the matrix; no more is shared than a period errs by."""
    lags = np.array([2.0, 1.5, 0.9])
    for signs, codes in (([1, -1], [3, 4]), ([1, -1], [3, 5]), ([1, 1, 1], [3, 4, 5])):
        patterns = SimpleNamespace(
            number=np.zeros((3, 1), dtype=int), sign=np.array(signs, dtype=float)[:, None], many=1, cosines=np.eye(1)
        )
        models = [
            (PartModel(np.eye(1), recurs * np.eye(1), True, code, lags), number) for number, code in enumerate(codes)
        ]
        apart = np.abs(np.subtract.outer(codes, codes))
        explicit = np.where(apart == 0, 1.0, recurs * (1.0 + believed * (lags[apart] - 1.0)))
        assert joined_models(models, patterns) == pytest.approx(np.array(signs) @ explicit @ signs)


def test_intervals_of_sums_over_months():
    """240 counts over six months by `margins`, of a table in which three columns go together.

    Were each to hold with probability 0.95 by itself, fewer than 0.85 would with probability below 1e-8. Taken as
    independent between months, 0.75 hold.
    """
    random, sizes = np.random.default_rng(1), {"a": 6, "b": 5, "c": 4, "d": 3, "e": 8}
    shape = tuple(sizes.values())
    pairs = [(0,), (1,), (2,), (3,), (4,), (0, 1), (1, 2), (2, 4), (0, 1, 2), (1, 3, 4)]
    drawn = [random.normal(size=[n if at in axes else 1 for at, n in enumerate(shape)]) * 0.55 for axes in pairs]
    shares = np.exp(sum(drawn))
    schema = schema_of(
        attributes={name: {"type": "category", "values": list(map(str, range(n)))} for name, n in sizes.items()},
        measures={},
    )
    months, parts, truth = [f"2026-{month:02}" for month in range(1, 7)], [], np.zeros(shape)
    for number, month in enumerate(months):
        mine = shares * np.exp(0.1 * random.normal(size=shape))
        cells = random.choice(mine.size, 20_000, p=(mine / mine.sum()).reshape(-1))
        truth += np.bincount(cells, minlength=mine.size).reshape(shape)
        codes = zip(sizes, np.unravel_index(cells, shape), strict=True)
        table = pa.table({name: code.astype(str) for name, code in codes})
        noise = TestingEntropy(number)
        parts.append(release(table, schema, 1, delta="1e-9", mechanism="margins", period=month, entropy=noise))
    whole, held = series_of(parts, months), []
    for names, others in (("a, b, c", (3, 4)), ("b, d, e", (0, 2))):
        rows = whole.query(f"SELECT {names}, COUNT(*) AS n FROM visits GROUP BY {names}").rows
        counts = truth.sum(axis=others).reshape(-1)
        held += [row[-1].low <= count <= row[-1].high for row, count in zip(rows, counts, strict=True)]
    assert len(held) == 240 and np.mean(held) > 0.85


def test_noise_of_a_tree_does_not_come_again_every_month():
    """The total of all months by `sfumato` has the errors of independent counts, and ranges little more."""
    schema = schema_of(measures={})
    series = series_of([part_of(month, "sfumato", schema, epsilon=4) for month in MONTHS])
    for condition, most in (("", 1.0 + 1e-6), (" WHERE age < 40", 1.3), (" WHERE stay BETWEEN 2 AND 5", 1.3)):
        singles = series.query(f"SELECT period, COUNT(*) FROM visits{condition} GROUP BY period").rows
        ((total,),) = series.query(f"SELECT COUNT(*) FROM visits{condition}").rows
        independent = np.sqrt(sum(each.stderr**2 for _, each in singles))
        assert 1.0 - 1e-6 <= total.stderr / independent <= most
