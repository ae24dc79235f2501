"""Statements with statistics, from the user's side: answered as DuckDB answers them, or refused in the user's words.

The table is small and its release has next to no noise, so that answers can be compared with DuckDB's on the same rows:
quantiles to within a bin, variances of bins to within what the interval says, everything else to the digits shown.
"""

from __future__ import annotations

import datetime
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.errors import QueryError, SfumatoError
from sfumato.releases.release import Release

ROWS = 400
SCHEMA = {
    "dataset": "staff",
    "privacy_unit": {"column": "person", "contributions": 1},
    "budget": {"epsilon": 1_000_000},
    "attributes": {
        "age": {"type": "integer", "lower": 18, "upper": 67},
        "sex": {"type": "category", "values": ["F", "M"]},
        "income": {"type": "number", "lower": 0, "upper": 1000, "bins": 10},
        "hired": {"type": "date", "lower": "2020-01-01", "upper": "2020-12-31", "by": "month"},
    },
    "measures": {"pay": {"lower": 0, "upper": 100, "step": 1}},
}
WIDTH = {"income": 100.0, "hired": 31.0, "age": 0.0}
MEN, WOMEN = "FILTER (WHERE sex = 'M')", "FILTER (WHERE sex = 'F')"


def table() -> pd.DataFrame:
    n = np.arange(ROWS)
    return pd.DataFrame(
        {
            "person": n,
            "age": 20 + (n * 37 % 41) + (n % 3 == 0) * 5,
            "sex": np.where(n * n % 7 < 3, "F", "M"),
            "income": (n * 61 % 997) * 0.9 + 50,
            "hired": [datetime.date(2020, 1, 1) + datetime.timedelta(days=int(d)) for d in n * 17 % 300],
            "pay": n * 13 % 90 + np.where(n * n % 7 < 3, 0, 10),
        }
    )


@pytest.fixture(scope="module")
def rows() -> duckdb.DuckDBPyConnection:
    return duckdb.connect().register("staff", table())


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Release:
    ledger = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    return sf.release(
        table(), sf.Schema.from_dict(SCHEMA), epsilon=Fraction(10**6), mechanism="cells", ledger=str(ledger)
    )


QUANTILES = [
    ("age", "MEDIAN(age)"),
    ("age", "median(age)"),
    ("age", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age)"),
    ("age", "PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age DESC)"),
    ("age", "PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY age)"),
    ("age", "QUANTILE(age, 0.1)"),
    ("age", "QUANTILE_CONT(age, 0.9)"),
    ("age", "QUANTILE_DISC(age, 0.33)"),
    ("age", "QUANTILE_CONT(age, 0)"),
    ("age", "QUANTILE_CONT(age, 1)"),
    ("age", "MIN(age)"),
    ("age", "MAX(age)"),
    ("age", "MAX(DISTINCT age)"),
    ("age", f"MEDIAN(age) {WOMEN}"),
    ("age", f"PERCENTILE_CONT(0.75) WITHIN GROUP (ORDER BY age) {MEN}"),
    ("age", "MEDIAN(CASE WHEN sex = 'F' THEN age END)"),
    ("age", "MEDIAN(CASE sex WHEN 'F' THEN age ELSE NULL END)"),
    ("age", "MIN(age) FILTER (WHERE income > 500)"),
    ("age", "(MEDIAN(age))"),
    ("age", "2 * MEDIAN(age)"),
    ("income", "MEDIAN(income)"),
    ("income", "QUANTILE_CONT(income, 0.05)"),
    ("income", "MIN(income)"),
    ("income", "MAX(income)"),
    ("income", "MEDIAN(income) FILTER (WHERE income < 500)"),
    ("hired", "MEDIAN(hired)"),
    ("hired", "MIN(hired)"),
    ("hired", "MAX(hired)"),
]
NUMBERS = [
    "VARIANCE(age)",
    "VAR_SAMP(age)",
    "VAR_POP(age)",
    "STDDEV(age)",
    "STDDEV_SAMP(age)",
    f"STDDEV_POP(age) {MEN}",
    "STDDEV(CASE WHEN sex = 'F' THEN age END)",
    "STDDEV(age) / AVG(age)",
    "COUNT(DISTINCT person)",
    "COUNT(DISTINCT person) FILTER (WHERE age > 40)",
    f"AVG(pay) {MEN} - AVG(pay) {WOMEN}",
    "AVG(CASE WHEN sex = 'M' THEN pay END) - AVG(CASE WHEN sex = 'F' THEN pay END)",
    f"100 * (AVG(pay) {MEN} - AVG(pay) {WOMEN}) / AVG(pay) {MEN}",
    f"AVG(pay) {MEN} / AVG(pay) {WOMEN}",
    f"AVG(pay) {WOMEN} / AVG(pay) {MEN} - 1",
    f"AVG(age) {MEN} - AVG(age) {WOMEN}",
    f"AVG(pay) - AVG(pay) {WOMEN}",
    "COUNT(*) FILTER (WHERE age < 40 AND sex = 'M') / COUNT(*) FILTER (WHERE sex = 'M') "
    "- COUNT(*) FILTER (WHERE age < 40 AND sex = 'F') / COUNT(*) FILTER (WHERE sex = 'F')",
    "COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*) - COUNT(*) FILTER (WHERE sex = 'M') / COUNT(*)",
    f"MEDIAN(age) {MEN} - MEDIAN(age) {WOMEN}",
    "MAX(age) - MIN(age)",
    "COUNT(*) * AVG(pay)",
    "1000 / COUNT(*)",
    f"-(AVG(pay) {MEN} - AVG(pay) {WOMEN}) * 2 + AVG(age)",
    "AVG(pay) - (SELECT AVG(pay) FROM staff WHERE age < 30)",
    "SUM(pay) / COUNT(*) - SUM(pay) FILTER (WHERE sex = 'F') / COUNT(*) FILTER (WHERE sex = 'F')",
]


def as_number(value: object) -> float:
    if isinstance(value, datetime.date):
        value = datetime.datetime(value.year, value.month, value.day)
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime(1970, 1, 1)).total_seconds() / 86400
    return float(value)


@pytest.mark.parametrize(("of", "expression"), QUANTILES, ids=[expression for _, expression in QUANTILES])
@pytest.mark.parametrize("rest", [" WHERE age < 60", " GROUP BY sex"])
def test_quantiles_are_those_of_the_rows_to_within_a_bin(release, rows, of, expression, rest):
    select = f"SELECT {'sex, ' if 'GROUP' in rest else ''}{expression} FROM staff{rest}"
    truths = dict(enumerate(row[-1] for row in sorted(rows.execute(select).fetchall(), key=str)))
    answers = [row[-1] for row in release.query(select).rows]
    if "sex = 'F'" in expression or "sex WHEN 'F'" in expression or "sex = 'M'" in expression:
        pairs = [(t, a) for t, a in zip(truths.values(), answers, strict=True) if t is not None]
        assert pairs
    else:
        pairs = list(zip(truths.values(), answers, strict=True))
    for value, found in pairs:
        truth = as_number(value)
        assert abs(found.value - truth) <= WIDTH[of] + 1, (truth, found)  # DISC and CONT may differ by a row
        assert found.low - 1e-6 <= truth <= found.high + 1e-6
        assert found.dates == (of == "hired")


@pytest.mark.parametrize("expression", NUMBERS)
@pytest.mark.parametrize("rest", ["", " WHERE income < 700"])
def test_numbers_are_those_of_the_rows(release, rows, expression, rest):
    groups = "sex = " not in expression and not rest
    select = f"SELECT {'sex, ' if groups else ''}{expression} FROM staff{rest or ' GROUP BY sex' * groups}"
    truths = [row[-1] for row in sorted(rows.execute(select).fetchall(), key=str)]
    answers = [row[-1] for row in release.query(select).rows]
    assert len(truths) == 1 + groups
    for truth, found in zip(truths, answers, strict=True):
        assert found.value == pytest.approx(float(truth), rel=1e-6, abs=1e-9)
        assert found.low - 1e-6 <= float(truth) <= found.high + 1e-6


@pytest.mark.parametrize(
    "expression", ["VARIANCE(income)", "STDDEV_POP(income)", "STDDEV(income) FILTER (WHERE age < 40)"]
)
def test_variances_of_bins_hold_the_truth_and_say_so(release, rows, expression):
    result = release.query(f"SELECT {expression} FROM staff")
    ((found,),), ((truth,),) = result.rows, rows.execute(f"SELECT {expression} FROM staff").fetchall()
    assert found.low <= truth <= found.high
    assert found.value == pytest.approx(truth, rel=0.03) and found.model > 0
    assert any("middle of its bin" in note for note in result.notes)


REFUSED = [
    ("MEDIAN(sex)", "MEDIAN(sex): sex is of type category, whose values have no order"),
    ("MIN(sex)", "MIN(sex): sex is of type category"),
    ("MEDIAN(pay)", "MEDIAN(pay): pay is a measure, of which a release has sums alone"),
    ("MAX(pay)", "MAX(pay): pay is a measure"),
    ("VARIANCE(pay)", "VARIANCE(pay): pay is a measure"),
    ("STDDEV(pay)", "STDDEV(pay): pay is a measure"),
    ("STDDEV(sex)", "STDDEV(sex): sex is of type category and has no variance"),
    ("VAR_POP(hired)", "VAR_POP(hired): hired is of type date"),
    ("QUANTILE(age, 1.5)", "the share of a quantile lies between 0 and 1"),
    ("QUANTILE(age, [0.1, 0.9])", "[0.1, 0.9] as the share of a quantile"),
    ("QUANTILE(age, age)", "age as the share of a quantile"),
    ("PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY age, income)", "PERCENTILE_CONT(0.5) WITHIN GROUP"),
    ("MEDIAN(DISTINCT age)", "DISTINCT in MEDIAN(DISTINCT age)"),
    ("MEDIAN(age + income)", "arithmetic inside MEDIAN(age + income)"),
    ("MEDIAN(CASE WHEN sex = 'F' THEN age ELSE income END)", "CASE between several columns inside MEDIAN"),
    ("MIN(age, 3)", "MIN(age, 3), with more than one argument"),
    ("MEDIAN(height)", "no column 'height'"),
    ("COUNT(DISTINCT income)", "COUNT(DISTINCT income)"),
    ("COUNT(DISTINCT person, age)", "COUNT(DISTINCT person, age) is not supported"),
    ("MODE(age)", "the function MODE in the select list"),
    ("SKEWNESS(age)", "the function SKEWNESS in the select list"),
    ("KURTOSIS(age)", "the function KURTOSIS in the select list"),
    ("MAX(hired) * 2 - AVG(age)", "a date can be subtracted from a date"),
    ("SUM(MEDIAN(age)) OVER ()", "a window over something that is not a COUNT or SUM"),
    ("SUM(MEDIAN(age))", "the function MEDIAN inside an aggregate"),
]


@pytest.mark.parametrize(("expression", "message"), REFUSED, ids=[expression for expression, _ in REFUSED])
def test_what_is_refused_is_refused_in_the_words_of_the_user(release, expression, message):
    with pytest.raises(QueryError) as problem:
        release.query(f"SELECT {expression} FROM staff")
    said = str(problem.value)
    assert message.lower() in said.lower() and "\n" not in said


def test_units_with_several_rows_are_not_counted():
    several = {**SCHEMA, "privacy_unit": {"column": "person", "contributions": 3}}
    from sfumato.sql import compile_select

    with pytest.raises(SfumatoError, match=r"COUNT\(DISTINCT person\).*up to 3 rows of each person"):
        compile_select("SELECT COUNT(DISTINCT person) FROM staff", sf.Schema.from_dict(several))
    with pytest.raises(SfumatoError, match=r"COUNT\(DISTINCT person\)"):
        compile_select(
            "SELECT COUNT(DISTINCT person) FROM staff", sf.Schema.from_dict({**SCHEMA, "privacy_unit": "row"})
        )


def test_dates_are_shown_as_dates_and_differences_say_whether_they_are_real(release):
    result = release.query(f"SELECT MEDIAN(hired), AVG(pay) {MEN} - AVG(pay) {WOMEN} AS gap FROM staff")
    (record,) = result.records()
    assert record["median_hired"].startswith("2020-") and record["median_hired_low"] <= record["median_hired_high"]
    assert record["gap_real"] is True
    assert any(note.startswith("gap: the difference is real at 95 %") for note in result.notes)
    assert "2020-" in repr(result) and "days" in repr(result)
    assert "gap_real" in result.to_csv().splitlines()[0]


def test_names_and_order(release):
    names = release.query(
        "SELECT MEDIAN(age), MIN(age), STDDEV(age), QUANTILE(age, 0.9), AVG(age) - AVG(pay) FROM staff"
    )
    assert names.columns[:4] == ("median_age", "min_age", "stddev_age", "quantile_age")
    ordered = release.query("SELECT sex, MEDIAN(age) AS m FROM staff GROUP BY sex ORDER BY MEDIAN(age) DESC")
    values = [row[1].value for row in ordered.rows]
    assert values == sorted(values, reverse=True)


@pytest.mark.full
def test_workloads_and_plans_know_them():
    plan = sf.plan(
        sf.Schema.from_dict({**SCHEMA, "expected_rows": 400}),
        epsilon=1,
        workload=["SELECT MEDIAN(age) FROM staff", f"SELECT AVG(pay) {MEN} - AVG(pay) {WOMEN} FROM staff"],
    )
    assert plan
