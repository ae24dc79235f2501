"""Many attributes at scale: reading them beside one scan, counting all pairs of a hundred of them, a whole release.

    python benchmarks/margins_scale.py [reading] [counting] [release]

Tables are synthetic: attributes of ten values, skewed (the v-th value has a share proportional to 1 / v), independent.
CPU seconds of one process, threads added up.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np

from sfumato.kernel.counts import MarginCounts
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

VALUES = 10
SHARES = 1 / np.arange(1, VALUES + 1) / (1 / np.arange(1, VALUES + 1)).sum()


def schema_of(attributes: int) -> Schema:
    described = {f"a{place}": {"type": "integer", "lower": 0, "upper": VALUES - 1} for place in range(attributes)}
    return Schema.from_dict(
        {"dataset": "scale", "privacy_unit": "row", "budget": {"epsilon": 1}, "attributes": described}
    )


def write_table(path: Path, rows: int, attributes: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(1)
    columns = {f"a{place}": random.choice(VALUES, rows, p=SHARES).astype(np.int64) for place in range(attributes)}
    pq.write_table(pa.table(columns), path)


def scan(path: Path, attributes: int) -> float:
    """CPU seconds of adding up every column in DuckDB; the better of two."""
    import duckdb

    sums, spent = ", ".join(f"sum(a{place})" for place in range(attributes)), []
    for _ in range(2):
        began = time.process_time()
        duckdb.connect().sql(f"SELECT {sums} FROM '{path}'").fetchall()
        spent.append(time.process_time() - began)
    return min(spent)


def read_and_count(path: Path, attributes: int) -> tuple[float, float]:
    """CPU seconds of reading, and of counting all pairs."""
    schema, began = schema_of(attributes), time.process_time()
    held = open_table(path).read(schema, key=1, for_margins=True)
    read = time.process_time()
    margins = MarginCounts(schema.domain, held)
    pairs = [margins.domain_along(pair) for pair in combinations(schema.domain.names, 2)]
    counted = sum(len(counts) > 0 for _, counts in margins.counts(pairs))
    assert counted == attributes * (attributes - 1) // 2
    return read - began, time.process_time() - read


def show(rows: int, attributes: int, folder: str) -> None:
    path = Path(folder) / "t.parquet"
    write_table(path, rows, attributes)
    once = scan(path, attributes)
    read, counted = read_and_count(path, attributes)
    pairs = attributes * (attributes - 1) // 2
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{rows:,} rows of {attributes} attributes, Parquet")
    print(f"  one scan of the columns       {once:6.2f} s")
    print(f"  reading                       {read:6.2f} s   {read / once:5.1f} x")
    print(f"  counting all {pairs:5,} pairs     {counted:6.2f} s   {counted / once:5.1f} x")
    print(f"  both                          {read + counted:6.2f} s   {(read + counted) / once:5.1f} x")
    print(f"  memory at its highest         {memory:6.2f} GB")


def release(rows: int, attributes: int, folder: str) -> None:
    """A release by all pairs at epsilon 1 and delta 1e-9, its file, and a question over three attributes."""
    import sfumato

    path, out = Path(folder) / "t.parquet", Path(folder) / "t.sfumato"
    write_table(path, rows, attributes)
    began, wall = time.process_time(), time.monotonic()
    made = sfumato.release(path, schema_of(attributes), 1, delta="1e-9", ledger=Path(folder) / "ledger")
    made.save(out)
    spent, waited = time.process_time() - began, time.monotonic() - wall
    began = time.process_time()
    made.query("SELECT a1, a2, a3, COUNT(*) FROM scale GROUP BY a1, a2, a3")
    asked = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{rows:,} rows of {attributes} attributes: {made.mechanism}, {made.content.about.extent}")
    print(f"  release                       {spent:6.1f} s CPU, {waited:.0f} s")
    print(f"  memory at its highest         {memory:6.2f} GB")
    print(f"  file                          {out.stat().st_size / 1e6:6.1f} MB")
    print(f"  a table of three attributes   {asked:6.2f} s")


SECTIONS = {"reading": (show, 10_000_000, 15), "counting": (show, 1_000_000, 100), "release": (release, 1_000_000, 100)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="*", help=f"of {', '.join(SECTIONS)}; all if none is named")
    for section in parser.parse_args().section or SECTIONS:
        if section not in SECTIONS:
            sys.exit(f"no section {section!r}; there are {', '.join(SECTIONS)}")
        with tempfile.TemporaryDirectory() as folder:
            run, rows, attributes = SECTIONS[section]
            run(rows, attributes, folder)


if __name__ == "__main__":
    main()
