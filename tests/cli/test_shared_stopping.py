"""Ctrl-C at every stage: one line that says what stays reserved, exit code 130, nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import endless
import pytest
from running import sfumato
from waiting import PATIENCE, wait_until

import sfumato as sf
from sfumato.kernel.ledger.ledger import Ledger

SCHEMA = """
dataset: census
privacy_unit: {column: person, contributions: 1}
budget: {epsilon: 3}
attributes:
  age: {type: integer, lower: 0, upper: 99}
"""
RESERVED = "epsilon 1 on dataset 'census' stays reserved and counts as spent (ledger "


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(SCHEMA)
    Path("t.csv").write_text("person,age\n" + "".join(f"{n},{n % 100}\n" for n in range(300)))
    return tmp_path


def leftovers(folder: Path) -> list[str]:
    known = ("s.yaml", "t.csv", "ledger.sqlite")
    return [path.name for path in folder.iterdir() if path.name not in known]


@pytest.mark.skipif(os.name != "posix", reason="signals to another process")
def test_while_the_engine_reads(folder, tmp_path_factory, ctrl_c):
    marker, ledger = tmp_path_factory.mktemp("marker") / "reading", Ledger()
    command = [sys.executable, endless.__file__, str(marker), "release", "t.csv", "--schema", "s.yaml",
               "--epsilon", "1", "--mechanism", "cells", "-o", "r.sfumato"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        wait_until(lambda: marker.exists() or child.poll() is not None)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130 and out == ""
    new, said = err.splitlines()
    assert new.startswith("NOTE: a NEW ledger was made") and said == f"sfumato: interrupted; {RESERVED}{ledger.path})"
    assert [(entry.state, entry.epsilon) for entry in ledger.entries("census")] == [("reserved", 1)]
    assert leftovers(folder) == []


def test_in_python_it_is_a_plain_interrupt(folder, monkeypatch, ctrl_c):
    before, ledger = signal.getsignal(signal.SIGINT), Ledger()
    stop = endless.never_ending(lambda: os.kill(os.getpid(), signal.SIGINT))
    monkeypatch.setattr("sfumato.kernel.reading.engines.duckdb.DuckDB._answer", stop)
    with pytest.raises(KeyboardInterrupt) as caught:
        sf.release("t.csv", sf.Schema.load("s.yaml"), 1, mechanism="cells")
    assert type(caught.value) is KeyboardInterrupt and caught.value.args == ()
    assert caught.value.__notes__ == [f"{RESERVED}{ledger.path})"]
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert [entry.state for entry in ledger.entries("census")] == ["reserved"]
    assert signal.getsignal(signal.SIGINT) is before


NOTHING = "interrupted; nothing was reserved yet"
STAYS = f"interrupted; {RESERVED}"
STAGES = {
    "reading the schema": ("sfumato.schema.Schema.load", NOTHING, []),
    "planning": ("sfumato.publishing.publish.prepare", NOTHING, []),
    "looking at the table": ("sfumato.publishing.publish.open_table", NOTHING, []),
    "checking": ("sfumato.kernel.reading.table.Table.check", NOTHING, []),
    "reserving, not committed": ("sfumato.kernel.ledger.ledger.chained", NOTHING, []),
    "reserving, committed": ("sfumato.kernel.ledger.ledger.Receipt", STAYS, ["reserved"]),
    "reading": ("sfumato.kernel.reading.table.Table.read", STAYS, ["reserved"]),
    "checking what was read": ("sfumato.kernel.reading.statement.as_aggregate", STAYS, ["reserved"]),
    "adding noise": ("sfumato.kernel.curator.draw", STAYS, ["reserved"]),
    "writing": ("sfumato.releases.file.artifact.write_columns", STAYS, ["reserved"]),
    "putting the file in its place": ("sfumato.releases.file.artifact.os.fsync", STAYS, ["reserved"]),
    "marking it published": ("sfumato.kernel.ledger.ledger.Ledger.publish", STAYS, ["reserved"]),
}


def interrupting(monkeypatch, place: str) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, stop)


@pytest.mark.parametrize("stage", STAGES)
def test_a_release_at_every_stage(folder, monkeypatch, stage):
    place, words, states = STAGES[stage]
    Ledger().set_budget("census", 3)  # the ledger is there, so that no stage is about making it
    interrupting(monkeypatch, place)
    run = sfumato("release", "t.csv", "--schema", "s.yaml", "--epsilon", "1", "--mechanism", "cells", "-o", "r.sfumato")
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert (run.returncode, run.stdout) == (130, "")
    assert run.stderr.startswith(f"sfumato: {words}") and run.stderr.count("\n") == 1
    ledger = Ledger(folder / "ledger.sqlite")
    assert [entry.state for entry in ledger.entries("census")] == states
    # Before it is marked published the file is whole already: it was paid for, and stays.
    assert leftovers(folder) == (["r.sfumato"] if stage == "marking it published" else [])


def test_an_interrupt_after_the_release_says_that_it_is_published(folder, monkeypatch):
    with pytest.raises(KeyboardInterrupt) as caught:
        from sfumato.publishing.prepare import Request
        from sfumato.publishing.publish import publish

        def stop(name: str) -> None:
            if name == "done":
                raise KeyboardInterrupt

        publish("t.csv", Request(sf.Schema.load("s.yaml"), 1, mechanism="cells"), "r.sfumato", step=stop)
    assert "epsilon 1 on dataset 'census' is spent; the release was published" in caught.value.__notes__[0]


def test_a_ledger_that_cannot_be_read_is_not_called_empty(folder, monkeypatch):
    def stop(name: str) -> None:
        if name == "read":
            Path("ledger.sqlite").write_text("gone")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        sf.release("t.csv", sf.Schema.load("s.yaml"), 1, mechanism="cells", step=stop)
    assert "cannot be read now; what is reserved in it counts as spent" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (("query", "r.sfumato", "SELECT COUNT(*) FROM census"), "sfumato.releases.release.open_release"),
        (("sample", "r.sfumato", "--rows", "5", "-o", "x.csv"), "sfumato.releases.release.open_release"),
        (("plan", "--schema", "s.yaml", "--epsilon", "1"), "sfumato.planner.plan.make_plan"),
        (("init", "t.csv"), "sfumato.kernel.reading.table.open_table"),
        (("ledger", "show"), "sfumato.kernel.ledger.ledger.Ledger.show"),
        (("ledger", "set", "census", "--epsilon", "1"), "sfumato.kernel.ledger.ledger.Ledger.set_budget"),
        (("audit", "cells"), "sfumato.lab.audit.report.attack"),
        (("reproduce", "wd", "--quick"), "sfumato.lab.reproduce.studies.reproduce"),
        (("demo",), "sfumato.cli.demo.write_census"),
        (("--help",), "typer.core.TyperGroup.format_help"),
        (("query", "--help"), "sfumato.cli.run"),
    ],
)
def test_every_other_command(folder, monkeypatch, command, place):
    interrupting(monkeypatch, place)
    run = sfumato(*command)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "sfumato: interrupted\n")


def test_a_demo_says_what_stays(folder, monkeypatch):
    interrupting(monkeypatch, "sfumato.kernel.reading.table.Table.read")
    run = sfumato("demo")
    assert run.returncode == 130 and f"sfumato: {STAYS}" in run.stderr
