"""Exit codes: the few that every script can rely on, and finer ones for scripts that ask for them."""

from __future__ import annotations

import os

from sfumato.errors import SfumatoError

DONE, REFUSED, USAGE, INTERRUPTED = 0, 1, 2, 130
# A script that tests for 1 must go on working, so the finer codes are given only where this variable asks for them.
VARIABLE, DISTINCT = "SFUMATO_EXIT_CODES", "distinct"
BY_KIND = {"budget": 3, "input": 4, "file": 5, "damaged": 6, "signature": 7}

HELP = (
    "Exit codes: 0 done, 1 refused for a reason that you can mend, 2 wrong usage, 130 interrupted. With "
    f"{VARIABLE}={DISTINCT} in the environment, 1 is told apart: 3 refused to spend budget, 4 makes no sense (schema, "
    "query, amount), 5 a file cannot be read or written, 6 a file is damaged, 7 a signature "
    "is missing or wrong."
)


def code_of(error: SfumatoError) -> int:
    """With which code a refusal ends the command."""
    return BY_KIND.get(error.kind, REFUSED) if os.environ.get(VARIABLE) == DISTINCT else REFUSED
