"""Rows of a release of margins: its own answers, its sums of a measure, for tables with negative cells too.

40,000 rows; chi-square over every attribute and pair, with a false-alarm rate of 1e-6 for all together.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.kernel.budget import Budget
from sfumato.models.margins.content import Margins
from sfumato.models.margins.rows import row_means
from sfumato.models.margins.table import Table, subsets, sum_out
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

ROWS, FALSE_ALARM = 40_000, 1e-6
SHAPE = (10, 3, 4, 5)
SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            name: {"type": "integer", "lower": 0, "upper": size - 1} for name, size in zip("abcd", SHAPE, strict=True)
        },
        "measures": {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
    }
)
TRUTH = np.random.default_rng(4).poisson(np.random.default_rng(8).gamma(0.5, 20.0, SHAPE)).astype(float)
SUMS = TRUTH * 10 * np.arange(-2.0, 3.0)  # in steps around the centre: means of 30 to 70, by the last attribute


def release(noise: float = 0.0) -> Release:
    rng, tables = np.random.default_rng(3), {}
    for of, truth in (("count", TRUTH), ("m", SUMS)):
        noisy = truth + noise * rng.normal(size=SHAPE)
        parts = [part for part in subsets(range(4)) if len(part) <= 2]
        sums = {part: sum_out(noisy, part, range(4)) for part in parts}
        tables[of] = {part: Table(part, each, np.ones(each.shape), np.zeros(each.shape)) for part, each in sums.items()}
    content = Margins(SCHEMA, tables, unbiased=noise > 0)
    return Release(content, "toy", describe_guarantee(Budget.pure(1), SCHEMA), True)


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_rows_have_the_answers_of_the_release(noise):
    made = release(noise)
    rows = made.sample(ROWS, seed=5)
    tried = [*combinations("abcd", 1), *combinations("abcd", 2)]
    least = 1.0
    for names in tried:
        places = tuple("abcd".index(name) for name in names)
        answers = made.content.joined({place: np.arange(SHAPE[place]) for place in places})["count"]
        assert noise or np.allclose(answers, sum_out(TRUTH, places, range(4)), atol=1e-3)
        held = np.zeros(answers.shape)
        np.add.at(held, tuple(rows[name].to_numpy() for name in names), 1)
        expected = np.maximum(answers, 0.0) * ROWS / np.maximum(answers, 0.0).sum()
        enough = expected >= 5
        off = ((held - expected)[enough] ** 2 / expected[enough]).sum()
        least = min(least, float(chi2.sf(off, max(1, enough.sum() - 1))))
    assert least * len(tried) > FALSE_ALARM


def test_measures_have_the_means_of_their_cells():
    """About 8,000 rows of each of five values, spread by at most 29: 6 standard errors are 2."""
    rows = release().sample(ROWS, seed=6)
    last, values = rows["d"].to_numpy(), rows["m"].to_numpy()
    assert values.min() >= 0 and values.max() <= 100
    for value, mean in enumerate((30, 40, 50, 60, 70)):
        assert abs(values[last == value].mean() - mean) < 2


def test_what_is_expected_of_rows_stays_within_bounds():
    rows = np.array([[0, 0, 1]])
    assert row_means(rows, {(0,): np.array([50.0, -3.0])}, 9.0).tolist() == [9.0, 9.0, -3.0]


def test_a_report_compares_rows_with_the_release(tmp_path):
    drawn = release().sample_to(tmp_path / "rows.csv", 20_000, seed=7)
    assert all(agreement.mean < 1.2 * agreement.mean_by_chance for agreement in drawn.agreements)
