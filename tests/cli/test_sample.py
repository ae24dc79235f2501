from __future__ import annotations

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
