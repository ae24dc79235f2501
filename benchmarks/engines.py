"""One table on every engine: a release, with and without a cap, beside its GROUP BY. `python benchmarks/engines.py`

Needs the extras `postgres` and `spark` and the test dependencies, which bring a PostgreSQL server and a Java. Whole
commands, with the processes of the server that work for them. A Spark that does nothing is measured too, because
starting it is most of what a small table takes. Needs some 100 bytes of disk for each row.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from measuring import Cost, run
from watching import watched

SCHEMA = """
dataset: engines
privacy_unit: {unit}
budget: {{epsilon: 1000}}
attributes:
  a: {{type: integer, lower: 0, upper: 49}}
  b: {{type: integer, lower: 0, upper: 39}}
"""
ENGINES = ["DuckDB", "PostgreSQL", "Spark"]
UNITS = {"release": "row", "at most 2 rows a person": "{column: person, contributions: 2}"}
TABLE = """
import duckdb
duckdb.sql('''COPY (SELECT (hash(i, 1) % 50)::INT AS a, (hash(i, 2) % 40)::INT AS b, (hash(i, 3) % {people})::BIGINT AS
person FROM range({rows}) AS t(i)) TO '{table}' (FORMAT parquet)''')
duckdb.sql("COPY (FROM '{table}') TO '{csv}' (FORMAT csv)")
"""
BY_DUCKDB = "import duckdb; print(len(duckdb.sql(\"SELECT a, b, count(*) FROM '{table}' GROUP BY a, b\").fetchall()))"
LOAD = """
import psycopg
with psycopg.connect("{url}", autocommit=True) as connection:
    connection.execute("DROP TABLE IF EXISTS visits; CREATE TABLE visits (a int, b int, person bigint)")
    with connection.cursor().copy("COPY visits FROM STDIN (FORMAT csv, HEADER)") as copy, open("{csv}", "rb") as file:
        while some := file.read(2**20):
            copy.write(some)
    connection.execute("VACUUM ANALYZE visits")
"""
UNLOAD = """
import psycopg
psycopg.connect("{url}", autocommit=True).execute("DROP TABLE visits")
"""
BY_POSTGRES = """
import psycopg
print(len(psycopg.connect("{url}").execute("SELECT a, b, count(*) FROM visits GROUP BY a, b").fetchall()))
"""
OF_SPARK = """
from pathlib import Path
from sfumato.kernel.reading.engines.spark.sessions import use_java
use_java()
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
print({work})
"""
BY_SPARK = "spark.read.parquet('{table}').groupBy('a', 'b').count().collect().__len__()"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    asked = parser.parse_args()
    print(f"{'into 2,000 cells':44} {'seconds':>9} {'CPU':>8} {'MB':>8}")
    if "Spark" in asked.engines:
        said("Spark, started and no more", watched(code=OF_SPARK.format(work="spark.version")))
    for rows in asked.rows:
        with tempfile.TemporaryDirectory() as name:
            on_every_engine(Path(name), rows, asked.engines)


def on_every_engine(folder: Path, rows: int, engines: list[str]) -> None:
    table, csv = folder / "visits.parquet", folder / "visits.csv"
    run(code=TABLE.format(rows=rows, people=rows * 2 // 5, table=table, csv=csv))
    if "DuckDB" in engines:
        compared(folder, f"DuckDB, {rows:,} rows", BY_DUCKDB.format(table=table), [str(table)])
    if "PostgreSQL" in engines:
        from sfumato.lab.audit.reading.server_sources import server_url

        url = server_url()
        run(code=LOAD.format(url=url, csv=csv))
        try:
            by_hand, source = BY_POSTGRES.format(url=url), [url, "--table", "visits"]
            compared(folder, f"PostgreSQL, {rows:,} rows", by_hand, source, server_of(url))
        finally:
            run(code=UNLOAD.format(url=url))
    if "Spark" in engines:
        by_hand = OF_SPARK.format(work=BY_SPARK.format(table=table))
        compared(folder, f"Spark, {rows:,} rows", by_hand, ["spark://local", "--table", str(table)])


def compared(folder: Path, what: str, by_hand: str, source: list[str], server: int | None = None) -> None:
    said(f"{what}, by hand", watched(code=by_hand, server=server))
    costs = []
    for name, unit in UNITS.items():
        schema = folder / "schema.yaml"
        schema.write_text(SCHEMA.format(unit=unit))
        costs.append(
            watched(
                *("-m", "sfumato", "release", *source, "--schema", str(schema), "--epsilon", "1", "-q"),
                *("--mechanism", "cells", "-o", str(folder / "t.sfumato"), "--ledger", str(folder / "ledger")),
                *("--another-unit", "--again"),
                server=server,
            )
        )
        said(f"{what}, {name}", costs[-1])
    without, capped = costs
    print(f"{'':44} {capped.wall / without.wall:8.1f}x {capped.cpu / without.cpu:7.1f}x with the cap", flush=True)


def said(what: str, cost: Cost) -> None:
    print(f"{what:44} {cost.wall:9.1f} {cost.cpu:8.1f} {cost.megabytes:8,.0f}", flush=True)


def server_of(url: str) -> int:
    """The process of which the server's others are children."""
    import psycopg

    with psycopg.connect(url) as connection:
        ((folder,),) = connection.execute("SHOW data_directory").fetchall()
    return int((Path(folder) / "postmaster.pid").read_text().split()[0])


if __name__ == "__main__":
    main()
