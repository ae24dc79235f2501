"""sfumato release: publish a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli.input.file_options import Given, takes_file_options
from sfumato.mechanisms import MODULES, find_mechanism

if TYPE_CHECKING:
    from sfumato.publishing.publish import Published

TABLE = typer.Argument(
    help="A path or glob (csv, jsonl, parquet, arrow, xlsx), - for standard input, or a database URL with --table.",
    show_default=False,
)
SCHEMA = typer.Option(..., "--schema", help="The public schema (YAML).", show_default=False)
EPSILON = typer.Option(..., "--epsilon", help="What this release costs, such as 0.5 or 1/3.", show_default=False)
OUT = typer.Option(..., "-o", "--out", help="The release file to write.", show_default=False)
DELTA = typer.Option(None, "--delta", help="Allow Gaussian noise at this delta, such as 1e-6, where it is of use.")
MECHANISM = typer.Option(
    "auto", "--mechanism", help=f"auto takes what `sfumato plan` would; or one of {', '.join(MODULES)}."
)
WORKLOAD = typer.Option(
    None, "--workload", help="A file of SELECT statements that matter most; mechanisms adapt to it."
)
LEDGER = typer.Option(None, "--ledger", help="The ledger file; by default one for each user (or SFUMATO_LEDGER).")
REQUIRE = typer.Option(
    False, "--require-ledger", help="Refuse to make a new ledger: what was spent before must be known."
)
ANOTHER_UNIT = typer.Option(
    False, "--another-unit", help="The schema's privacy unit is not the one of earlier releases, and that is meant."
)
NAME = typer.Option(None, "--table", help="The table's name inside a database.")
VIEWS = typer.Option(
    False,
    "--allow-views",
    help="Read a view too. The promise is then about the rows it gives, not about the tables behind it.",
)

USELESS = typer.Option(
    False,
    "--even-if-useless",
    help="Go on even if, by the schema's expected_rows, every count of a single value would be noise.",
)


@takes_file_options
def release(
    table: str = TABLE,
    schema: Path = SCHEMA,
    epsilon: str = EPSILON,
    out: Path = OUT,
    delta: str | None = DELTA,
    mechanism: str = MECHANISM,
    workload: Path | None = WORKLOAD,
    ledger: Path | None = LEDGER,
    require_ledger: bool = REQUIRE,
    another_unit: bool = ANOTHER_UNIT,
    name: str | None = NAME,
    allow_views: bool = VIEWS,
    even_if_useless: bool = USELESS,
    file: Given = typer.Option({}),
) -> None:
    """Publish a table: reserve the budget, read once, add noise, write one file that anyone may query."""
    from sfumato.cli.input.file_options import written
    from sfumato.cli.ledger import deltas, promises
    from sfumato.cli.show import exact, notes, progress, say
    from sfumato.cli.show import table as table_
    from sfumato.cli.stopping import Interrupted, left_behind
    from sfumato.plain_text import as_rows

    begun: list[str] = []
    try:
        from sfumato.kernel.ledger.ledger import Ledger  # these take a while, in which a user may change their mind
        from sfumato.publishing.publish import publish
        from sfumato.schema import Schema

        public = written(Schema.load(schema), file)
        book = Ledger(ledger, required=require_ledger)
        with notes(), progress() as step:

            def noted(name: str) -> None:
                if name != "plan":  # which reserves nothing
                    begun.append(name)
                step(name)

            published = publish(
                table,
                public,
                epsilon,
                out,
                delta=delta,
                mechanism=mechanism,
                workload=workload,
                ledger=book,
                another_unit=another_unit,
                table_name=name,
                allow_views=allow_views,
                even_if_useless=even_if_useless,
                step=noted,
            )
    except KeyboardInterrupt as stop:
        unsure = "what is reserved counts as spent, see `sfumato ledger show`" if begun else "nothing was reserved yet"
        raise Interrupted(left_behind(stop) or unsure) from None
    made = published.release
    say(f": {made.content.about.extent}, mechanism {made.mechanism}.", bold=str(published.path))
    if published.why is not None:
        say(f"Why this mechanism: {published.why}.")
    if errors := published.errors():
        say("What to expect of counts, by how many attributes they name:")
        table_(("counts of", "± std. error"), [(kind, as_rows(error)) for kind, error in errors.items()], left=(0,))
    say(made.guarantee.statement)
    say_what_is_promised(published, delta)
    account = book.account(public.dataset)
    say(
        f"Budget of {public.dataset}: epsilon {exact(account.spent)} of {exact(account.total)} spent, "
        f"{exact(account.left)} left{deltas(account)} (ledger {book.path})."
    )
    if len(account.promises) > 1:
        say(f"Together: {promises(account)}.")
    if published.kept is not None:
        say(f"An earlier file of that name was kept as {published.kept}.")
    first = f"SELECT COUNT(*) FROM {public.dataset}"
    if find_mechanism(made.mechanism).answers == "its workload":
        say("Only what follows from the queries of the workload has an answer in this file; the rest is unknown.")
        if workload is not None:
            from sfumato.planner.questions import read_statements

            ((first, _), *_) = read_statements(workload, public)
    say(f'Try: sfumato query {published.path} "{first}"')


def say_what_is_promised(published: Published, delta: str | None) -> None:
    """The guarantee, and what became of a delta that was given."""
    from sfumato.cli.show import exact, say

    promise = published.release.guarantee
    if promise.delta:
        assert promise.rho is not None  # noqa: S101 (a guarantee with a delta has both)
        what = f"epsilon {exact(promise.epsilon)}, delta {exact(promise.delta)}"
        say(f"Guarantee: {what}, from rho {exact(promise.rho)} of zero-concentrated privacy.")
    elif delta is not None:
        reason = None if published.prepared is None else published.prepared.no_delta
        said = "No delta was needed" if reason is None else f"The delta could not be used and was not spent: {reason}"
        say(f"{said}. The guarantee is pure epsilon.")
