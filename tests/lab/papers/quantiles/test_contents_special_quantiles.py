"""The content of quantiles: SQL that it answers and refuses, and files that were made up."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sure_coverage import most_misses

from sfumato.answers.question import Manner
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.lab.papers.quantiles.content import QuantilesRecord
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.file.manifest import details_as
from sfumato.releases.release import Release, contents_of
from sfumato.schema import Schema
from sfumato.sql import compile_statement

SCHEMA = Schema.from_dict(
    {
        "dataset": "people",
        "privacy_unit": "row",
        "budget": {"epsilon": 9},
        "attributes": {
            "sex": {"type": "category", "values": ["F", "M"]},
            "born": {"type": "date", "lower": "2000-01-01", "upper": "2000-01-31", "missing": "keep"},
            "height": {"type": "number", "lower": 100, "upper": 200, "bins": 50},
        },
    }
)


def release(by: str = "sex", of: str = "height,born") -> Release:
    counts = np.full(SCHEMA.domain.shape, 10, dtype=np.int64)
    budget = Budget.pure(4)
    curator = over_counts(SCHEMA, counts, budget, TestingEntropy(2))
    run = (
        find_mechanism("quantiles").with_options({"of": of, "by": by, "pieces": "64", "quantiles": "0,0.25,0.5,1"}).run
    )
    return Release(run(curator, SCHEMA, budget, None), "quantiles", describe_guarantee(budget, SCHEMA), private=False)


def test_every_way_to_write_a_quantile_answers():
    made = release()
    (row,) = made.query(
        "SELECT MEDIAN(height) AS a, QUANTILE(height, 0.5) AS b, "
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY height) AS c, "
        "MIN(height) AS d, MAX(height) AS e, MEDIAN(born) AS f FROM people WHERE sex = 'F'"
    )
    assert row[0] == row[1] == row[2] and abs(row[0].value - 150) < 4
    assert row[0].low <= row[0].value <= row[0].high
    assert row[3].low == 100 and row[4].high == 200  # nothing tells where the last row is
    assert row[5].dates and abs(row[5].value - 10_972) < 3


def test_groups_orders_and_limits_are_those_of_any_answer():
    rows = release().query("SELECT sex, MEDIAN(height) AS m FROM people GROUP BY sex ORDER BY sex DESC LIMIT 1").rows
    assert [row[0] for row in rows] == ["M"]


def test_what_was_not_chosen_is_interpolated_and_said():
    answer = release().query("SELECT sex, QUANTILE(height, 0.4) AS m FROM people GROUP BY sex")
    assert any("0.4 was not chosen" in note for note in answer.notes)
    for row in answer:
        assert row[1].low <= 140 <= row[1].high and abs(row[1].value - 140) < 8


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT COUNT(*) FROM people", "holds quantiles of height, born"),
        ("SELECT MEDIAN(height) FROM people", "group by sex"),
        ("SELECT MEDIAN(height) FROM people WHERE sex IN ('F', 'M')", "group by sex"),
        ("SELECT MEDIAN(height) FROM people WHERE sex = 'F' AND height > 150", "condition on height"),
        ("SELECT born, MEDIAN(height) FROM people WHERE sex = 'F' GROUP BY born", "do not group by born"),
        ("SELECT MAX(height) - MIN(height) FROM people WHERE sex = 'F'", "nothing else"),
    ],
)
def test_what_it_cannot_know_is_refused_by_name(sql, words):
    with pytest.raises(QueryError, match=words):
        release().query(sql)


def test_findings_and_examples_without_groups():
    made = release(by="", of="height")
    assert made.content.about.findings[2].startswith("median of height: ")
    for sql in made.content.about.examples:
        assert len(made.query(sql)) == 1
    assert "Found:" in repr(made.describe())


@pytest.mark.parametrize(
    "change",
    [
        {"of": ["sex", "height"]},
        {"of": ["height", "height"]},
        {"of": ["nobody", "born"]},
        {"quantiles": ["0", "1/2", "1/4", "1"]},
        {"quantiles": ["0", "1/4", "1/2", "2"]},
        {"pieces": [0, 1]},
        {"pieces": [2**24, 2**24]},
        {"pieces": [4]},
        {"epsilon": "0"},
        {"total": "-1"},
        {"more": 1},
    ],
)
def test_details_that_do_not_go_together_are_refused(change):
    contents = contents_of(release())
    manifest = replace(contents.manifest, details={**contents.manifest.details, **change})
    with pytest.raises(ReleaseFileError):
        kind = type(release().content)
        kind.check(manifest, SCHEMA)


@pytest.mark.parametrize(
    ("member", "column", "change", "words"),
    [
        ("cuts", "place", lambda x: x[::-1].copy(), "not in order"),
        ("cuts", "place", lambda x: x + 2**40, "outside"),
        ("counts", "count", lambda x: x[:-1], "fewer counts"),
        ("counts", "count", lambda x: np.append(x, 1), "more counts"),
        ("totals", "rows", lambda x: x * 0 + 2**40, "fewer counts"),
    ],
)
def test_members_that_were_made_up_are_refused(member, column, change, words):
    made = release()
    contents = contents_of(made)
    members = {name: dict(columns) for name, columns in contents.members.items()}
    members[member][column] = change(np.asarray(members[member][column]))
    with pytest.raises(ReleaseFileError, match=words):
        type(made.content).read(contents.manifest, SCHEMA, members.__getitem__)
    about = details_as(QuantilesRecord, contents.manifest)
    assert about.epsilon == Fraction(4, 2) * Fraction(95, 100)  # of each attribute


LINE = Schema.from_dict(
    {"dataset": "t", "privacy_unit": "row", "attributes": {"x": {"type": "integer", "lower": 0, "upper": 99}}}
)


@pytest.mark.parametrize("rows", [{37: 400}, {0: 60, 99: 60}, {5: 3, 6: 200, 90: 80}])
def test_guaranteed_intervals_hold_where_rows_lie_in_heaps(rows):
    """20 releases of each of 3 tables, 4 quantiles, one of which was not chosen; 1 in 1e6 runs fails by chance.

    A median between two heaps, and heaps that draw no choice, are where typical intervals lean on how rows lie.
    """
    counts = np.zeros(100, dtype=np.int64)
    counts[list(rows)] = list(rows.values())
    asked = {"MIN(x)": 0.0, "MEDIAN(x)": 0.5, "QUANTILE(x, 0.9)": 0.9, "MAX(x)": 1.0}
    plan = compile_statement(f"SELECT {', '.join(f'{one} AS q{at}' for at, one in enumerate(asked))} FROM t", LINE)
    truth = np.quantile(np.repeat(np.arange(100), counts), list(asked.values()))
    budget, missed, widths = Budget.pure(8), np.zeros(4), np.zeros(4)
    for _ in range(20):
        content = find_mechanism("quantiles").run(over_counts(LINE, counts, budget, SystemEntropy()), LINE, budget)
        (row,) = content.select_as(plan, 0.95, Manner("guaranteed")).rows
        missed += [not one.low <= true <= one.high for one, true in zip(row, truth, strict=True)]
        widths += [one.high - one.low for one in row]
    assert missed.max() <= most_misses(20, 1e-6 / 12), missed
    if len(rows) == 1:  # 400 rows in one value: the counts around it tell it nearly to the value
        assert widths[1] / 20 < 12.0


def test_guaranteed_intervals_come_beside_typical_ones():
    answer = release().query("SELECT sex, MEDIAN(height) AS m FROM people GROUP BY sex", interval="both")
    for _, one in answer.rows:
        assert 100 <= one.sure[0] <= one.value <= one.sure[1] <= 200
    assert answer.notes[-1].startswith("guaranteed intervals hold for every table")
