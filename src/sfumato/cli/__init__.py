"""The command line: commands by name, and the module of each, which is loaded when that command is asked for."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.errors import SfumatoError
from sfumato.plain_text import printable

if TYPE_CHECKING:
    from typer import Typer

COMMANDS = {  # of each command: the module and the function, and its line in the list of commands
    "demo": ("sfumato.cli.demo", "demo", "Try everything on a made-up census whose truth is known."),
    "init": ("sfumato.cli.init", "init", "Draft a schema from column names, types and your answers."),
    "discover": (
        "sfumato.cli.discover",
        "discover",
        "Fill the blanks of a draft from the table, privately. Costs budget.",
    ),
    "check": ("sfumato.cli.check", "check", "Show what a schema would drop, clip or not read. Not private."),
    "plan": ("sfumato.cli.plan", "plan", "Show how large errors will be, before any release."),
    "release": ("sfumato.cli.release", "release", "Publish a table as one file that anyone may query."),
    "query": ("sfumato.cli.query", "query", "Ask a release in SQL. Every number has an error bar."),
    "info": ("sfumato.cli.info", "info", "Describe a release: columns, guarantee, typical errors."),
    "sample": ("sfumato.cli.sample", "sample", "Draw synthetic rows from a release."),
    "predict": ("sfumato.cli.sample", "predict", "Predict your own rows with a published model."),
    "report": ("sfumato.cli.info", "report", "Write one HTML page about a release, for any reader."),
    "compare": ("sfumato.cli.several", "compare", "Find the differences between two releases that are real."),
    "combine": ("sfumato.cli.several", "combine", "Fuse releases of one table, or add up those of disjoint tables."),
    "certificate": ("sfumato.cli.info", "certificate", "Print what a release promises, as text, JSON or JSON-LD."),
    "keygen": ("sfumato.cli.info", "keygen", "Make a pair of keys to sign releases with."),
    "sign": ("sfumato.cli.info", "sign", "Sign a release with your key."),
    "serve": ("sfumato.serve.cli", "serve", "Explore releases in the browser, or by a JSON API."),
    "audit": ("sfumato.lab.cli.audit", "audit", "Attack the mechanisms and report violations of privacy."),
    "reproduce": ("sfumato.lab.cli.audit", "reproduce", "Repeat the experiments of the papers on synthetic tables."),
    "completion": ("sfumato.cli.shared", "completion", "Print a script that makes your shell complete commands."),
    "schema": ("sfumato.cli.schema", "app", "Find the mistakes in a schema file, or help an editor to."),
    "ledger": ("sfumato.cli.ledger", "app", "Show budgets and what was spent, or set a dataset's total."),
    "series": ("sfumato.cli.several", "app", "List a series, take a part out, or add one."),
}


def command() -> None:
    """`main` in a process of its own, which ends as soon as all is done.

    Python would look for garbage three times and take apart some thousands of classes; then there is only memory left
    to give back, which the system does at once. Not after a failure, when others may have things to say.
    """
    done: list[bool] = []
    atexit.register(lambda: os._exit(0) if done else None)  # the first to be registered is the last to be called
    try:
        main()
    except SystemExit as left:
        if left.code:
            raise
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return  # Python's own end says what became of it
    done.append(True)


def main() -> None:
    """Run the command line; errors a user can mend are one line and exit code 1, an interrupt has exit code 130.

    `shared.py` has all codes. To a script that asked for JSON a refusal is an object as well.
    """
    # A command is over before threads for linear algebra, plugins for validation or a search for garbage among the
    # thousands of classes it loads could be of any use.
    gc.set_threshold(500_000, 50, 100)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    try:
        run()
    except SfumatoError as error:
        from sfumato.cli.shared import code_of

        _fail(str(error), code_of(error), error.kind)
    except KeyboardInterrupt:  # before or after a command
        _fail("interrupted", 130, "interrupted")
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        # The message of an unforeseen error could quote private data, so only its kind and place are shown.
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f" ({trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno})" if trace else ""
        said = f"internal error: {type(error).__name__}{where}; its text is withheld as it could quote private data"
        _fail(said, kind="internal")


def run() -> None:
    from sfumato.cli.shared import EXIT_CODE, MANNER, Interrupted, begin

    begin()
    names = [word for word in sys.argv[1:] if not word.startswith("-")][:1]
    if "_SFUMATO_COMPLETE" in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()  # no other call needs what this loads
        names = list(COMMANDS)
    try:
        application(names)(complete_var="_SFUMATO_COMPLETE")
    except Interrupted as stopped:
        _fail(str(stopped), EXIT_CODE, "interrupted")
    finally:
        if MANNER.times is not None:
            from sfumato.cli.shared import tell_times

            tell_times()


def application(names: Collection[str] = tuple(COMMANDS)) -> Typer:
    """The command line, with the code of the commands of these names; the others are listed and do nothing."""
    import typer

    from sfumato.cli.shared import HELP, Stoppable, version

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
    for name, (module, function, line) in COMMANDS.items():
        found: Any = getattr(import_module(module), function) if name in names else _listed
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, help=line, no_args_is_help=True)
        else:
            app.command(name, short_help=line)(found)
    app.callback(invoke_without_command=True)(version)
    return app


def _listed() -> None:
    """Placeholder of a command that is listed in the help, but whose code this call does not load."""


def _fail(message: str, code: int = 1, kind: str = "refused") -> None:
    from sfumato.cli.shared import MANNER, give

    text = printable(" ".join(message.split()))
    print("sfumato: " + text, file=sys.stderr)  # noqa: T201
    if MANNER.json and not MANNER.given:
        give({"refused": {"kind": kind, "message": text, "exit_code": code}})
    sys.exit(code)
