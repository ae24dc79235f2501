"""Section 4.2 of the survey again: the bound holds, and the paper's raise is many times what is needed."""

from __future__ import annotations

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.reproduce.survey.publishing import bound_exhibit, inference_exhibit, raise_exhibit, sample_exhibit


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_the_largest_error_is_within_the_bound_by_far():
    for row in bound_exhibit(TestingEntropy(1), quick=True).rows:
        assert number(row[3]) < number(row[2]) / 3


def test_the_papers_raise_would_drown_the_margins():
    for row in raise_exhibit(TestingEntropy(1), quick=True).rows:
        assert number(row[1]) < number(row[2]) and number(row[3]) < number(row[6])


def test_inferred_pairs_are_worse_than_measured_ones_and_no_table_has_the_rows_that_the_survey_asks_for():
    for row in inference_exhibit(TestingEntropy(1), quick=True).rows:
        assert number(row[5]) < number(row[4])
    assert all(row[5] == "more than 1e18" for row in sample_exhibit().rows)
