"""How long a server of Spark Connect is waited for, once it was heard and then is gone.

Left to itself the client tries each call for ten minutes, and there are several: the statement, and each goodbye after
it. Here all of them together have a minute.
"""

from __future__ import annotations

import time
from typing import Any

TOGETHER = 45.0  # seconds from the first failure, after which nothing is tried again
RECOVERED = 120.0  # seconds without a failure, after which the next is a first one
LONGEST = 5_000  # milliseconds between two tries


def patient() -> Any | None:
    """A policy for the client; None for Spark 3.5, which has none."""
    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy
    except ImportError:
        return None
    allowed = Allowance()

    class Patient(DefaultPolicy):  # type: ignore[misc,unused-ignore]
        """Spark's own, for as long as there is time."""

        def can_retry(self, error: BaseException) -> bool:
            return bool(super().can_retry(error)) and allowed.more()

    return Patient(max_backoff=LONGEST)


class Allowance:
    """Whether there is time for another try, over all calls."""

    def __init__(self) -> None:
        self._first = self._last = -RECOVERED

    def more(self) -> bool:
        """Note a failure, and say whether to go on."""
        now = time.monotonic()
        if now - self._last >= RECOVERED:
            self._first = now
        self._last = now
        return now - self._first < TOGETHER
