"""Commands that are shown work when they are pasted, however the program was called."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from sfumato.cli.show import command, program


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing here"))

    def call(name: str) -> str:
        monkeypatch.setattr(sys, "argv", [name])
        return program()

    return call


def test_the_name_that_the_shell_finds(called, tmp_path, monkeypatch):
    found = tmp_path / "bin" / "sfumato"
    found.parent.mkdir()
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    assert called("sfumato") == "sfumato"
    monkeypatch.setenv("PATH", str(found.parent), prepend=os.pathsep)
    assert called(str(found)) == "sfumato"
    for way in ("./bin/sfumato", str(Path("x") / "__main__.py"), "/opt/elsewhere/bin/sfumato"):
        assert called(way) == "sfumato"


def test_the_path_where_the_shell_finds_none(called, tmp_path):
    assert called(".venv/bin/sfumato") == called(str(tmp_path / ".venv/bin/sfumato")) == "./.venv/bin/sfumato"
    assert called("/opt/some where/sfumato") == "'/opt/some where/sfumato'"


def test_the_module(called):
    assert called(str(Path("x") / "__main__.py")) == f"{shlex.quote(sys.executable)} -m sfumato"


def test_every_word_is_quoted(called):
    called("sfumato")
    words = ["query", "a b.sfumato", "SELECT COUNT(*) FROM t WHERE x = 'it''s' AND y < \"$HOME\""]
    assert shlex.split(command(*words)) == ["sfumato", *words]
