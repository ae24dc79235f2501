"""CSV and Parquet files, as DuckDB reads them: the same way whatever they hold.

Nothing about a file's reading is guessed from its values. The types, separators and quotes of a CSV file are fixed, all
its columns are text, and a line that does not fit the header falls out by itself instead of stopping the work.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.kernel.engines import Column
from sfumato.kernel.engines.origin import SOURCE, mounted_columns

if TYPE_CHECKING:
    from sqlglot import exp

FORMATS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_LONGEST_HEADER = 1 << 20
_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Files:
    """Files of one format, read as one table. header: the names in CSV files, None for Parquet."""

    paths: tuple[Path, ...]
    header: tuple[str, ...] | None
    separator: str = ","

    @property
    def shown(self) -> str:
        """What a message calls them."""
        return ", ".join(path.name for path in self.paths[:3]) + (", ..." if len(self.paths) > 3 else "")

    def describe(self, connection: Any) -> list[Column]:
        """Their columns."""
        if self.header is not None:
            return [Column(name, None, f"c{place}") for place, name in enumerate(self.header)]
        names = self._parquet_names(connection)
        self.mount(connection, ())
        # DuckDB ignores case and renames the second of "Age" and "age"; the order stays.
        return [replace(column, name=name) for name, column in zip(names, mounted_columns(connection), strict=True)]

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make them readable as one table."""
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS FROM {self._reader().sql(dialect='duckdb')}")

    def _reader(self) -> exp.Expression:
        from sqlglot import exp

        options: dict[str, exp.Expression]
        if self.header is None:
            options = {"hive_partitioning": exp.false()}
        else:
            text = exp.Literal.string("VARCHAR")
            names = [exp.to_identifier(f"c{place}") for place in range(len(self.header))]
            options = {
                "auto_detect": exp.false(),  # for privacy: detection looks at values
                "columns": exp.Struct(expressions=[exp.PropertyEQ(this=name, expression=text) for name in names]),
                "header": exp.true(),
                "delim": exp.Literal.string(self.separator),
                "quote": exp.Literal.string('"'),
                "escape": exp.Literal.string('"'),
                "ignore_errors": exp.true(),  # for privacy: no line can stop the work
                "strict_mode": exp.false(),
                "null_padding": exp.false(),  # it fails on quoted line breaks
                "hive_partitioning": exp.false(),
            }
        settings = [exp.EQ(this=exp.var(name), expression=value) for name, value in options.items()]
        call = "read_parquet" if self.header is None else "read_csv"
        return exp.Anonymous(this=call, expressions=[self._paths(), *settings])

    def _parquet_names(self, connection: Any) -> list[str]:
        """The columns of Parquet files; files that differ are refused, for making them equal could fail on a value."""
        from sqlglot import exp

        call = exp.Anonymous(this="parquet_schema", expressions=[self._paths()]).sql(dialect="duckdb")
        parts = "name, num_children, type, type_length, converted_type, logical_type, scale, precision"
        schemas: dict[str, list[tuple[Any, ...]]] = {}
        for file, *field in connection.sql(f"SELECT file_name, {parts} FROM {call}").fetchall():
            schemas.setdefault(file, []).append(tuple(field))
        first, *others = (schema[1:] for schema in schemas.values())  # without the root
        if any(sorted(map(repr, other)) != sorted(map(repr, first)) for other in others):
            raise TableError(f"{self.shown} do not all have the same columns and types; make them equal")
        names, inner = [], 0
        for name, children, *_ in first:  # depth first: a field is of the top if no field is still open
            if inner == 0:
                names.append(str(name))
            else:
                inner -= 1
            inner += children or 0
        return names

    def _paths(self) -> exp.Expression:
        from sqlglot import exp

        return exp.Array(expressions=[exp.Literal.string(_literally(path)) for path in self.paths])


def find_files(table: str | Path) -> Files:
    """The files that a path or a pattern names.

    >>> find_files("nowhere/census.parquet")
    Traceback (most recent call last):
    ...
    sfumato.errors.TableError: there is no file nowhere/census.parquet; check the path
    """
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
    ends = {_format(name) for name in found}
    if None in ends:
        raise TableError(f"{table} is not of a kind that can be read; use {', '.join(FORMATS)}")
    if len(ends) > 1:
        raise TableError(f"{table} matches files of more than one kind; name one kind, such as *.parquet")
    (end,) = ends
    paths = tuple(name.absolute() for name in found)
    if any("\\" in path.as_posix() and _PATTERN.search(path.as_posix()) for path in paths):
        raise TableError(f"{table} has a backslash beside one of * ? [ in its path; rename the file or folder")
    if end == ".parquet":
        return Files(paths, None)
    separator = "\t" if str(end).startswith(".tsv") else ","
    files = Files(paths, _header(paths[0], separator), separator)
    if any(_header(name, separator) != files.header for name in paths[1:]):
        raise TableError(f"{files.shown} do not all have the same header line; make them equal")
    return files


def _format(path: Path) -> str | None:
    return next((end for end in sorted(FORMATS, key=len, reverse=True) if path.name.lower().endswith(end)), None)


def _header(path: Path, separator: str) -> tuple[str, ...]:
    """The names in a CSV file's first line, and nothing of what follows it."""
    opener = gzip.open if path.name.lower().endswith(".gz") else Path.open
    try:
        with opener(path, "rb") as file:
            start = bytes(file.read(_LONGEST_HEADER))
        line = re.split(rb"[\r\n]", start, maxsplit=1)[0].decode("utf-8-sig")
        names = next(csv.reader([line], delimiter=separator, strict=True), [])
    except UnicodeDecodeError:
        raise TableError(f"the header of {path.name} is not UTF-8 text; save the file as UTF-8") from None
    except csv.Error:
        raise TableError(f"the header of {path.name} cannot be read; the first line must name the columns") from None
    except (OSError, EOFError, zlib.error):
        raise TableError(f"{path.name} cannot be opened; check that it may be read and is complete") from None
    if not any(name.strip() for name in names) or len(line) >= _LONGEST_HEADER - 4:
        raise TableError(f"{path.name} has no header; the first line must name the columns")
    return tuple(names)


def _literally(path: Path) -> str:
    """A path as a pattern that matches only itself, for the engine would expand it."""
    return _PATTERN.sub(r"[\g<0>]", path.as_posix())
