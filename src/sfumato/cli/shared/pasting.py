"""Commands that are shown so that they can be pasted: the program by a name that works here, every word quoted."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def command(*words: object) -> str:
    """A call of this program as one line for a shell."""
    return " ".join([program(), *(_quoted(str(word)) for word in words)])


def _quoted(word: str) -> str:
    """A word for a shell, in double quotes where it has single ones and nothing that a shell would look for in these.

    >>> print(_quoted("WHERE sex = 'F'"), _quoted("'$5'"))
    "WHERE sex = 'F'" ''"'"'$5'"'"''
    """
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def program() -> str:
    """How to call this program from here: `sfumato` if that finds it, else the way it was called this time."""
    called = sys.argv[0]
    if Path(called).name in ("__main__.py", "-m"):
        return f"{_here(sys.executable)} -m sfumato"
    if os.sep not in called or called == shutil.which(Path(called).name):
        return shlex.quote(Path(called).name)
    return _here(called)


def _here(path: str) -> str:
    """A path from the present folder, if it leads down from it."""
    absolute, here = Path(path).absolute(), Path.cwd()
    below = os.path.join(".", absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)  # noqa: PTH118
    return shlex.quote(below)
