"""Shells complete what they are told, and nothing is loaded for it otherwise."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running import sfumato

BIN = Path(sys.executable).parent


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_every_shell(shell):
    run = sfumato("completion", shell)
    assert run.returncode == 0 and "sfumato" in run.stdout and "_SFUMATO_COMPLETE" in run.stdout
    assert sfumato("completion", "tcl").returncode == 2


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (("sfumato", "re"), {"release", "reproduce"}),
        (("sfumato", "ledger", ""), {"show", "set"}),
        (("sfumato", "release", "--if"), {"--if-missing"}),
        (("sfumato", "release", "--mechanism", "hier"), {"hierarchical"}),
        (("sfumato", "query", "--format", "js"), {"json"}),
    ],
)
def test_what_is_completed(monkeypatch, typed, found):
    monkeypatch.setenv("_SFUMATO_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(typed))
    monkeypatch.setenv("COMP_CWORD", str(len(typed) - 1))
    assert found <= set(sfumato().stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_takes_the_script(tmp_path):
    """As in ~/.bashrc, with a program of that name: bash asks it, and gets its commands."""
    program = tmp_path / "sfumato"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sfumato "$@"\n')
    program.chmod(0o755)
    script = (
        f'PATH={tmp_path}:$PATH; eval "$(sfumato completion bash)"; complete -p sfumato; '
        "COMP_WORDS=(sfumato led); COMP_CWORD=1; _sfumato_completion sfumato; echo ${COMPREPLY[@]}"
    )
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines()[-1] == "ledger", run.stderr
