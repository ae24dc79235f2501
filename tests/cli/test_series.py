"""`sfumato release --series` and `sfumato series`: parts are appended, listed, taken out and added."""

from __future__ import annotations

import json

import pytest
import yaml
from months import schema_of, visits
from pyarrow import csv
from running import sfumato


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger.sqlite"))
    stated = schema_of(budget={"epsilon": 3}).to_dict()
    (tmp_path / "visits.yaml").write_text(yaml.safe_dump(stated, sort_keys=False))
    csv.write_csv(visits(1), tmp_path / "visits.csv")
    return tmp_path


def test_a_series_from_its_first_part_to_its_last(folder):
    common = ("release", "visits.csv", "--schema", "visits.yaml", "--epsilon", "1", "--mechanism", "cells", "-q")
    series = (*common, "--series", "visits.sfumato", "--period")
    first = sfumato(*series, "2026-01", "--dry-run")
    assert first.returncode == 0 and first.stdout == ""  # quiet
    said = sfumato(*(word for word in series if word != "-q"), "2026-01")
    assert said.returncode == 0 and "were taken to be of this month, and nothing checks it" in said.stdout
    again = sfumato(*series, "2026-1")
    assert again.returncode == 1 and "--correct" in again.stderr
    assert sfumato(*series, "2026-1", "--if-missing").returncode == 0
    assert sfumato(*series, "2026-01", "--correct").returncode == 0
    for wrong in ((*common, "-o", "x.sfumato"), (*series, "november"), (*series, "2026-01", "-o", "x.sfumato")):
        refused = sfumato(*wrong)
        assert refused.returncode in (1, 2) and "Traceback" not in refused.stderr
    listed = json.loads(sfumato("series", "list", "visits.sfumato", "--json").stdout)
    assert [(part["period"], part["corrects"], part["answers"]) for part in listed["parts"]] == [
        ("2026-01", None, False),
        ("2026-01", 1, True),
    ]
    (folder / "visits.sfumato.2026-02.part").write_bytes(b"paid for")
    left = sfumato(*series, "2026-03")
    assert left.returncode == 1 and "series add" in left.stderr
    (folder / "visits.sfumato.2026-02.part").unlink()
    assert sfumato("series", "extract", "visits.sfumato", "--period", "2026-01", "-o", "one.sfumato").returncode == 0
    wrong = sfumato("series", "add", "other.sfumato", "one.sfumato", "--period", "2026-07")
    assert wrong.returncode == 1 and "the ledger has this release as that of 2026-01" in wrong.stderr
    added = sfumato("series", "add", "other.sfumato", "one.sfumato", "--period", "2026-01")
    assert added.returncode == 0, added.stderr
    told = sfumato("query", "other.sfumato", "SELECT period, COUNT(*) FROM visits GROUP BY period", "--format", "csv")
    assert told.stdout.splitlines()[1].startswith("2026-01,")
    spent = json.loads(sfumato("ledger", "show", "--json").stdout)
    assert "2" in json.dumps(spent)
