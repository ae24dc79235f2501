"""The pay gap and a median, as an analyst asks for them: command in, text out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import sfumato

SCHEMA = """
dataset: staff
privacy_unit: row
budget: {epsilon: 100}
attributes:
  age: {type: integer, lower: 18, upper: 67}
  sex: {type: category, values: [F, M]}
  hired: {type: date, lower: 2020-01-01, upper: 2020-12-31, by: month}
measures:
  pay: {lower: 0, upper: 100}
"""
GAP = "SELECT AVG(pay) FILTER (WHERE sex = 'M') - AVG(pay) FILTER (WHERE sex = 'F') AS gap FROM staff"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("staff.yaml").write_text(SCHEMA)
    rows = (f"{18 + n % 50},{'FM'[n % 2]},2020-{1 + n % 12:02}-11,{40 + 10 * (n % 2) + n % 7}\n" for n in range(2000))
    Path("staff.csv").write_text("age,sex,hired,pay\n" + "".join(rows))
    words = ["--schema", "staff.yaml", "--epsilon", "50", "--mechanism", "cells", "-o", "s.sfumato"]
    assert sfumato("release", "staff.csv", *words).returncode == 0
    return lambda *more: sfumato("query", "s.sfumato", *more)


def test_the_pay_gap_and_whether_it_is_real(run):
    table, listed = run(GAP), run(GAP, "--format", "json")
    assert "gap: the difference is real at 95 %" in " ".join(table.stderr.split())
    (row,) = json.loads(listed.stdout)
    assert row["gap_low"] <= 10.5 and row["gap_high"] >= 9.5 and row["gap_real"] is True
    assert run(GAP, "--format", "csv").stdout.splitlines()[0] == "gap,gap_stderr,gap_low,gap_high,gap_real"


def test_medians_of_numbers_and_dates_by_group(run):
    (one, two) = json.loads(
        run("SELECT sex, MEDIAN(age), MAX(hired) FROM staff GROUP BY sex", "--format", "json").stdout
    )
    assert one["sex"] == "F" and 38 <= one["median_age"] <= 47 and two["median_age_low"] <= 43 <= two["median_age_high"]
    assert one["max_hired"] == "2020-11-30" and two["max_hired_high"] == "2020-12-31"


def test_what_has_no_quantile_is_said_in_one_line(run):
    refused = run("SELECT MEDIAN(pay) FROM staff")
    assert refused.returncode == 1 and "pay is a measure" in " ".join(refused.stderr.split())


TIMES = """
dataset: trips
privacy_unit: row
budget: {epsilon: 1000}
attributes:
  at: {type: date, lower: 2024-01-10, upper: 2024-04-20, by: BY}
"""
# The least, the middle and the greatest time are those of a cell; the interval holds all of it.
SPANS = {
    "hour": ("2024-02-03T05:00", "2024-02-05T07:", "2024-03-01T22:59", "2024-02-05T07:59"),
    "day": ("2024-02-03", "2024-02-05", "2024-03-01", "2024-02-05"),
    "week": ("2024-01-29", "2024-02-", "2024-03-03", "2024-02-11"),
    "month": ("2024-02-01", "2024-02-", "2024-03-31", "2024-02-29"),
    "quarter": ("2024-01-10", "2024-0", "2024-03-31", "2024-03-31"),
    "year": ("2024-01-10", "2024-0", "2024-04-20", "2024-04-20"),
}


@pytest.mark.parametrize("by", SPANS)
def test_times_are_shown_as_finely_as_they_are_told_apart(tmp_path, monkeypatch, by):
    monkeypatch.chdir(tmp_path)
    Path("trips.yaml").write_text(TIMES.replace("BY", by))
    rows = ["2024-02-03 05:10"] * 300 + ["2024-02-05 07:45"] * 500 + ["2024-03-01 22:05"] * 300
    Path("trips.csv").write_text("\n".join(["at", *rows]) + "\n")
    words = ["--schema", "trips.yaml", "--epsilon", "1000", "--mechanism", "cells", "-o", "t.sfumato"]
    assert sfumato("release", "trips.csv", *words).returncode == 0
    asked = "SELECT MIN(at) AS a, MEDIAN(at) AS b, MAX(at) AS c, QUANTILE(at, 0.5) AS d FROM trips"
    (row,) = json.loads(sfumato("query", "t.sfumato", asked, "--format", "json").stdout)
    least, middle, most, end = SPANS[by]
    assert row["a"] == row["a_low"] == least and row["c"] == row["c_high"] == most
    assert row["b"].startswith(middle) and row["d"] == row["b"] and row["b_high"] == end
    shown = sfumato("query", "t.sfumato", asked).stdout
    assert f"{row['b_low']} to {row['b_high']}" in shown and (" hours" if by == "hour" else " days") in shown
    having = f"SELECT MEDIAN(at) AS b FROM trips HAVING MEDIAN(at) {{}} '{end[:10]}'"
    rows = [
        json.loads(sfumato("query", "t.sfumato", having.format(sign), "--format", "json").stdout)
        for sign in ("<", ">=")
    ]
    assert sorted(map(len, rows)) == [0, 1]


def test_the_least_value_of_what_is_a_measure_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pay.yaml").write_text(
        "dataset: staff\nprivacy_unit: row\nbudget: {epsilon: 100}\nattributes:\n"
        "  pay: {type: integer, lower: 0, upper: 9}\n  sex: {type: category, values: [F, M]}\n"
        "  age: {type: integer, lower: 0, upper: 3}\nmeasures:\n  pay: {lower: 0, upper: 9}\n"
    )
    Path("pay.csv").write_text("pay,sex,age\n" + "".join(f"{3 + n % 4},{'FM'[n % 2]},{n % 3}\n" for n in range(900)))
    words = ["--schema", "pay.yaml", "--epsilon", "50", "--mechanism", "margins", "-o", "p.sfumato"]
    assert sfumato("release", "pay.csv", *words).returncode == 0
    asked = "SELECT MIN(pay) AS a, MEDIAN(pay) AS b, AVG(pay) AS c FROM staff"
    (row,) = json.loads(sfumato("query", "p.sfumato", asked, "--format", "json").stdout)
    assert row["a_low"] <= 3 <= row["a_high"] and 4 <= row["b"] <= 5 and abs(row["c"] - 4.5) < 0.2
