"""The command line: one module a command, all of them light until they run."""

from __future__ import annotations

import gc
import os
import sys

from sfumato.errors import SfumatoError
from sfumato.plain_text import printable


def main() -> None:
    """Run the command line; errors a user can mend are one line and exit code 1, an interrupt has exit code 130."""
    # A command is over before threads for linear algebra, plugins for validation or a search for garbage among the
    # thousands of classes it loads could be of any use.
    gc.set_threshold(500_000, 50, 100)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")
    try:
        run()
    except SfumatoError as error:
        _fail(str(error))
    except KeyboardInterrupt:  # before or after a command
        _fail("interrupted", 130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        # The message of an unforeseen error could quote private data, so only its kind and place are shown.
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f" ({trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno})" if trace else ""
        _fail(f"internal error: {type(error).__name__}{where}; its text is withheld as it could quote private data")
    finally:
        # Python looks for garbage before it ends, three times over all that was loaded; what is frozen it leaves alone.
        gc.freeze()


def run() -> None:
    from sfumato.cli.app import only
    from sfumato.cli.stopping import EXIT_CODE, Interrupted

    try:
        only(sys.argv[1:2])()
    except Interrupted as stopped:
        _fail(str(stopped), EXIT_CODE)


def _fail(message: str, code: int = 1) -> None:
    print("sfumato: " + printable(" ".join(message.split())), file=sys.stderr)  # noqa: T201
    sys.exit(code)
