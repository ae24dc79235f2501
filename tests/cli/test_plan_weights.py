"""`weight` of a measure, from the user's side: what gets more of the budget is known better, and the rest less well."""

from __future__ import annotations

import json
from pathlib import Path

from running import sfumato

SCHEMA = """
dataset: staff
privacy_unit: row
attributes:
  grade: {type: integer, lower: 1, upper: 5}
measures:
  pay:   {lower: 0, upper: 1000, weight: WEIGHT}
  hours: {lower: 0, upper: 80}
expected_rows: 100000
"""


def errors(weight: str) -> dict[str, float]:
    Path("s.yaml").write_text(SCHEMA.replace("WEIGHT", weight))
    said = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1", "--mechanism", "cells", "--json").stdout
    (cells,) = json.loads(said)["mechanisms"]
    return {line["question"]: line["expected_error"] for line in cells["questions"]}


def test_a_measure_of_more_weight_has_less_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    even, heavy = errors("1"), errors("9")
    pay, hours = (next(query for query in even if f"AVG({name})" in query) for name in ("pay", "hours"))
    assert heavy[pay] < even[pay] / 2 and heavy[hours] > even[hours]
    Path("s.yaml").write_text(SCHEMA.replace("WEIGHT", "-1"))
    refused = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1")
    assert refused.returncode == 1 and "weight" in refused.stderr
