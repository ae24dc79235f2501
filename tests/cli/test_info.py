"""What whoever was handed a file reads first; every example that is printed is run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from running import sfumato

PLAIN = """
dataset: census
privacy_unit: {column: person, contributions: 2}
budget: {epsilon: 3}
attributes:
  age: {type: integer, lower: 0, upper: 99, bins: 10}
  sex: {type: category, values: [F, M]}
measures:
  charge: {lower: 0, upper: 100}
"""
AWKWARD = """
dataset: order
privacy_unit: row
budget: {epsilon: 3}
attributes:
  "group by": {type: category, values: ["O'Hara", "$HOME", "`x`"]}
  select: {type: date, lower: 2024-01-01, upper: 2024-12-31, by: month}
  share: {type: number, lower: 0, upper: 1, width: 0.1}
measures:
  "from": {lower: 0, upper: 1}
"""


def released(folder: Path, schema: str, table: str, *more: str) -> str:
    (folder / "s.yaml").write_text(schema)
    (folder / "t.csv").write_text(table)
    how = ("--epsilon", "1", "-o", str(folder / "my r.sfumato"), *more)
    run = sfumato("release", str(folder / "t.csv"), "--schema", str(folder / "s.yaml"), *how)
    assert run.returncode == 0, run.stderr
    return str(folder / "my r.sfumato")


@pytest.fixture
def plain(tmp_path):
    rows = "".join(f"{n},{n % 100},{'FM'[n % 2]},{n % 100}\n" for n in range(300))
    return released(tmp_path, PLAIN, "person,age,sex,charge\n" + rows, "--mechanism", "cells")


def printed_examples(text: str) -> list[list[str]]:
    lines = [line.removeprefix("Try:").strip() for line in text.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("sfumato query ")]


def test_info_says_what_is_there_what_is_promised_what_was_left_out_and_how_good_it_is(plain):
    run = sfumato("info", plain)
    assert run.returncode == 0 and run.stderr == ""
    lines = run.stdout.splitlines()
    assert lines[0] == "census: 20 cells, mechanism cells, epsilon 1." and "2.72 times higher" in lines[1]
    flat = [" ".join(line.split()) for line in lines]
    assert any(line.startswith("age attribute integer 10 0 to 99 in 10 bins: 0 to 9, 10 to 19, ") for line in flat)
    assert "sex attribute category 2 F, M" in flat
    assert "charge measure number 0 to 100, for SUM and AVG" in flat
    assert "at most 2 rows of each person are counted" in flat
    assert "rows with a missing or unlisted sex are left out" in flat
    for kind in ("all rows", "one value of one attribute", "a pair of values of two attributes"):
        assert any(line.startswith(f"{kind} ± ") for line in flat), kind


def test_every_printed_example_works(plain):
    examples = printed_examples(sfumato("info", plain).stdout)
    assert len(examples) == 5
    for example in examples:
        run = sfumato(*example, "--strict")
        assert run.returncode == 0 and "unknown" not in run.stdout, (example, run.stderr)


def test_examples_work_whatever_columns_and_values_are_called(tmp_path):
    rows = "".join(f"{name},2024-0{1 + n % 9}-01,0.{n % 10},1\n" for n in range(200) for name in ("O'Hara", "$HOME"))
    path = released(tmp_path, AWKWARD, "group by,select,share,from\n" + rows, "--mechanism", "cells")
    examples = printed_examples(sfumato("info", path).stdout)
    assert len(examples) == 5
    for example in examples:
        run = sfumato(*example)
        assert run.returncode == 0, (example, run.stderr)


def test_a_release_of_one_workload_shows_examples_that_it_answers(tmp_path):
    (tmp_path / "w.sql").write_text("SELECT sex, COUNT(*) FROM census GROUP BY sex")
    rows = "".join(f"{n},{n % 100},{'FM'[n % 2]},{n % 100}\n" for n in range(300))
    more = ("--mechanism", "laplace", "--workload", str(tmp_path / "w.sql"))
    counts_alone = PLAIN.partition("measures:")[0]
    path = released(tmp_path, counts_alone, "person,age,sex,charge\n" + rows, *more)
    said = sfumato("info", path).stdout
    examples = printed_examples(said)
    assert "unknown" in said and examples
    for example in examples:
        run = sfumato(*example)
        assert run.returncode == 0 and "unknown" not in run.stdout


def test_info_as_json(plain):
    run = sfumato("info", plain, "--json", "--confidence", "0.9")
    about = json.loads(run.stdout)
    assert about["dataset"] == "census" and about["mechanism"] == "cells" and about["confidence"] == 0.9
    age, sex, charge = about["columns"]
    assert age["labels"][:2] == ["0 to 9", "10 to 19"] and sex["labels"] == ["F", "M"] and charge["role"] == "measure"
    assert about["guarantee"]["epsilon"] == "1" and len(about["counted"]) == 5
    widths = [one["half_width"] for one in about["typical_errors"]]
    assert len(widths) == 3 and all(width > 0 for width in widths)
    assert all(sfumato("query", plain, sql).returncode == 0 for sql in about["examples"])


@pytest.mark.parametrize("sql", ["DESCRIBE", "describe census;", "DESC release", "SHOW COLUMNS FROM census"])
def test_describe_as_a_statement(plain, sql):
    rows = json.loads(sfumato("query", plain, sql, "--format", "json").stdout)
    assert [(row["column"], row["type"], row["cells"]) for row in rows] == [
        ("age", "integer", 10),
        ("sex", "category", 2),
        ("charge", "number", 0),
    ]
    assert "2.72 times" in sfumato("query", plain, sql).stderr


def test_describe_of_another_table_is_refused(plain):
    run = sfumato("query", plain, "DESCRIBE people")
    assert run.returncode == 1 and "no table 'people'" in run.stderr and "DESCRIBE census" in run.stderr


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "x.sfumato").write_text("nothing")
    run = sfumato("info", str(tmp_path / "x.sfumato"))
    assert run.returncode == 1 and len(run.stderr.splitlines()) == 1
