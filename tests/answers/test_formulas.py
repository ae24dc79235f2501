"""Arithmetic of averages: with the noise they share, wide where a denominator may be zero, marked where it is real."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of

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
            "age": {"type": "integer", "lower": 0, "upper": 9},
            "sex": {"type": "category", "values": ["F", "M"]},
        },
        "measures": {"pay": {"lower": 0, "upper": 100, "step": 1}},
    }
)
COUNTS = np.full((10, 2), 40)
PAY = np.array([40, 46])  # of women and of men
SUMS = COUNTS * (PAY - 50)
MEN, WOMEN = "FILTER (WHERE sex = 'M')", "FILTER (WHERE sex = 'F')"
GAP = f"AVG(pay) {MEN} - AVG(pay) {WOMEN}"


def made(mechanism: str = "cells", epsilon: Fraction | int = 1, seed: int = 4, counts: np.ndarray = COUNTS) -> Release:
    budget = Budget.pure(epsilon)
    sums = {"pay": counts * (PAY - 50)}
    curator = curator_of(SCHEMA, counts, epsilon=epsilon, sums=sums, entropy=TestingEntropy(seed))
    content = MECHANISMS[mechanism].run(curator, SCHEMA, budget, None)
    return Release(content, mechanism, describe_guarantee(budget, SCHEMA), False)


def only(release: Release, expression: str):
    ((found,),) = release.query(f"SELECT {expression} FROM t").rows
    return found


@pytest.mark.parametrize("mechanism", ["cells", "sparse-cells", "hierarchical", "sfumato", "margins", "residual"])
def test_every_content_has_gaps(mechanism):
    release = made(mechanism, epsilon=50)
    found = only(release, GAP)
    assert found.value == pytest.approx(6, abs=2) and found.low <= 6.5 and found.high >= 5.5
    assert found.real is True and found.stderr > 0
    assert only(release, f"AVG(pay) {MEN} / AVG(pay) {WOMEN}").value == pytest.approx(1.15, abs=0.1)
    young = f"COUNT(*) FILTER (WHERE age < 5 AND sex = 'M') / COUNT(*) {MEN}"
    shares = f"{young} - COUNT(*) FILTER (WHERE age < 5) / COUNT(*)"
    assert abs(only(release, shares).value) < 0.1


def test_a_gap_is_the_same_however_it_is_written():
    release = made()
    cased = "AVG(CASE WHEN sex = 'M' THEN pay END) - AVG(CASE WHEN sex = 'F' THEN pay END)"
    assert only(release, GAP) == only(release, cased)
    assert only(release, f"2 * ({GAP})").high == pytest.approx(2 * only(release, GAP).high, rel=1e-3)
    apart = [only(release, f"AVG(pay) {who}").stderr for who in (MEN, WOMEN)]
    assert only(release, GAP).stderr == pytest.approx(np.hypot(*apart))  # their rows, and so their noises, are disjoint


def test_gaps_hold_as_often_as_they_say():
    """150 releases at 95 %: 125 or fewer hits have a chance under 1e-6 (binomial)."""
    found = [only(made("cells", Fraction(1, 2), seed), GAP) for seed in range(150)]
    assert sum(one.low <= 6 <= one.high for one in found) > 125
    assert any(one.low > 0 for one in found) or any(one.high < 30 for one in found)


def test_where_there_may_be_no_rows_anything_is_possible():
    few = COUNTS.copy()
    few[:, 1] = 0
    found = only(made(counts=few), GAP)
    assert (found.low, found.high) == (-100, 100) or (found.low <= -40 and found.high >= 40)
    assert found.real is False
    shares = f"COUNT(*) FILTER (WHERE age < 5 AND sex = 'M') / COUNT(*) {MEN} - COUNT(*) {WOMEN} / COUNT(*)"
    assert only(made(counts=few), shares).low >= -1


def test_whether_a_difference_is_real_is_said_for_every_row():
    result = made(epsilon=20).query(f"SELECT age, {GAP} AS gap, COUNT(*) AS n FROM t GROUP BY age")
    assert [record["gap_real"] for record in result.records()].count(True) >= 5
    assert "n_real" not in result.records()[0]
    (note,) = [note for note in result.notes if note.startswith("gap: ")]
    assert "of 10 rows" in note and "look real" in note
    chance = made(epsilon=Fraction(1, 100)).query(f"SELECT {GAP} AS gap FROM t")
    assert any("could be chance" in note for note in chance.notes)


def test_an_average_against_that_of_all_counts_the_rows_they_share():
    release = made(epsilon=5)
    against = release.query("SELECT sex, AVG(pay) - (SELECT AVG(pay) FROM t) AS d FROM t GROUP BY sex").rows
    own = release.query("SELECT sex, AVG(pay) FROM t GROUP BY sex").rows
    assert [row[1].value for row in against] == pytest.approx([-3, 3], abs=1.5)
    assert all(row[1].stderr < mine[1].stderr for row, mine in zip(against, own, strict=True))


def test_what_a_model_assumes_does_not_cancel():
    """A model pulls groups towards each other, so that it is off in opposite ways in the two parts of a gap."""
    release = made("margins")
    apart = [only(release, f"AVG(age) {who}").stderr for who in (MEN, WOMEN)]
    assert only(release, f"AVG(age) {MEN} - AVG(age) {WOMEN}").stderr == pytest.approx(sum(apart), rel=0.02)
