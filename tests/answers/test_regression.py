"""Least squares from a release."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import sfumato as sf
from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.calibration.calibrate import release_of
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


def generalised(table: dict[str, np.ndarray], outcome: str, family: str) -> np.ndarray:
    """Coefficients by Newton's method on the rows themselves."""
    X, y, beta = matrix(table), table[outcome].astype(float), np.zeros(6)
    for _ in range(60):
        eta = X @ beta
        mean = 1 / (1 + np.exp(-eta)) if family == "logistic" else np.exp(eta)
        steep = mean * (1 - mean) if family == "logistic" else mean
        step = np.linalg.solve((X.T * steep) @ X, X.T @ (y - mean))
        beta += step * min(1.0, 4.0 / np.abs(X @ step).max())
    return beta


@pytest.mark.parametrize(("outcome", "family"), [("urban", "logistic"), ("income", "poisson"), ("rent", "poisson")])
def test_generalised_models_solve_their_equations(sure, outcome, family):
    fit = sure.regress(f"{outcome} ~ age + sex + region + age:sex", family=family)
    expected = generalised(people(), outcome, family)
    assert list(fit.coefficients.values()) == pytest.approx(expected, rel=1e-3 if outcome == "rent" else 1e-6)
    eta = expected @ [1, 25, 1, 1, 0, 25]
    mean = 1 / (1 + np.exp(-eta)) if family == "logistic" else np.exp(eta)
    assert fit.predict(age=25, sex="M", region="south").value == pytest.approx(mean, rel=1e-3)
    assert f"{family.title()} regression" in str(fit)


WEAK = Schema(
    dataset="weak",
    privacy_unit="row",
    attributes={
        "ill": {"type": "boolean"},
        "age": {"type": "integer", "lower": 0, "upper": 9},
        "region": {"type": "category", "values": ["north", "south", "west"]},
        "job": {"type": "integer", "lower": 0, "upper": 11},
        "band": {"type": "integer", "lower": 0, "upper": 11},
    },
)


def weak(seed: int) -> tuple[np.ndarray, sf.Release]:
    """Columns of a table in which regions hardly differ, and a release of its pairs."""
    rng = np.random.default_rng(1)
    age, region = np.minimum(rng.geometric(0.4, 4_000) - 1, 9), rng.choice(3, 4_000, p=[0.7, 0.2, 0.1])
    ill = rng.random(4_000) < 0.2 + 0.02 * age - 0.03 * (region == 1)
    others = rng.integers(0, 12, 4_000), rng.integers(0, 12, 4_000)
    shape = WEAK.domain.shape
    place = np.ravel_multi_index((ill.astype(int), age, region, *others), shape)
    counts = np.bincount(place, minlength=WEAK.domain.size).reshape(shape)
    matrix = np.stack([np.ones(4_000), age, region == 1, region == 2], axis=1).astype(float)
    truth = np.linalg.lstsq(matrix, ill.astype(float), rcond=None)[0]
    release = release_of("margins", (counts, None), Fraction(1), TestingEntropy(seed), WEAK)
    return truth, release


@pytest.mark.full
def test_slopes_from_pairs_do_not_shrink():
    """Of 60 releases, those that measured the pairs, at 95 %: a chance of 1e-6 (binomial) of too few hits of a slope.

    In the others slopes rest on a model, which takes weak dependence for none, and a note says so.
    """
    held, measured = np.zeros(4), 0
    for seed in range(60):
        truth, release = weak(seed + 1)
        fit = release.regress("ill ~ age + region")
        if all(one.model == 0.0 for one in fit.estimates.values()):
            measured += 1
            held += [one.low <= right <= one.high for one, right in zip(fit.estimates.values(), truth, strict=True)]
        elif any(one.model > 0.0 for one in fit.estimates.values()):
            assert any("rest on the release's model" in note for note in fit.notes)
    assert measured > 20 and held.min() >= binom.ppf(1e-6 / 4, measured, 0.95)


def test_models_of_what_was_not_measured_together_are_refused():
    release = weak(1)[1]
    with pytest.raises(QueryError, match=r"logistic model needs its columns measured together.*residual"):
        release.regress("ill ~ age + region", family="logistic")
    assert release.regress("ill ~ age", family="logistic").estimates["age"].model == 0.0
    assert release.regress("ill ~ age + region", population=True).estimates["age"].stderr > 0.004


@pytest.mark.full
@pytest.mark.parametrize(("outcome", "family"), [("urban", "logistic"), ("income", "poisson")])
def test_intervals_of_generalised_models_hold(outcome, family):
    """80 releases at 95 %: 62 or fewer hits of any coefficient have a chance under 1e-6 (binomial)."""
    table, held = people(), np.zeros(3)
    few = {name: table[name] for name in ("age", "sex", outcome)}
    attributes = {name: SCHEMA.to_dict()["attributes"][name] for name in few}
    schema = Schema(dataset="few", privacy_unit="row", budget={"epsilon": 10**6}, attributes=attributes)
    truth = released(few, 10**5, 1_000, schema).regress(f"{outcome} ~ age + sex", family=family).coefficients.values()
    for seed in range(80):
        fit = released(few, Fraction(1, 2), seed, schema).regress(f"{outcome} ~ age + sex", family=family)
        held += [one.low <= right <= one.high for one, right in zip(fit.estimates.values(), truth, strict=True)]
    assert held.min() > 62 and held.mean() < 79.9


@pytest.mark.parametrize(
    ("formula", "family", "said"),
    [
        ("income ~ age", "probit", "a family is"),
        ("income ~ age", "logistic", "two values"),
        ("region ~ age", "poisson", "number or a boolean"),
        ("urban ~ C(income)*sex", "logistic", "no solution"),
    ],
)
def test_models_without_a_solution_are_refused(sure, formula, family, said):
    with pytest.raises(QueryError, match=said):
        sure.regress(formula, family=family)


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


def test_names_with_signs_in_them_are_quoted(tmp_path):
    table = people()
    attributes = SCHEMA.to_dict()["attributes"]
    renamed = {"income (k)": "income", "age-at-visit": "age", "a*b:c": "sex"}
    schema = Schema(
        dataset="signs", privacy_unit="row", budget={"epsilon": 10**6},
        attributes={name: attributes[of] for name, of in renamed.items()},
    )  # fmt: skip
    table = {name: table[of] for name, of in renamed.items()}
    table["a*b:c"] = np.array(["F", "M"])[table["a*b:c"]]
    release = released(table, 10**5, 4, schema, tmp_path / "ledger")
    fit = release.regress('"income (k)" ~ `age-at-visit`*Q("a*b:c")')
    assert [*fit.estimates] == ["Intercept", "age-at-visit", "a*b:c[T.M]", "age-at-visit:a*b:c[T.M]"]
    assert fit.design.formula in str(fit) and '"income (k)"' in fit.design.formula
    assert [*release.regress('"income (k)" ~ "a*b:c" - 1').estimates] == ["a*b:c[T.M]"]
    with pytest.raises(QueryError, match="no column '1'"):
        release.regress('"income (k)" ~ "1"')  # a quoted number is a name, and no intercept
    with pytest.raises(QueryError, match="two different ones"):
        release.regress('"income (k)" ~ "a*b:c":`a*b:c`')
    with pytest.raises(QueryError, match="quote a name that has signs in it"):
        release.regress('"income (k)" ~ age-at-visit')
    with pytest.raises(QueryError, match=r"no column 'income-k'"):
        release.regress('"income-k" ~ `age-at-visit`')


RARE = Schema(
    dataset="rare",
    privacy_unit="row",
    attributes={
        "y": {"type": "integer", "lower": 0, "upper": 9},
        "x": {"type": "integer", "lower": 0, "upper": 11},
        "group": {"type": "category", "values": ["a", "b", "c", "d", "e"]},
    },
)


def rare(seed: int, shares: list[float], epsilon: Fraction = Fraction(1, 2)) -> tuple[np.ndarray, sf.Release]:
    """Least squares of y on x and group on 5,000 rows, and a release of their cells."""
    rng = np.random.default_rng(7)
    group, x = rng.choice(5, 5_000, p=shares), rng.integers(0, 12, 5_000)
    y = np.clip(x // 2 + group + rng.integers(-2, 3, 5_000), 0, 9)
    shape = RARE.domain.shape
    counts = np.bincount(np.ravel_multi_index((y, x, group), shape), minlength=RARE.domain.size).reshape(shape)
    columns = np.stack([np.ones(5_000), x, *(group == one for one in range(1, 5))], axis=1).astype(float)
    truth = np.linalg.lstsq(columns, y.astype(float), rcond=None)[0]
    return truth, release_of("cells", (counts, None), epsilon, TestingEntropy(seed), RARE)


def test_values_of_too_few_rows_leave_their_own_coefficients_open():
    truth, release = rare(1, [0.5, 0.3, 0.198, 0.001, 0.001])
    fit = release.regress("y ~ x + group")
    assert [np.isfinite(one.high) for one in fit.estimates.values()] == [True] * 4 + [False] * 2
    assert fit.estimates["x"].high - fit.estimates["x"].low < 0.1 and abs(fit.estimates["x"].value - truth[1]) < 0.1
    assert any(note.startswith("group = d, group = e: too few rows to tell from none") for note in fit.notes)
    assert fit.predict(x=3, group="d").high == np.inf
    assert fit.predict(x=3, group="b").high - fit.predict(x=3, group="b").low < 1.0
    assert str(fit).count("inf") == 4


def test_a_first_value_of_too_few_rows_leaves_differences_to_it_open():
    _, release = rare(2, [0.001, 0.5, 0.3, 0.198, 0.001])
    fit = release.regress("y ~ x*group")
    assert not any(np.isfinite(one.high) for one in fit.estimates.values())  # even x: it is the slope in group a
    fit = release.regress("y ~ x + group")
    assert [name for name, one in fit.estimates.items() if np.isfinite(one.high)] == ["x"]
    assert np.isfinite(fit.predict(x=3, group="b").high) and fit.predict(x=3, group="a").high == np.inf
    fit = release.regress("y ~ x:group")  # slopes of the groups from one point: no differences
    known = [name for name, one in fit.estimates.items() if np.isfinite(one.high)]
    assert known == ["Intercept", "x:group[T.b]", "x:group[T.c]", "x:group[T.d]"]


def test_many_rows_are_not_left_out():
    """Values that noise hides, with a tenth of the rows together: without these the slope were that of other rows."""
    fit = rare(1, [0.5, 0.4, 0.04, 0.03, 0.03], Fraction(1, 10))[1].regress("y ~ x + group")
    assert fit.estimates["x"].high == np.inf
    assert not any("left out" in note for note in fit.notes)


@pytest.mark.full
def test_slopes_beside_values_of_few_rows_hold():
    """40 releases at 95 %: fewer than 28 hits of a slope have a chance of 4e-8 (binomial); half of them are seen."""
    held = np.zeros(4)
    for seed in range(40):
        truth, release = rare(seed + 1, [0.5, 0.3, 0.19, 0.005, 0.005])
        fit = [*release.regress("y ~ x + group").estimates.values()][:4]
        held += [one.low <= right <= one.high for one, right in zip(fit, truth[:4], strict=True)]
        assert np.isfinite(fit[1].high)
    assert held.min() >= binom.ppf(1e-6 / 4, 40, 0.95)


def test_predictors_that_explain_each_other_have_no_interval(sure):
    fit = sure.regress("income ~ age + C(age)", where="age < 20")
    assert np.isnan(fit.estimates["age"].value) or fit.estimates["age"].high - fit.estimates["age"].low > 1e3
