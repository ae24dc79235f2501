"""Synthetic rows to a file, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import ReleaseFileError
from sfumato.plain_text import printable, spreadsheet_safe

if TYPE_CHECKING:
    import pyarrow as pa


def write_rows(rows: pa.Table, path: Path) -> None:
    """Write a table as .csv or .parquet, by its ending; text goes into a .csv as no spreadsheet would run it."""
    if path.suffix not in (".csv", ".parquet"):
        raise ReleaseFileError(f"{path} must end in .csv or .parquet, so that the form is known")
    if not path.absolute().parent.is_dir():
        raise ReleaseFileError(f"the folder of {path} does not exist; choose another place with -o")
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        if path.suffix == ".csv":
            import pyarrow.csv

            pyarrow.csv.write_csv(_for_spreadsheets(rows), beside)
        else:
            import pyarrow.parquet

            pyarrow.parquet.write_table(rows, beside)
        beside.replace(path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "no access"  # the library's own text names other files
        raise ReleaseFileError(f"{path} cannot be written ({reason}); choose another place with -o") from None
    finally:
        beside.unlink(missing_ok=True)


def _for_spreadsheets(rows: pa.Table) -> pa.Table:
    """The rows with names and labels that neither steer a terminal nor run in a spreadsheet."""
    import pyarrow as pa

    def safe(text: str) -> str:
        return spreadsheet_safe(printable(text))

    columns = []
    for column in rows.columns:
        if pa.types.is_string(column.type):  # each label is looked at once, however many rows have it
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, pa.array([safe(t) for t in chunk.dictionary.to_pylist()]))
                for chunk in column.dictionary_encode().chunks
            ]
            columns.append(pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string())).cast(pa.string()))
        else:
            columns.append(column)
    return pa.table(columns, names=[safe(name) for name in rows.column_names])
