"""Register the commands of `sfumato`; those of the laboratory and the server are looked up by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import typer

from sfumato.cli import (
    certificate,
    check,
    combine,
    compare,
    completion,
    demo,
    discover,
    info,
    init,
    ledger,
    plan,
    predict,
    query,
    release,
    report,
    sample,
    schema,
    series,
    signing,
)
from sfumato.cli.shared import HELP, Stoppable, version


def registered(module: str, name: str) -> Callable[..., None]:
    """Load a command of the laboratory or of the server, which nothing here imports."""
    found: Callable[..., None] = getattr(import_module(module), name)
    return found


app = typer.Typer(
    name="sfumato",
    cls=Stoppable,
    help="Publish a private table once, safely. Anyone can then query the release, with honest error bars.",
    epilog=HELP,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo", short_help="Try everything on a made-up census whose truth is known.")(demo.demo)
app.command("init")(init.init)
app.command("discover", short_help="Fill the blanks of a draft from the table, privately. Costs budget.")(
    discover.discover
)
app.command("check", short_help="Show what a schema would drop, clip or not read. Not private.")(check.check)
app.command("plan", short_help="Show how large errors will be, before any release.")(plan.plan)
app.command("release", short_help="Publish a table as one file that anyone may query.")(release.release)
app.command("query", short_help="Ask a release in SQL. Every number has an error bar.")(query.query)
app.command("info", short_help="Describe a release: columns, guarantee, typical errors.")(info.info)
app.command("sample")(sample.sample)
app.command("predict", short_help="Predict your own rows with a published model.")(predict.predict)
app.command("report", short_help="Write one HTML page about a release, for any reader.")(report.report)
app.command("compare", short_help="Find the differences between two releases that are real.")(compare.compare)
app.command("combine", short_help="Fuse releases of one table, or add up those of disjoint tables.")(combine.combine)
app.command("certificate", short_help="Print what a release promises, as text, JSON or JSON-LD.")(
    certificate.certificate
)
app.command("keygen", short_help="Make a pair of keys to sign releases with.")(signing.keygen)
app.command("sign", short_help="Sign a release with your key.")(signing.sign)
app.command("serve", short_help="Explore releases in the browser, or by a JSON API.")(
    registered("sfumato.serve.cli", "serve")
)
app.add_typer(schema.app, name="schema")
app.add_typer(ledger.app, name="ledger")
app.add_typer(series.app, name="series")
app.command("audit")(registered("sfumato.lab.cli.audit", "audit"))
app.command("reproduce")(registered("sfumato.lab.cli.reproduce", "reproduce"))
app.command("completion")(completion.completion)
app.callback(invoke_without_command=True)(version)
