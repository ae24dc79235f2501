"""Write synthetic rows to CSV, plain or in the dialect of the table's file, or to Parquet; atomic, batch by batch."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.plain_text import file_safe
from sfumato.releases.file.artifact import replaced_when_written
from sfumato.releases.rows.model import arrow_texts
from sfumato.schema.dialect import PLAIN, Dialect, same_name

if TYPE_CHECKING:
    import pyarrow as pa


def csv_file(path: Path, types: pa.Schema, dialect: Dialect = PLAIN) -> PlainCsv | StatedCsv:
    """CSV writer of batches; names and labels are safe for terminals and spreadsheets."""
    # A field of nothing, alone on its line, must be quoted to be a row, which the quick writer does not do.
    return PlainCsv(path, types) if dialect == PLAIN and len(types) > 1 else StatedCsv(path, types, dialect)


class PlainCsv:
    """CSV writer with commas, double quotes and UTF-8, by pyarrow for speed."""

    def __init__(self, path: Path, types: pa.Schema) -> None:
        import pyarrow as pa
        import pyarrow.csv

        self._types = pa.schema([(file_safe(field.name), field.type) for field in types])
        self._file = pyarrow.csv.CSVWriter(path, self._types)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa

        columns = [_safe_labels(column) if pa.types.is_string(column.type) else column for column in batch.columns]
        self._file.write_batch(pa.record_batch(columns, schema=self._types))

    def __enter__(self) -> PlainCsv:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@dataclass
class StatedCsv:
    """CSV writer with the delimiter, quotes, encoding, numbers, dates and columns that a schema states."""

    path: Path
    types: pa.Schema
    dialect: Dialect
    _places: list[int | None] = field(init=False)

    def __enter__(self) -> StatedCsv:
        names = list(self.types.names)
        listed = {same_name(name): place for place, name in enumerate(names)}
        listed |= {name: place for place, name in enumerate(names)}
        wanted = self.dialect.columns or names
        self._places = [listed.get(name, listed.get(same_name(name))) for name in wanted]
        self._delimiter, quote = (
            self.dialect.delimiter or ",",
            '"' if self.dialect.quote is None else self.dialect.quote,
        )
        encoding = self.dialect.encoding or "utf-8"
        self._file = self.path.open("w", encoding=encoding, errors="replace", newline="")
        how: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE, "quotechar": None}
        self._bare = not quote
        self._writer = csv.writer(self._file, delimiter=self._delimiter, lineterminator="\n", **how)
        if self.dialect.columns is None:
            self._writer.writerow(map(self._plain, map(file_safe, names)))
        return self

    def write_batch(self, batch: pa.RecordBatch) -> None:
        texts = [self._texts(batch.column(place), name) for place, name in enumerate(self.types.names)]
        nothing = [""] * batch.num_rows
        self._writer.writerows(zip(*(nothing if at is None else texts[at] for at in self._places), strict=True))

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _texts(self, column: pa.Array, name: str) -> list[str]:
        import pyarrow as pa

        if pa.types.is_string(column.type):
            column = _safe_labels(column)
        write = self._spelling(self.dialect.date_format(name))
        return ["" if value is None else self._plain(write(value)) for value in column.to_pylist()]

    def _spelling(self, dates: str | None) -> Callable[[Any], str]:
        """Formatter of values with the dialect's decimal sign and date format."""
        decimal = self.dialect.decimal or "."

        def text(value: object) -> str:
            if isinstance(value, bool):
                return "true" if value else "false"
            if isinstance(value, float):
                return repr(value).replace(".", decimal)
            if isinstance(value, date):
                moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
                plain = moment.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
                return plain if dates is None else moment.strftime(dates)
            return str(value)

        return text

    def _plain(self, text: str) -> str:
        """Remove delimiters and line breaks from a field where the dialect has no quotes."""
        return text.replace(self._delimiter, " ").replace("\n", " ") if self._bare else text


def _safe_labels(column: pa.Array) -> pa.Array:
    """Make labels safe for files, each distinct one once."""
    encoded = column.dictionary_encode()
    return arrow_texts([file_safe(label) for label in encoded.dictionary.to_pylist()]).take(encoded.indices)


def check_place(path: Path) -> None:
    """Refuse an unwritable path or unknown suffix before any row is drawn."""
    if path.suffix not in (".csv", ".parquet"):
        raise ReleaseFileError(f"{path} must end in .csv or .parquet, so that the form is known")
    if not path.absolute().parent.is_dir():
        raise ReleaseFileError(f"the folder of {path} does not exist; choose another place with -o")
    if path.is_dir():
        raise ReleaseFileError(f"{path} is a folder; name a file with -o")


@contextmanager
def rows_file(path: Path, types: pa.Schema, dialect: Dialect = PLAIN) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Context of an atomic .csv or .parquet file, by its suffix: yields the function that writes a batch.

    Text goes into a .csv as no spreadsheet would run it. dialect: how a .csv is written.
    """
    check_place(path)
    with (
        replaced_when_written(path) as beside,
        csv_file(beside, types, dialect) if path.suffix == ".csv" else _parquet(beside, types) as writer,
    ):
        yield writer.write_batch


def _parquet(path: Path, types: pa.Schema) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(path, types)
