"""Synthetic rows to a file, batch by batch, whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import ReleaseFileError
from sfumato.releases.rows.csv_file import csv_file
from sfumato.schema.dialect import PLAIN, Dialect

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
def rows_file(path: Path, types: pa.Schema, dialect: Dialect = PLAIN) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """What writes batches as .csv or .parquet, by the file's ending; the file appears when all are written.

    Text goes into a .csv as no spreadsheet would run it. dialect: how a .csv is written.
    """
    check_place(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with csv_file(beside, types, dialect) if path.suffix == ".csv" else _parquet(beside, types) as writer:
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
