"""SQLAlchemy dialect for release files: create_engine("sfumato:///people.sfumato").

It has one table, named as the schema's dataset, with the attributes and measures as columns; answers have the error
columns of the DB-API beside every number, unless the address ends in `?errors=none`. Options stand after a question
mark: `?confidence=0.9&strict=1`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from sqlalchemy import types
from sqlalchemy.engine import URL, default
from sqlalchemy.exc import ArgumentError, NoSuchTableError

from sfumato.domain import Axis
from sfumato.releases.linked import Linked
from sfumato.releases.release import Release


class SfumatoDialect(default.DefaultDialect):
    """Read-only dialect: SQLAlchemy renders standard SQL, and the release answers it."""

    name = "sfumato"
    driver = "sfumato"
    default_paramstyle = "qmark"
    supports_statement_cache = True
    supports_alter = False
    supports_native_boolean = True
    supports_sane_rowcount = False
    postfetch_lastrowid = False

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        import sfumato.dbapi

        return sfumato.dbapi

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        if not url.database:
            raise ArgumentError("name the file: sfumato:///people.sfumato, or sfumato:////home/me/people.sfumato")
        readers: dict[str, Callable[[str], Any]] = {"confidence": float, "most_cells": int, "strict": _is_yes}
        readers |= {"errors": _with_errors, "require_signature": str}
        options = {name: str(value) for name, value in url.query.items()}
        if unknown := sorted(set(options) - set(readers)):
            raise ArgumentError(f"there is no option {unknown[0]!r}; the options are {', '.join(readers)}")
        return [url.database], {name: readers[name](value) for name, value in options.items()}

    def do_ping(self, dbapi_connection: Any) -> bool:
        return not dbapi_connection.closed

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        return [] if schema is not None else list(_tables(connection))

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> bool:
        return table_name in self.get_table_names(connection, schema)

    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        if not self.has_table(connection, table_name, schema):
            raise NoSuchTableError(table_name)
        public = _tables(connection)[table_name].schema
        kinds: list[tuple[str, Any]] = [(axis.name, _kind(axis)) for axis in public.domain]
        kinds += [(name, types.String()) for name in public.group_columns]
        kinds += [(name, types.Float()) for name in public.measures]
        return [{"name": name, "type": kind, "nullable": False, "default": None} for name, kind in kinds]

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        return []

    def get_view_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        return []

    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        return {"constrained_columns": [], "name": None}

    def get_foreign_keys(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        return []

    def get_indexes(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        return []

    def get_unique_constraints(self, connection: Any, table_name: str, schema: Any = None, **_: Any) -> list[Any]:
        return []

    def get_check_constraints(self, connection: Any, table_name: str, schema: Any = None, **_: Any) -> list[Any]:
        return []

    def get_table_comment(self, connection: Any, table_name: str, schema: Any = None, **_: Any) -> Any:
        from sfumato.schema.schema import counted_in_short

        opened = _tables(connection).get(table_name) or _release(connection)
        return {"text": f"{opened.guarantee.statement} Counted: {counted_in_short(opened.content.table_schema)}."}


def _release(connection: Any) -> Release:
    """The release behind a connection of SQLAlchemy."""
    found: Release = connection.connection.dbapi_connection.release
    return found


def _tables(connection: Any) -> Mapping[str, Release]:
    """The tables of a release, by name: one, or several that are linked."""
    opened = _release(connection)
    return opened.tables if isinstance(opened, Linked) else {opened.schema.dataset: opened}


def _is_yes(text: str) -> bool:
    return text.lower() in ("1", "true", "yes")


def _with_errors(text: str) -> bool:
    """Whether answers have error columns, by the option's value."""
    if text.lower() in ("none", "off", "0", "false", "no"):
        return False
    if text.lower() in ("all", "on", "1", "true", "yes"):
        return True
    raise ArgumentError("errors is `none`, which leaves error columns out, or `all`")


def _kind(axis: Axis) -> Any:
    """SQLAlchemy type of a column, by its cells' labels; a cell of several days has a label such as 2024-W01."""
    if axis.kind == "date" and axis.by in ("day", "hour"):
        return types.DateTime() if axis.timed else types.Date()
    label = axis.label(0)
    if isinstance(label, bool):
        return types.Boolean()
    return types.Integer() if isinstance(label, int) else types.String()
