"""A reading that never ends, for tests that interrupt it.

`python endless.py MARKER ARGUMENTS...` runs a command of sfumato and makes the file MARKER once the engine is at work.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waiting import wait_until

from sfumato.kernel.reading.engines.duckdb import DuckDB

LONG = "SELECT hash(range) % 100 AS h, count(*) AS n FROM range(20_000_000) GROUP BY h"
AT_WORK = 0.2  # seconds of processor time since the engine was asked: by then it is the engine that has used them


def never_ending(then: Callable[[], object]) -> Callable[..., Any]:
    """A replacement of `DuckDB._answer` that asks DuckDB again and again, and does `then` once it is at work."""

    def answer(_engine: DuckDB, connection: Any, *_statement: object) -> Any:
        begun = time.process_time()

        def watch() -> None:
            wait_until(lambda: time.process_time() > begun + AT_WORK)
            then()

        threading.Thread(target=watch, daemon=True).start()
        while True:
            connection.sql(LONG).to_arrow_table()

    return answer


if __name__ == "__main__":
    from sfumato.cli import main

    DuckDB._answer = never_ending(Path(sys.argv.pop(1)).touch)  # type: ignore[method-assign]
    main()
