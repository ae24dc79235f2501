"""Exit codes: the contract as it is, and the finer ones for whoever asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import as_process, sfumato
from small_release import release, write_small_table

from sfumato.cli.shared import BY_KIND, HELP

ROOT = Path(__file__).parent.parent.parent
COUNT = "SELECT COUNT(*) FROM census"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_small_table()
    assert sfumato("ledger", "set", "census", "--epsilon", "3").returncode == 0
    assert release().returncode == 0
    Path("cut.sfumato").write_bytes(Path("r.sfumato").read_bytes()[:600])
    Path("cut.sqlite").write_bytes(Path("ledger.sqlite").read_bytes()[:3000])
    Path("bad.yaml").write_text("dataset: [")
    Path("unit.yaml").write_text(Path("s.yaml").read_text().replace("{column: person_id, contributions: 1}", "row"))
    Path("no-total.yaml").write_text(Path("s.yaml").read_text().replace("census", "new").replace("budget:", "#"))
    return tmp_path


# What a script does, and the code that tells what went wrong.
MISTAKES = {
    "more than is left": (lambda: release(epsilon="3"), 3),
    "the same again": (release, 3),
    "another unit": (lambda: release(schema="unit.yaml"), 3),
    "no total": (lambda: release(schema="no-total.yaml"), 3),
    "an epsilon that is none": (lambda: release(epsilon="lots"), 4),
    "a schema with a mistake": (lambda: release(schema="bad.yaml"), 4),
    "no such mechanism": (lambda: release("--mechanism", "magic"), 4),
    "no such column": (lambda: sfumato("query", "r.sfumato", COUNT + " WHERE hight > 1"), 4),
    "not SQL": (lambda: sfumato("query", "r.sfumato", "SELEC"), 4),
    "no table": (lambda: release(table="missing.csv"), 5),
    "no schema": (lambda: release(schema="missing.yaml"), 5),
    "no folder": (lambda: release(epsilon="0.5", out="no/such/r.sfumato"), 5),
    "no release": (lambda: sfumato("query", "missing.sfumato", COUNT), 5),
    "no ledger": (lambda: release("--require-ledger", "--ledger", "missing.sqlite"), 5),
    "no statements": (lambda: sfumato("query", "r.sfumato", "@missing.sql"), 5),
    "a release cut short": (lambda: sfumato("query", "cut.sfumato", COUNT), 6),
    "no release at all": (lambda: sfumato("sample", "t.csv", "--rows", "1", "-o", "x.csv"), 6),
    "a key that is none": (lambda: sfumato("query", "r.sfumato", COUNT, "--require-signature", "s.yaml"), 7),
    "a ledger cut short": (lambda: sfumato("ledger", "show", "--ledger", "cut.sqlite"), 6),
}


def test_every_refusal_is_1_and_told_apart_on_request(folder, monkeypatch):
    for what, (call, code) in MISTAKES.items():
        plain = call()
        assert plain.returncode == 1, what
        monkeypatch.setenv("SFUMATO_EXIT_CODES", "distinct")
        fine = call()
        assert (fine.returncode, fine.stderr) == (code, plain.stderr), what
        monkeypatch.delenv("SFUMATO_EXIT_CODES")
    assert {code for _, code in MISTAKES.values()} == set(BY_KIND.values())


@pytest.mark.parametrize("variable", ["", "distinct"])
def test_what_is_no_refusal_has_one_code_always(folder, monkeypatch, variable):
    monkeypatch.setenv("SFUMATO_EXIT_CODES", variable)
    assert sfumato("query", "r.sfumato", COUNT).returncode == 0
    assert sfumato("query").returncode == 2 and sfumato("paint").returncode == 2

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.releases.release.open_release", stop)
    assert sfumato("query", "r.sfumato", COUNT).returncode == 130


def test_a_process_has_the_same_codes(folder, monkeypatch):
    monkeypatch.setenv("SFUMATO_EXIT_CODES", "distinct")
    assert as_process("query", "cut.sfumato", COUNT).returncode == 6


def test_the_help_and_the_page_name_every_code():
    said = " ".join(sfumato("-h").stdout.split())
    assert HELP in said
    page = (ROOT / "docs" / "pipelines.md").read_text()
    for kind, code in BY_KIND.items():
        assert f"| {code} | `{kind}` |" in page
