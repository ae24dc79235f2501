"""Rows of a release into a file, and how well they agree with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.arrays import Codes
from sfumato.frozen import dataclass
from sfumato.releases.file.earlier import keep_earlier
from sfumato.releases.rows.csv_reading import read_back
from sfumato.releases.rows.decode import Decoder
from sfumato.releases.rows.draw import check_number, draw_blocks
from sfumato.releases.rows.encode import codes_in
from sfumato.releases.rows.model import RowModel
from sfumato.releases.rows.quality import Agreement, Tally
from sfumato.releases.rows.random_numbers import RandomNumbers
from sfumato.releases.rows.write import check_place, rows_file
from sfumato.schema import Schema
from sfumato.schema.dialect import PLAIN

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Drawn:
    """A file of synthetic rows, how well they agree with the release, and where an earlier file of its name went."""

    path: Path
    rows: int
    agreements: tuple[Agreement, ...]
    kept: Path | None = None


def draw_to_file(model: RowModel, schema: Schema, rows: int, path: Path, seed: int | None = None) -> Drawn:
    """Draw rows straight into a .csv or .parquet file; what can be refused is refused before any is drawn."""
    check_place(path)
    check_number(rows)
    random, tally, decoder = RandomNumbers(seed), Tally.over(schema.domain), Decoder.of(schema)
    with rows_file(path, decoder.types, schema.file or PLAIN) as write:
        for batch in decoder.rows(draw_blocks(model, rows, random), random):
            write(batch)
        kept = keep_earlier(path)
    for codes in _as_written(path, schema, decoder.types):
        tally.add(codes)
    return Drawn(path, rows, tally.compare(model), kept)


def _as_written(path: Path, schema: Schema, types: pa.Schema) -> Iterator[dict[str, Codes]]:
    """The cells that the schema reads a file's rows into, some rows at a time; what is read into none is seen, too."""
    import pyarrow as pa
    from pyarrow import parquet

    if path.suffix == ".csv":
        batches = read_back(path, schema, types)
    else:
        columns = [name for name in types.names if any(name == part.column for part in schema.attributes.values())]
        batches = parquet.ParquetFile(path).iter_batches(columns=columns)
    for batch in batches:
        yield codes_in(pa.Table.from_batches([batch]), schema, schema.domain.names, whole=True)
