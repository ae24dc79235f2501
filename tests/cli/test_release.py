"""Tables as they come, from the user's side: a command in, a file that answers out."""

import gzip
import io
import json
import sys
from types import SimpleNamespace

import pytest
from running import sfumato

SCHEMA = """
dataset: visits
privacy_unit: row
budget: {epsilon: 1000}
attributes:
  age: {type: integer, lower: 0, upper: 9}
  sex: {type: category, values: [F, M]}
measures:
  charge: {lower: 0, upper: 5000}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger.db"))
    (tmp_path / "s.yaml").write_text(SCHEMA)
    return tmp_path


def released(table: str, *options: str) -> list[dict[str, float]]:
    run = sfumato(
        "release",
        table,
        "--schema",
        "s.yaml",
        "--epsilon",
        "50",
        "--mechanism",
        "cells",
        "-o",
        "r.sfumato",
        "--again",
        *options,
    )
    assert run.returncode == 0, run.stderr
    query = "SELECT COUNT(*) AS n, AVG(charge) AS mean FROM visits WHERE age = 3"
    return json.loads(sfumato("query", "r.sfumato", query, "--format", "json").stdout)


def is_right(found: list[dict[str, float]]) -> bool:
    return abs(found[0]["n"] - 20) < 2 and abs(found[0]["mean"] - 1234.5) < 60


CSV = "age;sex;charge\n" + "".join(f"{n % 10};{'FM'[n // 10 % 2]};1.234,50\n" for n in range(200))
GERMAN = ("--delimiter", ";", "--decimal", ",", "--thousands", ".")


def test_a_file_of_another_country_by_options_or_by_the_schema(folder):
    (folder / "t.csv").write_text(CSV, encoding="utf-16")
    assert is_right(released("t.csv", *GERMAN, "--encoding", "utf-16"))
    stated = "file: {delimiter: ';', decimal: ',', thousands: '.', encoding: latin-1}\n"
    (folder / "s.yaml").write_text(SCHEMA + stated)
    assert is_right(released("t.csv", "--encoding", "utf-16"))  # an option comes before the schema
    assert json.loads(_manifest(folder))["schema"]["file"]["decimal"] == ","  # for rows that are drawn from it


def _manifest(folder) -> bytes:
    import zipfile

    with zipfile.ZipFile(folder / "r.sfumato") as file:
        return file.read("manifest.json")


def test_the_hint_of_a_header_can_be_pasted(folder):
    (folder / "t.csv").write_text(CSV)
    run = sfumato("release", "t.csv", "--schema", "s.yaml", "--epsilon", "1", "-o", "r.sfumato")
    assert run.returncode == 1
    assert "the header of t.csv has no commas but 2 semicolons: add --delimiter ';'" in run.stderr
    assert not (folder / "ledger.db").exists()  # told before anything is reserved


def test_json_lines_and_a_line_that_is_none(folder):
    lines = [json.dumps({"age": n % 10, "sex": "FM"[n // 10 % 2], "charge": 1234.5}) for n in range(200)]
    (folder / "t.jsonl.gz").write_bytes(gzip.compress("\n".join([*lines, "{oops"]).encode()))
    assert is_right(released("t.jsonl.gz"))


def test_a_table_from_a_pipe(folder, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(CSV.encode()), isatty=lambda: False))
    assert is_right(released("-", *GERMAN))
    rows = CSV.split("\n", 1)[1].encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(rows), isatty=lambda: False))
    assert is_right(released("-", *GERMAN, "--columns", "age,sex,charge"))
    lines = "\n".join(json.dumps({"age": n % 10, "sex": "F", "charge": 1234.5}) for n in range(200)).encode()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(lines), isatty=lambda: False))
    assert is_right(released("-", "--file-format", "jsonl"))


def test_a_file_whose_name_says_nothing(folder):
    (folder / "export.txt").write_text(CSV)
    run = sfumato("release", "export.txt", "--schema", "s.yaml", "--epsilon", "1", "-o", "r.sfumato")
    assert run.returncode == 1 and "--file-format" in run.stderr
    assert is_right(released("export.txt", *GERMAN, "--file-format", "csv"))
    run = sfumato("release", "export.txt", "--schema", "s.yaml", "--epsilon", "1", "-o", "r.sfumato", "--quote", "ab")
    assert run.returncode == 1 and run.stderr.startswith("sfumato: --quote is 'ab'")
