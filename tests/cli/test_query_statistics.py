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
