"""Notes in every format, as a user asks for them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from running import sfumato

SCHEMA = """
dataset: census
privacy_unit: {column: person, contributions: 2}
budget: {epsilon: 3}
attributes:
  sex: {type: category, values: [F, M]}
  income: {type: number, lower: 0, upper: 1000, bins: 5}
"""
CUT = "SELECT sex, COUNT(*) AS n FROM census WHERE income < 250 GROUP BY sex"
COUNTED = (
    "at most 2 rows of each person; no row whose income, person or sex is missing, unreadable or unlisted; "
    "values beyond the bounds as the bound"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release file, and what was printed when it was made."""
    folder = tmp_path_factory.mktemp("released")
    (folder / "s.yaml").write_text(SCHEMA)
    rows = "".join(f"{n},{'FM'[n % 2]},{n * 10 % 1000}\n" for n in range(300))
    (folder / "t.csv").write_text("person,sex,income\n" + rows)
    path = folder / "r.sfumato"
    how = ("--epsilon", "1", "--mechanism", "cells", "--ledger", str(folder / "ledger"), "-o", str(path))
    run = sfumato("release", str(folder / "t.csv"), "--schema", str(folder / "s.yaml"), *how)
    assert run.returncode == 0, run.stderr
    return path, run.stdout


def test_a_release_says_what_it_counts(made):
    assert f"Counted: {COUNTED}." in made[1].splitlines()


def test_the_weightiest_note_stands_under_the_table_and_all_by_option(made):
    (line,) = sfumato("query", str(made[0]), CUT).stderr.splitlines()
    assert line.startswith("note: income < 250 cuts the bin [200, 400): ") and "more by" not in line
    asked = sfumato("query", str(made[0]), CUT, "--notes")
    note, counted = asked.stderr.splitlines()
    assert note.startswith("note: income < 250 cuts the bin [200, 400): ") and counted == f"counted: {COUNTED}"
    assert "note" not in asked.stdout


def test_csv_has_notes_by_option_and_readers_skip_them(made):
    plain = sfumato("query", str(made[0]), CUT, "--format", "csv")
    noted = sfumato("query", str(made[0]), CUT, "--format", "csv", "--notes")
    assert "counted: " in plain.stderr and noted.stderr == ""
    assert noted.stdout.startswith(plain.stdout)
    comments = noted.stdout.removeprefix(plain.stdout).splitlines()
    assert [line[:9] for line in comments] == ["# note: i", "# counted"]
    import pandas as pd

    frame = pd.read_csv(io.StringIO(noted.stdout), comment="#")
    assert list(frame.columns) == ["sex", "n", "n_stderr", "n_low", "n_high"] and len(frame) == 2


def test_json_is_the_list_of_rows_and_json_full_has_the_rest(made):
    plain = json.loads(sfumato("query", str(made[0]), CUT, "--format", "json").stdout)
    whole = sfumato("query", str(made[0]), CUT, "--format", "json-full", "--confidence", "0.9")
    assert whole.stderr == ""
    full = json.loads(whole.stdout)
    assert list(full) == ["rows", "notes", "counted", "guarantee", "confidence"]
    assert [list(row) for row in full["rows"]] == [list(row) for row in plain]
    assert [row["n"] for row in full["rows"]] == [row["n"] for row in plain]
    assert "spread evenly" in full["notes"][0] and full["counted"] == COUNTED and full["confidence"] == 0.9
    assert full["guarantee"]["epsilon"] == "1" and "2.72 times" in full["guarantee"]["statement"]
    nothing = json.loads(sfumato("query", str(made[0]), f"{CUT} LIMIT 0", "--format", "json-full").stdout)
    assert nothing["rows"] == []


def test_an_answer_without_rows_still_has_all_its_columns(made):
    none = sfumato("query", str(made[0]), f"{CUT} LIMIT 0", "--format", "csv").stdout
    assert none == "sex,n,n_stderr,n_low,n_high\n"


def test_a_note_cannot_bring_a_formula_into_a_spreadsheet(tmp_path: Path):
    from sfumato.answers.results import Result

    hostile = Result(("a",), (("x",),), 0.95, ('x, =cmd(), "=cmd2",;@SUM(A1)\n=cmd3',))
    lines = hostile.to_csv(notes=True).splitlines()
    assert len(lines) == 3
    for cell in next(csv.reader([lines[2]])):
        assert not cell.strip().startswith(("=", "@", "+", "-")) and ";@" not in cell


def test_one_line_is_the_weightiest_and_says_how_many_more_there_are(made):
    sql = CUT.replace("GROUP BY sex", "GROUP BY sex ORDER BY n DESC LIMIT 1")
    (line,) = sfumato("query", str(made[0]), sql).stderr.splitlines()
    assert line.startswith("note: the row shown was chosen among 2") and line.endswith("(1 more by --notes)")
    assert sfumato("query", str(made[0]), "SELECT COUNT(*) AS n FROM census").stderr == ""


def test_many_statements_have_their_notes_each_and_what_is_counted_once(made, tmp_path):
    (tmp_path / "q.sql").write_text(f"{CUT}; SELECT COUNT(*) AS all_rows FROM census;")
    short = sfumato("query", str(made[0]), f"@{tmp_path / 'q.sql'}").stderr.splitlines()
    assert [line.partition(":")[0] for line in short] == ["note"]
    asked = sfumato("query", str(made[0]), f"@{tmp_path / 'q.sql'}", "--notes")
    assert [line.partition(":")[0] for line in asked.stderr.splitlines()] == ["note", "counted"]
    first, second = json.loads(sfumato("query", str(made[0]), f"@{tmp_path / 'q.sql'}", "--format", "json-full").stdout)
    assert list(first) == ["sql", "rows", "notes", "counted", "guarantee", "confidence"]
    assert len(first["notes"]) == 1 and second["notes"] == [] and second["counted"] == COUNTED
