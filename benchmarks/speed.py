"""Speed and size of the whole line, beside DuckDB doing the bare minimum. `python benchmarks/speed.py`

Everything is measured as whole processes in one run, so the ratios hold on other machines too.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from measuring import best, run

SCHEMA = """
dataset: t
privacy_unit: {unit}
budget: {{epsilon: 1000}}
attributes:
  a: {{type: integer, lower: 0, upper: 99}}
  b: {{type: category, values: [p, q]}}
  c: {{type: integer, lower: 0, upper: 7}}
"""
DUCKDB = """
import duckdb
print(len(duckdb.sql("SELECT a, b, c, COUNT(*) FROM '{table}' GROUP BY a, b, c").fetchall()))
"""
CAPPED = """
import duckdb
print(len(duckdb.sql('''SELECT a, b, c, COUNT(*) FROM (SELECT a, b, c FROM '{table}'
QUALIFY row_number() OVER (PARTITION BY person ORDER BY hash(person, a, b, c)) <= 1) GROUP BY a, b, c''').fetchall()))
"""
CUBE = """
dataset: cube
privacy_unit: row
budget: {epsilon: 1000}
attributes:
  x: {type: integer, lower: 0, upper: 9999}
  y: {type: integer, lower: 0, upper: 999}
"""
HUGE = """
dataset: huge
privacy_unit: row
budget: {epsilon: 1000}
attributes:
  x: {type: integer, lower: 0, upper: 999999}
  y: {type: integer, lower: 0, upper: 999999}
"""
PLANNED = """
dataset: survey
privacy_unit: row
attributes:
  age: {type: integer, lower: 0, upper: 99}
  smoker: {type: boolean}
expected_rows: 5000
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        release_beside_group_by(folder)
        large_cubes(folder)
        start_up(folder)
        plans(folder)


def release_beside_group_by(folder: Path) -> None:
    rows, stream = 1_000_000, np.random.default_rng(1)
    table = folder / "t.parquet"
    columns = {
        "person": np.arange(rows) * 7919 % rows,
        "a": stream.integers(0, 100, rows),
        "b": np.array(["p", "q"])[stream.integers(0, 2, rows)],
        "c": stream.integers(0, 8, rows),
    }
    pq.write_table(pa.table(columns), table)
    for unit, code in (("row", DUCKDB), ("{column: person, contributions: 1}", CAPPED)):
        schema = folder / "t.yaml"
        schema.write_text(SCHEMA.format(unit=unit))
        ours = best(5, *sfumato("release", table, "--schema", schema, "--epsilon", 1, "-o", folder / "t.sfumato",
                                "--ledger", folder / "ledger.sqlite", "--another-unit", "--again"))  # fmt: skip
        theirs = best(5, code=code.format(table=table))
        print(
            f"release, 1,000,000 rows into 1,600 cells, unit {unit:34}: {ours.cpu:.2f} s CPU; "
            f"DuckDB's own query {theirs.cpu:.2f} s: {ours.cpu / theirs.cpu:.2f}x"
        )


def large_cubes(folder: Path) -> None:
    stream = np.random.default_rng(2)
    cases = (
        ("dense, 10^7 cells", CUBE, 1_000_000, (10_000, 1_000)),
        ("sparse, 10^12 cells, 10^6 of them held", HUGE, 40_000_000, (10**6, 10**6)),
    )
    for name, text, rows, high in cases:
        table, schema, out = folder / "l.parquet", folder / "l.yaml", folder / "l.sfumato"
        if rows > 10**6:  # 10^6 cells with 40 rows each
            x, y = stream.integers(0, high[0], 10**6), stream.integers(0, high[1], 10**6)
            columns = {"x": np.tile(x, 40), "y": np.tile(y, 40)}
        else:
            columns = {"x": stream.integers(0, high[0], rows), "y": stream.integers(0, high[1], rows)}
        pq.write_table(pa.table(columns), table)
        schema.write_text(text)
        cost = run(*sfumato("release", table, "--schema", schema, "--epsilon", 1, "-o", out,
                            "--ledger", folder / "ledger.sqlite"))  # fmt: skip
        dataset = text.split()[1]
        asked = best(3, *sfumato("query", out, f"SELECT COUNT(*) FROM {dataset} WHERE x < 5000"))
        print(
            f"release, {name:38}: {cost.wall:.1f} s, {cost.cpu:.1f} s CPU, peak {cost.megabytes:,.0f} MB, "
            f"file {out.stat().st_size / 1e6:.1f} MB; one query from the shell {asked.wall:.2f} s"
        )


def start_up(folder: Path) -> None:
    help_ = best(5, *sfumato("--help"))
    asked = best(5, *sfumato("query", folder / "t.sfumato", "SELECT b, COUNT(*) FROM t WHERE a < 40 GROUP BY b"))
    print(f"sfumato --help: {help_.wall:.2f} s; open a release and answer one query from the shell: {asked.wall:.2f} s")


def plans(folder: Path) -> None:
    """CPU of a plan over 200 cells: at an epsilon, for an error, and of every mechanism."""
    (folder / "plan.yaml").write_text(PLANNED)
    asked = {"--epsilon 1": ("--epsilon", "1"), "--error 50": ("--error", "50"), "--all": ("--epsilon", "1", "--all")}
    costs = {name: best(3, *sfumato("plan", "--schema", folder / "plan.yaml", *words)) for name, words in asked.items()}
    print("plan of 200 cells: " + "; ".join(f"{name} {cost.cpu:.2f} s CPU" for name, cost in costs.items()))


def sfumato(*arguments: object) -> list[str]:
    return ["-m", "sfumato", *map(str, arguments)]


if __name__ == "__main__":
    main()
