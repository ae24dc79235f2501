"""Synthetic rows to a file, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import ReleaseFileError

if TYPE_CHECKING:
    import pyarrow as pa


def write_rows(rows: pa.Table, path: Path) -> None:
    """Write a table as .csv or .parquet, by its ending."""
    if path.suffix not in (".csv", ".parquet"):
        raise ReleaseFileError(f"{path} must end in .csv or .parquet, so that the form is known")
    if not path.absolute().parent.is_dir():
        raise ReleaseFileError(f"the folder of {path} does not exist; choose another place with -o")
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.suffix == ".csv":
            import pyarrow.csv

            pyarrow.csv.write_csv(rows, beside)
        else:
            import pyarrow.parquet

            pyarrow.parquet.write_table(rows, beside)
        beside.replace(path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "no access"  # the library's own text names other files
        raise ReleaseFileError(f"{path} cannot be written ({reason}); choose another place with -o") from None
    finally:
        beside.unlink(missing_ok=True)
