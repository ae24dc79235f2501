"""Estimates that lean on other periods: smaller errors where little changes, a jump is let go, asked by AS OF."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of

from sfumato.dbapi import connect
from sfumato.errors import QueryError
from sfumato.kernel.budget import Cost
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models.margins.borrowing import Periods, Sizes, borrowed, evened
from sfumato.models.margins.content import Margins
from sfumato.models.margins.measure import margins
from sfumato.models.margins.table import Table
from sfumato.releases.contents.series import Part, SeriesContent
from sfumato.releases.file.manifest import Guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SHAPE = (3, 4, 5)
MONTHS = 5


def _schema() -> Schema:
    values = {
        f"a{place}": {"type": "category", "values": [str(code) for code in range(size)]}
        for place, size in enumerate(SHAPE)
    }
    unit = {"column": "person", "contributions": 1}
    stated = {"dataset": "t", "privacy_unit": unit, "budget": {"epsilon": 100}, "attributes": values}
    return Schema.from_dict(stated | {"series": {"period": "month", "unit": "person in a month"}})


def _counts(drift: float, jump: bool, rows: int = 500) -> list[np.ndarray]:
    stream = np.random.default_rng(5)
    shares = stream.dirichlet(np.full(60, 0.4)).reshape(SHAPE)
    listed = []
    for month in range(MONTHS):
        shares = shares * np.exp(drift * stream.normal(size=SHAPE))
        now = shares.copy()
        if jump and month == MONTHS - 1:
            now[:, 1] *= 10.0
        listed.append(stream.multinomial(rows, (now / now.sum()).reshape(-1)).reshape(SHAPE))
    return listed


def _released(counts: list[np.ndarray]) -> list[Margins]:
    schema, rho = _schema(), Cost.stated(1, "1e-9").budget
    found = []
    for seed, each in enumerate(counts):
        curator = curator_of(schema, each.reshape(-1), rho=rho.amount, entropy=TestingEntropy(seed))
        found.append(margins(curator, schema, rho))
    return found


def _error(content: Margins, counts: np.ndarray) -> float:
    pairs = [((0, 1), 2), ((0, 2), 1), ((1, 2), 0)]
    off = [content.tables["count"][pair].estimate - counts.sum(axis=axis) for pair, axis in pairs]
    return float(np.sqrt(np.mean(np.concatenate([each.reshape(-1) for each in off]) ** 2)))


def test_drift_and_scatter_are_learned_from_squared_differences():
    """60 periods of 3,000 cells: relative standard errors are below 3 %, the bounds are ten of them."""
    stream, rows, noise = np.random.default_rng(2), np.full(3000, 400.0), 25.0
    level, seen = rows.copy(), []
    for _ in range(60):
        level = level + 0.05 * rows * stream.normal(size=rows.size)
        counted = level + np.sqrt(2.0 * rows) * stream.normal(size=rows.size)
        seen.append({(0,): (counted + np.sqrt(noise) * stream.normal(size=rows.size), noise)})
    walk = Periods(1.0, [1.0] * 60, seen, {(0,): rows}).walk([(0,)])
    assert walk.drift == pytest.approx(0.05**2, rel=0.3)
    assert walk.scatter == pytest.approx(2.0, rel=0.3)


@pytest.fixture(scope="module")
def alone() -> list[Margins]:
    return _released(_counts(0.0, jump=False))


def test_months_that_hardly_change_gain_and_a_jump_is_let_go(alone):
    """The testing generator: the same noise every time."""
    counts = _counts(0.0, jump=False)
    leaning = [borrowed(alone, month) for month in range(MONTHS)]
    before, after = ([_error(c, x) for c, x in zip(each, counts, strict=True)] for each in (alone, leaning))
    assert np.mean(after) < 0.9 * np.mean(before)
    for own, other in zip(alone, leaning, strict=True):
        assert other.measured is own.measured and other.guessed is own.guessed  # guaranteed intervals stay as they are
        assert all(
            (other.tables["count"][p].noise <= own.tables["count"][p].noise + 1e-6).all() for p in [(0, 1), (1, 2)]
        )
        total = float(own.tables["count"][()].estimate)
        assert other.tables["count"][0, 2].estimate.sum() == pytest.approx(total, rel=1e-3)
    jumped = [*alone[:-1], *_released(_counts(0.0, jump=True)[-1:])]
    predicted = Periods.of(jumped).predicted(MONTHS - 1)
    assert np.isinf(predicted[1,].variance[1]) and np.isinf(predicted[0, 1].variance[:, 1]).all()
    assert np.isfinite(Periods.of(alone).predicted(MONTHS - 1)[1,].variance).all()


def test_sizes_of_errors_are_those_of_all_periods_and_of_cells_that_jumped_their_own(alone):
    def sizes(content: Margins) -> np.ndarray:
        table = content.tables["count"][0, 1]
        return table.noise + table.model

    known = Periods.of(alone).predicted(2)
    assert all((each.periods == MONTHS - 1).all() for each in known.values())
    spread = [sizes(evened(alone, m, Periods.of(alone).predicted(m))).sum() for m in range(MONTHS)]
    assert np.std(np.log(spread)) < 0.5 * np.std(np.log([sizes(each).sum() for each in alone]))
    flags = np.zeros(SHAPE[:2], dtype=bool)
    flags[1] = True
    jumped = evened(alone, 2, known | {(0, 1): known[0, 1].forgetting(flags)})
    assert sizes(jumped)[1] == pytest.approx(sizes(alone[2])[1], rel=1e-2)
    assert sizes(jumped)[0] != pytest.approx(sizes(alone[2])[0], rel=1e-2)


def test_the_series_tells_how_large_errors_are_and_what_recurs(alone):
    """Claims four times too large are seen, too small ones hardly: what they leave counts as change between periods.

    An error of all periods is seen to recur.
    """

    def looked(contents: list[Margins]) -> Sizes:
        sizes = Sizes(periods := Periods.of(contents), contents)
        periods.predicted(len(contents) // 2, sizes.look)
        return sizes

    def changed(content: Margins, times: float, more: float) -> Margins:
        tables = dict(content.tables["count"])
        for places in [(0, 1), (0, 2), (1, 2)]:
            table = tables[places]
            turned = more * np.where(np.indices(table.estimate.shape).sum(axis=0) % 2 == 0, 1.0, -1.0)
            tables[places] = Table(places, table.estimate + turned, times * table.noise, times * table.model)
        return replace(content, tables={**content.tables, "count": tables})

    usual = looked(alone)
    assert 0.5 <= usual.beside_claimed <= 2.0 and 0.0 <= usual.recurring < 0.5
    wide, narrow = (looked([changed(each, times, 0.0) for each in alone]) for times in (4.0, 0.25))
    assert wide.beside_claimed < 0.75 * usual.beside_claimed and narrow.beside_claimed > usual.beside_claimed > 1.0
    always = looked([changed(each, 1.0, 12.0) for each in alone])
    assert always.recurring > usual.recurring + 0.2
    assert looked(alone[:2]).recurring == pytest.approx(0.1, abs=0.1)  # two periods tell little


def test_differences_and_sums_of_leaning_months_know_what_they_share(alone):
    """Errors of two months with covariance c: the squares of sum and difference are those of both months, +- 2 c."""
    guarantee = Guarantee(Fraction(1), "a person in a month", "one person", "as stated")
    parts = [
        Part(n, f"2026-{n:02}", lambda each=each: Release(each, "margins", guarantee, private=True))
        for n, each in enumerate(alone[:3], start=1)
    ]
    series = Release(SeriesContent.of(parts), "margins", guarantee, private=True)
    counts = [f"COUNT(*) FILTER (WHERE period = '2026-{month:02}')" for month in (1, 2)]
    asked = [*counts, f"{counts[1]} - {counts[0]}", f"{counts[1]} + {counts[0]}"]
    sql = f"SELECT a0, {', '.join(asked)} FROM t GROUP BY a0"
    for _, *found in series.query(sql, as_of="2026-03").rows:
        one, other, change, both = (each.stderr**2 for each in found)
        assert change + both == pytest.approx(2.0 * (one + other), rel=1e-6)
        assert change < one + other < both
    for _, *found in series.query(sql).rows:  # without, the wider case for each
        one, other, change, both = (each.stderr**2 for each in found)
        assert change == pytest.approx(one + other, rel=1e-6) and both >= one + other


def test_a_series_is_asked_as_of_a_period(alone):
    guarantee = Guarantee(Fraction(1), "a person in a month", "one person", "as stated")
    releases = [Release(each, "margins", guarantee, private=True) for each in alone[:3]]
    parts = [Part(n, f"2026-{n:02}", lambda r=r: r) for n, r in enumerate(releases, start=1)]
    series = Release(SeriesContent.of(parts), "margins", guarantee, private=True)
    sql = "SELECT COUNT(*) FROM t WHERE a0 = '1' AND a1 = '2' AND period = '{}'"
    filtered = series.query(sql.format("2026-02"), as_of="2026-02")
    smoothed = series.query(sql.format("2026-02"), as_of="2026-03")
    plain = series.query(sql.format("2026-02"))
    values = [each.rows[0][0].value for each in (filtered, smoothed, plain)]
    assert len({*values}) == 3
    assert any("; standard errors of cells of two columns are" in note for note in smoothed.notes)
    assert any("as of 2026-03" in note for note in smoothed.notes) and not any("as of" in note for note in plain.notes)
    wide = [series.query(sql.format("2026-02"), as_of=p, interval="guaranteed").rows[0][0] for p in (None, "2026-03")]
    assert (wide[0].low, wide[0].high) == (wide[1].low, wide[1].high)
    as_sql = sql.replace("FROM t", "FROM t AS OF '2026-03'").format("2026-02")
    assert series.query(as_sql).rows == smoothed.rows == series.query(as_sql, as_of="2026-03").rows
    both = "WITH b AS (SELECT COUNT(*) AS n FROM t FOR SYSTEM_TIME AS OF '2026-02' WHERE a0 = '1') SELECT n FROM b"
    assert any("as of 2026-02" in note for note in series.query(both).notes)
    with connect(series) as connection:  # a value is bound as text, as everywhere
        (row,) = connection.cursor().execute(as_sql.replace("'2026-03'", "?"), ["2026-03"]).fetchall()
        assert row[0] == smoothed.rows[0][0].value
    with pytest.raises(QueryError, match="AS OF '2026-03', and beside it stands '2026-02'; say it once"):
        series.query(as_sql, as_of="2026-02")
    with pytest.raises(QueryError, match="is no month; write it like"):
        series.query("SELECT COUNT(*) FROM t AS OF 'yesterday'")
    with pytest.raises(QueryError, match="no series"):
        releases[0].query("SELECT COUNT(*) FROM t AS OF '2026-02'")
    with pytest.raises(QueryError, match="no part of 2026-09"):
        series.query(sql.format("2026-02"), as_of="2026-09")
    with pytest.raises(QueryError, match="no series"):
        releases[0].query("SELECT COUNT(*) FROM t", as_of="2026-02")
    with pytest.raises(QueryError, match="without unbiased"):
        series.query("SELECT COUNT(*) FROM t", as_of="2026-02", unbiased=True)
