"""The command line without a process of its own: the same entry, arguments, streams and exit code, much sooner."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest.mock import patch

from sfumato.cli import main


def sfumato(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the folder and with the environment that there are now."""
    out, err, code, thresholds = io.StringIO(), io.StringIO(), 0, gc.get_threshold()
    with patch.object(sys, "argv", ["sfumato", *arguments]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
        finally:
            gc.set_threshold(*thresholds)  # a command is short and makes it lazier
    return subprocess.CompletedProcess(["sfumato", *arguments], code, out.getvalue(), err.getvalue())


def as_process(*arguments: str, patience: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does. patience: in seconds."""
    command = [sys.executable, "-m", "sfumato", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience)
