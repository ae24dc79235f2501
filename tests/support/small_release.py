"""A small table that can be released in a moment: a schema, a file of rows, and the commands around them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from running import sfumato

SCHEMA = """
dataset: census
privacy_unit: {column: person_id, contributions: 1}
budget: {epsilon: 3}
attributes:
  age: {type: integer, lower: 0, upper: 9}
  sex: {type: category, values: [F, M]}
"""
ROWS = "person_id,age,sex\n" + "".join(f"{n},{n % 10},{'FM'[n % 2]}\n" for n in range(300))


def write_small_table(folder: Path = Path()) -> None:
    """s.yaml and t.csv."""
    (folder / "s.yaml").write_text(SCHEMA)
    (folder / "t.csv").write_text(ROWS)


def release(
    *more: str, table: str = "t.csv", schema: str = "s.yaml", out: str = "r.sfumato", epsilon: str = "1"
) -> subprocess.CompletedProcess[str]:
    """By the plainest mechanism, which needs no time to be chosen, unless another is named."""
    plainest = () if "--mechanism" in more else ("--mechanism", "cells")
    return sfumato("release", table, "--schema", schema, "--epsilon", epsilon, "-o", out, *plainest, *more)


def refused(run: subprocess.CompletedProcess[str], *words: str, code: int = 1) -> None:
    """One clear line on stderr, nothing on stdout."""
    assert run.returncode == code, run.stderr
    assert run.stderr.startswith("sfumato: ") and run.stderr.count("\n") == 1 and "internal error" not in run.stderr
    assert run.stdout == ""
    for word in words:
        assert word in run.stderr, run.stderr
