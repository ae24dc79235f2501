"""-h, --quiet and --json mean the same in every command that has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from running import as_process, sfumato
from small_release import release, write_small_table

COMMANDS = ["demo", "init", "plan", "release", "query", "sample", "audit", "reproduce", "completion", "ledger"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_small_table()
    assert sfumato("ledger", "set", "census", "--epsilon", "3", "--quiet").stdout == ""
    return tmp_path


def test_h_is_help_everywhere():
    assert sfumato("-h").stdout == sfumato("--help").stdout
    for command in COMMANDS:
        short, long = sfumato(command, "-h"), sfumato(command, "--help")
        assert short.returncode == 0 and short.stdout == long.stdout and "Usage:" in short.stdout
    assert "--reason" in sfumato("ledger", "set", "-h").stdout


def test_the_module_is_the_program():
    run = as_process("--version")
    assert run.returncode == 0 and run.stdout == sfumato("--version").stdout


def test_the_ledger_for_scripts(folder):
    assert release("--quiet").returncode == 0
    assert sfumato("ledger", "set", "census", "--epsilon", "10/3", "--reason", "a third more").returncode == 0
    found = json.loads(sfumato("ledger", "show", "--json").stdout)
    (account,) = found["datasets"]
    assert account["dataset"] == "census" and account["epsilon"] == {"total": "10/3", "spent": "1", "left": "7/3"}
    assert account["delta"]["total"] is None and account["releases"] == 1
    (entry,) = found["entries"]
    assert (entry["mechanism"], entry["state"], entry["unit"]) == ("cells", "published", "person_id")
    assert len(entry["request"]) == 64
    first, second = found["history"]
    assert (first["epsilon"], second["reason"]) == ({"before": None, "after": "3"}, "a third more")
    assert json.loads(sfumato("ledger", "show", "census", "--json").stdout) == found
    refused = sfumato("ledger", "show", "nobody", "--json")
    assert refused.returncode == 1 and "nobody" in json.loads(refused.stdout)["refused"]["message"]
    empty = json.loads(sfumato("ledger", "show", "--json", "--ledger", "none.sqlite").stdout)
    assert empty["datasets"] == [] and empty["ledger"]["identity"] is None
    said = json.loads(sfumato("ledger", "set", "census", "--epsilon", "4", "--json").stdout)
    assert said["datasets"][0]["epsilon"]["total"] == "4" and len(said["history"]) == 3


def test_a_plan_for_scripts(folder):
    found = json.loads(
        sfumato("plan", "--schema", "s.yaml", "--epsilon", "0.5", "--mechanism", "cells", "--json").stdout
    )
    assert (found["dataset"], found["epsilon"], found["mechanism"]) == ("census", "0.5", "cells")
    (cells,) = found["mechanisms"]
    assert cells["questions"][0]["question"] == "COUNT(*) FROM census" and cells["questions"][0]["expected_error"] > 0
    back = json.loads(sfumato("plan", "--schema", "s.yaml", "--error", "50", "--mechanism", "cells", "--json").stdout)
    assert back["mechanisms"][0]["smallest_epsilon"]


def test_an_audit_for_scripts(monkeypatch):
    from sfumato.lab.audit import report

    monkeypatch.setattr(
        "sfumato.lab.audit.mutants.registry.mutant_report", lambda *_: [("weak noise", "exact", "loss 2")]
    )
    row = report.Row("cells", "1", 0.98, 1000, violated=False, coverage=0.95)
    monkeypatch.setattr("sfumato.lab.audit.report.attack", lambda *_, **__: report.Report((row,), (), ()))
    run = sfumato("audit", "cells", "--json")
    found = json.loads(run.stdout)
    assert run.returncode == 0 and found["mechanisms"][0]["verdict"] == "no violation found"
    assert found["mutants"] == [{"name": "weak noise", "caught_by": "exact", "how": "loss 2"}]
    bad = report.Row("cells", "1", 1.5, 1000, violated=True)
    monkeypatch.setattr("sfumato.lab.audit.report.attack", lambda *_, **__: report.Report((bad,), (), ()))
    run = sfumato("audit", "cells", "--json")
    assert run.returncode == 1 and json.loads(run.stdout)["violated"] is True  # one object, not two


def test_quiet_where_files_are_written(folder):
    assert release("-q").stdout == ""
    for command in (
        ("init", "t.csv", "-o", "new.yaml"),
        ("sample", "r.sfumato", "--rows", "5", "-o", "x.csv"),
        ("ledger", "set", "census", "--epsilon", "4"),
    ):
        run = sfumato(*command, "--quiet")
        assert (run.returncode, run.stdout, run.stderr) == (0, "", ""), command
    assert Path("new.yaml").is_file() and Path("x.csv").is_file()


def test_a_command_forgets_how_the_last_one_spoke(folder):
    assert json.loads(sfumato("ledger", "show", "--json").stdout)
    assert "epsilon in all" in sfumato("ledger", "show").stdout
