"""`budget_share` of a measure, from the user's side: what gets more of the budget is known better, the rest less."""

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
  pay:   {lower: 0, upper: 1000, budget_share: SHARE}
  hours: {lower: 0, upper: 80}
expected_rows: 100000
"""


def errors(share: str) -> dict[str, float]:
    Path("s.yaml").write_text(SCHEMA.replace("SHARE", share))
    said = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1", "--mechanism", "cells", "--json").stdout
    (cells,) = json.loads(said)["mechanisms"]
    return {line["question"]: line["expected_error"] for line in cells["questions"]}


def test_a_measure_of_more_budget_has_less_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    even, heavy = errors("1"), errors("9")
    pay, hours = (next(query for query in even if f"AVG({name})" in query) for name in ("pay", "hours"))
    assert heavy[pay] < even[pay] / 2 and heavy[hours] > even[hours]
    Path("s.yaml").write_text(SCHEMA.replace("SHARE", "-1"))
    refused = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1")
    assert refused.returncode == 1 and "budget_share" in refused.stderr


def test_the_old_word_means_the_same_and_is_noted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    now = errors("9")
    Path("s.yaml").write_text(SCHEMA.replace("budget_share: SHARE", "weight: 9"))
    run = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1", "--mechanism", "cells", "--json")
    (cells,) = json.loads(run.stdout)["mechanisms"]
    assert {line["question"]: line["expected_error"] for line in cells["questions"]} == now
    assert "NOTE: s.yaml: measures.pay says weight, which is called budget_share now" in run.stderr
    Path("s.yaml").write_text(SCHEMA.replace("SHARE", "2, weight: 9"))
    refused = sfumato("plan", "--schema", "s.yaml", "--epsilon", "1")
    assert refused.returncode == 1 and "measures.pay has budget_share and weight" in refused.stderr
