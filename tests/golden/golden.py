"""Releases and answers under the testing generator, compared with those of golden.txt. `make golden`

Every mechanism releases four small tables (tables.py), those of one purpose the example of theirs as well, and each
release is asked about forty statements in typical and in guaranteed intervals. A line of golden.txt has a mechanism, a
table and three hashes: of the file, of the typical and of the guaranteed answers. What refuses to make a release has a
hash of its message. A change that moves code must change none of them; one that is meant to say which and why.

    python tests/golden/golden.py                    compare, and name what differs
    python tests/golden/golden.py --only margins     some mechanisms or tables alone
    python tests/golden/golden.py --write FOLDER     all of it as text besides, to be compared with that of another tree
    python tests/golden/golden.py --update           write golden.txt anew

Left out of the file's hash: the receipt (a ledger has an identity of its own), who wrote it (Sfumato's version, and
Arrow's in each member), and digests of these. Numbers of an answer are rounded to nine digits of the largest of value,
error and ends, so that the order in which a library adds floats up does not matter. It runs itself in one thread and on
the plainest processor, for the same numbers on every machine of a kind; the first lines of golden.txt say which machine
and libraries made it. Elsewhere what differs is told, and is no failure: there only two trees can be compared, by
--write.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import re
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
KEPT = HERE / "golden.txt"
KINDS = ("file", "typical", "guaranteed")
DIGITS = 9
LIBRARIES = ("numpy", "scipy", "duckdb", "sqlglot", "scikit-learn", "onnxruntime")
SEED = 29
LEFT_OUT = {("matrix", "many"), ("division", "many"), ("laplace", "many")}  # 10 to 60 seconds each
ROWS = 40  # synthetic ones, drawn from releases that have any

# One thread, and what every x86-64 processor of the last fifteen years can do: another rounds otherwise.
PLAIN = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 X86_V3 AVX512_ICL AVX512_SPR",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX,-FMA,-FMA4",
    "PYTHONHASHSEED": "0",
}


def main() -> int:
    """Compare, or write anew; 1 where something differs that should not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="mechanisms or tables")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="where to write the answers as text")
    parser.add_argument("--times", action="store_true", help="say how long each took, in seconds of CPU")
    parser.add_argument("--update", action="store_true", help=f"write {KEPT.name} anew")
    asked = parser.parse_args()
    if asked.update and asked.only:
        parser.error("--update writes all lines; leave --only out")
    made = {}
    for name, answers, seconds in releases(asked.only):
        made[name] = {kind: digest(answers.get(kind, "")) for kind in KINDS}
        if asked.write:
            for kind, text in answers.items():
                asked.write.mkdir(parents=True, exist_ok=True)
                (asked.write / f"{name.replace(' ', '-')}-{kind}.txt").write_text(text, encoding="utf-8")
        if asked.times:
            print(f"{seconds:6.2f} s  {name}", flush=True)
    if asked.update:
        KEPT.write_text(as_text(made), encoding="utf-8")
        return print(f"{KEPT.name}: {len(made)} lines") or 0
    return compare(made, some=bool(asked.only))


def compare(made: Mapping[str, Mapping[str, str]], *, some: bool) -> int:
    """Say what differs from the lines that are kept, by name."""
    head, kept = read(KEPT.read_text(encoding="utf-8"))
    complaints = [f"{name}: not in {KEPT.name}" for name in made if name not in kept]
    complaints += [f"{name}: no longer made" for name in kept if name not in made and not some]
    for name in filter(kept.__contains__, made):
        kinds = [kind for kind in KINDS if made[name][kind] != kept[name][kind]]
        complaints += [f"{name}: another {', '.join(kinds)}"] if kinds else []
    print(*complaints, sep="\n", end="\n" * bool(complaints))
    print(f"{len(made)} releases, {len(complaints)} of them differ")
    if complaints and head != (here := made_with()):
        print(f"{KEPT.name} was made with {head}; here are {here}: last digits may differ, so this is no failure")
        return 0
    return 1 if complaints else 0


def releases(only: list[str]) -> Iterator[tuple[str, dict[str, str], float]]:
    """For every mechanism and table a name, what was made as text by kind, and seconds of CPU; two at a time."""
    from tables import TABLES

    from sfumato.models import every_name, find_mechanism

    pairs = [(name, table) for name in every_name() for table in TABLES if (name, table) not in LEFT_OUT]
    pairs += [(name, "own") for name in every_name() if find_mechanism(name).lab.example is not None]
    wanted = [
        pair for pair in sorted(pairs, key=lambda pair: every_name().index(pair[0])) if not only or {*only} & {*pair}
    ]
    with ProcessPoolExecutor(2) as pool:
        yield from pool.map(timed, *zip(*wanted, strict=True))


def timed(name: str, table: str) -> tuple[str, dict[str, str], float]:
    """One of `releases`."""
    from tables import TABLES, own

    from sfumato.models import find_mechanism

    start, mechanism = time.process_time(), find_mechanism(name)
    if table == "own":
        found = released(name, own(mechanism.lab.example(1)), mechanism.lab.tried_with)
    else:
        golden = TABLES[table]()
        found = released(name, golden, golden.options.get(name, {}))
    return f"{name} {table}", found, time.process_time() - start


def released(mechanism: str, golden: Any, options: Mapping[str, str]) -> dict[str, str]:
    """The file and both kinds of answers as text, or why there is no release."""
    import sfumato
    from sfumato.kernel.sampling.entropy import TestingEntropy

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", sfumato.errors.NewLedgerWarning)
        try:
            made = sfumato.release(
                golden.table,
                golden.schema,
                mechanism=mechanism,
                options=options,
                ledger=Path(folder) / "ledger.sqlite",
                entropy=TestingEntropy(SEED),
                even_if_useless=True,
                **golden.budget,
            )
        except sfumato.SfumatoError as error:
            return {"file": f"refused: {error}"}
        path = made.save(Path(folder) / "r.sfumato")
        opened = sfumato.open(path, allow_not_private=True)
        return {"file": file_text(path), **{kind: answers(opened, golden, kind) for kind in KINDS[1:]}}


def file_text(path: Path) -> str:
    """All that a file holds but the receipt, the versions that wrote it, and what depends on these."""
    with zipfile.ZipFile(path) as file:
        manifest = json.loads(file.read("manifest.json"))
        members = {name: file.read(name) for name in file.namelist() if name != "manifest.json"}
    for name in ("receipt", "written_by", "digest"):
        del manifest[name]
    for member in manifest["members"].values():
        del member["sha256"], member["bytes"]
    lines = [json.dumps(manifest, ensure_ascii=False, indent=1)]
    for name, content in members.items():
        lines.append(f"{name} {digest(re.sub(rb'parquet-cpp-arrow version [0-9.]+', b'arrow', content))}")
    return "\n".join(lines)


def answers(release: Any, golden: Any, interval: str) -> str:
    """What a release answers to every statement, and how it describes itself and which rows it draws."""
    import sfumato

    asked: dict[str, Callable[[], Iterable[str]]] = {}
    for sql, how in golden.asked:
        ask = partial(release.query, sql, interval=interval, **how)
        asked[" ".join([*map(str, how), sql])] = lambda ask=ask: result_lines(ask())
    if interval == "typical":
        asked["describe"] = lambda: [repr(release.describe())]
    if interval == "typical" and golden.draws:
        asked["sample"] = lambda: [str(release.sample(ROWS, seed=1).to_pydict())]
    lines = []
    for name, answer in asked.items():
        lines.append(f"> {name}")
        try:
            lines += answer()
        except sfumato.SfumatoError as error:
            lines.append(f"refused: {error}")
        except Exception as error:  # a fault that is there is no reason to stop; that it goes shows as a difference
            lines.append(f"FAULT: {error!r}")
    return "\n".join(lines)


def result_lines(result: Any) -> Iterator[str]:
    """A line for each row, and one for each note."""
    yield f"{result.columns} {sorted(result.dated.items())}"
    for row in result.rows:
        yield " | ".join(estimate_text(cell) if hasattr(cell, "stderr") else repr(cell) for cell in row)
    yield from result.remarks


def estimate_text(cell: Any) -> str:
    """All numbers of an estimate, rounded alike."""
    numbers = (cell.value, cell.stderr, cell.low, cell.high, cell.noise, cell.model, *(cell.sure or ()))
    largest = max((abs(number) for number in numbers if math.isfinite(number)), default=0.0)
    decimals = DIGITS - 1 - math.floor(math.log10(largest)) if largest else 0
    rounded = (round(number, decimals) + 0.0 if math.isfinite(number) else number for number in numbers)
    return f"{' '.join(f'{number:.{DIGITS}g}' for number in rounded)} {cell.dates:d}{cell.timed:d} {cell.real}"


def digest(text: str | bytes) -> str:
    """Enough of a hash to tell by; a dash for nothing."""
    raw = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(raw).hexdigest()[:16] if raw else "-"


def made_with() -> str:
    """On which machine, and with which libraries."""
    python = ".".join(platform.python_version_tuple()[:2])
    return ", ".join([platform.machine(), f"Python {python}", *(f"{name} {version(name)}" for name in LIBRARIES)])


def as_text(made: Mapping[str, Mapping[str, str]]) -> str:
    """The lines to keep."""
    head = [f"# {made_with()}", "# mechanism, table, and hashes of file, typical and guaranteed answers (golden.py)"]
    lines = [f"{name:22} {' '.join(f'{hashes[kind]:16}' for kind in KINDS)}".rstrip() for name, hashes in made.items()]
    return "\n".join([*head, *lines, ""])


def read(text: str) -> tuple[str, dict[str, dict[str, str]]]:
    """With what the lines were made, and the lines."""
    head, *rest = text.splitlines()
    lines = [line.split() for line in rest if not line.startswith("#")]
    kept = {f"{name} {table}": dict(zip(KINDS, hashes, strict=True)) for name, table, *hashes in lines}
    return head.removeprefix("# "), kept


if __name__ == "__main__":
    if any(os.environ.get(name) != value for name, value in PLAIN.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **PLAIN})
    sys.exit(main())
