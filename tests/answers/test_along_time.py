"""Series with running totals: intervals of sums over parts know the noise that parts share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import (
    BudgetError,
    LedgerError,
    MechanismError,
    NewLedgerWarning,
    QueryError,
    ReleaseFileError,
    SchemaError,
)
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.public.comparison import compare
from sfumato.publishing.publish import release
from sfumato.queries.ranges import GRID, Running, worst_square
from sfumato.schema import Schema

pytestmark = pytest.mark.filterwarnings(f"ignore::{NewLedgerWarning.__module__}.{NewLedgerWarning.__name__}")

RHO, CELLS, PLANNED = "0.02", 400, 12


def schema(cells=CELLS, planned=PLANNED, **more):
    parts = {
        "dataset": "visits",
        "privacy_unit": "row",
        "budget": {"rho": 1000},
        "attributes": {
            "cell": {"type": "integer", "lower": 0, "upper": cells - 1},
            "sex": {"type": "category", "values": ["F", "M"]},
        },
        "series": {"period": "month", "unit": "person in a month", "periods": planned, "running": True},
    }
    return Schema(**{**parts, **more})


def table(month, cells=CELLS):
    random = np.random.default_rng(month)
    return pa.table(
        {
            "cell": random.integers(0, cells, 4 * cells),
            "sex": random.choice(["F", "M"], 4 * cells),
            "cost": random.uniform(0, 100, 4 * cells),
            "who": [f"{month} {number}" for number in range(4 * cells)],
        }
    )


def published(folder, months, stated=None, seed=0, **more):
    """The series of some months, published in this order; a month that comes again is corrected."""
    path, known = folder / "visits.sfumato", set()
    stated = stated or schema()
    cells = stated.domain["cell"].size
    for number, month in enumerate(months):
        release(
            table(month, cells),
            stated,
            rho=RHO,
            series=path,
            period=f"2026-{month:02}",
            correct=month in known,
            ledger=folder / "ledger.sqlite",
            entropy=TestingEntropy(1000 * seed + number),
            **more,
        )
        known.add(month)
    return sf.open(path, allow_not_private=True)


def fresh(rho=float(RHO), planned=PLANNED):
    """Standard deviation of the noise that is drawn for one cell of one part, in rows."""
    return np.sqrt(worst_square(planned) / GRID**2 / (2 * rho))


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    return published(tmp_path_factory.mktemp("year"), range(1, PLANNED + 1))


def _errors(series, sql, **more):
    return [row[-1].stderr for row in series.query(sql, **more).rows]


def test_errors_of_running_totals_and_single_periods_are_those_of_the_plan(year):
    unit = np.sqrt(2 * CELLS / (2 * float(RHO)))  # of all rows, measured anew
    totals = _errors(year, "SELECT period, SUM(COUNT(*)) OVER (ORDER BY period) AS r FROM visits GROUP BY period")
    assert totals == pytest.approx((unit * Running(PLANNED).totals()).tolist(), rel=1e-6)
    single = _errors(year, "SELECT period, COUNT(*) FROM visits GROUP BY period")
    assert single == pytest.approx((unit * Running(PLANNED).single()).tolist(), rel=1e-6)
    together = _errors(year, "SELECT COUNT(*) FROM visits")
    assert together == pytest.approx(totals[-1:], rel=1e-9)
    by_cell = _errors(year, "SELECT cell, COUNT(*) FROM visits GROUP BY cell")
    assert by_cell == pytest.approx([totals[-1] / np.sqrt(CELLS)] * CELLS, rel=1e-9)


def _covariance(weights):
    """Covariance of the errors of one cell in several parts, in rows. weights: of the noises, a row for each part."""
    rows = np.zeros((len(weights), max(map(len, weights))))
    for row, each in zip(rows, weights, strict=True):
        row[: len(each)] = each
    return fresh() ** 2 * rows @ rows.T


def test_differences_shares_and_corrected_periods_have_the_joint_covariance(tmp_path):
    series = published(tmp_path, [1, 2, 4, 2, 3])  # late, and corrected
    parts = {part.period: part.content.trail.weights for part in series.content.parts}
    assert [len(each) for each in parts.values()] == [1, 4, 5, 3]
    k = _covariance([*parts.values()])
    many = 2 * CELLS
    changes = _errors(
        series, "SELECT period, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY period) AS c FROM visits GROUP BY period"
    )
    explicit = [np.sqrt(many * (k[i, i] + k[i - 1, i - 1] - 2 * k[i, i - 1])) for i in (1, 2, 3)]
    assert changes[1:] == pytest.approx(explicit, rel=1e-6)
    ones = np.ones(4)
    assert _errors(series, "SELECT COUNT(*) FROM visits") == pytest.approx([np.sqrt(many * ones @ k @ ones)], rel=1e-6)
    # A share of a period: numerator and denominator have cells in common, and noise in other cells too.
    (count, *_), (total,) = (
        series.query("SELECT period, COUNT(*) AS n FROM visits GROUP BY period").rows,
        series.query("SELECT COUNT(*) AS n FROM visits").rows,
    )
    share = count[1].value / total[0].value
    weights = np.array([1.0, 0, 0, 0]) - share * ones
    found = _errors(series, "SELECT period, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS s FROM visits GROUP BY period")
    assert found[0] == pytest.approx(np.sqrt(many * weights @ k @ weights) / total[0].value, rel=1e-4)
    by_sex = _errors(series, "SELECT sex, AVG(cell) AS m FROM visits GROUP BY sex")
    assert all(0 < each < 20 for each in by_sex)


def test_guaranteed_intervals_of_sums_over_parts_are_as_long_as_typical_ones(year):
    sql = "SELECT period, SUM(COUNT(*)) OVER (ORDER BY period) AS r FROM visits GROUP BY period"
    for typical, sure in zip(year.query(sql).rows, year.query(sql, interval="guaranteed").rows, strict=True):
        assert sure[1].high - sure[1].low == pytest.approx(typical[1].high - typical[1].low, rel=0.02)


@pytest.mark.parametrize("interval", ["typical", "guaranteed"])
def test_intervals_of_sums_over_periods_hold(year, interval):
    """Twelve totals of each of 400 independent cells, at 95 %.

    Even if the totals of a cell were all alike, fewer than 0.89 or more than 0.995 would hold once in a million series.
    """
    truth = np.stack([np.bincount(table(m)["cell"].to_numpy(), minlength=CELLS) for m in range(1, PLANNED + 1)])
    running = truth.cumsum(axis=0)
    hits = []
    for month in range(1, PLANNED + 1):
        sql = f"SELECT cell, COUNT(*) AS n FROM visits WHERE period <= '2026-{month:02}' GROUP BY cell"
        for cell, n in year.query(sql, interval=interval).rows:
            hits.append(n.low <= running[month - 1, cell] <= n.high)
    assert len(hits) == PLANNED * CELLS
    assert 0.89 < np.mean(hits) < 0.995


def test_measures_and_impossible_cells_are_part_of_it(tmp_path):
    stated = schema(
        measures={"cost": {"lower": 0, "upper": 100, "missing": "keep"}}, impossible=[{"cell": [0], "sex": ["M"]}]
    )
    series = published(tmp_path, [1, 2, 3], stated)
    tables = [table(month) for month in (1, 2, 3)]
    kept = [~((t["cell"].to_numpy() == 0) & (t["sex"].to_numpy(zero_copy_only=False) == "M")) for t in tables]
    truth = sum(float(t["cost"].to_numpy()[mask].sum()) for t, mask in zip(tables, kept, strict=True))
    ((cost, n),) = series.query("SELECT SUM(cost), COUNT(*) FROM visits").rows
    assert abs(cost.value - truth) < 6 * cost.stderr
    k = _covariance([part.content.trail.weights for part in series.content.parts])
    # A measure takes half of the budget from the count, and one cell is impossible.
    assert n.stderr == pytest.approx(np.sqrt(2 * (2 * CELLS - 1) * k.sum()), rel=1e-6)
    ((none,),) = series.query("SELECT COUNT(*) FROM visits WHERE cell = 0 AND sex = 'M'").rows
    assert none.value == 0 == none.stderr


def test_a_part_is_a_release_by_itself_and_what_leans_on_two_of_them_knows_it(tmp_path, year):
    one, other = year.content.parts[4].release, year.content.parts[5].release
    single = np.sqrt(2 * CELLS / (2 * float(RHO))) * Running(PLANNED).single()[4]
    assert one.query("SELECT COUNT(*) FROM visits").rows[0][0].stderr == pytest.approx(single, rel=1e-6)
    assert not compare(one, other).apart
    again = sf.open(replace(one, published=None).save(tmp_path / "one.sfumato"), allow_not_private=True)
    assert (again.content.cells() == one.content.cells()).all()
    assert again.content.trail.run == year.content.parts[0].content.trail.run


def test_what_would_break_the_noise_is_refused_in_one_line_and_costs_nothing(tmp_path):
    stated, path = schema(), tmp_path / "visits.sfumato"
    kept = {"series": path, "period": "2026-01", "ledger": tmp_path / "ledger.sqlite"}
    with pytest.raises(BudgetError, match="add a delta"):
        release(table(1), stated, 1, **kept)
    with pytest.raises(MechanismError, match="margins does not measure"):
        release(table(1), stated, rho=RHO, mechanism="margins", **kept)
    with pytest.raises(QueryError, match="one period, and sums over periods are served by running"):
        release(table(1), stated, rho=RHO, workload="SELECT COUNT(*) FROM visits WHERE period > '2026-01'", **kept)
    published(tmp_path, [1])
    more = {"type": "boolean"}
    grown = schema(attributes={**stated.to_dict()["attributes"], "ill": more})
    kept["period"] = "2026-02"
    with pytest.raises(SchemaError, match="keeps its schema as it is"):
        release(table(2), grown, rho=RHO, **kept)
    with pytest.raises(BudgetError, match="the same budget in each part"):
        release(table(2), stated, rho="0.03", **kept)
    assert len(Ledger(tmp_path / "ledger.sqlite").entries("visits")) == 1
    large = schema(2**20)
    with pytest.raises(MechanismError, match="1,048,576 at most"):
        release(table(1), large, rho=RHO, **kept | {"series": tmp_path / "other.sfumato"})


def test_parts_of_a_series_are_not_combined(tmp_path):
    path = tmp_path / "visits.sfumato"
    kept = {"series": path, "ledger": tmp_path / "ledger.sqlite", "rho": RHO}
    for month in (1, 2):
        release(table(month), schema(), period=f"2026-{month:02}", **kept)
    paths = [replace(part.release, published=None).save(tmp_path / part.period) for part in sf.open(path).content.parts]
    with pytest.raises(ReleaseFileError, match="are parts of a series"):
        sf.combine(*paths)


def test_an_old_copy_of_ledger_and_noise_together_is_refused(tmp_path):
    published(tmp_path, [1])
    old = {name: (tmp_path / name).read_bytes() for name in ("ledger.sqlite", "ledger.sqlite.noise")}
    published(tmp_path, [2], seed=1)
    for name, content in old.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(LedgerError, match="old copy"):
        published(tmp_path, [3], seed=2)
    assert len(Ledger(tmp_path / "ledger.sqlite").entries("visits")) == 1


@pytest.mark.parametrize(
    ("series", "words"),
    [
        ({"unit": "person in a month", "periods": None}, "add periods: 60"),
        ({"unit": "row in a month"}, "unit: person in a month, or privacy_unit: row"),
    ],
)
def test_a_series_that_says_too_little_is_refused(series, words):
    with pytest.raises(SchemaError, match=words):
        _promising(**series)


def _promising(per=None, *, periods=9, **series):
    budget = {"rho": 1000} | ({} if per is None else {"per": per})
    series |= {} if periods is None else {"periods": periods}
    return schema(
        cells=200,
        privacy_unit={"column": "who", "contributions": 1},
        series={"period": "month", "running": True, **series},
        budget=budget,
    )


@pytest.mark.parametrize(
    ("series", "together"),
    [
        ({"unit": "person in a month"}, 1),
        ({"unit": "person in at most 3 months"}, 3),
        ({"unit": "person in a month", "per": "year", "periods": 13}, 12),
        ({"unit": "person in a quarter", "period": "quarter", "per": "year"}, 4),
        ({"unit": "person in a month", "per": "year"}, None),  # all of the year: noise anew is better
        ({"unit": "person in at most 9 months"}, None),
        ({"unit": "person for ever"}, None),
    ],
)
def test_noise_is_spread_where_a_person_is_in_some_of_the_periods(series, together):
    stated = _promising(**series)
    assert stated.running == (together is not None)
    if together is not None:
        assert stated.together == together
    said = repr(sf.plan(stated, rho=RHO, mechanism="cells"))
    assert ("running: true changes nothing" in said) == (together is None)


def test_a_plan_says_where_totals_would_be_better_without_it():
    assert "leave running out" in repr(sf.plan(_promising(unit="person in at most 8 months"), rho=RHO))
    assert "leave running out" not in repr(sf.plan(_promising(unit="person in at most 2 months"), rho=RHO))


def test_intervals_of_totals_hold_where_a_person_is_in_several_periods(tmp_path):
    """200 cells of six months, one of them corrected: of 200 intervals 168 hold but for a chance of 1e-6."""
    series = published(tmp_path, [1, 2, 3, 2, 4, 5, 6], _promising(unit="person in at most 2 months"))
    truth = np.zeros(200)
    for month in range(1, 7):
        np.add.at(truth, table(month, 200)["cell"].to_numpy(), 1)
    rows = series.query("SELECT cell, COUNT(*) AS n FROM visits GROUP BY cell").rows
    held = sum(number.low <= truth[cell] <= number.high for cell, number in rows)
    assert held >= 168
    errors = [number.value - truth[cell] for cell, number in rows]
    unit, found = 1 / np.sqrt(2 * float(RHO)), Running(9, together=2)
    widths = np.mean([number.high - number.low for _, number in rows]) / 2 / 1.96 / np.sqrt(2)  # two cells of sex each
    assert found.totals()[5] < widths / unit < 2 * found.totals()[5]  # one correction more
    assert np.std(errors) == pytest.approx(widths * np.sqrt(2), rel=0.3)  # 200 numbers: 6 deviations


def test_a_plan_tells_running_totals_and_single_periods():
    plan = sf.plan(schema(planned=60), rho=RHO)
    unit = 1 / np.sqrt(2 * float(RHO))
    assert [one.periods for one in plan.over_time] == [1, 12, 60]
    last = plan.over_time[-1]
    found = Running(60)
    figures = (last.total, last.anew, last.single, last.single_anew)
    assert figures == pytest.approx([unit * each for each in (found.totals()[-1], 60**0.5, found.single()[-1], 1.0)])
    assert "their total" in repr(plan)
    with pytest.raises(BudgetError, match="add a delta"):
        sf.plan(schema(), epsilon=1)


def test_a_statement_that_leans_is_as_it_is_without(year):
    plain = year.query("SELECT COUNT(*) FROM visits").rows
    assert year.query("SELECT COUNT(*) FROM visits", as_of="2026-12").rows == plain
    with pytest.raises(QueryError, match="no part of"):
        year.query("SELECT COUNT(*) FROM visits", as_of="2025-12")


@pytest.mark.full
def test_sixty_running_totals_are_within_two_per_cent_of_the_square_root(tmp_path):
    """Of 16,384 cells: the mean square of all running totals is off by 2 % with a chance below 1e-6."""
    cells, planned = 2**14, 60
    stated = schema(planned=planned, attributes={"cell": {"type": "integer", "lower": 0, "upper": cells - 1}})
    random, running, squares = np.random.default_rng(7), np.zeros(cells), []
    for number in range(planned):
        rows = random.integers(0, cells, 2000)
        made = release(
            pa.table({"cell": rows}),
            stated,
            rho=RHO,
            series=tmp_path / "visits.sfumato",
            period=f"{2020 + number // 12}-{1 + number % 12:02}",
            ledger=tmp_path / "ledger.sqlite",
            entropy=TestingEntropy(number),
        )
        running += made.content.cells() - np.bincount(rows, minlength=cells)
        squares.append(float((running**2).mean()))
    unit = 1 / np.sqrt(2 * float(RHO))
    assert np.sqrt(np.mean(squares)) / unit == pytest.approx(2.21, rel=0.02)
