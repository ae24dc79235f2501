"""The command line: one module a command, all of them light until they run."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from copy import copy
from typing import TYPE_CHECKING

from sfumato.errors import SfumatoError
from sfumato.plain_text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typer import Typer


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
    from sfumato.cli.app import app
    from sfumato.cli.shared import EXIT_CODE, Interrupted, begin

    begin()
    if "_SFUMATO_COMPLETE" in os.environ:
        from sfumato.cli.completion import prepare

        prepare()
    try:
        only(app, sys.argv[1:2])(complete_var="_SFUMATO_COMPLETE")
    except Interrupted as stopped:
        _fail(str(stopped), EXIT_CODE, "interrupted")


def only(app: Typer, names: Sequence[str]) -> Typer:
    """Restrict the application to the commands asked for, so that others need not be inspected; all, if none was."""
    commands = [one for one in app.registered_commands if one.name in names]
    groups = [one for one in app.registered_groups if one.name in names]
    if not commands and not groups:
        return app
    few = copy(app)
    few.registered_commands, few.registered_groups = commands, groups
    return few


def _fail(message: str, code: int = 1, kind: str = "refused") -> None:
    from sfumato.cli.shared import MANNER, give

    text = printable(" ".join(message.split()))
    print("sfumato: " + text, file=sys.stderr)  # noqa: T201
    if MANNER.json and not MANNER.given:
        give({"refused": {"kind": kind, "message": text, "exit_code": code}})
    sys.exit(code)
