"""Synthetic rows to a file, batch by batch, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import ReleaseFileError
from sfumato.plain_text import printable, spreadsheet_safe

if TYPE_CHECKING:
    import pyarrow as pa


def check_place(path: Path) -> None:
    """Refuse, before any row is drawn, a place where no file of rows can be written."""
    if path.suffix not in (".csv", ".parquet"):
        raise ReleaseFileError(f"{path} must end in .csv or .parquet, so that the form is known")
    if not path.absolute().parent.is_dir():
        raise ReleaseFileError(f"the folder of {path} does not exist; choose another place with -o")
    if path.is_dir():
        raise ReleaseFileError(f"{path} is a folder; name a file with -o")


@contextmanager
def rows_file(path: Path, types: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """What writes batches as .csv or .parquet, by the file's ending; the file appears when all are written.

    Text goes into a .csv as no spreadsheet would run it.
    """
    check_place(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with _Csv(beside, types) if path.suffix == ".csv" else _parquet(beside, types) as writer:
            yield writer.write_batch
        beside.replace(path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "no access"  # the library's own text names other files
        raise ReleaseFileError(f"{path} cannot be written ({reason}); choose another place with -o") from None
    finally:
        beside.unlink(missing_ok=True)


def _parquet(path: Path, types: pa.Schema) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(path, types)


class _Csv:
    """Writes batches with names and labels that neither steer a terminal nor run in a spreadsheet."""

    def __init__(self, path: Path, types: pa.Schema) -> None:
        import pyarrow as pa
        import pyarrow.csv

        self._types = pa.schema([(_safe(field.name), field.type) for field in types])
        self._file = pyarrow.csv.CSVWriter(path, self._types)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa

        columns = [_safe_labels(column) if pa.types.is_string(column.type) else column for column in batch.columns]
        self._file.write_batch(pa.record_batch(columns, schema=self._types))

    def __enter__(self) -> _Csv:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _safe_labels(column: pa.Array) -> pa.Array:
    """Each label is looked at once, however many rows have it."""
    import pyarrow as pa

    encoded = column.dictionary_encode()
    return pa.array([_safe(label) for label in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def _safe(text: str) -> str:
    return spreadsheet_safe(printable(text))
