"""Write synthetic rows to a file, and compare their one-way and two-way shares with the release's answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import erfc, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.releases.file.artifact import keep_earlier
from sfumato.releases.rows.decode import Decoder, draw_blocks
from sfumato.releases.rows.encode import codes_in, read_back
from sfumato.releases.rows.model import Grouping, RandomNumbers, RowModel
from sfumato.releases.rows.wish import Lot, check_number
from sfumato.releases.rows.write import check_place, rows_file
from sfumato.schema import Schema
from sfumato.schema.dialect import PLAIN

if TYPE_CHECKING:
    import pyarrow as pa

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
