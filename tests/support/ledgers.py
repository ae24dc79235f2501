"""What the tests of the ledger share: reserving with a nonce of one's own, an SQLite shell, refusals, old files."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sfumato.kernel.ledger.ledger import ROW, Ledger, Receipt
from sfumato.kernel.ledger.reservation import Wanted

OLD = Path(__file__).parent / "old_ledgers"
_drawn = iter(range(1, 10**9))


def reserve(ledger: Ledger, epsilon: object = "0.1", **more: object) -> Receipt:
    usual = {"limit": "0.3", "mechanism": "cells", "unit": ROW, "contributions": 1}
    nonce = more.pop("nonce", None)
    wanted = Wanted(more.pop("dataset", "census"), epsilon, **{**usual, **more})
    return ledger.reserve(wanted, f"f{next(_drawn):031x}" if nonce is None else nonce)


def old_ledger(folder: Path, form: int) -> Path:
    """A file that an older version wrote, byte for byte.

    Totals: census epsilon 3, delta 1e-5; survey epsilon 1. Entries, both census: 0.5 with delta 0, published with the
    digest "d" * 64; 0.25 with delta 1e-6, reserved only. Nonces 1 and 2. In formats 3 and 5 both are for at most 2 rows
    of a person_id. Format 4 has census with epsilon 3, p with epsilon 3 and delta 1e-5, P with epsilon 2; the first
    entry is p's, the second P's.
    """
    path = folder / f"format_{form}.sqlite"
    path.write_bytes(gzip.decompress((OLD / f"format_{form}.sqlite.gz").read_bytes()))
    return path


def raw(path: Path, *statements: str) -> list[list[tuple[object, ...]]]:
    """What someone with an SQLite shell can do."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements]


def refusal(kind, call, *arguments, **named) -> str:
    with pytest.raises(kind) as caught:
        call(*arguments, **named)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)
    return str(caught.value)
