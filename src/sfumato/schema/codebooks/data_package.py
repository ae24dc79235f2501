"""Codebooks of the Frictionless standards: a data package (datapackage.json), or the table schema of one table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import SchemaError
from sfumato.schema.codebooks.variable import Variable, of_table, plain_number, text_of


def read(path: Path, table: str) -> list[Variable]:
    """The fields of a table schema, or of the resource of that name in a data package."""
    try:
        package = json.loads(text_of(path))
    except (ValueError, RecursionError):
        raise SchemaError("the codebook is not JSON; check the file") from None
    schema = _schema(package, table)
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(isinstance(field, Mapping) for field in fields):
        raise SchemaError("the table schema has no list of fields; check that it is a Frictionless data package")
    everywhere = schema.get("missingValues", [])
    return [_variable(field, everywhere) for field in fields if isinstance(field.get("name"), str)]


def _schema(package: Any, table: str) -> Mapping[str, Any]:
    if not isinstance(package, Mapping):
        raise SchemaError("the codebook is no data package; it must be an object with resources, or with fields")
    if "resources" not in package:
        return package
    resources = package["resources"] if isinstance(package["resources"], list) else []
    by_name = {str(one.get("name", "")): one for one in resources if isinstance(one, Mapping)}
    schema = by_name[of_table(by_name, table, "resources")].get("schema") if by_name else None
    if isinstance(schema, str):
        raise SchemaError("the data package keeps its table schema in another file; name that file as the codebook")
    if not isinstance(schema, Mapping):
        raise SchemaError("the resource has no table schema; add one with fields, or name another codebook")
    return schema


def _variable(field: Mapping[str, Any], everywhere: object) -> Variable:
    limits = field.get("constraints")
    limits = limits if isinstance(limits, Mapping) else {}
    values = {plain_number(one): "" for one in _list(limits.get("enum"))}
    for one in _list(field.get("categories")):
        if isinstance(one, Mapping):
            values[plain_number(one.get("value", ""))] = str(one.get("label", ""))
        else:
            values[plain_number(one)] = ""
    missing = [_word(one) for one in _list(field.get("missingValues", everywhere))]
    truths = {str(one): truth for key, truth in (("trueValues", True), ("falseValues", False)) for one in
              _list(field.get(key))}  # fmt: skip
    return Variable(
        field["name"],
        "" if field.get("type") == "any" else str(field.get("type", "")),
        values,
        plain_number(limits.get("minimum", "")),
        plain_number(limits.get("maximum", "")),
        tuple(word for word in missing if word),
        truths if field.get("type") == "boolean" else {},
    )


def _word(one: object) -> str:
    """A missing value, which may come with a label."""
    return plain_number(one.get("value", "") if isinstance(one, Mapping) else one)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
