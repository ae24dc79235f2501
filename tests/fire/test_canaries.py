"""Canaries: fifty secrets are planted in a private table, then every command is run and made to fail in forty ways.

No secret, no true count and not the number of rows may be found in anything that is left behind: what was printed and
logged, temporary files, releases, synthetic rows, the ledger. Files are searched as bytes, and their numbers and texts
decoded. The noise is so wide (epsilon 1e-6) that a noisy number equals a true one with a chance below 1e-6 in all.
"""

from __future__ import annotations

import csv
import gc
import io
import json
import logging
import os
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli import main

ROWS = 48_611
# True counts of the four cells, and of the sexes; what is left of the rows has no cell.
CELLS = {("F", 0): 13_997, ("F", 1): 9_649, ("M", 0): 11_213, ("M", 1): 8_731}
SECRET_TEXTS = [f"Zyqqert{n:02d}-Vauxhall" for n in range(30)]
SECRET_NUMBERS = [7_310_000_019 + 48_271_337 * n for n in range(20)]
WORDS = re.compile(r"[0-9A-Za-z_.,]+")

SCHEMA = """
dataset: hospital
privacy_unit: {column: person_id, contributions: 1}
budget: {epsilon: 3}
attributes:
  sex: {type: category, values: [F, M]}
  old: {type: integer, lower: 0, upper: 1}
measures:
  charge: {lower: 0, upper: 100, step: 1}
expected_rows: 1000
"""


def private_table() -> pa.Table:
    """Secrets as identifiers, as categories that are not listed, as numbers out of bounds and in a column not used."""
    sexes = [sex for (sex, _), count in CELLS.items() for _ in range(count)]
    olds = [old for (_, old), count in CELLS.items() for _ in range(count)]
    rest = ROWS - len(sexes)
    sexes += [SECRET_TEXTS[n % 10] for n in range(rest)]  # no cell
    olds += [0] * rest
    identifiers = [f"id{n}" for n in range(ROWS)]
    identifiers[5:15] = SECRET_TEXTS[10:20]
    notes = ["-"] * ROWS
    notes[25:35] = SECRET_TEXTS[20:30]
    charges = np.resize(np.array([3.0, 5.0, 99.0]), ROWS)
    charges[40:50] = SECRET_NUMBERS[:10]
    wide = np.array(olds, dtype=np.int64)
    wide[-10:] = SECRET_NUMBERS[10:]
    return pa.table({"person_id": identifiers, "sex": sexes, "old": wide, "charge": charges, "note": notes})


def true_numbers() -> set[int]:
    """Counts that would give the table away: of rows, of rows that have a cell, of cells and of every margin."""
    found = {ROWS, sum(CELLS.values()), ROWS - sum(CELLS.values())}
    found |= set(CELLS.values())
    for place in (0, 1):
        for value in {cell[place] for cell in CELLS}:
            found.add(sum(count for cell, count in CELLS.items() if cell[place] == value))
    return found


def spelled(number: int) -> set[str]:
    return {str(number), f"{number:,}", f"{number}.0", f"{number:,}.0", f"{number:_}"}


SPELLED = {text for number in true_numbers() for text in spelled(number)}


def find_in_text(text: str) -> list[str]:
    found = [secret for secret in SECRET_TEXTS if secret.lower() in text.lower()]
    for number in SECRET_NUMBERS:
        found += [form for form in spelled(number) if form in text]
    # Counts are short, so they are looked for as words of their own: a digest may hold any five digits.
    words = {word.strip(".,") for word in WORDS.findall(text)}
    return found + sorted(words & SPELLED)


def find_in_bytes(data: bytes) -> list[str]:
    found = find_in_text(data.decode("latin-1"))
    found += [secret for secret in SECRET_TEXTS if secret.encode("utf-16-le") in data]
    for number in SECRET_NUMBERS:
        forms = (struct.pack("<q", number), struct.pack(">q", number), struct.pack("<d", number))
        found += [str(number) for form in forms if form in data]
    for number in true_numbers():
        found += [str(number) for form in (struct.pack("<q", number), struct.pack(">q", number)) if form in data]
    return found


def values_in(path: Path) -> list[object]:
    """The values in a file, decoded, where we know its form."""
    data = path.read_bytes()
    tables = []
    if data[:4] == b"PK\3\4":
        with zipfile.ZipFile(path) as file:
            tables = [file.read(name) for name in file.namelist() if name.endswith(".parquet")]
    elif data[:4] == b"PAR1":
        tables = [data]
    elif data[:6] == b"SQLite":
        with sqlite3.connect(path) as connection:
            names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return [value for name in names for row in connection.execute(f"SELECT * FROM {name}") for value in row]
    elif path.suffix == ".csv":
        return [value for row in csv.reader(io.StringIO(data.decode())) for value in row]
    values: list[object] = []
    for body in tables:
        for column in pq.read_table(io.BytesIO(body)).columns:
            values += column.to_pylist()
    return values


def find_in_file(path: Path) -> list[str]:
    found = find_in_bytes(path.read_bytes())
    private = {*SECRET_TEXTS, *SECRET_NUMBERS, *true_numbers(), *SPELLED}
    try:
        return found + [repr(value) for value in values_in(path) if value in private]
    except (zipfile.BadZipFile, pa.ArrowInvalid, OSError, sqlite3.DatabaseError):
        return found  # a file that a forced failure damaged: its bytes were searched


class House:
    """A folder with the private table, a place for temporary files, and a record of all that was said."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self.monkeypatch, self.capfd = folder, monkeypatch, capfd
        self.said: list[tuple[str, str]] = []
        self.given: set[Path] = set()
        for name in ("tmp", "home", "work"):
            (folder / name).mkdir()
        for name, place in (("TMPDIR", "tmp"), ("HOME", "home"), ("XDG_DATA_HOME", "home"), ("XDG_CACHE_HOME", "home")):
            monkeypatch.setenv(name, str(folder / place))
        monkeypatch.delenv("SFUMATO_LEDGER", raising=False)
        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.chdir(folder / "work")
        table = private_table()
        pq.write_table(table, self.private("t.parquet"))
        with self.private("t.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(table.column_names)
            writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
        Path("s.yaml").write_text(SCHEMA)

    def private(self, name: str) -> Path:
        """A file of ours that holds private values: it is not searched."""
        self.given.add((self.folder / "work" / name).resolve())
        return Path(name)

    def run(self, *arguments: str) -> int:
        """The command line within this process, as `python -m sfumato` runs it."""
        self.monkeypatch.setattr(sys, "argv", ["sfumato", *arguments])
        self.capfd.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        out, err = self.capfd.readouterr()
        self.said.append((" ".join(arguments), out + "\n" + err))
        return code

    def leaks(self, caplog: pytest.LogCaptureFixture) -> list[tuple[str, list[str]]]:
        found = [(what, find_in_text(text)) for what, text in [*self.said, ("log", caplog.text)]]
        for path in self.folder.rglob("*"):
            if path.is_file() and path.resolve() not in self.given:
                found.append((str(path.relative_to(self.folder)), find_in_file(path)))
                found.append((f"name of {path.name}", find_in_text(path.name)))
        return [(what, secrets) for what, secrets in found if secrets]


@pytest.fixture
def house(tmp_path, monkeypatch, capfd) -> House:
    (tmp_path / "house").mkdir()
    return House(tmp_path / "house", monkeypatch, capfd)


def release(*more: str, table: str = "t.parquet", schema: str = "s.yaml", out: str = "r.sfumato") -> tuple[str, ...]:
    return ("release", table, "--schema", schema, "--epsilon", "1e-6", "-o", out, "--even-if-useless", *more)


def test_the_search_finds_what_it_looks_for(tmp_path):
    """Each kind of secret, in each form, and no alarm where there is none."""
    for text in (SECRET_TEXTS[3], f"x={SECRET_NUMBERS[2]};", "read 48,611 rows", "n=48611.", "[13997, 4]", "9,649"):
        assert find_in_text(text), text
    for text in ("a48611b", "148,611", "1348611", "0.486113", "48612", ""):
        assert not find_in_text(text), text
    assert find_in_bytes(b"\0" + struct.pack("<q", ROWS)) and find_in_bytes(SECRET_TEXTS[0].encode("utf-16-le"))
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table({"n": [1, 13_997]}), file, compression="zstd")
    assert find_in_file(file)
    assert len(set(SECRET_TEXTS)) + len(set(SECRET_NUMBERS)) == 50
    table = private_table()
    planted = {str(value) for column in table.columns for value in column.to_pylist()}
    planted |= {f"{value:.0f}" for value in table["charge"].to_pylist()}
    assert table.num_rows == ROWS and {*SECRET_TEXTS, *map(str, SECRET_NUMBERS)} <= planted


def test_every_command_keeps_every_secret(house, caplog):
    caplog.set_level(logging.DEBUG)
    for table, mechanism in (("t.parquet", "cells"), ("t.csv", "cells"), ("t.parquet", "sparse-cells")):
        out = f"{mechanism}-{table}.sfumato"
        assert house.run(*release("--mechanism", mechanism, table=table, out=out)) == 0, house.said[-1]
        for form in ("table", "csv", "json"):
            sql = "SELECT sex, old, COUNT(*) AS n, SUM(charge) AS s, AVG(charge) AS a FROM hospital GROUP BY sex, old"
            assert house.run("query", out, sql, "--format", form) == 0
            assert house.run("query", out, "SELECT COUNT(*) FROM hospital", "--format", form) == 0
    for suffix in ("csv", "parquet"):
        # So wide a noise may leave no row in sum, and then there is nothing to draw.
        assert house.run("sample", "cells-t.parquet.sfumato", "--rows", "200", "-o", f"rows.{suffix}") in (0, 1)
    assert house.run("init", "t.parquet") == house.run("init", "t.csv", "-o", "draft.yaml") == 0
    assert house.run("plan", "--schema", "s.yaml", "--epsilon", "1") == 0
    assert house.run("plan", "--schema", "s.yaml", "--error", "50") == 0
    assert house.run("ledger", "show") == house.run("ledger", "show", "hospital") == 0
    assert house.run("ledger", "set", "hospital", "--epsilon", "4") == 0
    cells = release("--mechanism", "cells", out="cells-t.parquet.sfumato")
    assert house.run(*cells, "--dry-run", "--json") == house.run(*cells, "--if-missing", "--json") == 0
    last = release("--mechanism", "sparse-cells", out="again.sfumato")
    assert house.run(*last) == house.run(*last, "--json") == 1  # the same again
    Path("q.sql").write_text("SELECT COUNT(*) FROM hospital; SELECT sex, AVG(charge) FROM hospital GROUP BY sex")
    assert house.run("query", "cells-t.parquet.sfumato", "@q.sql", "-o", "answers.csv") == 0
    assert house.run("ledger", "show", "--json") == 0
    assert house.leaks(caplog) == []
    assert sum(path.suffix == ".sfumato" for path in Path().iterdir()) == 3
    gc.unfreeze()  # commands leave what they hold to the end of the process, which here goes on
    gc.collect()
    assert list((house.folder / "tmp").iterdir()) == []  # nothing temporary is left


def write(name: str, text: str) -> Callable[[House], None]:
    return lambda house: Path(name).write_text(text) and None


def spoil(house: House, start: float, fill: bytes, name: str = "bad.parquet") -> None:
    """The private table with some of its bytes overwritten."""
    data = bytearray(Path("t.parquet").read_bytes())
    at = int(start * len(data))
    data[at : at + 400] = fill * 400 if len(fill) == 1 else fill
    house.private(name).write_bytes(data)


def retype(house: House, column: str, values: pa.Array) -> None:
    table = private_table()
    place = table.column_names.index(column)
    pq.write_table(table.set_column(place, column, values), house.private("bad.parquet"))


def schema_with(old: str, new: str) -> Callable[[House], None]:
    assert old in SCHEMA
    return write("bad.yaml", SCHEMA.replace(old, new))


def raising(where: str, error: Exception) -> Callable[[House], None]:
    """An error that quotes a secret, from deep inside."""

    def fail(*_: object, **__: object) -> object:
        raise error

    return lambda house: house.monkeypatch.setattr(where, fail)


def damage_release(house: House) -> None:
    assert house.run(*release()) == 0
    data = bytearray(Path("r.sfumato").read_bytes())
    data[len(data) // 2] ^= 4
    Path("bad.sfumato").write_bytes(data)


def nothing(house: House) -> None:
    pass


def released(house: House) -> None:
    assert house.run(*release()) == 0


def bad_csv(text: str) -> Callable[[House], None]:
    return lambda house: house.private("bad.csv").write_bytes(text.encode("latin-1")) and None


HEADER = "person_id,sex,old,charge,note\n"
SECRET_ROW = f"{SECRET_TEXTS[11]},{SECRET_TEXTS[0]},{SECRET_NUMBERS[3]},{SECRET_NUMBERS[4]},{SECRET_TEXTS[21]}\n"
SECRET_KEYS = "".join(f"{text}: {number}\n" for text, number in zip(SECRET_TEXTS, SECRET_NUMBERS, strict=False))
BAD_TABLE, BAD_SCHEMA = {"table": "bad.parquet"}, {"schema": "bad.yaml"}
QUERY = "SELECT COUNT(*) FROM hospital"
# What is prepared, the command, and whether it must fail. Where it must not, an error would itself tell of the data.
FAILURES: dict[str, tuple[Callable[[House], object], tuple[str, ...], bool]] = {
    "no table": (nothing, release(table="none.parquet"), True),
    "no schema": (nothing, release(schema="none.yaml"), True),
    "no folder": (nothing, release(out="none/r.sfumato"), True),
    "a folder in its place": (lambda h: Path("d").mkdir(), release(out="d"), True),
    "a schema that is no YAML": (write("bad.yaml", "a: [1, {"), release(**BAD_SCHEMA), True),
    "an empty schema": (write("bad.yaml", ""), release(**BAD_SCHEMA), True),
    "a schema without bounds": (schema_with("lower: 0, upper: 1}", "lower: 0}"), release(**BAD_SCHEMA), True),
    "a column that is not there": (schema_with("  old:", "  older:"), release(**BAD_SCHEMA), True),
    "a measure that is not there": (schema_with("  charge:", "  fee:"), release(**BAD_SCHEMA), True),
    "a person that is not there": (schema_with("person_id", "citizen"), release(**BAD_SCHEMA), True),
    "a number that is text": (schema_with("sex: {type: category, values: [F, M]}", "note: {type: integer, lower: 0, upper: 9}"), release(**BAD_SCHEMA), True),  # noqa: E501
    "a measure that is text": (schema_with("charge: {lower", "note: {lower"), release(**BAD_SCHEMA), True),
    "a category that is a number": (schema_with("old: {type: integer, lower: 0, upper: 1}", "charge: {type: category, values: [a]}"), release(**BAD_SCHEMA), False),  # noqa: E501
    "columns of lists": (lambda h: retype(h, "sex", pa.array([[s] for s in private_table()["sex"].to_pylist()])), release(**BAD_TABLE), True),  # noqa: E501
    "numbers as text": (lambda h: retype(h, "charge", pa.array([str(s) for s in private_table()["note"].to_pylist()])), release(**BAD_TABLE), True),  # noqa: E501
    "a Parquet file cut short": (lambda h: h.private("bad.parquet").write_bytes(Path("t.parquet").read_bytes()[:9999]), release(**BAD_TABLE), True),  # noqa: E501
    "a first page of zeros": (lambda h: spoil(h, 0.0002, b"\0"), release(**BAD_TABLE), True),
    "a middle page of ones": (lambda h: spoil(h, 0.3, b"\xff"), release(**BAD_TABLE), True),
    "pages of text": (lambda h: spoil(h, 0.002, SECRET_TEXTS[0].encode() * 20), release(**BAD_TABLE), True),
    "a footer of zeros": (lambda h: spoil(h, 0.99999, b"\0"), release(**BAD_TABLE), True),
    "a CSV without rows or names": (bad_csv(""), release(table="bad.csv"), True),
    "a CSV with quotes that do not end": (bad_csv(HEADER + SECRET_ROW + '"' + SECRET_ROW * 3), release(table="bad.csv"), False),  # noqa: E501
    "a CSV with too many fields": (bad_csv(HEADER + SECRET_ROW + SECRET_ROW.strip() + ",1,2,3\n"), release(table="bad.csv"), False),  # noqa: E501
    "a CSV that is not UTF-8": (bad_csv(HEADER + SECRET_ROW + "\xff\xfe" + SECRET_ROW), release(table="bad.csv"), False),  # noqa: E501
    "a CSV with null bytes": (bad_csv(HEADER + SECRET_ROW + "\0\0" + SECRET_ROW), release(table="bad.csv"), False),
    "secrets in place of names": (bad_csv(SECRET_ROW.replace(SECRET_TEXTS[11], "x")), ("release", "bad.csv", "--schema", "s.yaml", "--epsilon", "1", "-o", "r"), True),  # noqa: E501
    "an ending nobody knows": (lambda h: h.private("t.bin").write_bytes(b"x"), release(table="t.bin"), True),
    "an epsilon of nothing": (nothing, ("release", "t.parquet", "--schema", "s.yaml", "--epsilon", "0", "-o", "r"), True),  # noqa: E501
    "an epsilon beyond the budget": (nothing, ("release", "t.parquet", "--schema", "s.yaml", "--epsilon", "9", "-o", "r"), True),  # noqa: E501
    "a mechanism nobody knows": (nothing, release("--mechanism", "magic"), True),
    "a workload that is no SQL": (write("w.sql", "SELEKT"), release("--workload", "w.sql"), True),
    "a ledger that is none": (write("l.sqlite", "hello" * 500), release("--ledger", "l.sqlite"), True),
    "a ledger in a file": (write("l", "x"), release("--ledger", "l/l.sqlite"), True),
    "an error while reading": (raising("sfumato.kernel.reading.table.Table.read", ValueError(SECRET_ROW)), release(), True),  # noqa: E501
    "an error while measuring": (raising("sfumato.kernel.curator.draw", RuntimeError(f"{ROWS} {SECRET_ROW}")), release(), True),  # noqa: E501
    "no memory": (raising("sfumato.kernel.curator.Curator._dense", MemoryError(f"for {ROWS} rows")), release(), True),
    "interrupted": (raising("sfumato.kernel.curator.draw", KeyboardInterrupt(SECRET_ROW)), release(), True),
    "no random bits": (raising("sfumato.kernel.sampling.entropy.os.urandom", OSError(5, SECRET_ROW)), release(), True),
    "a disk that is full": (raising("sfumato.releases.file.artifact.write_columns", OSError(28, "No space left")), release(), True),  # noqa: E501
    "a ledger that is lost before the end": (raising("sfumato.kernel.ledger.ledger.Ledger.publish", RuntimeError(SECRET_ROW)), release(), True),  # noqa: E501
    "a damaged release": (damage_release, ("query", "bad.sfumato", QUERY), True),
    "the table in place of a release": (nothing, ("query", "t.parquet", QUERY), True),
    "the table in place of a release to sample": (nothing, ("sample", "t.csv", "--rows", "9", "-o", "x.csv"), True),
    "the table in place of a schema": (nothing, release(schema="t.csv"), True),
    "the table in place of a schema to plan": (nothing, ("plan", "--schema", "t.csv", "--epsilon", "1"), True),
    "the table in place of a workload": (nothing, release("--workload", "t.csv"), True),
    "the table in place of a ledger": (nothing, ("ledger", "show", "--ledger", "t.parquet"), True),
    "private rows in place of a schema": (bad_csv(HEADER + SECRET_ROW), release(schema="bad.csv"), True),
    "private rows in place of a plan": (bad_csv(SECRET_ROW), ("plan", "--schema", "bad.csv", "--epsilon", "1"), True),
    "private rows in place of a workload": (bad_csv(HEADER + SECRET_ROW), release("--workload", "bad.csv"), True),
    "private keys in place of a workload": (bad_csv(SECRET_KEYS), release("--workload", "bad.csv"), True),
    "SQL with an unknown column": (released, ("query", "r.sfumato", "SELECT note FROM hospital"), True),
    "SQL that writes": (released, ("query", "r.sfumato", "DROP TABLE hospital"), True),
    "synthetic rows nowhere": (released, ("sample", "r.sfumato", "--rows", "9", "-o", "none/x.csv"), True),
    "a draft over a file": (nothing, ("init", "t.parquet", "-o", "s.yaml"), False),
    "a draft of pages that are broken": (lambda h: spoil(h, 0.3, b"\xff"), ("init", "bad.parquet"), False),
}  # fmt: skip


def test_forced_failures_keep_every_secret(house, caplog):
    """All in one house, one after another, so that what one leaves behind is searched with the rest."""
    caplog.set_level(logging.DEBUG)
    assert len(FAILURES) >= 40
    unexpected, work = [], Path.cwd()
    for number, (name, (prepare, command, must_fail)) in enumerate(FAILURES.items()):
        place = work / str(number)
        place.mkdir()
        for file in ("t.parquet", "t.csv", "s.yaml"):
            (place / file).hardlink_to(work / file)
        os.chdir(place)
        house.given |= {place / "t.parquet", place / "t.csv"}
        known = set(house.given)
        with house.monkeypatch.context() as patched:
            house.monkeypatch, kept = patched, house.monkeypatch
            prepare(house)
            house.given = known | {place / file.name for file in house.given - known}
            code = house.run(*command)
            house.monkeypatch = kept
        said = house.said[-1][1]
        if (code != 0) != must_fail or (must_fail and "Traceback" in said):
            unexpected.append((name, code, said[-300:]))
    os.chdir(work)
    assert house.leaks(caplog) == []
    assert unexpected == []


def test_a_process_of_its_own_leaves_nothing_behind(house, caplog, full):
    """As a user runs it, and with Python's own debugging switched on, which prints more than a user would see."""
    environment = {**os.environ, "PYTHONDEVMODE": "1", "PYTHONFAULTHANDLER": "1", "DUCKDB_LOG_LEVEL": "debug"}
    spoil(house, 0.3, b"\xff")
    commands = [release("--mechanism", "cells"), release(table="bad.parquet", out="x.sfumato")]
    if full:
        commands += [command for prepare, command, _ in FAILURES.values() if prepare is nothing]
    for command in commands:
        run = subprocess.run(
            [sys.executable, "-m", "sfumato", *command], capture_output=True, text=True, check=False, env=environment
        )
        house.said.append((" ".join(command), run.stdout + run.stderr))
    assert house.leaks(caplog) == []
    assert Path("r.sfumato").exists() and not Path("x.sfumato").exists()
    if full:
        print(f"\ncanaries: {len(FAILURES)} forced failures, {len(house.said)} processes, no secret found")
        print(json.dumps({"secrets": 50, "true numbers": len(true_numbers())}))
