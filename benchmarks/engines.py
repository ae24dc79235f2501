"""One table on every engine: a release beside that engine's own GROUP BY. `python benchmarks/engines.py [--rows N]`

Needs the extras `postgres` and `spark` and the test dependencies, which bring a PostgreSQL server and a Java. Seconds
of wall time, whole processes; PostgreSQL and Spark work in processes of their own, whose CPU is not seen from here. A
Spark that does nothing is timed too, because starting it is most of what a small table takes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from measuring import run

SCHEMA = """
dataset: engines
privacy_unit: {unit}
budget: {{epsilon: 1000}}
attributes:
  a: {{type: integer, lower: 0, upper: 49}}
  b: {{type: integer, lower: 0, upper: 39}}
"""
UNITS = {"a row": "row", "a person, 2 rows": "{column: person, contributions: 2}"}
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
BY_POSTGRES = """
import psycopg
print(len(psycopg.connect("{url}").execute("SELECT a, b, count(*) FROM visits GROUP BY a, b").fetchall()))
"""
OF_SPARK = """
from pathlib import Path
from sfumato.kernel.source.engines.spark.java import use_java
use_java()
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
print({work})
"""
BY_SPARK = "spark.read.parquet('{table}').groupBy('a', 'b').count().collect().__len__()"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table, csv = folder / "visits.parquet", folder / "visits.csv"
        run(code=TABLE.format(rows=asked.rows, people=asked.rows * 2 // 5, table=table, csv=csv))
        print(f"{asked.rows:,} rows into 2,000 cells, seconds")
        print(f"{'':12} {'by hand':>9}" + "".join(f"{unit:>20}" for unit in UNITS))
        said(folder, "DuckDB", run(code=BY_DUCKDB.format(table=table)).wall, [str(table)])
        from sfumato.audit.reading.postgres_source import server_url

        url = server_url()
        run(code=LOAD.format(url=url, csv=csv))
        said(folder, "PostgreSQL", run(code=BY_POSTGRES.format(url=url)).wall, [url, "--table", "visits"])
        by_hand = run(code=OF_SPARK.format(work=BY_SPARK.format(table=table))).wall
        said(folder, "Spark", by_hand, ["spark://local", "--table", str(table)])
        print(f"{'':12} {run(code=OF_SPARK.format(work='spark.version')).wall:9.1f}  starting Spark and nothing else")


def said(folder: Path, engine: str, by_hand: float, source: list[str]) -> None:
    print(f"{engine:12} {by_hand:9.1f}", end="", flush=True)
    for unit in UNITS.values():
        schema = folder / "schema.yaml"
        schema.write_text(SCHEMA.format(unit=unit))
        cost = run(
            *("-m", "sfumato", "release", *source, "--schema", str(schema), "--epsilon", "1", "--mechanism", "cells"),
            *("-o", str(folder / "t.sfumato"), "--ledger", str(folder / "ledger"), "--another-unit", "--again", "-q"),
        )
        print(f"{cost.wall:20.1f}", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
