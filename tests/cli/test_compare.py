"""sfumato compare, as a user calls it."""

from __future__ import annotations

import csv
import io
import json

from running import sfumato
from small_release import refused, release, write_small_table


def test_two_epsilons_of_one_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_table()
    release(out="first.sfumato")
    release("--again", out="second.sfumato", epsilon="2")
    run = sfumato("compare", "first.sfumato", "second.sfumato")
    assert run.returncode == 0 and "of 25 differences" in run.stdout and "for all 25 together" in run.stdout
    assert "drawn independently, as entries 1 and 2 of one ledger" in run.stderr
    assert "... and 5 less clear ones" in run.stdout
    assert "less clear" not in sfumato("compare", "first.sfumato", "second.sfumato", "--all").stdout
    found = json.loads(sfumato("compare", "first.sfumato", "second.sfumato", "--format", "json").stdout)
    assert found["together"] == len(found["rows"]) == 25 and found["independent_noise"]
    named = sfumato("compare", "first.sfumato", "second.sfumato", "--format", "csv", "--by", "sex", "-q").stdout
    rows = list(csv.DictReader(io.StringIO(named)))
    assert {row["where"] for row in rows} == {"all rows", "sex = F", "sex = M"}
    for row in rows:
        assert float(row["difference_low"]) <= float(row["difference"]) <= float(row["difference_high"])
    saved = sfumato("compare", "first.sfumato", "second.sfumato", "-o", "c.txt")
    assert saved.returncode == 0 and "where" in (tmp_path / "c.txt").read_text()


def test_refusals_are_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_table()
    release()
    refused(sfumato("compare", "r.sfumato", "r.sfumato", "--by", "nothing"), "they share 'age', 'sex'")
    refused(sfumato("compare", "r.sfumato", "r.sfumato", "--interval", "both"), "typical or guaranteed")
    refused(sfumato("compare", "r.sfumato", "missing.sfumato"), "cannot open")
    refused(sfumato("compare", "r.sfumato", "r.sfumato", "--confidence", "2"), "confidence")
