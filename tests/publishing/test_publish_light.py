"""A small release starts at once: nothing is loaded that only questions, rows, trials or other mechanisms need.

A process takes most of its time to load; benchmarks/speed.py has the figures.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SCHEMA = """
dataset: t
privacy_unit: row
budget: {epsilon: 10}
attributes:
  age: {type: integer, lower: 0, upper: 99}
  sex: {type: category, values: [f, m]}
  home: {type: integer, lower: 0, upper: 7}
"""
# Each takes 5 to 250 ms to load, where DuckDB's own answer takes 250 in all.
NOT_NEEDED = (
    "scipy",
    "pandas",
    "numpy.ma",
    "numpy.random",
    "sfumato.sql",
    "sfumato.answers.fieller",
    "sfumato.answers.formulas",
    "sfumato.answers.evaluate",
    "sfumato.releases.rows",
    "sfumato.releases.contents.sparse_cube",
    "sfumato.models.margins.content",
    "sfumato.models.margins.scales",
    "sfumato.models.tree.messages",
    "sfumato.models.partition.search",
    "sfumato.planner.simulate",
    "sfumato.planner.questions",
    "sfumato.models.linear.residual",
    "sfumato.models.partition.dawa",
    "sfumato.models.weights.measure",
)
RELEASE = """
import atexit, sys
from sfumato.cli import main
atexit.register(lambda: print("LOADED", *sys.modules))
sys.argv = ["sfumato", "release", "t.csv", "--schema", "t.yaml", "--epsilon", "1", "-o", "t.sfumato",
            "--ledger", "l.sqlite", "--mechanism", sys.argv[1]]
main()
"""


@pytest.mark.parametrize("mechanism", ["auto", "cells", "hierarchical"])
def test_a_small_release_loads_only_what_it_needs(mechanism, tmp_path):
    (tmp_path / "t.csv").write_text("age,sex,home\n" + "3,f,1\n5,m,2\n" * 100)
    (tmp_path / "t.yaml").write_text(SCHEMA)
    ran = subprocess.run(
        [sys.executable, "-c", RELEASE, mechanism], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    said, _, listed = ran.stdout.partition("LOADED ")
    loaded = set(listed.split())
    assert "1,600 cells" in said and "sfumato.kernel.curator" in loaded
    assert not [name for name in NOT_NEEDED if name in loaded]
