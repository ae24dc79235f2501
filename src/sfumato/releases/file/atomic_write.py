"""An earlier file of the same name is never overwritten: it may be all that is left of a budget, or of a table.

Text into a file, whole or not at all. What had the name before is kept under another: no command overwrites.
"""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import ReleaseFileError


def keep_earlier(path: Path) -> Path | None:
    """Move what has this name already to another, and say to which."""
    if not path.exists():
        return None
    number = 1
    while (kept := path.with_name(f"{path.name}.~{number}~")).exists():
        number += 1
    path.rename(kept)
    return kept


def write_text(path: Path, text: str) -> Path | None:
    """Write, and say where an earlier file of that name went."""
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
