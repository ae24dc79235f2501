"""`missing: keep` from the curator's table to the analyst's answer: rows without a value are counted as such."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from running import sfumato

from sfumato.models import MODULES

SCHEMA = """
dataset: visits
privacy_unit: row
budget: {epsilon: 1000000}
expected_rows: 1000
attributes:
  age: {type: integer, lower: 0, upper: 99, cuts: [18, 65], missing: keep}
  ward: {type: category, values: [surgery, medicine], missing: keep}
  urgent: {type: boolean, missing: keep}
  length: {type: integer, lower: 0, upper: 4, missing: keep}
"""
AGES, WARDS, URGENT = ["7", "30", "80", "", "old"], ["surgery", "medicine", "", "garden"], ["true", "false", "", "?"]
LENGTHS = ["1", "1", "3", "2", "", "?", "1"]
ROWS = [(AGES[n % 5], WARDS[n // 5 % 4], URGENT[n * 7 // 20 % 4], LENGTHS[n % 7]) for n in range(800)]
KEPT = [row for row in ROWS if row[1] != "garden"]  # what is not listed is left out, as ever


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SCHEMA)
    (tmp_path / "t.csv").write_text("age,ward,urgent,length\n" + "".join(",".join(row) + "\n" for row in ROWS))
    return tmp_path


def release(mechanism: str = "cells", schema: str = "s.yaml") -> None:
    """With a budget so large that there is next to no noise."""
    options = ("--mechanism", mechanism, "--epsilon", "5000", "-o", "r.sfumato")
    made = sfumato("release", "t.csv", "--schema", schema, *options)
    assert made.returncode == 0, made.stderr


def asked(query: str) -> list[dict]:
    run = sfumato("query", "r.sfumato", query, "--format", "json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_missing_values_are_a_group_of_their_own(folder):
    release()
    groups = {row["ward"]: row["n"] for row in asked("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")}
    assert groups == {"surgery": 200, "medicine": 200, None: 200}
    shown = sfumato("query", "r.sfumato", "SELECT ward, COUNT(*) FROM visits GROUP BY ward").stdout
    assert shown.splitlines()[-1].startswith("NULL ")
    written = sfumato("query", "r.sfumato", "SELECT ward, COUNT(*) FROM visits GROUP BY ward", "--format", "csv").stdout
    assert written.splitlines()[-1].startswith(",200,")


def test_answers_are_those_of_sql(folder):
    release()
    truth = duckdb.connect()
    truth.execute("CREATE TABLE visits (age INT, ward VARCHAR, urgent BOOLEAN, length INT)")
    plain = {"": None, "old": None, "?": None}
    truth.executemany(
        "INSERT INTO visits VALUES (?, ?, ?, ?)", [[plain.get(cell, cell) for cell in row] for row in KEPT]
    )
    for where in ("age IS NULL", "age IS NOT NULL AND urgent", "NOT age >= 18", "ward <> 'surgery'", "NOT urgent"):
        query = f"SELECT COUNT(*) AS n FROM visits WHERE {where}"
        assert asked(query)[0]["n"] == truth.execute(query).fetchone()[0], where
    query = "SELECT COUNT(age) AS a, COUNT(ward) AS w, SUM(urgent) AS u FROM visits"
    assert tuple(asked(query)[0][name] for name in "awu") == truth.execute(query).fetchone()
    query = "SELECT MIN(length) AS a, MAX(length) AS b, MEDIAN(length) AS c, VAR_POP(length) AS d FROM visits"
    found, wanted = asked(query)[0], truth.execute(query).fetchone()
    assert [found[name] for name in "abcd"] == pytest.approx(wanted)
    (average,) = asked("SELECT AVG(urgent) AS u FROM visits WHERE age IS NULL")
    assert average["u"] == pytest.approx(
        truth.execute("SELECT AVG(urgent::INT) FROM visits WHERE age IS NULL").fetchone()[0]
    )


@pytest.mark.parametrize(
    ("order", "places"),
    [
        ("ward", ["medicine", "surgery", None]),
        ("ward DESC", ["surgery", "medicine", None]),
        ("ward NULLS FIRST", [None, "medicine", "surgery"]),
    ],
)
def test_missing_values_stand_last_unless_asked_otherwise(folder, order, places):
    release()
    found = [row["ward"] for row in asked(f"SELECT ward, COUNT(*) FROM visits GROUP BY ward ORDER BY {order}")]
    assert [word is None for word in found] == [word is None for word in places]
    assert len(found) == 3


def test_sampled_rows_have_no_value_where_the_cell_says_so(folder):
    release()
    for name in ("rows.csv", "rows.parquet"):
        made = sfumato("sample", "r.sfumato", "--rows", "600", "-o", name)
        assert made.returncode == 0, made.stderr
    table = pq.read_table("rows.parquet")
    nulls = {name: table[name].null_count for name in table.column_names}
    assert 150 < nulls["ward"] < 250 and 170 < nulls["age"] < 310, nulls  # 200 and 240 are expected, give or take 12
    assert "garden" not in table["ward"].to_pylist()
    lines = [line.split(",") for line in Path("rows.csv").read_text().splitlines()[1:]]
    assert {line[1] for line in lines} == {'"surgery"', '"medicine"', ""}
    again = sfumato(
        "release", "rows.csv", "--schema", "s.yaml", "--mechanism", "cells", "--epsilon", "9", "-o", "b.sfumato"
    )
    assert again.returncode == 0, again.stderr


@pytest.mark.parametrize("mechanism", MODULES)
def test_every_mechanism_takes_a_cell_for_missing_values_as_any_other(folder, mechanism):
    if mechanism in ("laplace", "matrix", "division", "pmw"):  # they are made for the questions they are given
        (folder / "w.sql").write_text("SELECT ward, COUNT(*) FROM visits GROUP BY ward")
        made = sfumato(
            *("release", "t.csv", "--schema", "s.yaml", "--mechanism", mechanism, "--epsilon", "5000"),
            *("-o", "r.sfumato", "--workload", "w.sql"),
        )
        assert made.returncode == 0, made.stderr
    else:
        release(mechanism)
    rows = asked("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward")
    assert [row["ward"] for row in rows] == ["surgery", "medicine", None]
    (missing,) = asked("SELECT COUNT(*) AS n FROM visits WHERE ward IS NULL")
    assert missing["n"] == pytest.approx(rows[2]["n"], abs=1e-6)
    assert all(abs(row["n"] - 200) < 20 for row in rows if row["n"] is not None)


@pytest.mark.full
def test_a_plan_foresees_it(folder):
    plan = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1")
    assert plan.returncode == 0, plan.stderr
    (folder / "w.sql").write_text("SELECT COUNT(*) FROM visits WHERE age IS NULL; SELECT AVG(age) FROM visits")
    plan = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1", "--workload", "w.sql")
    assert plan.returncode == 0, plan.stderr


def test_of_what_is_not_kept_there_is_none_and_a_note_says_why(folder):
    (folder / "p.yaml").write_text(SCHEMA.replace(", missing: keep", ""))
    release(schema="p.yaml")
    run = sfumato("query", "r.sfumato", "SELECT COUNT(*) FROM visits WHERE age IS NULL", "--format", "csv")
    assert run.returncode == 0 and run.stdout.splitlines()[1] == "0,0,0,0"
    assert "age IS NULL holds for no row: rows without a value were left out" in run.stderr
    (folder / "p.yaml").write_text(SCHEMA.replace("missing: keep", "missing: drop"))
    run = sfumato("plan", "--schema", "p.yaml", "--epsilon", "1")
    assert run.returncode != 0 and "attributes.age.missing is 'drop'; choose keep" in run.stderr


def test_words_for_missing_values_and_units_reach_the_answers(folder):
    """Released at a huge epsilon, so that noise is far below one row; and synthetic rows are read back."""
    rows = [("12 EUR", "surgery"), ("NA", "surgery"), ("€ 14", "-"), ("16", "medicine")] * 50
    (folder / "t.csv").write_text("pay,ward\n" + "".join(f"{pay},{ward}\n" for pay, ward in rows))
    (folder / "s.yaml").write_text(
        "dataset: visits\nprivacy_unit: row\nbudget: {epsilon: 1000000}\nattributes:\n"
        "  ward: {type: category, values: [surgery, medicine], missing: keep}\n"
        "measures:\n  pay: {lower: 0, upper: 20}\nfile: {missing: [NA, '-'], strip: [EUR, €]}\n"
    )
    release()
    found = asked("SELECT ward, COUNT(*) AS n, COUNT(pay) AS paid, AVG(pay) AS pay FROM visits GROUP BY ward")
    got = [(row["ward"], round(row["n"]), round(row["paid"]), round(row["pay"], 1)) for row in found]
    assert got == [("surgery", 100, 50, 12.0), ("medicine", 50, 50, 16.0), (None, 50, 50, 14.0)]
    assert sfumato("sample", "r.sfumato", "--rows", "100", "-o", "rows.csv").returncode == 0
    again = sfumato(
        "release", "rows.csv", "--schema", "s.yaml", "--mechanism", "cells", "--epsilon", "9", "-o", "b.sfumato"
    )
    assert again.returncode == 0, again.stderr
