"""The command line as a user meets it: every command, and every mistake we could think of."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import as_process, sfumato

SCHEMA = """
dataset: census
privacy_unit: {column: person_id, contributions: 1}
budget: {epsilon: 3}
attributes:
  age: {type: integer, lower: 0, upper: 99}
  sex: {type: category, values: [F, M]}
  income: {type: number, lower: 0, upper: 1000, bins: 5}
measures:
  charge: {lower: 0, upper: 100}
"""
CSV = "person_id,age,sex,income,charge\n" + "".join(
    f"{n},{n % 100},{'FM'[n % 2]},{n * 10 % 1000},{n % 100}\n" for n in range(300)
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SCHEMA)
    (tmp_path / "t.csv").write_text(CSV)
    return tmp_path


def release(*more: str, table: str = "t.csv", schema: str = "s.yaml", out: str = "r.sfumato", epsilon: str = "1"):
    """By the plainest mechanism, which needs no time to be chosen, unless another is named."""
    plainest = () if "--mechanism" in more else ("--mechanism", "cells")
    return sfumato("release", table, "--schema", schema, "--epsilon", epsilon, "-o", out, *plainest, *more)


def refused(run: subprocess.CompletedProcess[str], *words: str) -> None:
    """One clear line on stderr, exit code 1, no traceback, nothing on stdout."""
    assert run.returncode == 1, run.stderr
    lines = run.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("sfumato: "), run.stderr
    assert run.stdout == ""
    for word in words:
        assert word in lines[0], lines[0]
    assert "internal error" not in lines[0]


def test_release_and_query_as_the_design_says(folder):
    made = release()
    assert made.returncode == 0, made.stderr
    assert "2.72 times" in made.stdout and "2 left" in made.stdout
    sql = "SELECT sex, COUNT(*) AS n FROM census WHERE age BETWEEN 20 AND 40 GROUP BY sex"
    asked = sfumato("query", "r.sfumato", sql, "--format", "json")
    assert asked.returncode == 0
    rows = json.loads(asked.stdout)
    assert [row["sex"] for row in rows] == ["F", "M"]
    for row in rows:
        assert list(row) == ["sex", "n", "n_stderr", "n_low", "n_high"]
        assert row["n_low"] < row["n"] < row["n_high"]
    table = sfumato("query", "r.sfumato", sql)
    assert "95 % interval" in table.stdout and "std. error" in table.stdout
    csv = sfumato("query", "r.sfumato", sql, "--format", "csv")
    assert csv.stdout.splitlines()[0] == "sex,n,n_stderr,n_low,n_high"
    narrow, wide = (
        json.loads(sfumato("query", "r.sfumato", sql, "--format", "json", "--confidence", level).stdout)[0]
        for level in ("0.5", "0.999")
    )
    assert narrow["n_high"] - narrow["n_low"] < wide["n_high"] - wide["n_low"]


def test_a_cut_bin_is_answered_with_a_note_and_refused_when_strict(folder):
    assert release().returncode == 0
    cut = "SELECT COUNT(*) AS n FROM census WHERE income < 250"
    asked = sfumato("query", "r.sfumato", cut)
    assert asked.returncode == 0 and "note:" in asked.stderr and "spread evenly" in asked.stderr
    refused(sfumato("query", "r.sfumato", cut, "--strict"), "income")
    assert sfumato("query", "r.sfumato", cut.replace("250", "400"), "--strict").returncode == 0


def test_sample_writes_rows_of_the_schema(folder):
    assert release().returncode == 0
    assert sfumato("sample", "r.sfumato", "--rows", "200", "-o", "x.parquet").returncode == 0
    rows = pq.read_table("x.parquet")
    assert rows.num_rows == 200 and rows.column_names == ["person_id", "age", "sex", "income", "charge"]
    ages, incomes = rows["age"].to_pylist(), rows["income"].to_pylist()
    assert min(ages) >= 0 and max(ages) <= 99 and min(incomes) >= 0 and max(incomes) <= 1000
    assert set(rows["sex"].to_pylist()) <= {"F", "M"}
    assert sfumato("sample", "r.sfumato", "--rows", "7", "-o", "x.csv").returncode == 0
    assert len(Path("x.csv").read_text().splitlines()) == 8
    refused(sfumato("sample", "r.sfumato", "--rows", "7", "-o", "x.xlsx"), ".csv or .parquet")
    refused(sfumato("sample", "r.sfumato", "--rows", "0", "-o", "x.csv"), "whole number")


def test_ledger_shows_and_sets(folder):
    assert "Nothing has been spent" in sfumato("ledger", "show").stdout
    assert release().returncode == 0
    shown = sfumato("ledger", "show", "census").stdout
    assert "census" in shown and "published" in shown
    assert "epsilon 1 of 5 spent, 4 left" in sfumato("ledger", "set", "census", "--epsilon", "5").stdout
    refused(sfumato("ledger", "show", "nobody"), "nobody")
    refused(sfumato("ledger", "set", "census", "--epsilon", "many"), "epsilon")


@pytest.mark.parametrize(
    "arguments",
    [
        ("release", "t.csv", "--schema", "s.yaml", "--epsilon", "0", "-o", "r.sfumato"),
        ("ledger", "show"),
        ("plan", "--schema", "s.yaml", "--epsilon", "1", "--mechanism", "cells"),
        ("query",),
    ],
)
def test_a_process_of_its_own_says_the_same(folder, arguments):
    """A mistake, a table, a plan, and a usage error: these tests need not start a process for each command."""
    one, other = sfumato(*arguments), as_process(*arguments)
    for said in (one, other):  # usage names the program by how it was called
        said.stderr = said.stderr.replace("python -m pytest.sfumato", "sfumato").replace("python -m sfumato", "sfumato")
    assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)


@pytest.mark.full
def test_plan_in_both_directions(folder):
    Path("s.yaml").write_text(SCHEMA.replace("upper: 99}", "upper: 9}"))
    there = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1")
    assert there.returncode == 0 and "rows with one value of age" in there.stdout and "auto would take" in there.stdout
    each = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1", "--all")
    assert each.returncode == 0 and "GROUP BY age" in each.stdout and "theorem 5.2" in each.stdout
    back = sfumato("plan", "--schema", "s.yaml", "--error", "50", "--confidence", "0.95")
    assert back.returncode == 0 and "smallest epsilon" in back.stdout
    Path("w.sql").write_text("SELECT sex, COUNT(*) FROM census GROUP BY sex; SELECT AVG(charge) FROM census;")
    work = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1", "--workload", "w.sql")
    assert work.returncode == 0 and "AVG(charge)" in work.stdout
    assert sfumato("ledger", "show").stdout.startswith("Nothing has been spent")
    refused(sfumato("plan", "--schema", "s.yaml"), "--epsilon")
    refused(sfumato("plan", "--schema", "s.yaml", "--error", "-3"), "--error")
    refused(sfumato("plan", "--schema", "s.yaml", "--epsilon", "1", "--confidence", "1.5"), "--confidence")
    Path("w.sql").write_text("  -- nothing\n")
    refused(sfumato("plan", "--schema", "s.yaml", "--epsilon", "1", "--workload", "w.sql"), "no query")
    Path("w.sql").write_text("SELECT COUNT(*) FROM census WHERE height > 3")
    refused(sfumato("plan", "--schema", "s.yaml", "--epsilon", "1", "--workload", "w.sql"), "height")


def test_init_drafts_names_and_types_and_no_values(folder):
    drafted = sfumato("init", "t.csv")
    assert drafted.returncode == 0
    assert "age:" in drafted.stdout and "dataset: t" in drafted.stdout
    Path("draft.yaml").write_text(drafted.stdout)
    refused(release(schema="draft.yaml"), "blank")
    pq.write_table(pa.table({"visit day": pa.array([19000], pa.date32()), "secret": ["canary"]}), "v.parquet")
    drafted = sfumato("init", "v.parquet")
    assert "type: date" in drafted.stdout and "canary" not in drafted.stdout and "2022" not in drafted.stdout
    assert sfumato("init", "t.csv", "-o", "new.yaml").returncode == 0
    Path("new.yaml").write_text("precious")
    assert "kept as new.yaml.~1~" in sfumato("init", "t.csv", "-o", "new.yaml").stdout
    assert Path("new.yaml.~1~").read_text() == "precious"
    refused(sfumato("init", "nothing.csv"), "nothing.csv")


def test_demo_runs_and_says_where_its_files_are(folder):
    run = sfumato("demo", "--folder", "demo")
    assert run.returncode == 0, run.stderr
    for name in ("census.parquet", "census.yaml", "census.sfumato", "ledger.sqlite", "ages.svg"):
        assert f"demo/{name}" in run.stdout and (folder / "demo" / name).is_file()
    assert "95 % interval" in run.stdout and "inside" in run.stdout
    assert sfumato("demo", "--folder", "demo").returncode == 0  # again, with a fresh budget


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan", "inf", "lots", "1e999999999", ""])
def test_an_epsilon_that_is_no_budget(folder, epsilon):
    refused(sfumato("release", "t.csv", "--schema", "s.yaml", f"--epsilon={epsilon}", "-o", "r.sfumato"), "epsilon")
    assert not Path("r.sfumato").exists() and sfumato("ledger", "show").stdout.startswith("Nothing has been spent")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (SCHEMA.replace("lower: 0, upper: 99", "lower: 99, upper: 0"), ["age", "lower"]),
        (SCHEMA.replace("sex: {type", "age: {type"), ["age"]),
        (SCHEMA.replace("privacy_unit: {column: person_id, contributions: 1}", ""), ["privacy_unit"]),
        (SCHEMA.replace("age: {type: integer", "height: {type: integer"), ["height", "age"]),
        (SCHEMA.replace("lower: 0, upper: 100}", "lower: .nan, upper: 100}"), ["charge"]),
        (SCHEMA.replace("epsilon: 3", "epsilon: -3"), ["epsilon"]),
        (SCHEMA.replace("budget: {epsilon: 3}", ""), ["budget", "ledger set"]),
        ("dataset: [", ["YAML"]),
    ],
)
def test_a_schema_with_a_mistake(folder, schema, words):
    Path("s.yaml").write_text(schema)
    refused(release(), *words)
    assert not Path("r.sfumato").exists()


def test_tables_that_cannot_be_read(folder):
    refused(release(table="missing.csv"), "missing.csv")
    refused(release(table="*.parquet"), "*.parquet")
    refused(release(table="s.yaml"), ".csv")
    Path("empty.csv").write_text("")
    refused(release(table="empty.csv"), "header")
    Path("broken.parquet").write_bytes(b"PAR1 and nothing else")
    refused(release(table="broken.parquet"), "broken.parquet")
    columns = {"person_id": [1], "age": ["41"], "sex": ["F"], "income": [1.0], "charge": [1.0]}
    pq.write_table(pa.table(columns), "text.parquet")
    refused(release(table="text.parquet"), "age", "text")
    assert sfumato("ledger", "show").stdout.startswith("Nothing has been spent")


def test_odd_rows_are_no_errors_because_an_error_would_tell(folder):
    header = CSV.splitlines()[0]
    Path("none.csv").write_text(header + "\n")  # an empty table
    Path("odd.csv").write_text(header + "\n1,,F,1,1\n2,NaN,M,inf,-inf\n3,old,X,1e999,nan\n,4,F,5,6\n5,-7,M\n")
    assert sfumato("ledger", "set", "census", "--epsilon", "3").returncode == 0
    for table in ("none.csv", "odd.csv"):
        made = release(table=table, out=f"{table}.sfumato")
        assert made.returncode == 0 and made.stderr == "", made.stderr


def test_a_budget_that_is_spent(folder):
    assert release(epsilon="3").returncode == 0
    refused(release(epsilon="0.1", out="again.sfumato"), "0.1", "left")
    assert not Path("again.sfumato").exists()


def test_ledgers_that_cannot_be_used(folder):
    Path("ledger.txt").write_text("this is not a database, " * 50)
    refused(release("--ledger", "ledger.txt"), "ledger.txt")
    refused(release("--ledger", "."), "ledger")
    assert release("--ledger", "good.sqlite").returncode == 0
    data = Path("good.sqlite").read_bytes()
    Path("cut.sqlite").write_bytes(data[: len(data) // 2])
    refused(release("--ledger", "cut.sqlite"), "cut.sqlite")
    assert not any(name.name.startswith((".", "tmp")) for name in folder.iterdir())


def test_release_files_that_cannot_be_trusted(folder):
    assert release().returncode == 0
    data = Path("r.sfumato").read_bytes()
    sql = "SELECT COUNT(*) FROM census"
    Path("cut.sfumato").write_bytes(data[: len(data) // 2])
    refused(sfumato("query", "cut.sfumato", sql), "cut.sfumato")
    flipped = bytearray(data)
    flipped[data.index(b'"epsilon"') + 13] ^= 1
    Path("changed.sfumato").write_bytes(flipped)
    refused(sfumato("query", "changed.sfumato", sql), "changed.sfumato")
    refused(sfumato("query", "nowhere.sfumato", sql), "nowhere.sfumato")
    refused(sfumato("query", "t.csv", sql), "t.csv")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT STRING_AGG(sex, ',') FROM census", ["STRING_AGG"]),
        ("SELECT COUNT(*) FROM people", ["people", "census"]),
        ("SELECT COUNT(*) FROM census WHERE hight > 3", ["hight"]),
        ("SELECT COUNT(*) FROM census WHERE sex = 'X'", ["'X'"]),
        ("SELECT COUNT(*) FROM census JOIN b ON 1 = 1", ["JOIN"]),
        ("DROP TABLE census", ["DROP"]),
        ("SELEC COUNT(*)", []),
        ("", []),
    ],
)
def test_sql_that_cannot_be_answered(folder, sql, words):
    if not Path("r.sfumato").exists():
        assert release().returncode == 0
    refused(sfumato("query", "r.sfumato", sql), *words)


def test_a_confidence_that_is_none(folder):
    assert release().returncode == 0
    for level in ("0", "1", "95", "nan"):
        refused(sfumato("query", "r.sfumato", "SELECT COUNT(*) FROM census", "--confidence", level), "confidence")


def test_usage_errors_have_code_2(folder):
    assert sfumato("release", "t.csv").returncode == 2
    assert sfumato("paint").returncode == 2


def test_delta_is_not_needed_and_said_so(folder):
    made = release("--delta", "1e-9", "--mechanism", "cells")
    assert made.returncode == 0 and "No delta was needed. The guarantee is pure epsilon." in made.stdout
    refused(release("--delta", "2"), "delta")
    assert "delta in all" not in sfumato("ledger", "show").stdout


def test_epsilon_and_delta_by_a_gaussian_mechanism(folder):
    Path("s.yaml").write_text(SCHEMA.replace("upper: 100}", "upper: 100, step: 0.1}"))
    made = release("--delta", "1e-6", "--mechanism", "hierarchical")
    assert made.returncode == 0, made.stderr
    assert "mechanism hierarchical" in made.stdout and "give or take a chance of 0.000001" in made.stdout
    assert "Guarantee: epsilon 1, delta 0.000001, from rho 0.0243" in made.stdout
    assert "epsilon 1 at delta 0.000001 of 3 spent, left for the next release: epsilon 2 without a delta" in made.stdout
    shown = sfumato("ledger", "show", "census").stdout
    assert "at delta" in shown and "not stated" in shown and "added up as epsilons or in rho" in shown
    assert sfumato("query", "r.sfumato", "SELECT COUNT(*) FROM census").returncode == 0


def test_a_total_delta_is_set_and_shown(folder):
    said = sfumato("ledger", "set", "census", "--epsilon", "2", "--delta", "1e-6").stdout
    assert "epsilon 0 of 2 and delta 0.000001 spent, left for the next release" in said
    assert "epsilon 2 without a delta, 2 with 0.000001" in said
    shown = sfumato("ledger", "show").stdout
    assert "delta in all" in shown and "0.000001" in shown


def test_heavy_libraries_are_not_loaded_to_print_help(folder):
    code = textwrap.dedent(
        """
        import sys
        from sfumato.cli import main
        sys.argv = ["sfumato", "--help"]
        try:
            main()
        except SystemExit:
            print(sorted(sys.modules))
        """
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    loaded = run.stdout.splitlines()[-1]
    for heavy in ("numpy", "duckdb", "sqlglot", "pyarrow", "pydantic", "scipy", "pandas"):
        assert f"'{heavy}'" not in loaded


def test_a_query_beyond_a_plain_select(folder):
    assert release().returncode == 0
    sql = "SELECT FLOOR(age / 10) AS decade, COUNT(*) AS n FROM census GROUP BY decade HAVING n > -1e6 ORDER BY decade"
    asked = sfumato("query", "r.sfumato", sql)
    assert asked.returncode == 0, asked.stderr
    assert "decade" in asked.stdout and "note: HAVING goes by the published values" in asked.stderr
    refused(sfumato("query", "r.sfumato", "SELECT MD5(sex), COUNT(*) FROM census GROUP BY 1"), "the function MD5")
