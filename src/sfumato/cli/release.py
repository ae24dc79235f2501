"""Command `sfumato release`: publish a table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli.shared.conventions import JSON, QUIET
from sfumato.cli.shared.file_options import Given, takes_file_options
from sfumato.models import every_name

if TYPE_CHECKING:
    from sfumato.publishing.publish import Published
    from sfumato.publishing.request import Request


def mechanisms_like(incomplete: str) -> list[str]:
    """Names of mechanisms that complete a prefix, for the shell."""
    return [name for name in ("auto", *every_name()) if name.startswith(incomplete)]


TABLE = typer.Argument(
    help="A path or glob (csv, jsonl, parquet, arrow, xlsx), - for standard input, or a database URL with --table.",
    show_default=False,
)
SCHEMA = typer.Option(..., "--schema", help="The public schema (YAML).", show_default=False)
EPSILON = typer.Option(
    ..., "--epsilon", help="The privacy budget that this release spends, such as 0.5 or 1/3.", show_default=False
)
OUT = typer.Option(..., "-o", "--out", help="The release file to write.", show_default=False)
DELTA = typer.Option(
    None, "--delta", help="Allow Gaussian noise with this delta, such as 1e-6, where it reduces the error."
)
MECHANISM = typer.Option(
    "auto",
    "--mechanism",
    help=f"auto (the choice of `sfumato plan`), or one of {', '.join(every_name())}.",
    autocompletion=mechanisms_like,
)
WORKLOAD = typer.Option(
    None, "--workload", help="A file of the SELECT statements that matter most. Some mechanisms adapt to it."
)
WITH = typer.Option(
    [], "--with", metavar="NAME=VALUE", help="An option of the mechanism, from its page. Repeat for several."
)
LEDGER = typer.Option(None, "--ledger", help="The ledger file. Default: SFUMATO_LEDGER, or one per user.")
REQUIRE = typer.Option(
    False, "--require-ledger", help="Stop if there is no ledger yet, so that earlier spending is known."
)
ANOTHER_UNIT = typer.Option(
    False, "--another-unit", help="Confirm that this privacy unit differs from that of earlier releases."
)
NAME = typer.Option(None, "--table", help="The table's name inside a database.")
VIEWS = typer.Option(
    False,
    "--allow-views",
    help="Allow a view. The guarantee is then about the rows of the view, not about the tables behind it.",
)

USELESS = typer.Option(
    False, "--even-if-useless", help="Go on even if the noise is expected to exceed the counts of single values."
)
AGAIN = typer.Option(False, "--again", help="Confirm that the last release is to be repeated and paid for once more.")
IF_MISSING = typer.Option(
    False, "--if-missing", help="Do nothing if the file exists and has the same schema and epsilon."
)
DRY_RUN = typer.Option(False, "--dry-run", help="Check everything and show the cost, but spend nothing.")


@takes_file_options
def release(
    table: str = TABLE,
    schema: Path = SCHEMA,
    epsilon: str = EPSILON,
    out: Path = OUT,
    delta: str | None = DELTA,
    mechanism: str = MECHANISM,
    workload: Path | None = WORKLOAD,
    options: list[str] = WITH,
    ledger: Path | None = LEDGER,
    require_ledger: bool = REQUIRE,
    another_unit: bool = ANOTHER_UNIT,
    name: str | None = NAME,
    allow_views: bool = VIEWS,
    even_if_useless: bool = USELESS,
    again: bool = AGAIN,
    if_missing: bool = IF_MISSING,
    dry_run: bool = DRY_RUN,
    quiet: bool = QUIET,
    as_json: bool = JSON,
    file: Given = typer.Option({}),
) -> None:
    """Publish a table: reserve budget, read the table once, add noise, and write one file that anyone may query."""
    from sfumato.cli.shared.conventions import Interrupted, left_behind
    from sfumato.cli.shared.file_options import written

    begun: list[str] = []
    try:
        from sfumato.kernel.ledger.ledger import Ledger  # these take a while, in which a user may change their mind
        from sfumato.publishing.request import Request
        from sfumato.schema import Schema

        public = written(Schema.load(schema), file, table)
        book = Ledger(ledger, required=require_ledger)
        request = Request(
            public,
            epsilon,
            delta=delta,
            mechanism=mechanism,
            workload=workload,
            even_if_useless=even_if_useless,
            table_name=name,
            allow_views=allow_views,
            ledger=book,
            another_unit=another_unit,
            again=again,
        )
        if if_missing and _is_there(out, request):
            return
        if options:
            from sfumato.models.base.mechanism import stated_options

            request = replace(request, options=stated_options(options))
        if dry_run:
            from sfumato.cli.release_summary import tell_rehearsal
            from sfumato.publishing.publish import rehearse_release

            tell_rehearsal(rehearse_release(table, request, out), book, delta)
            return
        published = _publish(table, request, out, begun)
    except KeyboardInterrupt as stop:
        unsure = "what is reserved counts as spent, see `sfumato ledger show`" if begun else "nothing was reserved yet"
        raise Interrupted(left_behind(stop) or unsure) from None
    from sfumato.cli.release_summary import tell_published

    tell_published(published, book, delta, workload)


def _is_there(out: Path, request: Request) -> bool:
    from sfumato.publishing.prepare import already_there

    found = already_there(out, request)
    if found is not None:
        from sfumato.cli.release_summary import tell_there

        tell_there(found, out, request.ledger)
    return found is not None


def _publish(table: str, request: Request, out: Path, begun: list[str]) -> Published:
    """Make the release; a repeated request is confirmed first, if somebody sits at a terminal."""
    from sfumato.cli.shared.conventions import agreed, can_ask
    from sfumato.cli.show import notes, progress
    from sfumato.errors import RepeatedRelease
    from sfumato.publishing.publish import publish

    def once(request: Request) -> Published:
        with notes(), progress() as step:

            def noted(name: str) -> None:
                if name != "plan":  # which reserves nothing
                    begun.append(name)
                step(name)

            return publish(table, request, out, step=noted)

    try:
        return once(request)
    except RepeatedRelease as repeated:
        begun.clear()
        if not (can_ask() and agreed(f"{repeated}. Spend it once more?")):
            raise
        return once(replace(request, again=True))
