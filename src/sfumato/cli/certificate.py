"""Command `sfumato certificate`: print what a release promises, for people and for programs."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path

import typer

from sfumato.cli.query import MOST_CELLS, RELEASE, SIGNED
from sfumato.errors import QueryError

STATED = typer.Option(
    [], "--with", metavar="NAME=VALUE", help="A fact that only the curator knows: curator, published, license, ..."
)
OUT = typer.Option(None, "-o", "--out", help="Write to this file instead of printing.", show_default=False)


class Form(StrEnum):
    """Output format of a certificate."""

    text = "text"
    json = "json"
    jsonld = "jsonld"
    registry = "registry"


def certificate(
    release: Path = RELEASE,
    form: Form = typer.Option(
        Form.text, "--format", help="text; json; jsonld (a schema.org and Croissant Dataset); registry (a YAML entry)."
    ),
    stated: list[str] = STATED,
    require_signature: Path | None = SIGNED,
    most_cells: int | None = MOST_CELLS,
    out: Path | None = OUT,
) -> None:
    """Print what a release promises: guarantee, unit, mechanism, receipt, software, hashes, signature."""
    from sfumato.public.certificate.record import certificate as certificate_of

    found = certificate_of(release, facts=facts_in(stated), require_signature=require_signature, most_cells=most_cells)
    if form is Form.text:
        text = f"{found!r}\n"
    elif form is Form.registry:
        import yaml

        text = yaml.safe_dump(found.registry(), sort_keys=False, allow_unicode=False, width=100)
    else:
        record = found.to_dict() if form is Form.json else found.croissant()
        text = json.dumps(record, indent=2, ensure_ascii=True, allow_nan=False) + "\n"
    if out is None:
        typer.echo(text, nl=False)
        return
    from sfumato.cli.show import say, say_kept
    from sfumato.releases.file.artifact import write_text

    kept = write_text(out, text)
    say(f"{out}: the certificate of {release}.")
    say_kept(kept)


def facts_in(stated: list[str]) -> dict[str, str]:
    """Parse the facts stated by --with, by name."""
    facts = {}
    for one in stated:
        name, equals, value = one.partition("=")
        if not equals:
            raise QueryError(f"--with takes NAME=VALUE such as curator='Statistics Office', not {one!r}")
        facts[name.strip()] = value
    return facts
