"""The tutorials, followed to the letter: every command and every Python line, in order, in an empty folder."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from running import sfumato

FOLDER = Path(__file__).parent.parent / "docs" / "tutorials"
PAGES = sorted(path.stem for path in FOLDER.glob("*.md"))
BLOCK = re.compile(r"^```(console|python|yaml)\n(.*?)^```$", re.M | re.S)
REFUSED = "# refused"


def test_there_are_seven():
    assert PAGES == ["analyst", "codebook", "curator", "hospital", "reviewer", "series", "survey"]


@pytest.mark.parametrize("name", [*PAGES, "../discover", "../paper", "../migrating", "../deployments/survey"])
def test_it_can_be_followed(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path / "ledger.sqlite"))
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    assert len(blocks) >= 5
    for found in blocks:
        kind, block = found.groups()
        if kind == "python":
            exec(compile(block, f"{name}.md", "exec"), {})
        elif kind == "yaml":
            (file,) = re.findall(r"`(\w+\.yaml)`:\s*$", text[: found.start()].rstrip())
            Path(file).write_text(block)
        else:
            for line in block.splitlines():
                follow(line)


def follow(line: str) -> None:
    assert line.startswith("$ sfumato "), f"a block of commands has no other lines: {line!r}"
    done = sfumato(*shlex.split(line, comments=True)[2:])
    wanted = 1 if line.endswith(REFUSED) else 0
    assert done.returncode == wanted, f"{line}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    if wanted:
        assert len([said for said in done.stderr.splitlines() if said.startswith("sfumato: ")]) == 1
