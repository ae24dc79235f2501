"""CSV files as a source: names from the first record, no types, all values text."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import TableError
from sfumato.kernel.source.engines import Column
from sfumato.kernel.source.engines.csv_records import BLOCK, batches, first_record, opened
from sfumato.kernel.source.engines.origin import SOURCE, shown_files

LONGEST_HEADER = 2**20


@dataclass(frozen=True)
class CsvFiles:
    """CSV files with one header, read as one table."""

    paths: tuple[Path, ...]
    header: tuple[str, ...]
    separator: str = ","
    block: int = BLOCK  # bytes that are looked at together; what is read does not depend on it

    @property
    def shown(self) -> str:
        """What a message calls them."""
        return shown_files(self.paths)

    def describe(self, connection: Any) -> list[Column]:
        """Their columns, which have no types: detecting them would be reading values."""
        return [Column(name, None, f"c{place}") for place, name in enumerate(self.header)]

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make the used columns readable."""
        import pyarrow as pa

        places = sorted(int(column.reference[1:]) for column in used)
        schema = pa.schema([pa.field(f"c{place}", pa.string()) for place in places])
        records = batches(self.paths, self.separator, len(self.header), places, block=self.block)
        connection.register(SOURCE, pa.RecordBatchReader.from_batches(schema, records))


def find_csv(paths: tuple[Path, ...], separator: str) -> CsvFiles:
    """The files as one table; their headers must be equal."""
    files = CsvFiles(paths, _header(paths[0], separator), separator)
    if any(_header(name, separator) != files.header for name in paths[1:]):
        raise TableError(f"{files.shown} do not all have the same header line; make them equal")
    return files


def _header(path: Path, separator: str) -> tuple[str, ...]:
    """The names in a file's first record, and nothing of what follows it."""
    try:
        with opened(path) as file:
            start = bytes(file.read(LONGEST_HEADER))
    except (OSError, EOFError, ValueError, zlib.error):
        start = None
    if start is None:
        raise TableError(f"{path.name} cannot be opened; check that it may be read and is complete")
    fields = first_record(start if len(start) == LONGEST_HEADER else start + b"\n", separator)
    if fields is None or not any(field.strip() for field in fields):
        raise TableError(f"{path.name} has no header; the first line must name the columns")
    if any(b"\r" in field for field in fields):
        raise TableError(f"the lines of {path.name} end with bare carriage returns; save it with line feeds")
    try:
        return tuple(field.decode() for field in fields)
    except UnicodeDecodeError:
        pass
    raise TableError(f"the header of {path.name} is not UTF-8 text; save the file as UTF-8")
