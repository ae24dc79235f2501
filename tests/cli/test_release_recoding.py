"""A survey with messy codes, recoded by its schema: the table is read as it is and answers speak plainly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import sfumato

SCHEMA = """
dataset: survey
privacy_unit: row
budget: {epsilon: 1000000}
attributes:
  sex: {type: category, values: [F, M], fold: [case, spaces], map: {frau: F, "1": F, "2": M}, missing: keep}
  status: {type: category, values: [1, 2, 9], labels: {1: single, 2: married}}
  town: {type: category, values: towns.txt}
  ill: {type: boolean, map: {1: true, 2: false, ja: true}, fold: case}
"""
SEXES = ["F", " f", "M ", "m", "Frau", "1", "2", "x", "  ", "FRAU"]
STATUS = ["1", "2", "2.0", "9", "7"]
TOWNS = ["Aa", "Bergen", "aa"]
ILL = ["1", "2", "JA", "false", "2"]
ROWS = [(SEXES[n % 10], STATUS[n // 10 % 5], TOWNS[n // 50 % 3], ILL[n * n % 5]) for n in range(600)]
MEANT = {"F": "F", " f": "F", "M ": "M", "m": "M", "Frau": "F", "1": "F", "2": "M", "  ": None, "FRAU": "F"}
KEPT = [
    (MEANT[sex], float(status), town, ill in ("1", "JA"))
    for sex, status, town, ill in ROWS
    if sex != "x" and status != "7" and town != "aa"
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("towns.txt").write_text("Aa\nBergen\n")
    Path("s.yaml").write_text(SCHEMA)
    Path("t.csv").write_text("sex,status,town,ill\n" + "".join(",".join(row) + "\n" for row in ROWS))
    made = sfumato(
        "release", "t.csv", "--schema", "s.yaml", "--mechanism", "cells", "--epsilon", "5000", "-o", "r.sfumato"
    )
    assert made.returncode == 0, made.stderr
    return tmp_path


def asked(query: str) -> list[dict]:
    run = sfumato("query", "r.sfumato", query, "--format", "json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_spellings_count_as_what_they_mean(folder):
    found = {row["sex"]: row["n"] for row in asked("SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex")}
    assert found == {sex: sum(row[0] == sex for row in KEPT) for sex in ("F", "M", None)}


def test_labels_are_shown_and_asked_for_and_codes_too(folder):
    rows = asked("SELECT status, COUNT(*) AS n FROM survey GROUP BY status")
    wanted = {label: sum(row[1] == code for row in KEPT) for code, label in ((1, "single"), (2, "married"), (9, "9"))}
    assert {row["status"]: row["n"] for row in rows} == wanted
    for literal in ("'married'", "2", "'2'"):
        (one,) = asked(f"SELECT COUNT(*) AS n FROM survey WHERE status = {literal}")
        assert one["n"] == wanted["married"]
    run = sfumato("query", "r.sfumato", "SELECT COUNT(*) FROM survey WHERE status = 'wed'")
    assert run.returncode != 0 and "status has no value 'wed'; it has 'single', 'married', '9'" in run.stderr


def test_a_boolean_is_what_its_map_says(folder):
    (found,) = asked("SELECT SUM(ill) AS n, COUNT(*) AS every FROM survey")
    assert (found["n"], found["every"]) == (sum(row[3] for row in KEPT), len(KEPT))


def test_sampled_rows_have_the_codes_of_the_table(folder):
    assert sfumato("sample", "r.sfumato", "--rows", "50", "-o", "rows.csv").returncode == 0
    lines = [line.split(",") for line in Path("rows.csv").read_text().splitlines()[1:]]
    assert {line[1] for line in lines} <= {"1", "2", "9"} and {line[0] for line in lines} <= {'"F"', '"M"', ""}


def test_the_file_stands_by_itself(folder):
    """The list is published in the release, which needs the file no more."""
    Path("towns.txt").unlink()
    rows = asked("SELECT town, COUNT(*) AS n FROM survey GROUP BY town")
    assert {row["town"]: row["n"] for row in rows} == {town: sum(row[2] == town for row in KEPT) for town in TOWNS[:2]}
    run = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1")
    assert run.returncode != 0 and "s.yaml: attributes.town.values names the file 'towns.txt'" in run.stderr
