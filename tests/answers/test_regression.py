"""Least squares from a release."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.schema import Schema

SCHEMA = Schema(
    dataset="people",
    privacy_unit="row",
    budget={"epsilon": 10**6},
    attributes={
        "age": {"type": "integer", "lower": 18, "upper": 29},
        "sex": {"type": "category", "values": ["F", "M"]},
        "region": {"type": "category", "values": ["north", "south", "west"]},
        "income": {"type": "integer", "lower": 0, "upper": 9, "missing": "keep"},
        "urban": {"type": "boolean"},
    },
    measures={"rent": {"lower": 0, "upper": 100}},
)
FORMULA = "income ~ age + sex + region + age:sex"


def people(rows: int = 6_000, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    age, sex, region = rng.integers(18, 30, rows), rng.integers(0, 2, rows), rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    mean = 0.2 * (age - 18) + 1.5 * sex + 0.8 * (region == 1) + 0.05 * (age - 23) * sex
    income = (mean + rng.normal(2, 1.2, rows)).round().clip(0, 9)
    rent = (20 + 2 * income + rng.normal(0, 5, rows)).clip(0, 100)
    return {"age": age, "sex": sex, "region": region, "income": income, "urban": income + sex > 5, "rent": rent}


FEW = Schema(
    dataset="few",
    privacy_unit="row",
    budget={"epsilon": 10**6},
    attributes={name: SCHEMA.to_dict()["attributes"][name] for name in ("age", "sex", "income")},
)


def released(
    table: dict[str, np.ndarray],
    epsilon: Fraction | int,
    seed: int = 3,
    schema: Schema = SCHEMA,
    ledger: Path | None = None,
) -> sf.Release:
    labels = {"sex": np.array(["F", "M"]), "region": np.array(["north", "south", "west"])}
    rows = pa.table({name: labels[name][column] if name in labels else column for name, column in table.items()})
    return sf.release(
        rows, schema, epsilon=epsilon, mechanism="cells", entropy=TestingEntropy(seed), again=True, ledger=ledger
    )


def matrix(table: dict[str, np.ndarray]) -> np.ndarray:
    age, sex, region = table["age"], table["sex"], table["region"]
    return np.stack([np.ones(len(age)), age, sex, region == 1, region == 2, age * sex], axis=1).astype(float)


def solved(table: dict[str, np.ndarray], outcome: str = "income") -> np.ndarray:
    return np.linalg.lstsq(matrix(table), table[outcome].astype(float), rcond=None)[0]


@pytest.fixture(scope="module")
def sure(tmp_path_factory) -> sf.Release:
    return released(people(), 10**5, ledger=tmp_path_factory.mktemp("ledger") / "ledger")


def test_coefficients_are_those_of_least_squares_where_there_is_no_noise(sure):
    fit = sure.regress(FORMULA)
    names = ["Intercept", "age", "sex[T.M]", "region[T.south]", "region[T.west]", "age:sex[T.M]"]
    assert list(fit.coefficients) == names
    assert list(fit.coefficients.values()) == pytest.approx(solved(people()), rel=1e-6)
    outcome = people()["income"]
    left = outcome - matrix(people()) @ solved(people())
    assert fit.r_squared == pytest.approx(1 - left.var() / outcome.var(), rel=1e-6)
    assert "R-squared" in str(fit) and "region[T.south]" in str(fit)


def test_other_outcomes_and_conditions(sure):
    table = people()
    assert list(sure.regress("urban ~ age*sex + C(region)").coefficients.values())[:2] == pytest.approx(
        np.linalg.lstsq(matrix(table), table["urban"].astype(float), rcond=None)[0][:2], rel=1e-6
    )
    rent = sure.regress("rent ~ age + sex + region + age:sex")
    assert list(rent.coefficients.values()) == pytest.approx(solved(table, "rent"), rel=1e-3) and np.isnan(
        rent.r_squared
    )
    women = {name: column[table["sex"] == 0] for name, column in table.items()}
    ages = np.stack([np.ones(len(women["age"])), women["age"]], axis=1)
    expected = np.linalg.lstsq(ages, women["income"], rcond=None)[0]
    assert list(sure.regress("income ~ age", where="sex = 'F'").coefficients.values()) == pytest.approx(expected)
    assert list(sure.regress("income ~ age - 1").coefficients) == ["age"]


def test_predictions_are_combinations_of_coefficients(sure):
    told = sure.regress(FORMULA).predict(age=25, sex="M", region="south")
    assert told.value == pytest.approx(solved(people()) @ [1, 25, 1, 1, 0, 25], rel=1e-6)


def few(table: dict[str, np.ndarray]) -> np.ndarray:
    columns = np.stack([np.ones(len(table["age"])), table["age"], table["sex"]], axis=1)
    return np.linalg.lstsq(columns, table["income"], rcond=None)[0]


@pytest.mark.full
def test_intervals_of_coefficients_hold_as_often_as_they_say():
    """80 releases at 95 %: 62 or fewer hits of any of three coefficients have a chance under 1e-6 (binomial)."""
    table, held = people(), np.zeros(3)
    for seed in range(80):
        fit = released(table, Fraction(1, 2), seed, FEW).regress("income ~ age + sex")
        held += [one.low <= right <= one.high for one, right in zip(fit.estimates.values(), few(table), strict=True)]
    assert held.min() > 62 and held.mean() < 79.9


@pytest.mark.full
def test_intervals_about_a_population_hold_over_redrawn_samples():
    """80 samples at 95 %: 62 or fewer hits of the slope have a chance under 1e-6 (binomial)."""
    truth, held, narrow = few(people(400_000, seed=99))[1], 0, 0
    for seed in range(80):
        release = released(people(1_500, seed=seed + 200), 20, seed, FEW)
        slopes = [release.regress("income ~ age + sex", population=one).estimates["age"] for one in (True, False)]
        held, narrow = (
            held + (slopes[0].low <= truth <= slopes[0].high),
            narrow + (slopes[1].low <= truth <= slopes[1].high),
        )
    assert held > 62 and narrow < 62  # about the table alone they are far too narrow


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("income", "an outcome, ~ and predictors"),
        ("income ~ ", "no predictors"),
        ("income ~ age + wealth", "no column 'wealth'"),
        ("region ~ age", "a number or a boolean"),
        ("income ~ income", "cannot predict itself"),
        ("income ~ rent", "is a measure"),
        ("income ~ log(age)", "cannot be read"),
        ("income ~ age:sex:region", "the product of two"),
        ("income ~ age - sex", "leave it out"),
        ("income ~ C(age)*region", "is the most"),
        ("income ~ age" + " + age" * 1_000, "characters"),
    ],
)
def test_what_is_no_formula_is_refused(sure, formula, said):
    with pytest.raises(QueryError, match=said):
        sure.regress(formula)


def test_predictors_that_explain_each_other_have_no_interval(sure):
    fit = sure.regress("income ~ age + C(age)", where="age < 20")
    assert np.isnan(fit.estimates["age"].value) or fit.estimates["age"].high - fit.estimates["age"].low > 1e3
