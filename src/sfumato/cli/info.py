"""Commands about a release file: `info`, `report` and `certificate` describe it, `keygen` and `sign` vouch for it.

`info` prints columns, guarantee, rules of counting and typical errors; `report` writes one HTML page; `certificate`
prints what the release promises, for people and for programs. Signatures are by an Ed25519 key.
"""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli.query import MAPS, MOST_CELLS, RELEASE, SIGNED, TABLE, TO_FILE, maps_in
from sfumato.cli.shared import JSON, MANNER, QUIET, VERBOSE, give
from sfumato.errors import QueryError

if TYPE_CHECKING:
    from sfumato.releases.description import Description
    from sfumato.releases.release import Release


STATED = typer.Option(
    [], "--with", metavar="NAME=VALUE", help="A fact that only the curator knows: curator, published, license, ..."
)


class Form(StrEnum):
    """Output format of a certificate."""

    text = "text"
    json = "json"
    jsonld = "jsonld"
    registry = "registry"


def info(
    release: Path = RELEASE,
    confidence: float = typer.Option(
        0.95, "--confidence", help="The confidence of the typical intervals, between 0 and 1."
    ),
    most_cells: int | None = MOST_CELLS,
    require_signature: Path | None = SIGNED,
    as_json: bool = JSON,
    verbose: bool = VERBOSE,
) -> None:
    """Describe a release: its columns, guarantee, rules of counting and typical errors, with queries to try first."""
    from sfumato.cli.show import working
    from sfumato.releases.file.artifact import is_linked
    from sfumato.releases.release import open_release

    with working("describing the release"):
        opened = open_release(release, most_cells=most_cells, require_signature=require_signature)
        about = None if is_linked(release) else opened.describe(confidence=confidence)
    if about is None:
        _of_tables(opened, release, confidence)
        return
    if as_json:
        give(about.to_dict())
        return
    from sfumato.cli.show import say

    say(f": {about.extent}, mechanism {about.mechanism}, {about.promise}.", bold=about.schema.dataset)
    say(about.guarantee.statement)
    say(about.families)
    say()
    _say(about, release)


def _of_tables(opened: Release, release: Path, confidence: float) -> None:
    """Describe linked tables: what they promise together and how they are linked, then each table."""
    from sfumato.cli.show import say, table
    from sfumato.releases.group_privacy import group_privacy, in_words
    from sfumato.releases.linked import Linked

    assert isinstance(opened, Linked)  # noqa: S101 (its file is one)
    every = {name: one.describe(confidence=confidence) for name, one in opened.tables.items()}
    promised, links = opened.guarantee, opened.query("SHOW TABLES")
    if MANNER.json:
        told = {name: about.to_dict() for name, about in every.items()}
        give(
            {"dataset": opened.schema.dataset, "guarantee": promised.record(), "links": links.records(), "tables": told}
        )
        return
    say(f": {len(every)} linked tables, epsilon {float(promised.epsilon):g}.", bold=opened.schema.dataset)
    say(promised.statement)
    say(in_words(group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho)))
    say()
    table(*links.texts(), left=range(len(links.columns)))
    for about in every.values():
        say()
        say(f": {about.extent}, mechanism {about.mechanism}, {about.promise}.", bold=about.schema.dataset)
        _say(about, release)


def _say(about: Description, release: Path) -> None:
    from sfumato.cli.show import command, say, table
    from sfumato.schema.columns import HEADERS

    table(HEADERS, about.column_rows, left=(0, 1, 2, 4))
    say()
    if about.counted:
        say("Counted by rule:")
        for rule in about.counted:
            say(f"  {rule}")
        say()
    say(f"Errors: {about.errors}.{' Typically:' * bool(about.typical)}")
    if about.typical:
        table(about.error_headers, about.typical_rows, left=(0,))
    say()
    if about.findings:
        say("Found:")
        for finding in about.findings:
            say(f"  {finding}")
        say()
    for place, example in enumerate(about.examples):
        say(f"{'Try: ' if place == 0 else '     '}{command('query', release, example)}")


# -- report

PAGE = typer.Option(..., "-o", "--out", help="The .html file to write. It needs no other file.", show_default=False)


def report(
    release: Path = RELEASE,
    out: Path = PAGE,
    table: str | None = TABLE,
    confidence: float = typer.Option(0.95, "--confidence", help="The confidence of the intervals, between 0 and 1."),
    maps: list[str] = MAPS,
    language: str = typer.Option("en", "--language", help="The language of the page: en, de or fr."),
    stated: list[str] = STATED,
    require_signature: Path | None = SIGNED,
    most_cells: int | None = MOST_CELLS,
    quiet: bool = QUIET,
    verbose: bool = VERBOSE,
) -> None:
    """Write an HTML page about a release: its guarantee, its numbers and their errors. The page works offline."""
    from sfumato.cli.show import say, say_kept, working
    from sfumato.public.report.report import report as report_of
    from sfumato.releases.file.artifact import write_text

    with working("writing a report") as step:
        page = report_of(
            release,
            table=table,
            confidence=confidence,
            require_signature=require_signature,
            most_cells=most_cells,
            facts=facts_in(stated),
            maps=maps_in(maps),
            language=language,
            step=step,
        )
    kept = write_text(out, page)
    say(f"{out}: {len(page.encode()) / 1e6:.2f} MB, one file. Open it in a browser, or send it to somebody.")
    say_kept(kept)


def certificate(
    release: Path = RELEASE,
    form: Form = typer.Option(
        Form.text, "--format", help="text; json; jsonld (a schema.org and Croissant Dataset); registry (a YAML entry)."
    ),
    stated: list[str] = STATED,
    require_signature: Path | None = SIGNED,
    most_cells: int | None = MOST_CELLS,
    out: Path | None = TO_FILE,
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


# -- signing


def keygen(
    key: Path | None = typer.Argument(
        None,
        metavar="KEY",
        help="The file for the private key. The public key goes to the same name with .pub.",
        show_default=False,
    ),
    out: Path | None = typer.Option(None, "-o", "--out", hidden=True),  # as it was called at first
    quiet: bool = QUIET,
) -> None:
    """Make a pair of Ed25519 keys: a private one to sign with and a public one to share. Overwrites no file."""
    from sfumato.cli.show import say
    from sfumato.releases.signature import make_keys

    named = [path for path in (key, out) if path is not None]
    if len(named) != 1:
        raise typer.BadParameter("name one file for the private key, such as `sfumato keygen office.key`")
    (path,) = named
    public, fingerprint = make_keys(path)
    say(f"{path}: your private key. Nobody else may see it; who has it can sign in your name.")
    say(f"{public}: the public key, {fingerprint}. Give it out where people know that it is yours.")


def sign(
    release: Path = RELEASE,
    key: Path = typer.Option(..., "--key", help="Your private key, from `sfumato keygen`.", show_default=False),
    quiet: bool = QUIET,
) -> None:
    """Sign a release. The signature goes to RELEASE.sig; the release itself does not change."""
    from sfumato.cli.show import say, say_kept
    from sfumato.releases.file.artifact import write_text
    from sfumato.releases.signature import sign_release, signature_beside

    signature = sign_release(release, key)
    beside = signature_beside(release)
    kept = write_text(beside, signature.text)
    say(f"{beside}: the signature of {release} by {signature.by}. Publish both files together.")
    say_kept(kept)
