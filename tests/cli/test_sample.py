from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyarrow.parquet
import pytest
from curators import curator_of
from running import sfumato

from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release


@pytest.fixture
def path(census, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return released(census, np.arange(200), tmp_path / "census.sfumato")


def released(census, counts, path):
    curator = curator_of(census, counts, sums={"income": np.zeros(200)}, epsilon=4)
    content = MECHANISMS["cells"].run(curator, census, Budget.pure(4), None)
    return str(Release(content, "cells", describe_guarantee(Budget.pure(4), census), True).save(path))


def test_rows_are_drawn_and_compared_with_the_release(path, tmp_path):
    run = sfumato("sample", path, "--rows", "70000", "-o", "rows.parquet")
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0].startswith("rows.parquet: 70,000 synthetic rows") and "chance" in lines[2]
    assert lines[-2].startswith("one attribute") and lines[-1].startswith("two attributes") and " %" in lines[-1]
    assert pyarrow.parquet.read_table(tmp_path / "rows.parquet").num_rows == 70_000


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_same_seed_writes_the_same_bytes(path, tmp_path, ending):
    for name in ("one", "two"):
        assert sfumato("sample", path, "--rows", "70000", "--seed", "5", "-o", f"{name}.{ending}").returncode == 0
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


def test_a_file_that_is_there_is_kept(path, tmp_path):
    (tmp_path / "rows.csv").write_text("precious")
    run = sfumato("sample", path, "--rows", "10", "-o", "rows.csv")
    assert run.returncode == 0 and "kept as rows.csv.~1~" in run.stdout
    assert (tmp_path / "rows.csv.~1~").read_text() == "precious"


@pytest.mark.parametrize(
    ("rows", "out", "reason"),
    [
        ("0", "rows.csv", "from 1 to"),
        ("-5", "rows.csv", "from 1 to"),
        ("10", "rows.txt", ".csv or .parquet"),
        ("10", "no/rows.csv", "does not exist"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(path, tmp_path, rows, out, reason):
    run = sfumato("sample", path, "--rows", rows, "-o", out)
    assert run.returncode == 1 and run.stderr.count("\n") == 1 and reason in run.stderr and run.stdout == ""
    assert [found.name for found in tmp_path.iterdir()] == ["census.sfumato"]


def test_a_release_of_nothing_has_nothing_to_draw(census, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = released(census, np.zeros(200) - 3, tmp_path / "census.sfumato")
    run = sfumato("sample", path, "--rows", "5", "-o", "rows.csv")
    assert run.returncode == 1 and "nothing to draw" in run.stderr and run.stderr.count("\n") == 1
    assert [found.name for found in tmp_path.iterdir()] == ["census.sfumato"]


def test_without_a_number_there_are_as_many_rows_as_the_release_counts(path, tmp_path):
    run = sfumato("sample", path, "-o", "rows.parquet", "--seed", "1")
    total = json.loads(sfumato("query", path, "SELECT COUNT(*) AS n FROM census", "--format", "json").stdout)[0]["n"]
    assert run.returncode == 0 and pyarrow.parquet.read_table(tmp_path / "rows.parquet").num_rows == round(total)


def test_rows_under_a_condition_and_by_group(path, tmp_path):
    run = sfumato("sample", path, "--where", "age < 30 AND sex = 'F'", "-n", "1000", "-o", "rows.parquet")
    assert run.returncode == 0, run.stderr
    rows = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert rows.num_rows == 1000 and set(rows["sex"].to_pylist()) == {"F"} and max(rows["age"].to_pylist()) < 30
    assert "about this condition" in run.stdout
    assert sfumato("sample", path, "--by", "sex, age", "-o", "by.parquet").returncode == 0
    drawn = Counter(pyarrow.parquet.read_table(tmp_path / "by.parquet")["sex"].to_pylist())
    text = "SELECT sex, age, COUNT(*) AS n FROM census GROUP BY sex, age"
    counted = Counter()
    for row in json.loads(sfumato("query", path, text, "--format", "json").stdout):
        counted[row["sex"]] += max(round(row["n"]), 0)
    assert drawn == counted


def test_several_tables_of_one_seed(path, tmp_path):
    run = sfumato("sample", path, "-n", "50", "--seed", "7", "--tables", "3", "-o", "rows-{}.csv")
    assert run.returncode == 0 and "largest of all tables" in run.stdout, run.stderr
    texts = [(tmp_path / f"rows-{number}.csv").read_text() for number in (1, 2, 3)]
    assert len(set(texts)) == 3
    assert sfumato("sample", path, "-n", "50", "--seed", "7", "-o", "alone.csv").returncode == 0
    assert (tmp_path / "alone.csv").read_text() == texts[0]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--where", "age < 30 LIMIT 3"], "LIMIT behind a condition"),
        (["--where", "age <"], "cannot be read"),
        (["--by", "nothing"], "nothing is no attribute of the release"),
        (["--tables", "2"], "write -o rows-{}.csv"),
        (["--tables", "0"], "from 1 to 1,000"),
    ],
)
def test_a_wish_that_cannot_be_is_refused_in_one_line(path, tmp_path, words, reason):
    run = sfumato("sample", path, "-o", "rows.csv", *words)
    assert run.returncode == 1 and run.stderr.count("\n") == 1 and reason in run.stderr and run.stdout == ""
    assert [found.name for found in tmp_path.iterdir()] == ["census.sfumato"]
