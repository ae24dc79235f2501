"""The page about pipelines, followed to the letter: a year of nights, a container's recipe, every command and key."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest
import yaml

from sfumato.kernel.ledger.ledger import Ledger

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
SCHEMA = """
dataset: visits
privacy_unit: {column: patient, contributions: 2}
attributes:
  age: {type: integer, lower: 0, upper: 9}
"""


@pytest.fixture
def nightly(tmp_path, monkeypatch):
    """A repository with a remote, programs of the names that the workflow calls, and a night of any month to run."""
    (workflow,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)
    job = yaml.safe_load(workflow)["jobs"]["release"]
    programs, table = tmp_path / "bin", tmp_path / "visits.csv"
    programs.mkdir()
    for name, does in {"sfumato": f'exec {sys.executable} -m sfumato "$@"', "date": "echo $MONTH"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{does}\n")
        (programs / name).chmod(0o755)
    table.write_text("patient,age\n" + "".join(f"{n // 2},{n % 10}\n" for n in range(200)))
    environment = {**os.environ, **job["env"], "TABLE": str(table), "HOME": str(tmp_path)}
    environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
    where = tmp_path / "work"
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@localhost")
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "remote.git"], check=True)
    subprocess.run(["git", "clone", "-q", tmp_path / "remote.git", where], check=True, capture_output=True)
    (where / "visits.yaml").write_text(SCHEMA)
    (stated,) = re.findall(r"^    (sfumato ledger set .*)$", PAGE, re.M)
    total = stated.replace("--epsilon 1.2", "--epsilon 0.2")
    subprocess.run(["sh", "-c", total], cwd=where, env=environment, check=True, capture_output=True)
    subprocess.run([*git, "add", "visits.yaml", "ledger.sqlite"], cwd=where, check=True)
    subprocess.run([*git, "commit", "-qm", "first"], cwd=where, check=True)
    subprocess.run([*git, "push", "-q", "-u", "origin", "HEAD"], cwd=where, check=True, capture_output=True)
    steps = [step["run"] for step in job["steps"] if "run" in step and not step["run"].startswith("pip ")]
    assert len(steps) == 2 and all(step.get("if") == "always()" for step in job["steps"][-1:])

    def night(month: str) -> list[subprocess.CompletedProcess[str]]:
        env = {**environment, "MONTH": month}
        return [
            subprocess.run(["bash", "-e", "-c", step], cwd=where, env=env, capture_output=True, text=True, check=False)
            for step in steps
        ]

    return night, where


@pytest.mark.skipif(os.name != "posix", reason="a shell")
def test_the_nightly_workflow_pays_once_a_month_and_never_more_than_the_total(nightly):
    night, where = nightly
    spent = []
    for month in ("2026-01", "2026-01", "2026-02"):
        made, published = night(month)
        assert (made.returncode, published.returncode) == (0, 0), made.stderr + published.stderr
        assert (where / f"visits-{month}.sfumato").is_file()
        spent.append(Ledger(where / "ledger.sqlite").account("visits").spent)
    assert spent == [Fraction(1, 10), Fraction(1, 10), Fraction(2, 10)]
    made, published = night("2026-03")
    assert (made.returncode, published.returncode) == (3, 0) and "0 is left" in made.stderr
    assert Ledger(where / "ledger.sqlite").account("visits").spent == Fraction(2, 10)
    kept = subprocess.run(
        ["git", "ls-tree", "--name-only", "@{u}"], cwd=where, capture_output=True, text=True, check=True
    )
    assert kept.stdout.split() == ["ledger.sqlite", "visits-2026-01.sfumato", "visits-2026-02.sfumato", "visits.yaml"]
    (where / "ledger.sqlite").unlink()
    made, _ = night("2026-04")
    assert made.returncode == 5 and "a ledger is required" in made.stderr
    assert not (where / "visits-2026-04.sfumato").exists()


def test_what_a_container_is_made_of_is_there_and_enough():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert copied and all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert needed <= set(copied)
    built = [
        project["tool"]["hatch"]["version"]["path"],
        *project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"],
    ]
    assert all(path.split("/")[0] in copied for path in built)
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert allowed == set(copied)


def test_a_container_runs_as_nobody_special_and_loses_no_ledger():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    (user,) = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert user != "root" and f"useradd --uid 1000 {user}" in " ".join(lines)
    assert 'ENTRYPOINT ["sfumato"]' in lines and "WORKDIR /data" in lines
    assert "ENV SFUMATO_LEDGER=/data/ledger.sqlite" in lines
    assert not any(line.startswith("VOLUME") for line in lines)
    (minor,) = re.findall(r"^FROM python:3\.(\d+)-slim$", "\n".join(lines), re.M)
    assert int(minor) >= 11


def test_every_option_on_the_page_exists():
    from running import sfumato

    commands = ("release", "query", "plan", "ledger set", "ledger show", "audit")
    helped = " ".join(sfumato(*command.split(), "--help").stdout for command in commands)
    foreign = {"--rm", "--user", "--volume", "--from", "--help", "--no-deps", "--cached", "--quiet"}
    for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) - foreign:
        assert option in helped, option
