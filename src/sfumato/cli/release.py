"""Command `sfumato release`: publish a table, and say what was made, rehearsed or found to exist already.

Linked tables on the command line: `release` and `check` where the schema describes several tables.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from sfumato.cli.ledger import of_account, of_guarantee, promises
from sfumato.cli.shared import (
    JSON,
    MANNER,
    QUIET,
    VERBOSE,
    Given,
    Interrupted,
    agreed,
    can_ask,
    give,
    left_behind,
    one_amount,
    takes_file_options,
    written,
)
from sfumato.cli.show import balance, command, exact, left, left_in, load_any, say, say_kept, with_one_more
from sfumato.cli.show import table as show_table
from sfumato.models import every_name, find_mechanism

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.kernel.budget import Cost
    from sfumato.kernel.ledger.ledger import Account, Ledger
    from sfumato.kernel.opening import Step
    from sfumato.publishing.linked import PreparedTables, PublishedTables
    from sfumato.publishing.prepare import Request
    from sfumato.publishing.publish import Published, Rehearsal
    from sfumato.releases.file.manifest import Guarantee
    from sfumato.releases.release import Release
    from sfumato.schema import Schema
    from sfumato.schema.linked import LinkedSchema

T = TypeVar("T")


def mechanisms_like(incomplete: str) -> list[str]:
    """Names of mechanisms that complete a prefix, for the shell."""
    return [name for name in ("auto", *every_name()) if name.startswith(incomplete)]


TABLE = typer.Argument(
    help="A path or glob (csv, jsonl, parquet, arrow, xlsx), - for standard input, or a database URL with --table.",
    show_default=False,
)
SCHEMA = typer.Option(..., "--schema", help="The public schema (YAML).", show_default=False)
EPSILON = typer.Option(
    None, "--epsilon", help="The privacy budget that this release spends, such as 0.5 or 1/3.", show_default=False
)
RHO = typer.Option(
    None, "--rho", help="The same in rho of zero-concentrated privacy, such as 0.1, in place of --epsilon."
)
OUT = typer.Option(None, "-o", "--out", help="The release file to write.  [required]", show_default=False)
SERIES = typer.Option(
    None,
    "--series",
    help="In place of -o: the file of a series, which gets the release of one period as its next part.",
)
PERIOD = typer.Option(None, "--period", help="The period of the table in its series, such as 2026-11 or 2026-Q4.")
CORRECT = typer.Option(
    False, "--correct", help="Publish a period of the series once more. Both parts are charged; the new one answers."
)
PRIOR = typer.Option(
    None,
    "--prior",
    metavar="FILE",
    help="A release of a table like this one, published before: estimates lean on it as far as the two agree.",
    show_default=False,
)
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
    None,
    "--workload",
    help="A file of the SELECT statements that matter most: they get most of the accuracy, the rest stays useful.",
)
WORKLOAD_ONLY = typer.Option(
    False, "--workload-only", help="Serve the statements of --workload alone, at the cost of all other questions."
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
EXACT = typer.Option(
    False,
    "--even-though-exact",
    help="Publish the exact counts that the schema calls invariants, although nothing protects them.",
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
    epsilon: str | None = EPSILON,
    out: Path | None = OUT,
    delta: str | None = DELTA,
    rho: str | None = RHO,
    mechanism: str = MECHANISM,
    workload: Path | None = WORKLOAD,
    workload_only: bool = WORKLOAD_ONLY,
    options: list[str] = WITH,
    ledger: Path | None = LEDGER,
    require_ledger: bool = REQUIRE,
    another_unit: bool = ANOTHER_UNIT,
    even_though_exact: bool = EXACT,
    name: str | None = NAME,
    allow_views: bool = VIEWS,
    even_if_useless: bool = USELESS,
    again: bool = AGAIN,
    series: Path | None = SERIES,
    period: str | None = PERIOD,
    correct: bool = CORRECT,
    prior: Path | None = PRIOR,
    if_missing: bool = IF_MISSING,
    dry_run: bool = DRY_RUN,
    quiet: bool = QUIET,
    verbose: bool = VERBOSE,
    as_json: bool = JSON,
    file: Given = typer.Option({}),
) -> None:
    """Publish a table: reserve budget, read the table once, add noise, and write one file that anyone may query."""
    begun: list[str] = []
    one_amount(epsilon, rho)
    out = _file(out, series, period)
    try:
        from sfumato.kernel.ledger.ledger import Ledger  # these take a while, in which a user may change their mind
        from sfumato.publishing.prepare import Request
        from sfumato.schema import Schema
        from sfumato.schema.linked import LinkedSchema

        found = load_any(schema)
        linked = found if isinstance(found, LinkedSchema) else None
        public = written(found, file, table) if isinstance(found, Schema) else found.head
        book = Ledger(ledger, required=require_ledger)
        request = Request(
            public,
            epsilon,
            delta=delta,
            rho=rho,
            mechanism=mechanism,
            workload=workload,
            workload_only=workload_only,
            even_if_useless=even_if_useless,
            table_name=name,
            allow_views=allow_views,
            ledger=book,
            another_unit=another_unit,
            even_though_exact=even_though_exact,
            again=again,
            series=series,
            period=period,
            correct=correct,
            prior=prior,
        )
        if if_missing and _is_there(out, request):
            return
        if options:
            from sfumato.models.base.mechanism import stated_options

            request = replace(request, options=stated_options(options))
        if linked is not None:
            return _release_linked(table, linked, request, out, begun, dry_run=dry_run)
        if dry_run:
            from sfumato.publishing.publish import rehearse_release

            tell_rehearsal(rehearse_release(table, request, out), book, delta)
            return
        published = _publish(table, request, out, begun)
    except KeyboardInterrupt as stop:
        unsure = "what is reserved counts as spent, see `sfumato ledger show`" if begun else "nothing was reserved yet"
        raise Interrupted(left_behind(stop) or unsure) from None
    tell_published(published, book, delta, workload)


def _file(out: Path | None, series: Path | None, period: str | None) -> Path:
    """The file to write: that of a release, or that of a series."""
    if out is not None and series is not None:
        raise typer.BadParameter("--series names the file that is written; leave out -o")
    if (series is None) != (period is None):
        raise typer.BadParameter("--series and --period go together: the file, and the period of this table")
    if (file := out or series) is None:
        raise typer.BadParameter("name the file to write: -o FILE, or --series FILE with --period")
    return file


def _is_there(out: Path, request: Request) -> bool:
    from sfumato.publishing.prepare import already_there

    found = already_there(out, request)
    if found is not None:
        tell_there(found, out, request.ledger)
    return found is not None


def _release_linked(
    table: str, linked: LinkedSchema, request: Request, out: Path, begun: list[str], *, dry_run: bool
) -> None:
    from sfumato.publishing.linked import publish_linked, rehearse_linked

    if dry_run:
        was, account = rehearse_linked(table, linked, request, out)
        return tell_tables_rehearsed(was, out, account, request.ledger)
    tell_tables(
        _asking(lambda step, one: publish_linked(table, linked, one, out, step=step), request, begun), request.ledger
    )


def _publish(table: str, request: Request, out: Path, begun: list[str]) -> Published:
    from sfumato.publishing.publish import publish

    return _asking(lambda step, one: publish(table, one, out, step=step), request, begun)


def _asking(publish: Callable[[Step, Request], T], request: Request, begun: list[str]) -> T:
    """Make a release; a repeated request is confirmed first, if somebody sits at a terminal."""
    from sfumato.cli.show import notes, progress
    from sfumato.errors import RepeatedRelease

    def once(request: Request) -> T:
        with notes(), progress() as step:

            def noted(name: str) -> None:
                if name != "plan":  # which reserves nothing
                    begun.append(name)
                step(name)

            return publish(noted, request)

    try:
        return once(request)
    except RepeatedRelease as repeated:
        begun.clear()
        if not (can_ask() and agreed(f"{repeated}. Spend it once more?")):
            raise
        return once(replace(request, again=True))


def tell_published(published: Published, book: Ledger, delta: str | None, workload: Path | None) -> None:
    """Print the summary of a release that was made: path, guarantee, cost, and first queries."""
    from sfumato.schema.schema import counted_in_short, what_is_counted

    if not (MANNER.talk or MANNER.json):
        return
    made, why, errors, warnings = published.release, published.prepared.why, published.errors(), published.warnings()
    public, account = made.schema, book.account(made.schema.dataset)
    if MANNER.json:
        kept, receipt = published.kept, made.receipt or {}
        facts = _facts("released", published.path, public.dataset, made.mechanism, made.guarantee, errors, account)
        facts |= {"counted": list(what_is_counted(public)), "warnings": list(warnings)}
        _give(facts, book, why=why, kept=kept, charged=_charged(made.guarantee), entry=receipt.get("entry"))
        return
    say(f": {made.content.about.extent}, mechanism {made.mechanism}.", bold=str(published.path))
    if why is not None:
        say(f"Why this mechanism: {why}.")
    _tell_errors(errors)
    for warning in warnings:
        say(warning)
    say(made.guarantee.statement)
    _tell_promise(made.guarantee, delta)
    if counted := counted_in_short(public):
        say(f"Counted: {counted}.")
    _tell_period(public)
    say(f"Budget of {public.dataset}: {balance(account)} (ledger {book.path}).")
    if len(account.promises) > 1:
        say(f"Together: {promises(account)}.")
    say_kept(published.kept)
    first = f"SELECT COUNT(*) FROM {public.dataset}"
    if find_mechanism(made.mechanism).answers == "its workload":
        say("Only what follows from the queries of the workload has an answer in this file; the rest is unknown.")
        if workload is not None:
            from sfumato.planner.questions import read_statements

            ((first, _), *_) = read_statements(workload, public)
    about = made.content.about
    for finding in about.findings:
        say(f"{finding}.")
    if about.examples:
        first = about.examples[0]
    elif not made.content.answers_counts:
        say(f"Try: {command('info', published.path)}")
        return
    say(f"Try: {command('query', published.path, first)}")


def tell_rehearsal(found: Rehearsal, book: Ledger, delta: str | None) -> None:
    """Print the summary of a dry run."""
    was, account = found.prepared, found.account
    name, cost = was.schema.dataset, was.cost
    if MANNER.json:
        facts = _facts("dry run", found.path, name, was.mechanism.name, found.guarantee, found.errors, account)
        facts |= {"warnings": list(found.warnings)}
        _give(facts, book, why=was.why, replaces=found.replaces, would_charge=_charged(cost))
        return
    say(f": mechanism {was.mechanism.name}. A dry run: no row was read, nothing was spent.", bold=str(found.path))
    if was.why is not None:
        say(f"Why this mechanism: {was.why}.")
    _tell_errors(found.errors)
    for warning in found.warnings:
        say(warning)
    say(found.guarantee.statement)
    _tell_promise(found.guarantee, delta)
    _tell_period(was.schema)
    what = f"epsilon {exact(cost.epsilon)}" + (f" and delta {exact(cost.delta)}" if cost.delta else "")
    then = with_one_more(account, cost, found.period)
    rest = left(then) if found.period is None else left_in(then, found.period)
    say(f"It would charge {what} to {name}: {balance(account)}; {exact(rest)} would be left then (ledger {book.path}).")
    if book.identity() is None:
        say("There is no such ledger: a new one would be made, which knows of no earlier release.")
    if found.replaces:
        say("A file of that name is there; it would be kept under another.")


def tell_there(found: Release, path: Path, book: Ledger) -> None:
    """Print that the release exists already, so that nothing was done."""
    name = found.schema.dataset
    if MANNER.json:
        facts = _facts("there already", path, name, found.mechanism, found.guarantee, {}, book.account(name))
        _give(facts, book)
    say(" is there already, with this schema and epsilon. Nothing was read and nothing was spent.", bold=str(path))


def _facts(
    done: str,
    path: Path,
    dataset: str,
    mechanism: str,
    promise: Guarantee,
    errors: Mapping[str, float],
    account: Account,
) -> dict[str, Any]:
    facts: dict[str, Any] = {"done": done, "file": path, "dataset": dataset, "mechanism": mechanism}
    return facts | {"guarantee": of_guarantee(promise), "expected_errors": dict(errors), "budget": of_account(account)}


def _give(facts: dict[str, Any], book: Ledger, **more: object) -> None:
    give({**facts, **more, "ledger": {"path": book.path, "identity": book.identity()}})


def _charged(cost: Cost | Guarantee) -> dict[str, Any]:
    return {"epsilon": cost.epsilon, "delta": cost.delta}


def _tell_errors(errors: Mapping[str, float]) -> None:
    from sfumato.plain_text import as_rows

    if errors:
        say("What to expect of counts, by how many attributes they name:")
        show_table(("counts of", "± std. error"), [(kind, as_rows(error)) for kind, error in errors.items()], left=(0,))


def _tell_period(schema: Schema) -> None:
    """Print that nothing tells which period a row is of, where the schema names no column for it."""
    if schema.series is not None and schema.series.column is None:
        say(
            f"All rows of the table were taken to be of this {schema.series.period}, and nothing checks it: name the "
            "column that says so as series.column in the schema, where there is one."
        )


def _tell_promise(promise: Guarantee, delta: str | None) -> None:
    """Print the guarantee, and what became of a delta that was given."""
    if promise.delta:
        assert promise.rho is not None  # noqa: S101 (a guarantee with a delta has both)
        what = f"epsilon {exact(promise.epsilon)}, delta {exact(promise.delta)}"
        say(f"Guarantee: {what}, from rho {exact(promise.rho)} of zero-concentrated privacy.")
    elif delta is not None:
        say("No delta was needed. The guarantee is pure epsilon.")


# -- linked tables


def tell_tables(published: PublishedTables, book: Ledger) -> None:
    """Print the summary of linked tables that were released."""
    from sfumato.releases.release import open_release

    was, made = published.prepared, open_release(published.path, allow_not_private=True)
    account = book.account(was.linked.dataset)
    if MANNER.json:
        facts = _facts_of_tables("released", was, published.path, account)
        give({**facts, "kept": published.kept, "guarantee": made.guarantee.statement})
        return
    say(f": {len(was.tables)} linked tables.", bold=str(published.path))
    _tell_tables(was)
    say(made.guarantee.statement)
    say(f"Budget of {was.linked.dataset}: {balance(account)} (ledger {book.path}).")
    say_kept(published.kept)
    say(f"Try: {command('query', published.path, f'SELECT COUNT(*) FROM {list(was.tables)[-1]}')}")


def tell_tables_rehearsed(was: PreparedTables, path: Path, account: Account, book: Ledger) -> None:
    """Print the summary of a dry run."""
    if MANNER.json:
        give({**_facts_of_tables("dry run", was, path, account), "ledger": book.path})
        return
    say(f": {len(was.tables)} linked tables. A dry run: no row was read, nothing was spent.", bold=str(path))
    _tell_tables(was)
    what = f"epsilon {exact(was.cost.epsilon)}" + (f" and delta {exact(was.cost.delta)}" if was.cost.delta else "")
    rest = left(with_one_more(account, was.cost))
    say(f"It would charge {what} to {was.linked.dataset}: {balance(account)}; {exact(rest)} would be left then.")


def _facts_of_tables(done: str, was: PreparedTables, path: Path, account: Account) -> dict[str, object]:
    parts = {
        name: {
            "mechanism": one.mechanism.name,
            "epsilon": one.cost.epsilon,
            "delta": one.cost.delta,
            "rho": one.cost.rho,
        }
        for name, one in was.tables.items()
    }
    links = was.linked.to_dict()
    tables = {name: {**links[name], **part} for name, part in parts.items()}
    facts: dict[str, object] = {"done": done, "file": path, "dataset": was.linked.dataset, "tables": tables}
    return {**facts, "epsilon": was.cost.epsilon, "delta": was.cost.delta, "budget": of_account(account)}


def _tell_tables(was: PreparedTables) -> None:
    headers = ("table", "of one unit at most", "epsilon" if was.cost.pure else "rho", "mechanism")
    rows = []
    for name, one in was.tables.items():
        budget, limit = one.cost.budget, was.linked.tables[name].limit
        rows.append(
            (name, "1 row" if limit == 1 else f"{limit:,} rows", f"{float(budget.amount):.3g}", one.mechanism.name)
        )
    show_table(headers, rows, left=(0, 3))
