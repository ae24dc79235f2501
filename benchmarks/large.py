"""Attributes of many values below groups: CPU and memory of a release and of a query, errors beside two yardsticks.

    python benchmarks/large.py [--values 20000] [--groups 100] [--rows 2000000] [--delta 1e-9]

The table is made up: one attribute of many values with Zipf's frequencies in groups of like size, and five columns of 2
to 20 values that follow the group and, with a chance of a tenth, the single value. Yardsticks: counts by value of a
release of that attribute alone with the budget that its values had; and counts by group and another column of a release
of the same table in which the group is the column, with the whole budget. Each in a process of its own, so that memory
is its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZES = (2, 5, 8, 12, 20)
OWN = 0.1


def made_up(values: int, groups: int, rows: int, seed: int = 11) -> tuple[pa.Table, np.ndarray]:
    """Table of codes, and the group of every value."""
    rng = np.random.default_rng(seed)
    shares = rng.permutation(1.0 / np.arange(1, values + 1))
    code, of = rng.choice(values, rows, p=shares / shares.sum()), np.arange(values) * groups // values
    columns = {"code": code, "region": of[code]}
    for number, size in enumerate(SIZES):
        shift, mine = (of[code] * (number + 3)) % size, rng.integers(0, size, values)[code]
        drawn = rng.choice(size, rows, p=rng.dirichlet(np.ones(size)))
        by_group = (drawn + (rng.random(rows) < 0.5) * shift) % size
        columns[f"c{number}"] = np.where(rng.random(rows) < OWN, mine, by_group)
    return pa.table(columns), of


def schema(kind: str, of: np.ndarray, rows: int) -> dict[str, object]:
    """Schema of the table: with values below groups (nested), of groups (groups), or of values alone (values)."""
    values = [f"v{v}" for v in range(len(of))]
    listed: dict[str, object] = {"type": "category", "values": values}
    if kind == "nested":
        listed["groups"] = {"region": {f"r{g}": [values[v] for v in np.flatnonzero(of == g)] for g in np.unique(of)}}
    few = {f"c{n}": {"type": "integer", "lower": 0, "upper": size - 1} for n, size in enumerate(SIZES)}
    region = {"region": {"type": "category", "values": [f"r{g}" for g in np.unique(of)]}}
    attributes = {"nested": {"code": listed, **few}, "groups": region | few, "values": {"code": listed}}[kind]
    return {"dataset": "t", "privacy_unit": "row", "attributes": attributes, "expected_rows": rows}


def release(kind: str, folder: Path, epsilon: str, delta: str | None) -> None:
    """Release one of the three tables into a folder; print CPU and memory."""
    import sfumato as sf

    of = np.load(folder / "of.npy")
    rows = pq.read_metadata(folder / "t.parquet").num_rows
    public = sf.Schema.from_dict({**schema(kind, of, rows), "budget": {"epsilon": 100}})
    begun = time.process_time()
    stated = {} if delta in (None, "None") else {"delta": delta}
    mechanism = "cells" if kind == "values" else "margins"
    made = sf.release(
        str(folder / "t.parquet"),
        public,
        epsilon=epsilon,
        mechanism=mechanism,
        ledger=folder / f"{kind}.db",
        even_if_useless=True,
        **stated,
    )
    made.save(folder / f"{kind}.sfumato")
    print(f"{time.process_time() - begun:.1f} {_memory():.0f}")


def query(kind: str, folder: Path, sql: str, keep: str) -> None:
    """Ask a release one question; print CPU and memory, and keep the answers."""
    begun = time.process_time()
    import sfumato as sf

    rows = sf.open(folder / f"{kind}.sfumato").query(sql).rows
    print(f"{time.process_time() - begun:.1f} {_memory():.0f}")
    numbers = [[row[-1].value, row[-1].low, row[-1].high] for row in rows]
    keys = [[int(str(key).lstrip("vr")) for key in row[:-1]] for row in rows]
    np.savez(folder / keep, keys=np.array(keys), numbers=np.array(numbers))


def _memory() -> float:
    """Peak memory of this process in MB; `getrusage` would tell that of the process that started it."""
    said = Path("/proc/self/status").read_text(encoding="ascii")
    return float(said.partition("VmHWM:")[2].split()[0]) / 1024.0


def _run(*words: str) -> tuple[float, float]:
    said = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, *words], capture_output=True, text=True, check=True
    )
    cpu, memory = said.stdout.split()
    return float(cpu), float(memory)


def _errors(folder: Path, keep: str, truth: np.ndarray) -> tuple[float, float]:
    """Root mean square error of kept answers, and how many intervals hold among cells that have rows."""
    kept = np.load(folder / f"{keep}.npz")
    true = truth[tuple(kept["keys"].T)]
    value, low, high = kept["numbers"].T
    held = (low <= true) & (true <= high)
    return float(np.sqrt(np.mean((value - true) ** 2))), float(held[true > 0].mean())


def main(options: argparse.Namespace) -> None:
    """Release, ask, and print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table, of = made_up(options.values, options.groups, options.rows)
        named = {
            "code": [f"v{v}" for v in table["code"].to_numpy()],
            "region": [f"r{g}" for g in table["region"].to_numpy()],
        }
        pq.write_table(pa.table({**{n: table[n] for n in table.column_names}, **named}), folder / "t.parquet")
        np.save(folder / "of.npy", of)
        codes = {n: table[n].to_numpy() for n in table.column_names}
        epsilon, delta = Fraction(options.epsilon), options.delta or "None"
        share = Fraction(1, 4 * (1 + len(SIZES))) * Fraction(7, 8)
        alone = epsilon * share if options.delta is None else None
        print(f"{options.values:,} values in {options.groups} groups, {options.rows:,} rows, epsilon {epsilon}, {delta=}")
        for kind, spent in (("nested", epsilon), ("groups", epsilon), ("values", alone)):
            if spent is not None:
                cpu, memory = _run("release", kind, name, str(spent), delta)
                print(f"release, {kind:7} {cpu:7.1f} s CPU {memory:7.0f} MB")
        asked = {
            "one": ("nested", "SELECT COUNT(*) FROM t WHERE code = 'v3'", None),
            "region": ("nested", "SELECT region, COUNT(*) FROM t GROUP BY region", ("region",)),
            "code": ("nested", "SELECT code, COUNT(*) FROM t GROUP BY code", ("code",)),
            "pair": ("nested", "SELECT region, c3, COUNT(*) FROM t GROUP BY region, c3", ("region", "c3")),
            "pair_if_column": ("groups", "SELECT region, c3, COUNT(*) FROM t GROUP BY region, c3", ("region", "c3")),
            "code_c1": (
                "nested",
                "SELECT code, c1, COUNT(*) FROM t WHERE region = 'r7' GROUP BY code, c1",
                ("code", "c1"),
            ),
        }
        if alone is not None:
            asked["code_alone"] = ("values", "SELECT code, COUNT(*) FROM t GROUP BY code", ("code",))
        sizes = {"code": options.values, "region": options.groups, **{f"c{n}": size for n, size in enumerate(SIZES)}}
        for keep, (kind, sql, names) in asked.items():
            cpu, memory = _run("query", kind, name, sql, keep)
            said = f"{keep:15} {cpu:7.1f} s CPU {memory:7.0f} MB"
            if names is not None:
                shape = [sizes[each] for each in names]
                flat = np.ravel_multi_index([codes[each] for each in names], shape)
                truth = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
                error, held = _errors(folder, keep, truth)
                said += f"   error {error:8.2f}   95 % intervals hold {held:.3f}"
            print(said, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["release"]:
        release(sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5])
    elif sys.argv[1:2] == ["query"]:
        query(sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--values", type=int, default=20_000)
        parser.add_argument("--groups", type=int, default=100)
        parser.add_argument("--rows", type=int, default=2_000_000)
        parser.add_argument("--epsilon", default="1")
        parser.add_argument("--delta")
        main(parser.parse_args())
