"""An earlier file of the same name is never overwritten: it may be all that is left of a budget, or of a table."""

from __future__ import annotations

from pathlib import Path


def keep_earlier(path: Path) -> Path | None:
    """Move what has this name already to another, and say to which."""
    if not path.exists():
        return None
    number = 1
    while (kept := path.with_name(f"{path.name}.~{number}~")).exists():
        number += 1
    path.rename(kept)
    return kept
