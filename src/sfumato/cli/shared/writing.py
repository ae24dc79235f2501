"""Text into a file, whole or not at all. What had the name before is kept under another: no command overwrites."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.errors import ReleaseFileError
from sfumato.releases.file.earlier import keep_earlier


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
