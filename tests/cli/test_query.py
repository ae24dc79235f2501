"""sfumato query as an analyst uses it: from stdin, from a file of many, into a file."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from running import as_process, sfumato
from small_release import refused, release, write_small_table

COUNT = "SELECT COUNT(*) AS n FROM census"
BY_SEX = "SELECT sex, COUNT(*) AS n FROM census GROUP BY sex"
MANY = f"-- all; of them\n{COUNT};\n\n{BY_SEX} ORDER BY sex;\n;"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SFUMATO_LEDGER", str(folder / "ledger.sqlite"))
        write_small_table()
        assert release().returncode == 0
    return folder / "r.sfumato"


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copy(made, "r.sfumato")
    Path("q.sql").write_text(MANY)
    return tmp_path


def test_a_statement_from_stdin(folder, monkeypatch):
    plain = sfumato("query", "r.sfumato", BY_SEX, "--format", "json")
    monkeypatch.setattr(sys, "stdin", io.StringIO(BY_SEX + "\n"))
    assert sfumato("query", "r.sfumato", "-", "--format", "json").stdout == plain.stdout
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    refused(sfumato("query", "r.sfumato", "-"), "empty")


def test_many_statements_each_with_its_answer(folder, monkeypatch):
    said = sfumato("query", "r.sfumato", "@q.sql").stdout
    first, second = said.split("\n\n")
    assert first.startswith(f"-- all; of them {COUNT}\n") and "95 % interval" in first
    assert second.startswith(f"{BY_SEX} ORDER BY sex\n") and "\nF " in second
    answers = json.loads(sfumato("query", "r.sfumato", "@q.sql", "--format", "json").stdout)
    assert [answer["sql"].split("\n")[-1] for answer in answers] == [COUNT, f"{BY_SEX} ORDER BY sex"]
    assert [row["sex"] for row in answers[1]["rows"]] == ["F", "M"]
    alone = json.loads(sfumato("query", "r.sfumato", COUNT, "--format", "json").stdout)
    assert answers[0]["rows"] == alone
    lines = sfumato("query", "r.sfumato", "@q.sql", "--format", "csv").stdout.splitlines()
    assert lines[1] == "n,n_stderr,n_low,n_high" and lines[3:6] == [
        "",
        f"# {BY_SEX} ORDER BY sex",
        "sex,n,n_stderr,n_low,n_high",
    ]
    monkeypatch.setattr(sys, "stdin", io.StringIO(MANY))
    assert json.loads(sfumato("query", "r.sfumato", "@-", "--format", "json").stdout) == answers


def test_a_file_of_one_statement_is_still_a_list_of_answers(folder):
    Path("one.sql").write_text(COUNT)
    (answer,) = json.loads(sfumato("query", "r.sfumato", "@one.sql", "--format", "json").stdout)
    assert list(answer) == ["sql", "rows"] and len(answer["rows"]) == 1


def test_a_statement_that_is_refused_is_named_and_nothing_is_printed(folder):
    Path("q.sql").write_text(f"{COUNT}; SELECT COUNT(*) FROM census WHERE hight > 3")
    refused(sfumato("query", "r.sfumato", "@q.sql"), "q.sql, statement 2 of 2", "hight")
    Path("q.sql").write_text("-- nothing\n;")
    refused(sfumato("query", "r.sfumato", "@q.sql"), "q.sql holds no query")
    refused(sfumato("query", "r.sfumato", "@missing.sql"), "missing.sql cannot be read")


def test_the_answer_in_a_file_whose_name_says_the_form(folder):
    for name, begins in (("a.csv", "sex,n,"), ("a.json", '[{"sex"'), ("a.txt", "sex ")):
        run = sfumato("query", "r.sfumato", BY_SEX, "-o", name)
        assert run.returncode == 0 and run.stdout == f"{name}: the answer.\n"
        assert Path(name).read_text().startswith(begins), name
    assert sfumato("query", "r.sfumato", BY_SEX, "-o", "b.txt", "--format", "csv").returncode == 0
    assert Path("b.txt").read_text() == Path("a.csv").read_text()
    run = sfumato("query", "r.sfumato", "@q.sql", "-o", "many.json")
    assert "answers to 2 statements" in run.stdout and len(json.loads(Path("many.json").read_text())) == 2


def test_an_earlier_file_is_kept_as_by_release_and_sample(folder):
    Path("a.csv").write_text("precious")
    run = sfumato("query", "r.sfumato", COUNT, "-o", "a.csv")
    assert "An earlier file of that name was kept as a.csv.~1~." in run.stdout
    assert Path("a.csv.~1~").read_text() == "precious"
    refused(sfumato("query", "r.sfumato", COUNT, "-o", "."), "folder")
    refused(sfumato("query", "r.sfumato", COUNT, "-o", "no/such/a.csv"), "cannot be written")
    assert sorted(path.name for path in folder.iterdir()) == ["a.csv", "a.csv.~1~", "q.sql", "r.sfumato"]


def test_quiet_leaves_the_answer_alone(folder):
    loud, quiet = (sfumato("query", "r.sfumato", COUNT, *more) for more in ((), ("-q",)))
    assert (quiet.stdout, quiet.stderr) == (loud.stdout, "")
    assert sfumato("query", "r.sfumato", COUNT, "-o", "a.csv", "--quiet").stdout == ""


def test_a_pipe_is_written_to_as_it_is(folder):
    run = as_process("query", "r.sfumato", COUNT, "--format", "csv", "-q", "-o", "/dev/stdout")
    assert run.stdout.startswith("n,n_stderr,n_low,n_high\n") and Path("/dev/stdout").exists()


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ('SELECT COUNT(*) FROM census WHERE sex = "F"', "(a text stands in single quotes: 'F')"),
        ("SELECT COUNT(*) FROM census WHERE se = 'F'", "(did you mean sex?)"),
    ],
)
def test_a_name_that_is_none_comes_with_what_may_be_meant(folder, sql, hint):
    refused(sfumato("query", "r.sfumato", sql), "no column", hint)


def test_the_name_of_the_table_s_column_is_known_too(folder):
    Path("t.csv").write_text("Station\nA\nB\n")
    Path("t.yaml").write_text(
        "dataset: t\nprivacy_unit: row\nbudget: {epsilon: 9}\nattributes:\n"
        "  ward: {type: category, values: [A, B], column: Station}\n"
    )
    assert sfumato("release", "t.csv", "--schema", "t.yaml", "--epsilon", "1", "-o", "t.sfumato").returncode == 0
    said = sfumato("query", "t.sfumato", "SELECT Station, COUNT(*) FROM t GROUP BY Station").stderr
    assert "(the table's Station is called ward here)" in said
