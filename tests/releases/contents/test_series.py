"""A series answers as its parts do, and sums over periods have the errors of independent parts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import hypot, inf, isnan

import numpy as np
import pyarrow as pa
import pytest
from months import MONTHS, months_of, part_of, schema_of, series_of, visits

from sfumato.answers.parts import RECURS
from sfumato.answers.results import Estimate
from sfumato.errors import QueryError, ReleaseFileError
from sfumato.public.comparison import compare
from sfumato.releases.contents.series import Part, SeriesContent
from sfumato.releases.release import Release

MECHANISMS = ("cells", "hierarchical", "sfumato", "margins")
OLD = "age >= 60 AND ward = 'heart'"


def close(one: Estimate, other: Estimate) -> bool:
    return all(
        a == b or (isnan(a) and isnan(b)) or abs(a - b) <= 1e-6 * (1 + abs(b))
        for a, b in zip(
            (one.value, one.stderr, one.low, one.high), (other.value, other.stderr, other.low, other.high), strict=True
        )
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "number", ["COUNT(*)", "AVG(cost)", "SUM(cost)", "MEDIAN(stay)", "COUNT(*) FILTER (WHERE stay > 3) / COUNT(*)"]
)
@pytest.mark.parametrize("manner", [{}, {"interval": "guaranteed"}, {"possible": True}])
def test_each_period_is_answered_by_its_part(mechanism, number, manner):
    parts = months_of(mechanism)
    try:
        alone = [one.query(f"SELECT {number} AS n FROM visits WHERE {OLD}", **manner).rows[0][0] for one in parts]
    except QueryError as refused:
        with pytest.raises(QueryError, match=str(refused)[:20]):
            series_of(parts).query(f"SELECT period, {number} AS n FROM visits WHERE {OLD} GROUP BY period", **manner)
        return
    rows = (
        series_of(parts).query(f"SELECT period, {number} AS n FROM visits WHERE {OLD} GROUP BY period", **manner).rows
    )
    assert [row[0] for row in rows] == list(MONTHS)
    assert all(close(row[1], one) for row, one in zip(rows, alone, strict=True)), (rows, alone)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_groups_of_a_period_are_those_of_its_part(mechanism):
    parts = months_of(mechanism)
    rows = series_of(parts).query("SELECT ward, period, COUNT(*) AS n FROM visits GROUP BY ward, period").rows
    for month, one in zip(MONTHS, parts, strict=True):
        alone = one.query("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").rows
        mine = [(ward, number) for ward, period, number in rows if period == month]
        assert [ward for ward, _ in mine] == [ward for ward, _ in alone]
        assert all(close(a, b) for (_, a), (_, b) in zip(mine, alone, strict=True))


@pytest.mark.parametrize("mechanism", ["cells", "hierarchical"])
def test_sums_and_differences_add_variances(mechanism):
    """Linear estimates from independent noise: the variance of a sum and of a difference is the sum of variances."""
    parts = months_of(mechanism)
    alone = [one.query(f"SELECT COUNT(*) AS n FROM visits WHERE {OLD}").rows[0][0] for one in parts]
    whole = series_of(parts)
    (total,) = whole.query(f"SELECT COUNT(*) AS n FROM visits WHERE {OLD}").rows[0]
    assert total.value == pytest.approx(sum(one.value for one in alone))
    assert total.stderr == pytest.approx(hypot(*(one.stderr for one in alone)))
    change = "COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY period)"
    rows = whole.query(f"SELECT period, {change} AS d FROM visits WHERE {OLD} GROUP BY period").rows
    assert rows[1][1].value == pytest.approx(alone[1].value - alone[0].value)
    assert rows[1][1].stderr == pytest.approx(hypot(alone[0].stderr, alone[1].stderr))
    running = "SUM(COUNT(*)) OVER (ORDER BY period)"
    rows = whole.query(f"SELECT period, {running} AS r FROM visits WHERE {OLD} GROUP BY period").rows
    assert [row[1].stderr for row in rows] == pytest.approx(
        [hypot(*(one.stderr for one in alone[: at + 1])) for at in range(3)]
    )
    mean = "AVG(COUNT(*)) OVER (ORDER BY period ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
    rows = whole.query(f"SELECT period, {mean} AS m FROM visits WHERE {OLD} GROUP BY period").rows
    assert rows[2][1].stderr == pytest.approx(hypot(alone[1].stderr, alone[2].stderr) / 2)


def test_a_sum_of_cells_has_the_exact_distribution():
    """Three parts of 4 cells each are 12 noises of one size: the interval is that of their exact sum."""
    from sfumato.answers.noise_sum import half_width

    parts = months_of("cells")
    (total,) = series_of(parts).query("SELECT COUNT(*) AS n FROM visits WHERE age >= 60 AND stay = 1").rows[0]
    noise = parts[0].content.noises["count"]
    reach = half_width([(1.0, noise, 3 * 2 * 3)], 0.95)
    assert (total.low, total.high) == (total.value - reach, total.value + reach)


@pytest.mark.parametrize("mechanism", ["margins", "sfumato"])
def test_what_a_model_misses_it_misses_every_month(mechanism):
    """A share of the model errors of a sum adds up as numbers, those of a difference as squares, as noise does.

    A tree knows how much of its errors is noise, and the share is of the rest.
    """
    parts = months_of(mechanism)
    asked = f"SELECT COUNT(*) AS n FROM visits WHERE {OLD} AND stay < 2"
    alone = [one.query(asked).rows[0][0] for one in parts]
    assert all(one.model > 0 for one in alone)
    whole = series_of(parts)
    (total,) = whole.query(asked).rows[0]
    assert total.noise == pytest.approx(hypot(*(one.noise for one in alone)), rel=1e-6)
    models = [one.model for one in alone]
    recurring = ((1 - RECURS) * hypot(*models) ** 2 + RECURS * sum(models) ** 2) ** 0.5
    if mechanism == "margins":
        assert total.model == pytest.approx(recurring, rel=1e-6)
    else:
        assert 1.001 * hypot(*models) < total.model < 0.9 * recurring
    counts = [f"COUNT(*) FILTER (WHERE period = '{month}')" for month in MONTHS[:2]]
    (change,) = whole.query(f"SELECT {counts[1]} - {counts[0]} AS d FROM visits WHERE {OLD} AND stay < 2").rows[0]
    assert change.model == pytest.approx(hypot(alone[0].model, alone[1].model), rel=1e-6)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_shares_of_a_year_are_between_nothing_and_all(mechanism):
    share = "COUNT(*) * 1.0 / SUM(COUNT(*)) OVER ()"
    rows = series_of(months_of(mechanism)).query(f"SELECT period, {share} AS s FROM visits GROUP BY period").rows
    assert sum(row[1].value for row in rows) == pytest.approx(1.0)
    assert all(0.0 < row[1].low < row[1].value < row[1].high < 1.0 for row in rows)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_guaranteed_intervals_of_sums_hold_the_truth(mechanism):
    """At a confidence of 1 - 1e-7, 8 groups with two ends miss with probability below 1e-6."""
    whole = series_of(months_of(mechanism))
    rows = whole.query(
        "SELECT stay, COUNT(*) AS n FROM visits GROUP BY stay", interval="guaranteed", confidence=1 - 1e-7
    ).rows
    true = sum(np.bincount(visits(int(month[-2:]))["stay"].to_numpy(), minlength=8) for month in MONTHS)
    assert all(row[1].low <= count <= row[1].high < inf for row, count in zip(rows, true, strict=True))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_intervals_that_hold_together_are_wider(mechanism):
    whole = series_of(months_of(mechanism))
    asked = "SELECT period, COUNT(*) AS n FROM visits GROUP BY period"
    alone, together = whole.query(asked).rows, whole.query(asked, simultaneous=True).rows
    for (_, one), (_, other) in zip(alone, together, strict=True):
        assert other.low <= one.low and one.high <= other.high
        assert other.high - other.low > one.high - one.low


def test_the_calendar_is_known():
    whole = series_of(months_of("cells"))

    def labels(sql: str) -> list[object]:
        return [row[0] for row in whole.query(sql).rows]

    group = "FROM visits GROUP BY 1"
    assert [str(day) for day in labels(f"SELECT DATE_TRUNC('quarter', period) AS q, COUNT(*) {group}")] == [
        "2026-01-01",
        "2026-04-01",
    ]
    assert labels(f"SELECT EXTRACT(month FROM period) AS m, COUNT(*) {group}") == [1, 2, 4]
    for condition in ("period BETWEEN '2026-02' AND '2026-04'", "period >= '2026-02'", "period > DATE '2026-01-31'",
                      "period IN ('2026-02', '2026-04')", "period <> '2026-01'"):  # fmt: skip
        assert labels(f"SELECT period, COUNT(*) FROM visits WHERE {condition} GROUP BY period") == list(MONTHS[1:])


def test_a_month_without_a_part_is_no_month_without_visits():
    whole = series_of(months_of("cells"))
    result = whole.query("SELECT period, COUNT(*) AS n FROM visits GROUP BY period")
    assert [row[0] for row in result.rows] == list(MONTHS)
    assert any("2026-03 has no part" in note for note in result.notes)
    with pytest.raises(QueryError, match="2026-01 to 2026-04 without 2026-03"):
        whole.query("SELECT COUNT(*) FROM visits WHERE period = '2026-03'")
    assert not any("no part" in n for n in whole.query("SELECT COUNT(*) FROM visits WHERE period < '2026-03'").notes)


def test_periods_may_have_names():
    schema = schema_of(series={"period": "name", "unit": "person in a period"})
    parts = [part_of(month, "cells", schema) for month in MONTHS]
    whole = series_of(parts, ("spring wave", "autumn wave", "Nachzügler"))
    rows = whole.query("SELECT period, COUNT(*) AS n FROM visits WHERE period <> 'spring wave' GROUP BY period").rows
    assert [row[0] for row in rows] == ["autumn wave", "Nachzügler"]


def test_of_several_parts_of_a_month_the_last_answers():
    parts = months_of("cells")
    listed = [*zip((1, 2, 3), MONTHS, parts, strict=True), (4, "2026-02", parts[0])]
    content = SeriesContent.of([Part(number, month, lambda one=one: one) for number, month, one in listed])
    whole = Release(content, "cells", parts[0].guarantee, private=False)
    rows = whole.query("SELECT period, COUNT(*) AS n FROM visits GROUP BY period").rows
    assert rows[1][1].value == rows[0][1].value  # February was replaced by what January counted


@cache
def grown() -> Release:
    """January without the eye ward and without sex; February with both."""
    before = part_of("2026-01", "cells")
    attributes = dict(schema_of().to_dict()["attributes"])
    attributes["ward"] = {"type": "category", "values": ["eye", "surgery", "children", "heart"]}
    attributes["sex"] = {"type": "category", "values": ["F", "M"]}
    rows = visits(2)
    table = rows.append_column("sex", pa.array(["F", "M"] * 1000))
    table = table.set_column(
        1, "ward", pa.array(["eye" if at % 4 == 0 else w for at, w in enumerate(rows["ward"].to_pylist())])
    )
    after = part_of("2026-02", "cells", schema_of(attributes=attributes), table)
    return series_of([before, after], MONTHS[:2])


def test_a_schema_may_grow():
    whole = grown()
    rows = whole.query("SELECT period, COUNT(*) AS n FROM visits WHERE ward = 'heart' GROUP BY period").rows
    alone = [
        part.release.query("SELECT COUNT(*) FROM visits WHERE ward = 'heart'").rows[0][0]
        for part in whole.content.parts
    ]
    assert all(close(row[1], one) for row, one in zip(rows, alone, strict=True))
    assert len(whole.query("SELECT age, COUNT(*) FROM visits GROUP BY age").rows) == 5
    rows = whole.query("SELECT ward, COUNT(*) AS n FROM visits WHERE ward <> 'eye' GROUP BY ward").rows
    assert [row[0] for row in rows] == ["surgery", "children", "heart"]
    each = [
        part.release.query("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").rows for part in whole.content.parts
    ]
    assert [row[1].value for row in rows] == [
        a[1].value + b[1].value for a, b in zip(each[0], each[1][1:], strict=True)
    ]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (
            "SELECT COUNT(*) FROM visits WHERE sex = 'F'",
            "when 2026-01 was published, sex was not yet a column; add WHERE period >= '2026-02'",
        ),
        ("SELECT ward, COUNT(*) FROM visits GROUP BY ward", "eye was not yet a value of ward; add WHERE period >= "),
        ("SELECT COUNT(*) FROM visits WHERE ward <> 'heart'", "eye was not yet a value of ward"),
    ],
)
def test_a_part_that_cannot_answer_says_so(sql, says):
    with pytest.raises(QueryError, match=says):
        grown().query(sql)
    later = sql.replace(" FROM visits", " FROM visits WHERE period >= '2026-02'").replace(
        "'2026-02' WHERE", "'2026-02' AND"
    )
    assert grown().query(later).rows


def test_rows_are_drawn_of_the_periods_that_have_every_column():
    rows = grown().sample(50, where="period >= '2026-02-01' AND sex = 'F'")
    assert {str(day)[:7] for day in rows["period"].to_pylist()} == {"2026-02"} and set(rows["sex"].to_pylist()) == {"F"}
    for where in (None, "age < 20", "sex = 'F'", "period <= '2026-02-10'"):
        with pytest.raises(QueryError, match=r"2026-01 has no sex yet, .* ask for rows of later periods"):
            grown().sample(50, where=where)


def test_a_comparison_says_which_periods_it_is_of():
    (february,) = (part.release for part in grown().content.parts if part.period == "2026-02")
    notes = compare(grown(), february).notes
    assert "first: sums over 2026-02, without 2026-01, which has not yet every column and value" in notes
    january = months_of("cells")[0]
    assert "first: sums over 3 periods, 2026-01 to 2026-04" in compare(series_of(months_of("cells")), january).notes


def test_values_that_were_counted_as_other_stay_there():
    attributes = schema_of().to_dict()["attributes"]
    attributes["ward"] = {"type": "category", "values": ["surgery"], "other": True}
    before = part_of("2026-01", "cells", schema_of(attributes=attributes))
    attributes["ward"] = {"type": "category", "values": ["surgery", "children"], "other": True}
    whole = series_of([before, part_of("2026-02", "cells", schema_of(attributes=attributes))], MONTHS[:2])
    rows = whole.query("SELECT period, COUNT(*) AS n FROM visits WHERE ward <> 'surgery' GROUP BY period").rows
    alone = before.query("SELECT COUNT(*) FROM visits WHERE ward = 'other'").rows[0][0]
    assert close(rows[0][1], alone)
    for condition in ("ward = 'children'", "ward = 'other'"):  # January cannot tell the two apart
        with pytest.raises(QueryError, match="children was not yet a value"):
            whole.query(f"SELECT COUNT(*) FROM visits WHERE {condition}")


@pytest.mark.parametrize("mechanism", ["cells", "hierarchical"])
def test_measures_of_other_steps_add_up(mechanism):
    fine = schema_of(measures={"cost": {"lower": 0, "upper": 1001, "step": "0.5"}})
    coarse = schema_of(measures={"cost": {"lower": 0, "upper": 1001, "step": 3}})
    parts = [part_of("2026-01", mechanism, fine), part_of("2026-02", mechanism, coarse)]
    asked = "SELECT SUM(cost) AS s FROM visits WHERE age >= 60"
    alone = [one.query(asked).rows[0][0] for one in parts]
    (total,) = series_of(parts, MONTHS[:2]).query(asked).rows[0]
    assert total.value == pytest.approx(sum(one.value for one in alone))
    assert total.stderr == pytest.approx(hypot(*(one.stderr for one in alone)))


def test_rows_come_with_their_period():
    whole = series_of(months_of("cells"))
    rows = whole.sample(3000, seed=1)
    months = [str(day)[:7] for day in rows["period"].to_pylist()]
    counts = {row[0]: row[1].value for row in whole.query("SELECT period, COUNT(*) FROM visits GROUP BY period").rows}
    assert {*months} == {*counts}
    for month, count in counts.items():  # places are stratified: the shares are exact but for rounding
        assert abs(months.count(month) / 3000 - count / sum(counts.values())) < 1e-3
    february = whole.sample(where="period = '2026-02' AND age >= 60", seed=1)
    assert {str(day)[:7] for day in february["period"].to_pylist()} == {"2026-02"}
    assert min(february["age"].to_pylist()) >= 60
    by = whole.sample(by=["ward", "period"], seed=1)
    asked = whole.query("SELECT period, ward, COUNT(*) AS n FROM visits GROUP BY period, ward").rows
    drawn = [*zip([str(day)[:7] for day in by["period"].to_pylist()], by["ward"].to_pylist(), strict=True)]
    assert all(drawn.count((month, ward)) == round(number.value) for month, ward, number in asked)


def test_a_part_of_another_kind_is_refused_by_name():
    part = part_of("2026-01", "cells")
    other = replace(part, content=_Other(part.schema))
    with pytest.raises(QueryError, match="series extract"):
        series_of([other, part], MONTHS[:2]).query("SELECT COUNT(*) FROM visits")


class _Other:
    def __init__(self, schema):
        self.schema = schema


def test_a_release_of_no_series_makes_none():
    part = part_of("2026-01", "cells")
    alone = replace(part, content=replace(part.content, schema=part.schema.model_copy(update={"series": None})))
    with pytest.raises(ReleaseFileError, match="does not belong to a series"):
        series_of([alone], MONTHS[:1])
