"""Times by hour, week, quarter, weekday and hour of the day, from a table of taxi trips to the answers."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import sfumato

SCHEMA = """
dataset: trips
privacy_unit: row
budget: {epsilon: 1000000}
attributes:
  pickup: {type: date, lower: 2024-05-27, upper: 2024-06-09, by: hour}
"""
TIMES = [datetime(2024, 5, 27) + timedelta(minutes=n * 37 % (14 * 24 * 60), seconds=n % 60) for n in range(900)]


@pytest.fixture(params=["t.csv", "t.parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same trips as text and as times."""
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("pickup\n" + "".join(f"{time}\n" for time in TIMES))
    pq.write_table(pa.table({"pickup": pa.array(TIMES, pa.timestamp("us"))}), "t.parquet")
    return request.param


def release(table: str, pickup: str = "") -> None:
    """With a budget so large that there is no noise to see."""
    schema = SCHEMA if not pickup else SCHEMA[: SCHEMA.index("  pickup")] + pickup
    Path("s.yaml").write_text(schema)
    made = sfumato(
        "release", table, "--schema", "s.yaml", "--mechanism", "cells", "--epsilon", "5000", "-o", "r.sfumato"
    )
    assert made.returncode == 0, made.stderr


def asked(query: str) -> list[dict]:
    run = sfumato("query", "r.sfumato", query, "--format", "json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def truth(query: str) -> list[tuple]:
    connection = duckdb.connect()
    connection.register("trips", pa.table({"pickup": pa.array(TIMES, pa.timestamp("us"))}))
    return connection.execute(query).fetchall()


def test_hours_between_two_times(table):
    release(table)
    for where in (
        "pickup >= '2024-06-01 12:00'",
        "pickup < '2024-06-01 12:00:00' AND pickup >= '2024-05-28 07:00'",
        "pickup >= '2024-06-03'",
        "NOT pickup < '2024-06-09 23:00'",
    ):
        query = f"SELECT COUNT(*) AS n FROM trips WHERE {where}"
        (found,) = asked(query)
        assert (found["n"], found["n_low"], found["n_high"]) == truth(query)[0] * 3, where
    rows = {row["pickup"]: row["n"] for row in asked("SELECT pickup, COUNT(*) AS n FROM trips GROUP BY pickup")}
    wanted = truth("SELECT strftime(pickup, '%Y-%m-%dT%H'), COUNT(*) FROM trips GROUP BY 1")
    assert {name: n for name, n in rows.items() if n} == dict(wanted)
    label = next(iter(dict(wanted)))
    (one,) = asked(f"SELECT COUNT(*) AS n FROM trips WHERE pickup = '{label}'")
    assert one["n"] == dict(wanted)[label]


def test_a_time_within_an_hour_cuts_it(table):
    release(table)
    (found,) = asked("SELECT COUNT(*) AS n FROM trips WHERE pickup < '2024-06-01 12:30'")
    (low,), (high,) = (
        truth(f"SELECT COUNT(*) FROM trips WHERE pickup < '2024-06-01 {hour}:00'")[0] for hour in (12, 13)
    )
    assert (found["n_low"], found["n_high"]) == (low, high) and low < found["n"] < high
    run = sfumato("query", "r.sfumato", "SELECT COUNT(*) FROM trips WHERE pickup < '2024-06-01 12:30'", "--strict")
    assert run.returncode != 0 and "cuts the bin 2024-06-01T12" in run.stderr


@pytest.mark.parametrize(
    ("by", "label"),
    [
        ("week", "strftime(pickup, '%G-W%V')"),
        ("quarter", "year(pickup)::VARCHAR || '-Q' || quarter(pickup)::VARCHAR"),
        ("weekday", "dayname(pickup)"),
        ("hour_of_day", "hour(pickup)"),
    ],
)
def test_other_cells_of_times(table, by, label):
    bounds = "" if by in ("weekday", "hour_of_day") else "lower: 2024-05-27, upper: 2024-06-09, "
    release(table, f"  part: {{type: date, {bounds}by: {by}, column: pickup}}\n")
    rows = asked("SELECT part, COUNT(*) AS n FROM trips GROUP BY part")
    wanted = dict(truth(f"SELECT {label}, COUNT(*) FROM trips GROUP BY 1"))
    assert {row["part"]: row["n"] for row in rows} == wanted
    if by == "weekday":
        assert [row["part"] for row in rows][::6] == ["Monday", "Sunday"]
        (weekend,) = asked("SELECT COUNT(*) AS n FROM trips WHERE part IN ('Saturday', 'Sunday')")
        assert weekend["n"] == wanted["Saturday"] + wanted["Sunday"]
    elif by == "hour_of_day":
        (morning,) = asked("SELECT COUNT(*) AS n FROM trips WHERE part BETWEEN 6 AND 9")
        assert morning["n"] == sum(wanted[hour] for hour in range(6, 10))
    else:
        (one,) = asked(f"SELECT COUNT(*) AS n FROM trips WHERE part = '{rows[0]['part']}'")
        assert one["n"] == rows[0]["n"]


def test_sampled_times_fall_into_the_hours_of_the_release(table):
    release(table)
    assert sfumato("sample", "r.sfumato", "--rows", "500", "-o", "rows.parquet").returncode == 0
    drawn = pq.read_table("rows.parquet")["pickup"]
    assert pa.types.is_timestamp(drawn.type)
    hours = {time.replace(minute=0, second=0) for time in TIMES}
    assert all(time.replace(minute=0, second=0, microsecond=0) in hours for time in drawn.to_pylist())
