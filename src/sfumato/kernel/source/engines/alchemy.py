"""Where an engine or a connection of SQLAlchemy leads to."""

from __future__ import annotations

from typing import Any


def alchemy_url(table: Any) -> Any | None:
    """The URL of an engine or a connection of SQLAlchemy; None for everything else."""
    if not type(table).__module__.startswith("sqlalchemy."):
        return None
    return getattr(getattr(table, "engine", table), "url", None)
