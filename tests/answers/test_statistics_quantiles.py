"""Quantiles from noisy counts: the interval against every cell tested by itself, on every kind of content."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of

from sfumato.answers.answer import MODEL
from sfumato.answers.noise_sum import half_width
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 10, "upper": 39},
            "sex": {"type": "category", "values": ["F", "M"]},
            "income": {"type": "number", "lower": 0, "upper": 100, "bins": 4},
        },
    }
)
SHAPE = np.exp(-(((np.arange(30) - 14) / 6.0) ** 2))
COUNTS = np.random.default_rng(2).poisson(40 * SHAPE[:, None, None] * np.ones((2, 4)))


def made(mechanism: str, epsilon: Fraction | int = 1, seed: int = 4, counts: np.ndarray = COUNTS) -> Release:
    budget = Budget.pure(epsilon)
    curator = curator_of(SCHEMA, counts, epsilon=epsilon, entropy=TestingEntropy(seed))
    content = MECHANISMS[mechanism].run(curator, SCHEMA, budget, None)
    return Release(content, mechanism, describe_guarantee(budget, SCHEMA), False)


def only(release: Release, sql: str):
    ((found,),) = release.query(sql).rows
    return found


@pytest.mark.parametrize("share", [0.1, 0.5, 0.97])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_interval_holds_the_cells_that_may_hold_the_quantile(share, seed):
    release = made("cells", seed=seed)
    found = only(release, f"SELECT QUANTILE_CONT(age, {share}) FROM t")
    counts = release.content.values["count"].reshape(30, -1)
    noise, total = release.content.noises["count"], counts.sum()
    tested = counts.sum(axis=1).cumsum() - share * total
    reach = np.array(
        [half_width([(1 - share, noise, 8 * (cell + 1)), (share, noise, 8 * (29 - cell))], 0.95) for cell in range(30)]
    )
    first = np.flatnonzero(tested + reach >= -share)[0]
    last = np.flatnonzero(tested - reach <= 1 - share)[-1] + 1
    assert (found.low, found.high) == (10 + first, 10 + min(last, 29))
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize("mechanism", ["cells", "sparse-cells", "hierarchical", "sfumato", "margins", "residual"])
def test_every_content_has_quantiles_and_spreads(mechanism):
    release = made(mechanism, epsilon=20)
    truth = np.repeat(np.arange(10, 40), COUNTS.sum(axis=(1, 2)))
    asked = "MEDIAN(age), QUANTILE_CONT(age, 0.9), MIN(age), MAX(age), STDDEV(age), VAR_POP(age)"
    (answers,) = release.query(f"SELECT {asked} FROM t").rows
    truths = [np.median(truth), np.quantile(truth, 0.9), truth.min(), truth.max(), truth.std(ddof=1), truth.var()]
    for found, true in zip(answers, truths, strict=True):
        assert found.low - 2 <= true <= found.high + 2  # one release: intervals of 95 % may miss by a little
        assert found.low <= found.value <= found.high
    by_sex = release.query("SELECT sex, MEDIAN(age), STDDEV(age), MEDIAN(income) FROM t GROUP BY sex").rows
    assert len(by_sex) == 2
    for row, side in zip(by_sex, (0, 1), strict=True):
        values = np.repeat(np.arange(10, 40), COUNTS[:, side].sum(axis=1))
        assert abs(row[1].value - np.median(values)) <= 2 and abs(row[2].value - values.std(ddof=1)) < 1


def test_intervals_of_medians_hold_as_often_as_they_say():
    """150 releases at 95 %: 125 or fewer hits have a chance under 1e-6 (binomial)."""
    truth = float(np.median(np.repeat(np.arange(10, 40), COUNTS[:, 0].sum(axis=1))))
    asked = "SELECT MEDIAN(age) FROM t WHERE sex = 'F'"
    found = [only(made("cells", Fraction(1, 4), seed), asked) for seed in range(150)]
    assert sum(one.low <= truth <= one.high for one in found) > 125


def test_the_least_and_the_greatest_are_only_claimed_where_rows_are_sure():
    counts = np.zeros_like(COUNTS)
    counts[12:20] = 200
    found = only(made("cells", counts=counts), "SELECT MIN(age) FROM t")
    assert found.low == 10 and found.value == 22 and found.high == 22  # a single row at 10 would not be seen
    found = only(made("cells", counts=counts), "SELECT MAX(age) FROM t")
    assert found.low == 29 and found.value == 29 and found.high == 39


def test_what_was_not_measured_and_what_is_empty_is_unknown():
    empty = only(made("cells", counts=np.zeros_like(COUNTS)), "SELECT MEDIAN(age) FROM t WHERE income < 25")
    assert (empty.low, empty.high) == (10, 39)
    budget, curator = Budget.pure(1), curator_of(SCHEMA, COUNTS, entropy=TestingEntropy(1))
    from sfumato.sql import compile_select
    from sfumato.sql.workload import workload_of

    text = "SELECT sex, COUNT(*) FROM t GROUP BY sex"
    asked = workload_of([(text, compile_select(text, SCHEMA))], SCHEMA)
    content = MECHANISMS["laplace"].run(curator, SCHEMA, budget, asked)
    result = Release(content, "laplace", describe_guarantee(budget, SCHEMA), False).query("SELECT MEDIAN(age) FROM t")
    assert np.isnan(result.rows[0][0].value) and (result.rows[0][0].low, result.rows[0][0].high) == (10, 39)
    assert any("does not determine" in note for note in result.notes)


def test_a_quantile_that_leans_on_a_model_says_so_and_how_much():
    """A median that one value alone may be has an error of its rank all the same, not 0."""
    release = made("margins", 20)
    found = release.query("SELECT MEDIAN(age) AS q FROM t WHERE sex = 'F'")
    (row,) = found.rows
    assert row[0].model > 0.0 and row[0].stderr >= row[0].model
    assert any(MODEL in note for note in found.notes)
    alone = only(made("cells", 20), "SELECT MEDIAN(age) FROM t")
    assert alone.low == alone.high and 0.0 < alone.stderr < 0.5 and alone.model == 0.0


def test_errors_are_finite_at_the_ends_of_floating_point_and_at_any_confidence():
    """Bins as wide as floats reach: half a width over a tiny quantile of the normal law would be infinite."""
    wide = {"x": {"type": "number", "lower": -1e300, "upper": 1e300, "cuts": [0]}}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": wide})
    budget = Budget.pure(1)
    content = MECHANISMS["cells"].run(curator_of(schema, [40, 30], entropy=TestingEntropy(1)), schema, budget, None)
    release = Release(content, "cells", describe_guarantee(budget, schema), False)
    for confidence in (0.95, 1e-9):
        median = release.query("SELECT MEDIAN(x) AS m FROM t", confidence=confidence).rows[0][0]
        assert 0.0 <= median.stderr <= 1e300
