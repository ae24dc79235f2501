"""Write synthetic rows to CSV, plain or in the dialect of the table's file, or to Parquet; atomic, batch by batch.

Write synthetic rows to a file, and compare their one-way and two-way shares with the release's answers.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from datetime import date, datetime
from itertools import combinations
from math import erfc, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.errors import ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.plain_text import file_safe
from sfumato.releases.file.artifact import keep_earlier, replaced_when_written
from sfumato.releases.rows.coding import Decoder, codes_in, draw_blocks, read_back
from sfumato.releases.rows.condition import Lot, check_number
from sfumato.releases.rows.model import Grouping, RandomNumbers, RowModel, arrow_texts
from sfumato.schema import Schema
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


# -- to file

MOST_GROUPS = 32  # of one attribute: longer ones are compared by ranges
MOST_PAIRS = 300


@dataclass(frozen=True)
class Agreement:
    """Differences between shares of the rows and one-way or two-way answers of the release.

    A difference is that of a group's share of the rows and the release's own answer about it, divided by its total; an
    answer below zero, which no rows can have, counts with all of its difference. by_chance: what to expect of as many
    rows, each drawn by itself from a table that has the answers.
    """

    of: str
    tables: int
    groups: int
    mean: float
    mean_by_chance: float
    largest: float
    largest_by_chance: float


@dataclass(frozen=True, eq=False)
class Tally:
    """Counts of rows by one and by two attributes.

    counts: of each table, (groups, ...); seen: of all rows, (1,); both updated in place by `add`.
    """

    groupings: dict[str, Grouping]
    tables: tuple[tuple[str, ...], ...]
    counts: tuple[Codes, ...]
    seen: Codes

    @classmethod
    def over(cls, domain: Domain) -> Tally:
        """Empty counts by every attribute and every pair, or a sample of pairs where there are very many."""
        every = {axis.name: Grouping.of(axis, MOST_GROUPS) for axis in domain}
        pairs = list(combinations(every, 2))
        tables = (*((name,) for name in every), *pairs[:: max(1, -(-len(pairs) // MOST_PAIRS))])
        shapes = [[every[name].size for name in names] for names in tables]
        return cls(
            every, tables, tuple(np.zeros(shape, dtype=np.int64) for shape in shapes), np.zeros(1, dtype=np.int64)
        )

    @property
    def rows(self) -> int:
        """Number of rows counted, including those outside all cells."""
        return int(self.seen[0])

    def add(self, codes: Mapping[str, Codes]) -> None:
        """Count further rows. codes: cell of each along every attribute, (rows,); -1 for a value outside all cells."""
        labels = {name: grouping.labels(np.maximum(codes[name], 0)) for name, grouping in self.groupings.items()}
        self.seen[0] += len(next(iter(codes.values())))
        for index, names in enumerate(self.tables):
            label, there = labels[names[0]], codes[names[0]] >= 0
            for name in names[1:]:
                label, there = label * self.groupings[name].size + labels[name], there & (codes[name] >= 0)
            flat = self.counts[index].reshape(-1)
            flat += np.bincount(label[there], minlength=len(flat))

    def compare(self, model: RowModel) -> tuple[Agreement, ...]:
        """Agreement of the rows with the release's marginals: one-way, then two-way."""
        agreements = []
        for ways, words in ((1, "one attribute"), (2, "two attributes")):
            chosen = [place for place, names in enumerate(self.tables) if len(names) == ways]
            groupings_of = [[self.groupings[name] for name in self.tables[place]] for place in chosen]
            answered = [model.margin(groupings) / model.total for groupings in groupings_of]
            if chosen:
                drawn = [self.counts[place] / self.rows for place in chosen]
                agreements.append(_agreement(words, drawn, answered, self.rows))
        return tuple(agreements)


def _agreement(words: str, drawn: Sequence[Floats], answered: Sequence[Floats], rows: int) -> Agreement:
    """Mean and largest difference of shares, and their expectation under simple random sampling."""
    off = [np.abs(mine - its).reshape(-1) for mine, its in zip(drawn, answered, strict=True)]
    shares = np.concatenate([np.clip(its, 0.0, 1.0).reshape(-1) for its in answered])
    spread = np.sqrt(shares * (1 - shares) / rows)
    every = np.concatenate(off)
    mean_by_chance = float(np.sqrt(2 / np.pi) * spread.mean())
    return Agreement(
        words, len(drawn), len(every), float(every.mean()), mean_by_chance, float(every.max()), _largest(spread)
    )


def _largest(spread: Floats) -> float:
    """Median of the largest of independent normal differences with these deviations, (n,), by bisection."""
    low, high = 0.0, 12.0 * float(spread.max())
    positive = spread[spread > 0]
    for _ in range(60):
        middle = (low + high) / 2
        positive = positive[positive > low / 9]  # of the others, none is ever the largest
        above = sum(map(erfc, (middle / (sqrt(2) * positive)).tolist()))
        low, high = (middle, high) if above > np.log(2) else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Drawn:
    """File of synthetic rows, its agreement with the release, and the new path of an earlier file of its name."""

    path: Path
    rows: int
    agreements: tuple[Agreement, ...]
    kept: Path | None = None


def draw_to_file(
    model: RowModel | Lot, schema: Schema, rows: int, path: Path, seed: int | None = None, table: int = 1
) -> Drawn:
    """Draw rows into a .csv or .parquet file; invalid arguments are refused before any is drawn."""
    check_place(path)
    check_number(rows)
    random, tally, decoder = RandomNumbers(seed, table), Tally.over(schema.domain), Decoder.of(schema)
    with rows_file(path, decoder.types, schema.file or PLAIN) as write:
        for batch in decoder.rows(draw_blocks(model, rows, random), random):
            write(batch)
        kept = keep_earlier(path)
    for codes in _as_written(path, schema, decoder.types):
        tally.add(codes)
    return Drawn(path, rows, tally.compare(model.model if isinstance(model, Lot) else model), kept)


def _as_written(path: Path, schema: Schema, types: pa.Schema) -> Iterator[dict[str, Codes]]:
    """Cells into which the schema reads a file's rows, batch by batch."""
    import pyarrow as pa
    from pyarrow import parquet

    if path.suffix == ".csv":
        batches = read_back(path, schema, types)
    else:
        columns = [name for name in types.names if any(name == part.column for part in schema.attributes.values())]
        batches = parquet.ParquetFile(path).iter_batches(columns=columns)
    for batch in batches:
        yield codes_in(pa.Table.from_batches([batch]), schema, schema.domain.names, whole=True)
