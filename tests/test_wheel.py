"""The wheel: a newcomer installs it into an empty environment, sees the demo and asks the release."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    where = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", where, ROOT)
    (found,) = where.glob("*.whl")
    return found


def run(*command: object, **settings: object) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=900, **settings)
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_an_index_would_take_it(wheel):
    said = run(sys.executable, "-m", "twine", "check", "--strict", *wheel.parent.iterdir())
    assert said.count("PASSED") == 2


def test_it_holds_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"sfumato"}
    assert "sfumato/py.typed" in names
    assert not [name for name in names if "__pycache__" in name or "test" in Path(name).name]


def test_a_newcomer_installs_it_sees_the_demo_and_asks(wheel, tmp_path):
    """The environment is empty; what the package needs comes with it."""
    venv.create(tmp_path / "new", with_pip=True)
    python = tmp_path / "new" / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", wheel)
    program = python.with_name("sfumato")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SFUMATO"))}
    assert "inside" in run(program, "demo", cwd=tmp_path, env=clean)
    release = "sfumato-demo/census.sfumato"
    sql = "SELECT sex, COUNT(*) AS n FROM census GROUP BY sex"
    assert "95 % interval" in run(program, "query", release, sql, cwd=tmp_path, env=clean)
