"""The demo's last line works when it is pasted, and the demo deletes nothing that is not its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from running import sfumato

ROOT = Path(__file__).parent.parent.parent


def hint(said: str) -> str:
    (line,) = [line for line in said.splitlines() if line.startswith("Try: ")]
    return line.removeprefix("Try: ")


@pytest.mark.full
def test_the_command_that_make_demo_prints_can_be_pasted(tmp_path):
    """`make demo` calls the program by its path in an environment that no shell knows: so does the hint."""
    program = tmp_path / "my env" / "bin" / "sfumato"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\nfrom sfumato.cli import main\nmain()\n")
    program.chmod(0o755)
    demo = subprocess.run(
        ["sh", "-c", "'./my env/bin/sfumato' demo --folder 'a demo'"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    pasted = hint(demo.stdout)
    assert pasted.startswith("'./my env/bin/sfumato' query 'a demo/census.sfumato' ")
    run = subprocess.run(["sh", "-c", pasted], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0 and "95 % interval" in run.stdout, run.stderr
    assert "$(BIN)/sfumato demo" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("name", ["ledger.sqlite", "census.sfumato", "census.yaml"])
def test_what_is_somebodys_is_left_alone(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("precious")
    run = sfumato("demo", "--folder", ".")
    assert run.returncode == 1 and "not made by the demo" in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name] and Path(name).read_text() == "precious"


def test_quiet_writes_the_files_and_says_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = sfumato("demo", "--quiet")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert (tmp_path / "sfumato-demo" / "census.sfumato").is_file()
