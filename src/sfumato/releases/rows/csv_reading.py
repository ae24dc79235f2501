"""A reader's own CSV file, plain or written as the released table was: synthetic rows are written so too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.schema import Schema
from sfumato.schema.attributes import Boolean, Category, Date
from sfumato.schema.dialect import PLAIN, Dialect, same_name

if TYPE_CHECKING:
    import pyarrow as pa

MOST_HEADER = 2**16  # bytes in which the first line ends


def read_csv(path: Path, schema: Schema | None = None) -> pa.Table:
    """Its columns; those that the schema lists values or dates of stay texts, as they are spelled."""
    from pyarrow import csv

    dialect = _dialect(path, schema)
    header = _first_line(path, dialect)
    names = [name.strip('"') for name in header.split(dialect.delimiter or ",")]
    listed: dict[str, Any] = (
        {} if dialect.columns is None or _names_any(names, dialect) else {"column_names": dialect.columns}
    )
    types = _texts(schema, [*listed.get("column_names", names)])
    return csv.read_csv(
        path,
        csv.ReadOptions(encoding=dialect.encoding or "utf8", **listed),
        csv.ParseOptions(delimiter=dialect.delimiter or ",", quote_char=dialect.quote or '"'),
        csv.ConvertOptions(column_types=types, decimal_point=dialect.decimal or ".", strings_can_be_null=True),
    )


def read_back(path: Path, schema: Schema, types: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The attributes of synthetic rows as they stand in a file of ours, batch by batch. types: of all its columns."""
    import pyarrow as pa
    from pyarrow import csv

    dialect = schema.file or PLAIN
    written = {same_name(name): types.field(name).type for name in types.names}
    listed = dialect.columns or types.names
    kinds = {name: written.get(same_name(name), pa.string()) for name in listed}
    spelled = {name for name in listed if dialect.date_format(name) is not None}
    # A text is read as it is spelled: a label may look like a number, and a truth like a word.
    kinds |= {name: pa.string() for name, kind in kinds.items() if pa.types.is_boolean(kind) or name in spelled}
    used = {same_name(part.column or name) for name, part in schema.attributes.items()}
    columns = [name for name in listed if same_name(name) in used and same_name(name) in written]
    return iter(
        csv.open_csv(
            path,
            csv.ReadOptions(
                encoding=dialect.encoding or "utf8", column_names=listed, skip_rows=0 if dialect.columns else 1
            ),
            csv.ParseOptions(
                delimiter=dialect.delimiter or ",",
                quote_char='"' if dialect.quote is None else dialect.quote or False,
                newlines_in_values=True,
            ),
            csv.ConvertOptions(
                column_types=kinds,
                include_columns=columns,
                decimal_point=dialect.decimal or ".",
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
    )


def _dialect(path: Path, schema: Schema | None) -> Dialect:
    """How the schema says that the table is written, where this file is; plain where its first line tells otherwise."""
    stated = schema.file if schema is not None and schema.file is not None else PLAIN
    parted = stated.delimiter or ","
    return stated if parted in _first_line(path, stated) or parted == "," else PLAIN


def _first_line(path: Path, dialect: Dialect) -> str:
    with path.open("rb") as file:
        text = file.read(MOST_HEADER).decode(dialect.encoding or "utf-8-sig", errors="replace")
    return text.partition("\n")[0].strip("\r\ufeff")


def _names_any(names: list[str], dialect: Dialect) -> bool:
    known = {same_name(name) for name in dialect.columns or ()}
    return any(same_name(name) in known for name in names)


def _texts(schema: Schema | None, names: list[str]) -> dict[str, Any]:
    """The columns that are read as texts: a value such as 01 is no number."""
    import pyarrow as pa

    if schema is None:
        return {}
    texts = {
        same_name(word)
        for name, attribute in schema.attributes.items()
        if isinstance(attribute, Category | Boolean | Date)
        for word in (name, attribute.column or name)
    }
    return {name: pa.string() for name in names if same_name(name) in texts}
