"""What an interrupted release leaves behind in the ledger, told to whoever interrupted it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sfumato.errors import LedgerError
from sfumato.kernel.budget import readable
from sfumato.kernel.ledger.ledger import Ledger


@contextmanager
def telling_what_stays(ledger: Ledger, dataset: str, nonce: str) -> Iterator[None]:
    """Let a KeyboardInterrupt pass with a note: what stays reserved under this nonce, or that nothing was."""
    try:
        yield
    except KeyboardInterrupt as stop:
        stop.add_note(what_stays(ledger, dataset, nonce))
        raise


def what_stays(ledger: Ledger, dataset: str, nonce: str) -> str:
    """Where a reservation stands, in words; the ledger itself is asked, for it may have been made a moment before."""
    try:
        entry = next((entry for entry in ledger.entries(dataset) if entry.nonce == nonce), None)
    except LedgerError:
        return f"the ledger {ledger.path} cannot be read now; what is reserved in it counts as spent"
    if entry is None:
        return f"nothing was reserved yet on dataset {dataset!r} (ledger {ledger.path})"
    what = f"epsilon {readable(entry.epsilon)}" + (f" and delta {readable(entry.delta)}" if entry.delta else "")
    how = "stays reserved and counts as spent" if entry.state == "reserved" else "is spent; the release was published"
    return f"{what} on dataset {dataset!r} {how} (ledger {ledger.path})"
