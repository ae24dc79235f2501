"""Where an engine or a connection of SQLAlchemy leads to, and what is behind one of ADBC."""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def alchemy_url(table: Any) -> Any | None:
    """The URL of an engine or a connection of SQLAlchemy; None for everything else."""
    if not type(table).__module__.startswith("sqlalchemy."):
        return None
    return getattr(getattr(table, "engine", table), "url", None)


def adbc_vendor(table: Any) -> str | None:
    """The database behind a connection of ADBC, as it names itself, or nothing if it is closed; None for all else."""
    if not callable(getattr(table, "adbc_get_info", None)):
        return None
    with suppress(Exception):
        return str(table.adbc_get_info().get("vendor_name", ""))
    return ""
