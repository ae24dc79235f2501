"""Commands `sfumato schema`: find every mistake in a schema file, and print its JSON Schema for editors."""

from __future__ import annotations

import json as json_text
from pathlib import Path

import typer

from sfumato.cli.shared import JSON, MANNER, QUIET, give
from sfumato.plain_text import counted

app = typer.Typer(help="Find the mistakes in a schema file, or help an editor to.", no_args_is_help=True)


@app.command()
def check(
    schema: Path = typer.Argument(help="The public schema (YAML).", show_default=False),
    quiet: bool = QUIET,
    as_json: bool = JSON,
) -> None:
    """Name the line and column of every mistake. Reads the schema alone, and no table."""
    from sfumato.cli.show import load_schema, say
    from sfumato.errors import SchemaError
    from sfumato.schema.mistakes import mistakes_in

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
