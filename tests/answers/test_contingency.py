"""Chi-square tests, Cramer's V, odds and risk ratios from a release."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.calibration.calibrate import release_of
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema(
    dataset="people",
    privacy_unit="row",
    attributes={
        "smoker": {"type": "boolean"},
        "region": {"type": "category", "values": ["north", "south", "west", "east"]},
        "lung": {"type": "category", "values": ["well", "ill"]},
        "age": {"type": "integer", "lower": 0, "upper": 3},
    },
)
SURE = 10**4  # epsilon at which no noise is drawn, but for one in e^10,000


def people(rows: int, seed: int, apart: float = 0.0) -> np.ndarray:
    """Counts by cell of a drawn table. apart: how much more people smoke in the south."""
    rng = np.random.default_rng(seed)
    region, age = rng.choice(4, rows, p=[0.5, 0.3, 0.15, 0.05]), rng.integers(0, 4, rows)
    smoker = rng.random(rows) < 0.3 + apart * (region == 1)
    lung = rng.random(rows) < 0.1 + 0.15 * smoker
    shape = SCHEMA.domain.shape
    place = np.ravel_multi_index((smoker.astype(int), region, lung.astype(int), age), shape)
    return np.bincount(place, minlength=SCHEMA.domain.size).reshape(shape)


def released(counts: np.ndarray, epsilon: Fraction | int, seed: int = 1, mechanism: str = "cells") -> Release:
    return release_of(mechanism, (counts, None), Fraction(epsilon), TestingEntropy(seed), SCHEMA)


def test_without_noise_the_statistic_is_pearsons():
    counts = people(2_000, 1, apart=0.05)
    expected = stats.chi2_contingency(counts.sum(axis=(2, 3)), correction=False)
    found = released(counts, SURE).test("smoker", "region")
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-6) and found.degrees == 3
    assert found.p_value == pytest.approx(expected.pvalue, abs=0.03)  # 5,000 draws: six standard errors at most
    young = released(counts, SURE).test("SMOKER", "region", where="age < 2")
    expected = stats.chi2_contingency(counts[..., :2].sum(axis=(2, 3)), correction=False)
    assert young.statistic == pytest.approx(expected.statistic, rel=1e-6)
    assert "chi-square" in str(young) and "p = " in str(young)


@pytest.mark.full
@pytest.mark.parametrize(("rows", "epsilon"), [(2_000, Fraction(1, 4)), (300, Fraction(1, 2))])
def test_p_values_are_uniform_if_attributes_are_independent(rows, epsilon):
    """400 tables and releases each: Kolmogorov and Smirnov's test at 1e-6."""
    chances = [released(people(rows, seed), epsilon, seed + 1).test("smoker", "region").p_value for seed in range(400)]
    assert stats.kstest(chances, "uniform").pvalue > 1e-6
    # A test that took the noisy table for exact would find far too much: that this one fails at it shows its power.
    naive = [
        stats.chi2_contingency(_positive(people(rows, seed), epsilon, seed), correction=False).pvalue
        for seed in range(400)
    ]
    assert stats.kstest(naive, "uniform").pvalue < 1e-6


def _positive(counts: np.ndarray, epsilon: Fraction, seed: int) -> np.ndarray:
    noisy = released(counts, epsilon, seed + 1).marginal("smoker", "region").rows
    return np.maximum([row[2].value for row in noisy], 1.0).reshape(2, 4)


def test_dependence_is_found_where_rows_suffice():
    found = released(people(5_000, 2, apart=0.2), 1).test("smoker", "region")
    assert found.p_value < 0.001 and "p < 0.001" in str(found)


def test_a_model_is_asked_for_what_was_measured():
    counts = people(5_000, 2, apart=0.2)
    assert released(counts, 1, mechanism="margins").test("smoker", "region").p_value < 0.001
    with pytest.raises(QueryError, match="unbiased"):
        released(counts, 1, mechanism="margins").query("SELECT CRAMERS_V(smoker, region) FROM people")
    with pytest.raises(QueryError, match="holds no unbiased counts"):
        released(counts, 1, mechanism="sfumato").test("smoker", "region")


@pytest.mark.parametrize(
    ("names", "said"), [(("smoker", "wealth"), "no attribute"), (("age", "AGE"), "independent of itself")]
)
def test_what_cannot_be_tested_is_refused(names, said):
    with pytest.raises(QueryError, match=said):
        released(people(100, 1), SURE).test(*names)


def test_too_few_rows_are_refused():
    with pytest.raises(QueryError, match="too few rows"):
        released(people(3, 1), Fraction(1, 10)).test("smoker", "region")


def v_of(counts: np.ndarray) -> float:
    table = counts.sum(axis=(2, 3))
    return float(np.sqrt(stats.chi2_contingency(table, correction=False).statistic / table.sum()))


def test_v_in_sql_and_python():
    counts = people(3_000, 4, apart=0.2)
    release = released(counts, SURE)
    assert release.cramers_v("smoker", "region").value == pytest.approx(v_of(counts), rel=1e-4)
    groups = release.query("SELECT age, CRAMERS_V(smoker, region) AS v FROM people GROUP BY age").rows
    values = [v_of(counts[..., [age]]) for age in range(4)]
    assert [row[1].value for row in groups] == pytest.approx(values, rel=1e-4)
    with pytest.raises(QueryError, match="guaranteed"):
        release.query("SELECT CRAMERS_V(smoker, region) FROM people", interval="guaranteed")
    for sql in ("CRAMERS_V(smoker)", "CRAMERS_V(smoker, smoker)", "CRAMERS_V(smoker, 2)"):
        with pytest.raises(QueryError, match="two attributes"):
            release.query(f"SELECT {sql} FROM people")


@pytest.mark.full
@pytest.mark.parametrize("apart", [0.0, 0.05, 0.3])
def test_intervals_of_v_and_ratios_hold_as_often_as_they_say(apart):
    """100 releases at 95 %: 81 or fewer hits have a chance under 1e-6 (binomial)."""
    counts = people(2_000, 5, apart)
    two = counts.sum(axis=(1, 3))  # smoker by lung
    odds = two[1, 1] * two[0, 0] / (two[1, 0] * two[0, 1])
    risk = (two[1, 1] / two[1].sum()) / (two[0, 1] / two[0].sum())
    held, values = np.zeros(3), []
    for seed in range(100):
        release = released(counts, Fraction(1, 2), seed + 1)
        found = [
            release.cramers_v("smoker", "region"),
            release.odds_ratio("smoker", "lung"),
            release.risk_ratio("smoker", "lung"),
        ]
        held += [one.low <= truth <= one.high for one, truth in zip(found, (v_of(counts), odds, risk), strict=True)]
        values.append(found[0].value)
    assert held.min() > 81
    # Taken off what noise adds: the plain V of the noisy tables is 0.04 to 0.1 too high on average.
    assert abs(np.mean(values) - v_of(counts)) < 0.03


def test_ratios_are_those_of_the_table():
    counts = people(3_000, 6)
    two, release = counts.sum(axis=(1, 3)), released(counts, SURE)
    odds = two[1, 1] * two[0, 0] / (two[1, 0] * two[0, 1])
    assert release.odds_ratio("smoker", "lung").value == pytest.approx(odds, rel=1e-6)
    assert release.odds_ratio("smoker", "lung = 'well'").value == pytest.approx(1 / odds, rel=1e-6)
    risk = (two[1, 1] / two[1].sum()) / (two[0, 1] / two[0].sum())
    assert release.risk_ratio("smoker", "lung").value == pytest.approx(risk, rel=1e-6)
    both = released(counts, 1).odds_ratio("smoker", "lung", interval="both")
    assert both.low <= both.value <= both.high and both.sure is not None
    with pytest.raises(QueryError, match="two values"):
        release.odds_ratio("region", "lung")


def test_ratios_of_too_few_rows_are_open_ended():
    found = released(people(30, 7), 1).odds_ratio("smoker", "lung")
    assert found.low == 0.0 and found.high == np.inf
