"""Where DuckDB's rows come from: files, frames and databases say what they hold and appear under one name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from sfumato.kernel.reading.engines import Column

SOURCE = "source"


class Origin(Protocol):
    """Something that DuckDB can read.

    An origin that its reader can stop at has `mount_slowly` as well, which mounts the same so that nothing can.
    """

    @property
    def shown(self) -> str:
        """What a message calls it."""

    def describe(self, connection: Any) -> list[Column]:
        """Its columns, from names and types alone."""

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make at least the used columns readable under the name SOURCE."""


def shown_files(paths: Sequence[Path]) -> str:
    """What a message calls some files."""
    names = ["the standard input" if str(path) == "-" else path.name for path in paths[:3]]
    return ", ".join(names) + (", ..." if len(paths) > 3 else "")


def mounted_columns(connection: Any) -> list[Column]:
    """The columns of what is mounted, in order; nothing is run, for a result may come in any order."""
    empty = connection.sql(f"FROM {SOURCE}")
    return [Column(name, bare_type(str(kind)), name) for name, kind in zip(empty.columns, empty.types, strict=True)]


def bare_type(kind: str) -> str:
    """A type without parameters, save those of decimals; for privacy, because those of an enumeration are values.

    >>> bare_type("ENUM('Ann', 'Bob')"), bare_type("DECIMAL(9,2)"), bare_type("STRUCT(a INTEGER)[]")
    ('ENUM', 'DECIMAL(9,2)', 'STRUCT[]')
    """
    if re.fullmatch(r"DECIMAL\([0-9, ]+\)", kind):
        return kind
    return re.sub(r"\(.*\)", "", kind, flags=re.DOTALL).strip('"')
