"""Resolve a path or a pattern to files on disk, and tell their format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from glob import glob
from pathlib import Path

from sfumato.errors import TableError
from sfumato.kernel.reading.formats.columnar import find_parquet
from sfumato.kernel.reading.formats.origin import Origin
from sfumato.kernel.reading.formats.unpacking import STANDARD_INPUT
from sfumato.schema.dialect import PLAIN, Dialect

COMPRESSIONS = ("", ".gz", ".bz2", ".zst")
# Which format a file's name says it has.
_TEXTS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
ENDINGS = {end + packed: kind for end, kind in _TEXTS.items() for packed in COMPRESSIONS}
ENDINGS |= {".parquet": "parquet", ".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow", ".xlsx": "xlsx"}
_PATTERN = re.compile(r"[*?\[]")


def find_files(table: str | Path, dialect: Dialect = PLAIN, wanted: Sequence[str] = ()) -> Origin:
    """The files that a path or a pattern names.

    >>> find_files("nowhere/census.parquet")
    Traceback (most recent call last):
    ...
    sfumato.errors.TableError: there is no file nowhere/census.parquet; check the path
    """
    paths = (STANDARD_INPUT,) if str(table) == str(STANDARD_INPUT) else _paths(table)
    formats = {format_of(name, dialect) or "" for name in paths}
    if "" in formats:
        kinds = ", ".join(end for end in ENDINGS if end.count(".") == 1)
        raise TableError(
            f"{table} is not of a kind that can be read; use {kinds} (text also as .gz, .bz2 or .zst), or name its "
            "format (--file-format)"
        )
    if len(formats) > 1:
        raise TableError(f"{table} matches files of more than one kind; name one kind, such as *.parquet")
    return _found(formats.pop(), paths, dialect, wanted)


def _found(kind: str, paths: tuple[Path, ...], dialect: Dialect, wanted: Sequence[str]) -> Origin:
    if kind in ("csv", "tsv"):
        from sfumato.kernel.reading.formats.csv_files import find_csv

        return find_csv(paths, dialect, "\t" if kind == "tsv" else ",")
    if kind == "jsonl":
        from sfumato.kernel.reading.formats.json_lines import find_json

        return find_json(paths, dialect, wanted)
    if STANDARD_INPUT in paths:
        raise TableError(f"the standard input can be csv, tsv or jsonl, not {kind}; use a file")
    if kind == "arrow":
        from sfumato.kernel.reading.formats.columnar import ArrowFiles

        return ArrowFiles(paths)
    if kind == "xlsx":
        from sfumato.kernel.reading.formats.excel_files import find_excel

        return find_excel(paths, dialect)
    return find_parquet(paths)


def _paths(table: str | Path) -> tuple[Path, ...]:
    if any(ord(character) < 32 for character in str(table)):
        raise TableError(f"{str(table)!r} is not a path; check it")
    try:
        path = Path(table).expanduser()
        found = [path]
        if _PATTERN.search(str(path)) and not path.exists():
            found = sorted(name for name in map(Path, glob(str(path), recursive=True)) if not name.is_dir())  # noqa: PTH207
            if not found:
                raise TableError(f"no file matches {table}; check the pattern")
        missing = next((name for name in found if not name.exists()), None)
    except (OSError, ValueError, RuntimeError):
        raise TableError(f"{str(table)[:200]!r} is not a path; check it") from None
    if missing is not None:
        raise TableError(f"there is no file {missing}; check the path")
    if any(name.is_dir() for name in found):
        raise TableError(f"{table} is a folder; name the files in it, such as {path / '*.parquet'}")
    return tuple(name.absolute() for name in found)


def format_of(path: str | Path, dialect: Dialect = PLAIN) -> str | None:
    """The format of a file: the one that was stated, or that its name says it has.

    >>> format_of("visits.CSV.gz"), format_of("-"), format_of("visits")
    ('csv', 'csv', None)
    """
    name = "-.csv" if str(path) == str(STANDARD_INPUT) else Path(path).name.lower()
    endings = sorted(ENDINGS, key=len, reverse=True)
    return dialect.format or next((ENDINGS[end] for end in endings if name.endswith(end)), None)
