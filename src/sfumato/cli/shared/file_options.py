"""Command-line options for the format of a table's file; they override the schema's `file`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from sfumato.schema import Schema
    from sfumato.schema.dialect import Dialect

Given = dict[str, Any]

_OPTIONS = {
    "delimiter": ("--delimiter", "CSV: the character between fields, such as ';', or tab."),
    "decimal": ("--decimal", "The decimal sign in numbers that are text: . or ,"),
    "thousands": ("--thousands", "The thousands separator in numbers that are text: , . ' or space."),
    "encoding": ("--encoding", "CSV, JSON: latin-1, cp1252, utf-16, ... Default: utf-8."),
    "quote": ("--quote", "CSV: the quote character around fields, or none."),
    "columns": ("--columns", "The column names in order, separated by commas, if the file has no header line."),
    "dates": ("--dates", "The format of dates, such as %d.%m.%Y."),
    "sheet": ("--sheet", "Excel: the sheet. Default: the first."),
    "format": ("--file-format", "csv, tsv, jsonl, parquet, arrow or xlsx, if the file name does not tell."),
}


_TEXT = ("decimal", "thousands", "columns", "dates")
_OF = {  # which options say something of a kind of file
    "csv": ("delimiter", "quote", "encoding", *_TEXT),
    "tsv": ("delimiter", "quote", "encoding", *_TEXT),
    "jsonl": ("encoding", *_TEXT),
    "xlsx": ("sheet", *_TEXT),
}
_WORDS = {
    "csv": "CSV",
    "tsv": "CSV with tabs",
    "jsonl": "JSON lines",
    "xlsx": "Excel",
    "parquet": "a Parquet file",
    "arrow": "an Arrow file",
}


def takes_file_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator: add these options to a command, which receives their values as `file`."""

    @wraps(command)
    def run(**given: Any) -> None:
        command(
            **{key: given[key] for key in given if key not in names}, file={names[key]: given[key] for key in names}
        )

    names = {f"file_{key}": key for key in _OPTIONS}
    own = inspect.signature(command)
    hints = get_type_hints(command)
    kept = [part.replace(annotation=hints[name]) for name, part in own.parameters.items() if name != "file"]
    added = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=typer.Option(None, _OPTIONS[key][0], help=_OPTIONS[key][1], show_default=False),
            annotation=str | None,
        )
        for name, key in names.items()
    ]
    plain = [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in kept]
    run.__signature__ = inspect.Signature([*plain, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {part.name: part.annotation for part in (*plain, *added)} | {"return": None}
    del run.__wrapped__  # or its own signature would be looked at
    return run


def written(schema: Schema, file: Given, table: str) -> Schema:
    """Return the schema with its file format overridden by options."""
    return schema.model_copy(update={"file": stated(table, file, schema.file)})


def stated(table: str, file: Given, dialect: Dialect | None = None) -> Dialect | None:
    """File format by options, or else by the schema. Options that do not concern the kind of file are refused.

    A schema may say more than concerns the file, for the same one serves a CSV and the Parquet that is made of it.
    """
    from sfumato.errors import TableError
    from sfumato.kernel.reading.formats.files import format_of
    from sfumato.schema.dialect import PLAIN, overridden

    found = overridden(dialect, file)
    kind = "a database" if table.startswith("duckdb:") or "://" in table else format_of(table, found or PLAIN)
    without = {"format"} if kind != "a database" else set()
    for key, given in file.items():
        if given is not None and kind is not None and key not in _OF.get(kind, ()) and key not in without:
            what = _WORDS.get(kind, kind)
            raise TableError(f"{_OPTIONS[key][0]} says nothing about {what}; leave it out{_hint(key)}")
    return found


def _hint(key: str) -> str:
    kinds = [_WORDS[kind] for kind, keys in _OF.items() if key in keys and kind != "tsv"]
    return f" (it is for {', '.join(kinds)})" if kinds else ""
