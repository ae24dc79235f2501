"""Intervals of numbers that are made of several groups: exact standard errors, and coverage of MAX and MIN."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from curators import curator_of
from scipy.stats import binom

from sfumato.answers.results import Estimate
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.measurement import Laplace
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "m": {"type": "integer", "lower": 1, "upper": 6},
            "sex": {"type": "category", "values": ["F", "M"]},
        },
    }
)
C = "WITH c AS (SELECT m, COUNT(*) AS n FROM t GROUP BY m) "


def released(counts: object, seed: int, mechanism: str = "cells", epsilon: Fraction = Fraction(1)) -> Release:
    curator = curator_of(SCHEMA, np.asarray(counts), epsilon=epsilon, entropy=TestingEntropy(seed))
    content = MECHANISMS[mechanism].run(curator, SCHEMA, Budget.pure(epsilon), None)
    return Release(content, mechanism, describe_guarantee(Budget.pure(epsilon), SCHEMA), False)


@pytest.fixture(scope="module")
def release() -> Release:
    return released(np.arange(12).reshape(6, 2) * 9 + 40, 31)


# In each row, how many noises of a cell it has, times the squares of their weights. A group has two cells.
VARIANCES = {
    "SELECT m, SUM(n) OVER (ORDER BY m) AS x FROM c": [2 * k for k in range(1, 7)],
    "SELECT m, SUM(n) OVER (ORDER BY m ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS x FROM c": [4, 6, 6, 6, 6, 4],
    "SELECT m, AVG(n) OVER (ORDER BY m ROWS 2 PRECEDING) AS x FROM c": [2, 1, 2 / 3, 2 / 3, 2 / 3, 2 / 3],
    "SELECT m, n - LAG(n, 1, 0) OVER (ORDER BY m) AS x FROM c": [2, 4, 4, 4, 4, 4],
    "SELECT m, n - AVG(n) OVER () AS x FROM c": [2 * ((5 / 6) ** 2 + 5 / 36)] * 6,
    "SELECT m, SUM(n) OVER (ORDER BY m) - SUM(n) OVER (ORDER BY m DESC) AS x FROM c": [10, 10, 10, 10, 10, 10],
    "SELECT SUM(m * n) AS x FROM c": [2 * 91],
    "SELECT AVG(n) AS x FROM c": [2 / 6],
    "SELECT a.n - b.n AS x FROM c AS a JOIN c AS b ON b.m = a.m + 1": [4] * 5,
    "SELECT a.n - b.n AS x FROM c AS a JOIN c AS b USING (m)": [0] * 6,
    "SELECT c.n - 2 * f.n AS x FROM c JOIN (SELECT m, COUNT(*) AS n FROM t WHERE sex = 'F' GROUP BY m) f USING (m)": [2]
    * 6,
    "SELECT n - (SELECT SUM(n) FROM c) AS x FROM c": [10] * 6,
}


@pytest.mark.parametrize("sql", VARIANCES)
def test_standard_errors_of_linear_forms_are_those_of_their_noises(sql, release):
    noise = Laplace(Fraction(1)).variance
    found = [one.stderr for one in release.query(C + sql).column("x") if isinstance(one, Estimate)]
    assert found == pytest.approx([sqrt(noise * weight) for weight in VARIANCES[sql]], abs=1e-9)


def test_a_number_of_several_groups_is_the_number_that_one_condition_gives(release):
    """Values, intervals and all: a running sum is a count of an interval, and a share of it Fieller's ratio."""
    running = release.query(
        C + "SELECT m, SUM(n) OVER (ORDER BY m) AS x, SUM(n) OVER (ORDER BY m) / SUM(n) OVER () AS s FROM c"
    )
    for m, total, share in running:
        ((plain, ratio),) = release.query(
            f"SELECT COUNT(*) FILTER (WHERE m <= {m}), COUNT(*) FILTER (WHERE m <= {m}) / COUNT(*) FROM t"
        )
        assert (total, share) == (plain, ratio)
    changes = release.query(C + "SELECT m, n - LAG(n) OVER (ORDER BY m) AS d FROM c")
    for m, change in changes.rows[1:]:
        ((plain,),) = release.query(
            f"SELECT COUNT(*) FILTER (WHERE m = {m}) - COUNT(*) FILTER (WHERE m = {m - 1}) FROM t"
        )
        assert change == plain and change.real is not None
    assert all("d_real" in record for record in changes.records())  # also where there is no month before
    women = "f AS (SELECT m, COUNT(*) AS n FROM t WHERE sex = 'F' GROUP BY m)"
    by_key = release.query(f"{C}, {women} SELECT m, f.n / c.n FROM f JOIN c USING (m)")
    assert by_key.rows == release.query("SELECT m, COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*) FROM t GROUP BY m").rows


def test_max_and_min_are_held_although_noise_chooses_the_group():
    """Six groups of the same size: noise alone chooses. 250 releases, intervals of 80 %, false alarm 1e-6 in all."""
    confidence, trials = 0.8, 250
    misses = np.zeros(3, dtype=int)
    for seed in range(trials):
        made = released(np.full((6, 2), 25), 1000 + seed)
        sql = C + "SELECT MAX(n), MIN(n), MAX(n) - MIN(n) FROM c"
        (row,) = made.query(sql, confidence=confidence)
        assert all(one.low <= one.value <= one.high for one in row)
        misses += [not one.low <= truth <= one.high for one, truth in zip(row, (50, 50, 0), strict=True)]
    assert (misses <= binom.isf(1e-6 / 3, trials, 1.0 - confidence)).all(), misses
    # An interval of the winner alone, at the confidence asked, would have missed far more often.
    alone = Laplace(Fraction(1)).variance ** 0.5 * sqrt(2.0) * 1.28
    assert row[0].high - row[0].low > 2.0 * alone


@pytest.mark.parametrize("mechanism", ["margins", "sfumato", "hierarchical"])
def test_fitted_releases_answer_them_with_intervals_around_the_value(mechanism):
    made = released(np.arange(12).reshape(6, 2) * 9 + 40, 32, mechanism)
    for sql in (
        "SELECT m, n, n - LAG(n) OVER (ORDER BY m) AS d, SUM(n) OVER (ORDER BY m) AS s FROM c",
        "SELECT MAX(n), AVG(n) FROM c",
    ):
        for row in made.query(C + sql, interval="both"):
            for cell in row[1:]:
                if isinstance(cell, Estimate) and not np.isnan(cell.value):
                    assert cell.low <= cell.value <= cell.high and cell.stderr > 0
