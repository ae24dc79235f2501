"""Commands `sfumato schema`: find every mistake in a schema file, and print its JSON Schema for editors.

Find every mistake in a schema file, each with its line and column, for `sfumato schema check`.
"""

from __future__ import annotations

import json as json_text
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfumato.cli.shared import JSON, MANNER, QUIET, give
from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.plain_text import counted

if TYPE_CHECKING:
    from sfumato.schema.file import Place

app = typer.Typer()


@app.command()
def check(
    schema: Path = typer.Argument(help="The public schema (YAML).", show_default=False),
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Name the line and column of every mistake. Reads the schema alone, and no table."""
    from sfumato.cli.show import load_schema, say
    from sfumato.errors import SchemaError

    try:
        found = mistakes_in(schema)
    except SchemaError as problem:
        raise SchemaError(f"{schema}: {problem}", kind=problem.kind) from None
    if MANNER.json:
        records = [{"line": one.line, "column": one.column, "message": one.message} for one in found]
        give({"schema": str(schema), "mistakes": records})
    for one in found:
        say(f"{schema}:{one.line}:{one.column}: {one.message}")
    if found:
        raise SchemaError(f"{schema} has {counted(len(found), 'mistake')}; mend and check again")
    public = load_schema(schema)
    sizes = {"attribute": len(public.attributes), "measure": len(public.measures), "cell": public.domain.size}
    say(f"{schema}: no mistake; {', '.join(counted(number, what) for what, number in sizes.items())}")


@app.command()
def json(
    out: Path | None = typer.Option(None, "-o", "--out", help="Write it to this file instead of printing it."),
    quiet: bool = QUIET,
) -> None:
    """Print the JSON Schema of schema files, by which an editor completes and checks them."""
    from sfumato.cli.show import say, say_kept
    from sfumato.releases.file.artifact import write_text

    if out is None:
        typer.echo(_json_schema(), nl=False)
        return
    say_kept(write_text(out, _json_schema()))
    say(f"{out}: name it in the first line of a schema: # yaml-language-server: $schema={out.name}")


def help_editors(draft: Path) -> None:
    """Write the JSON Schema that the first line of a draft names beside it, unless it is there."""
    from sfumato.cli.show import say, say_kept
    from sfumato.releases.file.artifact import write_text
    from sfumato.schema.json_schema import FILE

    beside, text = draft.with_name(FILE), _json_schema()
    if not draft.is_file() or draft.name == FILE or (beside.is_file() and beside.read_text("utf-8") == text):
        return
    say_kept(write_text(beside, text))
    say(f"{beside}: by it an editor completes and checks {draft.name}.")


def _json_schema() -> str:
    from sfumato.schema.json_schema import json_schema

    return json_text.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"


# -- mistakes


@dataclass(frozen=True)
class Mistake:
    """Mistake in a schema file with its line and column, from 1; the message says what to do."""

    line: int
    column: int
    message: str


def mistakes_in(path: Path) -> list[Mistake]:
    """All mistakes of a schema file, in the order of its lines; what only shows after one is mended comes later.

    A file that cannot be read raises a SchemaError.
    """
    from sfumato.schema.file import read_yaml_with_places
    from sfumato.schema.remedies import blanks_of

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
    from sfumato.schema.file import with_values_from_files
    from sfumato.schema.schema import Schema

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
    """Locate a mistake: at its value, or at its key if it is about the key; else at the nearest key above."""
    if not keys:  # a message begins with the keys that it is about
        named = [path for path in places if re.match(re.escape(".".join(path)) + r"\b", message)]
        keys = max(named, key=len, default=())
    about_value = re.match(re.escape(".".join(keys)) + " (is|must|holds|names|runs) (?!blank|missing)", message)
    while keys and keys not in places:
        keys, about_value = keys[:-1], None
    key, value = places.get(keys, ((1, 1), (1, 1)))
    return Mistake(*(value if about_value else key), message)
