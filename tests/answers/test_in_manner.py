"""Intervals for all rows together."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of
from sure_coverage import most_misses

from sfumato.answers.noise_sum import half_width
from sfumato.answers.question import Manner
from sfumato.answers.results import Estimate, Result
from sfumato.answers.statement import text_in_manner
from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 199}}}
)
COUNTS = np.arange(200) % 7


def release_by(mechanism: str = "cells") -> Release:
    curator = curator_of(SCHEMA, COUNTS, entropy=SystemEntropy())
    content = find_mechanism(mechanism).run(curator, SCHEMA, Budget.pure(1))
    return Release(content, mechanism, describe_guarantee(Budget.pure(1), SCHEMA), False)


def test_independent_noises_multiply_their_chances():
    release = release_by()
    (noise,) = release.content.noises.values()
    found = release.query("SELECT x, COUNT(*) AS n FROM t GROUP BY x", simultaneous=True)
    (one, *_) = found.column("n")
    assert one.high - one.value == half_width([(1.0, noise, 1)], 0.95 ** (1 / 200)) and found.confidence == 0.95
    assert "all 200 intervals that this question could show hold together with 95 % confidence" in found.notes[-1]


@pytest.mark.parametrize("sql", ["SELECT x, COUNT(*) AS n FROM t GROUP BY x ORDER BY n DESC LIMIT 3"])
def test_the_most_striking_rows_are_chosen_from_all(sql):
    """30 releases: noise puts the largest of 200 counts there, and its interval holds; 1 in 1e6 fails by chance."""
    alone = together = 0
    for _ in range(30):
        release = release_by()
        for simultaneous in (False, True):
            rows = release.query(sql, simultaneous=simultaneous, selected=False).rows
            held = all(number.low <= COUNTS[x] <= number.high for x, number in rows)
            alone, together = alone + (not simultaneous and not held), together + (simultaneous and not held)
    assert together <= most_misses(30, 1e-6) < alone


def test_other_noises_add_their_chances_and_having_counts_what_it_leaves_out():
    release = release_by("hierarchical")
    plain = release.query("SELECT x, COUNT(*) AS n FROM t GROUP BY x", confidence=1 - 0.05 / 200)
    found = release.query("SELECT x, COUNT(*) AS n FROM t GROUP BY x HAVING COUNT(*) > 5", simultaneous=True)
    by_key = dict(plain.rows)
    assert 0 < len(found) < 200
    for x, number in found.rows:
        assert (number.low, number.high) == (by_key[x].low, by_key[x].high)


def test_one_number_needs_no_company():
    found = release_by().query("SELECT COUNT(*) AS n FROM t", simultaneous=True)
    assert "there is one number" in found.notes[-1]


class Reader:
    """A content that reads statements itself."""

    def answer_text(self, sql: str, confidence: float) -> Result:
        return Result(("n",), ((Estimate(5.0, 1.0, 4.0, 6.0, confidence, 1.0),),) * 4, confidence)


def test_a_content_that_reads_statements_itself_is_asked_as_often_as_it_takes():
    found = text_in_manner("anything", Reader(), 0.95, Manner(simultaneous=True))
    assert found.confidence == 0.95 and found.rows[0][0].confidence == pytest.approx(1 - 0.05 / 4)
    assert "all 4 intervals" in found.notes[-1]
    with pytest.raises(QueryError, match="no guaranteed interval"):
        text_in_manner("anything", Reader(), 0.95, Manner("guaranteed"))
