"""CPU seconds of releases, tables, rows, reports and checks of many columns, beside what is asked of each.

    python benchmarks/columns.py [--adult FOLDER] [WORK ...]

FOLDER holds adult.csv and adult-domain.json; work of Adult is left out without it. Commands are measured as whole
processes with their threads, work inside Python from the call on. Tables but Adult are made up.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import yaml

import sfumato as sf
from margins_tables import Table, tables_in
from measuring import Cost, run
from report import wide_table
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.measurement import Gaussian

TWELVE = (24, 12, 2, 2, 3, 3, 3, 9, 9, 4, 5, 87)  # values of the columns of a table of 52,000 rows
BUDGET = {"epsilon": 1_000_000, "delta": "1/100"}


class Work:
    """A folder with the tables and releases that the parts of this benchmark share, each made once."""

    def __init__(self, folder: Path, adult: Table | None) -> None:
        self.folder, self.table = folder, adult

    def command(self, *words: object) -> Cost:
        return run("-m", "sfumato", *map(str, words))

    def released(self, name: str, source: Path, schema: dict, *more: object) -> tuple[Path, Cost | None]:
        """A release by the command line; what it cost, if it was not there yet."""
        out, described = self.folder / f"{name}.sfumato", self.folder / f"{name}.yaml"
        if out.exists():
            return out, None
        described.write_text(yaml.safe_dump(schema, sort_keys=False))
        words = [source, "--schema", described, "--epsilon", 1, "--delta", "1e-9", "--ledger", self.folder / "ledger"]
        return out, self.command("release", *words, "-o", out, *more)

    def adult(self) -> tuple[Path, Cost | None]:
        assert self.table is not None
        return self.released("adult", self.table.path, self.table.schema())

    def hundred(self) -> tuple[Path, Cost | None]:
        """A hundred columns of ten values, 20,000 rows, each leaning on the one before it."""
        rng, columns = np.random.default_rng(7), [np.random.default_rng(8).integers(0, 10, 20_000)]
        for _ in range(99):
            stays = rng.random(20_000) < 0.5
            columns.append(np.where(stays, columns[-1], rng.integers(0, 10, 20_000)))
        return self.released("hundred", *self.written("hundred", columns, [10] * 100))

    def twelve(self) -> tuple[Path, Cost | None]:
        """Twelve columns of three hidden kinds of rows, 52,000 rows."""
        rng, rows = np.random.default_rng(9), 52_000
        kind = rng.choice(3, rows, p=[0.6, 0.3, 0.1])
        columns = []
        for size in TWELVE:
            shares = rng.dirichlet(np.full(size, 0.6), 3).cumsum(axis=1)
            columns.append(np.minimum((rng.random(rows)[:, None] > shares[kind]).sum(axis=1), size - 1))
        return self.released("twelve", *self.written("twelve", columns, TWELVE))

    def written(self, name: str, columns: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[Path, dict]:
        source = self.folder / f"{name}.csv"
        pyarrow.csv.write_csv(pa.table({f"c{place}": each for place, each in enumerate(columns)}), source)
        attributes = {f"c{place}": {"type": "integer", "lower": 0, "upper": s - 1} for place, s in enumerate(sizes)}
        return source, {"dataset": name, "privacy_unit": "row", "budget": BUDGET, "attributes": attributes}


def cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def of_release(made: tuple[Path, Cost | None]) -> str:
    assert made[1] is not None
    return f"{made[1].cpu:6.2f} s, {made[1].megabytes:,.0f} MB"


def three_keys(work: Work) -> str:
    """GROUP BY of three columns of 16 x 15 x 42 values: the first time after opening, and the second."""
    release = sf.open(work.adult()[0])
    release.query("SELECT COUNT(*) FROM t")
    names = ["education-num", "occupation", "native-country"]
    keys = ", ".join(f'"{name}"' for name in names)
    times = [cpu(lambda: release.query(f"SELECT {keys}, COUNT(*) FROM t GROUP BY {keys}")) for _ in range(2)]
    return f"{times[0]:6.2f} s first, {times[1]:.2f} s second"


def all_threes(work: Work) -> str:
    """All three-way tables of at most 10,000 cells of Adult, by `release.content` as margins.py asks for them."""
    assert work.table is not None
    release, names, sizes = sf.open(work.adult()[0]), list(work.table.sizes), work.table.sizes
    sets = [s for s in combinations(names, 3) if prod(sizes[n] for n in s) <= 10_000]

    def ask() -> None:
        for each in sets:
            keys = ", ".join(f'"{name}"' for name in each)
            release.query(f"SELECT {keys}, COUNT(*) FROM t GROUP BY {keys}", errors=False)

    return f"{cpu(ask):6.2f} s for {len(sets)} tables"


def rows_of(made: Path, count: int, work: Work) -> str:
    spent = work.command("sample", made, "-n", count, "-o", work.folder / "rows.csv", "--overwrite")
    return f"{spent.cpu:6.2f} s, {spent.megabytes:,.0f} MB"


def wide_report(work: Work) -> str:
    schema, table = wide_table()
    path = work.folder / "wide.sfumato"
    sf.release(table, schema, 2, ledger=work.folder / "other").save(path)
    return f"{work.command('report', path, '-o', work.folder / 'wide.html').cpu:6.2f} s"


def long_report(work: Work) -> str:
    """One column of a million values."""
    schema = {
        "dataset": "long", "privacy_unit": "row", "budget": BUDGET,
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": 999_999}},
    }  # fmt: skip
    source = work.folder / "long.parquet"
    pq.write_table(pa.table({"x": np.random.default_rng(3).integers(0, 1_000_000, 500_000)}), source)
    made, _ = work.released("long", source, schema)
    spent = work.command("report", made, "-o", work.folder / "long.html")
    return f"{spent.cpu:6.2f} s, {spent.megabytes:,.0f} MB"


def check(work: Work) -> str:
    """40,000 listed values, 500,000 rows."""
    values = [f"code {place:05d}" for place in range(40_000)]
    codes = np.random.default_rng(4).zipf(1.3, 500_000) % 40_100
    source, described = work.folder / "codes.csv", work.folder / "codes.yaml"
    pyarrow.csv.write_csv(pa.table({"code": [f"code {code:05d}" for code in codes]}), source)
    attributes = {"code": {"type": "category", "values": values}}
    schema = {"dataset": "codes", "privacy_unit": "row", "budget": BUDGET, "attributes": attributes}
    described.write_text(yaml.safe_dump(schema))
    spent = work.command("check", source, "--schema", described, "--even-if-not-a-terminal")
    return f"{spent.cpu:6.2f} s, {spent.megabytes:,.0f} MB"


def noise(_: Work) -> str:
    """Exact Gaussian noise at a hundred scales, a hundred numbers each."""
    entropy = SystemEntropy()
    draw(Gaussian(Fraction(77)), 100, entropy)
    scales = [Fraction(1000 + 37 * place, 7) for place in range(100)]
    return f"{cpu(lambda: [draw(Gaussian(scale), 100, entropy) for scale in scales]):6.2f} s"


WORKS: dict[str, tuple[str, str, Callable[[Work], str]]] = {
    "adult": ("release, Adult, 14 columns, 48,842 rows", "1.5 s", lambda w: of_release(w.adult())),
    "twelve": ("release, 12 columns, 52,000 rows", "2 s", lambda w: of_release(w.twelve())),
    "hundred": ("release, 100 columns of 10 values, 20,000 rows", "15 s, 1 GB", lambda w: of_release(w.hundred())),
    "keys": ("GROUP BY of three columns, 10,080 groups", "0.3 s first, 0.15 s second", three_keys),
    "threes": ("all three-way tables of Adult up to 10,000 cells", "30 s", all_threes),
    "rows": ("sample of 50,000 rows of Adult", "3 s", lambda w: rows_of(w.adult()[0], 50_000, w)),
    "wide-rows": ("sample of 10,000 rows of 100 columns", "10 s", lambda w: rows_of(w.hundred()[0], 10_000, w)),
    "report": ("report of 20 columns", "1.5 s", wide_report),
    "long": ("report of one column of a million values", "3 s", long_report),
    "check": ("check of 40,000 listed values, 500,000 rows", "2 s, 300 MB", check),
    "noise": ("exact Gaussian noise, 100 scales, 100 numbers each", "0.3 s", noise),
}
OF_ADULT = ("adult", "keys", "threes", "rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, help="folder with adult.csv and adult-domain.json")
    parser.add_argument("work", nargs="*", help=f"of {', '.join(WORKS)}; all if none is named")
    given = parser.parse_args()
    adult = tables_in(given.adult, ["adult"]).get("adult") if given.adult else None
    with tempfile.TemporaryDirectory() as folder:
        work = Work(Path(folder), adult)
        for name in given.work or WORKS:
            if adult is None and name in OF_ADULT:
                continue
            what, asked, measured = WORKS[name]
            print(f"{what:<52} {measured(work):<30} asked: {asked}", flush=True)


if __name__ == "__main__":
    main()
