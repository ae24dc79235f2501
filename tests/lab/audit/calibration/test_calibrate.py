"""What the test of error bars can see, and that the tables it is run on are what they are said to be."""

from math import isfinite
from pathlib import Path

import numpy as np
import pytest
from registering import register

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.calibration.calibrate import (
    PARTS,
    POOLS,
    Answered,
    Pool,
    calibrate,
    complaints,
    part_alpha,
    pool_alpha,
    pooled,
    shares_at,
    true_answers,
    unlisted,
)
from sfumato.lab.audit.calibration.tables import KINDS, cases, small_cases, wide_cases
from sfumato.models import MECHANISMS
from sfumato.models.base.mechanism import Limit, Mechanism
from sfumato.models.cells.cells import cells

PAGE = Path(__file__).parents[4] / "docs" / "known-limits.md"


def answers(covered, releases, questions=7, alike=0.1, case="smooth", kind="total"):
    """Answers of a mechanism whose intervals hold this often, seeded."""
    shares = shares_at(covered, releases, questions, alike, samples=1)[0]
    return [
        Answered(case, kind, release, place < round(share * questions), True)
        for release, share in enumerate(shares)
        for place in range(questions)
    ]


@pytest.mark.parametrize(
    ("covered", "alike", "least", "most"),
    [(0.85, 0.05, 0.99, 1), (0.85, 0.15, 0.9, 1), (0.80, 0.2, 0.99, 1), (0.95, 0.2, 0, 0), (0.97, 1.0, 0, 0)],
)
def test_how_surely_intervals_that_hold_too_seldom_are_found(covered, alike, least, most):
    """About the contract test: 120 releases of seven questions. Measured, hits on one release are alike by 0 to 0.2.

    The former test, 35 of 50 hits of each query by itself, let a coverage of 80 % pass with a chance of 0.97.
    """
    made = shares_at(covered, 120, 7, alike)
    found = np.mean([Pool(shares, 120 * 7).too_few(pool_alpha()) for shares in made[:1000]])
    assert least <= found <= most


def test_on_tables_of_many_attributes_alone_only_a_gross_failure_is_found():
    """24 releases of twelve questions, as of sfumato there: 75 % is found, 85 % hardly; the benchmark has more."""
    found = {truth: Pool(shares_at(truth, 24, 12, 0.03, samples=1)[0], 288) for truth in (0.75, 0.95)}
    assert found[0.75].too_few(pool_alpha()) and not found[0.95].too_few(pool_alpha())
    powers = [Pool(np.full(24, 0.95), 288).power(pool_alpha(), truth) for truth in (0.75, 0.85)]
    assert powers[0] > 0.95 and powers[1] < 0.2


def test_all_alarms_together_are_false_with_a_chance_of_one_in_a_million():
    assert (
        len(cases()) * (1 + len(KINDS)) + 2 * sum(len(one.lab.known_limits) for one in MECHANISMS.values()) <= PARTS
    )  # listed figures have two bounds
    assert len(MECHANISMS) * (POOLS * pool_alpha() + PARTS * part_alpha()) == pytest.approx(1e-6)


def test_the_power_that_is_printed_is_that_of_the_rule():
    pool = Pool(shares_at(0.95, 130, 7, 0.15, samples=1)[0], 130 * 7)
    assert 0.02 < pool.alike < 0.3 and pool.power(pool_alpha()) > 0.9 and pool.power(pool_alpha(), truth=0.95) == 0


def test_between_93_and_95_nothing_fails_however_many_releases_there_are():
    many = shares_at(0.94, 20_000, 7, 0.0, samples=1)[0]
    assert not Pool(many, 140_000).too_few(pool_alpha())
    assert Pool(many - 0.02, 140_000).too_few(pool_alpha())
    assert Pool(np.full(20_000, 0.98), 140_000).too_many(1e-9) and not Pool(many, 140_000).too_many(1e-9)


def test_one_bad_kind_is_found_beside_many_good_ones():
    """30 releases of a table whose total is never held: 1 question in 10, so the pool may still look good."""
    bad = [Answered("census", "total", release, False, True) for release in range(30)]
    good = [Answered("census", "cell", release, True, True) for release in range(300)]
    assert not pooled([*good, *bad]).too_few(pool_alpha())
    (complaint,) = complaints("cells", [*good, *bad], ())
    assert complaint == "cells, census, total: 95 % intervals hold 0.0%"


def test_what_is_listed_does_not_count_and_must_be_true():
    found = answers(0.5, 60, case="census", kind="share") + answers(0.99, 100)
    listed = Limit("census", "share", 0.5)
    assert len(complaints("cells", found, ())) == 4  # two pools, the table, and its shares
    assert complaints("cells", found, (listed,)) == []
    assert len(unlisted(found, (listed,))) == 700 and len(unlisted(found, ())) == len(found)
    for stale in (0.05, 0.95):
        (complaint,) = complaints("cells", found, (Limit("census", "share", stale),))
        assert "is listed and" in complaint


def test_the_page_of_known_limits_lists_what_the_audit_takes_as_known():
    rows = [line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    found = {(row[0].strip("`"), row[1], row[2], row[3]) for row in rows}
    limits = [(name, limit) for name, one in MECHANISMS.items() for limit in one.lab.known_limits]
    assert found == {(name, one.table, one.kind, f"{100 * one.covered:.0f} %") for name, one in limits}
    names = {case.name for case in cases()}
    assert len(rows) == len(limits) > 0
    assert all(one.table in names and one.kind in KINDS and one.covered < 0.93 for _, one in limits)


def test_the_tables_are_what_they_are_said_to_be():
    found = {case.name: case for case in cases()}
    assert [case.name for case in small_cases()] == ["smooth", "sparse", "one spike", "alternating", "empty"]
    for name in ("seven independent", "seven dependent"):
        assert found[name].rows == 8000 and found[name].schema.domain.size == 28_800
    assert found["census"].rows == 48_000 and found["census"].schema.domain.size == 38_400
    assert wide_cases()[0].counts.sum() == 8000 and wide_cases() is wide_cases()
    assert {question.kind for case in cases() for question in case.questions} == set(KINDS)


def test_dependent_answers_depend_on_each_other():
    """Mutual information of the first two, in nats: of 8,000 independent rows about (4 - 1) (5 - 1) / 16,000."""

    def information(case):
        pair = case.counts.reshape(case.schema.domain.shape).sum(axis=(2, 3, 4, 5, 6)) / case.rows
        apart = np.outer(pair.sum(axis=1), pair.sum(axis=0))
        return float((pair * np.log(np.where(pair > 0, pair / apart, 1))).sum())

    independent, dependent, _ = wide_cases()
    assert information(independent) < 0.004 < 0.02 < information(dependent)


def test_truths_are_those_of_the_table():
    for case in cases():
        truths = dict(zip(case.questions, true_answers(case), strict=True))
        (total,) = (truth for question, truth in truths.items() if question.kind == "total")
        assert total == case.rows
        assert all(truth > 0 for question, truth in truths.items() if question.kind == "cell")
        if case.rows:
            assert sum(isfinite(truth) for truth in truths.values()) >= len(truths) - 1


def test_every_question_is_asked_as_often_as_the_others():
    case = small_cases()[0]
    number = len(case.questions)
    asked = [place for run in range(number) for place in case.asked(run, 7)]
    assert np.bincount(asked).tolist() == [7] * number
    assert len(case.asked(0, 99)) == number
    assert len({case.questions[place].kind for place in case.asked(0, 7)}) == 7


def test_a_mechanism_that_refuses_a_table_is_not_asked_about_it(monkeypatch):
    picky = Mechanism("picky", "", cells, refuses=lambda schema, workload: "no" if "x" in schema.domain else None)
    register(monkeypatch, picky)
    tables = (small_cases()[0], wide_cases()[0])
    found = calibrate("picky", tables, lambda case: 2, TestingEntropy(3), asked=3)
    assert {one.case for one in found} == {"seven independent"} and len(found) == 6
