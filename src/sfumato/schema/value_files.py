"""Lists of values from a file beside the schema: read once, when the schema is, and published as part of it.

The list must be public by itself, such as a register of municipalities: one made from the private table would publish
who is in it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import SchemaError
from sfumato.schema.values import shown

MOST_BYTES = 1_000_000
_KEYS = ("file", "column", "labels", "groups")
_FORM = "write values: [F, M], values: list.txt, or values: {file: list.csv, column: code}"


def with_values_from_files(mapping: object, folder: Path) -> object:
    """The same schema, with lists in place of the files that it names; files are looked for in a folder."""
    if not isinstance(mapping, Mapping) or not isinstance(mapping.get("attributes"), Mapping):
        return mapping
    attributes = {
        name: _filled(f"attributes.{name}.values", part, folder) if isinstance(part, Mapping) else part
        for name, part in mapping["attributes"].items()
    }
    return {**mapping, "attributes": attributes}


def _filled(where: str, attribute: Mapping[Any, Any], folder: Path) -> Mapping[Any, Any]:
    values = attribute.get("values")
    if isinstance(values, str):
        return {**attribute, "values": _lines(_text(where, folder, values))}
    if not isinstance(values, Mapping):
        return attribute
    unknown = [key for key in values if key not in _KEYS]
    if unknown or not all(isinstance(values.get(key), str) for key in ("file", "column")):
        raise SchemaError(f"{where} must name a file and one of its columns; {_FORM}")
    header, rows = _table(where, _text(where, folder, values["file"]))
    codes = _column(where, header, rows, values["column"])
    found: dict[str, Any] = {"values": list(dict.fromkeys(codes))}
    if "labels" in values:
        labels = _column(where, header, rows, values["labels"])
        found["labels"] = {code: label for code, label in zip(codes, labels, strict=True) if label}
    groups = values.get("groups", [])
    for column in groups if isinstance(groups, list) else [groups]:
        level: dict[str, list[str]] = {}
        for code, group in zip(codes, _column(where, header, rows, column), strict=True):
            level.setdefault(group, []).append(code)
        found.setdefault("groups", {})[column] = {group: list(dict.fromkeys(some)) for group, some in level.items()}
    twice = [key for key in found if key != "values" and key in attribute]
    if twice:
        raise SchemaError(f"{where} takes {twice[0]} from a file, and they are written out too; keep one")
    return {**attribute, **found}


def _text(where: str, folder: Path, name: str) -> str:
    try:
        with (folder / name).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as problem:
        reason = problem.strerror or "no access"
        raise SchemaError(f"{where} names the file {shown(name)}, which cannot be read ({reason}); {_FORM}") from None
    if len(content) > MOST_BYTES:
        raise SchemaError(f"{where} names a file larger than 1 MB, which no list of public values is; check the path")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SchemaError(f"{where} names a file that is not UTF-8 text; save it as UTF-8") from None


def _lines(text: str) -> list[str]:
    """The lines that are not blank, without blanks around them."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def _table(where: str, text: str) -> tuple[list[str], list[list[str]]]:
    first = text.splitlines()[0] if text.strip() else ""
    rows = [row for row in csv.reader(io.StringIO(text), delimiter=";" if ";" in first else ",") if any(row)]
    if len(rows) < 2:
        raise SchemaError(f"{where} names a file without rows; its first line must name the columns")
    return [name.strip() for name in rows[0]], rows[1:]


def _column(where: str, header: list[str], rows: list[list[str]], name: object) -> list[str]:
    if name not in header:
        raise SchemaError(
            f"{where} asks for the column {shown(name)}, which the file lacks; it has {', '.join(header)}"
        )
    place = header.index(str(name))
    if any(len(row) <= place for row in rows):
        raise SchemaError(f"{where} names a file with a row that ends before the column {shown(name)}; mend the file")
    return [row[place].strip() for row in rows]
