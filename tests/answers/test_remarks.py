"""Whatever is not exactly what was asked is said: values beyond the bounds, no rows, models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from curators import curator_of

import sfumato as sf
from sfumato.answers.answer import MODEL, NO_ROWS, OF_WIDTH, SHARES, model_note, naming
from sfumato.answers.results import Estimate, Result
from sfumato.kernel.budget import Budget
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
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


def test_an_answer_that_leans_on_a_model_says_how_much_of_its_error_that_is(full):
    assert not any(OF_WIDTH in note for note in full.query("SELECT COUNT(*) FROM t").notes)
    leaning = released(3, "dawa").query("SELECT COUNT(*) AS n FROM t WHERE age < 40 AND sex = 'F'")
    (one,) = leaning.column("n")
    (note,) = (note for note in leaning.notes if OF_WIDTH in note)
    share = one.model**2 / (one.model**2 + one.noise**2)
    assert note.startswith(next(words for least, words in SHARES if share >= least)) and MODEL in note


@pytest.mark.parametrize(
    ("noise", "model", "much"),
    [(1, 10, "nearly all"), (1, 2, "most"), (3, 3, "about half"), (2, 1, "a part"), (10, 1, "a small part")],
)
def test_the_share_is_that_of_the_variance_of_the_middle_number(noise, model, much):
    numbers = [Estimate(0.0, 1.0, -2.0, 2.0, 0.95, noise, model)] * 3
    odd = [Estimate(0.0, 1.0, -2.0, 2.0, 0.95, 1.0, 0.0), Estimate(0.0, 1.0, -2.0, 2.0, 0.95, 1.0, 99.0)]
    assert model_note([*odd, *numbers]).startswith(f"{much} of these error bars")


def test_the_note_on_a_model_is_said_once_and_names_what_was_not_measured_together():
    release = released(3, "margins")
    leaning = release.query(
        "SELECT sex, COUNT(*) AS n FROM t WHERE age < 40 AND rate < 0.5 AND day < '2024-01-09' GROUP BY sex"
    )
    (note,) = (note for note in leaning.notes if OF_WIDTH in note)
    named = [name for name in ("age", "rate", "day", "sex") if name in note]
    assert ("does not know about" in note and named) or MODEL in note
    several = release.query("SELECT sex, age, COUNT(*) AS n FROM t GROUP BY ROLLUP (sex, age)")
    assert sum(OF_WIDTH in note for note in several.notes) <= 1


def test_two_attributes_are_said_to_be_unknown_together_with_what_would_tell():
    note = naming(model_note([Estimate(0.0, 1.0, -2.0, 2.0, 0.95, 1.0, 1.0)]), ("age", "year"))
    assert note.startswith(
        "about half of these error bars is what this release does not know about age and year together"
    )
    assert "residual with them in --workload" in note


def test_a_median_of_bins_says_bins_and_not_model(full):
    notes = full.query("SELECT MEDIAN(rate) FROM t").notes
    assert not any(OF_WIDTH in note for note in notes) and any("ends of bins" in note for note in notes)


@pytest.mark.parametrize(
    ("notes", "decisive"),
    [
        ((model_note([Estimate(9.0, 5.0, 0.0, 19.0, 0.95, noise=3.0, model=4.0)]),), ()),
        (("income < 5 cuts a bin: the interval allows for any spread", NO_ROWS), (1, 0)),
        (
            ("guaranteed intervals hold for every table", "the 5 rows were chosen among 9", "gap: could be chance"),
            (2, 1, 0),
        ),
        (("something new",), (0,)),
    ],
)
def test_of_several_notes_the_one_that_changes_most_comes_first(notes, decisive):
    """A part of the error bar that a model makes is inside the interval, and no news."""
    answer = Result(("n",), (), 0.95, notes, counted="one row of each person")
    assert answer.decisive == tuple(notes[at] for at in decisive)
    assert repr(replace(answer, rows=((1,),))).count("note: ") == min(1, len(decisive))
    assert len(answer.remarks) == len(notes) + 1  # nothing is lost
