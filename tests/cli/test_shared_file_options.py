"""The options that several commands share."""

import inspect
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from running import sfumato

from sfumato.cli.shared import Given, takes_file_options

OUT, FILE = typer.Option(Path("x")), typer.Option({})


def test_a_command_keeps_its_own_options_and_gets_the_others_together():
    @takes_file_options
    def command(table: str, out: Path = OUT, file: Given = FILE) -> None:
        """What it does."""
        seen.append((table, out, file))

    seen = []
    assert list(inspect.signature(command).parameters)[:2] == ["table", "out"] and command.__doc__ == "What it does."
    assert "file" not in inspect.signature(command).parameters
    app = typer.Typer()
    app.command()(command)
    app(["t.csv", "--delimiter", ";", "--file-format", "csv"], standalone_mode=False)
    table, out, file = seen[0]
    assert (table, out, file["delimiter"], file["format"], file["quote"]) == ("t.csv", Path("x"), ";", "csv", None)


@pytest.mark.parametrize("command", ["release", "check", "init"])
def test_every_command_that_reads_a_file_has_them(command):
    shown = sfumato(command, "--help").stdout
    for option in (
        "--delimiter",
        "--decimal",
        "--thousands",
        "--encoding",
        "--quote",
        "--columns",
        "--dates",
        "--sheet",
    ):
        assert option in shown


SCHEMA = """
dataset: staff
privacy_unit: row
budget: {epsilon: 1000000}
attributes:
  pay: {type: number, lower: 0, upper: 4000, cuts: [1000.5, 2000]}
"""
PAY = ["1.234,5", "999,5", "1000,75", "2.000"]
COUNTS = "SELECT pay, COUNT(*) AS n FROM staff GROUP BY pay"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The same pay in text with commas, in JSON and in Excel; there, half of it as numbers of their own."""
    monkeypatch.chdir(tmp_path)
    Path("staff.yaml").write_text(SCHEMA)
    Path("staff.csv").write_text("pay\n" + "".join(f'"{pay}"\n' for pay in [*PAY, "1500,25", "2500"]))
    lines = [{"pay": pay} for pay in [*PAY, 1500.25, 2500]]
    Path("staff.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    pq.write_table(pa.table({"pay": [1234.5, 999.5, 1000.75, 2000, 1500.25, 2500]}), "staff.parquet")
    return tmp_path


def with_excel():
    book = pytest.importorskip("openpyxl").Workbook()
    for value in ["pay", *PAY, 1500.25, 2500]:
        book.active.append([value])
    book.save("staff.xlsx")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "xlsx"])
def test_decimal_commas_are_read_wherever_numbers_are_text(folder, ending):
    if ending == "xlsx":
        with_excel()
    words = ["--epsilon", "1000", "--mechanism", "cells", "-o", "s.sfumato", "--decimal", ",", "--thousands", "."]
    run = sfumato("release", f"staff.{ending}", "--schema", "staff.yaml", *words)
    assert run.returncode == 0, run.stderr
    rows = json.loads(sfumato("query", "s.sfumato", COUNTS, "--format", "json").stdout)
    assert [round(row["n"]) for row in rows] == [1, 3, 2]


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        ("staff.parquet", ["--delimiter", ";"], "--delimiter says nothing about a Parquet file; leave it out"),
        ("staff.parquet", ["--decimal", ","], "--decimal says nothing about a Parquet file"),
        ("staff.parquet", ["--dates", "%d.%m.%Y"], "--dates says nothing about a Parquet file"),
        ("staff.parquet", ["--columns", "pay"], "--columns says nothing about a Parquet file"),
        ("staff.csv", ["--sheet", "2024"], "--sheet says nothing about CSV; leave it out (it is for Excel)"),
        ("staff.jsonl", ["--quote", "none"], "--quote says nothing about JSON lines; leave it out (it is for CSV)"),
        ("staff.xlsx", ["--encoding", "cp1252"], "--encoding says nothing about Excel"),
        ("staff.feather", ["--thousands", ","], "--thousands says nothing about an Arrow file"),
        ("duckdb:///staff.duckdb", ["--delimiter", ";"], "--delimiter says nothing about a database"),
        ("duckdb:///staff.duckdb", ["--file-format", "csv"], "--file-format says nothing about a database"),
        ("-", ["--sheet", "a"], "--sheet says nothing about CSV"),
        ("staff", ["--file-format", "parquet", "--quote", "none"], "--quote says nothing about a Parquet file"),
    ],
)
def test_an_option_that_says_nothing_of_a_file_is_refused(folder, table, options, said):
    for command in (
        ["release", table, "--schema", "staff.yaml", "--epsilon", "1", "-o", "s.sfumato"],
        ["check", table, "--schema", "staff.yaml", "--even-if-not-a-terminal"],
        ["init", table],
    ):
        run = sfumato(*command, *options)
        assert run.returncode == 1 and said in run.stderr and run.stderr.count("\n") == 1, (command, run.stderr)


def test_a_schema_may_say_more_than_concerns_the_file(folder):
    Path("staff.yaml").write_text(SCHEMA + 'file: {delimiter: ";", decimal: ",", sheet: "2024"}\n')
    words = ["--epsilon", "1000", "--mechanism", "cells", "-o", "s.sfumato"]
    assert sfumato("release", "staff.parquet", "--schema", "staff.yaml", *words).returncode == 0
