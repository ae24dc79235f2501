"""Whatever is not exactly what was asked is said: values beyond the bounds, no rows, models."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of

import sfumato as sf
from sfumato.kernel.budget import Budget
from sfumato.mechanisms import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.answers.remarks import MODEL, NO_ROWS
from sfumato.releases.release import Release

SCHEMA = sf.Schema(
    dataset="t",
    privacy_unit="row",
    attributes={
        "age": {"type": "integer", "lower": 0, "upper": 99, "bins": 10},
        "rate": {"type": "number", "lower": 0, "upper": 1, "bins": 2},
        "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-31"},
        "sex": {"type": "category", "values": ["F", "M"]},
    },
)


def released(counts: int, mechanism: str = "cells") -> Release:
    table = np.zeros(SCHEMA.domain.size, dtype=np.int64) + counts
    content = find_mechanism(mechanism).run(curator_of(SCHEMA, table, epsilon=100), SCHEMA, Budget.pure(100), None)
    return Release(content, mechanism, describe_guarantee(Budget.pure(100), SCHEMA), True)


@pytest.fixture(scope="module")
def full():
    return released(50)


@pytest.mark.parametrize(
    ("condition", "attribute"),
    [
        ("age > 120", "age lies from 0 to 99"),
        ("age > 99", "age lies from 0 to 99"),
        ("age >= 100", "age lies from 0 to 99"),
        ("age < -5", "age lies from 0 to 99"),
        ("age BETWEEN 120 AND 150", "age lies from 0 to 99"),
        ("rate > 1.5", "rate lies from 0 to 1"),
        ("day >= '2024-02-01'", "day lies from 2024-01-01 to 2024-01-31"),
        ("sex = 'F' AND NOT age < 120 OR age = 150", "age lies from 0 to 99"),
    ],
)
def test_a_condition_beyond_the_bounds_is_noted(full, condition, attribute):
    notes = full.query(f"SELECT COUNT(*) FROM t WHERE {condition}").notes
    said = [note for note in notes if "rows beyond count at the bound" in note]
    assert len(said) == 1 and said[0].startswith(attribute), notes


@pytest.mark.parametrize(
    "condition",
    [
        "age < 100",
        "age <= 99",
        "age >= 0",
        "age BETWEEN 0 AND 99",
        "age < 200",
        "rate <= 1",
        "rate >= 0",
        "day < '2024-02-01'",
    ],
)
def test_a_condition_within_them_is_not(full, condition):
    assert full.query(f"SELECT COUNT(*) FROM t WHERE {condition}", strict=True).notes == ()


def test_what_is_unknown_for_want_of_rows_is_explained():
    """Without rows the noisy denominator is at most 0 with probability above 1/2: of 60 shares 40 or so are unknown."""
    answer = released(0).query(
        "SELECT age, day, COUNT(*) FILTER (WHERE sex = 'F') / COUNT(*) AS x FROM t GROUP BY age, day"
    )
    assert any(np.isnan(estimate.value) for estimate in answer.column("x")) and answer.notes == (NO_ROWS,)


def test_an_answer_that_leans_on_a_model_says_so(full):
    assert MODEL not in full.query("SELECT COUNT(*) FROM t").notes
    leaning = released(3, "dawa").query("SELECT COUNT(*) AS n FROM t WHERE age < 40 AND sex = 'F'")
    assert (MODEL in leaning.notes) == (leaning.column("n")[0].model > 0)


def test_the_note_on_a_model_is_one_short_line_and_said_once():
    assert len(f"note: {MODEL}") < 80
    leaning = released(3, "margins").query("SELECT sex, COUNT(*) AS n FROM t WHERE age < 40 GROUP BY sex")
    assert sum("model" in note for note in leaning.notes) <= 1


def test_a_median_of_bins_says_bins_and_not_model(full):
    notes = full.query("SELECT MEDIAN(rate) FROM t").notes
    assert MODEL not in notes and any("ends of bins" in note for note in notes)
