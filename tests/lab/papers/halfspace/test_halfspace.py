"""Halfspaces from the command line, and what is refused before anything is spent."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from running import as_process, sfumato

from sfumato.models import find_mechanism
from sfumato.schema import Schema

YAML = """dataset: people
privacy_unit: row
budget: {epsilon: 100}
attributes:
  age: {type: integer, lower: 0, upper: 49}
  pay: {type: integer, lower: 0, upper: 49}
  sex: {type: category, values: [F, M]}
"""


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """3,000 people."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    rows = np.stack([rng.integers(0, 50, 3000), rng.integers(0, 50, 3000)], axis=1)
    Path("people.csv").write_text("age,pay,sex\n" + "".join(f"{a},{b},{'FM'[a % 2]}\n" for a, b in rows))
    Path("people.yaml").write_text(YAML)
    return rows


def release(*more: str) -> tuple[int, str]:
    told = ["release", "people.csv", "--schema", "people.yaml", "--epsilon", "5", "--mechanism", "halfspace"]
    done = sfumato(*told, "-o", "out.sfumato", *more)
    return done.returncode, done.stdout + done.stderr


def test_released_and_asked_in_another_process(people):
    code, said = release()
    assert code == 0 and "canonical halfspaces" in said
    text = "SELECT COUNT(*) AS n FROM people WHERE 3 * age - 2 * pay > 10"
    asked = as_process("query", "out.sfumato", text, "--format", "json")
    assert asked.returncode == 0, asked.stderr
    (row,) = json.loads(asked.stdout)
    true = int((3 * people[:, 0] - 2 * people[:, 1] > 10).sum())
    assert row["n_low"] - 30 <= true <= row["n_high"] + 30 and abs(row["n"] - true) < 150
    refused = sfumato("query", "out.sfumato", "SELECT sex, COUNT(*) FROM people GROUP BY sex")
    assert refused.returncode == 1 and "one side of a line" in refused.stderr


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (["over=height"], "no attribute 'height'; there are age, pay, sex"),
        (["over=sex"], "sex is no number of several values"),
        (["over=age,age"], "each once"),
        (["directions=1000000"], "directions lies between 1 and 4,096, and 1,000,000 does not; 16 for each"),
        (["offsets=1"], "offsets lies between 2 and 4,096"),
        (["projections=0"], "projections lies between 1 and 64"),
        (["dimensions=99"], "dimensions lies between 1 and 16"),
    ],
)
def test_what_makes_no_net_is_refused_in_one_line_and_costs_nothing(people, told, why):
    code, said = release(*(part for one in told for part in ("--with", one)))
    assert code == 1 and why in said and len(said.strip().splitlines()) == 1
    assert "halfspace" not in sfumato("ledger", "show", "people").stdout


def test_too_many_cells_are_refused_with_the_bins_that_would_do():
    wide = {f"a{n}": {"type": "integer", "lower": 0, "upper": 99} for n in range(5)}
    schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": wide})
    assert "16 bins each would do" in find_mechanism("halfspace").why_not(schema)
