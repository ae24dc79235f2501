"""Atomic text files: written whole or not at all, with an earlier file of the same name kept under another."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import ReleaseFileError


def keep_earlier(path: Path) -> Path | None:
    """Rename an existing file out of the way; return its new path."""
    if not path.exists():
        return None
    number = 1
    while (kept := path.with_name(f"{path.name}.~{number}~")).exists():
        number += 1
    path.rename(kept)
    return kept


def write_text(path: Path, text: str) -> Path | None:
    """Write text atomically; return the path to which an earlier file was renamed."""
    if path.is_dir():
        raise ReleaseFileError(f"{path} is a folder; name a file with -o")
    if path.exists() and not path.is_file():  # a pipe or a device, such as /dev/stdout
        path.write_text(text, encoding="utf-8")
        return None
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        kept = keep_earlier(path)
        beside.replace(path)
    except OSError as error:
        reason = error.strerror or "no access"
        raise ReleaseFileError(f"{path} cannot be written ({reason}); choose another place with -o") from None
    finally:
        beside.unlink(missing_ok=True)
    return kept
