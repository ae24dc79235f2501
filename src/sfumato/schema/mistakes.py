"""Find every mistake in a schema file, each with its line and column, for `sfumato schema check`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.schema.file import Place, read_yaml_with_places, with_values_from_files
from sfumato.schema.remedies import blanks_of
from sfumato.schema.schema import Schema


@dataclass(frozen=True)
class Mistake:
    """A mistake and where it stands, both counted from 1; the message says what to do."""

    line: int
    column: int
    message: str


def mistakes_in(path: Path) -> list[Mistake]:
    """All mistakes of a schema file, in the order of its lines; what only shows after one is mended comes later.

    A file that cannot be read raises a SchemaError.
    """
    try:
        mapping, places = read_yaml_with_places(path)
    except SchemaError as problem:
        if problem.mark is None:
            raise
        return [Mistake(*problem.mark, re.sub(r"^line [0-9]+: ", "", str(problem)))]
    try:
        blanks = blanks_of(mapping) if isinstance(mapping, Mapping) else []
    except SchemaError as problem:  # a key that is no text
        return [_found((), str(problem), places)]
    found = [_found(keys, message, places) for keys, message in blanks]
    filled = mapping
    for keys, _ in blanks:
        filled = _without(filled, keys)
    for keys, message in _refused(filled, path.parent):
        hidden = any(keys and blank[: len(keys)] == keys for blank, _ in blanks)  # it is missing because it is blank
        if not hidden:
            found.append(_found(keys, message, places))
    return sorted(found, key=lambda one: (one.line, one.column))


def _refused(mapping: object, folder: Path) -> list[tuple[tuple[str, ...], str]]:
    try:
        Schema.from_dict(with_values_from_files(mapping, folder))
    except SchemaError as problem:
        return list(problem.mistakes) or [((), str(problem))]
    return []


def _without(mapping: Any, keys: tuple[str, ...]) -> Any:
    """A nested mapping without the key at the end of a path."""
    first, *rest = keys
    if not rest:
        return {key: part for key, part in mapping.items() if key != first}
    return {key: _without(part, tuple(rest)) if key == first else part for key, part in mapping.items()}


def _found(keys: tuple[str, ...], message: str, places: Mapping[tuple[str, ...], Place]) -> Mistake:
    """A mistake where its value stands, or its key if it is about the key; else where the nearest key above does."""
    if not keys:  # a message begins with the keys that it is about
        named = [path for path in places if re.match(re.escape(".".join(path)) + r"\b", message)]
        keys = max(named, key=len, default=())
    about_value = re.match(re.escape(".".join(keys)) + " (is|must|holds|names|runs) (?!blank|missing)", message)
    while keys and keys not in places:
        keys, about_value = keys[:-1], None
    key, value = places.get(keys, ((1, 1), (1, 1)))
    return Mistake(*(value if about_value else key), message)
