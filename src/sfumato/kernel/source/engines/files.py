"""Files on disk: which ones a path or a pattern names, and of what kind they are."""

from __future__ import annotations

import re
from glob import glob
from pathlib import Path

from sfumato.errors import TableError
from sfumato.kernel.source.engines.csv_files import CsvFiles, find_csv
from sfumato.kernel.source.engines.parquet_files import ParquetFiles, find_parquet

SEPARATORS = {".csv": ",", ".tsv": "\t"}
COMPRESSIONS = ("", ".gz", ".bz2", ".zst")
FORMATS = (*(end + packed for end in SEPARATORS for packed in COMPRESSIONS), ".parquet")
_PATTERN = re.compile(r"[*?\[]")


def find_files(table: str | Path) -> CsvFiles | ParquetFiles:
    """The files that a path or a pattern names.

    >>> find_files("nowhere/census.parquet")
    Traceback (most recent call last):
    ...
    sfumato.errors.TableError: there is no file nowhere/census.parquet; check the path
    """
    paths = _paths(table)
    ends = {_format(name) for name in paths}
    if None in ends:
        raise TableError(f"{table} is not of a kind that can be read; use {', '.join(FORMATS)}")
    if len(ends) > 1:
        raise TableError(f"{table} matches files of more than one kind; name one kind, such as *.parquet")
    end = str(ends.pop())
    return find_parquet(paths) if end == ".parquet" else find_csv(paths, SEPARATORS[end[:4]])


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


def _format(path: Path) -> str | None:
    return next((end for end in sorted(FORMATS, key=len, reverse=True) if path.name.lower().endswith(end)), None)
