"""Reading at scale, beside DuckDB doing the bare minimum. `python benchmarks/scale.py [--rows 100000000]`

A synthetic Parquet file of four attributes (2.5 million cells) and a person for every 2.5 rows. Whole processes, one
after the other in one run, so that the ratios hold on other machines too. Needs some 15 bytes of disk for each row.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from measuring import Cost, run

SIZES = {"a": 50, "b": 50, "c": 50, "d": 20}
TABLE = """
import duckdb
duckdb.sql("SET threads = 2; SET memory_limit = '6GB'; SET preserve_insertion_order = false")
duckdb.sql('''COPY (
    SELECT (hash(i, 1) % 50 * (hash(i, 2) % 50) // 50)::INT AS a, (hash(i, 3) % 50)::INT AS b,
           (hash(i, 4) % 50)::INT AS c, (hash(i, 5) % 20)::INT AS d, (hash(i, 6) % {people})::BIGINT AS person
    FROM range({rows}) AS t(i)) TO '{table}' (FORMAT parquet)''')
"""
SCAN = "import duckdb; print(duckdb.sql(\"SELECT sum(a), sum(b), sum(c), sum(d) FROM '{table}'\").fetchall())"
GROUP_BY = """
import duckdb
print(duckdb.sql("SELECT a, b, c, d, count(*) AS n FROM '{table}' GROUP BY a, b, c, d").to_arrow_table().num_rows)
"""
READ = """
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema
schema = Schema.load("{schema}")
print(open_table("{table}", schema=schema).aggregate(schema, key=1).counts.sum())
"""
PAIRS = """
from itertools import combinations
from sfumato.kernel.counts import MarginCounts
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema
schema = Schema.load("{schema}")
margins = MarginCounts(schema.domain, open_table("{table}", schema=schema).read(schema, key=1, for_margins=True))
pairs = [margins.domain_along(pair) for pair in combinations(schema.domain.names, 2)]
print(sum(counts.sum() for _, counts in margins.counts(pairs)))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--folder", type=Path, help="where to put the files; a temporary folder if not given")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.folder) as name:
        folder = Path(name)
        steps = [rows for rows in (asked.rows // 100, asked.rows // 10) if rows >= 100_000]
        grows = {rows: growth(folder, rows) for rows in steps}
        whole(folder, asked.rows, grows)


def growth(folder: Path, rows: int) -> Cost:
    """What a release costs with fewer rows."""
    table = made(folder, rows)
    cost = released(folder, table, "row")
    table.unlink()
    return cost


def whole(folder: Path, rows: int, grows: dict[int, Cost]) -> None:
    table = made(folder, rows)
    print(f"{rows:,} rows, {table.stat().st_size / 1e9:.2f} GB of Parquet, 2.5 million cells")
    scan, group = run(code=SCAN.format(table=table)), run(code=GROUP_BY.format(table=table))
    said("one scan of the columns", scan, group)
    said("GROUP BY by hand", group, group)
    schema = described(folder, "row")
    cube = run(code=READ.format(table=table, schema=schema))
    said("reading of a 4-way cube", cube, group)
    said("all 2-way margins", run(code=PAIRS.format(table=table, schema=schema)), cube, "the cube")
    one = released(folder, table, "row")
    said("release, mechanism cells", one, group)
    capped = run(code=READ.format(table=table, schema=described(folder, CAPPED)))
    said("reading, at most 2 rows a person", capped, cube, "the cube")
    print("growth of a release")
    before = None
    for count, cost in {**grows, rows: one}.items():
        times = "" if before is None else f"{cost.cpu / before:.1f} times that of a tenth"
        print(f"  {count:>13,} rows {cost.wall:8.1f} s {cost.cpu:8.1f} s CPU {cost.megabytes:8,.0f} MB  {times}")
        before = cost.cpu


CAPPED = "{column: person, contributions: 2}"


def made(folder: Path, rows: int) -> Path:
    table = folder / f"{rows}.parquet"
    run(code=TABLE.format(rows=rows, people=max(rows * 2 // 5, 1), table=table))
    return table


def described(folder: Path, unit: str) -> Path:
    path = folder / ("person.yaml" if "person" in unit else "row.yaml")
    attributes = "".join(f"  {name}: {{type: integer, lower: 0, upper: {size - 1}}}\n" for name, size in SIZES.items())
    path.write_text(f"dataset: scale\nprivacy_unit: {unit}\nbudget: {{epsilon: 1000}}\nattributes:\n{attributes}")
    return path


def released(folder: Path, table: Path, unit: str) -> Cost:
    return run(
        *("-m", "sfumato", "release", str(table), "--schema", str(described(folder, unit)), "--epsilon", "1"),
        *("--mechanism", "cells", "-o", str(folder / "t.sfumato"), "--ledger", str(folder / "ledger"), "--again", "-q"),
    )


def said(what: str, cost: Cost, beside: Cost, named: str = "GROUP BY") -> None:
    print(
        f"  {what:34} {cost.wall:7.1f} s {cost.cpu:7.1f} s CPU {cost.megabytes:8,.0f} MB  "
        f"{cost.wall / beside.wall:5.2f}x (CPU {cost.cpu / beside.cpu:5.2f}x) {named}",
        flush=True,
    )


if __name__ == "__main__":
    main()
