"""Pages for an office say what the code does: figures are worked out again, files that are named are there."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from sfumato.kernel.budget import epsilon_for
from sfumato.releases.group_privacy import beliefs_after, odds_of

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CHOOSING = (DOCS / "choosing-epsilon.md").read_text(encoding="utf-8")


def test_the_picture_of_beliefs_is_what_its_script_draws():
    drawn = runpy.run_path(str(DOCS / "pictures" / "intervals.py"))["beliefs"]()
    assert (DOCS / "pictures" / "beliefs.svg").read_text(encoding="utf-8") == drawn


def test_the_table_of_beliefs_is_right():
    (header,) = re.findall(r"^\| sure before \| epsilon (.*) \|$", CHOOSING, re.M)
    lines = re.findall(r"^\| ([\d.]+) % \| (.*) \|$", CHOOSING, re.M)
    assert len(lines) == 4
    for before, cells in lines:
        for epsilon, told in zip(header.split(" | "), cells.split(" | "), strict=True):
            digits = len(told.removesuffix(" %").partition(".")[2])
            assert float(told.removesuffix(" %")) == round(100 * beliefs_after(float(before) / 100, epsilon)[1], digits)


def test_what_others_chose_has_the_odds_that_follow():
    rows = re.findall(r"\| (epsilon|rho) ([\d.]+)(?:, delta ([\de.-]+))? \| (\d+) \|$", CHOOSING, re.M)
    assert len(rows) == 26  # of 24 entries, two of which tell persons and housing units apart
    for kind, amount, delta, told in rows:
        if kind == "rho":
            one, *_ = odds_of(epsilon_for(amount, "1e-6"), delta="1e-6", rho=amount)
        else:
            one, *_ = odds_of(amount, delta=delta or 0)
        assert one.of_hundred == int(told), (kind, amount)


@pytest.mark.parametrize("page", ["nist-sp-800-226", "choosing-epsilon", "faq", "migrating", "for-the-public"])
def test_files_that_a_page_names_are_there(page):
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|benchmarks|docs)/[\w./-]+|[A-Z_]+\.md)`", text)
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert page != "nist-sp-800-226" or len(named) > 40


@pytest.mark.full
def test_the_pack_for_reviewers_is_whole_and_signed(tmp_path):
    """Made without an audit, which takes long; what is changed in it, or by whom it is signed, is noticed."""
    pack, script = tmp_path / "pack.zip", [sys.executable, str(ROOT / "benchmarks" / "review_pack.py")]

    def run(*command: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, cwd=tmp_path)

    for name in ("office", "other"):
        assert run(sys.executable, "-m", "sfumato", "keygen", f"{name}.key").returncode == 0
    made = run(*script, "-o", pack, "--audit", "none", "--key", "office.key")
    assert made.returncode == 0, made.stderr
    assert run(*script, "--check", pack, "--key", "office.key.pub").returncode == 0
    assert "signature" in run(*script, "--check", pack, "--key", "other.key.pub").stdout
    with zipfile.ZipFile(pack) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    assert b"Theorem R" in files["pages/privacy.html"] and b"<script" not in files["pages/privacy.html"]
    assert (ROOT / "src/sfumato/kernel/charge.py").read_bytes() == files["trusted/kernel/charge.py"]
    assert json.loads(files["audit.json"])["run"] is False
    bill = json.loads(files["sbom.cdx.json"])
    refs = {one["bom-ref"] for one in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    assert bill["bomFormat"] == "CycloneDX" and len(refs) == len(bill["components"]) + 1
    assert {one["ref"] for one in bill["dependencies"]} == refs
    assert {need for one in bill["dependencies"] for need in one["dependsOn"]} <= refs
    (ours,) = [one for one in bill["dependencies"] if one["ref"].startswith("pkg:pypi/sfumato@")]
    assert any(need.startswith("pkg:pypi/duckdb@") for need in ours["dependsOn"])
    with zipfile.ZipFile(pack, "a") as opened:
        opened.writestr("trusted/more.py", b"")
    told = run(*script, "--check", pack)
    assert told.returncode == 1 and told.stdout == "wrong: trusted/more.py\n"
