"""How long the report of a release of 20 attributes takes and how large it is; 10 seconds and 5 MB are the bounds.

Seconds of the processor are held against the bound, so that a busy machine raises no alarm.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf

ROWS = 40_000
SIZES = (100, 100, 80, 60, 50, 40, 30, 20, 16, 12, 10, 8, 7, 6, 5, 4, 3, 2, 2, 2)
MOST_SECONDS, MOST_BYTES = 10.0, 5_000_000


def wide_table() -> tuple[sf.Schema, pa.Table]:
    """Attributes that lean on five hidden ones, made up; the first ten have an order."""
    rng = np.random.default_rng(5)
    hidden = rng.normal(size=(ROWS, 5))
    leans = rng.normal(size=(5, len(SIZES))) * (rng.random((5, len(SIZES))) < 0.4)
    scores = hidden @ leans + rng.normal(size=(ROWS, len(SIZES)))
    columns, attributes = {}, {}
    for place, size in enumerate(SIZES):
        rank = np.argsort(np.argsort(scores[:, place])) / ROWS
        codes = np.minimum((rank**1.4 * size).astype(int), size - 1)
        if place < 10:
            columns[f"number_{place}"] = codes
            attributes[f"number_{place}"] = {"type": "integer", "lower": 0, "upper": size - 1}
        else:
            values = [f"value {code}" for code in range(size)]
            columns[f"kind_{place}"] = [values[code] for code in codes]
            attributes[f"kind_{place}"] = {"type": "category", "values": values}
    schema = {"dataset": "wide", "privacy_unit": "row", "budget": {"epsilon": 9}, "attributes": attributes}
    return sf.Schema.from_dict(schema), pa.table(columns)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        schema, table = wide_table()
        path = Path(folder, "wide.sfumato")
        sf.release(table, schema, 2, ledger=Path(folder, "ledger")).save(path)
        start, busy = time.perf_counter(), time.process_time()
        page = sf.report(path)
        took, busy = time.perf_counter() - start, time.process_time() - busy
    print(f"{len(SIZES)} attributes: {took:.1f} s ({busy:.1f} s of processor), {len(page.encode()) / 1e6:.2f} MB")
    if busy > MOST_SECONDS or len(page.encode()) > MOST_BYTES:
        raise SystemExit(f"more than {MOST_SECONDS:.0f} s or {MOST_BYTES / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
