"""Options that say how a file is written, for every command that reads one; they override the schema's `file`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

import typer

if TYPE_CHECKING:
    from sfumato.schema import Schema

Given = dict[str, Any]

_OPTIONS = {
    "delimiter": ("--delimiter", "CSV: what stands between fields, such as ';' or tab."),
    "decimal": ("--decimal", "CSV: the decimal sign of numbers, . or ,"),
    "thousands": ("--thousands", "CSV: what parts thousands in numbers: , . ' or space."),
    "encoding": ("--encoding", "CSV, JSON: latin-1, cp1252, utf-16, ...; utf-8 if left out."),
    "quote": ("--quote", "CSV: what stands around fields, or none."),
    "columns": ("--columns", "The columns in order, with commas between, of a file without a header line."),
    "dates": ("--dates", "How dates are written, such as %d.%m.%Y."),
    "sheet": ("--sheet", "Excel: the sheet; the first if left out."),
    "format": ("--file-format", "csv, tsv, jsonl, parquet, arrow or xlsx, where the file's name does not say."),
}


def takes_file_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command with these options; it gets what was given as `file`."""

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


def written(schema: Schema, file: Given) -> Schema:
    """The schema, with options in place of what it says of the file."""
    from sfumato.schema.dialect import overridden

    return schema.model_copy(update={"file": overridden(schema.file, file)})
