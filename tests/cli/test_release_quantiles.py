"""Quantiles from the command line: released, asked in another process, described; bad options cost nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import as_process, sfumato

SCHEMA = """dataset: people
privacy_unit: row
budget: {epsilon: 10}
attributes:
  age: {type: integer, lower: 0, upper: 99}
  sex: {type: category, values: [F, M]}
"""


@pytest.fixture
def people(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger"))
    Path("people.yaml").write_text(SCHEMA)
    rows = "".join(f"{n % 100},{'FM'[n % 2]}\n" for n in range(6000))
    Path("people.csv").write_text("age,sex\n" + rows)
    return ("release", "people.csv", "--schema", "people.yaml", "--mechanism", "quantiles", "--epsilon", "2")


def test_released_asked_and_described(people):
    options = ("--with", "of=age", "--with", "by=sex", "--with", "pieces=16", "-o", "q.sfumato")
    made = sfumato(*people, *options)
    assert made.returncode == 0, made.stderr
    sql = "SELECT sex, MEDIAN(age) AS m, MIN(age) AS a, MAX(age) AS b FROM people GROUP BY sex"
    asked = as_process("query", "q.sfumato", sql, "--format", "json")
    rows = json.loads(asked.stdout)
    assert [row["sex"] for row in rows] == ["F", "M"]
    for row in rows:  # 3,000 rows of each: a rank error of 100 rows has a chance below 1e-6
        assert abs(row["m"] - 49.5) < 5 and row["m_low"] <= row["m"] <= row["m_high"]
        assert row["a_low"] == 0 and row["b_high"] == 99
    refused = sfumato("query", "q.sfumato", "SELECT COUNT(*) FROM people")
    assert refused.returncode == 1 and "holds quantiles of age and nothing else" in refused.stderr
    said = sfumato("info", "q.sfumato").stdout
    assert "5 quantiles of age for each sex" in said and "of 2, epsilon 4 (54.6 times)" in said


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("quantiles=0.5,1.5", "between 0 and 1"),
        ("quantiles=half", "cannot be"),
        ("of=sex", "no order"),
        ("of=income", "no attribute"),
        ("deciles=yes", "no option"),
    ],
)
def test_what_makes_no_sense_costs_nothing(people, option, words):
    refused = sfumato(*people, "--with", option, "-o", "q.sfumato")
    assert refused.returncode == 1 and words in refused.stderr and len(refused.stderr.strip().splitlines()) == 1
    assert not Path("q.sfumato").exists() and not Path("ledger").exists()


def test_a_plan_says_what_epsilon_means_for_a_family(people):
    said = sfumato("plan", "--schema", "people.yaml", "--epsilon", "0.5", "--mechanism", "cells").stdout
    assert "of 1, epsilon 0.5 (1.65 times)" in said and "of 4, epsilon 2 (7.39 times)" in said
