"""A release by someone who means harm: no command, in no format, lets its text steer a terminal or a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import sfumato

import sfumato as sf
from sfumato.cli import main
from sfumato.cli.demo import Bar, text_bars
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.public.report.pictures import as_file, columns

LABELS = [
    "plain",
    "\x1b[2J\x1b[Hcleared",
    "\x1b[8mconcealed",
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x07",
    "real\rfake",
    "\u202edesrever\u202c\u2066x",
    "\x9b31mred\x9d0;title\x9c",
    "two\nlines\ttab",
    "=cmd|'/c calc'!A1",
    "@SUM(1)",
    "+1+1",
    "-1",
    "＝1+1",
    "[bold]loud[/bold] [link=http://evil.example]x[/link] :smile:",
    "zero\u200bwidth\ufeff\x00\x7f",
    "東京",
]
NAME = "=x\x9b2J\u202e[bold]"  # a schema refuses names with line breaks, and lets these pass
QUOTED = '"' + NAME + '"'
STYLES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def hostile(tmp_path, monkeypatch) -> sf.Release:
    monkeypatch.chdir(tmp_path)
    schema = sf.Schema.from_dict(
        {
            "dataset": "census",
            "privacy_unit": "row",
            "budget": {"epsilon": 9},
            "attributes": {
                NAME: {"type": "category", "values": LABELS},
                "n": {"type": "integer", "lower": 0, "upper": 1},
            },
        }
    )
    table = pa.table({NAME: LABELS * 20, "n": [0, 1] * (10 * len(LABELS))})
    made = sf.release(table, schema, 9, mechanism="cells")
    made = replace(made, mechanism="cells\x9b2J\u202e[bold]")
    made.save("r.sfumato")
    return made


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same entry as in a pipe, with streams that say they are a terminal; its own styles are taken out."""
    out, err, code = Terminal(), Terminal(), 0
    with patch.object(sys, "argv", ["sfumato", *arguments]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
    said = [STYLES.sub(lambda found: "" if found[0] in ("\x1b[1m", "\x1b[0m", "\x1b[2m") else found[0], each.getvalue())
            for each in (out, err)]  # fmt: skip
    return subprocess.CompletedProcess(["sfumato", *arguments], code, *said)


def steers(text: str) -> list[str]:
    """Characters that a terminal obeys or that cannot be seen; a new line is the program's own."""
    return [hex(ord(one)) for one in text if not one.isprintable() and one != "\n"]


def test_the_search_finds_what_it_looks_for():
    assert all(steers(label) for label in LABELS[1:7]) and steers(NAME)
    assert not steers("plain 東京\n")


WAYS = pytest.mark.parametrize("run", [sfumato, on_a_terminal], ids=["pipe", "terminal"])
SQL = f'SELECT {QUOTED}, COUNT(*) AS {QUOTED[:-1]}2" FROM census GROUP BY {QUOTED}'


@WAYS
def test_a_table(hostile, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    asked = run("query", "r.sfumato", SQL)
    assert asked.returncode == 0 and steers(asked.stdout + asked.stderr) == []
    for shown in ("\\x1b[2J", "\\x1b[8m", "real\\x0dfake", "\\u202edes", "\\x9b31m", "two\\x0alines",
                  "[bold]loud[/bold]", "[link=http://evil.example]x[/link]", ":smile:", "東京",
                  "=x\\x9b2J\\u202e[bold]"):  # fmt: skip
        assert shown in asked.stdout
    lines = [line.rstrip() for line in asked.stdout.splitlines() if " to " in line]
    assert len(lines) == len(LABELS)  # one line a label: a line break in one did not make another
    from sfumato.plain_text import width

    assert len({width(line) for line in lines}) == 1  # what is right-aligned ends at one place


@WAYS
def test_comma_separated_values(hostile, run):
    asked = run("query", "r.sfumato", SQL, "--format", "csv")
    assert asked.returncode == 0 and steers(asked.stdout) == []
    header, *rows = csv.reader(io.StringIO(asked.stdout))
    assert [name[:2] for name in header] == ["'="] * 5
    labels = [row[0] for row in rows]
    assert labels[8:13] == ["'=cmd|'/c calc'!A1", "'@SUM(1)", "'+1+1", "-1", "'＝1+1"] and len(labels) == len(LABELS)
    assert all(re.fullmatch(r"-?[0-9.e+-]+", number) for row in rows for number in row[1:])


@WAYS
def test_json_means_the_same_and_steers_nothing(hostile, run):
    asked = run("query", "r.sfumato", SQL, "--format", "json")
    assert asked.returncode == 0 and steers(asked.stdout) == []
    assert [record[NAME] for record in json.loads(asked.stdout)] == LABELS
    assert "東京" in asked.stdout


@WAYS
@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT COUNT(*) FROM census WHERE {QUOTED} = 'nobody'",
        "SELECT nothing FROM census",
        f"SELECT SUM({QUOTED}) FROM census",
        f"SELECT COUNT(*) FROM {QUOTED}",
        "SELECT SUM('\x1b[2J') FROM census",
        "SELECT \x1b[2J\u202e FROM census",
    ],
)
def test_refusals_quote_names_and_labels_in_one_harmless_line(hostile, run, sql):
    asked = run("query", "r.sfumato", sql)
    assert asked.returncode == 1 and asked.stdout == ""
    assert steers(asked.stderr) == [] and asked.stderr.count("\n") == 1
    with pytest.raises(sf.SfumatoError) as caught:
        hostile.query(sql)
    assert steers(str(caught.value)) == [] and "\n" not in str(caught.value)


@WAYS
def test_what_the_public_sees(hostile, run):
    """Certificate, comparison and report, printed and written."""
    for form in ("text", "json", "jsonld", "registry"):
        asked = run("certificate", "r.sfumato", "--format", form)
        assert asked.returncode == 0 and steers(asked.stdout + asked.stderr) == []
    for form in ("table", "csv", "json"):
        asked = run("compare", "r.sfumato", "r.sfumato", "--by", NAME, "--format", form, "--all")
        assert asked.returncode == 0 and steers(asked.stdout + asked.stderr) == []
        assert form != "csv" or all(row[0][0] not in "=+-@＝" for row in csv.reader(io.StringIO(asked.stdout)))
    made = run("report", "r.sfumato", "-o", "r.html")
    assert made.returncode == 0 and steers(made.stdout + made.stderr) == []
    page = Path("r.html").read_text(encoding="utf-8")
    assert steers(page.replace("\u00a0", " ")) == []  # the page's own: no line begins with a per cent sign


@WAYS
def test_synthetic_rows(hostile, run):
    made = run("sample", "r.sfumato", "--rows", "3000", "-o", "x.csv")
    assert made.returncode == 0 and steers(made.stdout + made.stderr) == []
    text = Path("x.csv").read_bytes().decode()
    assert steers(text) == []
    header, *rows = csv.reader(io.StringIO(text))
    assert header == ["'=x\\x9b2J\\u202e[bold]", "n"] and len(rows) == 3000
    seen = {row[0] for row in rows}
    assert {"'=cmd|'/c calc'!A1", "'@SUM(1)", "'+1+1", "-1", "'＝1+1", "real\\x0dfake", "plain"} <= seen
    assert all(label == "-1" or label.lstrip()[0] not in "=+-@＝" for label in seen)
    assert run("sample", "r.sfumato", "--rows", "3000", "-o", "x.parquet").returncode == 0
    assert set(pq.read_table("x.parquet")[NAME].to_pylist()) <= set(LABELS)  # values as they are


@WAYS
def test_planning_releasing_and_the_ledger(hostile, run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    Path("s.yaml").write_text(json.dumps(hostile.schema.to_dict()))
    Path("w.sql").write_text(f"SELECT COUNT(*) FROM census WHERE {QUOTED} = '{LABELS[1]}'")
    columns = {NAME: LABELS * 3, "n": [0] * (3 * len(LABELS))}
    with Path("t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    for command in (
        ("plan", "--schema", "s.yaml", "--epsilon", "1", "--workload", "w.sql", "--mechanism", "cells"),
        ("plan", "--schema", "s.yaml", "--epsilon", "1", "--mechanism", "cells"),
        ("release", "t.csv", "--schema", "s.yaml", "--epsilon", "0.1", "-o", "[bold]q.sfumato",
         "--mechanism", "laplace", "--workload", "w.sql", "--ledger", "[dim]l.sqlite"),
        ("ledger", "show", "census", "--ledger", "[dim]l.sqlite"),
        ("init", "t.csv"),
        ("init", "t.csv", "-o", "[bold]d.yaml"),
    ):  # fmt: skip
        done = run(*command)
        assert done.returncode == 0, done.stderr
        assert done.stdout and steers(done.stdout) == [], command
        bar = "release" in command and run is on_a_terminal  # it draws itself anew, with no word from the file
        assert ("cleared" not in done.stderr) if bar else steers(done.stderr) == [], command
        if "[bold]q.sfumato" in command:
            assert "[bold]q.sfumato:" in done.stdout and "[dim]l.sqlite" in done.stdout
    import yaml

    assert steers(Path("[bold]d.yaml").read_text()) == []
    assert NAME in yaml.safe_load(Path("[bold]d.yaml").read_text())["attributes"]
    lacking = run("release", "t.csv", "--schema", "w.sql", "--epsilon", "1", "-o", "q.sfumato")
    assert lacking.returncode == 1 and steers(lacking.stderr) == []


@WAYS
def test_names_in_a_ledger(tmp_path, run):
    ledger = Ledger(tmp_path / "l.sqlite")
    ledger.set_budget("a [bold]c", 3)  # the ledger itself refuses what is not printable
    shown = run("ledger", "show", "--ledger", str(ledger.path))
    assert shown.returncode == 0 and "a [bold]c" in shown.stdout and steers(shown.stdout) == []
    assert steers(run("ledger", "show", "\x1b[2J", "--ledger", str(ledger.path)).stderr) == []


def test_in_python(hostile):
    opened = sf.open("r.sfumato")
    answer = opened.query(SQL)
    assert steers(repr(opened)) == [] and "\\x9b2J" in repr(opened)
    assert steers(repr(answer)) == [] and steers(answer._repr_html_()) == [] and steers(answer.to_csv()) == []
    assert len(repr(answer).splitlines()) == 2 + len(LABELS)  # a head and its line
    noted = replace(answer, notes=("note \x1b[2J\n\u202e",))
    assert steers(repr(noted)) == [] and steers(noted._repr_html_()) == []
    assert [row[0] for row in answer.rows] == LABELS  # a program gets the labels as they are
    bars = [Bar(label, 5, 4, 6) for label in LABELS]
    assert steers("".join(text_bars(bars))) == []
    drawn = columns("x", LABELS[0], LABELS, answer.column(answer.columns[1]))
    assert steers(as_file(drawn, LABELS[1], LABELS[5], 500, 190)) == []
    plan = sf.plan(opened.schema, epsilon=1, mechanism="cells")
    assert steers(repr(plan)) == []


def test_a_real_terminal(hostile):
    """Through a pseudo-terminal, as a user sees it; it makes \\r\\n of every new line."""
    pty = pytest.importorskip("pty")
    main_end, end = pty.openpty()
    command = [sys.executable, "-m", "sfumato", "query", "r.sfumato", SQL]
    with subprocess.Popen(
        command, stdout=end, stderr=end, env={**os.environ, "COLUMNS": "300", "TERM": "xterm"}
    ) as run:
        os.close(end)
        said = b""
        try:
            while block := os.read(main_end, 2**16):
                said += block
        except OSError:  # Linux says so when the other end is closed
            pass
    os.close(main_end)
    assert run.returncode == 0 and b"\x1b[" in said  # it did take it for a terminal
    # After the progress that a slow machine shows: the cursor is back, and its line is taken away.
    answer = said.rpartition(b"\x1b[?25h")[2].removeprefix(b"\r\x1b[1A\x1b[2K")
    text = STYLES.sub("", answer.decode().strip("\r").replace("\r\n", "\n").replace("\\x1b", "ESC"))
    assert "ESC[2J" in text and steers(text) == []
